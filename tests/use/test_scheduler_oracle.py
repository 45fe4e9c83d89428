"""`check_running` finds the bugs of a scheduler, also in the state machine of the examples."""

from __future__ import annotations

import pickle
import runpy
from typing import Any, Final

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.places import EXAMPLES
from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import RunningApplication
from ugm.testing import RunningWorkError, check_running

EXAMPLE: Final = runpy.run_path(str(EXAMPLES / "scheduler_machine.py"))
Scheduler: Final[Any] = EXAMPLE["Scheduler"]
ANA: Final = UserGroup("ana")
ONE: Final = Resource(vcore=1000)


class ForgetsRelease(Scheduler):  # type: ignore[misc]
    """Leaves a finished job in the partition."""

    def finish(self, job: str) -> None:
        """Forget the release."""
        self.running.pop(job, None)


class ReleasesTooEarly(Scheduler):  # type: ignore[misc]
    """Releases the oldest job when any job finishes."""

    def finish(self, job: str) -> None:
        """Release another job."""
        if job in self.running:
            self.partition.end(next(iter(self.running)))
            del self.running[job]


class StartsOtherSize(Scheduler):  # type: ignore[misc]
    """Starts jobs that are larger than granted."""

    def start(self, job: str, size: Resource) -> None:
        """Start with another size."""
        if job not in self.running:
            super().start(job, size)
            if job in self.running:
                self.running[job] = size + ONE


class StartsWithoutGrant(Scheduler):  # type: ignore[misc]
    """Starts jobs that were denied."""

    def start(self, job: str, size: Resource) -> None:
        """Start in any case."""
        super().start(job, size)
        self.running.setdefault(job, size)


def run(scheduler: Any) -> None:  # noqa: ANN401 - a class of the example
    """Run the state machine with a scheduler, the same steps in every run."""
    machine = type("Machine", (EXAMPLE["SchedulerMachine"],), {"scheduler_type": scheduler})
    # Without the search for a shorter failure.
    chosen = settings(
        max_examples=40,
        stateful_step_count=10,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_correct_scheduler_passes() -> None:
    """The machine accepts a scheduler that asks before it starts and releases at the end."""
    run(Scheduler)


@pytest.mark.parametrize("scheduler", [ForgetsRelease, ReleasesTooEarly, StartsOtherSize, StartsWithoutGrant])
def test_planted_bug_is_found(scheduler: Any) -> None:  # noqa: ANN401 - a class of the example
    """The machine fails for each scheduler with a bug."""
    with pytest.raises(RunningWorkError):
        run(scheduler)


def test_every_difference_is_listed() -> None:
    """The error names missing, unknown and changed allocations, leaked applications, and survives pickling."""
    partition = Partition(parse_config("partitions: [{queues: [{name: q}]}]").partition())
    partition.admit("a", ANA, "root.q", [("a.0", ONE), ("a.1", ONE)])
    partition.admit("leaked", ANA, "root.q")
    with pytest.raises(RunningWorkError) as raised:
        check_running(partition, [RunningApplication("a", ANA, "root.q", [("a.0", ONE + ONE), ("a.2", ONE)])])

    text = str(pickle.loads(pickle.dumps(raised.value)))  # noqa: S301 - written by this test
    assert len(raised.value.findings) == 4
    assert all(name in text for name in ("'a.0'", "'a.1'", "'a.2'", "'leaked'"))


def test_application_occurs_once() -> None:
    """An application that is named twice is invalid."""
    with pytest.raises(RequestError, match="occurs twice"):
        check_running(Partition(), [RunningApplication("a", ANA, "root.q"), RunningApplication("a", ANA, "root.r")])

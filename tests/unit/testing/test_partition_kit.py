"""The test kit `ugm.testing`: its invariants, its oracle for schedulers, and that its machine finds what is wrong."""

from __future__ import annotations

import pickle
import runpy
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.partition_fixtures import Seats
from support.places import EXAMPLES
from support.tracking_fixtures import ONE, SUE, group, partition, user
from ugm import (
    AllocationRequest,
    Claim,
    Decision,
    InvariantError,
    Manager,
    Partition,
    RequestError,
    Resource,
    UserGroup,
    Violation,
    parse_config,
)
from ugm.configuration import PartitionConfig
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition, RunningApplication
from ugm.testing import PartitionMachine, RunningWorkError, check_never_above, check_running, verify_all

#: Enough to find what is wrong, and no time to make it small.
FIND = settings(max_examples=100, stateful_step_count=30, deadline=None, database=None, phases=[Phase.generate])


class Forgetful(Seats):
    """Forgets to give back what was charged with a priority."""

    def refund(self, claim: Claim) -> None:
        """Give it back, or not."""
        if not claim.priority:
            super().refund(claim)


class Lost(Seats):
    """Raises where it has to agree."""

    def charge(self, claim: Claim) -> None:
        """Take one, up to the third."""
        if self.used == 2:
            raise OverflowError
        super().charge(claim)


class WithForgetful(PartitionMachine):
    """A model that loses count."""

    def make_models(self) -> Sequence[QuotaModel]:
        """Return it."""
        return [Forgetful(4)]


class WithLost(PartitionMachine):
    """A model that raises in `charge`."""

    def make_models(self) -> Sequence[QuotaModel]:
        """Return it."""
        return [Lost(4)]


class Wrapper:
    """Leaves all but one operation to a partition."""

    def __init__(self, partition: AbstractPartition) -> None:
        self._partition = partition

    def __getattr__(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(self._partition, name)
        return found


class OneByOne(Wrapper):
    """Grants gangs one by one."""

    def allocate_all(self, requests: Sequence[AllocationRequest]) -> Decision:
        """Stop at the first that is denied."""
        for request in requests:
            decision = self._partition.allocate_all([request])
            if not decision:
                return decision
        return Decision()


class Silent(Wrapper):
    """Tells nobody who is over."""

    def exceeded_limits(self) -> tuple[Violation, ...]:
        """Return nothing."""
        return ()


@pytest.mark.ci
@pytest.mark.parametrize(("machine", "error"), [(WithForgetful, AssertionError), (WithLost, OverflowError)])
def test_wrong_models_are_found(machine: type[PartitionMachine], error: type[Exception]) -> None:
    """A quota model that loses count, or raises where it must not, is found."""
    with pytest.raises(error):
        run_state_machine_as_test(machine, settings=FIND)


@pytest.mark.parametrize("wrapper", [pytest.param(OneByOne, marks=pytest.mark.ci), Silent])
def test_wrong_wrappers_are_found(wrapper: type[Wrapper]) -> None:
    """So is a wrapper around a partition that answers otherwise than a partition does."""

    class Machine(PartitionMachine):
        def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> AbstractPartition:
            made: AbstractPartition = wrapper(super().make_partition(config, models))  # type: ignore[assignment]  # as embedders may
            return made

    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Machine, settings=FIND)


def test_verify_all_of_a_partition() -> None:
    """A partition can be checked like a manager; a counter that has drifted is found, and so is a limit exceeded."""
    limits = "partitions: [{limits: [{users: ['*'], maxresources: {memory: 4}}], queues: [{name: a}]}]"
    checked = Partition(parse_config(limits).partition())
    checked.submit("app", SUE, "root.a")
    checked.allocate("app-0", "app", Resource(memory=3))
    verify_all(checked)
    check_never_above(checked)
    checked.adopt("app-1", "app", Resource(memory=3))
    verify_all(checked)
    with pytest.raises(InvariantError, match=r"^user 'sue' in root: 6 of 4 memory used, 2 too much"):
        check_never_above(checked)
    checked._state.tree.root.chain[0].free_memory += 1
    with pytest.raises(InvariantError):
        verify_all(checked)


def test_never_above_finds_both() -> None:
    """Users and groups that use or run more than is allowed are named."""
    manager = Manager(partition({"root.a": [user("sue", memory=1), group("dev", applications=1)]}))
    for application in ("app-1", "app-2"):
        manager.adopt("root.a", application, ONE, SUE)

    with pytest.raises(InvariantError) as caught:
        check_never_above(manager)
    assert caught.value.findings == (
        "user 'sue' in root.a: 2 of 1 memory used, 1 too much (limit for 'sue')",
        "group 'dev' in root.a: 2 of 1 applications running (limit for 'dev')",
    )


def test_verify_all_has_the_manager_recompute() -> None:
    """Damage to a counter that nobody shows is found all the same."""
    manager = Manager(partition({"root": [user("sue", memory=9)]}))
    manager.increase("root.a", "app-1", ONE, SUE)
    sue = manager.get_user_tracker("sue")
    assert sue is not None
    sue._tree.counters["root"].free_memory += 5

    with pytest.raises(InvariantError) as caught:
        verify_all(manager)
    assert str(caught.value) == "user 'sue' counts -4 memory in root, but its applications hold 1"


EXAMPLE: Final = runpy.run_path(str(EXAMPLES / "scheduler_machine.py"))
Scheduler: Final[Any] = EXAMPLE["Scheduler"]
ANA: Final = UserGroup("ana")
CORE: Final = Resource(vcore=1000)


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
                self.running[job] = size + CORE


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
    partition.admit("a", ANA, "root.q", [("a.0", CORE), ("a.1", CORE)])
    partition.admit("leaked", ANA, "root.q")
    with pytest.raises(RunningWorkError) as raised:
        check_running(partition, [RunningApplication("a", ANA, "root.q", [("a.0", CORE + CORE), ("a.2", CORE)])])

    text = str(pickle.loads(pickle.dumps(raised.value)))  # noqa: S301 - written by this test
    assert len(raised.value.findings) == 4
    assert all(name in text for name in ("'a.0'", "'a.1'", "'a.2'", "'leaked'"))


def test_application_occurs_once() -> None:
    """An application that is named twice is invalid."""
    with pytest.raises(RequestError, match="occurs twice"):
        check_running(Partition(), [RunningApplication("a", ANA, "root.q"), RunningApplication("a", ANA, "root.r")])

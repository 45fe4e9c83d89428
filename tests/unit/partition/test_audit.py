"""The ledger compared with the allocations that run, and with all counters."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from support.partition_fixtures import changing_nothing, in_every_state, memory
from ugm import InvariantError, Partition, Resource
from ugm.partition import RunningAllocation


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return in_every_state()


def running_in(partition: Partition) -> dict[str, RunningAllocation]:
    """Return what the ledger says that runs."""
    held = [allocation for allocation in partition.allocations() if allocation.state.value != "pending"]
    return {
        allocation.allocation_id: RunningAllocation(
            allocation.allocation_id, allocation.application_id, allocation.usage
        )
        for allocation in held
    }


def test_differences(partition: Partition) -> None:
    """Every difference is reported, by id, and nothing is changed."""
    running = [
        RunningAllocation("app", "app", memory(4)),
        RunningAllocation("other", "app", memory(1)),
        RunningAllocation("new", "app", memory(1)),
        RunningAllocation("ghost", "gone", Resource()),
    ]
    with changing_nothing(partition):
        report = partition.audit(running)
    assert report
    assert str(report) == (
        "'app' of 'app' with memory 5 is in the ledger, but 'app' of 'app' with memory 4 runs\n"
        "'ghost' of the unknown application 'gone' with nothing runs, but is not in the ledger\n"
        "'new' of 'app' with memory 1 runs, but is not in the ledger\n"
        "'other' of 'other' with memory 1 is in the ledger, but 'other' of 'app' with memory 1 runs\n"
        "'p' of 'app' with memory 1 is in the ledger, but is not running"
    )
    assert [difference.allocation_id for difference in report.differences] == ["app", "ghost", "new", "other", "p"]


def test_report_for_programs(partition: Partition) -> None:
    """A report is told in JSON."""
    report = partition.audit([RunningAllocation("ghost", "gone", memory(1)), *running_in(partition).values()])
    assert json.loads(json.dumps(report.to_dict())) == {
        "differences": [
            {
                "ledger": None,
                "running": {"allocation_id": "ghost", "application_id": "gone", "usage": {"memory": 1}, "node": None},
                "is_application_known": False,
            }
        ]
    }


Corrupt = Callable[[Partition], object]


CORRUPTIONS: dict[str, Corrupt] = {
    "application 'app' is missing, against the rows": lambda p: p._state.applications.pop("app"),
    "queue root.a is missing, against the rows": lambda p: p._state.tree.queues.pop("root.a"),
    "queue root.a has usage {'memory': 8}, but {'memory': 7}": lambda p: setattr(
        p._state.tree.queues["root.a"].counter, "free_memory", 1
    ),
    "queue root.a has running applications 3": lambda p: setattr(p._state.tree.queues["root.a"].counter, "running", 3),
    "user 'sue' has applications []": lambda p: p._state.holding_index.users["sue"].holdings.clear(),
}


@pytest.mark.parametrize(("finding", "corrupt"), CORRUPTIONS.items(), ids=CORRUPTIONS)
def test_verify_finds_damage(partition: Partition, finding: str, corrupt: Corrupt) -> None:
    """Whatever does not follow from the rows is found, and named."""
    corrupt(partition)
    with pytest.raises(InvariantError) as caught:
        partition.verify()
    assert any(one.startswith(finding) for one in caught.value.findings)

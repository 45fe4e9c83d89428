"""The dictionaries of events do not change, because clients rely on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.budgets import BudgetChange
from ugm.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    BudgetChanged,
    ConfigurationChanged,
    Denied,
    Event,
    GroupAssigned,
    ModelsChanged,
    NodeChanged,
    PartitionClosed,
    Preempted,
    QueueQuotaSet,
    ReductionTimersStarted,
    Released,
    Renewed,
    RequestPlaced,
    RequestWithdrawn,
    ReservationChanged,
    Resized,
)
from ugm.partition import Allocation, AllocationState, ApplicationState, GangStyle
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.events import event_name, event_to_dict

NO_CONFIG: Final = CompiledConfig.of(None)
ONE: Final = Resource(memory=1)
HELD: Final = Allocation("a", "app", ONE, AllocationState.HELD, placeholder=False, priority=0, preemptible=True)
PENDING: Final = Allocation("a", "app", ONE, AllocationState.PENDING, placeholder=True, priority=-3, preemptible=False)


#: An event of each kind, and some of another content.
EVENTS: Final[list[Event]] = [
    ApplicationSubmitted(
        "app",
        UserGroup("sue", ("dev", "ops")),
        "root.a",
        "A",
        {"tier": "\ud800"},
        GangStyle.HARD,
        is_adopted=True,
        group=None,
    ),
    QueueQuotaSet("root.a", ONE),
    ReservationChanged("root", None, "x.0"),
    GroupAssigned("app", "sue", None),
    ApplicationFailing("app"),
    ApplicationEnded("app", ApplicationState.FAILED),
    AllocationRequested(PENDING),
    RequestWithdrawn(PENDING),
    Allocated(HELD),
    Allocated(HELD, "old"),
    Resized(HELD, Resource(vcore=2)),
    Renewed(HELD, 60),
    Preempted(HELD),
    RequestPlaced(PENDING),
    ReductionTimersStarted(("root.a", "root.b"), 7),
    Released(HELD),
    NodeChanged("node", None, ONE),
    ModelsChanged((), ("Licences", "Budget")),
    BudgetChanged(BudgetChange.transfer("lab", "ops", ONE, recipient_owner="sue", reason="why", change_id="7")),
    PartitionClosed(),
]
#: Their dictionaries.
PLAIN_DATA: Final[list[dict[str, Any]]] = json.loads((Path(__file__).parent / "event_dicts.json").read_text("utf-8"))


@pytest.mark.parametrize(("event", "plain"), [*zip(EVENTS, PLAIN_DATA, strict=True)])
def test_plain_data(event: Event, plain: dict[str, Any]) -> None:
    """Each kind of event has one dictionary."""
    assert event_to_dict(event) == plain
    assert event_name(type(event)) == plain["event"]


def test_every_event_has_plain_data() -> None:
    """No kind of event is missing here; configurations and denials have their own tests."""
    assert {*map(type, EVENTS)} | {ConfigurationChanged, Denied} == set(get_args(Event))


def test_a_configuration() -> None:
    """A dictionary has only what changed, and the author."""
    event = ConfigurationChanged(NO_CONFIG, NO_CONFIG, "ana")
    assert event_to_dict(event) == {"event": "configured", "changes": event.changes.to_dict(), "author": "ana"}


def test_a_denial() -> None:
    """A denial has its requests and its decision."""
    events: list[Event] = []
    config = parse_config("partitions: [{queues: [{name: a, resources: {max: {memory: 0}}}]}]").partition()
    partition = Partition(config, subscribers=[lambda _, batch: events.extend(batch)])
    partition.submit("app", UserGroup("sue"), "root.a")
    partition.allocate("a", "app", ONE)
    denial = events[-1]

    assert isinstance(denial, Denied)
    assert event_to_dict(denial) == {
        "event": "denied",
        "asks": [{**denial.requests[0]._asdict(), "usage": {"memory": 1}, "prefer": []}],
        "decision": denial.decision.to_dict(),
    }

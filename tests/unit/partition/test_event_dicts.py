"""The dictionaries of events do not change, because clients rely on them."""

from __future__ import annotations

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

HELD_DICT: Final = {
    "allocation_id": "a",
    "application_id": "app",
    "usage": {"memory": 1},
    "state": "held",
    "placeholder": False,
    "priority": 0,
    "preemptible": True,
    "until": None,
    "duration": None,
    "node": None,
    "label": None,
    "assign": None,
    "prefer": [],
}
PENDING_DICT: Final = HELD_DICT | {"state": "pending", "placeholder": True, "priority": -3, "preemptible": False}

#: Each event with its dictionary.
PLAIN_DATA: Final[list[tuple[Event, dict[str, Any]]]] = [
    (
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
        {
            "event": "submitted",
            "application_id": "app",
            "user": {"name": "sue", "groups": ["dev", "ops"]},
            "queue_path": "root.a",
            "asked_queue": "A",
            "tags": {"tier": "\ud800"},
            "gang_style": "hard",
            "is_adopted": True,
            "group": None,
        },
    ),
    (QueueQuotaSet("root.a", ONE), {"event": "quota_given", "queue_path": "root.a", "quota": {"memory": 1}}),
    (
        ReservationChanged("root", None, "x.0"),
        {"event": "reservation_changed", "queue_path": "root", "before": None, "after": "x.0"},
    ),
    (
        GroupAssigned("app", "sue", None),
        {"event": "group_assigned", "application_id": "app", "user": "sue", "group": None},
    ),
    (ApplicationFailing("app"), {"event": "failing", "application_id": "app"}),
    (ApplicationEnded("app", ApplicationState.FAILED), {"event": "ended", "application_id": "app", "state": "failed"}),
    (AllocationRequested(PENDING), {"event": "asked", "allocation": PENDING_DICT}),
    (RequestWithdrawn(PENDING), {"event": "withdrawn", "allocation": PENDING_DICT}),
    (Allocated(HELD), {"event": "allocated", "allocation": HELD_DICT, "replaces": ""}),
    (Allocated(HELD, "old"), {"event": "allocated", "allocation": HELD_DICT, "replaces": "old"}),
    (Resized(HELD, Resource(vcore=2)), {"event": "resized", "allocation": HELD_DICT, "before": {"vcore": 2}}),
    (Renewed(HELD, 60), {"event": "renewed", "allocation": HELD_DICT, "before": 60}),
    (Preempted(HELD), {"event": "preempted", "allocation": HELD_DICT}),
    (RequestPlaced(PENDING), {"event": "request_placed", "allocation": PENDING_DICT}),
    (
        ReductionTimersStarted(("root.a", "root.b"), 7),
        {"event": "reduction_timers_started", "queue_paths": ["root.a", "root.b"], "since": 7},
    ),
    (Released(HELD), {"event": "released", "allocation": HELD_DICT}),
    (NodeChanged("node", None, ONE), {"event": "node_changed", "name": "node", "before": None, "after": {"memory": 1}}),
    (
        ModelsChanged((), ("Licences", "Budget")),
        {"event": "models_changed", "before": [], "after": ["Licences", "Budget"]},
    ),
    (
        BudgetChanged(BudgetChange.transfer("lab", "ops", ONE, recipient_owner="sue", reason="why", change_id="7")),
        {
            "event": "budget_changed",
            "change": {
                "kind": "transfer",
                "budget": "lab",
                "amounts": {"memory": 1},
                "owner": "",
                "recipient": "ops",
                "recipient_owner": "sue",
                "reason": "why",
                "change_id": "7",
            },
        },
    ),
    (PartitionClosed(), {"event": "closed"}),
]


@pytest.mark.parametrize(
    ("event", "plain"), PLAIN_DATA, ids=[f"{number}-{one[1]['event']}" for number, one in enumerate(PLAIN_DATA)]
)
def test_plain_data(event: Event, plain: dict[str, Any]) -> None:
    """Each kind of event has one dictionary."""
    assert event_to_dict(event) == plain
    assert event_name(type(event)) == plain["event"]


def test_every_event_has_plain_data() -> None:
    """No kind of event is missing here; configurations and denials have their own tests."""
    assert {type(event) for event, _ in PLAIN_DATA} | {ConfigurationChanged, Denied} == set(get_args(Event))


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

"""The plain data of events does not change, because old journals and clients rely on it."""

from __future__ import annotations

import json
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
    event_name,
    event_to_dict,
)
from ugm.partition import Allocation, AllocationState, ApplicationState, GangStyle
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import decode_events, encode_allocation, encode_events, event_row

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
}
PENDING_DICT: Final = HELD_DICT | {"state": "pending", "placeholder": True, "priority": -3, "preemptible": False}
HELD_ROW: Final = ["a", "app", {"memory": 1}]
PENDING_ROW: Final = ["a", "app", {"memory": 1}, "pending", 1, -3, 0]

#: Each event with its row and its dictionary.
PLAIN_DATA: Final[list[tuple[Event, list[Any], dict[str, Any]]]] = [
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
        ["sub", "app", "sue", ["dev", "ops"], "root.a", "A", {"tier": "\ud800"}, "hard", True, None],
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
    (
        QueueQuotaSet("root.a", ONE),
        ["quota", "root.a", {"memory": 1}],
        {"event": "quota_given", "queue_path": "root.a", "quota": {"memory": 1}},
    ),
    (
        ReservationChanged("root", None, "x.0"),
        ["reserve", "root", None, "x.0"],
        {"event": "reservation_changed", "queue_path": "root", "before": None, "after": "x.0"},
    ),
    (
        GroupAssigned("app", "sue", None),
        ["link", "app", "sue", None],
        {"event": "group_assigned", "application_id": "app", "user": "sue", "group": None},
    ),
    (ApplicationFailing("app"), ["failing", "app"], {"event": "failing", "application_id": "app"}),
    (
        ApplicationEnded("app", ApplicationState.FAILED),
        ["end", "app", "failed"],
        {"event": "ended", "application_id": "app", "state": "failed"},
    ),
    (AllocationRequested(PENDING), ["ask", *PENDING_ROW], {"event": "asked", "allocation": PENDING_DICT}),
    (RequestWithdrawn(PENDING), ["back", *PENDING_ROW], {"event": "withdrawn", "allocation": PENDING_DICT}),
    (Allocated(HELD), ["+", *HELD_ROW], {"event": "allocated", "allocation": HELD_DICT, "replaces": ""}),
    (
        Allocated(HELD, "old"),
        ["+for", "old", *HELD_ROW],
        {"event": "allocated", "allocation": HELD_DICT, "replaces": "old"},
    ),
    (
        Resized(HELD, Resource(vcore=2)),
        ["size", {"vcore": 2}, *HELD_ROW],
        {"event": "resized", "allocation": HELD_DICT, "before": {"vcore": 2}},
    ),
    (
        Renewed(HELD, 60),
        ["renew", 60, *HELD_ROW],
        {"event": "renewed", "allocation": HELD_DICT, "before": 60},
    ),
    (Preempted(HELD), ["go", *HELD_ROW], {"event": "preempted", "allocation": HELD_DICT}),
    (RequestPlaced(PENDING), ["placed", *PENDING_ROW], {"event": "request_placed", "allocation": PENDING_DICT}),
    (
        ReductionTimersStarted(("root.a", "root.b"), 7),
        ["above", ["root.a", "root.b"], 7],
        {"event": "reduction_timers_started", "queue_paths": ["root.a", "root.b"], "since": 7},
    ),
    (Released(HELD), ["-", *HELD_ROW], {"event": "released", "allocation": HELD_DICT}),
    (
        NodeChanged("node", None, ONE),
        ["node", "node", None, {"memory": 1}],
        {"event": "node_changed", "name": "node", "before": None, "after": {"memory": 1}},
    ),
    (
        ModelsChanged((), ("Licences", "Budget")),
        ["models", [], ["Licences", "Budget"]],
        {"event": "models_changed", "before": [], "after": ["Licences", "Budget"]},
    ),
    (
        BudgetChanged(BudgetChange.transfer("lab", "ops", ONE, recipient_owner="sue", reason="why", change_id="7")),
        ["budget", "transfer", "lab", {"memory": 1}, "", "ops", "sue", "why", "7"],
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
    (PartitionClosed(), ["close"], {"event": "closed"}),
]


SPECIAL: Final = (
    {"placeholder": True},
    {"priority": 1},
    {"preemptible": False},
    {"until": 7},
    {"duration": 60},
    {"node": "n1"},
)


@pytest.mark.parametrize("change", [{}, {"state": AllocationState.TERMINATING}, *SPECIAL])
def test_short_rows(change: dict[str, Any]) -> None:
    """The shortcut for ordinary allocations gives the row that the values of the allocation determine."""
    allocation = HELD._replace(**change)

    assert event_row(Allocated(allocation)) == ["+", *encode_allocation(allocation)]
    assert event_row(Released(allocation)) == ["-", *encode_allocation(allocation)]
    assert event_row(Allocated(allocation, "old")) == ["+for", "old", *encode_allocation(allocation)]


@pytest.mark.parametrize(("event", "row", "plain"), PLAIN_DATA, ids=[each[1][0] for each in PLAIN_DATA])
def test_plain_data(event: Event, row: list[Any], plain: dict[str, Any]) -> None:
    """Each kind of event has one row, which is decoded to the same event, and one dictionary."""
    data = encode_events([event])

    assert json.loads(data) == [row]
    assert decode_events(data, NO_CONFIG) == (event,)
    assert event_to_dict(event) == plain
    assert event_name(type(event)) == plain["event"]


def test_every_event_has_plain_data() -> None:
    """No kind of event is missing here; configurations and denials have their own tests."""
    assert {type(event) for event, _, _ in PLAIN_DATA} | {ConfigurationChanged, Denied} == set(get_args(Event))


def test_a_configuration() -> None:
    """A row has the whole configuration, a dictionary only what changed."""
    event = ConfigurationChanged(NO_CONFIG, NO_CONFIG)
    [decoded] = decode_events(encode_events([event]), NO_CONFIG)

    assert isinstance(decoded, ConfigurationChanged)
    assert (decoded.before, decoded.after.config, decoded.author) == (NO_CONFIG, None, "")
    assert event_to_dict(event) == {"event": "configured", "changes": event.changes.to_dict(), "author": ""}


def test_the_author_of_a_configuration() -> None:
    """A row has the author only if there is one, so rows of earlier versions are read."""
    rows = [json.loads(encode_events([ConfigurationChanged(NO_CONFIG, NO_CONFIG, author)])) for author in ("", "ana")]
    [decoded] = decode_events(json.dumps(rows[1]).encode(), NO_CONFIG)

    assert rows == [[["config", None]], [["config", None, "ana"]]]
    assert isinstance(decoded, ConfigurationChanged)
    assert decoded.author == "ana"


def test_a_denial() -> None:
    """A denial has a dictionary, and is not stored."""
    events: list[Event] = []
    config = parse_config("partitions: [{queues: [{name: a, resources: {max: {memory: 0}}}]}]").partition()
    partition = Partition(config, subscribers=[lambda _, batch: events.extend(batch)])
    partition.submit("app", UserGroup("sue"), "root.a")
    partition.allocate("a", "app", ONE)
    denial = events[-1]

    assert isinstance(denial, Denied)
    assert encode_events([denial]) == b""
    assert event_to_dict(denial) == {
        "event": "denied",
        "asks": [{**denial.requests[0]._asdict(), "usage": {"memory": 1}}],
        "decision": denial.decision.to_dict(),
    }

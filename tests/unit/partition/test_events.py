"""The events of a partition: what subscribers get, and the plain data of every kind."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from threading import Thread
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

SUE = UserGroup("sue", ("dev",))
ONE = Resource(memory=1)
CONFIG = parse_config("""
partitions:
- name: default
  placementrules: [{name: provided, create: true}]
  queues:
  - name: root
    limits: [{limit: team, groups: [dev], maxresources: {memory: 5}}]
""").partition()


class Follower:
    """Somebody who writes everything down."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._seen = 0
        self.partition = Partition(CONFIG, subscribers=[self])

    def __call__(self, first: int, events: tuple[Event, ...]) -> None:
        """Write down what happened."""
        assert first == len(self.events) + 1
        # A follower may ask: the lock is free.
        self.partition.verify()
        self.events += events

    def news(self) -> list[Event]:
        """Return what was told since the last call."""
        events = self.events[self._seen :]
        self._seen = len(self.events)
        return events


@pytest.fixture(name="follower")
def _follower() -> Follower:
    follower = Follower()
    follower.partition.submit("app", SUE, "root.a", tags={"tier": "gold"})
    follower.news()
    return follower


def held(name: str, usage: Resource = ONE, state: AllocationState = AllocationState.HELD) -> Allocation:
    """Return an allocation of the one application."""
    return Allocation(name, "app", usage, state, placeholder=False, priority=0, preemptible=True)


def test_resized_and_replaced(follower: Follower) -> None:
    """A change of size is one event; a replacement gives back one allocation and grants another."""
    follower.partition.allocate("a", "app", ONE, placeholder=True)
    follower.news()
    follower.partition.resize("a", Resource(memory=2))
    placeholder = held("a", Resource(memory=2))._replace(placeholder=True)
    assert follower.news() == [Resized(placeholder, ONE)]
    follower.partition.replace("a", "b", ONE)
    assert follower.news() == [Released(placeholder), Allocated(held("b"), replaces="a")]


def test_ends(follower: Follower) -> None:
    """An application that fails is told twice: when it does, and when its last allocation is gone."""
    follower.partition.allocate("a", "app", ONE)
    follower.news()
    follower.partition.fail("app")
    follower.partition.release("a")
    going = held("a", state=AllocationState.TERMINATING)
    assert follower.news() == [
        ApplicationFailing("app"),
        Preempted(going),
        Released(going),
        ApplicationEnded("app", ApplicationState.FAILED),
    ]
    follower.partition.submit("other", SUE, "root.a")
    follower.partition.complete("other")
    assert follower.news()[-1] == ApplicationEnded("other", ApplicationState.COMPLETED)


def test_nodes_and_configuration(follower: Follower) -> None:
    """Changes of nodes and of the configuration are told, with what was before; no change is no event."""
    for _ in range(2):
        follower.partition.add_node("n", ONE)
    follower.partition.remove_node("n")
    follower.partition.configure(None)
    added, removed, configured = follower.news()

    assert [added, removed] == [NodeChanged("n", None, ONE), NodeChanged("n", ONE, None)]
    assert isinstance(configured, ConfigurationChanged)
    assert str(configured.changes).splitlines() == ["- group limit 'dev' in root: memory 5", "~ placement rules"]


def test_a_follower_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What a follower raises is logged; the models are told, and the call succeeds."""
    events_found: list[Event] = []

    def fails(_: int, events: tuple[Event, ...]) -> None:
        raise OSError(len(events))

    partition = Partition(CONFIG, subscribers=[fails, lambda _, events: events_found.extend(events)])
    with caplog.at_level(logging.ERROR):
        assert partition.submit("app", SUE, "root.a")

    assert len(events_found) == 1
    assert f"subscriber {fails!r} failed on 1 events from number 1 on" in caplog.text


def test_a_follower_that_changes_the_partition() -> None:
    """The events that a follower causes come to all followers after it has returned."""
    came: list[int] = []

    def follow(first: int, _: tuple[Event, ...]) -> None:
        if first == 1:
            partition.add_node("b", ONE)
            assert came == []

    partition = Partition(subscribers=[follow, lambda first, _: came.append(first)])
    partition.add_node("a", ONE)

    assert came == [1, 2]


def test_numbers_are_without_gaps_between_threads() -> None:
    """Whatever threads do at once, every event has its own number, and none is left out."""
    numbers: list[int] = []
    partition = Partition(subscribers=[lambda first, events: numbers.extend(range(first, first + len(events)))])

    def add(name: str) -> None:
        for count in range(100):
            partition.add_node(f"{name}-{count}", ONE)

    threads = [Thread(target=add, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 401))


NO_CONFIG: Final = CompiledConfig.of(None)
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

"""What those are told who follow a partition."""

from __future__ import annotations

import logging
from threading import Thread

import pytest

from ugm import Allocation, Partition, Resource, UserGroup, parse_config
from ugm.events import (
    Allocated,
    ApplicationEnded,
    ApplicationFailing,
    ConfigurationChanged,
    Event,
    NodeChanged,
    Preempted,
    Released,
    Resized,
)
from ugm.partition import AllocationState, ApplicationState

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

"""Subscriptions: clients receive the events of the leader, in order, at least once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event as Flag
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from support.partition_fixtures import config, memory
from support.service_fixtures import CONFIG, eventually, running, started
from ugm import RequestError
from ugm.events import Denied, Event, event_to_dict
from ugm.journal import open_partition
from ugm.service import (
    ConnectedPartition,
    DeadlineError,
    ProtocolError,
    Service,
    Subscription,
    UnavailableError,
    connect,
    connect_async,
)
from ugm.service.addresses import LeaderAccess
from ugm.service.event_stream import EventReader


class Events:
    """A subscriber that keeps all events."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, tuple[Event, ...]]] = []

    def __call__(self, first: int, events: tuple[Event, ...], /) -> None:
        """Keep the events of an operation."""
        self.batches.append((first, events))

    @property
    def all(self) -> list[dict[str, Any]]:
        """All events but denials, as dictionaries."""
        events = [event_to_dict(event) for _, events in self.batches for event in events]
        return [event for event in events if event["event"] != "denied"]

    @property
    def denials(self) -> list[Denied]:
        """All denials."""
        return [event for _, events in self.batches for event in events if isinstance(event, Denied)]

    @property
    def ids(self) -> list[str]:
        """The ids of the allocations of all events."""
        return [event["allocation"]["allocation_id"] for event in self.all if "allocation" in event]


@pytest.fixture(name="journal", params=[None, "j"], ids=["memory", "journal"])
def _journal(request: pytest.FixtureRequest) -> str | None:
    return request.param  # type: ignore[no-any-return] # one of the parameters


@pytest.fixture(name="service")
def _service(journal: str | None, quick_folder: Path) -> Iterator[Service]:
    with running(quick_folder, journal=journal) as service:
        yield service


@pytest.fixture(name="client")
def _client(service: Service) -> Iterator[ConnectedPartition]:
    with started(service) as partition:
        yield partition


def change(partition: ConnectedPartition) -> None:
    """Make changes of many kinds."""
    assert partition.allocate("one", "app", memory(1))
    assert not partition.allocate("huge", "app", memory(5000))
    assert partition.resize("one", memory(3))
    partition.add_node("host", memory(9))
    partition.configure(config("{name: a, resources: {max: {memory: 500}}}, {name: b}"))
    partition.configure(config("{name: a}"))
    assert partition.release("one")
    partition.complete("app")


def test_same_events_as_at_the_leader(journal: str | None, quick_folder: Path) -> None:
    """A remote subscriber gets the events of a subscriber of the leader, except denials; numbers grow."""
    here, there = Events(), Events()
    location = None if journal is None else quick_folder / journal
    service = Service(location, f"unix:{quick_folder}/s", config=CONFIG, subscribers=[here])
    service.start()
    with started(service) as client:
        eventually(lambda: here.all and here.all[-1]["event"] == "submitted")
        before = len(here.all)
        with client.subscribe(there) as subscription:
            change(client)
            eventually(lambda: there.all and there.all[-1]["event"] == here.all[-1]["event"] == "ended")
            assert there.all == here.all[before:]
            eventually(lambda: subscription.number >= there.batches[-1][0])
    service.stop()
    numbers = [first + index for first, events in there.batches for index in range(len(events))]
    assert numbers == sorted(set(numbers))


def test_denials(service: Service, client: ConnectedPartition) -> None:
    """A subscriber that wants denials gets each of them, in order, with the number of the last change before it.

    A change and a denial that the leader publishes together arrive in two messages, the change first.
    """
    plain, full = Events(), Events()
    with client.subscribe(plain), client.subscribe(full, denials=True) as subscription:
        for name, amount in (("one", 1), ("huge", 5000), ("two", 1), ("vast", 6000)):
            decision = client.allocate(name, "app", memory(amount))
        service.partition.allocate("large", "app", memory(7000))
        service.partition.allocate("three", "app", memory(1))
        eventually(lambda: full.ids == plain.ids == ["one", "two", "three"])
        eventually(lambda: len(full.denials) == 3)
        assert subscription.number >= full.batches[-1][0]
    assert [event.requests[0].allocation_id for event in full.denials] == ["huge", "vast", "large"]
    assert full.denials[1].decision == decision
    numbers = [first for first, _ in full.batches]
    assert numbers == sorted(numbers)
    assert not plain.denials


def test_changes_of_the_process_that_leads(service: Service, client: ConnectedPartition) -> None:
    """Changes that the leader makes by itself are delivered as well."""
    events = Events()
    with client.subscribe(events):
        service.partition.allocate("one", "app", memory(1))
        eventually(lambda: events.ids == ["one"])


def test_continues_after_a_number(client: ConnectedPartition) -> None:
    """A later subscription begins after the last event that was handled, also in the middle of an operation."""
    first, second, third = Events(), Events(), Events()
    with client.subscribe(first) as subscription:
        client.allocate("one", "app", memory(1))
        eventually(lambda: first.ids == ["one"])
        eventually(lambda: subscription.number > first.batches[-1][0])
    client.allocate("two", "app", memory(1))
    with client.subscribe(second, after=subscription.number):
        client.allocate("three", "app", memory(1))
        eventually(lambda: second.ids == ["two", "three"])
    number, events = second.batches[0]
    with client.subscribe(third, after=number + len(events) - 1):
        eventually(lambda: third.ids == ["three"])


def test_continues_at_the_next_leader(quick_folder: Path) -> None:
    """Nothing is missing after another process leads, also if nothing had happened before."""
    events = Events()
    with running(quick_folder, journal="j") as service:
        client = started(service)
        subscription = client.subscribe(events)
        sessions = [report.client for report in client.sessions.sessions()]
    assert len(sessions) == 2
    for turn in range(3):
        with open_partition(quick_folder / "j") as partition:
            partition.allocate(f"alone-{turn}", "app", memory(1))
        with running(quick_folder, journal="j"):
            client.allocate(f"with-{turn}", "app", memory(1))
            expected = [f"{kind}-{number}" for number in range(turn + 1) for kind in ("alone", "with")]
            eventually(lambda expected=expected: events.ids == expected, 30)  # type: ignore[misc] # a default
    subscription.close()
    client.connection.close()


def test_missing_events(quick_folder: Path) -> None:
    """A subscription to events that are not available is refused, and does not end others."""
    with running(quick_folder, journal="j") as service, started(service) as client:
        client.allocate("one", "app", memory(1))
        with pytest.raises(ProtocolError, match="no change 59") as caught:
            client.subscribe(Events(), after=60 * 2**24 - 1)
        assert caught.value.problem == "too-far-behind"
    with open_partition(quick_folder / "j") as partition:
        partition.journal.compact()
    with running(quick_folder, journal="j") as service, connect(str(service.addresses[0])) as client:
        with pytest.raises(ProtocolError, match="not available"):
            client.subscribe(Events(), after=0)
        events = Events()
        with client.subscribe(events):
            client.allocate("two", "app", memory(1))
            eventually(lambda: events.ids == ["two"])


def test_subscription_without_a_log_ends_with_its_service(quick_folder: Path) -> None:
    """Events that happened in memory cannot be delivered later; waiting for the subscription tells so."""
    with running(quick_folder) as service, started(service) as client:
        subscription = client.subscribe(Events())
        assert not subscription.wait(0)
    with running(quick_folder):
        with pytest.raises(ProtocolError) as caught:
            subscription.wait(30)
        assert caught.value.problem == "too-far-behind"
    subscription.close()


def test_subscriber_may_call_the_partition_and_fail(client: ConnectedPartition) -> None:
    """A subscriber calls the partition, is slow, closes its subscription, or raises; other calls are not affected."""
    free, ids = Flag(), []

    def follow(*_: object) -> None:
        ids.append(client.allocation_ids())
        free.wait(10)
        if len(ids) > 1:
            subscription.close()
        raise ValueError

    subscription = client.subscribe(follow)
    client.allocate("one", "app", memory(1))
    client.allocate("two", "app", memory(1))
    free.set()
    assert subscription.wait(30)
    assert len(ids) == 2


def test_asyncio(service: Service, client: ConnectedPartition) -> None:
    """The same with asyncio."""

    async def work() -> list[str]:
        events = Events()
        async with await connect_async(str(service.addresses[0])) as partition:
            with pytest.raises(RequestError, match="expected the number of an event"):
                await partition.subscribe(events, after=-1)
            async with await partition.subscribe(events) as subscription:
                await partition.allocate("one", "app", memory(1))
                await asyncio.to_thread(eventually, lambda: events.ids)
            await subscription.wait()
            number = subscription.number
            await partition.release("one")
            async with await partition.subscribe(events, after=number):
                await asyncio.to_thread(eventually, lambda: len(events.ids) == 2)
        return events.ids

    assert client.application("app")
    assert asyncio.run(work()) == ["one", "one"]


def test_invalid_arguments(client: ConnectedPartition) -> None:
    """A subscriber is a function, and a number is a natural number."""
    wrong: Any = "function"
    with pytest.raises(RequestError, match="expected a callable"):
        client.subscribe(wrong)
    for after in (-1, 1.0, True):
        with pytest.raises(RequestError, match="expected the number of an event"):
            client.subscribe(Events(), after=after)  # type: ignore[arg-type] # wrong on purpose


def test_no_leader(quick_folder: Path) -> None:
    """Without a leader, a subscription fails at its deadline."""
    access = LeaderAccess(f"unix:{quick_folder}/s", "", "", None, 0.1)
    with pytest.raises(DeadlineError):
        Subscription(access, EventReader(Events(), None, None))


def test_sessions_of_subscriptions_end(client: ConnectedPartition) -> None:
    """A subscription has a session of its own, which ends with it."""
    with client.subscribe(Events()):
        reports = [report for report in client.sessions.sessions() if report.is_connected]
        assert [report.client for report in reports] == ["", " (events)"]
    eventually(lambda: sum(report.is_connected for report in client.sessions.sessions()) == 1)


# Failures of the thread


def test_subscriber_that_exits(client: ConnectedPartition) -> None:
    """If the subscriber raises SystemExit, the subscription ends, and waiting for it raises an error."""

    def leave(*_: object) -> None:
        sys.exit("left")

    subscription = client.subscribe(leave)
    client.allocate("one", "app", memory(1))
    with pytest.raises(UnavailableError, match="left"):
        subscription.wait(5)
    subscription.close()


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("asyncio.events.new_event_loop", OSError("too many files")),
        ("threading.Thread.start", RuntimeError("too many threads")),
    ],
    ids=["loop", "thread"],
)
def test_subscription_without_resources(
    client: ConnectedPartition, place: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscription for which the system has no thread or no file descriptor raises an error."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(place, fail)
    with pytest.raises(UnavailableError, match=str(error)):
        client.subscribe(Events())


@pytest.mark.parametrize("has_begun", [False, True])
def test_interrupted_subscribing(client: ConnectedPartition, has_begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a parameter
    """If subscribing is interrupted, its thread ends, and the subscriber is not called later."""

    class Interrupted(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            if has_begun:
                super().result(timeout)
            raise KeyboardInterrupt

    monkeypatch.setattr("ugm.service.subscription.Future", Interrupted)
    events = Events()
    with pytest.raises(KeyboardInterrupt):
        client.subscribe(events)
    eventually(lambda: not any(thread.name == "ugm subscription" for thread in enumerate_threads()), 5)
    client.allocate("one", "app", memory(1))
    assert not events.ids


def test_cancelled_when_it_begins(service: Service, client: ConnectedPartition) -> None:
    """A subscription that is cancelled just when the leader has accepted it gets no events, and has no task."""
    events = Events()

    async def cancel_accepted(subscribing: asyncio.Task[Any]) -> None:
        began = asyncio.Event.set

        def begin(event: asyncio.Event) -> None:
            began(event)
            subscribing.cancel()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ugm.service.event_stream.asyncio.Event.set", begin)
            with pytest.raises(asyncio.CancelledError):
                await subscribing

    async def work() -> None:
        async with await connect_async(str(service.addresses[0])) as partition:
            others = asyncio.all_tasks()
            await cancel_accepted(asyncio.create_task(partition.subscribe(events)))
            await asyncio.sleep(0.1)
            assert {task for task in asyncio.all_tasks() if "EventStream" in repr(task)} <= others

    asyncio.run(work())
    client.allocate("later", "app", memory(1))
    assert events.batches == []

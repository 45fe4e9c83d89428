"""The feed of durable changes to the clients that follow."""

from __future__ import annotations

import asyncio
from math import inf
from threading import Event
from typing import Any

import pytest

from support.partition_fixtures import SUE, memory
from support.service_fixtures import CONFIG, eventually
from ugm import Partition
from ugm.journal.errors import JournalError
from ugm.journal.store_reader import StoredChange
from ugm.partition.events import Denied
from ugm.service.change_feed import ChangeFeed
from ugm.service.wire import ChangeMessage, DenialMessage, FrameReader, Refused, decode_leader_message, frame

#: The data of a change.
DATA = b"[1234]"
#: The size of its frame.
FRAME = len(frame(ChangeMessage(1, DATA)))


class Target:
    """A connection that keeps what it is sent, and is behind when it was sent a number of frames."""

    def __init__(self, room: float = inf) -> None:
        self.frames: list[bytes] = []
        self.room = room
        self.is_closed = False

    @property
    def is_behind(self) -> bool:
        """Whether there is no room for more frames."""
        return len(self.frames) >= self.room

    def send(self, data: bytes) -> None:
        """Keep a frame."""
        if data:
            self.frames.append(data)

    def close(self) -> None:
        """Note the end."""
        self.is_closed = True

    @property
    def messages(self) -> list[Any]:
        """The messages that were sent."""
        return list(map(decode_leader_message, FrameReader().feed(b"".join(self.frames))))

    @property
    def numbers(self) -> list[int]:
        """The number before the changes that were sent, and their numbers."""
        return [message.number for message in self.messages if type(message) is ChangeMessage]

    def read(self, feed: ChangeFeed, room: float) -> None:
        """Read everything, so that there is room again."""
        self.room = len(self.frames) + room
        feed.follow_on(self)


def stored(after: int, last: int) -> list[StoredChange]:
    """Return changes of a log."""
    return [StoredChange(number, 0, DATA) for number in range(after + 1, last + 1)]


def publish(feed: ChangeFeed, count: int) -> None:
    """Publish further changes."""
    for _ in range(count):
        feed.publish(feed.last + 1, DATA)


def test_connection_that_is_lost_while_it_catches_up() -> None:
    """A connection that leaves while older changes are read for it is forgotten."""
    is_left, reads = Event(), []

    def read_log(after: int) -> list[StoredChange]:
        is_left.wait(30)
        reads.append(after)
        return stored(after, 3)

    async def work() -> None:
        feed, lost, other = ChangeFeed(3, read_log), Target(), Target()
        feed.follow(lost, 0)
        feed.follow(other, 0)
        feed.leave(lost)
        is_left.set()
        await asyncio.to_thread(eventually, lambda: len(reads) == 2 and len(other.frames) == 4)
        await asyncio.sleep(0)
        feed.publish(4, DATA)
        assert len(other.frames) == 5
        assert lost.frames == []

    asyncio.run(work())


@pytest.mark.parametrize("error", [JournalError("log", "it cannot be read"), OSError(24, "no descriptor")])
def test_connection_whose_changes_cannot_be_read(error: Exception) -> None:
    """It is closed, so that the client connects again; otherwise it would wait for ever."""

    def read_log(_: int) -> list[StoredChange]:
        raise error

    async def work() -> None:
        feed, target = ChangeFeed(3, read_log), Target()
        feed.follow(target, 0)
        await asyncio.to_thread(eventually, lambda: target.is_closed)
        assert target.frames == []

    asyncio.run(work())


def test_connection_far_behind_gets_older_changes_as_fast_as_it_reads() -> None:
    """Nothing is read from the log for a connection until it has read what it was sent, however often it pauses."""
    reads = []

    def read_log(after: int) -> list[StoredChange]:
        reads.append(after)
        return stored(after, min(after + 4, 12))

    async def work() -> None:
        feed, target = ChangeFeed(10, read_log), Target(room=4)
        feed.follow(target, 0)
        await asyncio.to_thread(eventually, lambda: target.is_behind)
        await asyncio.sleep(0.01)
        assert (target.numbers, reads) == ([0, 1, 2, 3], [0])
        publish(feed, 2)
        for _ in range(20):
            target.read(feed, room=2)
            await asyncio.sleep(0.001)
        assert target.numbers == list(range(13))
        publish(feed, 1)
        assert target.numbers == list(range(14))

    asyncio.run(work())


@pytest.mark.parametrize("recent", [10_000, 60])
def test_slow_connection_continues_without_a_gap(recent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that reads slowly is sent nothing meanwhile, and then recent changes from memory or the log."""
    reads = []

    async def work() -> None:
        def read_log(after: int) -> list[StoredChange]:
            reads.append(after)
            return stored(after, feed.last)

        feed, slow, quick = ChangeFeed(0, read_log), Target(room=3), Target()
        feed.follow(slow, -1)
        feed.follow(quick, -1)
        publish(feed, 9)
        assert (slow.numbers, quick.numbers) == ([0, 1, 2], list(range(10)))
        slow.read(feed, room=20)
        publish(feed, 1)
        await asyncio.to_thread(eventually, lambda: len(slow.frames) == 11)
        publish(feed, 1)
        assert slow.numbers == quick.numbers == list(range(12))
        assert bool(reads) is (recent == 60)

    monkeypatch.setattr("ugm.service.change_feed._RECENT", recent)
    asyncio.run(work())


def test_slow_connection_without_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a log, a connection that needs changes which are not kept is refused."""

    async def work() -> None:
        feed, slow, slower = ChangeFeed(0, None), Target(room=3), Target(room=3)
        feed.follow(slow, -1)
        feed.follow(slower, -1)
        publish(feed, 5)
        slow.read(feed, room=inf)
        publish(feed, 5)
        slower.read(feed, room=inf)
        assert (slow.numbers, slow.is_closed) == (list(range(11)), False)
        assert (slower.numbers, slower.is_closed) == ([0, 1, 2], True)
        assert type(slower.messages[-1]) is Refused

    monkeypatch.setattr("ugm.service.change_feed._RECENT_WITHOUT_LOG", 5 * FRAME)
    asyncio.run(work())


def test_recent_changes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the changes that are kept is bounded, and with a log nothing is kept while nobody follows."""

    async def work() -> None:
        feed, in_memory, target = ChangeFeed(0, lambda after: stored(after, feed.last)), ChangeFeed(0, None), Target()
        publish(feed, 20)
        publish(in_memory, 20)
        assert (len(feed._recent), len(in_memory._recent)) == (0, 7)
        feed.follow(target, -1)
        publish(feed, 20)
        assert (len(feed._recent), feed._recent_size) == (5, 5 * FRAME)
        feed.publish(feed.last + 1, DATA * 1000)
        assert len(feed._recent) == 1
        feed.leave(target)
        publish(feed, 1)
        assert (len(feed._recent), feed._recent_size) == (0, 0)

    monkeypatch.setattr("ugm.service.change_feed._RECENT", 5 * FRAME)
    monkeypatch.setattr("ugm.service.change_feed._RECENT_WITHOUT_LOG", 7 * FRAME)
    asyncio.run(work())


def test_denials_are_not_kept_for_a_slow_connection() -> None:
    """A connection that is behind gets no denials, even if there are no changes."""
    events: list[Any] = []
    partition = Partition(CONFIG, subscribers=[lambda _, news: events.extend(news)])
    partition.submit("app", SUE, "root.a")
    assert not partition.allocate("a", "app", memory(2000))
    denials = [event for event in events if type(event) is Denied]

    async def work() -> None:
        feed, target = ChangeFeed(0, None), Target(room=3)
        feed.follow(target, -1, denials=True)
        for _ in range(4):
            feed.publish_denials(denials)
        publish(feed, 2)
        target.read(feed, room=4)
        feed.publish_denials(denials)
        found = [type(message) for message in target.messages]
        assert found == [ChangeMessage, *[DenialMessage] * 2, *[ChangeMessage] * 2, DenialMessage]

    asyncio.run(work())

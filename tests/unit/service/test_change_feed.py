"""The feed of durable changes to the clients that follow."""

from __future__ import annotations

import asyncio
from threading import Event

from support.service_fixtures import eventually
from ugm.journal.store_reader import StoredChange
from ugm.service.change_feed import ChangeFeed


class Target:
    """A connection that keeps what it is sent."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Keep a frame."""
        if data:
            self.frames.append(data)

    def close(self) -> None:
        """Do nothing."""


def test_connection_that_is_lost_while_it_catches_up() -> None:
    """A connection that leaves while older changes are read for it is forgotten."""
    is_left, reads = Event(), []

    def read_log(after: int) -> list[StoredChange]:
        is_left.wait(30)
        reads.append(after)
        return [StoredChange(number, 0, b"[]") for number in range(after + 1, 4)]

    async def work() -> None:
        feed, lost, other = ChangeFeed(3, read_log), Target(), Target()
        feed.follow(lost, 0)
        feed.follow(other, 0)
        feed.leave(lost)
        is_left.set()
        await asyncio.to_thread(eventually, lambda: len(reads) == 2 and len(other.frames) == 4)
        await asyncio.sleep(0)
        feed.publish(4, b"[]")
        assert len(other.frames) == 5
        assert lost.frames == []

    asyncio.run(work())

"""The loop of a leader watches the connection of the log, and nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress

import pytest

from ugm.service.answer_watch import AnswerWatch


class Connection:
    """A pair of sockets; the commits that are sent over it are `ugm.journal.log.SentCommit` objects."""

    is_sent = True

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()

    @property
    def connection(self) -> object:
        """This connection."""
        return self

    def fileno(self) -> int:
        """Return the descriptor."""
        if self.here.fileno() < 0:
            raise OSError
        return self.here.fileno()

    def result(self, timeout: float = 0) -> bool | None:
        """Return nothing."""
        raise AssertionError(timeout)

    def answer(self) -> None:
        """Make it readable."""
        self.there.send(b"x")

    def close(self) -> None:
        """Close both ends."""
        self.here.close()
        self.there.close()


def descriptors() -> int:
    """Return the number of open descriptors of this process."""
    found = 0
    for number in range(256):
        with suppress(OSError):
            os.fstat(number)
            found += 1
    return found


async def turns() -> None:
    """Let the loop run a few iterations."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _watch() -> None:
    calls: list[str] = []
    first, second = Connection(), Connection()

    def take() -> None:
        calls.append("call")
        current.here.recv(10)

    watch = AnswerWatch(asyncio.get_running_loop(), take)
    for current in (first, first, second, second):
        watch.watch(current)
        current.answer()
        await turns()
    assert len(calls) == 4
    # Nothing of the first connection is watched any more.
    first.answer()
    await turns()
    assert len(calls) == 4
    watch.close()
    watch.close()
    second.answer()
    await turns()
    assert len(calls) == 4
    first.close()
    second.close()


async def _closed() -> None:
    calls: list[str] = []
    connection, other = Connection(), Connection()
    watch = AnswerWatch(asyncio.get_running_loop(), lambda: calls.append("call"))
    watch.watch(connection)
    connection.here.close()
    # A client may get the same descriptor.
    client = Connection()
    client.answer()
    await turns()
    assert calls == []
    connection.there.close()
    await turns()
    assert calls
    assert watch.watch(connection)
    other.here.close()
    assert not watch.watch(other)
    calls.clear()
    await turns()
    assert calls == []
    other.there.close()
    client.close()


def test_watch() -> None:
    """A connection is watched until another one is, and no descriptor is left open."""
    before = descriptors()
    asyncio.run(_watch())
    assert descriptors() == before


def test_closed_connection() -> None:
    """A descriptor that a client gets is not watched; a connection that is closed already is ignored."""
    before = descriptors()
    asyncio.run(_closed())
    assert descriptors() == before


async def _refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError

    loop, connection = asyncio.get_running_loop(), Connection()
    watch = AnswerWatch(loop, lambda: None)
    with monkeypatch.context() as fault:
        fault.setattr(loop, "add_reader", refuse)
        assert not watch.watch(connection)
    assert watch.watch(connection)
    watch.close()
    connection.close()


def test_refused_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the loop cannot watch, no descriptor is left open."""
    before = descriptors()
    asyncio.run(_refused(monkeypatch))
    assert descriptors() == before

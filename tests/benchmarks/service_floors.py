"""The floors of a service: what its log and its transport allow if deciding takes no time."""

from __future__ import annotations

import asyncio
import os
import socket
from array import array
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from time import perf_counter
from typing import Final

import psycopg
from msgspec import Raw

from benchmarks.decision_load import alternate
from ugm import Resource
from ugm.journal.locations import log_at
from ugm.service.operations import OPERATIONS
from ugm.service.wire import Execute, OperationRequest, Replies, Reply, frame

__all__ = ["changes_after", "database_floor", "echo", "file_floor", "serve_echo"]

#: The maximum number of changes that are written again.
_MOST_CHANGES: Final = 4000

#: The frames of an allocation and of its answer. An answer to a release is shorter.
_ALLOCATE: Final = OPERATIONS["allocate"]
_REQUEST: Final = frame(
    Execute(
        70_000,
        69_999,
        [
            OperationRequest(
                _ALLOCATE.number, Raw(_ALLOCATE.encode_arguments(("0-10000", "app-0", Resource(memory=1, vcore=1))))
            )
        ],
    )
)
_ANSWER: Final = frame(Replies([Reply(70_000, 0, Raw(b"\xc3"))]))


def changes_after(place: str, number: int) -> tuple[list[bytes], int]:
    """Return the data of some changes after a number, and the number of the last change."""
    tail = log_at(place).tail()
    try:
        last = tail.last_number()
        found: list[bytes] = []
        while len(found) < _MOST_CHANGES and (part := tail.changes(number + len(found))):
            found += [change.data for change in part]
        return found, last
    finally:
        tail.close()


def _rate(write: Callable[[bytes], object], changes: Sequence[bytes], seconds: float) -> float:
    """Return how many changes can be written in a second."""
    begin = now = perf_counter()
    count = 0
    while now - begin < seconds:
        write(changes[count % len(changes)])
        count += 1
        now = perf_counter()
    return count / (now - begin)


def file_floor(folder: Path, changes: Sequence[bytes], seconds: float) -> float:
    """Append each change to a file and wait for the disk; return changes per second."""
    file = os.open(folder / "floor", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(data: bytes) -> None:
        os.write(file, data)
        os.fdatasync(file)

    try:
        return _rate(write, changes, seconds)
    finally:
        os.close(file)


def database_floor(url: str, changes: Sequence[bytes], seconds: float) -> float:
    """Insert and commit each change into a table; return changes per second."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS floor (number bigserial PRIMARY KEY, data bytea NOT NULL)")
        cursor.execute("ALTER TABLE floor ALTER data SET STORAGE EXTERNAL")
        return _rate(lambda data: cursor.execute("INSERT INTO floor (data) VALUES (%b)", (data,)), changes, seconds)


class _Echo(asyncio.Protocol):
    """Answers each frame without looking into it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = 0

    def data_received(self, data: bytes) -> None:
        """Answer the frames that are complete."""
        self._received += len(data)
        while self._received >= len(_REQUEST):
            self._received -= len(_REQUEST)
            self._transport.write(_ANSWER)


def serve_echo(path: str, ready: Event) -> None:
    """Serve until the process is terminated."""

    async def run() -> None:
        await asyncio.get_running_loop().create_unix_server(_Echo, path)
        ready.set()
        await asyncio.Event().wait()

    asyncio.run(run())


def echo(path: str, number: int, seconds: float, start: Barrier) -> array[float]:
    """Send frames, one at a time, and wait for the answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)

        def exchange(_: str) -> None:
            connection.sendall(_REQUEST)
            left = len(_ANSWER)
            while left:
                left -= len(connection.recv(left))

        return alternate(exchange, exchange, number, seconds, start)

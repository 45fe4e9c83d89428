"""Passes durable changes to the clients that follow them, in order and without gaps.

Each follower has a task. It sends some changes, from memory or from the store, and waits until the client has read them
and there are more. So a slow client uses no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, final

from ugm.service.server import Connection
from ugm.service.wire import Refused
from ugm.store.database import StoreError
from ugm.store.reader import StoreLocation, StoreReader
from ugm.store.row_tables import encode_changes

__all__ = ["SESSION_TABLES", "ChangeFeed"]

#: The tables that clients do not follow.
SESSION_TABLES: Final = frozenset({"session", "answer", "owner", "model"})
#: The number of changes that are kept in memory, and of those that are sent at once.
_KEPT: Final = 10_000
_PART: Final = 500


def _change_line(number: int, data: bytes) -> bytes:
    return b'["change",%d,[%b]]\n' % (number, data)


@final
class ChangeFeed:
    """The changes for clients that follow.

    Args:
        location: the store; None for a partition in memory.
        last: the number of the last change.
    """

    def __init__(self, location: StoreLocation | None, last: int) -> None:
        self._location: Final = location
        #: The last durable change.
        self._durable = last
        #: The last changes, with their lines; empty for those that concern sessions only.
        self._lines: Final = deque[tuple[int, bytes]](maxlen=_KEPT)
        self._followers: Final[dict[Connection, asyncio.Task[None]]] = {}
        #: Set when there are more durable changes, and replaced then.
        self._news = asyncio.Event()

    def add(self, number: int, data: bytes) -> None:
        """Add a change that is not durable yet."""
        self._lines.append((number, _change_line(number, data) if data else b""))

    def publish(self, durable: int) -> None:
        """Note that the changes up to a number are durable, and have them sent."""
        self._durable = durable
        if self._followers:
            self._news.set()
            self._news = asyncio.Event()

    def follow(self, connection: Connection, after: int) -> None:
        """Send all changes after a number to a connection; -1 for the last one."""
        self.leave(connection)
        if after > self._durable:
            connection.close(Refused("too-far-behind", f"there is no change {after}"))
        else:
            sending = self._send(connection, self._durable if after < 0 else after)
            self._followers[connection] = asyncio.get_running_loop().create_task(sending)

    def leave(self, connection: Connection) -> None:
        """Send no more to a connection."""
        task = self._followers.pop(connection, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Send no more to all connections."""
        for connection in tuple(self._followers):
            self.leave(connection)

    async def _send(self, connection: Connection, position: int) -> None:
        # The first message states the number after which the changes begin.
        begin = _change_line(position, b"")
        while True:
            try:
                found = self._kept(position)
                if found is None and self._location is not None:
                    found = await asyncio.to_thread(self._stored, self._location, position)
            except StoreError:
                # The client connects again.
                connection.abort()
                return
            if found is None:
                reason = f"the changes after {position} are not available any more"
                connection.close(Refused("too-far-behind", reason))
                return
            connection.send(begin + b"".join([data for _, data in found]))
            begin, position = b"", found[-1][0] if found else position
            # Only when this was written, at the end of the iteration of the loop, it is known whether the client reads.
            await asyncio.sleep(0)
            await connection.writable.wait()
            if position >= self._durable:
                await self._news.wait()

    def _kept(self, position: int) -> list[tuple[int, bytes]] | None:
        """Return durable changes after a number that are in memory; None if the first one is not."""
        first = self._lines[0][0] if self._lines else self._durable + 1
        if position + 1 < first:
            return None
        begin, end = position + 1 - first, min(position + _PART, self._durable) + 1 - first
        return [self._lines[index] for index in range(begin, end)]

    @staticmethod
    def _stored(location: StoreLocation, position: int) -> list[tuple[int, bytes]] | None:
        with StoreReader(location) as reader:
            found = reader.changes(position, _PART)
        if found is None:
            return None
        lines = []
        for number, _, _, changes in found:
            shown = [one for one in changes if one.table not in SESSION_TABLES]
            lines.append((number, _change_line(number, encode_changes(shown)[1:-1]) if shown else b""))
        return lines

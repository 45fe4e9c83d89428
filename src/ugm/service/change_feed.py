"""Passes durable changes to the clients that follow them, in order and without gaps.

A client that has not read what was sent gets no more, so that a slow one uses no memory. When it has read everything,
it continues from the changes in memory, or from those in the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, final

from ugm.service.server import Connection
from ugm.service.wire import Refused
from ugm.store.errors import StoreError
from ugm.store.reader import StoreLocation, StoreReader
from ugm.store.row_tables import encode_changes

__all__ = ["SESSION_TABLES", "ChangeFeed"]

#: The tables that clients do not follow.
SESSION_TABLES: Final = frozenset({"session", "answer", "owner", "model"})
#: The number of changes that are kept in memory, and of those that are read from the store at once.
_KEPT: Final = 10_000
_READ: Final = 500
#: The first message: the changes after this number follow.
_BEGIN: Final = b'["change",%d,[]]\n'


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
        #: For each connection the last change that was sent; None while others are being read for it.
        self._followers: Final[dict[Connection, int | None]] = {}

    def add(self, number: int, data: bytes) -> None:
        """Add a change that is not durable yet."""
        self._lines.append((number, b'["change",%d,[%b]]\n' % (number, data) if data else b""))

    def publish(self, durable: int) -> None:
        """Note that the changes up to a number are durable, and send them."""
        self._durable = durable
        for connection in tuple(self._followers):
            self.push(connection)

    def follow(self, connection: Connection, after: int) -> None:
        """Send all changes after a number to a connection; -1 for the last one."""
        if after > self._durable:
            connection.close(Refused("too-far-behind", f"there is no change {after}"))
            return
        self._followers[connection] = begin = self._durable if after < 0 else after
        if begin + 1 >= self._first:
            connection.send(_BEGIN % begin)
        self.push(connection)

    @property
    def _first(self) -> int:
        """The number of the first change in memory, or of the next one."""
        return self._lines[0][0] if self._lines else self._durable + 1

    def leave(self, connection: Connection) -> None:
        """Send no more to a connection."""
        self._followers.pop(connection, None)

    def push(self, connection: Connection) -> None:
        """Send further changes to a connection that has read the ones before."""
        position = self._followers.get(connection)
        if position is None or connection.is_paused or position >= self._durable:
            return
        first = self._first
        if position + 1 < first:
            self._followers[connection] = None
            asyncio.get_running_loop().create_task(self._read(connection, position))
            return
        for index in range(position + 1 - first, len(self._lines)):
            number, data = self._lines[index]
            if number > self._durable or connection.is_paused:
                break
            position = number
            connection.send(data)
        self._followers[connection] = position

    async def _read(self, connection: Connection, position: int) -> None:
        """Send changes from the store."""
        try:
            found = None if self._location is None else await asyncio.to_thread(self._stored, position)
        except StoreError:
            # The client connects again.
            connection.abort()
            return
        if connection not in self._followers:
            return
        if found is None:
            connection.close(Refused("too-far-behind", f"the changes after {position} are not available any more"))
            return
        connection.send(_BEGIN % position)
        for number, data in found:
            position = number
            connection.send(data)
        self._followers[connection] = position
        self.push(connection)

    def _stored(self, position: int) -> list[tuple[int, bytes]] | None:
        assert self._location is not None  # noqa: S101 - checked by the caller
        with StoreReader(self._location) as reader:
            found = reader.changes(position, _READ)
        if found is None:
            return None
        lines = []
        for number, _, _, changes in found:
            shown = [one for one in changes if one.table not in SESSION_TABLES]
            lines.append((number, b'["change",%d,%b]\n' % (number, encode_changes(shown)) if shown else b""))
        return lines

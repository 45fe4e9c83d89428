"""The feeds of the leader for its clients: durable changes, and the pending requests that may start.

*Changes* go to each client that follows, in order and without gaps. Each follower has a task. It sends some changes,
from memory or from the store, and waits until the client has read them and there are more. So a slow client uses no
memory.

*Wake-ups.* Clients cannot follow every change as a waiting list does, and a search for each change, or for each client,
would keep the leader from its other work. So all clients share one `ugm.partition.WaitingList`. A client asks for one
message at a time. Something is searched only while a client waits, and with a pause that depends on the duration of the
last search. A request is for the session that owns it, and for every client if the owner does not wait.

Invariant: a woken request that is still pending is sent to each new connection that it is for. So a lost connection
loses nothing. A new leader begins with all requests that fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Final, final

from ugm.partition import AllocationRequest, AllocationState, Partition
from ugm.service.protocol.values import WOKEN
from ugm.service.protocol.wire import Refused
from ugm.service.server import Connection
from ugm.service.sessions import LeaderSessions
from ugm.store.database import StoreError
from ugm.store.reader import StoreLocation, StoreReader
from ugm.store.row_tables import encode_changes

_LOGGER: Final = logging.getLogger(__name__)

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


#: The minimum time between two searches, in seconds, and the minimum part of the time that is not spent on searches.
_PAUSE: Final = 0.01
_REST: Final = 4
#: The time after which a search that has failed is repeated, in seconds.
_RETRY: Final = 1.0


@final
class WakeFeed:
    """The woken requests for the clients that wait; used in the thread of the loop.

    Args:
        partition: the partition.
        sessions: the sessions, which own requests.
        commit: appends what a search has changed: it may put limits of a schedule in force.
        send: sends a line when everything that it depends on is durable.
    """

    def __init__(
        self,
        partition: Partition,
        sessions: LeaderSessions,
        commit: Callable[[], object],
        send: Callable[[Connection, bytes], None],
    ) -> None:
        self._partition: Final = partition
        self._sessions: Final = sessions
        self._commit: Final = commit
        self._send: Final = send
        #: The woken requests, most of which are pending.
        self._woken: dict[str, AllocationRequest] = {}
        #: The requests that each client has not got yet, and the clients that wait.
        self._unsent: Final[dict[Connection, dict[str, AllocationRequest]]] = {}
        self._waiting: Final[set[Connection]] = set()
        #: Set when a search may find something.
        self._changed: Final = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def wait(self, connection: Connection) -> None:
        """Send the next woken requests to a client, once."""
        self._waiting.add(connection)
        if connection not in self._unsent:
            self._unsent[connection] = {}
            self._add(connection, self._woken.values())
        self._send_unsent(connection)
        if connection in self._waiting:
            self._changed.set()
        self._task = self._task or asyncio.get_running_loop().create_task(self._run())

    def note_changes(self) -> None:
        """Search soon if the partition has changed so that a request may fit."""
        if self._task is not None and self._partition.waiting_list().event.is_set():
            self._changed.set()

    def leave(self, connection: Connection) -> None:
        """Send no more to a connection."""
        self._waiting.discard(connection)
        self._unsent.pop(connection, None)

    def close(self) -> None:
        """Send no more to all connections."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        waiting_list = self._partition.waiting_list()
        while True:
            began = monotonic()
            self._changed.clear()
            if self._waiting:
                try:
                    self._pass_on(waiting_list.wake())
                except Exception:
                    # For example, the store is unavailable, or a quota model fails. The next search finds the same.
                    _LOGGER.exception("no waiting request was woken")
                    self._changed.set()
                    await asyncio.sleep(_RETRY)
                finally:
                    self._commit()
            await asyncio.sleep(max(_PAUSE, _REST * (monotonic() - began)))
            with suppress(TimeoutError):
                async with asyncio.timeout(waiting_list.until_change()):
                    await self._changed.wait()

    def _pass_on(self, woken: Iterable[AllocationRequest]) -> None:
        """Send requests to the clients that wait, and keep them for the others."""
        self._woken = self._pending(self._woken) | {one.allocation_id: one for one in woken}
        for connection in self._unsent:
            self._add(connection, woken)
            if connection in self._waiting:
                self._send_unsent(connection)

    def _send_unsent(self, connection: Connection) -> None:
        """Send a client that waits what it has not got, if that is still pending."""
        unsent = self._pending(self._unsent[connection])
        self._unsent[connection] = {}
        if unsent:
            self._waiting.discard(connection)
            self._send(connection, b'["woken",%b]\n' % WOKEN.encode(tuple(unsent.values())))

    def _add(self, connection: Connection, requests: Iterable[AllocationRequest]) -> None:
        """Keep the requests that are for a client."""
        for one in requests:
            owner = self._sessions.owner(one.allocation_id)
            if owner is connection.session or owner is None or owner.peer not in self._unsent:
                self._unsent[connection][one.allocation_id] = one

    def _pending(self, requests: dict[str, AllocationRequest]) -> dict[str, AllocationRequest]:
        """Return those of some requests that are pending."""
        rows = ((one, self._partition.allocation(name)) for name, one in requests.items())
        return {row.allocation_id: one for one, row in rows if row is not None and row.state is AllocationState.PENDING}

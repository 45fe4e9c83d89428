"""A process that stands by: it follows the store, answers queries of readers, and notices when it may lead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final, final

from ugm.partition import AbstractPartition
from ugm.service.connection import AsyncConnection
from ugm.service.errors import ProtocolError, ServiceError
from ugm.service.protocol.addresses import LeaderAccess
from ugm.service.protocol.operations import OPERATIONS, Operation, answer_line
from ugm.service.protocol.status import ServiceStatus
from ugm.service.protocol.wire import VERSION, Age, Call, ClientMessage, Hello, Moved, Staleness, Welcome, line
from ugm.service.server import Connection
from ugm.store.database import LeaderRecord

__all__ = ["LeaderWatch", "Reports", "Standby"]

#: The time between two reports to the leader, in seconds.
_REPORT: Final = 0.5


@final
class LeaderWatch:
    """Notices that a leader is silent, on the clock of this process: its record has not changed for some time.

    A pause of this process itself does not count.

    Args:
        takeover: the time after which a leader is silent, in seconds.
    """

    __slots__ = ("_looked_at", "_record", "_since", "_takeover")

    def __init__(self, takeover: float) -> None:
        self._takeover: Final = takeover
        self._record: object = None
        self._since = self._looked_at = monotonic()

    def is_silent(self, leader: LeaderRecord | None) -> bool:
        """Return whether a leader has been silent for too long; called several times per second."""
        now, record = monotonic(), leader and (leader.term, leader.number, leader.renewed_at)
        if record != self._record or now - self._looked_at > self._takeover / 2:
            self._record, self._since = record, now
        self._looked_at = now
        return leader is not None and now - self._since > self._takeover


@final
class Standby:
    """Sends all clients with a session to the leader, and answers readers; a `ugm.service.server.Clients`."""

    __slots__ = ("complete_at", "leader", "number", "view")

    def __init__(self) -> None:
        #: The address of the leader; empty if it is unknown.
        self.leader: str = ""
        #: The followed partition; None if it cannot answer queries.
        self.view: AbstractPartition | None = None
        #: The last change that it has, and when it had all durable changes, on the monotonic clock.
        self.number: int = 0
        self.complete_at: float = monotonic()

    def welcome(self, connection: Connection, hello: Hello) -> None:
        """Accept a reader, and name the leader to others."""
        if hello.is_reader and self.view is not None:
            connection.send(line(Welcome(min(VERSION, connection.version), "")))
        else:
            connection.close(Moved(self.leader))

    def handle(self, connection: Connection, messages: list[ClientMessage]) -> None:
        """Answer queries."""
        # Only the leader knows the newest changes.
        if self.view is None or not all(isinstance(message, Call) for message in messages):
            connection.close(Moved(self.leader))
            return
        connection.send(line(Age(Staleness(monotonic() - self.complete_at, self.number))))
        for message in messages:
            if isinstance(message, Call):
                connection.send(answer_line(message, connection.role, self._target))

    def _target(self, operation: Operation) -> object:
        """Return the partition for a query.

        Raises:
            ProtocolError: only the leader can execute the operation.
        """
        if operation.is_change or operation.is_about_sessions:
            raise ProtocolError("unknown-operation", f"a process that stands by does not execute {operation.name}")
        return self.view

    def disconnected(self, connection: Connection) -> None:
        """Do nothing: no client has a session here."""


@final
class Reports:
    """Reports the position of a standby to the leader, and keeps the status that it returns.

    Args:
        name: the name of this process.
        access: returns the way to the leader; None if it is unknown.
    """

    __slots__ = ("_access", "_at", "_name", "_status")

    def __init__(self, name: str, access: Callable[[], LeaderAccess | None]) -> None:
        self._name: Final = name
        self._access: Final = access
        self._status = ServiceStatus(name)
        self._at = monotonic()

    @property
    def status(self) -> ServiceStatus:
        """The last status, as this process shows it."""
        return replace(self._status, name=self._name, is_leading=False, age=monotonic() - self._at)

    async def run(self, address: str, standby: Standby) -> None:
        """Report until the task is cancelled."""
        operation = OPERATIONS["report_standby"]
        while True:
            access = self._access()
            if access is not None:
                connection = AsyncConnection(access)
                try:
                    while access == self._access():
                        arguments = (self._name, address, standby.number, monotonic() - standby.complete_at)
                        self._status = await connection.call(operation, operation.encode_arguments(arguments, {}))
                        self._at = monotonic()
                        await asyncio.sleep(_REPORT)
                except ServiceError:
                    pass
                finally:
                    await connection.close()
            await asyncio.sleep(_REPORT)

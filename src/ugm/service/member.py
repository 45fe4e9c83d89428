"""Processes that elect a leader among themselves: each of them can lead, and all of them are clients of the leader.

The problem: several schedulers share a partition, and an extra process for the leader is one more thing to operate.

The idea: every scheduler runs a `Service` in a thread, which leads or stands by, and is a client that connects to its
own service first. It uses the socket also if the leader is in the same process. So every scheduler has a session: its
allocations have an owner, it can be fenced, and its calls are repeated by number when the leader changes, also when
this process itself has just ceased to lead.

The cost: a call to a leader in the same process takes a round trip through a socket instead of a function call. The
threads of the program and the loop of the leader share one interpreter.
"""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Final, final

from ugm.arguments import require_seconds
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.journal.file_log import FileLog
from ugm.journal.locations import LogLocation, log_at
from ugm.journal.log import Log
from ugm.model import QuotaModel
from ugm.service.async_connection import AsyncClientConnection
from ugm.service.client import AsyncConnectedPartition, ConnectedPartition
from ugm.service.connection import ClientConnection
from ugm.service.listener import remove_stale_socket
from ugm.service.service import Security, Service, ServiceSettings

__all__ = ["AsyncJoinedPartition", "JoinedPartition", "join", "join_async"]

#: The maximum time of a call, in seconds.
_DEADLINE: Final = 10.0
#: The seconds of silence after which another process replaces a leader. A leader in a program that computes a lot gets
#: its turn late, and a leader with a journal file is killed when it is replaced.
_TAKEOVER: Final = 2.0
#: The part of the name of a socket that follows the name of the journal.
_MEMBER: Final = "-member-"
#: The maximum length of the path of a Unix socket on all systems, in bytes.
_LONGEST_PATH: Final = 103


@final
class JoinedPartition(ConnectedPartition):
    """The partition of processes that elect a leader among themselves; `join` returns it.

    Any number of threads may use it. As a context manager it leaves at the end.

    Attributes:
        service: the service of this process, which leads or stands by.
    """

    __slots__ = ("service",)

    def __init__(self, connection: ClientConnection, service: Service) -> None:
        super().__init__(connection)
        self.service: Final = service

    def leave(self) -> None:
        """End the session and the service of this process. Another process leads then. Allocations stay."""
        try:
            self.connection.close()
        finally:
            self.service.stop()

    def close(self) -> None:
        """Do the same as `leave`."""
        self.leave()


@final
class AsyncJoinedPartition(AsyncConnectedPartition):
    """The partition of processes that elect a leader among themselves, for asyncio; `join_async` returns it.

    As an asynchronous context manager it leaves at the end.

    Attributes:
        service: the service of this process, which leads or stands by in a thread of its own.
    """

    __slots__ = ("service",)

    def __init__(self, connection: AsyncClientConnection, service: Service) -> None:
        super().__init__(connection)
        self.service: Final = service

    async def leave(self) -> None:
        """End the session and the service of this process. Another process leads then. Allocations stay."""
        try:
            await self.connection.close()
        finally:
            await _stop(self.service)

    async def close(self) -> None:
        """Do the same as `leave`."""
        await self.leave()


def join(
    location: LogLocation,
    listen: str = "",
    *,
    config: PartitionConfig | None = None,
    models: Iterable[QuotaModel] | None = None,
    client: str = "",
    security: Security | None = None,
    settings: ServiceSettings | None = None,
    deadline: float = _DEADLINE,
) -> JoinedPartition:
    """Use a partition together with other processes that call this function, one of which leads.

    Args:
        location: the log: the path of a journal, or the URL of a PostgreSQL database.
        listen: the address of this process for the others; empty for a Unix socket next to the journal, which only
            processes of the same user can use. A log in PostgreSQL needs an address, such as ``tls://host:port``.
        config: the configuration of a new partition. A log that has a configuration keeps it.
        models: as for `ugm.service.Service`; the same in all processes.
        client: the name of this process, for people; empty for its host and process id.
        security: the secret and the certificates, the same in all processes.
        settings: as for `ugm.service.Service`. By default a silent leader is replaced after 2 seconds.
        deadline: the maximum time of this call and of every later one, in seconds. Only the recovery of a large log
            may take longer.

    Raises:
        RequestError: an argument is invalid.
        JournalError: the log cannot be used.
        OSError: the address cannot be used.
        DeadlineError: no leader can be reached within the deadline.
    """
    security = security or Security()
    end = monotonic() + require_seconds("deadline", deadline)
    service = _service_of(location, listen, config, models, security, settings)
    try:
        service.start(deadline)
        connection = ClientConnection(
            str(service.announced),
            client=client or service.name,
            token=security.token,
            tls=security.client_tls,
            deadline=deadline,
            opened_by=end,
        )
    except BaseException:
        # Also after an interruption, when the service may be starting.
        service.stop()
        raise
    return JoinedPartition(connection, service)


async def join_async(
    location: LogLocation,
    listen: str = "",
    *,
    config: PartitionConfig | None = None,
    models: Iterable[QuotaModel] | None = None,
    client: str = "",
    security: Security | None = None,
    settings: ServiceSettings | None = None,
    deadline: float = _DEADLINE,
) -> AsyncJoinedPartition:
    """Use a partition together with other processes, one of which leads, in an asyncio loop; see `join`.

    The service of this process has a thread and a loop of its own. The processes may use this function or `join`.
    """
    security = security or Security()
    end = monotonic() + require_seconds("deadline", deadline)
    service = await asyncio.to_thread(_service_of, location, listen, config, models, security, settings)
    try:
        await asyncio.to_thread(service.start, deadline)
        connection = AsyncClientConnection(
            str(service.announced),
            client=client or service.name,
            token=security.token,
            tls=security.client_tls,
            deadline=deadline,
        )
        await connection.open(end)
    except BaseException:
        # Also after a cancellation, when the service may be starting.
        await _stop(service)
        raise
    return AsyncJoinedPartition(connection, service)


async def _stop(service: Service) -> None:
    """End a service, also if the caller is cancelled meanwhile, perhaps before a thread waits for the end."""
    service.stop_soon()
    await asyncio.to_thread(service.stop)


def _service_of(
    location: LogLocation,
    listen: str,
    config: PartitionConfig | None,
    models: Iterable[QuotaModel] | None,
    security: Security,
    settings: ServiceSettings | None,
) -> Service:
    log, chosen = log_at(location), settings or ServiceSettings(takeover=_TAKEOVER)
    address = listen or _own_address(log)
    return Service(log, address, config=config, models=models, security=security, settings=chosen)


def _own_address(log: Log) -> str:
    """Return an address for this process next to a journal, and remove the sockets of processes that were killed.

    Raises:
        RequestError: the log is not a file, or its path is too long.
    """
    if not isinstance(log, FileLog):
        raise RequestError("listen", "", "a log in PostgreSQL needs the address of this process, as tls://host:port")
    prefix = f"{log.location}{_MEMBER}"
    folder, name = os.path.split(prefix)
    for found in Path(folder).glob(f"{glob.escape(name)}*"):
        _remove_if_dead(str(found), found.name.removeprefix(name))
    path = f"{prefix}{os.getpid()}-{token_hex(2)}"
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise RequestError("location", log.location, "its path is too long for a Unix socket next to it; pass listen")
    return f"unix:{path}"


def _remove_if_dead(path: str, name: str) -> None:
    """Remove a socket on which no process listens any more."""
    process = name.partition("-")[0]
    try:
        # A process that is just starting does not listen yet.
        os.kill(int(process), 0)
    except ProcessLookupError:
        with suppress(OSError):
            remove_stale_socket(path)
    except (ValueError, OverflowError, OSError):
        # The file is not a socket of this module, or the process belongs to another user.
        return

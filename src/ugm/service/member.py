"""Processes that elect a leader among themselves: each of them can lead, and all of them are clients of the leader.

The problem: several schedulers share a partition, and an extra process for the leader is one more thing to operate.

The idea: every scheduler runs a `Service` in a thread, which leads or stands by, and is a client that connects to its
own service first. It uses the socket also if the leader is in the same process. So every scheduler has a session: its
allocations have an owner, it can be fenced, and its calls are repeated by number when the leader changes.
"""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final, final

from ugm.arguments import require_seconds
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.model import QuotaModel
from ugm.service.client import AsyncConnectedPartition, BlockingConnection, ConnectedPartition
from ugm.service.connection import AsyncConnection
from ugm.service.server import Security, remove_stale_socket
from ugm.service.service import Service, ServiceSettings
from ugm.store.reader import PostgresLocation, StoreLocation

__all__ = ["AsyncJoinedPartition", "JoinedPartition", "join", "join_async"]

#: The maximum time of a call, in seconds.
_DEADLINE: Final = 10.0
#: The part of the name of a socket that follows the name of the store.
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

    def __init__(self, connection: BlockingConnection, service: Service) -> None:
        super().__init__(connection)
        self.service: Final = service

    def close(self) -> None:
        """End the session and the service of this process. Another process leads then. Allocations stay."""
        try:
            super().close()
        finally:
            self.service.stop()

    leave = close


@final
class AsyncJoinedPartition(AsyncConnectedPartition):
    """The partition of processes that elect a leader among themselves, for asyncio; `join_async` returns it.

    As an asynchronous context manager it leaves at the end.

    Attributes:
        service: the service of this process, which leads or stands by in a thread of its own.
    """

    def __init__(self, connection: AsyncConnection, service: Service) -> None:
        super().__init__(connection)
        self.service: Final = service

    async def close(self) -> None:
        """End the session and the service of this process. Another process leads then. Allocations stay."""
        try:
            await super().close()
        finally:
            await _stop(self.service)

    leave = close


def join(
    location: StoreLocation,
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
        location: the store: the path of a file, or the URL of a PostgreSQL database.
        listen: the address of this process for the others; empty for a Unix socket next to the file, which only
            processes of the same user can use. A store in PostgreSQL needs an address, such as ``tls://host:port``.
        config: the configuration of a new partition. A store that has a configuration keeps it.
        models: as for `ugm.service.Service`; the same in all processes.
        client: the name of this process, for people; empty for its host and process id.
        security: the secrets and the certificates, the same in all processes.
        settings: as for `ugm.service.Service`.
        deadline: the maximum time of this call and of every later one, in seconds. Only the recovery of a large store
            may take longer.

    Raises:
        RequestError: an argument is invalid.
        StoreError: the store cannot be used.
        OSError: the address cannot be used.
        DeadlineError: no leader can be reached within the deadline.
    """
    require_seconds("deadline", deadline)
    address = listen or _own_address(location)
    service = Service(location, address, config=config, models=models, security=security, settings=settings)
    try:
        service.start(deadline)
        return JoinedPartition(BlockingConnection(service.access(client, deadline)), service)
    except BaseException:
        # Also after an interruption, when the service may be starting.
        service.stop()
        raise


async def join_async(
    location: StoreLocation,
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
    require_seconds("deadline", deadline)
    address = listen or await asyncio.to_thread(_own_address, location)
    service = Service(location, address, config=config, models=models, security=security, settings=settings)
    try:
        await asyncio.to_thread(service.start, deadline)
        connection = AsyncConnection(service.access(client, deadline))
        await connection.open()
    except BaseException:
        # Also after a cancellation, when the service may be starting.
        await _stop(service)
        raise
    return AsyncJoinedPartition(connection, service)


async def _stop(service: Service) -> None:
    """End a service, also if the caller is cancelled meanwhile, perhaps before a thread waits for the end."""
    service.stop_soon()
    await asyncio.to_thread(service.stop)


def _own_address(location: StoreLocation) -> str:
    """Return an address for this process next to a file, and remove the sockets of processes that were killed.

    Raises:
        RequestError: the store is not a file, or its path is too long.
    """
    if isinstance(location, PostgresLocation) or "://" in str(location):
        raise RequestError("listen", "", "a store in PostgreSQL needs the address of this process, as tls://host:port")
    prefix = f"{os.path.realpath(location)}{_MEMBER}"
    folder, name = os.path.split(prefix)
    for found in Path(folder).glob(f"{glob.escape(name)}*"):
        with suppress(OSError):
            remove_stale_socket(str(found))
    path = f"{prefix}{os.getpid()}-{token_hex(2)}"
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise RequestError("location", str(location), "its path is too long for a Unix socket next to it; pass listen")
    return f"unix:{path}"

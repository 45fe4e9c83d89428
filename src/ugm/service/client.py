"""Clients of a service: `connect` for threads, `connect_async` for asyncio, and `join` for processes that can all lead.

*Joining.* Several schedulers share a partition, and an extra process for the leader is one more thing to operate. So
every scheduler runs a `Service` in a thread, which leads or stands by, and is a client that connects to its own service
first. It uses the socket also if the leader is in the same process. So every scheduler has a session: its allocations
have an owner, it can be fenced, and its calls are repeated by number when the leader changes.

*Subscriptions.* A subscription has a connection of its own and follows the changes of rows by their numbers. After a
reconnect it continues after the last change that was handled. While the subscriber works, nothing is read, so the
service bounds what waits. The events are computed from the changes, as for the subscribers of a partition in memory.
Every event has a number. It consists of the number of the change and of the position in the change, so it is the same
at every leader.
"""

from __future__ import annotations

import asyncio
import glob
import logging
import os
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from threading import TIMEOUT_MAX
from typing import Final, ParamSpec, Self, TypeVar, final

from ugm.arguments import require_seconds
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.model import QuotaModel
from ugm.partition.events import events_of
from ugm.service.connection import AsyncConnection, Link
from ugm.service.errors import ProtocolError, ServiceError
from ugm.service.protocol.addresses import LeaderAccess
from ugm.service.protocol.operations import Operation
from ugm.service.protocol.wire import ChangeMessage, Follow, ServiceMessage, line
from ugm.service.remote import (
    AsyncRemotePartition,
    AsyncRemoteSessions,
    BlockingConnection,
    RemotePartition,
    RemoteSessions,
    ThreadedConnection,
)
from ugm.service.server import Security, remove_stale_socket
from ugm.service.service import Service, ServiceSettings
from ugm.store.reader import PostgresLocation, StoreLocation
from ugm.store.row_tables import decode_changes

_LOGGER: Final = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The maximum time of a call, in seconds.
_DEADLINE: Final = 10.0
#: The bound of the number of events in a change, as far as event numbers are concerned.
_EVENTS: Final = 1 << 24
#: The part of the name of a socket that follows the name of the store.
_MEMBER: Final = "-member-"
#: The maximum length of the path of a Unix socket on all systems, in bytes.
_LONGEST_PATH: Final = 103


@final
class AsyncSubscription(AsyncConnection):
    """A subscription to the events of a partition, for asyncio; `AsyncConnectedPartition.subscribe` returns it.

    It continues after a reconnect, and when another process leads. As an asynchronous context manager it is closed.

    Args:
        access: the way to the leader.
        subscriber: the function that is called with the events of each operation.
        after: the number of the last event that was handled; None to begin with the next change.

    Raises:
        RequestError: an argument is invalid.
    """

    def __init__(self, access: LeaderAccess, subscriber: Subscriber, after: int | None) -> None:
        if not callable(subscriber):
            raise RequestError("subscriber", subscriber, "expected a callable")
        if after is not None and (type(after) is not int or after < 0):
            raise RequestError("after", after, "expected the number of an event")
        super().__init__(replace(access, read_only=True))
        self._subscriber: Final = subscriber
        #: All events up to this number were handled; ``subscribe`` continues after it.
        self.number: int = after or 0
        #: The number of the last change that was handled; -1 to begin with the next one.
        self._change = -1 if after is None else max(0, (after + 1) // _EVENTS - 1)
        # It always awaits the next change.
        self._waiting = 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _begin(self, link: Link) -> None:
        link.send(line(Follow(self._change)))

    def _handle(self, message: ServiceMessage) -> None:
        if not isinstance(message, ChangeMessage):
            super()._handle(message)
        elif not self._lost.is_set():
            try:
                self._take(message)
            except ProtocolError as error:
                self._fail(error)
            except BaseException as error:
                self._fail(self.access.error(f"the subscriber has raised {error!r}"))
                raise

    def _take(self, message: ChangeMessage) -> None:
        """Pass the events of a change to the subscriber."""
        self._ready.set()
        try:
            events = events_of(decode_changes(bytes(message.changes)))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ProtocolError("malformed", f"a change cannot be decoded: {error}") from error
        first = (message.number + 1) * _EVENTS - len(events)
        if events and first + len(events) - 1 > self.number:
            try:
                self._subscriber(first, events)
            except Exception:
                _LOGGER.exception("a subscriber failed on %d events from number %d on", len(events), first)
            self.number = first + len(events) - 1
        self._change = message.number


@final
class Subscription(ThreadedConnection[AsyncSubscription]):
    """A subscription to the events of a partition; `ConnectedPartition.subscribe` returns it.

    A thread of its own calls the subscriber with the events of one operation at a time, in order, once they are
    durable. The subscription continues after a reconnect, and when another process leads. It ends when `close` is
    called, when events are missing because old changes were deleted meanwhile, or when an exception such as
    `SystemExit` ends its thread; `wait` raises an error then. As a context manager it is closed at the end.

    Args:
        access: the way to the leader.
        subscriber: the function that is called with the events of each operation.
        after: the number of the last event that was handled; None to begin with the next change.

    Raises:
        RequestError: an argument is invalid.
        DeadlineError: no leader accepts the subscription within the deadline.
        ProtocolError: it is refused, for example because the events after a number are not available any more.
    """

    def __init__(self, access: LeaderAccess, subscriber: Subscriber, after: int | None) -> None:
        super().__init__("ugm-subscription", access, lambda: AsyncSubscription(access, subscriber, after))

    @property
    def number(self) -> int:
        """All events up to this number were handled; ``subscribe`` continues after it."""
        return self._connection.number

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the subscription ends, or for some seconds, and return whether it has ended.

        Raises:
            RequestError: *timeout* is not a number of seconds.
            ProtocolError: it has ended because the leader refuses it, for example because events are missing.
            UnavailableError: it has ended because its thread has failed, for example in the subscriber.
        """
        seconds = None if timeout is None else min(require_seconds("timeout", timeout), TIMEOUT_MAX)
        try:
            failure = self._thread.ended.exception(seconds)
        except TimeoutError:
            return False
        if failure is None or isinstance(failure, ServiceError):
            self._thread.ended.result()
            return True
        raise self.access.error(f"its thread has failed: {failure!r}") from failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ConnectedPartition(RemotePartition):
    """The partition of a service; `connect` and `join` return it.

    Any number of threads may use it. As a context manager it is closed at the end.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
        service: the service of this process after `join`, which leads or stands by; None after `connect`.
    """

    def __init__(self, connection: BlockingConnection, service: Service | None = None) -> None:
        super().__init__(connection)
        self.connection: Final = connection
        self.sessions: Final = RemoteSessions(connection)
        self.service: Service | None = service

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session of this client, and its service: another one leads. The partition and allocations stay."""
        try:
            self.connection.close()
        finally:
            if self.service is not None:
                self.service.stop()

    def waiting_list(self) -> BlockingConnection:  # type: ignore[override]  # for a client, it has the method `wait`
        """Return an object whose method ``wait(timeout)`` returns pending requests as soon as they fit.

        The leader finds them as a `ugm.partition.WaitingList`, for all clients together. A client gets the requests
        that its session owns, and those whose owner does not wait. After a reconnect, and when another process leads,
        all requests that fit wake again, so a request may wake twice.

        >>> for request in partition.waiting_list().wait(timeout=60):  # doctest: +SKIP
        ...     decision = partition.allocate(request)
        """
        return self.connection

    def promise(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call an operation of this partition without waiting for the answer; the future gets it.

        >>> answer = partition.promise(partition.allocate, "app-1-0", "app-1", usage)  # doctest: +SKIP
        >>> answer.result().allowed  # doctest: +SKIP
        True
        """
        found: Operation | None = getattr(operation, "operation", None)
        if found is None:
            raise RequestError("operation", operation, "expected a method of the partition that one call executes")
        return self.connection.begin(found, found.encode_arguments(args, kwargs))

    def subscribe(self, subscriber: Subscriber, *, after: int | None = None) -> Subscription:
        """Call a function with all events from now on, as the subscribers of `ugm.Partition`.

        The events are delivered once they are durable, in order, and at least once. Every event has the same number at
        every leader. The numbers grow and have gaps. Denials are not stored, so they are not delivered.

        Args:
            subscriber: the function. A thread of the subscription calls it. It may call the partition.
            after: the number of the last event that was handled before, to continue after it; 0 for all events that
                are known.

        Raises:
            RequestError: an argument is invalid.
            DeadlineError: no leader accepts the subscription within the deadline.
            ProtocolError: it is refused, because events after the number are not available any more.
        """
        return Subscription(self.connection.access, subscriber, after)


class AsyncConnectedPartition(AsyncRemotePartition):
    """The partition of a service for the tasks of one asyncio loop; `connect_async` and `join_async` return it.

    As an asynchronous context manager it is closed at the end.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
        service: the service of this process after `join_async`, in a thread of its own; None after `connect_async`.
    """

    def __init__(self, connection: AsyncConnection, service: Service | None = None) -> None:
        super().__init__(connection)
        self.connection: Final = connection
        self.sessions: Final = AsyncRemoteSessions(connection)
        self.service: Service | None = service

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session of this client, and its service: another one leads. The partition and allocations stay."""
        try:
            await self.connection.close()
        finally:
            if self.service is not None:
                await _stop(self.service)

    def waiting_list(self) -> AsyncConnection:
        """Return an object whose method ``woken()`` waits for requests; see `ConnectedPartition.waiting_list`."""
        return self.connection

    async def subscribe(self, subscriber: Subscriber, *, after: int | None = None) -> AsyncSubscription:
        """Call a function in the loop with all events from now on; see `ConnectedPartition.subscribe`."""
        made = AsyncSubscription(self.connection.access, subscriber, after)
        await made.open()
        return made


def connect(
    addresses: str,
    *,
    client: str = "",
    token: str = "",
    tls: ssl.SSLContext | None = None,
    deadline: float = _DEADLINE,
    read_only: bool = False,
) -> ConnectedPartition:
    """Connect to a service and return its partition, for threads.

    While no leader answers, a call waits until its deadline. In the thread of an event loop, use `connect_async`.

    Args:
        addresses: the addresses of all processes that may lead, separated by commas: ``unix:/path``,
            ``tcp://host:port`` or ``tls://host:port``.
        client: the name of this client, for people; at most 256 characters.
        token: the secret of the client; empty for none.
        tls: the context for ``tls`` addresses; None for the certificates of the system.
        deadline: the maximum time of every call, in seconds.
        read_only: whether only queries are made. The first process that answers executes them, also one that stands
            by, and ``connection.staleness`` of the partition is a `Staleness`. Changes raise a RequestError.

    Raises:
        RequestError: an address or another argument is invalid.
        DeadlineError: no leader can be reached within the deadline.
        ProtocolError: the service refuses this client.
    """
    return ConnectedPartition(BlockingConnection(LeaderAccess(addresses, client, token, tls, deadline, read_only)))


async def connect_async(
    addresses: str,
    *,
    client: str = "",
    token: str = "",
    tls: ssl.SSLContext | None = None,
    deadline: float = _DEADLINE,
    read_only: bool = False,
) -> AsyncConnectedPartition:
    """Connect to a service and return its partition for asyncio; see `connect`."""
    connection = AsyncConnection(LeaderAccess(addresses, client, token, tls, deadline, read_only))
    await connection.open()
    return AsyncConnectedPartition(connection)


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
) -> ConnectedPartition:
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
        return ConnectedPartition(BlockingConnection(service.access(client, deadline)), service)
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
) -> AsyncConnectedPartition:
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
    return AsyncConnectedPartition(connection, service)


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

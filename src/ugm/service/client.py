"""Clients of a service: `connect` for threads, and `connect_async` for asyncio."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.service.async_connection import AsyncClientConnection
from ugm.service.connection import ClientConnection
from ugm.service.event_stream import EventReader
from ugm.service.remote_partition import (
    AsyncRemotePartition,
    AsyncRemoteSessions,
    RemotePartition,
    RemoteSessions,
)
from ugm.service.subscription import AsyncSubscription, Subscription
from ugm.service.timing import Timing

__all__ = ["AsyncConnectedPartition", "ConnectedPartition", "connect", "connect_async"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The maximum time of a call, in seconds.
_DEADLINE: Final = 10.0


class ConnectedPartition(RemotePartition):
    """The partition of a service; `connect` returns it.

    Any number of threads may use it. As a context manager it ends the session.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
    """

    __slots__ = ("connection", "sessions")

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__(connection)
        self.connection: Final = connection
        self.sessions: Final = RemoteSessions(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session of this client. The partition stays, and so do allocations."""
        self.connection.close()

    def promise(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call an operation of this partition without waiting for the answer; the future gets it.

        >>> answer = partition.promise(partition.allocate, "app-1-0", "app-1", usage)  # doctest: +SKIP
        >>> answer.result().allowed  # doctest: +SKIP
        True
        """
        return self.connection.promise(operation, *args, **kwargs)

    def subscribe(self, subscriber: Subscriber, *, after: int | None = None, denials: bool = False) -> Subscription:
        """Call a function with all events from now on, as the subscribers of `ugm.Partition`.

        The events are delivered once they are durable, in order, and at least once. Every event has the same number at
        every leader. The numbers grow and have gaps.

        Args:
            subscriber: the function. A thread of the subscription calls it. It may call the partition.
            after: the number of the last event that was handled before, to continue after it; 0 for all events in the
                log. The log contains no differences of configurations. So the first ``ConfigurationChanged`` states the
                differences from the configuration in force when the subscription begins, not from the one before.
            denials: whether denials are delivered as well. The log does not contain them. So each is delivered at most
                once, denials while the connection is lost are not delivered, and each has the number of the event
                before it.

        Raises:
            RequestError: an argument is invalid.
            DeadlineError: no leader accepts the subscription within the deadline.
            ProtocolError: it is refused, because events after the number are not available any more.
            UnavailableError: the system has no thread or no file descriptor for it.
        """
        return Subscription(self.connection.access, EventReader(subscriber, self.config, after, denials=denials))


class AsyncConnectedPartition(AsyncRemotePartition):
    """The partition of a service for the tasks of one asyncio loop; `connect_async` returns it.

    As an asynchronous context manager it ends the session.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
    """

    __slots__ = ("connection", "sessions")

    def __init__(self, connection: AsyncClientConnection) -> None:
        super().__init__(connection)
        self.connection: Final = connection
        self.sessions: Final = AsyncRemoteSessions(connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session of this client. The partition stays, and so do allocations."""
        await self.connection.close()

    async def subscribe(
        self, subscriber: Subscriber, *, after: int | None = None, denials: bool = False
    ) -> AsyncSubscription:
        """Call a function in the loop with all events from now on; see `ConnectedPartition.subscribe`."""
        reader = EventReader(subscriber, await self.config(), after, denials=denials)
        return await AsyncSubscription.begin(self.connection.access, reader)


def connect(
    addresses: str,
    *,
    client: str = "",
    token: str = "",
    tls: ssl.SSLContext | None = None,
    deadline: float = _DEADLINE,
    read_only: bool = False,
    active_wait: float = 0.0001,
) -> ConnectedPartition:
    """Connect to a service and return its partition, for threads.

    While no leader answers, a call waits until its deadline. In the thread of an event loop, use `connect_async`.

    Args:
        addresses: the addresses of all processes that may lead, separated by commas: ``unix:/path``,
            ``tcp://host:port`` or ``tls://host:port``.
        client: the name of this client, for people; at most 256 characters.
        token: the secret of the service; empty for none.
        tls: the context for ``tls`` addresses; None for the certificates of the system.
        deadline: the maximum time of every call, in seconds.
        read_only: whether only queries are made. The first process that answers executes them, also one that stands
            by, and ``connection.staleness`` of the partition is a `Staleness`. Changes raise a RequestError.
        active_wait: how long a call polls for its answer before it sleeps, in seconds, while answers arrive that
            quickly; at most 0.01, and 0 for never.

    Raises:
        RequestError: an address or another argument is invalid.
        DeadlineError: no leader can be reached within the deadline.
        ProtocolError: the service refuses this client.
    """
    _require_read_only(read_only)
    timing = Timing(active_wait=active_wait)
    connection = ClientConnection(
        addresses, client=client, token=token, tls=tls, deadline=deadline, read_only=read_only, timing=timing
    )
    return ConnectedPartition(connection)


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
    _require_read_only(read_only)
    connection = AsyncClientConnection(
        addresses, client=client, token=token, tls=tls, deadline=deadline, read_only=read_only
    )
    await connection.open()
    return AsyncConnectedPartition(connection)


def _require_read_only(read_only: object) -> None:
    if type(read_only) is not bool:
        raise RequestError("read_only", read_only, "expected True or False")

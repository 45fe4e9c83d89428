"""Clients of a service: `connect` for threads, and `connect_async` for asyncio.

There is one client, for asyncio. The client for threads runs it in a loop of its own in a thread, and passes calls to
it; those that threads make at the same time share one write.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, final

from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.service.addresses import LeaderAccess, parse_addresses
from ugm.service.connection import MAX_OUTSTANDING, AsyncConnection
from ugm.service.errors import DeadlineError, UnavailableError
from ugm.service.operations import Operation
from ugm.service.remote_partition import AsyncRemotePartition, AsyncRemoteSessions, RemotePartition, RemoteSessions
from ugm.service.subscription import AsyncSubscription, Subscription
from ugm.service.wire import Staleness

__all__ = ["AsyncConnectedPartition", "BlockingConnection", "ConnectedPartition", "connect", "connect_async"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The maximum time of a call, in seconds.
_DEADLINE: Final = 10.0
#: The time between two looks whether too many calls are outstanding, in seconds.
_PAUSE: Final = 0.001
#: How much longer than its deadline a call waits for its thread, in seconds.
_GRACE: Final = 30.0


@final
class BlockingConnection:
    """A connection to the leader of a service, for threads.

    Args:
        access: the way to the leader.
        is_reader: whether only queries are made.

    Raises:
        DeadlineError: no leader can be reached within the deadline.
        ProtocolError: the service refuses this client.
    """

    _loop: asyncio.AbstractEventLoop
    _connection: AsyncConnection

    def __init__(self, access: LeaderAccess, *, is_reader: bool = False) -> None:
        self.access: Final = access
        self._names: Final = tuple(map(str, parse_addresses(access.addresses)))
        self._owner: Final = os.getpid()
        self._is_closed = False
        #: Calls that the loop has not begun yet.
        self._queue: Final = deque[tuple[Operation, bytes, Future[Any]]]()
        begun: Future[None] = Future()
        self._thread: Final = Thread(target=self._run, args=(begun, is_reader), name="ugm-client", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise UnavailableError(self._names, f"the system has no thread for it: {error}") from error
        try:
            begun.result()
        except BaseException:
            self.close()
            raise

    def _run(self, begun: Future[None], is_reader: bool) -> None:  # noqa: FBT001 - called by the thread
        try:
            asyncio.run(self._serve(begun, is_reader))
        except BaseException as error:  # noqa: BLE001 - delivered
            failure = UnavailableError(self._names, f"the thread of the connection failed: {error!r}")
            if not begun.done():
                begun.set_exception(failure)

    async def _serve(self, begun: Future[None], is_reader: bool) -> None:  # noqa: FBT001 - as above
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._connection = AsyncConnection(self.access, is_reader=is_reader)
        try:
            await self._connection.open()
        except Exception as error:  # noqa: BLE001 - delivered
            begun.set_exception(error)
            return
        begun.set_result(None)
        try:
            await self._stopping.wait()
        finally:
            await self._connection.close()
            self._begin_calls()

    @property
    def session(self) -> str:
        """The session; empty for a reader."""
        return self._connection.session

    @property
    def staleness(self) -> Staleness | None:
        """The age of the last answer to a reader."""
        return self._connection.staleness

    def close(self) -> None:
        """End the session. Calls in progress fail."""
        self._is_closed = True
        if os.getpid() == self._owner and self._thread.is_alive():
            stopping = getattr(self, "_stopping", None)
            if stopping is not None:
                try:
                    self._loop.call_soon_threadsafe(stopping.set)
                except RuntimeError:
                    return
            self._thread.join()

    # Calls

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation, and return its result or raise its error."""
        future = self.begin(operation, arguments)
        try:
            return future.result(self.access.deadline + _GRACE)
        except BaseException:
            # Also after an interruption: nobody waits for the answer.
            future.cancel()
            raise

    def begin(self, operation: Operation, arguments: bytes) -> Future[Any]:
        """Begin a call, and return the future of its result.

        Raises:
            UnavailableError: the connection was closed, or belongs to another process.
            DeadlineError: too many calls were outstanding until the deadline.
        """
        if os.getpid() != self._owner:
            raise UnavailableError(self._names, "the connection was opened before this process was forked")
        if self._is_closed:
            raise UnavailableError(self._names, "the connection was closed")
        future: Future[Any] = Future()
        queue = self._queue
        if len(queue) + self._connection.outstanding >= MAX_OUTSTANDING:
            self._wait_for_room()
        queue.append((operation, arguments, future))
        if len(queue) == 1:
            try:
                self._loop.call_soon_threadsafe(self._begin_calls)
            except RuntimeError:
                queue.clear()
                future.cancel()
                raise UnavailableError(self._names, "the connection was closed") from None
        return future

    def _wait_for_room(self) -> None:
        end = monotonic() + self.access.deadline
        while len(self._queue) + self._connection.outstanding >= MAX_OUTSTANDING:
            if monotonic() > end:
                raise DeadlineError(self._names, "too many calls are outstanding")
            sleep(_PAUSE)

    def _begin_calls(self) -> None:
        queue = self._queue
        # A thread that finds the queue not empty relies on this loop.
        while queue:
            operation, arguments, future = queue[0]
            try:
                self._connection.begin(operation, arguments, future)
            except Exception as error:  # noqa: BLE001 - delivered
                if not future.done():
                    future.set_exception(error)
            queue.popleft()
        self._connection.flush()

    def promise(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call a method of a partition without waiting for the answer; the future gets it."""
        found: Operation | None = getattr(operation, "operation", None)
        if found is None:
            raise RequestError("operation", operation, "expected a method of the partition that one call executes")
        return self.begin(found, found.encode_arguments(args, kwargs))


class ConnectedPartition(RemotePartition):
    """The partition of a service; `connect` returns it.

    Any number of threads may use it. As a context manager it ends the session.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
    """

    __slots__ = ("connection", "sessions")

    def __init__(self, connection: BlockingConnection) -> None:
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
    """The partition of a service for the tasks of one asyncio loop; `connect_async` returns it.

    As an asynchronous context manager it ends the session.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
    """

    __slots__ = ("connection", "sessions")

    def __init__(self, connection: AsyncConnection) -> None:
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

    async def subscribe(self, subscriber: Subscriber, *, after: int | None = None) -> AsyncSubscription:
        """Call a function in the loop with all events from now on; see `ConnectedPartition.subscribe`."""
        return await AsyncSubscription.begin(self.connection.access, subscriber, after)


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
    access = LeaderAccess(addresses, client, token, tls, deadline)
    return ConnectedPartition(BlockingConnection(access, is_reader=_is_reader(read_only)))


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
    connection = AsyncConnection(LeaderAccess(addresses, client, token, tls, deadline), is_reader=_is_reader(read_only))
    await connection.open()
    return AsyncConnectedPartition(connection)


def _is_reader(read_only: object) -> bool:
    if type(read_only) is not bool:
        raise RequestError("read_only", read_only, "expected True or False")
    return read_only

"""Clients of a service: `connect` for threads, and `connect_async` for asyncio.

There is one client, for asyncio. The client for threads runs it in a loop of its own in a thread, and passes calls to
it; those that threads make at the same time share one write.

A `RemotePartition` is the partition interface over a connection, and has no state. Each of its methods encodes the
arguments and passes them to its connection, which returns the decoded result. An `AsyncRemotePartition` is the same for
asyncio: its methods have the same parameters and return awaitables. The methods are derived from
`ugm.service.protocol.operations`.

A subscription has a connection of its own and follows the changes of rows by their numbers. After a reconnect it
continues after the last change that was handled. While the subscriber works, nothing is read, so the service bounds
what waits. The events are computed from the changes, as for the subscribers of a partition in memory. Every event has a
number. It consists of the number of the change and of the position in the change, so it is the same at every leader.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from abc import update_abstractmethods
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from threading import TIMEOUT_MAX
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, Protocol, Self, TypeVar, final

from ugm.arguments import require_seconds
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.partition import AbstractPartition, AllocationRequest
from ugm.partition.events import events_of
from ugm.service.connection import MAX_OUTSTANDING, AsyncConnection, LeaderConnection, LoopThread
from ugm.service.errors import DeadlineError, ProtocolError
from ugm.service.protocol.addresses import LeaderAccess
from ugm.service.protocol.operations import OPERATIONS, Operation
from ugm.service.protocol.status import AbstractSessions
from ugm.service.protocol.wire import ChangeMessage, Follow, Link, ServiceMessage, Staleness, line
from ugm.store.row_tables import decode_changes

__all__ = [
    "AsyncConnectedPartition",
    "AsyncRemotePartition",
    "AsyncRemoteSessions",
    "AsyncSubscription",
    "BlockingConnection",
    "Caller",
    "ConnectedPartition",
    "RemotePartition",
    "RemoteSessions",
    "Subscription",
    "connect",
    "connect_async",
]

# All methods of remote partitions are added below, which type checkers do not know.
if TYPE_CHECKING:
    from ugm.partition import Partition as Declarations
    from ugm.service.sessions import LeaderSessions as SessionDeclarations
else:
    Declarations, SessionDeclarations = AbstractPartition, AbstractSessions

_LOGGER: Final = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The maximum time of a call, in seconds.
_DEADLINE: Final = 10.0
#: The time between two looks whether too many calls are outstanding, in seconds.
_PAUSE: Final = 0.001
#: The operations that follow every change of the partition in its own process, and what a client does instead.
_LOCAL: Final = {
    "scheduling_pass": "read the order with order(), and call allocate()",
    "waiting_list": "connect to the service, and use the waiting_list() of the connected partition",
    "wake": "connect to the service, and use the waiting_list() of the connected partition",
}
#: The bound of the number of events in a change, as far as event numbers are concerned.
_EVENTS: Final = 1 << 24
#: How much longer than its deadline a call waits for its thread, in seconds.
_GRACE: Final = 30.0


@final
class BlockingConnection(LoopThread[AsyncConnection]):
    """A connection to the leader of a service, for threads.

    Args:
        access: the way to the leader.
    """

    def __init__(self, access: LeaderAccess) -> None:
        #: Calls that the loop has not begun yet, and whether it is going to begin them.
        self._queue: Final = deque[tuple[Operation, bytes, Future[Any]]]()
        self._is_scheduled = False
        super().__init__("ugm-client", access, lambda: AsyncConnection(access))

    @property
    def session(self) -> str:
        """The session; empty for a reader."""
        return self._connection.session

    @property
    def staleness(self) -> Staleness | None:
        """The age of the last answer to a reader."""
        return self._connection.staleness

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
        self.access.require_own_process()
        queue, end = self._queue, monotonic() + self.access.deadline
        while len(queue) + self._connection.outstanding >= MAX_OUTSTANDING:
            if monotonic() > end:
                raise self.access.error("too many calls are outstanding", DeadlineError)
            sleep(_PAUSE)
        future: Future[Any] = Future()
        queue.append((operation, arguments, future))
        if not self._is_scheduled and self._loop is not None:
            self._is_scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._begin_calls)
            except RuntimeError:
                # The loop has ended, so the calls fail.
                self._begin_calls()
        return future

    def wait(self, timeout: float | None = None) -> tuple[AllocationRequest, ...]:
        """Wait until pending requests may start, and return them; see `ConnectedPartition.waiting_list`."""
        seconds = None if timeout is None else require_seconds("timeout", timeout)
        self.access.require_own_process()
        if self._loop is not None and not self._ended.done():
            future = asyncio.run_coroutine_threadsafe(self._connection.woken(seconds), self._loop)
            futures: list[Future[Any]] = [future, self._ended]
            try:
                wait(futures, return_when=FIRST_COMPLETED)
                if not self._ended.done():
                    return future.result()
            finally:
                future.cancel()
        raise self.access.error("the connection was closed")

    def _begin_calls(self) -> None:
        # Before the queue is read: a call that is appended now is found below, or has this method called again.
        self._is_scheduled = False
        with suppress(IndexError):
            while True:
                operation, arguments, future = self._queue.popleft()
                try:
                    self._connection.begin(operation, arguments, future)
                except Exception as error:  # noqa: BLE001 - delivered
                    if not future.done():
                        future.set_exception(error)
        self._connection.flush()

    def _run(self, make: Callable[[], AsyncConnection], begun: Future[None]) -> None:
        super()._run(make, begun)
        if self._queue:
            self._begin_calls()


class Caller(Protocol):
    """A connection of a `RemotePartition`."""

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result, or an awaitable
        """Execute an operation with encoded arguments, and return its decoded result or raise its error."""
        ...


class _Remote:
    """Operations that the leader executes.

    Args:
        connection: the connection to the leader.
    """

    def __init__(self, connection: Caller) -> None:
        self._call: Final = connection.call


class _AsyncRemote(_Remote):
    """The same for asyncio: ``call`` returns an awaitable, and so does each method."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...


def _refused(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        reason = f"a client of a service does not have it; {instead}"
        raise RequestError("operation", name, reason, "operation-unavailable")

    return refuse


def _calling(operation: Operation) -> Callable[..., Any]:
    """Return the method that calls an operation of a connection."""
    encode_arguments = operation.encode_arguments

    # The attributes of the declaration say that it is abstract.
    @wraps(operation.declaration, updated=())
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as declared
        return self._call(operation, encode_arguments(args, kwargs))

    call.operation = operation  # type: ignore[attr-defined]  # for promises
    return call


class RemotePartition(_Remote, Declarations):
    """A partition whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """

    @property
    def config(self) -> PartitionConfig | None:  # noqa: D102 - `AbstractPartition` documents the operations
        found: PartitionConfig | None = self._call(OPERATIONS["config"], b"{}")
        return found


class RemoteSessions(_Remote, SessionDeclarations):
    """The sessions of a service, whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """


class AsyncRemotePartition(_AsyncRemote):
    """A partition whose operations are executed by the leader, for asyncio.

    Its methods are those of `RemotePartition`, and return awaitables. The property `config` is a method here.

    >>> decision = await partition.allocate("app-1-0", "app-1", usage)  # doctest: +SKIP

    Args:
        connection: the connection to the leader.
    """


class AsyncRemoteSessions(_AsyncRemote):
    """The sessions of a service, for asyncio: the methods of `RemoteSessions`, which return awaitables.

    Args:
        connection: the connection to the leader.
    """


def _with_operations(kind: type, *, of_sessions: bool) -> None:
    """Add the methods of all operations that a class does not define."""
    local = {name: _refused(name, instead) for name, instead in _LOCAL.items()}
    remote = {name: _calling(one) for name, one in OPERATIONS.items() if one.is_about_sessions is of_sessions}
    for name, method in (remote if of_sessions else remote | local).items():
        if name not in vars(kind):
            setattr(kind, name, method)
    update_abstractmethods(kind)


for _kind in (RemotePartition, AsyncRemotePartition):
    _with_operations(_kind, of_sessions=False)
_with_operations(RemoteSessions, of_sessions=True)
_with_operations(AsyncRemoteSessions, of_sessions=True)


@final
class AsyncSubscription(LeaderConnection):
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _begin(self, link: Link[ServiceMessage]) -> None:
        link.send(line(Follow(self._change)))

    def _awaited_since(self, now: float) -> float:  # noqa: ARG002 - as in the base class
        return 0.0

    def _receive(self, messages: list[ServiceMessage]) -> None:
        for message in messages:
            if self._lost.is_set():
                return
            if not isinstance(message, ChangeMessage):
                self._handle(message)
                continue
            try:
                self._take(message)
            except ProtocolError as error:
                self._fail(error)
            except BaseException as error:
                self._fail(error)
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
class Subscription(LoopThread[AsyncSubscription]):
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
        UnavailableError: the system has no thread for it.
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
        try:
            self._ended.result(None if timeout is None else min(require_seconds("timeout", timeout), TIMEOUT_MAX))
        except TimeoutError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ConnectedPartition(RemotePartition):
    """The partition of a service; `connect` returns it.

    Any number of threads may use it. As a context manager it ends the session.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
    """

    def __init__(self, connection: BlockingConnection) -> None:
        super().__init__(connection)
        self.connection: Final = connection
        self.sessions: Final = RemoteSessions(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session of this client. The partition stays, and so do allocations."""
        self.connection.close()

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
    """The partition of a service for the tasks of one asyncio loop; `connect_async` returns it.

    As an asynchronous context manager it ends the session.

    Attributes:
        connection: the connection to the service.
        sessions: the sessions of all clients.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self.connection: Final = connection
        self.sessions: Final = AsyncRemoteSessions(connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session of this client. The partition stays, and so do allocations."""
        await self.connection.close()

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

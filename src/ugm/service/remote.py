"""Partitions over a connection, and the connection for threads.

A `RemotePartition` is the partition interface over a connection, and has no state. Each of its methods encodes the
arguments and passes them to its connection, which returns the decoded result. An `AsyncRemotePartition` is the same for
asyncio: its methods have the same parameters and return awaitables. The methods are derived from
`ugm.service.protocol.operations`.

There is one connection, for asyncio. A connection for threads runs it in a loop of its own in a thread, and passes
calls to it; those that threads make at the same time share one write.
"""

from __future__ import annotations

import asyncio
import logging
from abc import update_abstractmethods
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import wraps
from threading import Thread, current_thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, TypeVar, final

from ugm.arguments import require_seconds
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.partition import AbstractPartition, AllocationRequest
from ugm.service.connection import MAX_OUTSTANDING, AsyncConnection
from ugm.service.errors import DeadlineError
from ugm.service.protocol.addresses import LeaderAccess
from ugm.service.protocol.operations import OPERATIONS, Operation
from ugm.service.protocol.wire import Staleness

# All methods of remote partitions are added below, which type checkers do not know.
if TYPE_CHECKING:
    from ugm.partition import Partition as Declarations
    from ugm.service.sessions import LeaderSessions as SessionDeclarations
else:
    Declarations, SessionDeclarations = AbstractPartition, object

_LOGGER: Final = logging.getLogger(__name__)
_C = TypeVar("_C", bound=AsyncConnection)

#: The time between two looks whether too many calls are outstanding, in seconds.
_PAUSE: Final = 0.001
#: How much longer than its deadline a call waits for its thread, in seconds.
_GRACE: Final = 30.0
#: The operations that follow every change of the partition in its own process, and what a client does instead.
_LOCAL: Final = {
    "scheduling_pass": "read the order with order(), and call allocate()",
    "waiting_list": "connect to the service, and use the waiting_list() of the connected partition",
    "wake": "connect to the service, and use the waiting_list() of the connected partition",
}


@final
class LoopThread:
    """Executes a coroutine until it ends or is stopped, in a loop and a thread of its own.

    Args:
        name: the name of the thread.
        work: the coroutine function. Its argument is a function that it calls when it has begun.
    """

    def __init__(self, name: str, work: Callable[[Callable[[], object]], Coroutine[Any, Any, None]]) -> None:
        self._work: Final = work
        self._begun: Final[Future[None]] = Future()
        #: Gets the end, or the error that has ended the thread by itself.
        self.ended: Final[Future[None]] = Future()
        #: The loop, once the coroutine runs.
        self.loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False
        self._thread: Final = Thread(target=self._run, name=name, daemon=True)

    async def run(self, begun: Callable[[], object]) -> None:
        """Execute the coroutine in the loop of the caller instead of the thread."""
        self._task = asyncio.create_task(self._work(begun))
        self.loop = asyncio.get_running_loop()
        # A thread that runs only later finds that it was stopped.
        if self._is_stopped:
            self._cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise

    def start(self) -> None:
        """Start the thread, and return when the coroutine has begun; raise its error if it fails before."""
        try:
            self._thread.start()
            self._begun.result()
        except BaseException:
            self.stop()
            raise

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            asyncio.run(self.run(lambda: self._begun.set_result(None)))
        except BaseException as error:  # noqa: BLE001 - delivered
            failure = error
        if failure is not None and self._begun.done():
            _LOGGER.error("%s has ended: %s", self._thread.name, failure, exc_info=failure)
        for future in (self._begun, self.ended):
            if not future.done():
                future.set_exception(failure) if failure else future.set_result(None)

    def stop(self, *, wait: bool = True) -> None:
        """End the coroutine, from any thread; a second call does nothing.

        Args:
            wait: whether the thread has ended when the method returns, unless it is the caller.
        """
        self._is_stopped = True
        if self.loop is not None:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._cancel)
        if wait and self._thread.ident is not None and self._thread is not current_thread():
            self._thread.join()

    def _cancel(self) -> None:
        # Once, so that the coroutine can end what it has begun.
        if not self._task.cancelling():
            self._task.cancel()


class ThreadedConnection(Generic[_C]):
    """A connection for threads: one for asyncio in a loop and a thread of its own, until it ends or is closed.

    Args:
        name: the name of the thread.
        access: the way to the leader.
        make: creates the connection, in the loop.

    Raises:
        DeadlineError: no leader can be reached within the deadline.
        ProtocolError: the service refuses this client.
    """

    _connection: _C

    def __init__(self, name: str, access: LeaderAccess, make: Callable[[], _C]) -> None:
        self.access: Final = access
        self._make: Final = make
        self._thread: Final = LoopThread(name, self._serve)
        self._thread.start()

    async def _serve(self, begun: Callable[[], object]) -> None:
        self._connection = self._make()
        try:
            await self._connection.open()
            begun()
            await self._connection.wait()
        finally:
            await self._connection.close()

    def close(self) -> None:
        """End the connection; a second call does nothing. The thread has ended then, unless it is the caller."""
        self._thread.stop()


@final
class BlockingConnection(ThreadedConnection[AsyncConnection]):
    """A connection to the leader of a service, for threads.

    Args:
        access: the way to the leader.
    """

    def __init__(self, access: LeaderAccess) -> None:
        #: Calls that the loop has not begun yet, and whether it is going to begin them.
        self._queue: Final = deque[tuple[Operation, bytes, Future[Any]]]()
        self._is_scheduled = False
        super().__init__("ugm-client", access, lambda: AsyncConnection(access))
        # Calls that are left when the loop has ended fail.
        self._thread.ended.add_done_callback(lambda _: self._begin_calls())

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
        if not self._is_scheduled and self._thread.loop is not None:
            self._is_scheduled = True
            try:
                self._thread.loop.call_soon_threadsafe(self._begin_calls)
            except RuntimeError:
                # The loop has ended, so the calls fail.
                self._begin_calls()
        return future

    def wait(self, timeout: float | None = None) -> tuple[AllocationRequest, ...]:
        """Wait until pending requests may start, and return them; see `ConnectedPartition.waiting_list`."""
        seconds = None if timeout is None else require_seconds("timeout", timeout)
        self.access.require_own_process()
        ended, loop = self._thread.ended, self._thread.loop
        if loop is not None and not ended.done():
            future = asyncio.run_coroutine_threadsafe(self._connection.woken(seconds), loop)
            futures: list[Future[Any]] = [future, ended]
            try:
                wait(futures, return_when=FIRST_COMPLETED)
                if not ended.done():
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


class Caller(Protocol):
    """A connection of a `RemotePartition`."""

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result, or an awaitable
        """Execute an operation with encoded arguments, and return its decoded result or raise its error."""


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

"""The connections of a client to the leader of a service, for asyncio.

The problem: a call must have exactly one effect and end at its deadline, although connections break, leaders change,
and processes stop without notice.

The idea: calls are numbered and stay in a table until they are answered. When a connection is lost, the client connects
to the next address, resumes its session and sends all calls of the table again. Calls of one iteration of the loop
share one write. A watch notices a leader that does not answer, and ends calls at their deadlines.

Invariant: a number is acknowledged only when no call up to it is in the table, so the leader keeps the answer of every
call that may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Thread, current_thread
from time import monotonic
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, final

from ugm.errors import RequestError
from ugm.partition import AllocationRequest
from ugm.service.errors import DeadlineError, ProtocolError, ServiceError
from ugm.service.protocol.addresses import Address, LeaderAccess
from ugm.service.protocol.operations import Operation
from ugm.service.protocol.values import WOKEN, decode_error
from ugm.service.protocol.wire import (
    MAX_ANSWERS,
    MAX_LINE,
    OLDEST_VERSION,
    VERSION,
    Age,
    Bye,
    ErrorMessage,
    Hello,
    Link,
    Moved,
    Ping,
    Refused,
    Result,
    ServiceMessage,
    Staleness,
    Wait,
    Welcome,
    Woken,
    decode_service_lines,
    line,
)

__all__ = ["AnswerFuture", "AsyncConnection", "LeaderConnection", "LoopThread"]

#: The maximum number of outstanding calls; further ones wait.
MAX_OUTSTANDING: Final = 8192
#: The time between two looks at the calls; without any message for `_SILENCE`, the leader gets a ping, and without one
#: for `_PATIENCE`, the client connects to the next address. The maximum time to connect, the pause between two
#: attempts, and the time for which an address that did not answer is avoided. All in seconds.
_WATCH: Final = 0.05
_SILENCE: Final = 0.7
_PATIENCE: Final = 1.5
_CONNECT: Final = 1.0
_PAUSE: Final = 0.02
_AVOIDED: Final = 2.0
#: The codes of refusals that another attempt would get as well.
_FINAL: Final = frozenset({"token", "version", "tls", "too-far-behind"})
_PING: Final = line(Ping())
_WAIT: Final = line(Wait())
_LOGGER: Final = logging.getLogger(__name__)

AnswerFuture: TypeAlias = "asyncio.Future[Any] | Future[Any]"


_C = TypeVar("_C", bound="LeaderConnection")


class LeaderConnection(ABC):
    """A connection to the leader of a service, which is opened again whenever it is lost.

    The addresses take turns. The one that another process names as the leader comes first. An address that accepts
    connections but does not answer, as that of a stopped process, is avoided for a while.

    Args:
        access: the way to the leader.
    """

    def __init__(self, access: LeaderAccess) -> None:
        self.access: Final = access
        self._loop: Final = asyncio.get_running_loop()
        #: The addresses, the last one of which was tried last.
        self._addresses: Final = deque(access.parsed)
        self._suggested: Address | None = None
        #: Until when addresses are avoided, on the monotonic clock.
        self._avoided: Final[dict[Address, float]] = {}
        #: The connection; None until a process has accepted this client.
        self._link: Link[ServiceMessage] | None = None
        #: Gets the answer to the greeting, or None if the connection is lost before.
        self._welcome: asyncio.Future[Welcome | None] = self._loop.create_future()
        self._lost: Final = asyncio.Event()
        self._ready: Final = asyncio.Event()
        #: Why the connection can never be used again; None if it can.
        self._failure: BaseException | None = None
        self._reason = "it does not answer"
        #: The session; empty before the first connection and for a reader.
        self.session: str = ""
        self._task: Final = self._loop.create_task(self._keep_connected())
        self._watching = self._loop.call_later(_WATCH, self._watch)

    async def open(self) -> None:
        """Wait until the leader has accepted this client.

        Raises:
            DeadlineError: no leader can be reached within the deadline.
            ProtocolError: the service refuses this client.
        """
        try:
            async with asyncio.timeout(self.access.deadline):
                await self._ready.wait()
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise self.access.error(self._reason, DeadlineError) from None
            raise
        if self._failure is not None:
            await self.close()
            raise self._failure

    async def wait(self) -> None:
        """Wait until the connection has ended for good, and raise the error that has ended it."""
        await asyncio.wait((self._task,))
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """End the connection for good."""
        self._watching.cancel()
        self._task.cancel()
        await asyncio.wait((self._task,))

    @abstractmethod
    def _begin(self, link: Link[ServiceMessage]) -> None:
        """Use a connection that was accepted."""

    @abstractmethod
    def _awaited_since(self, now: float) -> float | None:
        """Return since when an answer of the leader is awaited; None if none is."""

    @abstractmethod
    def _receive(self, messages: list[ServiceMessage]) -> None:
        """Handle messages; all that are not about calls or changes are passed to `_handle`."""

    def _handle(self, message: ServiceMessage) -> None:
        if isinstance(message, Welcome):
            if not self._welcome.done():
                self._welcome.set_result(message)
        elif isinstance(message, Moved):
            suggested = Address.parse(message.address) if message.address else None
            self._suggested = None if suggested is None or self._is_avoided(suggested) else suggested
            self._reason = "another process leads" if message.address else "it neither leads nor knows the leader"
            self._drop()
        elif isinstance(message, Refused):
            self._reason = message.reason
            if message.code in _FINAL:
                self._fail(ProtocolError(message.code, message.reason))
            self._drop()

    def _fail(self, error: BaseException) -> None:
        """End the connection for good because of an error."""
        self._watching.cancel()
        if self._failure is None:
            self._failure = error
        self._ready.set()
        self._drop()

    # Connecting

    async def _keep_connected(self) -> None:
        """Connect whenever there is no connection."""
        while self._failure is None:
            link, address = None, self._next_address()
            self._lost.clear()
            self._welcome = self._loop.create_future()
            try:
                link = await self._open_link(address)
                access = self.access
                hello = Hello(
                    OLDEST_VERSION, VERSION, access.client, access.token, self.session, is_reader=access.read_only
                )
                link.send(line(hello))
                async with asyncio.timeout(_PATIENCE):
                    welcome = await self._welcome
                if welcome is not None:
                    self._link, self.session = link, welcome.session
                    self._begin(link)
                    await self._lost.wait()
            except (OSError, TimeoutError) as error:
                self._reason = str(error) or "it does not answer"
                if isinstance(error, TimeoutError):
                    self._avoided[address] = monotonic() + _AVOIDED
            except ProtocolError as error:
                self._fail(error)
            finally:
                self._link = None
                if link is not None:
                    link.abort()
            await asyncio.sleep(_PAUSE)

    def _is_avoided(self, address: Address) -> bool:
        return self._avoided.get(address, 0.0) > monotonic()

    def _next_address(self) -> Address:
        suggested, self._suggested = self._suggested, None
        if suggested is not None:
            return suggested
        for _ in self._addresses:
            self._addresses.rotate(-1)
            if not self._is_avoided(self._addresses[-1]):
                return self._addresses[-1]
        self._addresses.rotate(-1)
        return self._addresses[-1]

    async def _open_link(self, address: Address) -> Link[ServiceMessage]:
        """Connect to an address.

        Raises:
            OSError: it cannot be reached.
            TimeoutError: it does not answer in time.
            ProtocolError: there is no encrypted connection, for example because the certificate is not trusted.
        """

        def make() -> Link[ServiceMessage]:
            return Link(decode_service_lines, MAX_ANSWERS, MAX_ANSWERS, self._receive, self._drop)

        async with asyncio.timeout(_CONNECT):
            if address.path:
                return (await self._loop.create_unix_connection(make, address.path))[1]
            context = (self.access.tls or ssl.create_default_context()) if address.is_encrypted else None
            try:
                return (await self._loop.create_connection(make, address.host, address.port, ssl=context))[1]
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                # The connection was lost during the handshake.
                raise
            except ssl.SSLError as error:
                reason = getattr(error, "verify_message", "") or error.reason or str(error)
                raise ProtocolError("tls", f"no encrypted connection to {address}: {reason}") from error

    def _drop(self) -> None:
        """End the connection; another one is opened."""
        self._link = None
        self._lost.set()
        if not self._welcome.done():
            self._welcome.set_result(None)

    def _watch(self) -> None:
        """End the connection to a process that does not answer."""
        self._watching, now = self._loop.call_later(_WATCH, self._watch), monotonic()
        since, link = self._awaited_since(now), self._link
        if since is None or link is None:
            return
        silence = now - max(link.heard_at, since)
        if silence > _PATIENCE:
            self._reason = "it does not answer"
            self._drop()
        elif silence > _SILENCE:
            link.send(_PING)


class _Call(NamedTuple):
    """An outstanding call."""

    operation: Operation
    #: The end of its line, after the acknowledged number.
    line: bytes
    future: AnswerFuture
    #: On the monotonic clock.
    deadline: float


@final
class AsyncConnection(LeaderConnection):
    """The calls of a client, for the tasks of one loop.

    Args:
        access: the way to the leader. For a reader, any process of the service executes the queries.
    """

    def __init__(self, access: LeaderAccess) -> None:
        super().__init__(access)
        self._calls: Final[dict[int, _Call]] = {}
        self._number = 0
        self._room: Final = asyncio.Event()
        #: The age of the last answer to a reader.
        self.staleness: Staleness | None = None
        #: The woken requests that nobody has taken, the number of tasks that wait, and an event that lets them look.
        self._woken: tuple[AllocationRequest, ...] = ()
        self._waiting = 0
        self._news: Final = asyncio.Event()

    async def close(self) -> None:
        """End the session. Calls in progress fail."""
        link = self._link
        if link is not None:
            link.send(line(Bye()))
            link.flush()
            link.transport.close()
        await super().close()
        self._fail(self.access.error("the connection was closed"))

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        self._news.set()
        self._fail_calls(error)

    # Wake-ups

    async def woken(self, seconds: float | None = None) -> tuple[AllocationRequest, ...]:
        """Wait until pending requests may start, or for some seconds, and return them.

        Raises:
            UnavailableError: the connection was closed, or belongs to another process.
        """
        self.access.require_own_process()
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wait_for_woken()
        finally:
            self._waiting -= 1
        found, self._woken = self._woken, ()
        return found

    async def _wait_for_woken(self) -> None:
        while not self._woken:
            if self._failure is not None:
                raise type(self._failure)(*self._failure.args)
            self._news.clear()
            if self._link is not None:
                self._link.send(_WAIT)
            await self._news.wait()

    def _fail_calls(self, error: BaseException) -> None:
        for number in tuple(self._calls):
            self._finish(number, type(error)(*error.args))

    # Calls

    @property
    def outstanding(self) -> int:
        """The number of calls that are not answered."""
        return len(self._calls)

    def call(self, operation: Operation, arguments: bytes, /) -> Awaitable[Any]:
        """Execute an operation; the awaitable returns its result or raises its error."""
        if len(self._calls) >= MAX_OUTSTANDING:
            return self._call_later(operation, arguments)
        future: asyncio.Future[Any] = self._loop.create_future()
        self.begin(operation, arguments, future)
        return future

    async def _call_later(self, operation: Operation, arguments: bytes) -> Any:  # noqa: ANN401 - the result
        while len(self._calls) >= MAX_OUTSTANDING:
            self._room.clear()
            await self._room.wait()
        return await self.call(operation, arguments)

    def begin(self, operation: Operation, arguments: bytes, future: AnswerFuture) -> None:
        """Begin a call whose future gets the answer; in the thread of the loop.

        Raises:
            RequestError: the call cannot be sent.
            UnavailableError: the connection was closed, or belongs to another process.
        """
        self.access.require_own_process()
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        if self.access.read_only and operation.is_change:
            raise RequestError("operation", operation.name, "the connection is read-only", "operation-unavailable")
        if len(arguments) > MAX_LINE - 1024:
            raise RequestError("arguments", operation.name, f"they have {len(arguments)} bytes; at most {MAX_LINE}")
        self._number = number = self._number + 1
        rest = b"%b%b]\n" % (operation.prefix, arguments)
        self._calls[number] = _Call(operation, rest, future, monotonic() + self.access.deadline)
        if self._link is not None:
            self._link.send(self._line(number, rest))

    def _line(self, number: int, rest: bytes) -> bytes:
        return b'["call",%d,%d%b' % (number, next(iter(self._calls)) - 1, rest)

    def flush(self) -> None:
        """Send the calls that have begun now, instead of at the end of this iteration of the loop."""
        if self._link is not None:
            self._link.flush()

    def _finish(self, number: int, answer: Any, *, is_error: bool = True) -> None:  # noqa: ANN401 - any result
        call = self._calls.pop(number, None)
        self._room.set()
        if call is None or call.future.done():
            return
        try:
            (call.future.set_exception if is_error else call.future.set_result)(answer)
        except (asyncio.InvalidStateError, InvalidStateError):
            # A thread may cancel its future at any moment.
            return

    def _receive(self, messages: list[ServiceMessage]) -> None:
        for message in messages:
            if isinstance(message, (Result, ErrorMessage)):
                self._take(message)
            elif isinstance(message, Age):
                self.staleness = message.staleness
            elif isinstance(message, Woken):
                self._woken += WOKEN.decode(message.requests)
                self._news.set()
            else:
                self._handle(message)

    def _take(self, message: Result | ErrorMessage) -> None:
        call = self._calls.get(message.number)
        if call is None:
            return
        try:
            if isinstance(message, ErrorMessage):
                self._finish(message.number, decode_error(message.name, message.arguments))
            else:
                result = call.operation.result.decode(message.value, message.special)
                self._finish(message.number, result, is_error=False)
        except ServiceError as error:
            self._finish(message.number, error)

    def _handle(self, message: ServiceMessage) -> None:
        if isinstance(message, Refused) and message.code == "session-unknown":
            # The calls may or may not have been executed.
            self.session = ""
            self._fail_calls(self.access.error(f"the service was replaced: {message.reason}"))
        super()._handle(message)

    def _begin(self, link: Link[ServiceMessage]) -> None:
        """Send all outstanding calls."""
        link.send(b"".join([self._line(number, call.line) for number, call in self._calls.items()]))
        if self._waiting:
            link.send(_WAIT)
        self._ready.set()

    def _awaited_since(self, now: float) -> float | None:
        """End calls at their deadlines, and return when the oldest of the others began."""
        while self._calls:
            number, call = next(iter(self._calls.items()))
            if call.deadline > now:
                return call.deadline - self.access.deadline
            self._finish(number, self.access.error(self._reason, DeadlineError))
        return 0.0 if self._waiting else None


class LoopThread(Generic[_C]):
    """A connection for threads: one for asyncio, in a loop and a thread of its own, until it ends or is closed.

    Args:
        name: the name of the thread.
        access: the way to the leader.
        make: creates the connection, in the loop.

    Raises:
        DeadlineError: no leader can be reached within the deadline.
        UnavailableError: the system has no thread for it.
        ProtocolError: the service refuses this client.
    """

    _connection: _C
    _loop: asyncio.AbstractEventLoop | None = None
    _main: asyncio.Task[None]

    def __init__(self, name: str, access: LeaderAccess, make: Callable[[], _C]) -> None:
        self.access: Final = access
        self._owner: Final = os.getpid()
        self._ended: Final[Future[None]] = Future()
        begun: Future[None] = Future()
        self._thread: Final = Thread(target=self._run, args=(make, begun), name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise access.error(f"the system has no thread for it: {error}") from error
        try:
            begun.result()
        except BaseException:
            self.close()
            raise

    def _run(self, make: Callable[[], _C], begun: Future[None]) -> None:
        failure: BaseException | None = None
        try:
            asyncio.run(self._serve(make, begun))
        except asyncio.CancelledError:
            failure = None if begun.done() else self.access.error("the connection was closed")
        except (ServiceError, RequestError) as error:
            failure = error
        except BaseException as error:  # noqa: BLE001 - delivered
            failure = self.access.error(f"the thread of the connection failed: {error!r}")
            failure.__cause__ = error
        if failure is None:
            self._ended.set_result(None)
            return
        if begun.done():
            _LOGGER.error("%s has ended: %s", self._thread.name, failure)
        else:
            begun.set_exception(failure)
        self._ended.set_exception(failure)

    async def _serve(self, make: Callable[[], _C], begun: Future[None]) -> None:
        main = asyncio.current_task()
        assert main is not None  # noqa: S101 - this is a task
        self._main, self._loop = main, asyncio.get_running_loop()
        self._connection = make()
        await self._connection.open()
        begun.set_result(None)
        try:
            await self._connection.wait()
        finally:
            await self._connection.close()

    def close(self) -> None:
        """End the connection; a second call does nothing. The thread has ended then, unless it is the caller."""
        if os.getpid() != self._owner:
            return
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._main.cancel)
        if self._thread is not current_thread():
            self._thread.join()

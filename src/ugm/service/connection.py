"""The connection of a client to the leader of a service, for asyncio.

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
import ssl
from collections.abc import Awaitable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from ugm.errors import RequestError
from ugm.partition import AllocationRequest
from ugm.service.errors import DeadlineError, ProtocolError
from ugm.service.protocol import wire
from ugm.service.protocol.addresses import Address, LeaderAccess
from ugm.service.protocol.operations import Operation
from ugm.service.protocol.values import WOKEN, decode_error

#: The maximum number of outstanding calls; further ones wait.
MAX_OUTSTANDING: Final = 8192
#: The time between two looks at the calls; without any message for `_SILENCE`, the leader gets a ping, and without one
#: for `_PATIENCE`, the client connects to the next address. The maximum time to connect, the pause between two
#: attempts, the pause after a process that cannot use its store, and the time for which an address that did not answer
#: is avoided. All in seconds.
_WATCH: Final = 0.05
_SILENCE: Final = 0.7
_PATIENCE: Final = 1.5
_CONNECT: Final = 1.0
_PAUSE: Final = 0.02
_OUTAGE_PAUSE: Final = 0.2
_AVOIDED: Final = 2.0
#: The codes of refusals that another attempt would get as well.
_FINAL: Final = frozenset({"token", "version", "tls", "too-far-behind"})
_SILENT: Final = "it does not answer"
_PING: Final = wire.line(wire.Ping())
_WAIT: Final = wire.line(wire.Wait())

Link: TypeAlias = wire.Link[wire.ServiceMessage]
AnswerFuture: TypeAlias = "asyncio.Future[Any] | Future[Any]"


class _Call(NamedTuple):
    """An outstanding call."""

    operation: Operation
    #: The end of its line, after the acknowledged number.
    line: bytes
    future: AnswerFuture
    #: On the monotonic clock.
    deadline: float


class AsyncConnection:
    """A connection to the leader of a service, for the tasks of one loop. It is opened again whenever it is lost.

    The addresses take turns. The one that another process names as the leader comes first. An address that accepts
    connections but does not answer, as that of a stopped process, is avoided for a while.

    Args:
        access: the way to the leader. For a reader, any process of the service executes the queries.
    """

    def __init__(self, access: LeaderAccess) -> None:
        self.access: Final = access
        self._loop: Final = asyncio.get_running_loop()
        #: When each address was tried last, or until when it is avoided, on the monotonic clock.
        self._tried: Final[dict[Address, float]] = {}
        self._suggested: Address | None = None
        #: The connection; None until a process has accepted this client.
        self._link: Link | None = None
        #: Set when the connection is lost, and when its greeting was answered or it is lost.
        self._lost: Final = asyncio.Event()
        self._greeted: Final = asyncio.Event()
        self._ready: Final = asyncio.Event()
        #: Why the connection can never be used again; None if it can.
        self._failure: BaseException | None = None
        self._reason = _SILENT
        #: The pause until the next attempt, in seconds.
        self._pause = _PAUSE
        #: The session; empty before the first connection and for a reader.
        self.session: str = ""
        self._calls: Final[dict[int, _Call]] = {}
        self._number = 0
        self._room: Final = asyncio.Event()
        #: The age of the last answer to a reader.
        self.staleness: wire.Staleness | None = None
        #: The woken requests that nobody has taken, the number of tasks that wait, and an event that lets them look.
        self._woken: tuple[AllocationRequest, ...] = ()
        self._waiting = 0
        self._news: Final = asyncio.Event()
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
            self._require_open()
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise self.access.error(self._reason, DeadlineError) from None
            raise

    async def wait(self) -> None:
        """Wait until the connection has ended for good, and raise the error that has ended it."""
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._require_open()

    async def close(self) -> None:
        """End the session. Calls in progress fail."""
        link = self._link
        if link is not None:
            link.send_now(wire.line(wire.Bye()))
            link.transport.close()
        self._fail(self.access.error("the connection was closed"))
        self._task.cancel()
        await asyncio.wait((self._task,))

    def _fail(self, error: BaseException) -> None:
        """End the connection for good because of an error."""
        self._watching.cancel()
        if self._failure is None:
            self._failure = error
        self._ready.set()
        self._news.set()
        self._fail_calls(error)
        self._drop()

    def _fail_calls(self, error: BaseException) -> None:
        for number in tuple(self._calls):
            self._finish(number, type(error)(*error.args))

    def _require_open(self) -> None:
        """Check that the connection can be used by this process.

        Raises:
            UnavailableError: it was closed, or belongs to another process.
            ProtocolError: the service refuses this client.
        """
        self.access.require_own_process()
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)

    # Connecting

    async def _keep_connected(self) -> None:
        """Connect whenever there is no connection."""
        access = self.access
        while self._failure is None:
            link, address = None, self._next_address()
            self._tried[address] = monotonic()
            self._lost.clear()
            self._greeted.clear()
            try:
                link = await self._open_link(address)
                versions = wire.OLDEST_VERSION, wire.VERSION
                link.send(wire.line(wire.Hello(*versions, access.client, access.token, self.session, access.read_only)))
                async with asyncio.timeout(_PATIENCE):
                    await self._greeted.wait()
                if not self._lost.is_set():
                    self._link = link
                    self._begin(link)
                    await self._lost.wait()
            except (OSError, TimeoutError) as error:
                self._reason = str(error) or _SILENT
                if isinstance(error, TimeoutError):
                    self._tried[address] = monotonic() + _AVOIDED
            except ProtocolError as error:
                self._fail(error)
            finally:
                self._link = None
                if link is not None:
                    link.abort()
            pause, self._pause = self._pause, _PAUSE
            await asyncio.sleep(pause)

    def _next_address(self) -> Address:
        suggested, self._suggested = self._suggested, None
        if suggested is not None and self._tried.get(suggested, 0.0) <= monotonic():
            return suggested
        return min(self.access.parsed, key=lambda one: self._tried.get(one, 0.0))

    async def _open_link(self, address: Address) -> Link:
        """Connect to an address.

        Raises:
            OSError: it cannot be reached.
            TimeoutError: it does not answer in time.
            ProtocolError: there is no encrypted connection, for example because the certificate is not trusted.
        """

        def make() -> Link:
            largest = wire.MAX_ANSWERS
            return wire.Link(wire.decode_service_lines, largest, largest, self._receive, self._drop)

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
        self._greeted.set()

    def _watch(self) -> None:
        """End calls at their deadlines, and the connection to a process that does not answer."""
        self._watching, now = self._loop.call_later(_WATCH, self._watch), monotonic()
        link, awaited_since = self._link, 0.0 if self._waiting else inf
        while self._calls:
            number, call = next(iter(self._calls.items()))
            if call.deadline > now:
                awaited_since = min(awaited_since, call.deadline - self.access.deadline)
                break
            self._finish(number, self.access.error(self._reason, DeadlineError))
        if link is not None:
            silence = now - max(link.heard_at, awaited_since)
            if silence > _PATIENCE:
                self._reason = _SILENT
                self._drop()
            elif silence > _SILENCE:
                link.send(_PING)

    def _begin(self, link: Link) -> None:
        """Send all outstanding calls to a process that has accepted this client."""
        link.send(b"".join([self._line(number, call.line) for number, call in self._calls.items()]))
        if self._waiting:
            link.send(_WAIT)
        self._ready.set()

    # Messages

    def _receive(self, messages: list[wire.ServiceMessage]) -> None:
        for message in messages:
            self._handle(message)

    def _handle(self, message: wire.ServiceMessage) -> None:
        match message:
            case wire.Result() | wire.ErrorMessage():
                self._answer(message)
            case wire.Age():
                self.staleness = message.staleness
            case wire.Woken():
                self._woken += WOKEN.decode(message.requests)
                self._news.set()
            case wire.Welcome():
                self.session = message.session
                self._greeted.set()
            case wire.Moved():
                self._suggested = Address.parse(message.address) if message.address else None
                self._reason = "another process leads" if message.address else "it neither leads nor knows the leader"
                self._drop()
            case wire.Refused():
                self._reason = message.reason
                if message.code == "session-unknown":
                    # The calls may or may not have been executed.
                    self.session = ""
                    self._fail_calls(self.access.error(f"the service was replaced: {message.reason}"))
                elif message.code == wire.STORE_UNAVAILABLE:
                    self._pause = _OUTAGE_PAUSE
                elif message.code in _FINAL:
                    self._fail(ProtocolError(message.code, message.reason))
                self._drop()

    def _answer(self, message: wire.Result | wire.ErrorMessage) -> None:
        call = self._calls.get(message.number)
        if call is None:
            return
        try:
            if isinstance(message, wire.Result):
                answer = call.operation.result.decode(message.value, message.special)
            else:
                answer = decode_error(message.name, message.arguments)
        except ProtocolError as error:
            answer = error
        self._finish(message.number, answer)

    def _finish(self, number: int, answer: Any) -> None:  # noqa: ANN401 - any result, or an error
        future = self._calls.pop(number).future
        self._room.set()
        try:
            (future.set_exception if isinstance(answer, BaseException) else future.set_result)(answer)
        except (asyncio.InvalidStateError, InvalidStateError):
            # It was cancelled, by a thread perhaps just now.
            return

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
        self._require_open()
        if self.access.read_only and operation.is_change:
            raise RequestError("operation", operation.name, "the connection is read-only", "operation-unavailable")
        if len(arguments) > wire.MAX_LINE - 1024:
            reason = f"they have {len(arguments)} bytes; at most {wire.MAX_LINE}"
            raise RequestError("arguments", operation.name, reason)
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

    # Wake-ups

    async def woken(self, seconds: float | None = None) -> tuple[AllocationRequest, ...]:
        """Wait until pending requests may start, or for some seconds, and return them.

        Raises:
            UnavailableError: the connection was closed, or belongs to another process.
        """
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not self._woken:
                        self._require_open()
                        self._news.clear()
                        if self._link is not None:
                            self._link.send(_WAIT)
                        await self._news.wait()
        finally:
            self._waiting -= 1
        found, self._woken = self._woken, ()
        return found

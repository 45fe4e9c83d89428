"""The connection of a client, for asyncio.

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
import os
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import InvalidStateError
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol, cast, final

from ugm.errors import RequestError
from ugm.service.addresses import Address, AddressChoice, LeaderAccess, parse_addresses
from ugm.service.errors import DeadlineError, ProtocolError, ServiceError, UnavailableError
from ugm.service.operations import Operation
from ugm.service.values import decode_error
from ugm.service.wire import (
    MAX_ANSWERS,
    MAX_LINE,
    OLDEST_VERSION,
    VERSION,
    Age,
    Bye,
    ErrorMessage,
    Hello,
    LineReader,
    Moved,
    Ping,
    Refused,
    Result,
    ServiceMessage,
    Staleness,
    Welcome,
    decode_service_lines,
    line,
)

__all__ = ["AnswerFuture", "AsyncConnection", "Transport", "open_transport"]

#: The maximum number of outstanding calls; further ones wait.
MAX_OUTSTANDING: Final = 8192
#: The time between two looks at the calls; without any message for `_SILENCE`, the leader gets a ping, and without one
#: for `_PATIENCE`, the client connects to the next address. The maximum time to connect, and the pause between two
#: attempts. All in seconds.
_WATCH: Final = 0.05
_SILENCE: Final = 0.7
_PATIENCE: Final = 1.5
_CONNECT: Final = 1.0
_PAUSE: Final = 0.05
#: The codes of refusals that another attempt would get as well.
_FINAL: Final = frozenset({"token", "version", "tls"})
_PING: Final = line(Ping())


class AnswerFuture(Protocol):
    """A future of asyncio, or of `concurrent.futures`."""

    def done(self) -> bool:
        """Return whether it has a result, or was cancelled."""
        ...

    def set_result(self, result: Any, /) -> None:  # noqa: ANN401 - any result
        """Set the result."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Set the error."""
        ...


class _Call(NamedTuple):
    """An outstanding call."""

    operation: Operation
    #: The end of its line, after the acknowledged number.
    line: bytes
    future: AnswerFuture
    #: On the monotonic clock.
    deadline: float


@final
class Transport(asyncio.Protocol):
    """A connection to one address.

    Args:
        receive: called with the messages of each read.
        lost: called when the connection has ended.
    """

    def __init__(self, receive: Callable[[list[ServiceMessage]], None], lost: Callable[[], None]) -> None:
        self._receive: Final = receive
        self._lost: Final = lost
        self._lines: Final = LineReader(MAX_ANSWERS)
        self.transport: asyncio.Transport | None = None
        #: When something was received last, on the monotonic clock.
        self.heard_at: float = monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the connection."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass complete messages on."""
        self.heard_at = monotonic()
        try:
            lines = self._lines.feed(data)
            if lines:
                self._receive(decode_service_lines(lines))
        except ProtocolError:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - as in the base class
        """Pass the loss on."""
        self._lost()

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection has ended."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        """End the connection at once."""
        if self.transport is not None:
            self.transport.abort()


async def open_transport(
    address: Address,
    tls: ssl.SSLContext | None,
    receive: Callable[[list[ServiceMessage]], None],
    lost: Callable[[], None],
) -> Transport:
    """Connect to an address.

    Raises:
        OSError: it cannot be reached.
        TimeoutError: it does not answer in time.
        ProtocolError: there is no encrypted connection, for example because the certificate is not trusted.
    """
    loop = asyncio.get_running_loop()

    def make() -> Transport:
        return Transport(receive, lost)

    async with asyncio.timeout(_CONNECT):
        if address.path:
            _, made = await loop.create_unix_connection(make, address.path)
            return made
        context = (tls or ssl.create_default_context()) if address.is_encrypted else None
        try:
            _, made = await loop.create_connection(make, address.host, address.port, ssl=context)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # The connection was lost during the handshake.
            raise
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or str(error)
            raise ProtocolError("tls", f"no encrypted connection to {address}: {reason}") from error
        return made


@final
class AsyncConnection:
    """A connection to the leader of a service, for the tasks of one loop.

    Args:
        access: the way to the leader.
        is_reader: whether only queries are made, from any process of the service.
    """

    def __init__(self, access: LeaderAccess, *, is_reader: bool = False) -> None:
        self.access: Final = access
        self._is_reader: Final = is_reader
        self._loop: Final = asyncio.get_running_loop()
        self._choice: Final = AddressChoice(parse_addresses(access.addresses))
        self._owner: Final = os.getpid()
        self._calls: Final[dict[int, _Call]] = {}
        self._number = 0
        #: Lines of calls that are sent at the end of this iteration of the loop.
        self._lines: list[bytes] = []
        self._transport: Transport | None = None
        #: Completed by the answer to the greeting.
        self._welcome: asyncio.Future[Welcome] | None = None
        self._is_welcome = False
        self._lost: Final = asyncio.Event()
        self._room: Final = asyncio.Event()
        self._ready: Final = asyncio.Event()
        #: Why the connection can never be used; None if it can.
        self._end: ServiceError | None = None
        self._reason = "it does not answer"
        #: The session; empty before the first connection and for a reader.
        self.session: str = ""
        #: The age of the last answer to a reader.
        self.staleness: Staleness | None = None
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
        except TimeoutError:
            await self.close()
            raise DeadlineError(self._choice.names, self._reason) from None
        except BaseException:
            await self.close()
            raise
        if self._end is not None:
            await self.close()
            raise self._end

    async def close(self) -> None:
        """End the session. Calls in progress fail."""
        if not self._task.done():
            if self._is_welcome and self._transport is not None:
                self.flush()
                self._transport.write(line(Bye()))
                if self._transport.transport is not None:
                    self._transport.transport.close()
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.fail(UnavailableError(self._choice.names, "the connection was closed"))

    def fail(self, error: ServiceError) -> None:
        """Let all calls fail, now and later."""
        self._watching.cancel()
        if self._end is None:
            self._end = error
        self._ready.set()
        self._room.set()
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
        while len(self._calls) >= MAX_OUTSTANDING and self._end is None:
            self._room.clear()
            await self._room.wait()
        return await self.call(operation, arguments)

    def begin(self, operation: Operation, arguments: bytes, future: AnswerFuture) -> None:
        """Begin a call whose future gets the answer; in the thread of the loop.

        Raises:
            RequestError: the call cannot be sent.
            UnavailableError: the connection was closed, or belongs to another process.
        """
        if os.getpid() != self._owner:
            raise UnavailableError(self._choice.names, "the connection was opened before this process was forked")
        if self._end is not None:
            raise type(self._end)(*self._end.args)
        if self._is_reader and operation.is_change:
            raise RequestError("operation", operation.name, "the connection is read-only", "operation-unavailable")
        if len(arguments) > MAX_LINE - 1024:
            raise RequestError("arguments", operation.name, f"they have {len(arguments)} bytes; at most {MAX_LINE}")
        self._number = number = self._number + 1
        rest = b"%b%b]\n" % (operation.prefix, arguments)
        self._calls[number] = _Call(operation, rest, future, monotonic() + self.access.deadline)
        if self._is_welcome:
            if not self._lines:
                self._loop.call_soon(self.flush)
            self._lines.append(self._line(number, rest))

    def _line(self, number: int, rest: bytes) -> bytes:
        return b'["call",%d,%d%b' % (number, next(iter(self._calls)) - 1, rest)

    def flush(self) -> None:
        """Send the calls that have begun now, instead of at the end of this iteration of the loop."""
        lines, self._lines = self._lines, []
        if lines and self._transport is not None:
            self._transport.write(b"".join(lines))

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
            kind = type(message)
            if kind is Result:
                self._take(message)  # type: ignore[arg-type]  # checked
            elif kind is ErrorMessage:
                self._take_error(message)  # type: ignore[arg-type]  # as above
            elif isinstance(message, Age):
                self.staleness = message.staleness
            elif isinstance(message, Moved):
                self._choice.suggest(message.address)
                self._reason = "another process leads" if message.address else "it neither leads nor knows the leader"
                self._drop()
            elif isinstance(message, Refused):
                self._refuse(message)
            elif isinstance(message, Welcome) and self._welcome is not None and not self._welcome.done():
                self._welcome.set_result(message)

    def _take(self, message: Result) -> None:
        call = self._calls.get(message.number)
        if call is None:
            return
        try:
            result = call.operation.result.decode(message.value, message.special)
        except ServiceError as error:
            self._finish(message.number, error)
        else:
            self._finish(message.number, result, is_error=False)

    def _take_error(self, message: ErrorMessage) -> None:
        if message.number in self._calls:
            try:
                error: Exception = decode_error(message.name, message.arguments)
            except ServiceError as malformed:
                error = malformed
            self._finish(message.number, error)

    def _refuse(self, message: Refused) -> None:
        self._reason = message.reason
        if message.code in _FINAL:
            self.fail(ProtocolError(message.code, message.reason))
        elif message.code == "session-unknown":
            # Its calls may or may not have been executed.
            self.session = ""
            for number in tuple(self._calls):
                self._finish(
                    number, UnavailableError(self._choice.names, f"the service was replaced: {message.reason}")
                )
        self._drop()

    # Connecting

    async def _keep_connected(self) -> None:
        """Connect whenever there is no connection."""
        while self._end is None:
            address = self._choice.next()
            try:
                await self._connect(address)
            except (OSError, TimeoutError) as error:
                self._reason = str(error) or "it does not answer"
                if isinstance(error, TimeoutError):
                    self._choice.avoid(address)
            except ProtocolError as error:
                self.fail(error)
                return
            else:
                await self._lost.wait()
            finally:
                self._drop()
            if not self._choice.has_suggestion:
                await asyncio.sleep(_PAUSE)

    async def _connect(self, address: Address) -> None:
        """Connect to an address, and send all outstanding calls when the process has accepted this client."""
        self._lost.clear()
        self._welcome = self._loop.create_future()
        self._transport = await open_transport(address, self.access.tls, self._receive, self._lost.set)
        hello = Hello(OLDEST_VERSION, VERSION, self.access.client, self.access.token, self.session, self._is_reader)
        self._transport.write(line(hello))
        lost = self._loop.create_task(self._lost.wait())
        try:
            await asyncio.wait((self._welcome, lost), timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
        if not self._welcome.done():
            if self._lost.is_set():
                raise ConnectionResetError(self._reason)
            raise TimeoutError
        self.session = self._welcome.result().session
        self._is_welcome, self._lines = True, []
        self._transport.write(b"".join([self._line(number, call.line) for number, call in self._calls.items()]))
        self._ready.set()

    def _drop(self) -> None:
        """End the connection; another one is opened."""
        self._is_welcome = False
        self._lost.set()
        if self._transport is not None:
            self._transport.abort()

    def _watch(self) -> None:
        """End calls at their deadlines, and the connection to a process that does not answer."""
        self._watching, now = self._loop.call_later(_WATCH, self._watch), monotonic()
        while self._calls:
            number, call = next(iter(self._calls.items()))
            if call.deadline > now:
                break
            self._finish(number, DeadlineError(self._choice.names, self._reason))
        transport = self._transport
        if not self._calls or transport is None or not self._is_welcome:
            return
        oldest = next(iter(self._calls.values())).deadline - self.access.deadline
        silence = now - max(transport.heard_at, oldest)
        if silence > _PATIENCE:
            self._reason = "it does not answer"
            self._drop()
        elif silence > _SILENCE:
            transport.write(_PING)

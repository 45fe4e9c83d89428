"""The connection of an asyncio client: any number of tasks share one socket and one session.

All calls that are made in one iteration of the loop are sent in one message. One task connects, sends pings while calls
are open, and gives up calls whose deadline has passed. If an exception from outside ends the task, another one begins
with a new connection. A call stays open until its future is complete, so the new connection sends it again.

A forked process uses no connection of its parent. Both would give the same numbers to different calls, and each would
read answers to the calls of the other. So the descriptors of a forked process are replaced at once. Its loop may be a
copy of the loop of its parent, and then both share what the system knows about the descriptors to wait for. So nothing
is registered or removed there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from copy import copy
from math import inf
from time import monotonic
from typing import Any, Final, cast, final
from weakref import WeakSet

from msgspec import Raw

from ugm.errors import RequestError
from ugm.service.addresses import Address, AddressChoice, LeaderAccess, parse_addresses
from ugm.service.calls import Call, OpenCalls, require_query
from ugm.service.errors import DeadlineError, ProtocolError, UnavailableError
from ugm.service.last_failure import LastFailure
from ugm.service.operations import Operation
from ugm.service.timing import Timing
from ugm.service.wire import (
    FINAL_REFUSALS,
    MAX_ANSWERS,
    MAX_ARGUMENTS,
    SESSION_UNKNOWN,
    VERSION,
    Bye,
    FrameReader,
    Hello,
    LeaderMessage,
    Moved,
    OperationRequest,
    Ping,
    Refused,
    Replies,
    Staleness,
    Welcome,
    decode_leader_message,
    frame,
    tls_refusals,
)

__all__ = ["AsyncClientConnection"]

_LOGGER: Final = logging.getLogger(__name__)

_SUCCESS: Final = 0
_PING: Final = frame(Ping())
_BYE: Final = frame(Bye())


@final
class _Call:
    """A call of a task."""

    __slots__ = ("deadline", "future", "number", "operation", "request")

    #: The number in the session; set by `OpenCalls`.
    number: int

    def __init__(
        self, operation: Operation, request: OperationRequest, deadline: float, future: asyncio.Future[Any]
    ) -> None:
        self.operation: Final = operation
        self.request: Final = request
        self.deadline: Final = deadline
        self.future: Final = future

    def wake(self) -> None:
        """Do nothing: a task does not read."""

    def complete(self, status: int, value: Raw) -> None:
        """Complete the future with the answer."""
        if self.future.done():
            return
        try:
            if status == _SUCCESS:
                self.future.set_result(self.operation.decode_result(value))
            else:
                self.future.set_exception(self.operation.decode_error(bytes(value)))
        except Exception as error:  # noqa: BLE001 - it is delivered
            self.future.set_exception(error)

    def fail(self, error: Exception) -> None:
        """Complete the future with an error."""
        if not self.future.done():
            self.future.set_exception(error)


@final
class _Channel(asyncio.Protocol):
    """One connection to one address."""

    def __init__(self, owner: AsyncClientConnection, address: Address) -> None:
        self._owner: Final = owner
        self.address: Final = address
        self._frames: Final = FrameReader(MAX_ANSWERS)
        self._transport: asyncio.Transport | None = None
        self.welcomed: Final[asyncio.Future[Welcome]] = asyncio.get_running_loop().create_future()
        self.lost: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self.received = monotonic()
        self.pinged = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        # The transports of other loops, such as that of uvloop, do not inherit from this class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Handle the messages that are complete."""
        self.received, self.pinged = monotonic(), False
        try:
            for each in self._frames.feed(data):
                self._handle(decode_leader_message(each))
        except ProtocolError as error:
            self.fail(error)
        except BaseException:
            # The rest of the data is lost.
            self.fail(ConnectionResetError("receiving was interrupted"))
            raise

    def _handle(self, message: LeaderMessage) -> None:
        if type(message) is Replies:
            self._owner.receive(message)
        elif type(message) is Staleness:
            self._owner.staleness = message
        elif type(message) is Welcome:
            if not self.welcomed.done():
                self.welcomed.set_result(message)
        elif type(message) is Moved:
            self._owner.choice.suggest(message.address)
            self.fail(ConnectionResetError(message.reason))
        elif type(message) is Refused:
            if message.code == SESSION_UNKNOWN:
                self._owner.lose_session(message.reason)
            self.fail(ProtocolError(message.code, message.reason))

    def connection_lost(self, error: Exception | None) -> None:
        """Let the owner connect again."""
        self.fail(error or ConnectionResetError("the leader closed the connection"))

    def fail(self, error: Exception) -> None:
        """Give up this connection."""
        if not self.welcomed.done():
            self.welcomed.set_exception(error)
            # Retrieve the exception, so that asyncio does not log it if no task waits for the greeting any more.
            self.welcomed.exception()
        if not self.lost.done():
            self.lost.set_result(None)
        self.close()

    def send(self, data: bytes) -> None:
        """Send data without waiting. A forked process sends nothing."""
        if self._transport is not None and not self._transport.is_closing() and not self._owner.is_in_fork:
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection; in a forked process, close its own descriptor only."""
        if self._owner.is_in_fork:
            self.leave_to_parent()
        elif self._transport is not None:
            self._transport.abort()

    def leave_to_parent(self) -> None:
        """Replace the descriptor of a forked process by that of a socket without a connection.

        The transport still has the number of the descriptor, so it must not become that of another file. If the loop of
        the parent goes on in this process, the transport gets an error.
        """
        transport, self._transport = self._transport, None
        connection = None if transport is None else transport.get_extra_info("socket")
        if connection is not None:
            # Without a descriptor for another socket, this one stays, and nothing uses it.
            with suppress(OSError), socket.socket() as replacement:
                os.dup2(replacement.fileno(), connection.fileno(), inheritable=False)


@final
class AsyncClientConnection:
    """A session with the leader for the tasks of one asyncio loop; `connect` opens it."""

    def __init__(
        self,
        addresses: str,
        *,
        client: str,
        token: str,
        tls: ssl.SSLContext | None,
        deadline: float,
        read_only: bool = False,
        timing: Timing | None = None,
    ) -> None:
        #: The arguments, for a subscription to the same partition.
        self.access: Final = LeaderAccess(addresses, client, token, tls, deadline)
        self.choice: Final = AddressChoice(parse_addresses(addresses))
        self._client: Final = client
        self._token: Final = token
        self._tls: Final = tls
        self._deadline: Final = deadline
        self._is_read_only: Final = read_only
        self._timing: Final = timing or Timing()
        self._process: Final = os.getpid()
        self._loop: Final = asyncio.get_running_loop()
        self._open: Final = OpenCalls()
        self._channel: _Channel | None = None
        #: The connections that are open.
        self._channels: Final[WeakSet[_Channel]] = WeakSet()
        self._is_scheduled = False
        self._is_closed = False
        self._work: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        #: Why there is no connection.
        self._failure: Final = LastFailure()
        self.session: str = ""
        self.term: int = 0
        #: The staleness of the last answer to a read-only connection.
        self.staleness: Staleness | None = None
        _CONNECTIONS.add(self)

    async def open(self, opened_by: float = inf) -> None:
        """Connect to the leader.

        Args:
            opened_by: when the connection must be open, if before the deadline; on the monotonic clock.

        Raises:
            DeadlineError: no leader can be reached within the deadline.
            ProtocolError: the service refuses this client.
        """
        await self._connect(min(monotonic() + self._deadline, opened_by))
        self._start_work()

    # Calls

    def call(self, operation: Operation, arguments: bytes) -> Awaitable[Any]:
        """Execute an operation; the awaitable returns its result.

        Raises:
            RequestError: the operation is no query and the connection is read-only, or its arguments are too large.
            UnavailableError: the connection was closed, or this process was forked from the one that opened it.
        """
        if self.is_in_fork:
            reason = f"the connection belongs to process {self._process}; a forked one needs its own"
            raise UnavailableError(self.choice.names, reason)
        if self._is_closed:
            raise UnavailableError(self.choice.names, "the connection is closed")
        if self._is_read_only:
            require_query(operation)
        if len(arguments) > MAX_ARGUMENTS:
            raise RequestError(operation.name, len(arguments), f"the arguments are larger than {MAX_ARGUMENTS} bytes")
        future = self._loop.create_future()
        self._open.add(
            _Call(operation, OperationRequest(operation.number, Raw(arguments)), monotonic() + self._deadline, future)
        )
        if not self._is_scheduled:
            self._loop.call_soon(self._flush)
            self._is_scheduled = True
        return future

    @property
    def is_in_fork(self) -> bool:
        """True in a process that was forked from the one that opened the connection."""
        return os.getpid() != self._process

    def leave_to_parent(self) -> None:
        """Close the connection in a forked process; the session of the parent goes on."""
        for channel in tuple(self._channels):
            channel.leave_to_parent()
        self._is_closed, self._channel = True, None

    def _flush(self) -> None:
        self._is_scheduled = False
        channel = self._channel
        try:
            while channel is not None and (data := self._open.take()):
                channel.send(data)
        except BaseException:
            # The calls of a message may be lost. A new connection sends all calls again.
            if channel is not None:
                channel.fail(ConnectionResetError("sending was interrupted"))
            raise

    def receive(self, message: Replies) -> None:
        """Complete the calls that are answered."""
        for call, answer in self._open.answered(message.answers):
            call.complete(answer.status, answer.value)
            self._open.discard(call.number)
        self._flush()

    def lose_session(self, reason: str) -> None:
        """Give up all open calls, because the session does not exist any more; the next call opens another one."""
        self.session = ""
        self._fail(self._open.all(), UnavailableError(self.choice.names, reason))

    def _fail(self, calls: Iterable[Call], error: Exception) -> None:
        for call in calls:
            # Each call has its own, because the traceback of an error belongs to one task.
            call.fail(copy(error))
            self._open.discard(call.number)

    # Connecting

    async def _connect(self, deadline: float) -> None:
        while (left := deadline - monotonic()) > 0 and not self.is_in_fork:
            address = self.choice.next()
            try:
                async with asyncio.timeout(min(left, self._timing.connect)):
                    channel = await self._greet(address)
            except (OSError, TimeoutError, ProtocolError) as error:
                if isinstance(error, ProtocolError) and error.problem in FINAL_REFUSALS:
                    raise
                self._failure.note(address, error, is_cut_short=left < self._timing.connect / 2)
                if isinstance(error, TimeoutError):
                    self.choice.avoid(address)
                if not self.choice.has_suggestion:
                    await asyncio.sleep(min(self._timing.pause, left))
                continue
            self._channel = channel
            self._failure.end()
            self._open.send_again()
            self._flush()
            return
        raise DeadlineError(self.choice.names, self._failure.reason)

    async def _greet(self, address: Address) -> _Channel:
        _, channel = await self._dial(address)
        acknowledged = self._open.acknowledged
        hello = Hello(VERSION, self._client, self._token, self.session, acknowledged, self._is_read_only)
        channel.send(frame(hello))
        try:
            welcome = await channel.welcomed
            self._require_current(welcome)
        except BaseException:
            if not self.session:
                # The leader may have opened a session, which it would keep for an hour.
                channel.send(_BYE)
            channel.close()
            raise
        self.session, self.term = welcome.session, welcome.term
        return channel

    def _require_current(self, welcome: Welcome) -> None:
        """Check that the leader is not one that has been replaced and does not know it yet."""
        if welcome.term < self.term:
            raise ConnectionResetError(f"its term {welcome.term} is over, this client knows term {self.term}")

    async def _dial(self, address: Address) -> tuple[asyncio.Transport, _Channel]:
        if address.path:
            return await self._loop.create_unix_connection(lambda: self._new_channel(address), address.path)
        tls = (self._tls or ssl.create_default_context()) if address.is_encrypted else None
        with tls_refusals(address):
            return await self._loop.create_connection(
                lambda: self._new_channel(address), address.host, address.port, ssl=tls
            )

    def _new_channel(self, address: Address) -> _Channel:
        channel = _Channel(self, address)
        self._channels.add(channel)
        return channel

    def _start_work(self) -> None:
        if not self._is_closed:
            self._work = self._loop.create_task(self._keep_connected())
            self._work.add_done_callback(self._end_work)

    def _end_work(self, work: asyncio.Task[None]) -> None:
        """Begin again after an exception from outside, with a new connection, as the state of this one is unknown."""
        failure = None if work.cancelled() else work.exception()
        if failure is None or self._is_closed:
            self._end()
            return
        self._drop()
        self._loop.call_later(self._timing.pause, self._start_work)
        _LOGGER.error("the task that keeps the connection was interrupted and begins again", exc_info=failure)

    def _end(self) -> None:
        self._is_closed = True
        self._drop()
        if self._expiry is not None:
            self._expiry.cancel()
        self._fail(self._open.all(), UnavailableError(self.choice.names, "the connection is closed"))

    def _drop(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    async def _keep_connected(self) -> None:
        """Connect again whenever the connection is lost, and give up calls whose deadline has passed."""
        while not self._is_closed and not self.is_in_fork:
            # It repeats itself, unless it is interrupted.
            self._expire()
            channel = self._channel
            if channel is None:
                await self._try_connect()
            else:
                await asyncio.wait((channel.lost,), timeout=self._timing.silence / 2)
                self._check(channel)

    async def _try_connect(self) -> None:
        try:
            with suppress(DeadlineError):
                await self._connect(monotonic() + self._timing.connect)
        except ProtocolError as error:
            self._fail(self._open.all(), error)
            await asyncio.sleep(self._timing.silence)

    def _expire(self) -> None:
        """Give up the calls whose deadline has passed, and send calls that are left; now and regularly."""
        if self.is_in_fork:
            # Tasks of the parent may go on in this process, and wait for these calls.
            self._end()
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._loop.call_later(self._timing.silence / 4, self._expire)
        expired = self._open.expired(monotonic())
        if expired:
            reason = f"no answer within {self._deadline:g} s"
            reason = reason if self._channel else f"{reason}; {self._failure.reason}"
            self._fail(expired, DeadlineError(self.choice.names, reason))
        self._flush()

    def _check(self, channel: _Channel) -> None:
        """Drop a channel that is lost, and ping one that is silent while calls are open."""
        if self.is_in_fork:
            return
        silence = monotonic() - channel.received
        is_silent = channel.pinged and silence > self._timing.patience
        if is_silent and not channel.lost.done():
            self.choice.avoid(channel.address)
        if is_silent or channel.lost.done():
            self._drop()
        elif self._open.calls and not channel.pinged and silence > self._timing.silence:
            channel.pinged, channel.received = True, monotonic()
            channel.send(_PING)

    async def close(self) -> None:
        """End the session and close the connection. Allocations stay. In a forked process, the session goes on."""
        if self.is_in_fork:
            self.leave_to_parent()
            return
        if self._channel is not None:
            self._channel.send(_BYE)
        self._end()
        if self._work is not None:
            self._work.cancel()
            # Unlike awaiting the task, this does not take the cancellation of the caller for that of the task.
            await asyncio.wait((self._work,))


#: The connections of this process.
_CONNECTIONS: Final[WeakSet[AsyncClientConnection]] = WeakSet()


def _leave_connections() -> None:
    """Close the connections of the parent in a forked process, before its copy of a loop can read from them."""
    for connection in tuple(_CONNECTIONS):
        connection.leave_to_parent()


# A loop that goes on in a forked process reads before it calls anything here.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_connections)

"""The connection of a client: blocking calls of any number of threads over one socket.

The problem: a call should cost no more thread switches than a plain request and answer on the socket, calls of many
threads should share messages, and no call may wait longer than its deadline, even if the leader stops.

The idea: the connection needs no thread of its own. A thread that makes a call sends it, together with the calls of
other threads that wait to be sent. Then one of the waiting threads reads for all of them. When its own answer has
arrived, it passes the reading on to another. A thread in the background reads only for calls without a waiting thread.

If nothing is received for a while, the reader sends a ping. If there is no answer either, it connects to the next
address and sends all open calls again, with their numbers.

Invariants:

- While a call is open, a thread reads, or a waiting thread has been woken to read.
- While a call is not sent, a thread sends, or the reader sends it when the socket accepts data again.
- A call stays open until its answer is stored, so an exception from outside cannot lose the answer of another call.
- The thread in the background survives every exception. After `close` it ends when no call is left.
- A forked process uses no connection of its parent, because both would give the same numbers to different calls.
- No thread waits for the leader except in `ClientSocket.receive` and while it connects, and both end at the deadline.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from math import inf
from sys import _getframe  # to find the caller of an operation
from threading import Thread, current_thread
from time import monotonic, sleep
from typing import Any, Final, TypeVar, final

import msgspec

from ugm.errors import ReentrantCallError, RequestError
from ugm.operation_lock import OwnedLock
from ugm.service.addresses import Address, AddressChoice, LeaderAccess, parse_addresses
from ugm.service.calls import Call, OpenCalls, require_query
from ugm.service.client_calls import ClientCall, Promise, PromisedCall, PromiseMode
from ugm.service.client_socket import PATIENCE, ClientSocket
from ugm.service.errors import DeadlineError, ProtocolError, UnavailableError
from ugm.service.last_failure import LastFailure
from ugm.service.operations import Operation
from ugm.service.timing import Timing
from ugm.service.wire import (
    FINAL_REFUSALS,
    MAX_ARGUMENTS,
    SESSION_UNKNOWN,
    VERSION,
    Bye,
    Hello,
    LeaderMessage,
    Moved,
    OperationRequest,
    Ping,
    Refused,
    Replies,
    Staleness,
    Welcome,
    frame,
)

__all__ = ["ClientConnection"]

_T = TypeVar("_T")

_LOGGER: Final = logging.getLogger(__name__)

_PING: Final = frame(Ping())


@final
class ClientConnection:
    """A session with the leader, over one socket at a time.

    Args:
        addresses: the addresses of all processes that may lead, separated by commas.
        client: the name of this client, for people.
        token: the secret of the service; empty for none.
        tls: the context for ``tls`` addresses; None for the certificates of the system.
        deadline: the maximum time of a call, in seconds.
        read_only: whether only queries are made, which any process answers.
        opened_by: when the first connection must be open, if before the deadline; on the monotonic clock.

    Raises:
        RequestError: an address is invalid.
        DeadlineError: no leader can be reached within the deadline.
        ProtocolError: the service refuses this client.
    """

    def __init__(
        self,
        addresses: str,
        *,
        client: str = "",
        token: str = "",
        tls: ssl.SSLContext | None = None,
        deadline: float = 10.0,
        read_only: bool = False,
        timing: Timing | None = None,
        opened_by: float = inf,
    ) -> None:
        #: The arguments, for a subscription to the same partition.
        self.access: Final = LeaderAccess(addresses, client, token, tls, deadline)
        self._choice: Final = AddressChoice(parse_addresses(addresses))
        self._client: Final = client
        self._token: Final = token
        self._tls: Final = tls
        self._deadline: Final = deadline
        self._is_read_only: Final = read_only
        self._timing: Final = timing or Timing()
        self._process: Final = os.getpid()
        #: How long a call that is alone waits before it checks its deadline and the connection, in seconds.
        self._first_wait: Final = min(deadline, self._timing.silence, PATIENCE)
        #: Protects the open calls, the settled ones, and the creation of the thread.
        self._guard: Final = OwnedLock()
        self._open: Final = OpenCalls()
        #: The promised calls that are done, and whose futures are not complete yet.
        self._settled: list[PromisedCall] = []
        #: Held by the thread that sends, and by the thread that reads.
        self._sending: Final = OwnedLock()
        self._reading: Final = OwnedLock()
        self._socket: ClientSocket | None = None
        self._thread: Thread | None = None
        self._mode: Final = PromiseMode()
        self._is_closed = False
        self.session: str = ""
        self.term: int = 0
        #: The staleness of the last answer to a read-only connection.
        self.staleness: Staleness | None = None
        #: Why there is no connection.
        self._failure: Final = LastFailure()
        self._refusal: ProtocolError | None = None
        self._open_session(min(monotonic() + deadline, opened_by))

    def _open_session(self, end: float) -> None:
        while self._socket is None:
            if self._refusal is not None:
                raise self._refusal
            if monotonic() >= end:
                raise DeadlineError(self._choice.names, self._failure.reason)
            self._try_connect(end)

    # Calls

    def call(self, operation: Operation, arguments: bytes) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation and return its result.

        Raises:
            DeadlineError: there was no answer within the deadline.
            ReentrantCallError: a signal handler or finalizer has interrupted another call of this thread.
            UnavailableError: the connection was closed, or this process was forked from the one that opened it.
            UgmError: the error of the operation.
        """
        if self._is_in_fork:
            raise self._unavailable(f"the connection belongs to process {self._process}; a forked one needs its own")
        if self._reading.is_owned() or self._sending.is_owned() or self._guard.is_owned():
            raise ReentrantCallError
        if self._is_read_only:
            require_query(operation)
        if len(arguments) > MAX_ARGUMENTS:
            raise RequestError(operation.name, len(arguments), f"the arguments are larger than {MAX_ARGUMENTS} bytes")
        request = OperationRequest(operation.number, msgspec.Raw(arguments))
        promise = self._mode.current
        # The method of the partition is between this call and the one of `promise`.
        if promise is not None and promise.caller is _getframe(2):
            promise.future = self._promise(operation, request)
            return None
        call = ClientCall(operation, request, monotonic() + self._deadline)
        try:
            if not self._exchange(call):
                self._start(call)
            if not call.is_done:
                self._await(call)
            if not call.is_done:
                self._give_up(call)
        except BaseException:
            self._guard.hold(self._open.discard, call.number)
            self._abandon_connection()
            raise
        return call.result()

    def promise(self, operation: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:  # noqa: ANN401
        """Call an operation of the partition without waiting for its answer; the future gets it.

        If a function is passed that calls operations itself, each of them waits for its answer.

        Raises:
            UnavailableError: the connection was closed, or no thread can be started.
        """
        promise, mode = Promise(_getframe()), self._mode
        mode.current = promise
        try:
            result = operation(*args, **kwargs)
        finally:
            # A frame that refers to itself would be left to the garbage collector.
            mode.current = promise.caller = None
        future: Future[_T] | None = promise.future
        if future is None:
            future = Future()
            future.set_result(result)
        return future

    def _promise(self, operation: Operation, request: OperationRequest) -> Future[Any]:
        call = PromisedCall(operation, request, monotonic() + self._deadline)
        self._start_thread()
        try:
            self._start(call)
        except BaseException:
            self._abandon_connection()
            raise
        return call.future

    def _abandon_connection(self) -> None:
        """Continue after an exception from outside: a new connection replaces this one, whose state is unknown."""
        self._guard.release_if_held()
        self._sending.release_if_held()
        connection = self._socket
        if connection is not None:
            connection.release_if_held()
            # The thread that reads next finds this, and sends all open calls again.
            if not self._is_in_fork:
                connection.abort()
        self._reading.release_if_held()
        # More than the usual two, because some of these calls may be answered, but not removed yet.
        self._guard.hold(self._wake_readers, len(self._open.calls))

    def _exchange(self, call: ClientCall) -> bool:
        """Send a call and read once, if no other call is open; return whether it was sent.

        This is what `_start` and `_await` do in more steps. In a program with one thread it is nearly always enough.
        """
        connection, opened = self._socket, self._open
        if connection is None or not self._reading.acquire(blocking=False):
            return False
        try:
            with self._guard:
                if opened.calls or self._is_closed:
                    return False
                data = opened.add_only(call)
            for message in connection.exchange(data, self._first_wait):
                answers = message.answers if type(message) is Replies else ()
                if len(answers) == 1 and answers[0].number == call.number:
                    with self._guard:
                        opened.discard(call.number)
                    call.complete(answers[0].status, answers[0].value)
                else:
                    self._handle(message)
        except (OSError, ProtocolError) as error:
            self._note_lost(connection, error)
        finally:
            self._end_reading()
        return True

    def _start(self, call: ClientCall) -> None:
        with self._guard:
            self._require_not_closed()
            self._open.add(call)
        self._flush()

    @property
    def _is_in_fork(self) -> bool:
        return os.getpid() != self._process

    def _require_not_closed(self) -> None:
        if self._is_closed:
            raise self._unavailable("the connection was closed")

    def _unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(self._choice.names, reason)

    def _await(self, call: ClientCall) -> None:
        """Wait for the answer to a call, and read while no other thread does."""
        call.prepare_to_sleep()
        while not call.is_done and (left := call.deadline - monotonic()) > 0:
            if self._reading.acquire(blocking=False):
                self._read_until(call)
            else:
                call.sleep(left)

    def _read_until(self, call: ClientCall) -> None:
        """Read until a call is done or its time is up, or until futures have to be completed."""
        try:
            while not call.is_done and not self._settled and monotonic() < call.deadline:
                self._read(call.deadline)
        finally:
            self._end_reading()

    def _end_reading(self) -> None:
        """Let another thread read, and complete the futures of the calls that are done."""
        self._reading.release()
        # A call that is added after this check finds that nothing reads.
        if self._open.calls:
            self._wake_readers()
        if self._settled:
            self._finish_settled()

    def _finish_settled(self) -> None:
        """Complete the futures of the calls that are done."""
        settled: list[PromisedCall] = []
        try:
            with self._guard:
                settled, self._settled = self._settled, []
            for call in settled:
                call.finish()
        except BaseException:
            # The thread that reads next completes them. Those that are complete stay as they are.
            self._guard.hold(lambda: self._settled.extend(settled))
            raise

    def _give_up(self, call: ClientCall) -> None:
        with self._guard:
            self._open.discard(call.number)
        call.fail(self._late())
        # This thread may have been woken to read.
        self._wake_readers()
        self._flush()

    def _late(self) -> DeadlineError:
        reason = f"no answer within {self._deadline:g} s"
        return DeadlineError(self._choice.names, reason if self._socket else f"{reason}; {self._failure.reason}")

    def _wake_readers(self, count: int = 2) -> None:
        """Let waiting threads read: by default the two oldest, because one of them may be giving up."""
        with self._guard:
            calls = self._open.first(count)
        for call in calls:
            call.wake()

    # Sending

    def _flush(self) -> None:
        """Send all unsent calls, also those of threads that find another one sending."""
        unsent = self._open.unsent
        while unsent and self._sending.acquire(blocking=False):
            try:
                has_sent = self._send_next()
            finally:
                self._sending.release()
            # Checked after the lock was released: another thread that could send now may have found it held.
            if not has_sent and not self._can_send():
                return

    def _can_send(self) -> bool:
        connection = self._socket
        with self._guard:
            return connection is not None and not connection.is_congested and self._open.can_send

    def _send_next(self) -> bool:
        """Send one message, under `_sending`; return whether there was one that can be sent now."""
        connection = self._socket
        if connection is None or connection.is_congested:
            return False
        with self._guard:
            data = self._open.take()
        if data:
            try:
                connection.send(data)
            except OSError:
                # The reader finds the lost connection and sends all open calls again.
                connection.abort()
        return bool(data)

    # Reading, by the thread that holds `_reading`

    def _read(self, deadline: float) -> None:
        """Receive messages once, or try once to connect."""
        connection = self._socket
        if connection is None:
            self._try_connect(deadline)
            return
        timing = self._timing
        limit = timing.patience if connection.is_pinged else timing.silence
        try:
            messages = connection.receive(min(deadline - monotonic(), limit))
            if not messages:
                self._check_silence(connection, limit)
            for message in messages:
                self._handle(message)
            if self._open.unsent:
                self._flush()
        except (OSError, ProtocolError) as error:
            self._note_lost(connection, error)

    def _note_lost(self, connection: ClientSocket, error: OSError | ProtocolError) -> None:
        """Close a connection that has failed; the next read connects again."""
        self._failure.note(connection.address, error)
        self._drop()
        if isinstance(error, TimeoutError):
            self._choice.avoid(connection.address)
        if isinstance(error, ProtocolError):
            self._note_refusal(error)

    def _check_silence(self, connection: ClientSocket, limit: float) -> None:
        if monotonic() - connection.active_at < limit:
            return
        if connection.is_pinged:
            raise TimeoutError("the leader does not answer")
        connection.is_pinged, connection.active_at = True, monotonic()
        connection.send(_PING)

    def _handle(self, message: LeaderMessage) -> None:
        if type(message) is Replies:
            with self._guard:
                answered = self._open.answered(message.answers)
            for call, answer in answered:
                call.complete(answer.status, answer.value)
            self._note_done([call for call, _ in answered])
        elif type(message) is Staleness:
            self.staleness = message
        elif type(message) is Moved:
            self._choice.suggest(message.address)
            raise ConnectionResetError(message.reason)
        elif type(message) is Refused:
            raise ProtocolError(message.code, message.reason)

    def _note_refusal(self, error: ProtocolError) -> None:
        """Give up all open calls if they would be refused again; a session that does not exist is replaced."""
        if error.problem == SESSION_UNKNOWN:
            self.session = ""
            self._fail_all(self._unavailable(error.reason))
        elif error.problem in FINAL_REFUSALS:
            self._refusal = error
            self._fail_all(error)
        sleep(self._timing.pause)

    def _fail_all(self, error: Exception) -> None:
        with self._guard:
            calls = self._open.all()
        for call in calls:
            # Each call has its own, because the traceback of an error belongs to one thread.
            call.fail(copy(error))
        self._note_done(calls)

    def _note_done(self, calls: Sequence[Call]) -> None:
        """Remove calls that are done. If the reader is interrupted before, they are sent and answered again."""
        promised = [call for call in calls if type(call) is PromisedCall]
        with self._guard:
            self._settled.extend(promised)
            for call in calls:
                self._open.discard(call.number)

    def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is None:
            return
        if self._is_in_fork:
            connection.leave_to_parent()
        else:
            connection.close()

    # Connecting

    def _try_connect(self, deadline: float) -> None:
        """Try one address; connect, resume the session and send all open calls again."""
        address = self._choice.next()
        left = deadline - monotonic()
        try:
            connection = self._connected(address, monotonic() + min(left, self._timing.connect))
        except (OSError, ProtocolError) as error:
            self._failure.note(address, error, is_cut_short=left < self._timing.connect / 2)
            if isinstance(error, ProtocolError):
                self._note_refusal(error)
            if isinstance(error, TimeoutError):
                self._choice.avoid(address)
            if not self._choice.has_suggestion:
                sleep(min(self._timing.pause, max(deadline - monotonic(), 0)))
            return
        self._failure.end()
        self._resume(connection)

    def _connected(self, address: Address, limit: float) -> ClientSocket:
        """Return a connection whose greeting was answered.

        Raises:
            OSError: there is no leader at the address.
            ProtocolError: the service refuses this client.
        """
        connection = ClientSocket(address, self._tls, limit, self._timing.active_wait)
        try:
            self._greet(connection, limit)
        except BaseException:
            connection.close()
            raise
        return connection

    def _greet(self, connection: ClientSocket, limit: float) -> None:
        with self._guard:
            acknowledged = self._open.acknowledged
        hello = Hello(VERSION, self._client, self._token, self.session, acknowledged, self._is_read_only)
        connection.send(frame(hello))
        is_welcome = False
        while not is_welcome:
            if monotonic() >= limit:
                raise TimeoutError("no answer to the greeting")
            for message in connection.receive(limit - monotonic()):
                if type(message) is Welcome:
                    self._accept(message)
                    is_welcome = True
                else:
                    self._handle(message)

    def _accept(self, welcome: Welcome) -> None:
        """Use a session, unless the leader has been replaced and does not know it yet."""
        if welcome.term < self.term:
            raise ConnectionResetError(f"its term {welcome.term} is over, this client knows term {self.term}")
        self.session, self.term, self._refusal = welcome.session, welcome.term, None

    def _resume(self, connection: ClientSocket) -> None:
        with self._sending:
            with self._guard:
                self._open.send_again()
            self._socket = connection
        self._flush()

    # The thread in the background

    def _start_thread(self) -> None:
        """Start the thread, unless it lives.

        Raises:
            UnavailableError: the connection was closed, or the system starts no thread.
        """
        thread = self._thread
        if thread is None or not thread.is_alive():
            self._guard.hold(self._replace_thread)

    def _replace_thread(self) -> None:
        self._require_not_closed()
        # Another thread may have replaced it. One whose start was interrupted does not live.
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._work, name="ugm connection", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:
                raise self._unavailable(f"no thread completes the futures: {error}") from error

    def _work(self) -> None:
        """Read for the calls without a waiting thread. After the end of the session, fail those that are left."""
        while not self._is_closed or self._open.calls or self._settled:
            try:
                self._work_once()
            except BaseException:
                with suppress(BaseException):
                    self._abandon_connection()
                    sleep(self._timing.pause)
                    _LOGGER.exception("the thread that completes futures was interrupted and goes on")

    def _work_once(self) -> None:
        if self._is_closed:
            self._fail_all(self._unavailable("the connection was closed"))
        elif self._reading.acquire(timeout=self._timing.silence):
            self._read_once()
        self._expire()
        self._finish_settled()

    def _read_once(self) -> None:
        try:
            # It may have been closed while this thread waited.
            if not self._is_closed:
                self._read(self._next_deadline())
        finally:
            self._end_reading()

    def _next_deadline(self) -> float:
        """Return until when this thread may read before it has to give up calls."""
        with self._guard:
            [*oldest] = self._open.first(1)
        latest = monotonic() + self._timing.connect
        return min(latest, oldest[0].deadline + self._timing.pause) if oldest else latest

    def _expire(self) -> None:
        with self._guard:
            expired = self._open.expired(monotonic())
        for call in expired:
            call.fail(self._late())
        self._note_done(expired)

    def close(self) -> None:
        """End the session and close the connection. Allocations stay. In a forked process, the session goes on."""
        if self._is_in_fork:
            self._is_closed = True
            self._drop()
            return
        # From now on, the thread in the background ends the calls that are left, even if this method is interrupted.
        self._is_closed = True
        self._say_goodbye()
        self._guard.hold(self._fail_all, self._unavailable("the connection was closed"))
        self._close_socket()
        thread = self._thread
        # The callback of a future may call this method.
        if thread is None or thread is current_thread() or not thread.is_alive():
            self._finish_settled()
        else:
            thread.join()

    def _say_goodbye(self) -> None:
        connection = self._socket
        if connection is not None:
            with suppress(OSError):
                try:
                    connection.send(frame(Bye()))
                finally:
                    connection.abort()

    def _close_socket(self) -> None:
        try:
            if self._reading.acquire(timeout=self._timing.connect):
                self._drop()
        finally:
            self._reading.release_if_held()

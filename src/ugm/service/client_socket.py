"""The socket of a blocking client: one connection to one address, used by a sender and a reader at the same time.

The problem: a thread that sends must not wait for a leader that does not read, because it would miss its deadline. The
timeout of a Python socket belongs to the socket, so two threads cannot use different ones. OpenSSL does not allow two
threads to use one connection at the same time.

The idea: the socket never blocks. `send` passes to the system as much as fits, and keeps the rest. The reader waits for
both directions and sends the rest. A lock protects the state of an encrypted connection for the few microseconds of a
call.

The reader waits with `select.poll` and not in the call that receives, although this takes one system call more. Linux
wakes a thread that waits in `recv` on a Unix socket also when the leader has read its message, long before the answer.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from time import monotonic
from typing import Any, Final, TypeAlias, final

from ugm.operation_lock import OwnedLock
from ugm.service.active_wait import ActiveWait
from ugm.service.addresses import Address
from ugm.service.errors import ProtocolError
from ugm.service.wire import MAX_ANSWERS, FrameReader, LeaderMessage, decode_leader_message, tls_refusals

__all__ = ["PATIENCE", "ClientSocket"]

#: An element of the result of `socket.getaddrinfo`.
_AddressInfo: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]

_RECEIVE: Final = 1 << 16
#: The number of records of an encrypted connection that are read at once.
_RECORDS: Final = 64
#: The number of bytes that wait to be sent at which the socket accepts no more.
_CONGESTED: Final = 1 << 20
_WAIT: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
#: The time after which the reader notices that something is left to send, in seconds.
PATIENCE: Final = 0.1


@final
class ClientSocket:
    """One connection to one address.

    Args:
        address: the address.
        tls: the context for a ``tls`` address; None for the certificates of the system.
        deadline: the time of `time.monotonic` until which the connection must be open.
        active_wait: how long `exchange` polls for the answer before it sleeps, in seconds.

    Raises:
        OSError: the address cannot be reached.
        ProtocolError: no encrypted connection is possible.
    """

    __slots__ = (
        "_frames",
        "_guard",
        "_is_encrypted",
        "_poll",
        "_socket",
        "_unsent",
        "_wait_for_answer",
        "active_at",
        "address",
        "is_pinged",
    )

    def __init__(self, address: Address, tls: ssl.SSLContext | None, deadline: float, active_wait: float) -> None:
        self.address: Final = address
        self._socket: Final = _connect(address, tls, deadline)
        self._socket.settimeout(0)
        self._frames: Final = FrameReader(MAX_ANSWERS)
        #: Protects the bytes that wait to be sent, and the state of an encrypted connection.
        self._guard: Final = OwnedLock()
        self._is_encrypted: Final = isinstance(self._socket, ssl.SSLSocket)
        self._unsent: Final = bytearray()
        self._poll: Final = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._wait_for_answer: Final = ActiveWait(self._has_input, active_wait)
        #: When the leader was last known to read or write.
        self.active_at: float = monotonic()
        #: Whether a ping was sent since then.
        self.is_pinged: bool = False

    @property
    def is_congested(self) -> bool:
        """True if the bytes that wait to be sent exceed the bound."""
        return len(self._unsent) > _CONGESTED

    def send(self, data: bytes) -> None:
        """Send data, as far as the system accepts them now; `receive` sends the rest.

        Raises:
            OSError: the connection is lost.
        """
        with self._guard:
            if self._unsent:
                sent = 0
            else:
                try:
                    sent = self._socket.send(data)
                except _WAIT:
                    sent = 0
            if sent < len(data):
                self._unsent.extend(data[sent:])

    def _send_rest(self) -> None:
        with self._guard, suppress(*_WAIT):
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
                self.active_at = monotonic()

    def receive(self, timeout: float) -> list[LeaderMessage]:
        """Return the messages that arrive within a time; none if there are none. One thread at a time calls this.

        Raises:
            OSError: the connection is lost.
            ProtocolError: the data are not those of a leader.
        """
        if not self._has_arrived(max(min(timeout, PATIENCE), 0)):
            return []
        return [decode_leader_message(each) for each in self._receive_frames()]

    def exchange(self, data: bytes, timeout: float) -> list[LeaderMessage]:
        """Call `send` and then `receive`: the same in fewer steps, if all data are sent and the answer is one frame."""
        self.send(data)
        if self._unsent or self._is_encrypted:
            return self.receive(timeout)
        return list(map(decode_leader_message, self._receive_frames())) if self._wait_for_answer(timeout) else []

    def _has_input(self, timeout: float | None) -> bool:
        return bool(self._poll.poll(None if timeout is None else timeout * 1000))

    def _receive_frames(self) -> list[bytes]:
        try:
            data = self._receive_records() if self._is_encrypted else self._socket.recv(_RECEIVE)
        except _WAIT:
            return []
        if not data:
            raise ConnectionResetError("the leader closed the connection")
        self.active_at, self.is_pinged = monotonic(), False
        return self._frames.feed(data)

    def _receive_records(self) -> bytes:
        """Receive the records that have arrived, up to a bound. Many of them contain one short answer each."""
        with self._guard:
            records = [self._socket.recv(_RECEIVE)]
            size = len(records[0])
            # What has arrived counts, also if the connection is broken after it. The next call finds that out.
            with suppress(OSError):
                # At the end of the connection the last one is empty, and so is the first one of the next call. Polling
                # takes a sixth of the time of a call that receives nothing.
                while records[-1] and size < _RECEIVE and len(records) < _RECORDS and self._has_input(0):
                    records.append(self._socket.recv(_RECEIVE))
                    size += len(records[-1])
            return b"".join(records)

    def _has_pending(self) -> bool:
        """Return whether a part of a record waits to be received, which the system does not know."""
        with self._guard:
            return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _has_arrived(self, timeout: float) -> bool:
        """Wait for data, and send what waits to be sent."""
        if self._is_encrypted and self._has_pending():
            return True
        if not self._unsent:
            return self._has_input(timeout)
        self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
        found = 0
        for _, events in self._poll.poll(timeout * 1000):
            found |= events
        self._poll.modify(self._socket, select.POLLIN)
        if found & select.POLLOUT:
            self._send_rest()
        return bool(found & ~select.POLLOUT)

    def abort(self) -> None:
        """End the connection, so that the reader notices at once; from any thread."""
        with suppress(OSError):
            # The method of an encrypted socket gives up the encryption first, and other threads would send plain text.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def release_if_held(self) -> None:
        """Release the lock that a sender of this thread still holds after an exception."""
        self._guard.release_if_held()

    def close(self) -> None:
        """Close the connection; called by the reader."""
        # Closing also gives up the encryption first. From now on nothing can be sent, even if it is interrupted there.
        self.abort()
        # A thread in the middle of sending would use the descriptor, which may soon be that of another file. It does
        # not send for long on an ended connection, but it may have been interrupted before it released the lock.
        self._guard.acquire(timeout=PATIENCE)
        try:
            self._socket.close()
        finally:
            self._guard.release_if_held()

    def leave_to_parent(self) -> None:
        """Close the descriptor of a forked process; the connection of its parent stays open."""
        # A thread that held the lock does not exist in this process.
        self._socket.close()


def _connect(address: Address, tls: ssl.SSLContext | None, deadline: float) -> socket.socket:
    if address.path:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_left(deadline))
            connection.connect(address.path)
        except OSError:
            connection.close()
            raise
        return connection
    connection = _connect_tcp(address, deadline)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.is_encrypted:
        return connection
    context = tls or ssl.create_default_context()
    try:
        connection.settimeout(_left(deadline))
        with tls_refusals(address):
            return context.wrap_socket(connection, server_hostname=address.host)
    except (OSError, ProtocolError):
        connection.close()
        raise


def _connect_tcp(address: Address, deadline: float) -> socket.socket:
    """Connect to the first of the host's addresses that answers."""
    failure: OSError = OSError(f"{address} has no address")
    for family, kind, protocol, _, place in _addresses_of(address, deadline):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_left(deadline))
            connection.connect(place)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure


def _addresses_of(address: Address, deadline: float) -> Sequence[_AddressInfo]:
    """Look up a host. The system sets no time limit, so it is done in a thread that may be left behind."""
    found: Queue[Sequence[_AddressInfo] | OSError] = Queue()

    def look_up() -> None:
        try:
            found.put(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
        except OSError as error:
            found.put(error)
        except Exception as error:  # noqa: BLE001 - without an answer, the client would wait until its deadline
            found.put(OSError(f"the look-up of {address.host} failed: {error}"))

    try:
        Thread(target=look_up, name=f"look-up of {address.host}", daemon=True).start()
    except RuntimeError as error:
        raise OSError(f"the look-up of {address.host} failed: {error}") from error
    try:
        result = found.get(timeout=_left(deadline))
    except Empty:
        raise TimeoutError(f"the look-up of {address.host} takes too long") from None
    if isinstance(result, OSError):
        raise result
    return result


def _left(deadline: float) -> float:
    """Return the remaining time; a time of 0 would mean that the socket does not block."""
    return max(deadline - monotonic(), 0.001)

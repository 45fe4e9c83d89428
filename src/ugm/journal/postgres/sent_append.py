"""An append that was sent to PostgreSQL and has no answer yet.

The loop of a leader sends changes with it. If a thread waits for each answer instead, it competes with the loop for the
interpreter, and a leader with 40 clients makes a third fewer decisions.
"""

from __future__ import annotations

import struct
from time import monotonic
from typing import Any, Final, final

import psycopg
from psycopg.pq import ExecStatus

from ugm.journal.file_writer import ChangeRow
from ugm.journal.postgres.connection import poll_socket

__all__ = ["PreparedAppend", "SentAppend"]

#: The format of parameters and results.
_BINARY: Final = 1
_FORMATS: Final = (_BINARY,) * 5
#: What to wait for.
_READ: Final = 1
_WRITE: Final = 2
_pack_bigint: Final = struct.Struct("!q").pack


@final
class PreparedAppend:
    """The statement that appends a change, prepared in a connection.

    Args:
        connection: the connection; only one thread at a time uses it.
        name: the name of the statement, as the server knows it. Its parameters are the term, and the number, the
            instant, the data and the checksum of the change.
        term: the term in which changes are written.
        longest: the time within which the server must answer, in seconds.
    """

    __slots__ = ("_connection", "_last", "_longest", "_name", "_term")

    def __init__(self, connection: psycopg.Connection[Any], name: str, term: int, longest: float) -> None:
        self._connection: Final = connection
        self._name: Final = name.encode()
        self._term: Final = _pack_bigint(term)
        self._longest: Final = longest
        #: The last append that was sent with this statement.
        self._last: SentAppend | None = None

    def is_usable_in(self, connection: psycopg.Connection[Any]) -> bool:
        """Return whether `send` can be used, and this is its connection."""
        return self._connection is connection and not self._is_refused

    @property
    def _is_refused(self) -> bool:
        """True after an error of the server. It may have forgotten the statement (``DISCARD ALL``)."""
        return self._last is not None and self._last.is_refused

    def send(self, row: ChangeRow) -> SentAppend | None:
        """Send a change. If this fails, close the connection and return None."""
        if self._connection.closed or self._is_refused:
            return None
        pgconn = self._connection.pgconn
        number, at, data, checksum = row
        values = (self._term, _pack_bigint(number), _pack_bigint(at), data, _pack_bigint(checksum))
        try:
            pgconn.send_query_prepared(self._name, values, _FORMATS, _BINARY)
            self._last = SentAppend(pgconn, is_sent=pgconn.flush() == 0, ends_at=monotonic() + self._longest)
        except psycopg.Error:
            pgconn.finish()
            return None
        except BaseException:
            # An interrupted call leaves the connection in an unknown state.
            pgconn.finish()
            raise
        return self._last


@final
class SentAppend:
    """An append without an answer; a `ugm.journal.log.SentCommit`.

    Args:
        pgconn: the connection of libpq, which does not block.
        is_sent: whether the operating system has accepted the whole message.
        ends_at: when the server must have answered, on the monotonic clock.
    """

    __slots__ = ("_ends_at", "_is_accepted", "_pgconn", "is_sent")

    #: Whether the operating system has accepted the whole message.
    is_sent: bool

    def __init__(self, pgconn: psycopg.pq.abc.PGconn, *, is_sent: bool, ends_at: float) -> None:
        self._pgconn: Final = pgconn
        self._ends_at: Final = ends_at
        #: Whether all results up to now were successes; None before the first one. An error of the commit itself, such
        #: as that of a deferred constraint, is a second result.
        self._is_accepted: bool | None = None
        self.is_sent = is_sent

    @property
    def is_refused(self) -> bool:
        """True if the server has answered with an error."""
        return self._is_accepted is False

    @property
    def connection(self) -> object:
        """The connection; the same object for all commits that were sent over it."""
        return self._pgconn

    def fileno(self) -> int:
        """Return the descriptor of the socket, which is readable when a part of the answer has arrived.

        Raises:
            OSError: the connection was closed.
        """
        try:
            return self._pgconn.socket
        except psycopg.Error as error:
            raise OSError(*error.args) from error

    def result(self, timeout: float = 0) -> bool | None:
        """Return whether the change is durable; False if this is uncertain, and None if there is no answer yet.

        After False the connection is closed, unless the server has answered with an error.

        Args:
            timeout: the time to wait for a part of the answer, in seconds.
        """
        try:
            if timeout:
                self._wait(timeout)
            return self._receive()
        except psycopg.Error:
            self._pgconn.finish()
            return False
        except BaseException:
            self._pgconn.finish()
            raise

    def _wait(self, timeout: float) -> None:
        poll_socket(self._pgconn.socket, _READ if self.is_sent else _READ | _WRITE, timeout)

    def _receive(self) -> bool | None:
        pgconn = self._pgconn
        if not self.is_sent:
            self.is_sent = pgconn.flush() == 0
        pgconn.consume_input()
        while not pgconn.is_busy():
            answer = pgconn.get_result()
            if answer is None:
                return bool(self._is_accepted)
            if self._is_accepted is not False:
                self._is_accepted = answer.status == ExecStatus.TUPLES_OK
        if monotonic() > self._ends_at:
            raise psycopg.OperationalError("the server has not answered in time")
        return None

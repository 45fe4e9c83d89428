"""A connection to PostgreSQL whose calls are bounded in time, by the server and by this process."""

from __future__ import annotations

import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeAlias, final
from zlib import crc32

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.waiting import Ready

from ugm.errors import RequestError
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.postgres.layout import LAYOUT, TABLES

__all__ = ["UNAVAILABLE", "Database", "Row", "TimeLimits", "poll_socket"]

#: The errors after which a later attempt may succeed: the server does not answer, restarts, or only reads.
UNAVAILABLE: Final = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)

#: A lost connection without an answer of the network is detected after these times.
_KEEPALIVE: Final[Mapping[str, int]] = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
#: The first number of the advisory locks of all logs.
_LOCK_CLASS: Final = 0x75676D
#: The time that this process waits longer than the server, in seconds.
_EXTRA_WAIT: Final = 2.0

_Connection: TypeAlias = psycopg.Connection[Any]

#: A row of a table.
Row: TypeAlias = tuple[Any, ...]


@final
@dataclass(slots=True, frozen=True, kw_only=True)
class TimeLimits:
    """The maximum times of a connection, in seconds."""

    connect: int = 5
    statement: float = 5.0
    #: In a transaction.
    idle: float = 30.0


@final
class _BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed if a call takes too long: the server may have been stopped."""

    #: The maximum time of a call, in seconds.
    longest_call: float = 60.0

    def wait(self, gen: PQGen[Any], *_args: object, **_kwargs: object) -> Any:  # noqa: ANN401 - as in the base class
        """Run a call to its end.

        Raises:
            psycopg.OperationalError: the server has not answered in time.
        """
        try:
            return _run_to_end(gen, self.pgconn.socket, self.longest_call)
        except psycopg.Error:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise
        except BaseException:
            # An interrupted call leaves the connection in an unknown state.
            self.pgconn.finish()
            raise


def _run_to_end(calls: PQGen[Any], descriptor: int, timeout: float) -> Any:  # noqa: ANN401 - the result of any call
    """Run a call of psycopg, which yields whenever it has to wait for the socket."""
    end = monotonic() + timeout
    try:
        wanted = next(calls)
        while ready := poll_socket(descriptor, wanted, end - monotonic()):
            wanted = calls.send(Ready(ready))
    except StopIteration as stop:
        return stop.value
    raise psycopg.OperationalError(f"no answer within {timeout:g} seconds")


def poll_socket(descriptor: int, wanted: int, timeout: float) -> int:
    """Wait until a socket is ready, and return how: 1 to read, 2 to write, 3 for both; 0 after the time-out.

    Args:
        descriptor: the descriptor of the socket.
        wanted: what to wait for, as in the result.
        timeout: the maximum time, in seconds.
    """
    poll = select.poll()
    poll.register(descriptor, (select.POLLIN if wanted & 1 else 0) | (select.POLLOUT if wanted & 2 else 0))
    found = poll.poll(max(0.0, timeout) * 1000)
    if not found:
        return 0
    mask = found[0][1]
    if mask & ~(select.POLLIN | select.POLLOUT):
        return wanted
    return (1 if mask & select.POLLIN else 0) | (2 if mask & select.POLLOUT else 0)


@final
class Database:
    """A connection to the schema of a log, which is opened when it is needed.

    Args:
        conninfo: a connection URL, or keywords and values, as for libpq.
        schema: the schema of the tables.
        limits: the maximum times of the connection.
    """

    __slots__ = ("_connection", "_conninfo", "_limits", "_quoted", "location", "schema")

    _connection: _Connection | None

    def __init__(self, conninfo: str, schema: str, limits: TimeLimits) -> None:
        self._conninfo: Final = conninfo
        self._limits: Final = limits
        self._connection = None
        self._quoted: Final = sql.Identifier(schema).as_string(None)
        self.schema: Final = schema
        self.location: Final = _shown_location(conninfo, schema)

    # Connecting

    @property
    def is_connected(self) -> bool:
        """True if the connection is open."""
        return self._connection is not None and not self._connection.closed

    @property
    def longest_call(self) -> float:
        """The time after which a call fails without an answer, in seconds."""
        return self._limits.statement + _EXTRA_WAIT

    @property
    def connection(self) -> _Connection:
        """The connection, which is opened if necessary.

        Raises:
            psycopg.OperationalError: the server cannot be reached.
        """
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = self._connect()
        return connection

    def _connect(self) -> _Connection:
        limits = self._limits
        options: dict[str, Any] = {"connect_timeout": limits.connect, **_KEEPALIVE}
        connection = _BoundedConnection.connect(self._conninfo, autocommit=True, prepare_threshold=1, **options)
        connection.longest_call = self.longest_call
        try:
            connection.execute(
                """
                SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
                    set_config('idle_in_transaction_session_timeout', %s, false),
                    CASE current_setting('synchronous_commit') WHEN 'off' THEN
                        set_config('synchronous_commit', 'on', false) END
                """,
                [str(int(seconds * 1000)) for seconds in (limits.statement, limits.statement, limits.idle)],
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    # Statements

    def text(self, statement: str) -> str:
        """Return a statement with the name of the schema."""
        return statement.replace("{schema}", self._quoted)

    def run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows.

        Raises:
            psycopg.Error: it failed.
        """
        cursor = self.connection.cursor(binary=True)
        cursor.execute(self.text(statement).encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def only_row(self, statement: str, name: str) -> Row:
        """Return the row of a table that has exactly one.

        Args:
            statement: the statement that reads the table.
            name: the name of the row, for an error.

        Raises:
            JournalDamagedError: the row is missing, or there are several, or it lacks a value.
            psycopg.Error: it cannot be read.
        """
        found = self.run(statement)
        if len(found) != 1 or None in found[0]:
            state = "damaged" if found else "missing"
            raise JournalDamagedError(self.location, f"the {name} is {state}", 0)
        return found[0]

    def script(self, statements: str) -> None:
        """Run several statements.

        Raises:
            psycopg.Error: one of them failed.
        """
        self.connection.execute(self.text(statements).encode())

    @contextmanager
    def translated_errors(self, what: str) -> Iterator[None]:
        """Raise errors of the database as `JournalError`."""
        try:
            yield
        except psycopg.Error as error:
            raise JournalError(self.location, f"{what}: {_text_of(error)}") from error

    # Locks and layout

    @property
    def lock_numbers(self) -> tuple[int, int]:
        """The numbers of the advisory lock of the log."""
        return _LOCK_CLASS, crc32(self.schema.encode()) - 2**31

    @property
    def lock_numbers_of_compaction(self) -> tuple[int, int]:
        """The numbers of the advisory lock for compacting the log."""
        return _LOCK_CLASS + 1, self.lock_numbers[1]

    def find_layout(self) -> int | None:
        """Return the version of the tables; None if there are none.

        Raises:
            JournalDamagedError: the version is missing.
            psycopg.Error: it cannot be read.
        """
        # `to_regclass` may not notice a table that was created after the current transaction began.
        [[is_there]] = self.run(
            "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version')", [self.schema]
        )
        if not is_there:
            return None
        [layout] = self.only_row("SELECT layout FROM {schema}.version", "format version of the tables")
        return int(layout)

    def require_layout(self) -> None:
        """Check the version of the tables.

        Raises:
            JournalDamagedError: the version is missing.
            JournalError: there are no tables, or their version is another one.
            psycopg.Error: it cannot be read.
        """
        layout = self.find_layout()
        if layout is None:
            raise JournalError(self.location, f"there is no journal in the schema {self.schema}")
        if layout != LAYOUT:
            age = "older" if layout < LAYOUT else "newer"
            reason = f"the format version {layout} of its tables is {age} than the supported version {LAYOUT}"
            raise JournalError(self.location, reason)

    def create(self) -> None:
        """Create the tables if they do not exist. Of several processes, one creates them.

        Raises:
            JournalDamagedError: there are tables, but their version is missing.
            psycopg.Error: they cannot be created.
        """
        if self.find_layout() is not None:
            return
        with self.connection.transaction():
            self.run("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK_CLASS - 1, self.lock_numbers[1]])
            if self.find_layout() is None:
                self.script(TABLES)
                self.run("INSERT INTO {schema}.version VALUES (%s)", [LAYOUT])
                self.run("INSERT INTO {schema}.leader VALUES (true, 0, 0, '', '', clock_timestamp())")


def _text_of(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _shown_location(conninfo: str, schema: str) -> str:
    """Return the address of a log for people, without a password."""
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        # The value is not shown, because it may contain a password.
        raise RequestError("conninfo", "...", f"expected a connection string of PostgreSQL ({error})") from None
    host = found.get("host") or found.get("hostaddr") or "localhost"
    port = f":{found['port']}" if found.get("port") else ""
    return f"postgresql://{host}{port}/{found.get('dbname') or ''} (schema {schema})"

"""A store in a schema of PostgreSQL, for the processes of many machines.

A process becomes the leader by raising the term in the only row of the table ``leader``. From then on the database
refuses changes of the leader before. An advisory lock shows that a leader is connected. It only prevents needless
changes of the leader: the term decides.

Every call is bounded in time, by the server and by this process. A lost connection is detected, and the next statement
opens another one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, ClassVar, Final, TypeVar, cast, final
from zlib import crc32

import psycopg
from psycopg import generators, sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from ugm.errors import RequestError
from ugm.store.database import ROWS_AT_ONCE, TYPES, ChangeRow, Database, LeaderRecord, StoreError, names_of, quoted
from ugm.store.row_tables import SqlColumn, SqlRow

_T = TypeVar("_T")

#: A lost connection without an answer of the network is detected after these times.
_KEEPALIVE: Final[Mapping[str, int]] = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
#: The maximum times of connecting and of a transaction without a statement, in seconds.
_CONNECT_TIMEOUT: Final = 5
_IDLE_TIMEOUT: Final = 30.0
#: The time that this process waits longer than the server, in seconds.
_EXTRA_WAIT: Final = 2.0
#: The first number of the advisory locks of all stores; the number before is that of their creation.
_LOCK_CLASS: Final = 0x75676D73
#: The maximum time that the server usually takes to end the connection of a process that has died, in seconds.
_DISCONNECT_TIME: Final = 0.2
_PAUSE: Final = 0.02
#: The maximum length of a name in PostgreSQL, in bytes.
_LONGEST_NAME: Final = 63
_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_APPEND: Final = f"""
    WITH led AS (
        UPDATE leader SET number = $1, renewed_at = {_NOW} WHERE term = $2 AND number = $3 RETURNING term
    )
    INSERT INTO change SELECT mine.number, led.term, mine.at, mine.data, mine.sum
    FROM led, unnest($4::bigint[], $5::bigint[], $6::bytea[], $7::bigint[]) AS mine(number, at, data, sum)
    RETURNING 1
    """.encode()  # noqa: S608 - a constant
_BIGINT: Final = struct.Struct("!q")
#: The number of each type, and the binary form of a value, by the kind of a column.
_BINARY: Final[Mapping[str, tuple[int, Callable[[Any], bytes]]]] = {
    "boolean": (16, lambda value: b"\1" if value else b"\0"),
    "bytes": (17, bytes),
    "bigint": (20, _BIGINT.pack),
    "text": (25, str.encode),
    # The version of the form comes first.
    "json": (3802, lambda text: b"\1" + text.encode()),
}


def _array(kind: str, values: Sequence[object]) -> bytes:
    """Return the binary form of an array of values of a kind of column, as the server receives it."""
    number, encode = _BINARY[kind]
    parts = [struct.pack("!iiIii", 1, 1, number, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            data = encode(value)
            parts += (len(data).to_bytes(4, "big"), data)
    return b"".join(parts)


@final
class _BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed if a call takes too long: the server may have been stopped."""

    #: The maximum time of a call, in seconds.
    longest_call: float = 60.0
    #: The names of the statements that the server has prepared.
    statements: dict[bytes, bytes]

    def run_prepared(self, statement: bytes, values: Sequence[bytes]) -> PGresult:
        """Run a statement with values in their binary form. The server prepares it once.

        psycopg converts the values of a cursor in Python, in many times the time that a commit can spare.

        Raises:
            psycopg.Error: the statement failed.
        """
        name = self.statements.get(statement)
        if name is None:
            name = b"ugm_%d" % len(self.statements)
            self.pgconn.send_prepare(name, statement)
            self._only_result()
            self.statements[statement] = name
        self.pgconn.send_query_prepared(name, values, [Format.BINARY] * len(values), Format.BINARY)
        return self._only_result()

    def _only_result(self) -> PGresult:
        [result] = self.wait(generators.execute(self.pgconn))
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise psycopg.errors.error_from_result(result)
        return cast("PGresult", result)

    def wait(self, gen: PQGen[_T], *args: Any, **kwargs: Any) -> _T:  # noqa: ANN401 - as in the base class
        """Run a call of psycopg, which yields whenever it has to wait for the socket.

        Raises:
            psycopg.OperationalError: the server has not answered in time.
        """
        try:
            return super().wait(self._bounded(gen), *args, **kwargs)
        except BaseException:
            # A call without an answer, or that was interrupted, leaves the connection in an unknown state.
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise

    def _bounded(self, call: PQGen[_T]) -> PQGen[_T]:
        end = monotonic() + self.longest_call
        try:
            wanted = next(call)
            while True:
                # psycopg continues the call from time to time, even if nothing is ready.
                ready = yield wanted
                if monotonic() > end:
                    raise psycopg.OperationalError(f"no answer within {self.longest_call:g} seconds")
                wanted = call.send(ready)
        except StopIteration as stop:
            return cast("_T", stop.value)


@final
class PostgresDatabase(Database):
    """A connection to a schema of PostgreSQL.

    Args:
        conninfo: a connection URL, or keywords and values, as for libpq.
        schema: the schema of the tables.
        patience: the time after which a commit fails if the database is not available, in seconds.

    Raises:
        RequestError: an argument is invalid.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)
    damage: ClassVar[type[Exception]] = psycopg.errors.DataCorrupted
    types: ClassVar[Mapping[str, str]] = {kind: names[1] for kind, names in TYPES.items()}
    now: ClassVar[str] = _NOW
    begin: ClassVar[str] = "BEGIN"
    begin_reading: ClassVar[str] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    # The only row of the leader is updated with every commit: free space in its page keeps this cheap. Compression of
    # changes costs the leader more time than it saves.
    more_tables: ClassVar[Sequence[str]] = (
        "ALTER TABLE leader SET (fillfactor = 10)",
        "ALTER TABLE change ALTER data SET STORAGE EXTERNAL",
    )
    elements: ClassVar[str] = "jsonb_array_elements_text(?::jsonb) AS value"
    json_as_text: ClassVar[str] = "::text"
    reconnect_time: ClassVar[float] = 0.5

    _connection: _BoundedConnection | None

    def __init__(self, conninfo: str, schema: str, patience: float) -> None:
        if not 0 < len(schema.encode()) <= _LONGEST_NAME or "\0" in schema:
            raise RequestError("schema", schema, f"expected a name of 1 to {_LONGEST_NAME} bytes")
        self._conninfo: Final = conninfo
        self._schema: Final = schema
        self._identifier: Final = sql.Identifier(schema).as_string(None)
        #: Whether this process leads, so that another connection takes the lock again.
        self._is_locked: bool = False
        self.patience = patience
        super().__init__(_shown_location(conninfo, schema))

    # Connecting

    def _connected(self) -> _BoundedConnection:
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = self._connect()
            if self._is_locked:
                # Other programs see that the store is in use. The term alone decides.
                connection.execute("SELECT pg_try_advisory_lock(%s, %s)", self._lock_numbers)
        return connection

    def _connect(self) -> _BoundedConnection:
        options: dict[str, Any] = {"connect_timeout": _CONNECT_TIMEOUT, **_KEEPALIVE}
        connection = _BoundedConnection.connect(self._conninfo, autocommit=True, prepare_threshold=None, **options)
        statement = max(1.0, self.patience)
        connection.longest_call, connection.statements = statement + _EXTRA_WAIT, {}
        try:
            connection.execute(
                """
                SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
                    set_config('idle_in_transaction_session_timeout', %s, false),
                    set_config('search_path', %s, false), set_config('client_min_messages', 'warning', false),
                    CASE current_setting('synchronous_commit') WHEN 'off' THEN
                        set_config('synchronous_commit', 'on', false) END
                """,
                [*(str(int(time * 1000)) for time in (statement, statement, _IDLE_TIMEOUT)), self._identifier],
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the connection, and release the lock."""
        if self._is_locked and self._connection is not None:
            # The server notices a closed connection a little later.
            with suppress(StoreError):
                self.run("SELECT pg_advisory_unlock_all()")
        self._is_locked = False
        self.reset()

    # Statements

    def run(self, statement: str, values: Sequence[object] = ()) -> list[SqlRow]:
        """Run a statement and return its rows."""
        with self.translated_errors():
            cursor = self._connected().cursor(binary=True)
            cursor.execute(statement.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def stream(self, name: str, statement: str, values: Sequence[object] = ()) -> Iterator[list[SqlRow]]:
        """Yield the rows of a query in parts, so that no statement takes long."""
        cursor = quoted(f"rows of {name}")
        self.run(f"DECLARE {cursor} NO SCROLL CURSOR FOR {statement}", values)
        while rows := self.run(f"FETCH {ROWS_AT_ONCE} FROM {cursor}"):
            yield rows
        self.run(f"CLOSE {cursor}")

    def insert(self, table: str, columns: Sequence[SqlColumn], rows: Sequence[SqlRow], more: str = "") -> None:
        """Insert many rows, as arrays of the values of each column, so that no statement takes long."""
        kinds = [column.kind.removesuffix(" key").replace("key", "bigint") for column in columns]
        arrays = ", ".join(f"${number}::{self.types[kind]}[]" for number, kind in enumerate(kinds, 1))
        statement = f"INSERT INTO {quoted(table)} ({names_of(columns)}) SELECT * FROM unnest({arrays}){more}"  # noqa: S608 - constants
        for first in range(0, len(rows), ROWS_AT_ONCE):
            values = zip(*rows[first : first + ROWS_AT_ONCE], strict=True)
            with self.translated_errors():
                self._connected().run_prepared(statement.encode(), list(map(_array, kinds, values)))

    def append(self, term: int, rows: Sequence[ChangeRow]) -> bool:
        """Append changes durably, in one statement, unless the term is over or another change is the last one."""
        numbers, _, instants, contents, sums = zip(*rows, strict=True)
        values = [
            *map(_BIGINT.pack, (numbers[-1], term, numbers[0] - 1)),
            *map(_array, ("bigint", "bigint", "bytes", "bigint"), (numbers, instants, contents, sums)),
        ]
        with self.translated_errors():
            return self._connected().run_prepared(_APPEND, values).ntuples > 0

    # The schema

    def has_tables(self) -> bool:
        """Return whether the tables exist."""
        # `to_regclass` may not notice a table that was created after the current transaction began.
        return bool(self.run("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'store'", [self._schema]))

    def create_tables(self) -> None:
        """Create the schema and its tables within a transaction. Of several processes, one creates them."""
        self.run("SELECT pg_advisory_xact_lock(?, ?)", [_LOCK_CLASS - 1, self._lock_numbers[1]])
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self._identifier}")
        super().create_tables()

    # Leaders

    @property
    def _lock_numbers(self) -> tuple[int, int]:
        return _LOCK_CLASS, crc32(self._schema.encode()) - 2**31

    def try_lock(self) -> bool:
        """Take the advisory lock, and return whether this succeeded.

        The method waits a little, because the server may just be ending the connection of a process that has died.
        """
        end = monotonic() + _DISCONNECT_TIME
        while not self._is_locked:
            [[self._is_locked]] = self.run("SELECT pg_try_advisory_lock(?, ?)", self._lock_numbers)
            if self._is_locked or monotonic() > end:
                break
            sleep(_PAUSE)
        return self._is_locked

    def end_leader(self, leader: LeaderRecord) -> None:  # noqa: ARG002 - a connection does not show its term
        """End the connection of the leader that is replaced. The database refuses its changes in any case."""
        with suppress(StoreError):
            self.run(
                """
                SELECT pg_terminate_backend(pid) FROM pg_locks
                WHERE locktype = 'advisory' AND classid = ? AND objid::bigint = ?::bigint & 4294967295
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND pid <> pg_backend_pid()
                """,
                self._lock_numbers,
            )
            self.try_lock()
        self._is_locked = True


def _shown_location(conninfo: str, schema: str) -> str:
    """Return the address of a store for people, without a password."""
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        # The value is not shown, because it may contain a password.
        raise RequestError("conninfo", "...", f"expected a connection string of PostgreSQL ({error})") from None
    host = found.get("host") or found.get("hostaddr") or "localhost"
    port = f":{found['port']}" if found.get("port") else ""
    return f"postgresql://{host}{port}/{found.get('dbname') or ''} (schema {schema})"

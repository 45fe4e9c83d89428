"""One connection to the database of a shared partition: made anew when it is lost, with every statement said again.

Saying a statement again is harmless: those that only read anyway, and a change because it carries the number of the
process that makes it, see ``change`` in ``tables.sql``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from time import monotonic, sleep
from typing import Any, Final, final

import psycopg
from psycopg import errors, sql

from ugm.errors import RequestError
from ugm.shared.errors import UnavailableError
from ugm.shared.stamps import new_stamp

__all__ = ["UNWILLING", "Database", "Fenced", "Moved", "Short", "Stale"]

#: What a cut cable is noticed by, where nobody answers and nobody hangs up.
_KEEPALIVE: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15000,
}
_PAUSE: Final = 0.05


class Moved(Exception):  # noqa: N818 - a turn of events inside, which no caller sees
    """The ledger is not as it was expected to be."""


class Short(Exception):  # noqa: N818 - as above
    """A counter does not leave what a change takes."""


class Stale(Moved):
    """The structure is not the one that a change was compiled from."""


class Fenced(Exception):  # noqa: N818 - as above
    """The process is presumed dead."""


#: The database cannot do it now, and perhaps another one can, or the same one later: it does not answer, is full, only
#: reads, or has not heard of the tables yet.
UNWILLING: Final = (psycopg.OperationalError, errors.ReadOnlySqlTransaction, errors.UndefinedTable)

#: What the functions in ``tables.sql`` refuse a change with.
_REFUSALS: Final[Mapping[str | None, type[Exception]]] = {
    "UG001": Moved,
    "UG002": Short,
    "UG003": Stale,
    "UG004": Fenced,
}


@final
class Database:
    """A connection, and the schema in which a partition lives.

    Args:
        conninfo: how to connect, as libpq has it.
        schema: the schema.
        patience: how many seconds to go on trying.
    """

    __slots__ = ("_connected", "_conninfo", "_inside", "_lock", "_patience", "schema")

    def __init__(self, conninfo: str, schema: str, patience: float) -> None:
        self._conninfo: Final = conninfo
        self._patience: Final = patience
        self.schema: Final = schema
        self._connected: psycopg.Cursor[Any] | None = None
        self._inside = False
        self._lock: Final = zlib.crc32(schema.encode()) << 8

    def close(self) -> None:
        """Close the connection."""
        if self._connected is not None:
            self._connected.connection.close()

    def text(self, statement: str) -> str:
        """Return a statement with the names of this schema."""
        return _text(statement, self.schema, self._lock)

    def create(self, *, user_limits_win: bool) -> None:
        """Make the tables and functions if they are not there; of several who try, one makes them."""
        start = monotonic()
        while True:
            try:
                self._create(user_limits_win=user_limits_win)
            except UNWILLING as error:
                self.give_up_after(start, error)
            else:
                return

    def _create(self, *, user_limits_win: bool) -> None:
        script = files("ugm.shared").joinpath("tables.sql").read_text(encoding="utf-8")
        with self.transaction():
            self.lock()
            if self.run("SELECT to_regclass(%s)", [f"{self.schema}.structure"])[0][0] is None:
                self.run(self.text("CREATE SCHEMA IF NOT EXISTS {schema}"))
                self.run(self.text(script))
                made = "INSERT INTO {schema}.structure (epoch, revision, user_limits_win) VALUES (%s, %s, %s)"
                self.run(self.text(made), [new_stamp(), new_stamp(), user_limits_win])

    def lock(self) -> None:
        """Keep everybody else from changing anything until the transaction ends."""
        self.run(f"SELECT pg_advisory_xact_lock({self._lock})")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do what follows as one; a database that is unwilling on the way ends it with its own error."""
        self.run("SELECT 1")
        self._inside = True
        try:
            with self._cursor().connection.transaction():
                yield
        finally:
            self._inside = False

    def run(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> Any:  # noqa: ANN401 - rows of whatever it selects
        """Run a statement and return its rows; again if the database is unwilling, unless it is part of a transaction.

        Raises:
            UnavailableError: the database did not answer in time.
            RequestError: a text or a sum cannot be kept.
            Moved: the statement found another ledger than it expected, or another structure.
            Short: the statement found a counter that does not leave enough.
            Fenced: the process is presumed dead, and the statement takes something.
        """
        start = monotonic()
        while True:
            try:
                return self._once(statement, values)
            except UNWILLING as error:
                if self._inside:
                    raise
                self.give_up_after(start, error)

    def _once(self, statement: str, values: Sequence[object] | Mapping[str, object]) -> Any:  # noqa: ANN401 - as above
        try:
            cursor = self._cursor()
            cursor.execute(statement, values or None, prepare=bool(values))
            return [] if cursor.rownumber is None else cursor.fetchall()
        except errors.NumericValueOutOfRange as error:
            raise RequestError("usage", "sum", "it would exceed what a signed 64-bit integer holds") from error
        except (errors.UniqueViolation, errors.DeadlockDetected) as error:
            raise Moved from error
        except errors.ProgramLimitExceeded as error:
            # psycopg counts this as an operational error, but no later attempt can succeed.
            raise RequestError("text", str(error), "it is too long for the database") from error
        except psycopg.DataError as error:
            raise RequestError("text", str(error), "the database cannot keep it") from error
        except UnicodeEncodeError as error:
            raise RequestError("text", error.object, "the database cannot keep it") from error
        except psycopg.DatabaseError as error:
            refusal = _REFUSALS.get(error.sqlstate)
            if refusal is None:
                raise
            raise refusal from error

    def _cursor(self) -> psycopg.Cursor[Any]:
        # The same cursor every time: a new one takes 5 of the 35 microseconds that this process spends on a statement.
        if self._connected is None or self._connected.connection.closed:
            options: dict[str, Any] = dict(_KEEPALIVE)
            connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=1, **options)
            self._connected = connection.cursor()
        return self._connected

    def give_up_after(self, start: float, error: psycopg.Error) -> None:
        """Wait a little before the next attempt, on a new connection; or give up if it is too long since the *start*.

        Raises:
            UnavailableError: it is.
        """
        if self._connected is not None:
            with suppress(psycopg.Error):
                self._connected.connection.close()
        waited = monotonic() - start
        if waited > self._patience:
            raise UnavailableError(self._patience, str(error).strip()) from error
        sleep(_PAUSE)


@cache
def _text(statement: str, schema: str, lock: int) -> str:
    name = sql.Identifier(schema).as_string(None)
    return statement.replace("{schema}", name).replace("{lock}", str(lock)).replace("{{}}", "{}")

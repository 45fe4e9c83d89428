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

__all__ = ["Database", "Moved", "Short"]

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


@final
class Database:
    """A connection, and the schema in which a partition lives.

    Args:
        conninfo: how to connect, as libpq has it.
        schema: the schema.
        patience: how many seconds to go on trying to connect.
    """

    __slots__ = ("_connection", "_conninfo", "_inside", "_lock", "_patience", "schema")

    def __init__(self, conninfo: str, schema: str, patience: float) -> None:
        self._conninfo: Final = conninfo
        self._patience: Final = patience
        self.schema: Final = schema
        self._connection: psycopg.Connection[Any] | None = None
        self._inside = False
        self._lock: Final = zlib.crc32(schema.encode()) << 8

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def text(self, statement: str) -> str:
        """Return a statement with the names of this schema."""
        return _text(statement, self.schema, self._lock)

    def create(self, *, user_limits_win: bool) -> None:
        """Make the tables and functions if they are not there; of several who try, one makes them."""
        script = files("ugm.shared").joinpath("tables.sql").read_text(encoding="utf-8")
        with self.transaction():
            self.run(f"SELECT pg_advisory_xact_lock({self._lock})")
            if self.run("SELECT to_regclass(%s)", [f"{self.schema}.structure"])[0][0] is None:
                self.run(self.text("CREATE SCHEMA IF NOT EXISTS {schema}"))
                self.run(self.text(script))
                made = "INSERT INTO {schema}.structure (user_limits_win) VALUES (%s)"
                self.run(self.text(made), [user_limits_win])

    def lock(self) -> None:
        """Keep everybody else from changing anything until the transaction ends."""
        self.run(f"SELECT pg_advisory_xact_lock({self._lock})")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do what follows as one; a connection that is lost on the way ends it with a `psycopg.OperationalError`."""
        self.run("SELECT 1")
        self._inside = True
        try:
            with self._connected().transaction():
                yield
        finally:
            self._inside = False

    def run(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> Any:  # noqa: ANN401 - rows of whatever it selects
        """Run a statement and return its rows; again if the connection is lost, unless it is part of a transaction.

        Raises:
            UnavailableError: the database did not answer in time.
            RequestError: a text or a sum cannot be kept.
            Moved: the statement found another ledger than it expected.
            Short: the statement found a counter that does not leave enough.
        """
        start = monotonic()
        while True:
            try:
                return self._once(statement, values)
            except psycopg.OperationalError as error:
                if self._inside:
                    raise
                self._give_up_after(start, error)

    def _once(self, statement: str, values: Sequence[object] | Mapping[str, object]) -> Any:  # noqa: ANN401 - as above
        try:
            cursor = self._connected().execute(statement, values or None, prepare=bool(values))
            return cursor.fetchall() if cursor.description else []
        except errors.NumericValueOutOfRange as error:
            raise RequestError("usage", "sum", "it would exceed what a signed 64-bit integer holds") from error
        except (errors.UniqueViolation, errors.DeadlockDetected) as error:
            raise Moved from error
        except psycopg.DataError as error:
            raise RequestError("text", str(error), "the database cannot keep it") from error
        except UnicodeEncodeError as error:
            raise RequestError("text", error.object, "the database cannot keep it") from error
        except psycopg.DatabaseError as error:
            if error.sqlstate == "UG001":
                raise Moved from error
            if error.sqlstate == "UG002":
                raise Short from error
            raise

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            options: dict[str, Any] = dict(_KEEPALIVE)
            self._connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=1, **options)
        return self._connection

    def _give_up_after(self, start: float, error: psycopg.OperationalError) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        waited = monotonic() - start
        if waited > self._patience:
            raise UnavailableError(self._patience, str(error).strip()) from error
        sleep(_PAUSE)


@cache
def _text(statement: str, schema: str, lock: int) -> str:
    name = sql.Identifier(schema).as_string(None)
    return statement.replace("{schema}", name).replace("{lock}", str(lock)).replace("{{}}", "{}")

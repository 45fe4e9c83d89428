"""The writer of a log in PostgreSQL.

A commit calls the function `append` of `ugm.journal.postgres.layout`. If the connection is lost before the answer, it
is uncertain whether the rows were stored. The same call is repeated until the database answers, and the database
ignores rows that this term has stored already.

The loop of a leader does not wait for the answer: it uses `PostgresWriter.send`. If the answer is not a success, a
thread commits the change again with `PostgresWriter.commit`, which finds the cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Final, final

import psycopg

from ugm.journal.errors import DeposedError, JournalDamagedError, JournalError
from ugm.journal.file_writer import ChangeRow
from ugm.journal.postgres.connection import UNAVAILABLE, Database
from ugm.journal.postgres.layout import DEPOSED, INCONSISTENT
from ugm.journal.postgres.sent_append import PreparedAppend, SentAppend

__all__ = ["PostgresWriter"]

#: The pause between two attempts, in seconds.
_PAUSE: Final = 0.05
_APPEND: Final = "SELECT {schema}.append(%s::bigint, %s::bigint, %s::bigint[], %s::bytea[], %s::bigint[])"
#: The same for one row, as a leader appends them. `psycopg` converts single values in less time than lists.
_APPEND_ONE: Final = (
    "SELECT {schema}.append(%s::bigint, %s::bigint, ARRAY[%s::bigint], ARRAY[%s::bytea], ARRAY[%s::bigint])"
)
#: The same as a statement that the server prepares.
_PREPARE: Final = (
    "PREPARE {name} (bigint, bigint, bigint, bytea, bigint) AS "
    "SELECT {schema}.append($1, $2, ARRAY[$3], ARRAY[$4], ARRAY[$5])"
)


@final
class PostgresWriter:
    """Appends changes in one term; see `ugm.journal.log.LogWriter`.

    Args:
        database: the connection.
        term: the term of this process.
        patience: the time after which a commit fails if the database is not available, in seconds.
    """

    __slots__ = ("_database", "_final", "_patience", "_prepared", "_statements", "term")

    #: The error that ends writing forever.
    _final: JournalError | None
    #: The database manages its own space.
    has_reserve: Final = True

    def __init__(self, database: Database, term: int, patience: float) -> None:
        self._database: Final = database
        self._patience: Final = patience
        self._final = None
        #: The statement for `send`, in the connection of the last commit.
        self._prepared: PreparedAppend | None = None
        #: The number of statements that were prepared.
        self._statements = 0
        self.term: Final = term

    def restore_reserve(self) -> None:
        """Do nothing."""

    def commit(self, rows: Sequence[ChangeRow]) -> JournalError | None:
        """Append rows durably, and return the error if this fails.

        A commit whose answer is lost is repeated until the database answers or the time is up.
        """
        if len(rows) == 1:
            failure = self._attempt(_APPEND_ONE, (self.term, *rows[0]))
            if failure is None:
                self._prepare()
            return failure
        values = [self.term, rows[0][0], *(list(column) for column in list(zip(*rows, strict=True))[1:])]
        return self._attempt(_APPEND, values)

    def _prepare(self) -> None:
        """Let the server prepare the statement for `send`, once for each connection."""
        database, prepared = self._database, self._prepared
        if not database.is_connected or (prepared is not None and prepared.is_usable_in(database.connection)):
            return
        self._statements += 1
        name = f"ugm_append_{self.term}_{self._statements}"
        with suppress(psycopg.Error):
            database.run(_PREPARE.replace("{name}", name))
            self._prepared = PreparedAppend(database.connection, name, self.term, database.longest_call)

    def send(self, row: ChangeRow) -> SentAppend | None:
        """Send a row without waiting for the answer.

        Return None if the connection is new: then the next `commit` prepares it.
        """
        return None if self._prepared is None or self._final is not None else self._prepared.send(row)

    def renew(self) -> None:
        """Record that the leader is active.

        Raises:
            DeposedError: another process leads.
            JournalError: the database is not available.
        """
        failure = self._attempt(
            "SELECT {schema}.append(%s::bigint, number + 1, '{}', '{}', '{}') FROM {schema}.leader", [self.term]
        )
        if failure is not None:
            raise failure

    def _attempt(self, statement: str, values: Sequence[object]) -> JournalError | None:
        """Run a statement until it succeeds or fails forever, or the time is up."""
        end = monotonic() + self._patience
        while self._final is None:
            try:
                self._run(statement, values)
            except UNAVAILABLE as error:
                if monotonic() > end:
                    return self._in_doubt(error)
                sleep(_PAUSE)
            except psycopg.Error as error:
                self._final = self._permanent(error)
                if self._final is None:
                    return self._in_doubt(error)
            else:
                return None
        return self._final

    def _run(self, statement: str, values: Sequence[object]) -> None:
        database = self._database
        if not database.is_connected:
            # Other programs see that the log is in use. The term alone decides.
            database.run("SELECT pg_try_advisory_lock(%s, %s)", database.lock_numbers)
        database.run(statement, values)

    def _permanent(self, error: psycopg.Error) -> JournalError | None:
        """Return the error after which this process never writes again; None if it is not one."""
        message = error.diag.message_primary or ""
        if error.sqlstate == DEPOSED:
            return DeposedError(self._database.location, int(message))
        if error.sqlstate == INCONSISTENT:
            return JournalDamagedError(self._database.location, message, 0)
        return None

    def _in_doubt(self, error: psycopg.Error) -> JournalError:
        reason = " ".join(str(error).split())
        return JournalError(
            self._database.location,
            f"it cannot be written ({reason}); it is uncertain whether the change was stored; repeat the call later",
        )

    def close(self) -> None:
        """Record that the leadership has ended, and close the connection."""
        database = self._database
        if self._final is None and database.is_connected:
            with suppress(psycopg.Error):
                database.run("UPDATE {schema}.leader SET address = '' WHERE term = %s", [self.term])
                # The server notices a closed connection a little later.
                database.run("SELECT pg_advisory_unlock_all()")
        database.close()

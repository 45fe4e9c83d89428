"""The log in PostgreSQL: leadership, reading, compaction and backup.

A process becomes the leader by raising the term in the only row of the table ``leader``. From then on the database
refuses changes of the leader before. An advisory lock shows that a leader is connected; a candidate that does not
replace a silent leader waits until it is free. The lock only prevents needless changes of the leader: the term decides.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import ClassVar, Final, final

from ugm.errors import RequestError
from ugm.journal.background import BackgroundCompaction
from ugm.journal.client_sessions import SessionTable
from ugm.journal.compaction import Compaction, RunExclusively
from ugm.journal.compaction_process import CompactionProcess, CompactionTask
from ugm.journal.contents import JournalContents, replay
from ugm.journal.errors import JournalError, JournalHeldError
from ugm.journal.file_log import FileLog
from ugm.journal.log import Candidate, LeaderRecord, Leadership, Log
from ugm.journal.postgres.compaction import compact, fill
from ugm.journal.postgres.connection import Database, TimeLimits
from ugm.journal.postgres.reader import PostgresTail, open_contents, read_leader
from ugm.journal.postgres.writer import PostgresWriter
from ugm.partition.state import PartitionState

__all__ = ["PostgresLog"]

#: The maximum time that the server usually takes to end the connection of a process that has died, in seconds.
_DISCONNECT_TIME: Final = 0.2
_PAUSE: Final = 0.02


@final
class PostgresLog(Log):
    """A log in a PostgreSQL database.

    Args:
        conninfo: a URL that begins with ``postgresql://``, or keywords and values, as for libpq.
        schema: the schema of its tables; it is created by the first leader. Each schema has one log.
        patience: the time after which a change fails if the database is not available, in seconds.

    Raises:
        RequestError: an argument is invalid.
    """

    __slots__ = ("_conninfo", "_patience", "_schema")

    #: A leader with an address may have lost its connection, and needs time for another one.
    reconnect_time: ClassVar[float] = 0.5

    def __init__(self, conninfo: str, *, schema: str = "ugm_journal", patience: float = 5.0) -> None:
        if not 0 < len(schema.encode()) <= _LONGEST_NAME or "\0" in schema:
            raise RequestError("schema", schema, f"expected a name of 1 to {_LONGEST_NAME} bytes")
        self._conninfo: Final = conninfo
        self._schema: Final = schema
        self._patience: Final = patience
        super().__init__(self._database().location)

    def _database(self) -> Database:
        return Database(self._conninfo, self._schema, TimeLimits(statement=max(1.0, self._patience)))

    def exists(self) -> bool:
        """Return whether the tables exist."""
        database = self._database()
        try:
            with database.translated_errors("it cannot be read"):
                return database.find_layout() is not None
        finally:
            database.close()

    def open_contents(self) -> AbstractContextManager[JournalContents]:
        """Open the log for reading, as it is now."""
        return open_contents(self._conninfo, self._schema)

    def tail(self) -> PostgresTail:
        """Open the log for following it."""
        return PostgresTail(self._conninfo, self._schema)

    def compact(self, *, usage_since: int | None) -> Compaction:
        """Compact the log, which a partition may use."""
        return compact(self._conninfo, self._schema, usage_since=usage_since)

    def backup(self, target: Path) -> None:
        """Copy the log, as it is now, to a journal file."""
        with self.open_contents() as contents:
            FileLog(target).fill(contents)

    def fill(self, contents: JournalContents) -> None:
        """Write the contents of another log into this one, which must be empty.

        Raises:
            RequestError: this log has changes already.
            JournalError: it cannot be written.
        """
        database = self._database()
        try:
            with database.translated_errors("the copy cannot be written"):
                database.create()
                database.require_layout()
                with database.connection.transaction():
                    fill(database, contents)
        finally:
            database.close()

    def start_compaction(self, *, usage_since: int | None) -> BackgroundCompaction:
        """Begin to compact the log in another process."""
        task = CompactionTask(self._conninfo, self._schema, usage_since)
        return BackgroundCompaction(task, self.location, _result_of)

    # Leaders

    def find_leader(self) -> LeaderRecord | None:
        """Return the leader, if it has an address and has not ended."""
        tail = self.tail()
        try:
            return tail.find_leader()
        finally:
            tail.close()

    def lead(self, candidate: Candidate, *, replacing: LeaderRecord | None = None) -> PostgresLeadership:
        """Raise the term; see `ugm.journal.log.Log.lead`."""
        database = self._database()
        with ExitStack() as undo:
            undo.callback(database.close)
            with database.translated_errors("it cannot be opened"):
                database.create()
                database.require_layout()
                found = read_leader(database)
                if replacing is None:
                    self._require_free(database, found)
                term = self._raise_term(database, candidate, (replacing or found).term)
                if replacing is not None:
                    _disconnect_others(database)
            undo.pop_all()
        return PostgresLeadership(self, database, PostgresWriter(database, term, self._patience))

    def _require_free(self, database: Database, found: LeaderRecord) -> None:
        """Check that no process is connected as the leader, and none was until a moment ago."""
        if (found.address and found.silent_for < self.reconnect_time) or not _try_lock(database):
            raise JournalHeldError(self.location, None)

    def _raise_term(self, database: Database, candidate: Candidate, before: int) -> int:
        """Become the leader, unless another process has done so since the term was *before*."""
        name = candidate.name or f"{socket.gethostname()} {os.getpid()}"
        raised = database.run(
            """
            UPDATE {schema}.leader SET term = term + 1, name = %s, address = %s, renewed_at = clock_timestamp()
            WHERE term = %s RETURNING term
            """,
            [name, candidate.address, before],
        )
        if not raised:
            raise JournalHeldError(self.location, None)
        return int(raised[0][0])


#: The maximum length of a name in PostgreSQL, in bytes.
_LONGEST_NAME: Final = 63


def _try_lock(database: Database) -> bool:
    """Lock the log, and return whether this succeeded.

    The function waits a little, because the server may just be ending the connection of a process that has died.
    """
    end = monotonic() + _DISCONNECT_TIME
    while True:
        [[is_locked]] = database.run("SELECT pg_try_advisory_lock(%s, %s)", database.lock_numbers)
        if is_locked or monotonic() > end:
            return bool(is_locked)
        sleep(_PAUSE)


def _disconnect_others(database: Database) -> None:
    """End the connection of the leader that was replaced. The database refuses its changes in any case."""
    with suppress(JournalError), database.translated_errors("it cannot be disconnected"):
        database.run(
            """
            SELECT pg_terminate_backend(pid) FROM pg_locks
            WHERE locktype = 'advisory' AND classid = %s AND objid::bigint = %s::bigint & 4294967295
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND pid <> pg_backend_pid()
            """,
            database.lock_numbers,
        )
    with suppress(JournalError), database.translated_errors("it cannot be locked"):
        database.run("SELECT pg_try_advisory_lock(%s, %s)", database.lock_numbers)


@final
class PostgresLeadership(Leadership):
    """The right to write a log in one term.

    Args:
        log: the log.
        database: the connection of the writer.
        writer: the writer of the term.
    """

    __slots__ = ("_database", "_log", "_writer")

    def __init__(self, log: PostgresLog, database: Database, writer: PostgresWriter) -> None:
        self._log: Final = log
        self._database: Final = database
        self._writer: Final = writer

    @property
    def term(self) -> int:
        """The number of this leadership."""
        return self._writer.term

    def restore(self, state: PartitionState, sessions: SessionTable) -> tuple[int, int]:
        """Apply the log to an empty state; see `ugm.journal.log.Leadership.restore`."""
        with self._log.open_contents() as contents:
            return replay(contents, state, sessions=sessions)

    def start_writing(self, last: tuple[int, int]) -> PostgresWriter:  # noqa: ARG002 - the database knows it
        """Return the writer of the term."""
        return self._writer

    def require_in_place(self) -> None:
        """Do nothing: the writer notices if the tables are missing."""

    def compact(self, run_exclusively: RunExclusively, *, usage_since: int | None) -> Compaction:
        """Compact the log. Changes do not wait."""
        run_exclusively(_flushed)
        return self._log.compact(usage_since=usage_since)

    def start_compaction(self, run_exclusively: RunExclusively, *, usage_since: int | None) -> BackgroundCompaction:
        """Begin to compact the log in the background, up to the last change that is durable."""
        run_exclusively(_flushed)
        return self._log.start_compaction(usage_since=usage_since)

    def release(self) -> None:
        """End the leadership."""
        self._writer.close()


def _result_of(process: CompactionProcess) -> Compaction:
    """Return the result of a process that stores the new tables itself."""
    [message] = process.messages()
    return Compaction(*json.loads(message.data))


def _flushed() -> None:
    """Do nothing; all changes are durable already."""

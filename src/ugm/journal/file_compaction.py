"""Compaction of a journal file while changes are committed.

The problem: the new snapshot may have a hundred megabytes. Writing it in one transaction, and deleting the old one,
would stop the leader for seconds.

The idea: everything is done in steps of a few milliseconds, between which changes are committed. The rows of the new
tables are inserted into tables with other names. One short transaction exchanges the names. Then the old tables and the
old changes are deleted, a few rows at a time.

Invariant: the snapshot, the history and the changes after the snapshot are complete at any time. If the process ends,
the remains of other tables and older changes are ignored by readers, and deleted by the next compaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from time import sleep
from typing import Final, final

from ugm.journal.compaction import Compaction, RunExclusively
from ugm.journal.compaction_process import Message
from ugm.journal.errors import JournalError
from ugm.journal.store import row_checksum, transaction
from ugm.partition.event_codec import from_json

__all__ = ["FileCompaction"]

#: The number of bytes, and of deleted rows, in one step.
_BYTES_AT_ONCE: Final = 2**15
_ROWS_AT_ONCE: Final = 100
#: The pause between two steps, in seconds.
_PAUSE: Final = 0.005
#: For how long changes stay in the file after they were compacted, in milliseconds: for followers a little behind.
_KEPT_MILLISECONDS: Final = 60_000

_TABLES: Final = ("snapshot", "history")
_CREATE: Final = "CREATE TABLE {} (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL)"


@final
class FileCompaction:
    """One compaction.

    Args:
        path: the journal.
        connection: the connection of its writer.
        run_exclusively: calls a step while no change is committed.
    """

    __slots__ = ("_connection", "_path", "_run_exclusively")

    def __init__(self, path: str, connection: sqlite3.Connection, run_exclusively: RunExclusively) -> None:
        self._path: Final = path
        self._connection: Final = connection
        self._run_exclusively: Final = run_exclusively

    def run(self, messages: Iterable[Message]) -> Compaction:
        """Store the rows that a `ugm.journal.compaction_process.CompactionProcess` sends.

        Raises:
            JournalError: the journal cannot be written, or was compacted meanwhile; its contents have not changed.
        """
        try:
            self._delete_remains()
            for table in _TABLES:
                self._step(_CREATE.format(f"{table}_new"))
            result, head = self._receive(messages)
            number, at = from_json(head)[:2]
            self._run_exclusively(lambda: self._exchange(number - result.changes))
            self._delete_remains()
            self._delete_in_steps(
                "changes", "number", f"number <= {int(number)} AND at <= {int(at) - _KEPT_MILLISECONDS}"
            )
        except sqlite3.Error as error:
            raise JournalError(self._path, f"it cannot be compacted: {error}") from error
        return result

    def _receive(self, messages: Iterable[Message]) -> tuple[Compaction, bytes]:
        """Insert all rows, and return the result of the process and the first row of the snapshot."""
        positions = dict.fromkeys(_TABLES, 0)
        head = b""
        for batch in _batches(messages):
            if batch[0].kind == "result":
                return Compaction(*json.loads(batch[0].data)), head
            table = batch[0].kind
            first = positions[table]
            positions[table] += len(batch)
            if table == "snapshot" and not first:
                head = batch[0].data
            rows = [(position, data, row_checksum(position, data)) for position, (_, data) in enumerate(batch, first)]
            self._step(f"INSERT INTO {table}_new VALUES (?, ?, ?)", rows)  # noqa: S608 - a constant
        raise JournalError(self._path, "it cannot be compacted: the process has ended")

    def _step(self, statement: str, rows: Iterable[tuple[int, bytes, int]] | None = None) -> int:
        """Run a statement between two commits, and return the number of changed rows.

        The step is not synced: the next commit syncs it as well, because both are in one WAL.
        """
        connection = self._connection

        def work() -> int:
            connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with transaction(connection):
                    done = connection.execute(statement) if rows is None else connection.executemany(statement, rows)
                    return done.rowcount
            finally:
                connection.execute("PRAGMA synchronous = FULL")

        changed = self._run_exclusively(work)
        sleep(_PAUSE)
        return changed

    def _exchange(self, start: int) -> None:
        """Exchange the tables, if the snapshot is still that of change *start*."""
        connection = self._connection
        with transaction(connection):
            found = connection.execute("SELECT data FROM snapshot WHERE position = 0").fetchone()
            if (from_json(found[0])[0] if found else 0) != start:
                raise JournalError(self._path, "it cannot be compacted: it was compacted meanwhile")
            for table in _TABLES:
                connection.execute(f"ALTER TABLE {table} RENAME TO {table}_old")
                connection.execute(f"ALTER TABLE {table}_new RENAME TO {table}")

    def _delete_remains(self) -> None:
        """Delete the tables that a compaction has replaced, and those that an unfinished one has left."""
        for table in _TABLES:
            for name in (f"{table}_old", f"{table}_new"):
                if self._has_table(name):
                    self._delete_in_steps(name, "position", "true")
                    self._step(f"DROP TABLE {name}")

    def _has_table(self, name: str) -> bool:
        select = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return bool(self._run_exclusively(lambda: self._connection.execute(select, (name,)).fetchall()))

    def _delete_in_steps(self, table: str, key: str, condition: str) -> None:
        some = f"SELECT {key} FROM {table} WHERE {condition} ORDER BY {key} LIMIT {_ROWS_AT_ONCE}"  # noqa: S608 - constants
        while self._step(f"DELETE FROM {table} WHERE {key} IN ({some})"):  # noqa: S608 - as above
            pass


def _batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield messages of one kind together, with a bounded size."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        if batch and (size + len(message.data) > _BYTES_AT_ONCE or message.kind != batch[0].kind):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.data)
    if batch:
        yield batch

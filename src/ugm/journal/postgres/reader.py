"""Readers of a log in PostgreSQL: of the whole log at one moment, and of the newest changes.

Rows are checked as in a journal file: by their checksums and their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Final, final
from zlib import crc32

import psycopg

from ugm.journal.contents import DECODING_ERRORS, JournalContents, decoding_failure
from ugm.journal.errors import JournalDamagedError
from ugm.journal.leader_record import LeaderRecord
from ugm.journal.postgres.connection import Database, Row, TimeLimits
from ugm.journal.store import row_checksum
from ugm.journal.store_reader import CHANGES_AT_ONCE, StoredChange
from ugm.partition.event_codec import from_json

__all__ = ["PostgresTail", "last_compacted", "open_contents", "read_leader"]

#: The time that a reader may spend on decoding between two statements, in seconds.
_READER_LIMITS: Final = TimeLimits(statement=30.0, idle=120.0)
_TAIL_LIMITS: Final = TimeLimits(connect=2, statement=2.0)

#: The maximum number of rows of one statement. A row of the snapshot has 100 allocations.
_ROWS_AT_ONCE: Final = 200

_UNREADABLE: Final = "it cannot be read"


@contextmanager
def open_contents(conninfo: str, schema: str) -> Iterator[JournalContents]:
    """Read a log as it is at this moment, while its leader writes it.

    Raises:
        JournalError: the log cannot be read, or is of another version.
        JournalDamagedError: the log is damaged.
    """
    database = Database(conninfo, schema, _READER_LIMITS)
    try:
        with database.translated_errors(_UNREADABLE):
            database.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            database.require_layout()
            number = _last_number(database)
        yield JournalContents(_Reader(database), number)
    finally:
        database.close()


@final
class _Reader:
    """The rows of a log; see `ugm.journal.contents.LogReader`."""

    __slots__ = ("_database", "_readable")

    def __init__(self, database: Database) -> None:
        self._database: Final = database
        #: The last change that was read.
        self._readable = 0

    def rows(self, table: str) -> Iterator[bytes]:
        """Yield the rows of the snapshot or of the history."""
        select = f"SELECT position, data, sum FROM {{schema}}.{table} WHERE position >= %s ORDER BY position LIMIT %s"  # noqa: S608 - a constant
        due = 0
        while page := self._page(select, due, _ROWS_AT_ONCE):
            for position, data, checksum in page:
                if data is None or position != due or checksum != row_checksum(position, data):
                    raise self.damaged(f"row {due} of the {table} is damaged")
                yield data
                due += 1

    def changes(self, after: int) -> Iterator[StoredChange]:
        """Yield the changes after *after*, without gaps."""
        self._readable = after
        select = _SELECT_CHANGES
        while page := self._page(select, self._readable, CHANGES_AT_ONCE):
            for change in _checked(page, self._readable, self.damaged):
                yield change
                self._readable = change.number

    def _page(self, select: str, after: int, count: int) -> list[Row]:
        with self._database.translated_errors(_UNREADABLE):
            return self._database.run(select, [after, count])

    def damaged(self, reason: str) -> JournalDamagedError:
        """Return the error for damage after the last change that was read."""
        return JournalDamagedError(self._database.location, reason, self._readable)


_SELECT_CHANGES: Final = "SELECT number, at, data, sum FROM {schema}.log WHERE number > %s ORDER BY number LIMIT %s"
#: The changes before which the size of the others is below a bound.
_SELECT_FIRST: Final = f"""
    SELECT number, at, data, sum
    FROM (SELECT *, sum(length(data)) OVER (ORDER BY number) - length(data) AS size FROM ({_SELECT_CHANGES}) AS page)
        AS sized
    WHERE size < %s ORDER BY number
"""  # noqa: S608 - a constant


def _checked(page: Sequence[Row], after: int, damaged: Callable[[str], JournalDamagedError]) -> Iterator[StoredChange]:
    """Yield the changes of some rows whose numbers follow *after*, and whose checksums are valid."""
    for number, at, data, checksum in page:
        if number != after + 1:
            raise damaged(f"change {after + 1} is missing")
        if at is None or data is None or checksum != crc32(data, crc32(b"%d %d" % (number, at))):
            raise damaged(f"change {number} is damaged")
        yield StoredChange(number, at, data)
        after = number


_LEADER: Final = "record of the leader"


def _last_number(database: Database) -> int:
    """Return the number of the last change in a log.

    Raises:
        JournalDamagedError: the record of the leader is missing.
        psycopg.Error: it cannot be read.
    """
    return int(database.only_row("SELECT number FROM {schema}.leader", _LEADER)[0])


def read_leader(database: Database) -> LeaderRecord:
    """Return the record of the leader; its address is empty if it has ended.

    Raises:
        JournalDamagedError: the record is missing.
        psycopg.Error: it cannot be read.
    """
    values = database.only_row(
        """
        SELECT term, name, address, (extract(epoch FROM renewed_at) * 1000)::bigint,
            extract(epoch FROM clock_timestamp() - renewed_at)::float8 FROM {schema}.leader
        """,
        _LEADER,
    )
    return LeaderRecord(*values)


def last_compacted(database: Database, readable: int) -> int:
    """Return the number of the last change that the snapshot contains; 0 if there is no snapshot.

    Args:
        database: the connection.
        readable: the number of the last change that was read, for an error.

    Raises:
        JournalDamagedError: the first row of the snapshot is damaged.
        psycopg.Error: it cannot be read.
    """
    found = database.run("SELECT data FROM {schema}.snapshot WHERE position = 0")
    try:
        return int(from_json(found[0][0])[0]) if found else 0
    except DECODING_ERRORS as error:
        raise JournalDamagedError(database.location, decoding_failure(error), readable) from error


@final
class PostgresTail:
    """The newest changes of a log; see `ugm.journal.log.LogTail`.

    Args:
        conninfo: the connection.
        schema: the schema of the tables.
    """

    __slots__ = ("_database",)

    def __init__(self, conninfo: str, schema: str) -> None:
        self._database: Final = Database(conninfo, schema, _TAIL_LIMITS)

    def last_number(self) -> int:
        """Return the number of the last change in the log."""
        with self._database.translated_errors(_UNREADABLE):
            return self._last_number()

    def _last_number(self) -> int:
        try:
            return _last_number(self._database)
        except psycopg.errors.UndefinedTable:
            return 0

    def find_leader(self) -> LeaderRecord | None:
        """Return the leader, if it has an address and has not ended."""
        database = self._database
        with database.translated_errors(_UNREADABLE):
            try:
                leader = read_leader(database)
            except psycopg.errors.UndefinedTable:
                return None
        return leader if leader.address else None

    def changes(self, after: int, *, acknowledged: bool = True, size: float = inf) -> Sequence[StoredChange] | None:  # noqa: ARG002 - all changes are durable
        """Return changes after *after*; None if they were compacted, or if the log ends before."""
        database = self._database
        with database.translated_errors(_UNREADABLE):
            last = self._last_number()
            if last <= after:
                # It ends before if an older copy of the database has been restored.
                return [] if last == after else None
            page = database.run(_SELECT_FIRST, [after, CHANGES_AT_ONCE, size])
            if (not page or page[0][0] != after + 1) and last_compacted(database, after) > after:
                return None

        def damaged(reason: str) -> JournalDamagedError:
            return JournalDamagedError(database.location, reason, after)

        if not page:
            raise damaged(f"it ends with change {after}, but {last} were acknowledged")
        return list(_checked(page, after, damaged))

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

"""Compaction of a log in PostgreSQL, in one transaction, while the leader commits changes.

The latest changes stay in the log for a while, although the snapshot contains them: a follower that is a little behind
continues with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import psycopg

from ugm.errors import RequestError
from ugm.journal.compaction import Compaction, checkpoint_rows
from ugm.journal.contents import JournalContents
from ugm.journal.errors import JournalError
from ugm.journal.postgres.connection import Database, TimeLimits
from ugm.journal.postgres.reader import last_compacted, open_contents
from ugm.journal.store import checksummed_rows
from ugm.partition.event_codec import from_json

__all__ = ["KEPT_MILLISECONDS", "compact", "fill"]

#: For how long changes stay in the log after they were compacted.
KEPT_MILLISECONDS: Final = 60_000

_LIMITS: Final = TimeLimits(statement=300.0, idle=120.0)


def compact(conninfo: str, schema: str, *, usage_since: int | None = None, kept: int = KEPT_MILLISECONDS) -> Compaction:
    """Replace the changes of a log by the state that they led to, while a leader writes it.

    Args:
        conninfo: the connection.
        schema: the schema of the tables.
        usage_since: the first instant for which usage is kept; None to keep all.
        kept: for how long changes stay in the log, in milliseconds before the last one.

    Raises:
        JournalError: another process has compacted the log meanwhile, or it cannot be written; it has not changed.
        JournalDamagedError: the log is damaged.
    """
    with open_contents(conninfo, schema) as contents:
        number, snapshot, history = checkpoint_rows(contents, usage_since)
        start = contents.start.number
    database = Database(conninfo, schema, _LIMITS)
    try:
        with database.translated_errors("it cannot be compacted"), database.connection.transaction():
            _replace(database, start, snapshot, history, kept)
    finally:
        database.close()
    return Compaction(number - start, len(snapshot), len(history))


def _replace(database: Database, start: int, snapshot: Sequence[bytes], history: Sequence[bytes], kept: int) -> None:
    """Replace the tables, if the snapshot is still the one of change *start*."""
    database.run("SELECT pg_advisory_xact_lock(%s, %s)", database.lock_numbers_of_compaction)
    if last_compacted(database, start) != start:
        raise JournalError(database.location, "it cannot be compacted: another process has compacted it meanwhile")
    for table, rows in (("snapshot", snapshot), ("history", history)):
        database.run(f"DELETE FROM {{schema}}.{table}")  # noqa: S608 - a constant
        _copy(database, table, rows)
    number, at = from_json(snapshot[0])[:2]
    database.run("DELETE FROM {schema}.log WHERE number <= %s AND at <= %s", [number, at - kept])


def fill(database: Database, contents: JournalContents) -> None:
    """Write the contents of another log into the tables of an empty one, within a transaction.

    Raises:
        RequestError: the log is not empty.
    """
    # Until the end of the transaction, no process can become the leader.
    [term, number] = database.only_row("SELECT term, number FROM {schema}.leader FOR UPDATE", "leader")
    if number or last_compacted(database, 0):
        raise RequestError("target", database.location, "the log has changes already", "id-in-use")
    last = contents.start.number
    for table in ("snapshot", "history"):
        _copy(database, table, contents.stored_rows(table))
    with _copying(database, "log", ["int8", "int8", "int8", "bytea", "int8"]) as target:
        for last, at, data, checksum in contents.stored_changes():
            target.write_row((last, term, at, data, checksum))
    database.run("UPDATE {schema}.leader SET number = %s", [last])


def _copy(database: Database, table: str, rows: Iterable[bytes]) -> None:
    with _copying(database, table, ["int4", "bytea", "int8"]) as target:
        for row in checksummed_rows(0, rows):
            target.write_row(row)


@contextmanager
def _copying(database: Database, table: str, types: Sequence[str]) -> Iterator[psycopg.Copy]:
    copy = database.text(f"COPY {{schema}}.{table} FROM STDIN (FORMAT BINARY)").encode()
    with database.connection.cursor() as cursor, cursor.copy(copy) as target:
        target.set_types(types)
        yield target

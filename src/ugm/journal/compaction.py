"""Compaction: the state of the partition replaces the changes that led to it.

The changes are replayed, and the result is verified, before anything is written. Then the tables are replaced in one
transaction. Usage over time, the configurations that were in force, and changes of budgets move to the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, Protocol, TypeVar

from ugm._json_values import Json
from ugm.journal.client_sessions import SessionTable
from ugm.journal.contents import JournalContents, JournalEntry, open_contents, replay
from ugm.journal.declared_past import DeclaredPast, have_past
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.errors import JournalError
from ugm.journal.open_mark import open_for_maintenance
from ugm.journal.store import checksummed_rows, transaction, truncate_wal
from ugm.journal.usage_intervals import UsageInterval, UsageMeter, decode_intervals, encode_intervals
from ugm.partition.checkpoint import checkpoint_of
from ugm.partition.checkpoint_codec import encode_checkpoint
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import event_rows, to_json
from ugm.partition.events import BudgetChanged, ConfigurationChanged
from ugm.partition.self_check import verify
from ugm.partition.state import PartitionState
from ugm.partition.stored_config import config_to_data

__all__ = ["Compaction", "RunExclusively", "checkpoint_rows", "compact_connection", "compact_file"]


_T = TypeVar("_T")


class RunExclusively(Protocol):
    """Calls a function while no change is committed, after all changes have become durable; returns its result."""

    def __call__(self, work: Callable[[], _T], /) -> _T:
        """Call the function."""
        ...


class Compaction(NamedTuple):
    """The result of compacting a journal."""

    #: The number of changes that were replaced.
    changes: int
    #: The number of rows of the state and of the history.
    snapshot_rows: int
    history_rows: int


def compact_file(path: str, *, usage_since: int | None = None) -> Compaction:
    """Compact a locked journal that is not open; see `compact_connection`."""
    # The journal is read before it is opened for writing, so that a damaged one does not change.
    with open_contents(path):
        pass
    try:
        with open_for_maintenance(path) as connection:
            return compact_connection(path, connection, usage_since=usage_since)
    except (sqlite3.Error, OSError) as error:
        raise JournalError(path, f"it cannot be compacted: {error}") from error


def compact_connection(path: str, connection: sqlite3.Connection, *, usage_since: int | None = None) -> Compaction:
    """Compact a journal through a connection, while no changes are committed.

    Raises:
        JournalError: the journal cannot be written, and has not changed.
        JournalDamagedError: the journal is damaged.
    """
    with open_contents(path) as contents:
        number, snapshot, history = checkpoint_rows(contents, usage_since)
        result = Compaction(number - contents.start.number, len(snapshot), len(history))
    _replace(path, connection, number, {"snapshot": snapshot, "history": history})
    return result


def _replace(path: str, connection: sqlite3.Connection, number: int, tables: Mapping[str, list[bytes]]) -> None:
    """Replace the changes up to *number* by tables.

    The transaction may make the WAL much larger than before, above all if it fails because the disk is full. Later
    releases need this space, so the WAL is always truncated. It can be truncated only if it contains just this
    transaction. If the disk is full already and readers prevent the truncation, the compaction is refused.
    """
    try:
        is_wal_empty = truncate_wal(connection)
        if not is_wal_empty and not DiskReserve(path).is_available:
            raise JournalError(path, "it cannot be compacted: the disk is full, and the journal is being read")
        try:
            with transaction(connection):
                _replace_tables(path, connection, number, tables)
            # A file that cannot shrink now reuses the space later.
            with suppress(sqlite3.OperationalError):
                truncate_wal(connection)
                connection.execute("VACUUM")
        finally:
            with suppress(sqlite3.Error):
                truncate_wal(connection)
    except sqlite3.Error as error:
        raise JournalError(path, f"it cannot be compacted: {error}") from error


def _replace_tables(path: str, connection: sqlite3.Connection, number: int, tables: Mapping[str, list[bytes]]) -> None:
    [last] = connection.execute("SELECT max(number) FROM changes").fetchone()
    if last not in (None, number):
        raise JournalError(path, f"it cannot be compacted up to change {number}: it ends with {last} now")
    # Rows are deleted first, so that their pages are reused. Without a condition SQLite does not rewrite these pages.
    connection.execute("DELETE FROM changes")
    for table, rows in tables.items():
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", checksummed_rows(0, rows))  # noqa: S608 - as above


def checkpoint_rows(contents: JournalContents, usage_since: int | None) -> tuple[int, list[bytes], list[bytes]]:
    """Return the number of the last change, the rows of the state after it, and the rows of the history up to it."""
    start = contents.start
    with contents.decoding():
        records = list(contents.history())
        intervals = [interval for record in records for interval in decode_intervals(record)]
        history = [record for record in records if record[0] != "used"]
        meter = UsageMeter(start.checkpoint, start.at, start.compiled)

    def observe(entry: JournalEntry) -> None:
        intervals.extend(meter.process(entry))
        history.extend(
            ["configured", entry.number, entry.at, config_to_data(event.after.config)]
            for event in entry.events
            if isinstance(event, ConfigurationChanged)
        )
        changed = [event for event in entry.events if isinstance(event, BudgetChanged)]
        history.extend(["budget", entry.number, entry.at, row] for row in event_rows(changed))

    state, sessions = PartitionState(CompiledConfig.of(None), user_limits_win=False), SessionTable()
    number, at = replay(contents, state, observe, sessions=sessions)
    verify(state)
    models = DeclaredPast.of(contents).records() if have_past(state.compiled.models) else ()
    intervals.extend(meter.finish(at))
    since = max(start.usage_since, usage_since or 0)
    history += _usage_records(intervals, since)
    snapshot = [*encode_checkpoint(checkpoint_of(state)._replace(models=models)), *sessions.rows()]
    settings = config_to_data(state.compiled.config)
    head = to_json([number, at, len(snapshot) + 1, len(history), since, settings])
    return number, [head, *snapshot], list(map(to_json, history))


def _usage_records(intervals: list[UsageInterval], since: int) -> Iterator[Json]:
    """Yield records of all intervals that end after an instant, one for each application."""
    kept = [each._replace(begin=max(each.begin, since)) for each in intervals if each.end > since]
    # An application id may be used again by another owner. Sorting is stable, so intervals stay in their order.
    kept.sort(key=_owner)
    for _, group in groupby(kept, _owner):
        yield encode_intervals(list(group))


def _owner(interval: UsageInterval) -> tuple[object, ...]:
    group = "" if interval.group is None else f"+{interval.group}"
    return (
        interval.application_id,
        interval.user,
        interval.queue_path,
        group,
        interval.owners,
        interval.first_group or "",
    )

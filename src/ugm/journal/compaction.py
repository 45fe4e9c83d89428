"""Compacting: the state of the partition takes the place of the changes that led to it.

The changes are replayed, and the outcome is verified, before anything is written; then all is done in one transaction.
What they say about usage over time, and which configurations were in force, moves to the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

from ugm.journal.contents import JournalContents, JournalEntry, open_contents, replay
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.errors import JournalError
from ugm.journal.records import to_json, written_image
from ugm.journal.session import open_for_maintenance
from ugm.journal.store import checksummed_rows, transaction, truncate_log
from ugm.journal.usage_intervals import UsageInterval, UsageMeter, decode_intervals, encode_intervals
from ugm.partition.audit import verify
from ugm.partition.checkpoint import checkpoint_of
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import ConfigurationChanged
from ugm.partition.settings import settings_of, written_settings
from ugm.partition.state import PartitionState

__all__ = ["Compaction", "compact_file", "compacted"]


class Compaction(NamedTuple):
    """What compacting a journal has done."""

    #: How many changes the state has taken the place of.
    changes: int
    #: How many rows the state, and the history, take now.
    snapshot_rows: int
    history_rows: int


def compact_file(path: str, *, usage_since: int | None = None) -> Compaction:
    """Compact a journal that nobody writes; as `compacted`."""
    # Read before it is opened for writing: what is damaged stays as it is.
    with open_contents(path):
        pass
    try:
        with open_for_maintenance(path) as connection:
            return compacted(path, connection, usage_since=usage_since)
    except (sqlite3.Error, OSError) as error:
        raise JournalError(path, f"it cannot be compacted: {error}") from error


def compacted(path: str, connection: sqlite3.Connection, *, usage_since: int | None = None) -> Compaction:
    """Compact a journal through a connection to it, while nobody else writes.

    Raises:
        JournalError: it cannot be written, and has not changed.
        JournalDamagedError: it is damaged.
    """
    with open_contents(path) as contents:
        number, snapshot, history = _digest(contents, usage_since)
        done = Compaction(number - contents.start.number, len(snapshot), len(history))
    _replace(path, connection, number, {"snapshot": snapshot, "history": history})
    return done


def _replace(path: str, connection: sqlite3.Connection, number: int, tables: Mapping[str, list[bytes]]) -> None:
    """Write the tables in the place of the changes, the last of which has this number.

    The transaction may make the log much larger than it was, above all if it fails because the disk is full. That space
    is what further releases need, so it is freed in any case. It can be freed if nothing else is in the log. If the
    disk is full already and readers keep the log as it is, nothing is begun.
    """
    try:
        is_log_empty = truncate_log(connection)
        if not is_log_empty and not DiskReserve(path).is_available:
            raise JournalError(path, "it cannot be compacted: the disk is full, and the journal is being read")
        try:
            with transaction(connection):
                [last] = connection.execute("SELECT max(number) FROM changes").fetchone()
                if last not in (None, number):
                    raise JournalError(path, f"it cannot be compacted up to change {number}: it ends with {last} now")
                # First what goes, so that its pages take what comes. Without a condition SQLite writes none of them.
                connection.execute("DELETE FROM changes")
                for table, rows in tables.items():
                    connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
                    connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", checksummed_rows(0, rows))  # noqa: S608 - as above
            # A file that cannot be made smaller now uses the space for what comes.
            with suppress(sqlite3.OperationalError):
                truncate_log(connection)
                connection.execute("VACUUM")
        finally:
            with suppress(sqlite3.Error):
                truncate_log(connection)
    except sqlite3.Error as error:
        raise JournalError(path, f"it cannot be compacted: {error}") from error


def _digest(contents: JournalContents, usage_since: int | None) -> tuple[int, list[bytes], list[bytes]]:
    """Return the last change, the rows of the state after it, and those of the history up to it."""
    start = contents.start
    kept = list(contents.history())
    found = [span for told in kept for span in decode_intervals(told)]
    history = [told for told in kept if told[0] != "used"]
    meter = UsageMeter(start.image, start.at)

    def follow(entry: JournalEntry) -> None:
        found.extend(meter.follow(entry))
        history.extend(
            ["configured", entry.number, entry.at, written_settings(settings_of(event.after.config))]
            for event in entry.events
            if isinstance(event, ConfigurationChanged)
        )

    state = PartitionState(CompiledConfig.of(None), user_limits_win=False)
    number, at = replay(contents, state, follow)
    verify(state)
    found.extend(meter.finish(at))
    since = max(start.usage_since, usage_since or 0)
    history += _used(found, since)
    image = list(written_image(checkpoint_of(state)))
    settings = written_settings(settings_of(state.compiled.config))
    head = to_json([number, at, len(image) + 1, len(history), since, settings])
    return number, [head, *image], list(map(to_json, history))


def _used(found: list[UsageInterval], since: int) -> Iterator[list[Any]]:
    """Yield rows for all spans that end behind an instant, those of one application together."""
    kept = [span._replace(begin=max(span.begin, since)) for span in found if span.end > since]
    # An id may come back with another owner; spans stay in their order.
    kept.sort(key=_whose)
    for _, together in groupby(kept, _whose):
        yield encode_intervals(list(together))


def _whose(span: UsageInterval) -> tuple[str, ...]:
    return span.application_id, span.user, span.queue_path, "" if span.group is None else f"+{span.group}"

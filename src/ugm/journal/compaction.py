"""Compacting: the state of the partition takes the place of the changes that led to it.

The changes are replayed, and the outcome is verified, before anything is written; then all is done in one transaction.
What they say about usage over time, and which configurations were in force, moves to the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import groupby
from typing import Any, NamedTuple

from ugm.journal.contents import Contents, Entry, opened, rebuild
from ugm.journal.errors import JournalError
from ugm.journal.records import to_json, written_image
from ugm.journal.spans import Meter, Span, kept_row, kept_spans
from ugm.journal.store import connect, written_rows
from ugm.partition.audit import verify
from ugm.partition.books import Books
from ugm.partition.compiled import Compiled
from ugm.partition.events import Configured
from ugm.partition.image import image_of
from ugm.partition.settings import settings_of, written_settings

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
    with opened(path):
        pass
    try:
        with closing(connect(path)) as connection:
            return compacted(path, connection, usage_since=usage_since)
    except sqlite3.Error as error:
        raise JournalError(path, f"it cannot be compacted: {error}") from error


def compacted(path: str, connection: sqlite3.Connection, *, usage_since: int | None = None) -> Compaction:
    """Compact a journal through a connection to it, while nobody else writes.

    Raises:
        JournalError: it cannot be written, and has not changed.
        JournalDamagedError: it is damaged.
    """
    with opened(path) as contents:
        number, snapshot, history = _digest(contents, usage_since)
        done = Compaction(number - contents.start.number, len(snapshot), len(history))
    try:
        connection.execute("BEGIN IMMEDIATE")
        for table, rows in (("snapshot", snapshot), ("history", history)):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", written_rows(0, rows))  # noqa: S608 - as above
        connection.execute("DELETE FROM changes WHERE number <= ?", (number,))
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise JournalError(path, f"it cannot be compacted: {error}") from error
    # A file that cannot be made smaller now uses the space for what comes.
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return done


def _digest(contents: Contents, usage_since: int | None) -> tuple[int, list[bytes], list[bytes]]:
    """Return the last change, the rows of the state after it, and those of the history up to it."""
    start = contents.start
    kept = list(contents.history())
    found = [span for told in kept for span in kept_spans(told)]
    history = [told for told in kept if told[0] != "used"]
    meter = Meter(start.image, start.at)

    def follow(entry: Entry) -> None:
        found.extend(meter.follow(entry))
        history.extend(
            ["configured", entry.number, entry.at, written_settings(settings_of(event.after.config))]
            for event in entry.events
            if isinstance(event, Configured)
        )

    books = Books(Compiled.of(None), user_limits_win=False)
    number, at = rebuild(contents, books, follow)
    verify(books)
    found.extend(meter.finish(at))
    since = max(start.usage_since, usage_since or 0)
    history += _used(found, since)
    image = list(written_image(image_of(books)))
    settings = written_settings(settings_of(books.compiled.config))
    head = to_json([number, at, len(image) + 1, len(history), since, settings])
    return number, [head, *image], list(map(to_json, history))


def _used(found: list[Span], since: int) -> Iterator[list[Any]]:
    """Yield rows for all spans that end behind an instant, those of one application together."""
    kept = [span._replace(begin=max(span.begin, since)) for span in found if span.end > since]
    # An id may come back with another owner; spans stay in their order.
    kept.sort(key=_whose)
    for _, together in groupby(kept, _whose):
        yield kept_row(list(together))


def _whose(span: Span) -> tuple[str, ...]:
    return span.application_id, span.user, span.queue_path, "" if span.group is None else f"+{span.group}"

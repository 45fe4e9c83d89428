"""Journals of older versions are brought to the present one when they are opened, in one transaction.

Version 1 had whole seconds, and no history because it could not be compacted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from ugm.journal.errors import JournalError
from ugm.journal.session import writing
from ugm.journal.store import FORMAT, Change, change_row, format_of, reading, row_sum, transaction

__all__ = ["migrate"]


def migrate(path: str) -> None:
    """Bring a journal to the present version; nobody else writes it.

    Raises:
        JournalError: that failed, and the journal is what it was; a newer version is left alone.
        JournalDamagedError: it is damaged.
    """
    while (version := format_of(path)) in _STEPS:
        with reading(path) as found:
            rows = list(found.changes(0))
        try:
            with writing(path) as connection:
                _step(connection, version, rows)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(path, f"it cannot be brought from version {version} to {FORMAT}: {error}") from error


_Rows = list[Change]


def _step(connection: sqlite3.Connection, version: int, rows: _Rows) -> None:
    with transaction(connection):
        _STEPS[version](connection, rows)
        connection.execute("UPDATE version SET version = ?, sum = ?", (version + 1, row_sum(version + 1, b"version")))


def _from_seconds(connection: sqlite3.Connection, rows: _Rows) -> None:
    connection.execute("CREATE TABLE history (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL)")
    connection.execute("DELETE FROM changes")
    written = (change_row(number, at * 1000, data) for number, at, data in rows)
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", written)


#: What leads from each older version to the next.
_STEPS: Final[Mapping[int, Callable[[sqlite3.Connection, _Rows], None]]] = {1: _from_seconds}

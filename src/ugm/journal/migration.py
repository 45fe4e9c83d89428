"""Journals of older versions are brought to the present one when they are opened, in one transaction.

Version 1 had whole seconds, and no history because it could not be compacted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from ugm.journal.errors import JournalError
from ugm.journal.session import open_for_maintenance
from ugm.journal.store import FORMAT, Change, change_row, format_version, open_reader, row_checksum, transaction

__all__ = ["migrate"]


def migrate(path: str) -> None:
    """Bring a journal to the present version; nobody else writes it.

    Raises:
        JournalError: that failed, and the journal is what it was; a newer version is left alone.
        JournalDamagedError: it is damaged.
    """
    while (version := format_version(path)) in _STEPS:
        with open_reader(path) as found:
            rows = list(found.changes(0))
        try:
            with open_for_maintenance(path) as connection:
                _step(connection, version, rows)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(path, f"it cannot be brought from version {version} to {FORMAT}: {error}") from error


_Rows = list[Change]


def _step(connection: sqlite3.Connection, version: int, rows: _Rows) -> None:
    with transaction(connection):
        _STEPS[version](connection, rows)
        connection.execute(
            "UPDATE version SET version = ?, sum = ?", (version + 1, row_checksum(version + 1, b"version"))
        )


def _from_seconds(connection: sqlite3.Connection, rows: _Rows) -> None:
    connection.execute("CREATE TABLE history (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL)")
    connection.execute("DELETE FROM changes")
    written = (change_row(number, at * 1000, data) for number, at, data in rows)
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", written)


#: What leads from each older version to the next.
_STEPS: Final[Mapping[int, Callable[[sqlite3.Connection, _Rows], None]]] = {1: _from_seconds}

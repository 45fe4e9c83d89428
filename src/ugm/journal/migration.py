"""Migration of journals of older versions, in one transaction for each version.

Version 1 stored whole seconds, and had no history because it could not be compacted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from ugm.journal.errors import JournalError
from ugm.journal.file_writer import change_row
from ugm.journal.open_mark import open_for_maintenance
from ugm.journal.store import FORMAT, row_checksum, transaction
from ugm.journal.store_reader import StoredChange, open_reader, read_format

__all__ = ["migrate"]


def migrate(path: str) -> None:
    """Migrate a locked journal to the current version. A journal of a newer version does not change.

    Raises:
        JournalError: the migration failed, and the journal has not changed.
        JournalDamagedError: the journal is damaged.
    """
    while (version := read_format(path)) in _MIGRATIONS:
        with open_reader(path) as reader:
            changes = list(reader.changes(0))
        try:
            with open_for_maintenance(path) as connection, transaction(connection):
                _MIGRATIONS[version](connection, changes)
                checksum = row_checksum(version + 1, b"version")
                connection.execute("UPDATE version SET version = ?, sum = ?", (version + 1, checksum))
        except (sqlite3.Error, OSError) as error:
            reason = f"it cannot be migrated from version {version} to {FORMAT}: {error}"
            raise JournalError(path, reason) from error


def _from_version_1(connection: sqlite3.Connection, changes: list[StoredChange]) -> None:
    connection.execute("CREATE TABLE history (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL)")
    connection.execute("DELETE FROM changes")
    rows = (change_row(number, at * 1000, data) for number, at, data in changes)
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", rows)


#: The migration from each older version to the next.
_MIGRATIONS: Final[Mapping[int, Callable[[sqlite3.Connection, list[StoredChange]], None]]] = {1: _from_version_1}

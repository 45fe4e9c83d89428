"""Work on a whole store: copies, and the deletion of old usage. They work while a leader writes the store."""

from __future__ import annotations

from ugm.errors import RequestError
from ugm.store.database import ALL_TABLES, Database, quoted
from ugm.store.reader import StoreLocation, database_at

__all__ = ["copy_store", "delete_usage"]


def copy_store(source: StoreLocation, target: StoreLocation) -> None:
    """Copy all durable changes and all rows to a new store, in a file or in PostgreSQL.

    The copy in a file is a backup. It is written in one transaction, so a file of a copy that was interrupted has no
    store.

    Args:
        source: the store, which a leader may be writing.
        target: a file or a schema without a store.

    Raises:
        RequestError: the target exists.
        StoreError: the store cannot be read, or the copy cannot be written.
    """
    reader, writer = database_at(source, is_reader=True), database_at(target)
    try:
        reader.require_format()
        if writer.has_tables():
            raise RequestError("target", writer.location, "there is a store already", "id-in-use")
        writer.prepare()
        with reader.transaction(reading=True), writer.transaction():
            _copy(reader, writer)
    finally:
        reader.close()
        writer.close()


def _copy(reader: Database, writer: Database) -> None:
    """Copy all tables within a transaction."""
    leader = reader.read_leader()
    writer.create_tables()
    writer.run("DELETE FROM fold")
    for name, columns in ALL_TABLES.items():
        statement = f"SELECT {reader.selected(columns)} FROM {quoted(name)}"  # noqa: S608 - constants
        for rows in reader.stream(name, statement):
            writer.insert(name, columns, rows)
    writer.run("UPDATE leader SET term = ?, number = ?", [leader.term, leader.number])


def delete_usage(location: StoreLocation, before: int) -> None:
    """Delete the usage before an instant, in milliseconds since 1970. Later queries for it are refused.

    Raises:
        StoreError: the store cannot be written.
    """
    database = database_at(location)
    try:
        database.require_format()
        with database.transaction():
            database.run("UPDATE fold SET usage_since = ? WHERE usage_since < ?", [before, before])
            database.run('DELETE FROM usage WHERE "end" <= ?', [before])
    finally:
        database.close()

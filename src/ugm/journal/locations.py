"""The location of a log: the path of a file, or the address of a PostgreSQL database."""

from __future__ import annotations

import os
from typing import Final, TypeAlias

from ugm.journal.errors import JournalError
from ugm.journal.file_log import FileLog
from ugm.journal.log import Log

__all__ = ["URL_SCHEMES", "LogLocation", "log_at"]

#: A path, a URL that begins with ``postgresql://``, or a `ugm.journal.postgres.PostgresLog`.
LogLocation: TypeAlias = str | os.PathLike[str] | Log

#: The beginnings of URLs of PostgreSQL.
URL_SCHEMES: Final = ("postgresql://", "postgres://")


def log_at(location: LogLocation) -> Log:
    """Return the log at a location.

    Raises:
        RequestError: the argument is not a location.
        JournalError: the path does not lead to a regular file, or the package for PostgreSQL is not installed.
    """
    if isinstance(location, str) and location.startswith(URL_SCHEMES):
        # psycopg takes 60 ms to import, and is an extra.
        try:
            from ugm.journal.postgres.log import PostgresLog  # noqa: PLC0415 - as above
        except ModuleNotFoundError as error:
            raise JournalError("postgresql://", f"it needs {error.name}: install the extra 'postgres'") from error
        return PostgresLog(location)
    return location if isinstance(location, Log) else FileLog(location)

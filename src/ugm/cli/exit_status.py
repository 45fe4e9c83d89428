"""The exit statuses of the commands, besides 0. It imports nothing, because `ugm.cli.main` works without the extra."""

from __future__ import annotations

from typing import Final

__all__ = ["PROBLEMS", "UNWRITTEN"]

#: A file has problems, or a server does not answer.
PROBLEMS: Final = 1
#: The output cannot be written. Status 1 would mean a difference or a problem of a file.
UNWRITTEN: Final = 2

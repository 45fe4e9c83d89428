"""The command ``ugm``: simulate workloads, compare and validate configurations, explain decisions, run a server.

The command needs the extra ``cli``; `main` prints how to install it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

__all__ = ["main"]

#: The packages that the extra ``cli`` installs.
_REQUIRED: Final = frozenset(("click", "rich"))
#: The exit status if the output cannot be written. Status 1 would mean a difference or a problem of a file.
_UNWRITTEN: Final = 2


def main() -> None:
    """Run the command with the arguments of the process."""
    try:
        from ugm.cli.commands import ugm  # noqa: PLC0415 - imports optional packages
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _REQUIRED:
            raise
        sys.stderr.write(f"ugm: the command needs {missing}; install it with: pip install 'ugm[cli]'\n")
        sys.exit(2)
    try:
        # A closed pipe ends the command with status 1 and without a message.
        ugm(prog_name="ugm")
    except OSError as error:
        _end(error)


def _end(error: OSError) -> NoReturn:
    """Print an error of the operating system, and end the process."""
    # Only an error of an opened file has a name.
    subject = "the output cannot be written" if error.filename is None else error.filename
    with suppress(OSError):
        sys.stderr.write(f"ugm: {subject}: {error.strerror or error}\n")
    # At its end, Python writes the rest of the buffer again, and would print another error.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - not a path of the user
            os.dup2(nowhere.fileno(), stream.fileno())
    sys.exit(_UNWRITTEN)

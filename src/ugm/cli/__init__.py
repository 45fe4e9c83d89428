"""The command ``ugm``: simulate workloads, compare and validate configurations, explain decisions, run a server.

The command needs the extra ``cli``; `main` prints how to install it.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

__all__ = ["main"]

#: The exit status if the output cannot be written. Status 1 would mean a difference or a problem of a file.
_UNWRITTEN: Final = 2

#: The packages that the extra ``cli`` installs.
_REQUIRED: Final = frozenset(("click", "rich"))
#: The errors of a disk or device that is full or broken. A closed pipe ends the command with status 1 and no message.
_OUTPUT_ERRORS: Final = frozenset((errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC))


def main() -> None:
    """Run the command with the arguments of the process."""
    _escape_unknown_characters()
    try:
        from ugm.cli.commands import ugm  # noqa: PLC0415 - imports optional packages
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _REQUIRED:
            raise
        sys.stderr.write(f"ugm: the command needs {missing}: install the extra 'cli'\n")
        sys.exit(2)
    try:
        ugm(prog_name="ugm")
    except OSError as error:
        # An error of a file that was opened by name has the name.
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        _end(error)


def _escape_unknown_characters() -> None:
    """Let the output for people escape characters that its encoding does not have, such as those of a name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end(error: OSError) -> NoReturn:
    """Print the reason why the output cannot be written, and end the process."""
    with suppress(OSError):
        sys.stderr.write(f"ugm: the output cannot be written: {error.strerror}\n")
    # At its end, Python writes the rest of the output again, and would print another error.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - not a path of the user
            os.dup2(nowhere.fileno(), stream.fileno())
    sys.exit(_UNWRITTEN)

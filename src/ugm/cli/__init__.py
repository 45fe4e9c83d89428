"""The command ``ugm``: simulate workloads, compare and validate configurations, explain decisions, run a server.

The command needs the extra ``cli``; `main` prints how to install it.
"""

from __future__ import annotations

import io
import sys
from typing import Final

__all__ = ["main"]

#: The packages that the extra ``cli`` installs.
_REQUIRED: Final = frozenset(("click", "rich"))


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
    ugm(prog_name="ugm")


def _escape_unknown_characters() -> None:
    """Let the output for people escape characters that its encoding does not have, such as those of a name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

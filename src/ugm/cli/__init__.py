"""The command ``ugm``: simulate workloads, compare and validate configurations, explain decisions, run a server.

The command needs the extra ``cli``, and some subcommands need others; `main` prints which one is missing.
"""

from __future__ import annotations

import io
import sys
from typing import Final

__all__ = ["main"]

#: The extra that installs each optional package.
_EXTRAS: Final = {
    "click": "cli",
    "rich": "cli",
    "starlette": "server",
    "uvicorn": "server",
    "prometheus_client": "metrics",
    "msgspec": "service",
}


def main() -> None:
    """Run the command with the arguments of the process."""
    _escape_unknown_characters()
    try:
        from ugm.cli.commands import ugm  # noqa: PLC0415 - imports optional packages

        ugm(prog_name="ugm")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        sys.stderr.write(f"ugm: the command needs {missing}: install the extra '{_EXTRAS[missing]}'\n")
        sys.exit(2)


def _escape_unknown_characters() -> None:
    """Let the output for people escape characters that its encoding does not have, such as those of a name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

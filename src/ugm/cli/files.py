"""The files of a replay: the log, which is read, and the page, which is written."""

from __future__ import annotations

import sys
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import cast

from ugm.cli.options import STDIN
from ugm.cli.output import exit_with_error

__all__ = ["opened", "write_page"]


def opened(workload: Path) -> BufferedReader:
    """Open the log, or the standard input."""
    if str(workload) == STDIN:
        # A reader of its own, because not every standard input can be read ahead.
        return BufferedReader(cast("RawIOBase", sys.stdin.buffer))
    return workload.open("rb")


def write_page(file: Path, text: str) -> None:
    """Write a page; if that fails, print the error and end the process."""
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        exit_with_error(f"{file}: cannot be written: {error.strerror or error}")

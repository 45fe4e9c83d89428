"""The files of a replay: the log, which is read, and the page, which is written."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from stat import S_IMODE
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
    """Write a page; if that fails, print the error and end the process.

    An existing file is replaced when the whole page has been written, and keeps its permissions. A file with several
    names, and one that belongs to another user, is written in place.
    """
    try:
        if not (_is_replaceable(file) and _replace(file, text)):
            _write(file, text)
    except OSError as error:
        exit_with_error(f"{file}: cannot be written: {error.strerror or error}")


def _is_replaceable(file: Path) -> bool:
    # The standard output is a link, too.
    if file.is_symlink() or not file.is_file() or not os.access(file, os.W_OK):
        return False
    found = file.stat()
    return found.st_nlink == 1 and found.st_uid == getattr(os, "geteuid", lambda: found.st_uid)()


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


def _replace(file: Path, text: str) -> bool:
    """Replace the content of a regular file, and return True; False if no file can be created in its folder."""
    draft = file.with_name(f".ugm-{os.getpid()}")
    try:
        draft.touch(0o600, exist_ok=False)
    except OSError:
        return False
    try:
        _write(draft, text)
        draft.chmod(S_IMODE(file.stat().st_mode))
        draft.replace(file)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    return True

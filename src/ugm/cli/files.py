"""The files of a replay: the log, which is read, and the page, which is written."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from stat import S_IMODE
from typing import Final, cast

from ugm.cli.options import STDIN
from ugm.cli.output import exit_with_error

__all__ = ["opened", "write_page"]

#: The folders of devices and of open files, such as the standard output, which must not be replaced.
_SPECIAL: Final = ("/dev", "/proc")


def opened(workload: Path) -> BufferedReader:
    """Open the log, or the standard input."""
    if str(workload) == STDIN:
        # A reader of its own, because not every standard input can be read ahead.
        return BufferedReader(cast("RawIOBase", sys.stdin.buffer))
    return workload.open("rb")


def write_page(file: Path, text: str) -> None:
    """Write a page; if that fails, print the error and end the process.

    An existing file is replaced when the whole page has been written, and keeps its permissions.
    """
    try:
        if not (_is_replaceable(file) and _replace(file.resolve(), text)):
            _write(file, text)
    except OSError as error:
        exit_with_error(f"{file}: cannot be written: {error.strerror or error}")


def _is_replaceable(file: Path) -> bool:
    is_special = any(map(file.absolute().is_relative_to, _SPECIAL))
    return file.is_file() and not is_special and os.access(file, os.W_OK)


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


def _replace(file: Path, text: str) -> bool:
    """Replace the content of a regular file, and return True; False if no file can be created in its folder."""
    draft = file.with_name(f".ugm-{os.getpid()}")
    try:
        draft.touch(exist_ok=False)
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

"""Disk space that is kept free, so that releases can still be written when the disk is full.

The problem: releasing an allocation frees quota, but its record takes disk space. On a full disk, a program that
releases everything it holds would fail.

The idea: a file of 1.25 MiB is kept next to the journal. When the disk is full, the file is deleted. Its space is
enough for thousands of releases. From then on everything that takes quota is refused, until the file can be written
again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, final

__all__ = ["DiskReserve"]

#: The size of the file in bytes: enough for thousands of releases.
_SIZE: Final = 5 * 2**18
#: More bytes than SQLite and the ack marker need before the first change is written.
_NEEDED_TO_OPEN: Final = 2**17


@final
class DiskReserve:
    """The disk space that is reserved for a journal.

    Args:
        path: the journal. The name of the reserved file begins with it.
    """

    __slots__ = ("_journal", "_path", "is_available")

    #: Whether the space is reserved now.
    is_available: bool

    def __init__(self, path: str) -> None:
        self._journal: Final = path
        self._path: Final = Path(f"{path}-reserve")
        self.is_available = self._path.exists() and self._path.stat().st_size == _SIZE

    def fill(self) -> None:
        """Reserve the space.

        Raises:
            OSError: the disk has too little space.
        """
        if self.is_available:
            return
        try:
            _write_zeros(self._path, _SIZE)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        self.is_available = True

    def release(self) -> bool:
        """Free the space, and return whether any was reserved."""
        was_available, self.is_available = self.is_available, False
        self._path.unlink(missing_ok=True)
        return was_available

    def release_if_needed_to_open(self) -> None:
        """Free the space if the disk has too little space to open the journal."""
        if not self.is_available:
            return
        probe = Path(f"{self._journal}-new")
        try:
            _write_zeros(probe, _NEEDED_TO_OPEN)
        except OSError:
            self.release()
        finally:
            probe.unlink(missing_ok=True)


def _write_zeros(path: Path, size: int) -> None:
    """Write a file of *size* bytes that takes its space on the disk."""
    with path.open("wb") as file:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())

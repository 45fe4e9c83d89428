"""Questions about a path that a user has passed, which may be any text.

`pathlib` raises errors for some paths, for example if a name is too long. No file can have such a path.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["exists", "is_file", "is_folder"]


def exists(path: Path) -> bool:
    """Return whether there is a file or folder."""
    return _ask(path.exists)


def is_file(path: Path) -> bool:
    """Return whether there is a regular file."""
    return _ask(path.is_file)


def is_folder(path: Path) -> bool:
    """Return whether there is a folder."""
    return _ask(path.is_dir)


def _ask(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:
        return False

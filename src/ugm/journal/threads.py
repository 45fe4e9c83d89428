"""The start of the threads of a journal."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from ugm.journal.errors import JournalError

__all__ = ["start_thread"]


def start_thread(work: Callable[[], None], name: str, path: str) -> Thread:
    """Start a thread that does not keep the process alive.

    Args:
        work: its work.
        name: its name.
        path: the location of the journal, for errors.

    Raises:
        JournalError: the system has no resources for another thread.
    """
    thread = Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise JournalError(path, str(error)) from error
    return thread

"""The lock of an engine."""

from __future__ import annotations

from threading import Thread

from support.locks import is_locked
from ugm.operation_lock import OwnedLock, _depth_in_text


def test_depth() -> None:
    """A lock knows how often its thread has taken it, whatever the version of Python."""
    lock = OwnedLock()
    found = []
    for _ in range(3):
        found.append((lock.depth(), _depth_in_text(lock)))
        lock.acquire()

    assert found == [(0, 0), (1, 1), (2, 2)]


def test_locked_by_another_thread() -> None:
    """Tests see that a lock is held, also by another thread."""
    lock = OwnedLock()
    assert not is_locked(lock)
    thread = Thread(target=lock.acquire)
    thread.start()
    thread.join()

    assert (is_locked(lock), lock.is_owned()) == (True, False)

"""The lock of an engine."""

from __future__ import annotations

import ctypes
from threading import Thread, get_ident

import pytest

from support.locks import is_locked
from ugm import ReentrantCallError
from ugm.engine_lock import EngineLock, OwnedLock, _depth_in_text


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


def test_an_error_of_the_library_that_another_thread_sends() -> None:
    """It can arrive in the middle of a change, so the counters are rebuilt, unlike after an error of the operation."""
    lock = EngineLock()
    lock.epoch, rebuilt = object(), []
    lock.rebuild = lambda: rebuilt.append(True)
    send = ctypes.pythonapi.PyThreadState_SetAsyncExc

    with pytest.raises(ReentrantCallError):
        lock.run(send, ctypes.c_ulong(get_ident()), ctypes.py_object(ReentrantCallError))

    # Once before the operation, as the engine is new.
    assert (rebuilt, is_locked(lock)) == ([True, True], False)

"""A lock that is free again whatever interrupts the method that holds it.

An exception from outside, such as `KeyboardInterrupt`, may arrive after a ``with`` statement has run its block and
before it releases the lock: nothing in the statement handles it there. The lock is therefore a reentrant one, which
knows its owner, and a handler around the statement releases what the thread still owns.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["Lockable", "OwnedLock", "release_owned", "unlocking"]

P = ParamSpec("P")
T = TypeVar("T")


class OwnedLock(AbstractContextManager[object], Protocol):
    """What `threading.RLock` makes."""

    def release(self) -> None:
        """Release the lock.

        Raises:
            RuntimeError: the thread does not own it.
        """
        ...


class Lockable(Protocol):
    """An object with a lock."""

    _lock: OwnedLock


LockableT = TypeVar("LockableT", bound=Lockable)


def unlocking(method: Callable[Concatenate[LockableT, P], T]) -> Callable[Concatenate[LockableT, P], T]:
    """Release the lock of an object when a method of it raises. Methods that are called often do so themselves."""

    @wraps(method)
    def guarded(self: LockableT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            release_owned(self._lock)
            raise

    return guarded


def release_owned(lock: OwnedLock) -> None:
    """Release a lock if the thread owns it."""
    with suppress(RuntimeError):
        lock.release()

"""Methods that leave the lock of their object free, whatever interrupts them.

An exception from outside may arrive after a ``with`` statement has run its block and before it releases the lock. A
handler around the method releases the lock then; see `ugm.operation_lock.OwnedLock`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ugm.operation_lock import OwnedLock

__all__ = ["unlocking"]

P = ParamSpec("P")
T = TypeVar("T")


class _Lockable(Protocol):
    """An object with a lock."""

    _lock: OwnedLock


LockableT = TypeVar("LockableT", bound=_Lockable)


def unlocking(method: Callable[Concatenate[LockableT, P], T]) -> Callable[Concatenate[LockableT, P], T]:
    """Release the lock of an object when a method of it raises. Methods that are called often do so themselves."""

    @wraps(method)
    def guarded(self: LockableT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self._lock.let_go()
            raise

    return guarded

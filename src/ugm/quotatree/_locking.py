"""A decorator for methods that run under the lock of their object.

An exception from outside may arrive after the block of a ``with`` statement has ended and before the statement releases
the lock. Therefore a handler around the statement releases the lock as well; see `ugm.operation_lock.OwnedLock`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ugm.operation_lock import OwnedLock

__all__ = ["locked"]

P = ParamSpec("P")
T = TypeVar("T")


class _Lockable(Protocol):
    _lock: OwnedLock


LockableT = TypeVar("LockableT", bound=_Lockable)


def locked(method: Callable[Concatenate[LockableT, P], T]) -> Callable[Concatenate[LockableT, P], T]:
    """Run a method under the lock of its object. The lock is free afterwards, even if the method is interrupted.

    A locked method must not call another one: an exception in the inner call would release the lock of the outer call.
    Frequent methods contain these statements themselves.
    """

    @wraps(method)
    def guarded(self: LockableT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with self._lock:
                return method(self, *args, **kwargs)
        except BaseException:
            self._lock.release_if_held()
            raise

    return guarded

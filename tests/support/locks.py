"""Questions about locks that only tests ask."""

from __future__ import annotations

from ugm.operation_lock import OwnedLock

__all__ = ["is_locked"]


def is_locked(lock: OwnedLock) -> bool:
    """Return whether any thread holds a lock."""
    return " count=0 " not in repr(lock)

"""Questions about locks that only tests ask."""

from __future__ import annotations

import time
from typing import Final

from ugm.engine_lock import OwnedLock

#: The longest time for which a thread that goes on holds a lock, in seconds.
_LONGEST: Final = 1.0


def is_locked(lock: OwnedLock) -> bool:
    """Return whether a thread keeps a lock; the thread of a store takes its lock for a moment."""
    end = time.monotonic() + _LONGEST
    while " count=0 " not in repr(lock):
        if time.monotonic() > end:
            return True
        time.sleep(0.0001)
    return False

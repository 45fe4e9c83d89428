"""A clock that a test sets."""

from __future__ import annotations


class Clock:
    """A clock that stands still until it is set.

    Args:
        now: the time at first, in seconds since 1970.
    """

    def __init__(self, now: float = 1_800_000_000) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now

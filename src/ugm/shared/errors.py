"""What can go wrong with a shared partition besides what can go wrong with any."""

from __future__ import annotations

from typing import Final

from ugm.errors import UgmError

__all__ = ["UnavailableError"]


class UnavailableError(UgmError, ConnectionError):
    """The database was unavailable for as long as the caller allowed: unreachable, full, or read-only.

    The change may have been made, or may still be made if the server is still working on it. The same call once more is
    answered as the first would have been, except that a release, or the end of an application, reports what is left.

    Attributes:
        seconds: how long it was tried.
        reason: what the last attempt came to.
    """

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(seconds, reason)
        self.seconds: Final = seconds
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"the database did not do it within {self.seconds:g} seconds: {self.reason}"

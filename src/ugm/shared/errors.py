"""What can go wrong with a shared partition besides what can go wrong with any."""

from __future__ import annotations

from typing import Final

from ugm.errors import UgmError

__all__ = ["UnavailableError"]


class UnavailableError(UgmError, ConnectionError):
    """The database did not do it for as long as the caller was willing to wait: it is away, full, or only reads.

    A change may or may not have been made. The same call once more is answered as the first would have been, except
    that giving back and what ends applications then say what is left to do.

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

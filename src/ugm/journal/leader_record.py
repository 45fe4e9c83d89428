"""The process that leads a log, and the processes that want to, as others see them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Candidate", "LeaderRecord"]


class Candidate(NamedTuple):
    """A process that wants to lead, as others see it.

    A program that uses a partition alone has no address, and is not replaced.
    """

    #: For people.
    name: str = ""
    #: Where clients reach the process; empty if they cannot.
    address: str = ""


class LeaderRecord(NamedTuple):
    """The process that leads, as it is recorded in the log."""

    term: int
    name: str
    address: str
    #: When it was last active, in milliseconds since 1970.
    renewed_at: int
    #: The seconds since then.
    silent_for: float

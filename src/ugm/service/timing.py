"""The times after which the connection of a client reacts to silence, for threads and for asyncio."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Timing"]


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a connection, in seconds.

    Attributes:
        silence: without any answer for this long, the leader gets a ping.
        patience: without an answer to the ping for this long, the connection is replaced.
        connect: the maximum time to connect to one address.
        pause: the time between attempts to connect.
    """

    silence: float = 0.2
    patience: float = 0.3
    connect: float = 0.5
    pause: float = 0.02

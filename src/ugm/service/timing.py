"""The times after which the connection of a client reacts to silence, for threads and for asyncio."""

from __future__ import annotations

from dataclasses import dataclass

from ugm.service.active_wait import require_duration

__all__ = ["Timing"]


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a connection, in seconds.

    Attributes:
        silence: without any answer for this long, the leader gets a ping.
        patience: without an answer to the ping for this long, the connection is replaced.
        connect: the maximum time to connect to one address.
        pause: the time between attempts to connect.
        active_wait: how long a blocking call polls for its answer before it sleeps, while answers arrive that quickly
            (`ugm.service.active_wait`); at most 0.01, and 0 for never.

    Raises:
        RequestError: `active_wait` is not a number in its range.
    """

    silence: float = 0.2
    patience: float = 0.3
    connect: float = 0.5
    pause: float = 0.02
    active_wait: float = 0.0001

    def __post_init__(self) -> None:
        require_duration(self.active_wait)

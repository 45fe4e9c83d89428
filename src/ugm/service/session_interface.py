"""The interface to the sessions of a service: presence, ownership, fencing and takeover.

A session begins when a client connects, and continues when the client reconnects. It owns the allocations that its
client obtained. If a client vanishes, an operator or another client decides about its allocations. No decision depends
on a clock: a silent session keeps its allocations until they are taken over or released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ugm.partition.answers.reports import OwnedAllocation
from ugm.service.status import ServiceStatus

__all__ = ["AbstractSessions", "SessionAllocation", "SessionReport"]


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session at one moment.

    Attributes:
        session: the id.
        client: the name of the client.
        opened_at: when it was opened, in milliseconds since 1970.
        is_connected: whether the client is connected.
        silent_for: the seconds since the connection was lost, or since this leader began; 0 while connected.
        allocations: the number of its allocations, including pending ones.
        is_fenced: whether the session can neither obtain nor release anything.
    """

    session: str
    client: str
    opened_at: int
    is_connected: bool
    silent_for: float
    allocations: int
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class SessionAllocation(OwnedAllocation):
    """An allocation of a session.

    Attributes:
        obtained_at: when it was obtained or, while it is pending, requested, in milliseconds since 1970, accurate to
            about two seconds; 0 if it is unknown. It stays the same if another session takes the allocation over.
    """

    obtained_at: int

    def to_dict(self) -> dict[str, object]:
        """Return the allocation for JSON."""
        return {**OwnedAllocation.to_dict(self), "obtained_at": self.obtained_at}


class AbstractSessions(ABC):
    """The operations on the sessions of a service. All can be repeated without harm."""

    __slots__ = ()

    @abstractmethod
    def sessions(self, silent_for: float = 0.0) -> tuple[SessionReport, ...]:
        """Return all sessions, or those that have been silent for some seconds, in the order of their opening."""

    @abstractmethod
    def owned_by(self, session: str) -> tuple[SessionAllocation, ...]:
        """Return the allocations of a session with their age, including pending ones, sorted by id.

        Raises:
            RequestError: the session does not exist.
        """

    @abstractmethod
    def report_standby(self, name: str, address: str, change: int, seconds: float) -> ServiceStatus:
        """Note the position of a process that stands by, and return the status of the service; for the standby itself.

        Args:
            name: the name of the process, for people.
            address: where clients reach it.
            change: the number of the last change that it has applied.
            seconds: the age of its state.
        """

    @abstractmethod
    def fence(self, session: str) -> None:
        """Forbid a session every further change. When the call returns, none of its changes is in progress.

        Raises:
            RequestError: the session does not exist.
        """

    @abstractmethod
    def take_over(self, session: str) -> tuple[str, ...]:
        """Fence a session, and move its allocations to the session of the caller.

        Returns:
            The ids of the allocations.

        Raises:
            RequestError: the session does not exist, or is that of the caller.
        """

    @abstractmethod
    def release_of(self, session: str) -> tuple[str, ...]:
        """Fence a session, and release its allocations.

        Returns:
            The ids of the allocations.

        Raises:
            RequestError: the session does not exist.
        """

    @abstractmethod
    def forget(self, session: str) -> bool:
        """Remove a session that is fenced and owns nothing, and return whether it existed.

        Raises:
            RequestError: the session is not fenced, or owns allocations.
        """

"""The feed of decayed usage: it turns the events of a partition into the usage of owners over time.

Events have no time, so the feed reads a clock when they arrive. A journal has the time of every change: see
`ugm.journal.load_usage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import time
from typing import Any, Final, Protocol, final

from ugm.errors import RequestError
from ugm.fairness import DecayedUsage
from ugm.identity import UserGroup
from ugm.partition.allocation import Allocation, AllocationState
from ugm.partition.events import Allocated, ApplicationEnded, ApplicationSubmitted, Event, Released, Resized
from ugm.partition.interface import AbstractPartition

__all__ = ["UsageFeed", "UsageOwner"]


class UsageOwner(Protocol):
    """A function that returns the owner of the usage of an application."""

    def __call__(self, user: UserGroup, queue_path: str, /) -> str:
        """Return the owner, for example a path of a share tree."""
        ...


def _user_name(user: UserGroup, queue_path: str, /) -> str:  # noqa: ARG001 - an owner may depend on it
    return user.name


def _seconds() -> int:
    return int(time())


@final
class UsageFeed:
    """A subscriber that measures decayed usage: of a partition, of a journaled one, or through a service.

    Pass it as a subscriber of a new partition. For a partition that has applications already, also call `begin`.

    Args:
        usage: counts what the owners use.
        owner: returns the owner of an application; the name of the user by default.
        clock: returns Unix seconds.

    >>> from ugm import Partition, Resource, parse_config
    >>> from ugm.fairness import ContinuousUsage
    >>> usage, now = ContinuousUsage(half_life=3600), iter([0, 0, 0, 3600])
    >>> config = parse_config("partitions: [{queues: [{name: prod}]}]").partition()
    >>> partition = Partition(config, subscribers=[UsageFeed(usage, clock=lambda: next(now))])
    >>> partition.submit("app", UserGroup("sue"), "root.prod").queue_path
    'root.prod'
    >>> partition.allocate("app-0", "app", Resource.parse(vcore="1")).allowed, partition.release("app-0")
    (True, True)
    >>> round(float(usage.average("sue", 3600)))
    0
    """

    __slots__ = ("_clock", "_number", "_owner", "_owners", "usage")

    def __init__(
        self, usage: DecayedUsage[Any], *, owner: UsageOwner = _user_name, clock: Callable[[], int] = _seconds
    ) -> None:
        if not isinstance(usage, DecayedUsage):
            raise RequestError("usage", usage, "expected a BinnedUsage or a ContinuousUsage")
        #: Counts what the owners use.
        self.usage: Final = usage
        self._owner: Final = owner
        self._clock: Final = clock
        #: The owner of each application.
        self._owners: Final[dict[str, str]] = {}
        #: The number of the last event.
        self._number = 0

    def __call__(self, first: int, events: tuple[Event, ...], /) -> None:
        """Count the events of one operation at the time of the clock; events that come again are ignored."""
        new = events[max(0, self._number - first + 1) :]
        self.apply(new, self._clock())
        self._number = max(self._number, first + len(events) - 1)

    def apply(self, events: Iterable[Event], at: int) -> None:
        """Count events that happened at a time, in Unix seconds.

        Raises:
            RequestError: an allocation belongs to an unknown application, because `begin` was not called.
        """
        for event in events:
            match event:
                case ApplicationSubmitted():
                    self.add_application(event.application_id, event.user, event.queue_path)
                case ApplicationEnded():
                    self._owners.pop(event.application_id, None)
                case Allocated(allocation):
                    self.start(allocation, at)
                case Resized(allocation):
                    self.usage.resize(allocation.allocation_id, allocation.usage, at)
                case Released(allocation):
                    self.usage.stop(allocation.allocation_id, at)

    def add_application(self, application_id: str, user: UserGroup, queue_path: str) -> None:
        """Remember the owner of an application."""
        self._owners[application_id] = self._owner(user, queue_path)

    def start(self, allocation: Allocation, at: int) -> None:
        """Count an allocation from a time on, unless it is pending.

        Raises:
            RequestError: its application is unknown.
        """
        owner = self._owners.get(allocation.application_id)
        if owner is None:
            raise RequestError(
                "application_id",
                allocation.application_id,
                "the feed does not know the application",
                "application-unknown",
            )
        if allocation.state is not AllocationState.PENDING:
            self.usage.start(allocation.allocation_id, owner, allocation.usage, at)

    def record(self, user: UserGroup, queue_path: str, usage: Mapping[str, int], begin: int, end: int) -> None:
        """Count a usage that has ended, in Unix seconds."""
        self.usage.record(self._owner(user, queue_path), usage, begin, end)

    def begin(self, partition: AbstractPartition) -> None:
        """Count the existing allocations of a partition from now on.

        Call it after the feed was subscribed, and before the partition changes again.
        """
        at = self._clock()
        for application in partition.applications():
            self.add_application(application.application_id, application.user, application.queue_path)
        for allocation in partition.allocations():
            self.start(allocation, at)

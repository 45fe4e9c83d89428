"""The copied usage of one user or group, with the limits that apply to it.

A snapshot has the usage of all users and groups as lines, one for each running application. The methods of
`CopiedUsage` select the limits of one of them, and sum up its lines in and below each limited queue. They run
without the lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ugm.decision import EffectiveLimit
from ugm.hierarchy import Limit
from ugm.identity import WILDCARD, TrackingType, ancestors
from ugm.partition.state import PartitionState
from ugm.partition.utilization import LimitUtilization, utilization_of
from ugm.resources import Resource, sum_of
from ugm.tracking import UserUsage
from ugm.tracking.limits import LimitTable
from ugm.tracking.snapshot import TrackerCopy, UsageLine

__all__ = ["CopiedUsage", "UserUsageCopy", "add_amounts", "copy_user_usage"]


class _Counted(NamedTuple):
    """The usage of a user or group in and below a queue, and its limit there."""

    queue_path: str
    limit: Limit
    usage: Mapping[str, int]
    running: int


class CopiedUsage(NamedTuple):
    """The copied usage of a user or group, which may be nothing."""

    kind: TrackingType
    name: str
    table: LimitTable
    lines: Sequence[UsageLine]
    #: The queues in which the user has pending allocations.
    waiting: Collection[str] = ()

    def copy(self) -> TrackerCopy:
        """Return the usage and the limits in each queue."""
        paths = self._queue_paths()
        return TrackerCopy(self.name, list(self.lines), _limits_in(self.table, self.name, paths), paths)

    def limits(self) -> tuple[EffectiveLimit, ...]:
        """Return the limits in all queues with allocations, sorted by queue."""
        return tuple(self._effective(one) for one in self._counted())

    def utilization(self) -> LimitUtilization:
        """Return the utilization of the most used limit."""
        return utilization_of(self.name, sum_of(line.used for line in self.lines), len(self.lines), self.limits())

    def rounded_share(self) -> float:
        """Return the rounded share of the most used limit."""
        return max((_ratio(used, maximum) for one in self._counted() for used, maximum in _measured(one)), default=0.0)

    def amount(self, resource: str | None) -> int:
        """Return the usage of one resource; for None the number of running applications."""
        return len(self.lines) if resource is None else sum(line.used.get(resource, 0) for line in self.lines)

    def _queue_paths(self) -> frozenset[str]:
        return frozenset((*self.waiting, *(line.queue_path for line in self.lines)))

    def _counted(self) -> list[_Counted]:
        """Return the limits, each with its usage, sorted by queue."""
        limits = _limits_in(self.table, self.name, self._queue_paths())
        used: dict[str, dict[str, int]] = {path: {} for path in limits}
        running = dict.fromkeys(limits, 0)
        for line in self.lines:
            for path in ancestors(line.queue_path):
                if path in limits:
                    add_amounts(used[path], line.used)
                    running[path] += 1
        return [_Counted(path, limits[path], used[path], running[path]) for path in sorted(limits)]

    def _effective(self, counted: _Counted) -> EffectiveLimit:
        limit = counted.limit
        return EffectiveLimit(
            kind=self.kind,
            name=self.name,
            queue_path=counted.queue_path,
            limit_name=WILDCARD if limit.wildcard else self.name,
            place=limit.place,
            max_resources=limit.resources or None,
            max_applications=limit.applications,
            usage=Resource({resource: counted.usage.get(resource, 0) for resource in limit.resources}),
            running_applications=counted.running,
        )


class UserUsageCopy(NamedTuple):
    """The usage of a user and the queues with pending allocations, copied at one moment."""

    copy: TrackerCopy
    limits: LimitTable

    def usage(self) -> UserUsage:
        """Return the usage like `PartitionSnapshot.user`; without the lock."""
        limits = _limits_in(self.limits, self.copy.name, self.copy.queue_paths)
        return self.copy._replace(limits={**limits, **self.copy.limits}).user_usage()


def copy_user_usage(state: PartitionState, name: str) -> UserUsageCopy | None:
    """Copy the usage of a user and the queues with pending allocations; the caller holds the lock.

    The time depends on the number of all applications, and is very short for each without pending allocations.
    """
    tracker = state.holding_index.users.get(name)
    waiting = frozenset(
        one.queue.queue_path for one in state.applications.values() if one.pending and one.submission.user.name == name
    )
    if tracker is None and not waiting:
        return None
    copy = TrackerCopy(name, [], {}) if tracker is None else TrackerCopy.of(tracker)
    return UserUsageCopy(copy._replace(queue_paths=waiting), state.active_limits.limits.users)


def _limits_in(table: LimitTable, name: str, queue_paths: Iterable[str]) -> dict[str, Limit]:
    """Return the limits of a user or group in and above some queues, by queue."""
    levels = (level for queue_path in queue_paths for level in table.levels_from(queue_path))
    limits = ((level.queue_path, level.limit_for(name)) for level in levels)
    return {path: limit for path, limit in limits if limit is not None}


def _measured(counted: _Counted) -> Iterator[tuple[int, int]]:
    """Yield the usage and the maximum of every limited resource, and of the number of applications."""
    for name, maximum in counted.limit.resources.items():
        yield counted.usage.get(name, 0), maximum
    if counted.limit.applications:
        yield counted.running, counted.limit.applications


def _ratio(used: int, maximum: int) -> float:
    # A limit of 0 counts as fully used.
    try:
        return used / maximum if maximum else 1.0 + used
    except OverflowError:
        return float("inf")


def add_amounts(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    """Add amounts to a sum, in place."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount

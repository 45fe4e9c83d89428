"""The limits of one user or group in a snapshot, with the usage under each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple, final

from ugm.counters import Limit
from ugm.decision import EffectiveLimit
from ugm.identity import WILDCARD, TrackingType, ancestors
from ugm.partition.line_index import Line
from ugm.partition.state import PartitionState
from ugm.resources import Resource
from ugm.tracking import UserUsage
from ugm.tracking.limits import LimitTable
from ugm.tracking.snapshot import TrackerCopy, UsageLine

__all__ = ["OwnerLimits", "UserUsageCopy", "copy_user_usage"]


class _Counted(NamedTuple):
    """The usage of a user or group in and below a queue, and its limit there."""

    queue_path: str
    limit: Limit
    usage: Mapping[str, int]
    running: int


@final
class OwnerLimits:
    """The limits of a user or group, computed when they are first used.

    Args:
        kind: which of the two.
        name: the user or group.
        table: the limits of all users, or of all groups.
        lines: its running applications.
        waiting: its applications with pending allocations.
    """

    def __init__(
        self,
        kind: TrackingType,
        name: str,
        table: LimitTable,
        lines: tuple[UsageLine, ...],
        waiting: tuple[Line, ...],
    ) -> None:
        self._kind: Final = kind
        self._name: Final = name
        self._table: Final = table
        self.lines: Final = lines
        self.waiting: Final = waiting

    @property
    def queue_paths(self) -> frozenset[str]:
        """The queues of all its applications."""
        return frozenset(line.queue_path for lines in (self.lines, self.waiting) for line in lines)

    @cached_property
    def effective(self) -> tuple[EffectiveLimit, ...]:
        """The limits, sorted by queue."""
        return tuple(_effective(self._kind, self._name, one) for one in self._counted)

    @cached_property
    def share(self) -> float:
        """The largest used part of a limit; 0 without limits."""
        return max((_ratio(used, maximum) for one in self._counted for used, maximum in _measured(one)), default=0.0)

    def usage(self) -> TrackerCopy:
        """Return the usage in each queue. A queue with only pending allocations has an empty usage."""
        paths = self.queue_paths
        return TrackerCopy(self._name, list(self.lines), self._limits(paths), paths)

    @cached_property
    def _counted(self) -> list[_Counted]:
        limits = self._limits(self.queue_paths)
        used: dict[str, dict[str, int]] = {path: {} for path in limits}
        running = dict.fromkeys(limits, 0)
        for line in self.lines:
            for path in ancestors(line.queue_path):
                if path in limits:
                    _add(used[path], line.used)
                    running[path] += 1
        return [_Counted(path, limits[path], used[path], running[path]) for path in sorted(limits)]

    def _limits(self, paths: Iterable[str]) -> dict[str, Limit]:
        return {path: limit for queue in paths for path, limit in _limits_on(self._table, self._name, queue)}


def _limits_on(table: LimitTable, name: str, queue_path: str) -> Iterator[tuple[str, Limit]]:
    """Yield the limits of a user or group from a queue to the root."""
    for level in table.levels_from(queue_path):
        limit = level.limit_for(name)
        if limit is not None:
            yield level.queue_path, limit


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


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


def _effective(kind: TrackingType, name: str, counted: _Counted) -> EffectiveLimit:
    limit = counted.limit
    return EffectiveLimit(
        kind=kind,
        name=name,
        queue_path=counted.queue_path,
        limit_name=WILDCARD if limit.wildcard else name,
        place=limit.place,
        max_resources=limit.resources or None,
        max_applications=limit.applications,
        usage=Resource({resource: counted.usage.get(resource, 0) for resource in limit.resources}),
        running_applications=counted.running,
    )


# The usage of one user without a snapshot


class UserUsageCopy(NamedTuple):
    """The usage of a user and the queues with pending allocations, copied at one moment."""

    copy: TrackerCopy
    limits: LimitTable

    def usage(self) -> UserUsage:
        """Return the usage like `PartitionSnapshot.user`; without the lock."""
        copy, table = self.copy, self.limits
        limits = {path: limit for queue in copy.queue_paths for path, limit in _limits_on(table, copy.name, queue)}
        return copy._replace(limits={**limits, **copy.limits}).user_usage()


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

"""The usage of users, groups and queues at one moment, and the limits of one user or group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple, final

from ugm.counters import Limit
from ugm.decision import EffectiveLimit
from ugm.identity import WILDCARD, TrackingType, ancestors, is_below
from ugm.partition.answers.reports import LimitUtilization, shares_of
from ugm.partition.engine.application import Application
from ugm.partition.engine.state import PartitionState
from ugm.resources import Resource, sum_of
from ugm.tracking.holding import all_holdings
from ugm.tracking.limits import LimitTable
from ugm.tracking.snapshot import TrackerCopy, UsageLine, usage_line

__all__ = ["NOTHING", "LineIndex", "OwnerLimits", "UsageSum", "copy_owner", "pending_line", "usage_line"]


class UsageSum(NamedTuple):
    """The number and the sum of running applications, or of pending allocations."""

    item_count: int
    #: Without zeros.
    amounts: Resource


NOTHING: Final = UsageSum(0, Resource())


def pending_line(one: Application) -> UsageLine:
    """Return the pending allocations of an application; the caller holds the lock."""
    usages = [entry.usage for entry in one.pending.values()]
    used = dict(usages[0] if len(usages) == 1 else sum_of(usages))
    owner = one.submission.user.name
    return UsageLine(one.application_id, one.queue.queue_path, owner, one.row.group or None, used, len(usages))


@final
class LineIndex:
    """Lines with their sums, which are computed when they are first used.

    A line is the usage of a running application, or the sum of its pending allocations.
    """

    def __init__(self, lines: Iterable[UsageLine]) -> None:
        self.lines: Final = tuple(lines)

    @cached_property
    def by_user(self) -> Mapping[str, list[UsageLine]]:
        """The lines of each user."""
        return _grouped((line.user_name, line) for line in self.lines)

    @cached_property
    def by_group(self) -> Mapping[str, list[UsageLine]]:
        """The lines that are charged to each group."""
        return _grouped((line.group_name, line) for line in self.lines if line.group_name is not None)

    @cached_property
    def users(self) -> Mapping[str, UsageSum]:
        """The sum of each user."""
        return {name: _sum(lines) for name, lines in self.by_user.items()}

    @cached_property
    def groups(self) -> Mapping[str, UsageSum]:
        """The sum of each group."""
        return {name: _sum(lines) for name, lines in self.by_group.items()}

    @cached_property
    def queues(self) -> Mapping[str, UsageSum]:
        """The sums in and below every queue that has lines."""
        own = {path: _sum(lines) for path, lines in _grouped((one.queue_path, one) for one in self.lines).items()}
        below: dict[str, list[UsageSum]] = {}
        for path, each in own.items():
            for above in ancestors(path):
                below.setdefault(above, []).append(each)
        return {
            path: UsageSum(sum(one[0] for one in sums), sum_of(one[1] for one in sums)) for path, sums in below.items()
        }

    @property
    def total(self) -> UsageSum:
        """The sum of all lines."""
        return _sum(self.lines)

    def below(self, queue_path: str) -> LineIndex:
        """Return the index of only the lines in and below a queue."""
        return LineIndex(line for line in self.lines if is_below(line.queue_path, queue_path))


def _grouped(items: Iterable[tuple[str, UsageLine]]) -> dict[str, list[UsageLine]]:
    found: dict[str, list[UsageLine]] = {}
    for name, line in items:
        found.setdefault(name, []).append(line)
    return found


def _sum(lines: Iterable[UsageLine]) -> UsageSum:
    lines = tuple(lines)
    return UsageSum(sum(line.item_count for line in lines), sum_of(line.used for line in lines))


@final
class OwnerLimits:
    """The usage and the limits of a user or group, computed when they are first used.

    Args:
        kind: which of the two.
        name: the user or group.
        table: the limits of all users, or of all groups.
        lines: its running applications.
        waiting: its applications with pending allocations.
    """

    def __init__(
        self, kind: TrackingType, name: str, table: LimitTable, lines: Iterable[UsageLine], waiting: Iterable[UsageLine]
    ) -> None:
        self._kind: Final = kind
        self._name: Final = name
        self._table: Final = table
        self._usage: Final = LineIndex(lines)
        #: The queues of all its applications.
        self.queue_paths: Final = frozenset(line.queue_path for line in (*self._usage.lines, *waiting))

    @cached_property
    def effective(self) -> tuple[EffectiveLimit, ...]:
        """The limits, sorted by queue."""
        return tuple(self._effective(*item) for item in sorted(self._limits.items()))

    @cached_property
    def share(self) -> float:
        """The largest used part of a limit, rounded; 0 without limits."""
        return max((_ratio(used, most) for _, _, used, most in shares_of(self.effective)), default=0.0)

    @cached_property
    def utilization(self) -> LimitUtilization:
        """The utilization of the most used limit."""
        running, usage = self._usage.total
        return LimitUtilization.of(self._name, usage, running, self.effective)

    def usage(self) -> TrackerCopy:
        """Return the usage in each queue. A queue with only pending allocations has an empty usage."""
        return TrackerCopy(self._name, list(self._usage.lines), self._limits, self.queue_paths)

    @cached_property
    def _limits(self) -> dict[str, Limit]:
        return dict(item for path in self.queue_paths for item in self._limits_on(path))

    def _limits_on(self, queue_path: str) -> Iterator[tuple[str, Limit]]:
        """Yield the limits from a queue to the root."""
        for level in self._table.levels_from(queue_path):
            limit = level.limit_for(self._name)
            if limit is not None:
                yield level.queue_path, limit

    def _effective(self, queue_path: str, limit: Limit) -> EffectiveLimit:
        running, usage = self._usage.queues.get(queue_path, NOTHING)
        return EffectiveLimit(
            kind=self._kind,
            name=self._name,
            queue_path=queue_path,
            limit_name=WILDCARD if limit.wildcard else self._name,
            place=limit.place,
            max_resources=limit.resources or None,
            max_applications=limit.applications,
            usage=Resource({resource: usage.get(resource, 0) for resource in limit.resources}),
            running_applications=running,
        )


def _ratio(used: int, most: int) -> float:
    # A limit of 0 counts as fully used.
    try:
        return used / most if most else 1.0 + used
    except OverflowError:
        return float("inf")


def copy_owner(state: PartitionState, kind: TrackingType, name: str, *, pending: bool = False) -> OwnerLimits | None:
    """Copy the usage of a user or group, also of its *pending* allocations; None if there is none.

    The caller holds the lock.
    """
    index, limits = state.holding_index, state.active_limits.limits
    trees, table = (index.users, limits.users) if kind is TrackingType.USER else (index.groups, limits.groups)
    held = all_holdings(trees[name].holdings) if name in trees else ()
    lines = [usage_line(holding, holding.amounts) for holding in held]
    applications = state.applications.values() if pending else ()
    waiting = [pending_line(one) for one in applications if one.pending and one.submission.user.name == name]
    return OwnerLimits(kind, name, table, lines, waiting) if lines or waiting else None

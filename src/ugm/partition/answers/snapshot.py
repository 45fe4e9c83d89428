"""Snapshots: a partition at one moment, copied as plain data.

The problem: an answer with several values, such as a tree of queues, must show them at one moment. But formatting a
large partition under its lock would stop the scheduler during that time.

The idea: under the lock, only plain data is copied: the queues, the usage of each application, and the pending
allocations. All sums, shares and limits are computed from the copy, without the lock, when they are first used.

The cost: under the lock, the copy takes about half a microsecond for each queue and application. The sums take about
ten microseconds for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple, final

from ugm.configuration import PartitionConfig
from ugm.counters import Limit
from ugm.decision import EffectiveLimit
from ugm.engine_lock import ReadLocked
from ugm.identity import ROOT, WILDCARD, TrackingType, ancestors, is_below
from ugm.partition.answers.reports import LimitUtilization, shares_of
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import Application
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import QueueRow
from ugm.queues import QueueState
from ugm.resources import Resource, as_float, smallest_amounts, sum_of
from ugm.tracking import GroupUsage, UserUsage
from ugm.tracking.holding import Amounts, Holding, all_holdings
from ugm.tracking.limits import LimitTable
from ugm.tracking.trackers import TrackerCopy, UsageLine, usage_line


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
    row = one.row
    return UsageLine(row.application_id, row.queue_path, row.user.name, row.group or None, used, len(usages))


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
    def utilization(self) -> LimitUtilization:
        """The utilization of the most used limit."""
        running, usage = self._usage.total
        return LimitUtilization.of(self._name, usage, running, self.effective)

    @property
    def share(self) -> float:
        """The largest used part of a limit, rounded; 0 without limits."""
        return as_float(self.utilization.share)

    def usage(self) -> TrackerCopy:
        """Return the usage in each queue. A queue with only pending allocations has an empty usage."""
        return TrackerCopy(self._name, list(self._usage.lines), self._limits, self.queue_paths)

    @cached_property
    def _limits(self) -> dict[str, Limit]:
        levels = {level.queue_path: level for path in self.queue_paths for level in self._table.levels_from(path)}
        found = ((path, level.limit_for(self._name)) for path, level in levels.items())
        return {path: limit for path, limit in found if limit is not None}

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


def copy_owner(state: PartitionState, kind: TrackingType, name: str) -> OwnerLimits | None:
    """Copy the usage of a user or group; None if there is none. The caller holds the lock."""
    index, limits = state.holding_index, state.active_limits.limits
    trees, table = (index.users, limits.users) if kind is TrackingType.USER else (index.groups, limits.groups)
    held = all_holdings(trees[name].holdings) if name in trees else ()
    lines = [usage_line(holding, holding.amounts) for holding in held]
    return OwnerLimits(kind, name, table, lines, ()) if lines else None


class SnapshotParts(NamedTuple):
    """The values of a snapshot except its configuration, as another process needs them."""

    #: The sum of all nodes; None until a first node is registered.
    cluster: Resource | None
    nodes: dict[str, Resource]
    allocation_count: int
    #: The queues that the configuration does not name, by path.
    queues: dict[str, QueueRow]
    #: The queue of each application.
    applications: dict[str, str]
    #: The usage of every running application.
    running: list[UsageLine]
    #: The pending allocations of every application that has some.
    pending: list[UsageLine]


@final
class PartitionSnapshot:
    """A partition at one moment; `ugm.partition.AbstractPartition.snapshot` returns it.

    Args:
        compiled: the configuration in force, compiled.
        parts: everything else.

    Attributes:
        compiled: the configuration in force, compiled.
        parts: everything else.
        config: the configuration in force.
        cluster: the sum of all nodes; None until a first node is registered.
        nodes: the resources of every node, by name.
        application_count: the number of applications.
        allocation_count: the number of allocations, including pending ones.
        running: the running applications, with the sums of users, groups and queues.
        pending: the pending allocations, with their sums.
        queue_paths: all queues, sorted by path.
    """

    def __init__(self, compiled: CompiledConfig, parts: SnapshotParts) -> None:
        self.compiled: Final = compiled
        self.parts: Final = parts
        self.config: Final[PartitionConfig | None] = compiled.config
        self.cluster: Final = parts.cluster
        self.nodes: Final = parts.nodes
        self.application_count: Final = len(parts.applications)
        self.allocation_count: Final = parts.allocation_count
        self.running: Final = LineIndex(parts.running)
        self.pending: Final = LineIndex(parts.pending)
        #: Configured queues have no rows.
        self._queues: Final = {path: QueueRow(spec) for path, spec in compiled.specs.by_path.items()} | parts.queues
        self.queue_paths: Final = tuple(sorted(self._queues))
        #: The limits of users and groups that have been used so far.
        self._owners: dict[tuple[TrackingType, str], OwnerLimits] = {}

    # Queues

    def usage(self) -> Resource:
        """Return the usage of the whole partition, without zeros."""
        return self.running.queues.get(ROOT, NOTHING).amounts

    def queue(self, queue_path: str = ROOT) -> QueueState | None:
        """Return a queue with all queues below it; None if there is no such queue.

        Args:
            queue_path: its canonical path.
        """
        return self._states.get(queue_path)

    @cached_property
    def _states(self) -> dict[str, QueueState]:
        found: dict[str, QueueState] = {}
        children: dict[str, list[QueueState]] = {}
        applications: dict[str, list[str]] = {}
        for name, path in sorted(self.parts.applications.items()):
            applications.setdefault(path, []).append(name)
        # The path of a parent is a prefix of those of its children, so they come first in this order.
        for path in reversed(self.queue_paths):
            below = tuple(reversed(children.get(path, ())))
            found[path] = state = self._state(path, tuple(applications.get(path, ())), below)
            children.setdefault(path.rpartition(".")[0], []).append(state)
        return found

    def _state(self, path: str, applications: tuple[str, ...], children: tuple[QueueState, ...]) -> QueueState:
        row, (running, used) = self._queues[path], self.running.queues.get(path, NOTHING)
        spec, quota = row.spec, row.spec.quota
        own = quota.max_resources if row.quota is None else row.quota
        return QueueState(
            queue_path=path,
            is_leaf=not spec.is_parent,
            is_managed=path not in self.parts.queues,
            is_draining=self._is_draining(path),
            max_resources=self.cluster if path == ROOT else own,
            max_applications=quota.max_applications,
            guaranteed=quota.guaranteed,
            usage=used,
            running_applications=running,
            applications=applications,
            children=children,
        )

    def _is_draining(self, path: str) -> bool:
        row, above = self.parts.queues.get(path), path.rpartition(".")[0]
        if row is None:
            return False
        return row.was_configured or self._is_draining(above) or not self._queues[above].spec.is_parent

    def queue_headroom(self, queue_path: str) -> Resource | None:
        """Return the result of `AbstractPartition.queue_headroom` at that moment, for a queue that exists."""
        uses = shares_of(map(self._states.__getitem__, ancestors(queue_path)))
        return smallest_amounts((name, most - used) for _, name, used, most in uses if name is not None)

    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return the result of `AbstractPartition.queue_maximum` at that moment, for a queue that exists."""
        uses = shares_of(map(self._states.__getitem__, ancestors(queue_path)))
        return smallest_amounts((name, most) for _, name, _, most in uses if name is not None)

    # Users and groups

    @cached_property
    def user_names(self) -> tuple[str, ...]:
        """The names of all users with allocations, including pending ones, sorted."""
        return tuple(sorted(self.running.users.keys() | self.pending.users.keys()))

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The names of all groups with charged applications, sorted."""
        return tuple(sorted(self.running.groups))

    def user(self, name: str) -> UserUsage | None:
        """Return the usage of a user in each queue; None if the user has no allocations, including pending ones.

        A queue in which the user has only pending allocations is shown with an empty usage.
        """
        is_known = name in self.running.users or name in self.pending.users
        return self.limits_of_user(name).usage().user_usage() if is_known else None

    def group(self, name: str) -> GroupUsage | None:
        """Return the usage of a group in each queue; None if nothing is charged to it."""
        return self.limits_of_group(name).usage().group_usage() if name in self.running.groups else None

    def limits_of_user(self, name: str) -> OwnerLimits:
        """Return the limits of a user in all queues with allocations of the user, including pending ones."""
        lines, waiting = (index.by_user.get(name, ()) for index in (self.running, self.pending))
        return self._owner(TrackingType.USER, name, lines, waiting)

    def limits_of_group(self, name: str) -> OwnerLimits:
        """Return the limits of a group, like `limits_of_user`; pending allocations do not count."""
        return self._owner(TrackingType.GROUP, name, self.running.by_group.get(name, ()), ())

    def _owner(
        self, kind: TrackingType, name: str, lines: Iterable[UsageLine], waiting: Iterable[UsageLine]
    ) -> OwnerLimits:
        known = self._owners.get((kind, name))
        if known is None:
            table = self.compiled.limits.users if kind is TrackingType.USER else self.compiled.limits.groups
            known = self._owners[kind, name] = OwnerLimits(kind, name, table, lines, waiting)
        return known


def copy_snapshot(state: PartitionState, read: ReadLocked) -> PartitionSnapshot:
    """Return a snapshot of a state.

    Args:
        state: the state.
        read: runs a function under the lock of the state. Most of the work follows without it.
    """

    def copy() -> tuple[CompiledConfig, SnapshotParts, list[tuple[Holding, Amounts]]]:
        tables, holdings = state.tables, state.holding_index.holdings.values()
        parts = SnapshotParts(
            state.tree.cluster,
            dict(state.cluster.nodes),
            len(tables.allocations),
            dict(tables.queues),
            {name: row.queue_path for name, row in tables.applications.items()},
            [],
            [pending_line(one) for one in state.applications.values() if one.pending],
        )
        return state.compiled, parts, [(one, one.amounts) for one in holdings]

    compiled, parts, holdings = read(copy)
    return PartitionSnapshot(compiled, parts._replace(running=[usage_line(*one) for one in holdings]))

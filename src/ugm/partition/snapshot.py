"""Snapshots: a partition at one moment, copied as plain data.

The problem: an answer with several values, such as a tree of queues, must show them at one moment. But formatting a
large partition under its lock would stop the scheduler during that time.

The idea: under the lock, only the changing data is copied: the holdings, the pending allocations and the queues. All
sums, shares and limits are computed from the copy, without the lock, when they are first used. A snapshot that follows
an earlier one takes over what has not changed since.

The cost: under the lock, the copy takes about half a microsecond for each queue and application. Without an earlier
snapshot, the sums take about ten microseconds for each; with one, about one microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple, Self, final

from ugm.configuration import PartitionConfig
from ugm.decision import EffectiveLimit
from ugm.identity import ROOT, TrackingType, ancestors
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.line_index import (
    CooperativeIteration,
    LineIndex,
    UsageSum,
    changed_keys,
    lines_below,
    uninterrupted,
    with_changes,
)
from ugm.partition.owner_limits import OwnerLimits
from ugm.partition.snapshot_parts import (
    CopiedQueue,
    PendingLine,
    Row,
    SnapshotParts,
    copied_queue,
    pending_line,
    usage_line,
)
from ugm.partition.state import PartitionState
from ugm.partition.utilization import LimitUtilization, utilization_of
from ugm.queues import QueueState
from ugm.resources import Resource, smallest_amounts
from ugm.tracking import GroupUsage, UserUsage
from ugm.tracking.snapshot import UsageLine

__all__ = ["PartitionSnapshot"]

#: The attributes of queues and holdings that are copied, each as one list. So nothing is computed under the lock, and
#: no objects are created that could start the garbage collector.
_QUEUE: Final = [attrgetter(name) for name in ("queue_path", "spec", "managed", "was_configured", "quota_override")]
_HOLDING: Final = [attrgetter(name) for name in ("application_id", "queue_path", "owner", "group", "amounts")]

#: A snapshot takes over the computed limits of users and groups unless there are more of them than this number for each
#: application: those of owners that are gone are then dropped.
_MOST_OWNERS: Final = 4
_NO_SUM: Final = UsageSum(0, Resource())


class _Derived(NamedTuple):
    """The values that a later snapshot takes over; see the attributes of `PartitionSnapshot`."""

    compiled: CompiledConfig | None
    cluster: Resource | None
    queue_rows: Mapping[str, Row]
    usage_rows: Mapping[str, Row]
    pending_rows: Mapping[str, Row]
    queues: Mapping[str, CopiedQueue]
    usage: LineIndex[UsageLine]
    pending: LineIndex[PendingLine]
    children: Mapping[str, list[str]]
    states: Mapping[str, QueueState]
    owners: Mapping[tuple[TrackingType, str], OwnerLimits]


_NOTHING: Final = _Derived(None, None, {}, {}, {}, {}, LineIndex(), LineIndex(), {}, {}, {})


@final
class PartitionSnapshot:
    """A partition at one moment; `ugm.partition.AbstractPartition.snapshot` returns it.

    Attributes:
        compiled: the configuration in force, compiled.
        config: the configuration in force.
        cluster: the sum of all nodes; None until a first node is registered.
        nodes: the resources of every node, by name.
        application_count: the number of applications.
        allocation_count: the number of allocations, including pending ones.
    """

    #: The values of the earlier snapshot, while they are taken over.
    _known: _Derived

    def __init__(self, state: PartitionState, iterate: CooperativeIteration | None = None) -> None:
        """Copy the changing data; the caller holds the lock."""
        self._iterate: Final = iterate or uninterrupted
        self._known = _NOTHING
        self.compiled: Final = state.compiled
        self.config: Final[PartitionConfig | None] = state.compiled.config
        self.cluster: Final = state.tree.cluster
        self.nodes: Final = dict(state.cluster.nodes)
        self.application_count: Final = len(state.applications)
        self.allocation_count: Final = len(state.ledger.owners)
        self._raw_queues: Final = [list(map(get, state.tree.queues.values())) for get in _QUEUE]
        self._raw_members: Final = [tuple(queue.applications) for queue in state.tree.queues.values()]
        # An application of a partition is in one queue, so it has one holding.
        self._raw_holdings: Final = [list(map(get, state.holding_index.holdings.values())) for get in _HOLDING]
        self._raw_pending: Final = {
            name: (one.submission.user.name, one.group or None, one.queue.queue_path, tuple(one.pending.values()))
            for name, one in state.applications.items()
            if one.pending
        }
        #: The limits of users and groups that have been used so far.
        self._owners: dict[tuple[TrackingType, str], OwnerLimits] = {}

    # All other methods run without the lock.

    @classmethod
    def of(cls, compiled: CompiledConfig, parts: SnapshotParts, iterate: CooperativeIteration | None = None) -> Self:
        """Return the snapshot with these `parts`, copied under a configuration."""
        snapshot = cls.__new__(cls)
        queues, lines, pending = parts[-3:]
        vars(snapshot).update(
            parts._asdict(),
            compiled=compiled,
            config=compiled.config,
            _iterate=iterate or uninterrupted,
            _known=_NOTHING,
            _owners={},
            _queue_rows=queues,
            _usage_rows={line.application_id: line for line in lines},
            _pending_rows={str(number): line for number, line in enumerate(pending)},
        )
        return snapshot

    def parts(self) -> SnapshotParts:
        """Return the values of the snapshot except its configuration."""
        counts = self.application_count, self.allocation_count
        lines, pending = list(self._usage_lines[0].values()), list(self._pending_lines[0].values())
        return SnapshotParts(self.cluster, self.nodes, *counts, dict(self._queues), lines, pending)

    def following(self, previous: PartitionSnapshot | None) -> Self:
        """Take over what has not changed since an earlier snapshot of the same partition, and return this snapshot."""
        # The first snapshot is perhaps used for a single value, so it is not completed for the second one.
        if previous is not None and "_usage" in vars(previous):
            known = self._known = previous._derived()  # noqa: SLF001 - of the same class
            if self.compiled is known.compiled and len(known.owners) < _MOST_OWNERS * (len(known.usage.lines) + 1):
                self._owners = dict(known.owners)
            _ = self._usage, self._pending, self._states
            self._known = _NOTHING
        return self

    def _derived(self) -> _Derived:
        return _Derived(
            self.compiled,
            self.cluster,
            self._queue_rows,
            self._usage_rows,
            self._pending_rows,
            self._queues,
            self._usage,
            self._pending,
            self._children,
            self._states,
            self._owners,
        )

    # The copied data

    @cached_property
    def _queue_rows(self) -> Mapping[str, Row]:
        paths, *facts = self._raw_queues
        return dict(zip(paths, zip(*facts, self._raw_members, strict=True), strict=True))

    @cached_property
    def _usage_rows(self) -> Mapping[str, Row]:
        names, *facts = self._raw_holdings
        return dict(zip(names, zip(*facts, strict=True), strict=True))

    @cached_property
    def _pending_rows(self) -> Mapping[str, Row]:
        return self._raw_pending

    @cached_property
    def _queues(self) -> Mapping[str, CopiedQueue]:
        """The queues, sorted by path."""
        known = self._known
        found, _ = with_changes(self._queue_rows, known.queue_rows, known.queues, copied_queue, self._iterate)
        return found if found.keys() == known.queues.keys() else dict(sorted(found.items()))

    @cached_property
    def _usage_lines(self) -> tuple[Mapping[str, UsageLine], set[str]]:
        """The usage of all applications, and the applications whose usage has changed."""
        rows, known = self._known.usage_rows, self._known.usage.lines
        return with_changes(self._usage_rows, rows, known, usage_line, self._iterate)

    @cached_property
    def _pending_lines(self) -> tuple[Mapping[str, PendingLine], set[str]]:
        rows, known = self._known.pending_rows, self._known.pending.lines
        return with_changes(self._pending_rows, rows, known, pending_line, self._iterate)

    @cached_property
    def _usage(self) -> LineIndex[UsageLine]:
        return self._known.usage.with_lines(*self._usage_lines, self._iterate)

    @cached_property
    def _pending(self) -> LineIndex[PendingLine]:
        return self._known.pending.with_lines(*self._pending_lines, self._iterate)

    def usage(self) -> Resource:
        """Return the usage of the whole partition, without zeros."""
        return self._sum_in(ROOT).amounts

    def _sum_in(self, queue_path: str) -> UsageSum:
        return self._usage.queues.get(queue_path, _NO_SUM)

    # Queues

    @property
    def queue_paths(self) -> tuple[str, ...]:
        """All queues, sorted by path."""
        return tuple(self._queues)

    @cached_property
    def _children(self) -> Mapping[str, list[str]]:
        if self._queues.keys() == self._known.queues.keys():
            return self._known.children
        found: dict[str, list[str]] = {path: [] for path in self._queues}
        for path in self._queues:
            if path != ROOT:
                found[path.rpartition(".")[0]].append(path)
        return found

    @property
    def pending_in_queues(self) -> Mapping[str, UsageSum]:
        """The pending allocations in and below every queue that has some."""
        return self._pending.queues

    def queue(self, queue_path: str = ROOT) -> QueueState | None:
        """Return a queue with all queues below it; None if there is no such queue.

        Queues that have not changed since an earlier snapshot are the same objects as there.

        Args:
            queue_path: its canonical path.
        """
        return self._states.get(queue_path)

    @cached_property
    def _states(self) -> dict[str, QueueState]:
        found, changed = dict[str, QueueState](), set(self._queues)
        if self._has_queues_of(self._known):
            found, changed = dict(self._known.states), self._changed_queues(self._known)
        # The path of a parent is a prefix of those of its children, so they come first in this order.
        for path in self._iterate(sorted(changed, reverse=True)):
            found[path] = self._state(path, tuple(map(found.__getitem__, self._children[path])))
        return found

    def _has_queues_of(self, known: _Derived) -> bool:
        """Return whether the same queues existed, with the same settings apart from quotas set at run time."""
        if self._queues.keys() != known.queues.keys():
            return False
        changed = changed_keys(known.queues, self._queues)
        return all(self._queues[path][:3] == known.queues[path][:3] for path in changed)

    def _changed_queues(self, known: _Derived) -> set[str]:
        """Return the queues that have changed, with all queues above them."""
        changed = changed_keys(known.queues, self._queues) | changed_keys(known.usage.queues, self._usage.queues)
        if self.cluster != known.cluster:
            changed.add(ROOT)
        return {above for path in changed & self._queues.keys() for above in ancestors(path)}

    def _state(self, path: str, children: tuple[QueueState, ...]) -> QueueState:
        copied = self._queues[path]
        quota, (running, used) = copied.quota, self._sum_in(path)
        return QueueState(
            queue_path=path,
            is_leaf=not copied.spec.is_parent,
            is_managed=copied.is_managed,
            is_draining=self._is_draining(path),
            max_resources=self._maximum(path),
            max_applications=quota.max_applications,
            guaranteed=quota.guaranteed,
            usage=used,
            running_applications=running,
            applications=tuple(sorted(copied.applications)),
            children=children,
        )

    def _is_draining(self, path: str) -> bool:
        copied, above = self._queues[path], path.rpartition(".")[0]
        if copied.is_managed or not above:
            return False
        return copied.was_configured or self._is_draining(above) or not self._queues[above].spec.is_parent

    def _maximum(self, path: str) -> Resource | None:
        return self.cluster if path == ROOT else self._queues[path].quota.max_resources

    def queue_headroom(self, queue_path: str) -> Resource | None:
        """Return the result of `AbstractPartition.queue_headroom` at that moment, for a queue that exists."""
        return smallest_amounts(
            (name, maximum - self._sum_in(path).amounts.get(name, 0))
            for path in ancestors(queue_path)
            for name, maximum in (self._maximum(path) or {}).items()
        )

    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return the result of `AbstractPartition.queue_maximum` at that moment, for a queue that exists."""
        return smallest_amounts(item for path in ancestors(queue_path) for item in (self._maximum(path) or {}).items())

    # Users and groups

    @cached_property
    def user_names(self) -> tuple[str, ...]:
        """The names of all users with allocations, including pending ones, sorted."""
        return tuple(sorted(self._usage.users.keys() | self._pending.users.keys()))

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The names of all groups with charged applications, sorted."""
        return tuple(sorted(self._usage.groups))

    @property
    def usage_of_users(self) -> Mapping[str, UsageSum]:
        """The number of running applications and the usage of every user that has some.

        Users whose applications have not changed since an earlier snapshot have the same objects as there.
        """
        return self._usage.users

    @property
    def usage_of_groups(self) -> Mapping[str, UsageSum]:
        """The number of running applications and the usage of every group, like `usage_of_users`."""
        return self._usage.groups

    @property
    def pending_of_users(self) -> Mapping[str, UsageSum]:
        """The pending allocations of every user that has some."""
        return self._pending.users

    @property
    def pending_of_groups(self) -> Mapping[str, UsageSum]:
        """The pending allocations of every group, of the applications that are charged to it."""
        return self._pending.groups

    def sums_below(self, queue_path: str) -> tuple[LineIndex[UsageLine], LineIndex[PendingLine]]:
        """Return the usage and the pending allocations of users and groups in and below a queue only."""
        if queue_path == ROOT:
            return self._usage, self._pending
        iterate = self._iterate
        return lines_below(self._usage, queue_path, iterate), lines_below(self._pending, queue_path, iterate)

    def user(self, name: str) -> UserUsage | None:
        """Return the usage of a user in each queue; None if the user has no allocations, including pending ones.

        A queue in which the user has only pending allocations is shown with an empty usage.
        """
        is_known = name in self._usage.users or name in self._pending.users
        return self.limits_of_user(name).usage().user_usage() if is_known else None

    def group(self, name: str) -> GroupUsage | None:
        """Return the usage of a group in each queue; None if nothing is charged to it."""
        return self.limits_of_group(name).usage().group_usage() if name in self._usage.groups else None

    # The utilization of limits

    def limits_of_user(self, name: str) -> OwnerLimits:
        """Return the limits of a user; the object is the same as in an earlier snapshot if nothing has changed."""
        lines, waiting = self._usage.by_user.get(name, ()), self._pending.by_user.get(name, ())
        return self._owner(TrackingType.USER, name, lines, waiting)

    def limits_of_group(self, name: str) -> OwnerLimits:
        """Return the limits of a group, like `limits_of_user`; pending allocations do not count."""
        return self._owner(TrackingType.GROUP, name, self._usage.by_group.get(name, ()), ())

    def _owner(
        self, kind: TrackingType, name: str, lines: tuple[UsageLine, ...], waiting: tuple[PendingLine, ...]
    ) -> OwnerLimits:
        known = self._owners.get((kind, name))
        if known is None or known.lines is not lines or known.waiting is not waiting:
            limits = self.compiled.limits
            table = limits.users if kind is TrackingType.USER else limits.groups
            known = self._owners[kind, name] = OwnerLimits(kind, name, table, lines, waiting)
        return known

    def user_limits(self, name: str) -> tuple[EffectiveLimit, ...]:
        """Return the limits of a user in all queues with allocations of the user, sorted by queue."""
        return self.limits_of_user(name).effective

    def group_limits(self, name: str) -> tuple[EffectiveLimit, ...]:
        """Return the limits of a group in all queues with usage of the group, sorted by queue."""
        return self.limits_of_group(name).effective

    def user_share(self, name: str) -> float:
        """Return the rounded share of `user_utilization` in less time."""
        return self.limits_of_user(name).share

    def group_share(self, name: str) -> float:
        """Return the rounded share of `group_utilization` in less time."""
        return self.limits_of_group(name).share

    def user_amount(self, name: str, resource: str | None) -> int:
        """Return the usage of one resource by a user; for None the number of its running applications."""
        return _amount(self._usage.users.get(name, _NO_SUM), resource)

    def group_amount(self, name: str, resource: str | None) -> int:
        """Return the usage of one resource by a group; for None the number of its running applications."""
        return _amount(self._usage.groups.get(name, _NO_SUM), resource)

    def user_utilization(self, name: str) -> LimitUtilization:
        """Return the utilization of the most used limit of a user; an unknown user has no limit."""
        return _utilization(name, self._usage.users.get(name, _NO_SUM), self.user_limits(name))

    def group_utilization(self, name: str) -> LimitUtilization:
        """Return the utilization of the most used limit of a group; an unknown group has no limit."""
        return _utilization(name, self._usage.groups.get(name, _NO_SUM), self.group_limits(name))


def _utilization(name: str, used: UsageSum, limits: Iterable[EffectiveLimit]) -> LimitUtilization:
    return utilization_of(name, used.amounts, used.item_count, limits)


def _amount(used: UsageSum, resource: str | None) -> int:
    return used.item_count if resource is None else used.amounts.get(resource, 0)

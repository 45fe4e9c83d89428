"""Snapshots: a partition at one moment, copied as plain data.

The problem: an answer with several values, such as a tree of queues, must show them at one moment. But formatting a
large partition under its lock would stop the scheduler during that time.

The idea: under the lock, only the changing data is copied: the holdings, the pending allocations and the queues. All
sums, shares and limits are computed from the copy, without the lock, when they are first used.

The cost: under the lock, the copy takes about half a microsecond for each queue and application.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple, Protocol, Self, TypeVar, final

from ugm.configuration import PartitionConfig
from ugm.decision import EffectiveLimit
from ugm.identity import ROOT, TrackingType, ancestors
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.owner_usage import CopiedUsage, add_amounts
from ugm.partition.state import PartitionState
from ugm.partition.utilization import LimitUtilization
from ugm.queues import QueueSpec, QueueState, Quota
from ugm.resources import Resource, smallest_amounts, sum_of
from ugm.tracking import GroupUsage, UserUsage
from ugm.tracking.holding import amounts_by_name
from ugm.tracking.snapshot import UsageLine

__all__ = [
    "CooperativeIteration",
    "CopiedQueue",
    "PartitionSnapshot",
    "Pending",
    "PendingLine",
    "SnapshotParts",
]

#: The attributes of queues and holdings that are copied, each as one list. So nothing is computed under the lock, and
#: no objects are created that could start the garbage collector.
_QUEUE: Final = [attrgetter(name) for name in ("queue_path", "spec", "managed", "was_configured", "quota_override")]
_HOLDING: Final = [attrgetter(name) for name in ("application_id", "queue_path", "owner", "group", "amounts")]

#: The attributes of a snapshot that make up its `SnapshotParts`.
_PARTS: Final = ("cluster", "nodes", "application_count", "allocation_count", "_queues", "_lines", "_pending")

_T = TypeVar("_T")


class CooperativeIteration(Protocol):
    """A function that wraps the items of a long loop, for example to pause now and then."""

    def __call__(self, items: Iterable[_T], /) -> Iterable[_T]:
        """Return the same items."""
        ...


def _uninterrupted(items: Iterable[_T], /) -> Iterable[_T]:
    return items


class Pending(NamedTuple):
    """The number and the sum of pending allocations."""

    allocations: int
    amounts: Resource


class CopiedQueue(NamedTuple):
    """A copied queue."""

    spec: QueueSpec
    is_managed: bool
    was_configured: bool
    quota_override: Resource | None
    applications: tuple[str, ...]

    @property
    def quota(self) -> Quota:
        """The quota in force."""
        quota = self.spec.quota
        return quota if self.quota_override is None else quota._replace(max_resources=self.quota_override)


class PendingLine(NamedTuple):
    """The pending allocations of one application."""

    user_name: str
    #: None if the application is charged to no group, or has not run yet.
    group_name: str | None
    queue_path: str
    usages: list[Resource]


class SnapshotParts(NamedTuple):
    """The values of a snapshot except its configuration, as another process needs them."""

    #: The sum of all nodes; None until a first node is registered.
    cluster: Resource | None
    nodes: dict[str, Resource]
    application_count: int
    allocation_count: int
    #: Sorted by path.
    queues: dict[str, CopiedQueue]
    #: The usage of every running application.
    lines: list[UsageLine]
    #: Every application with pending allocations.
    pending: list[PendingLine]


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

    def __init__(self, state: PartitionState, iterate: CooperativeIteration | None = None) -> None:
        """Copy the changing data; the caller holds the lock."""
        self._iterate: Final = iterate or _uninterrupted
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
        self._raw_pending: Final = [
            (one.submission.user.name, one.group or None, one.queue.queue_path, tuple(one.pending.values()))
            for one in state.applications.values()
            if one.pending
        ]

    # All other methods run without the lock.

    @classmethod
    def of(cls, compiled: CompiledConfig, parts: SnapshotParts, iterate: CooperativeIteration | None = None) -> Self:
        """Return the snapshot with these `parts`, copied under a configuration."""
        snapshot = cls.__new__(cls)
        values = {"compiled": compiled, "config": compiled.config, "_iterate": iterate or _uninterrupted}
        vars(snapshot).update(values, **dict(zip(_PARTS, parts, strict=True)))
        return snapshot

    def parts(self) -> SnapshotParts:
        """Return the values of the snapshot except its configuration."""
        return SnapshotParts(*(getattr(self, name) for name in _PARTS))

    @cached_property
    def _pending(self) -> list[PendingLine]:
        return [
            PendingLine(user, group, path, [entry.usage for entry in entries])
            for user, group, path, entries in self._raw_pending
        ]

    @cached_property
    def _queues(self) -> dict[str, CopiedQueue]:
        rows = zip(*self._raw_queues, self._raw_members, strict=True)
        return dict(sorted((path, CopiedQueue(*facts)) for path, *facts in self._iterate(rows)))

    @cached_property
    def _lines(self) -> list[UsageLine]:
        return [
            UsageLine(application_id, path, owner.name, group and group.name, amounts_by_name(amounts))
            for application_id, path, owner, group, amounts in self._iterate(zip(*self._raw_holdings, strict=True))
        ]

    @cached_property
    def _lines_of_users(self) -> dict[str, list[UsageLine]]:
        found: dict[str, list[UsageLine]] = {one.user_name: [] for one in self._pending}
        for line in self._iterate(self._lines):
            found.setdefault(line.user_name, []).append(line)
        return found

    @cached_property
    def _lines_of_groups(self) -> dict[str, list[UsageLine]]:
        found: dict[str, list[UsageLine]] = {}
        for line in self._iterate(self._lines):
            if line.group_name is not None:
                found.setdefault(line.group_name, []).append(line)
        return found

    @property
    def usage_lines(self) -> Sequence[UsageLine]:
        """The usage of every running application."""
        return self._lines

    @property
    def pending_lines(self) -> Sequence[PendingLine]:
        """The pending allocations of every application that has some."""
        return self._pending

    def usage(self) -> Resource:
        """Return the usage of the whole partition, without zeros."""
        return Resource(self._used_in_queues.get(ROOT, {})).without_zeros()

    # Queues

    @property
    def queue_paths(self) -> tuple[str, ...]:
        """All queues, sorted by path."""
        return tuple(self._queues)

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {path: [] for path in self._queues}
        for path in self._queues:
            if path != ROOT:
                found[path.rpartition(".")[0]].append(path)
        return found

    @cached_property
    def _used_in_queues(self) -> dict[str, dict[str, int]]:
        """The usage in and below every queue with running applications."""
        return _summed((line.queue_path, line.used) for line in self._iterate(self._lines))

    @cached_property
    def _running_in_queues(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for line in self._iterate(self._lines):
            for path in ancestors(line.queue_path):
                found[path] = found.get(path, 0) + 1
        return found

    @cached_property
    def pending_in_queues(self) -> Mapping[str, Pending]:
        """The pending allocations in and below every queue that has some."""
        found: dict[str, list[Resource]] = {}
        for line in self._pending:
            for path in ancestors(line.queue_path):
                found.setdefault(path, []).extend(line.usages)
        return {path: _sum_of_pending(usages) for path, usages in found.items()}

    def queue(self, queue_path: str = ROOT) -> QueueState | None:
        """Return a queue with all queues below it; None if there is no such queue.

        Args:
            queue_path: its canonical path.
        """
        copied = self._queues.get(queue_path)
        if copied is None:
            return None
        below = (self.queue(path) for path in self._iterate(self._children[queue_path]))
        return self._state(queue_path, copied, tuple(state for state in below if state is not None))

    def _state(self, path: str, copied: CopiedQueue, children: tuple[QueueState, ...]) -> QueueState:
        quota = copied.quota
        return QueueState(
            queue_path=path,
            is_leaf=not copied.spec.is_parent,
            is_managed=copied.is_managed,
            is_draining=self._is_draining(path),
            max_resources=self._maximum(path),
            max_applications=quota.max_applications,
            guaranteed=quota.guaranteed,
            usage=Resource(self._used_in_queues.get(path, {})).without_zeros(),
            running_applications=self._running_in_queues.get(path, 0),
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
            (name, maximum - self._used_in_queues.get(path, {}).get(name, 0))
            for path in ancestors(queue_path)
            for name, maximum in (self._maximum(path) or {}).items()
        )

    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return the result of `AbstractPartition.queue_maximum` at that moment, for a queue that exists."""
        return smallest_amounts(item for path in ancestors(queue_path) for item in (self._maximum(path) or {}).items())

    # Users and groups

    @property
    def user_names(self) -> tuple[str, ...]:
        """The names of all users with allocations, including pending ones, sorted."""
        return tuple(sorted(self._lines_of_users))

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of all groups with charged applications, sorted."""
        return tuple(sorted(self._lines_of_groups))

    @cached_property
    def pending_of_users(self) -> Mapping[str, Pending]:
        """The pending allocations of every user that has some."""
        return _pending_by((line.user_name, line.usages) for line in self._pending)

    @cached_property
    def pending_of_groups(self) -> Mapping[str, Pending]:
        """The pending allocations of every group, of the applications that are charged to it."""
        return _pending_by((line.group_name, line.usages) for line in self._pending if line.group_name is not None)

    @cached_property
    def _waiting_in(self) -> dict[str, set[str]]:
        """The queues with pending allocations, by user."""
        found: dict[str, set[str]] = {}
        for line in self._pending:
            found.setdefault(line.user_name, set()).add(line.queue_path)
        return found

    def user(self, name: str) -> UserUsage | None:
        """Return the usage of a user in each queue; None if the user has no allocations, including pending ones.

        A queue in which the user has only pending allocations is shown with an empty usage.
        """
        if name not in self._lines_of_users:
            return None
        return self._of_user(name).copy().user_usage()

    def group(self, name: str) -> GroupUsage | None:
        """Return the usage of a group in each queue; None if nothing is charged to it."""
        return self._of_group(name).copy().group_usage() if name in self._lines_of_groups else None

    def _of_user(self, name: str) -> CopiedUsage:
        lines, waiting = self._lines_of_users.get(name, ()), self._waiting_in.get(name, ())
        return CopiedUsage(TrackingType.USER, name, self.compiled.limits.users, lines, waiting)

    def _of_group(self, name: str) -> CopiedUsage:
        lines = self._lines_of_groups.get(name, ())
        return CopiedUsage(TrackingType.GROUP, name, self.compiled.limits.groups, lines)

    # The utilization of limits

    def user_limits(self, name: str) -> tuple[EffectiveLimit, ...]:
        """Return the limits of a user in all queues with allocations of the user, sorted by queue."""
        return self._of_user(name).limits()

    def group_limits(self, name: str) -> tuple[EffectiveLimit, ...]:
        """Return the limits of a group in all queues with usage of the group, sorted by queue."""
        return self._of_group(name).limits()

    def user_share(self, name: str) -> float:
        """Return the rounded share of `user_utilization` in less time."""
        return self._of_user(name).rounded_share()

    def group_share(self, name: str) -> float:
        """Return the rounded share of `group_utilization` in less time."""
        return self._of_group(name).rounded_share()

    def user_amount(self, name: str, resource: str | None) -> int:
        """Return the usage of one resource by a user; for None the number of its running applications."""
        return self._of_user(name).amount(resource)

    def group_amount(self, name: str, resource: str | None) -> int:
        """Return the usage of one resource by a group; for None the number of its running applications."""
        return self._of_group(name).amount(resource)

    def user_utilization(self, name: str) -> LimitUtilization:
        """Return the utilization of the most used limit of a user; an unknown user has no limit."""
        return self._of_user(name).utilization()

    def group_utilization(self, name: str) -> LimitUtilization:
        """Return the utilization of the most used limit of a group; an unknown group has no limit."""
        return self._of_group(name).utilization()


def _summed(lines: Iterable[tuple[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Return the sums of amounts in and below each queue."""
    own: dict[str, dict[str, int]] = {}
    for path, amounts in lines:
        add_amounts(own.setdefault(path, {}), amounts)
    found: dict[str, dict[str, int]] = {}
    for path, amounts in own.items():
        for above in ancestors(path):
            add_amounts(found.setdefault(above, {}), amounts)
    return found


def _pending_by(lines: Iterable[tuple[str, Sequence[Resource]]]) -> dict[str, Pending]:
    found: dict[str, list[Resource]] = {}
    for name, usages in lines:
        found.setdefault(name, []).extend(usages)
    return {name: _sum_of_pending(usages) for name, usages in found.items()}


def _sum_of_pending(usages: Sequence[Resource]) -> Pending:
    return Pending(len(usages), sum_of(usages))

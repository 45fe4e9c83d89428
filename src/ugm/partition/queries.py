"""Queries about applications, allocations, queues, users and groups. They change nothing and return values.

Most answers are formatted without the lock, from copies that are made under it, so that a query over a large partition
does not delay a scheduler. A method whose name begins with `copy_` returns such a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias, final

from ugm.decision import EffectiveLimit
from ugm.identity import canonical_path
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import Allocation
from ugm.partition.application import Application, ApplicationCopy, ApplicationInfo, LedgerEntry
from ugm.partition.reports import OwnedAllocation
from ugm.partition.sorting import sort_in_parts
from ugm.partition.state import PartitionState
from ugm.partition.utilization import LimitUtilization, utilization_of
from ugm.queues import QueueState
from ugm.queues.snapshot import queue_state
from ugm.resources import Resource
from ugm.tracking.holding import HoldingTree
from ugm.tracking.snapshot import TrackerCopy

__all__ = ["CopiedAllocations", "Queries"]

#: An application with a copy of its allocations, pending ones included.
_Copy: TypeAlias = tuple[Application, dict[str, Resource | LedgerEntry]]
_Copies: TypeAlias = list[_Copy]


@final
class Queries:
    """The answers to queries. The caller holds the lock."""

    __slots__ = ("_admission", "_state")

    def __init__(self, state: PartitionState, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._admission: Final = admission

    # Applications and allocations

    def application(self, application_id: str) -> ApplicationInfo | None:
        """Return the current state of an application."""
        found = self._state.applications.get(application_id)
        return None if found is None else found.info()

    def copy_applications(self, queue_path: str | None) -> list[ApplicationCopy]:
        """Copy all applications, or those in and below a queue."""
        found: Mapping[str, Application] = self._state.applications
        if queue_path is not None:
            below = self._admission.require_queue(queue_path).below()
            found = {name: self._state.applications[name] for queue in below for name in queue.applications}
        return [one.copy() for one in found.values()]

    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        """Return those of the given applications that exist, in the given order."""
        found = [self._state.applications.get(name) for name in application_ids]
        return tuple(one.info() for one in found if one is not None)

    def allocation(self, allocation_id: str) -> Allocation | None:
        """Return the current state of an allocation."""
        entry = self._state.ledger.get(allocation_id)
        return None if entry is None else entry.to_allocation(allocation_id)

    def copy_allocations(self, application_id: str | None) -> _Copies:
        """Copy the allocations of all applications, or of one, for `CopiedAllocations`."""
        if application_id is None:
            applications = list(self._state.applications.values())
        else:
            applications = [self._admission.require_application(application_id)]
        return [(application, {**application.allocations, **application.pending}) for application in applications]

    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        """Return those of the given allocations that exist, with their owners, in the given order."""
        found = [(name, self._state.ledger.get(name)) for name in allocation_ids]
        return tuple(OwnedAllocation.of(name, entry) for name, entry in found if entry is not None)

    # Queues

    def queue(self, queue_path: str, *, alone: bool) -> QueueState | None:
        """Return the current state of a queue, with the queues below it or *alone*."""
        found = self._state.tree.queues.get(canonical_path(queue_path))
        return None if found is None else queue_state(found, self._state.tree.cluster, alone=alone)

    def queue_headroom(self, queue_path: str, *, cluster: bool) -> Resource | None:
        """Return the minimum that a queue and its parents leave."""
        return self._state.tree.headroom(self._admission.require_queue(queue_path).queue_path, cluster=cluster)

    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return the minimum of the maxima of a queue and its parents."""
        return self._state.tree.maximum(self._admission.require_queue(queue_path).queue_path)

    def copy_pending(self, queue_path: str) -> list[LedgerEntry]:
        """Return the pending allocations in a queue itself."""
        found = self._state.tree.queues.get(queue_path)
        names = [] if found is None else list(found.applications)
        return [entry for name in names for entry in self._state.applications[name].pending.values()]

    def nodes(self) -> dict[str, Resource]:
        """Return the resources of every registered node."""
        return dict(sorted(self._state.cluster.nodes.items()))

    # Users and groups

    def copy_tracker(self, trackers: Mapping[str, HoldingTree], name: str) -> TrackerCopy | None:
        """Copy the usage of a user or group."""
        tracker = trackers.get(name)
        return None if tracker is None else TrackerCopy.of(tracker)

    def utilization(self, trackers: Mapping[str, HoldingTree], name: str) -> LimitUtilization | None:
        """Return the utilization of the most used limit of a user or group."""
        tracker = trackers.get(name)
        if tracker is None:
            return None
        tracker.refresh()
        limits = [EffectiveLimit.of(tracker.counters[path]) for path in sorted(tracker.counters)]
        return utilization_of(name, tracker.total(), len(tracker.holdings), limits)


@final
class CopiedAllocations(Mapping[str, Allocation]):
    """Copied allocations by id, in the order of their ids; without the lock.

    Each value is made when it is read. A million values at once would stop other threads: the garbage collector visits
    them all, and to delete them is one instruction.
    """

    __slots__ = ("_names", "_sources")

    def __init__(self, copies: _Copies) -> None:
        #: The copy that has the allocation of an id.
        self._sources: Final[dict[str, _Copy]] = {}
        for source in copies:
            self._sources.update(dict.fromkeys(source[1], source))
        self._names: Final = sort_in_parts(self._sources, str)

    def __getitem__(self, allocation_id: str) -> Allocation:
        application, allocations = self._sources[allocation_id]
        return application.to_entry(allocations[allocation_id]).to_allocation(allocation_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

"""What can be asked of a shared partition. Nothing of this changes anything, and a replica can answer it.

`SharedView.check`, `SharedView.headroom` and `SharedView.limits` look at one application and the limits above
it. Everything that spans the partition (users, groups, queues, what is over) reads all of it, in one statement, and so
as of one moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ugm.arguments import require_name
from ugm.decision import Decision, Violation
from ugm.errors import InvariantError
from ugm.hierarchy import Node
from ugm.partition.allocation import Allocation
from ugm.partition.application import ApplicationInfo
from ugm.partition.explanation import Explanation
from ugm.partition.partition import Partition
from ugm.partition.state import PartitionState
from ugm.partition.subject import Subject
from ugm.partition.subject_queries import is_limiting
from ugm.queues import QueueState
from ugm.resources import MEMORY, VCORE, Resource
from ugm.shared.engine import Need
from ugm.shared.slices import place_of
from ugm.shared.survey import SharedSurvey, partition_around
from ugm.tracking import EffectiveLimit, GroupUsage, UserUsage

__all__ = ["SharedView"]

T = TypeVar("T")


class SharedView(SharedSurvey):
    """The read-only face of a `ugm.shared.SharedPartition`; every answer is that of a `ugm.Partition`."""

    __slots__ = ()

    # What would be

    def _about(self, subject: Subject, question: Callable[[Partition], T]) -> T:
        return self._one(subject, question) if isinstance(subject, str) else self._all(question)

    def check(self, subject: Subject, usage: Resource, *, priority: int = 0, preemptible: bool = True) -> Decision:
        """Do what `ugm.Partition.check` does."""
        return self._about(subject, lambda view: view.check(subject, usage, priority=priority, preemptible=preemptible))

    def headroom(self, subject: Subject) -> Resource | None:
        """Do what `ugm.Partition.headroom` does."""
        return self._about(subject, lambda view: view.headroom(subject))

    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Do what `ugm.Partition.limits` does."""
        return self._about(subject, lambda view: view.limits(subject))

    def explain(
        self, subject: Subject, usage: Resource, *, priority: int = 0, preemptible: bool = True, most: int = 3
    ) -> Explanation:
        """Do what `ugm.Partition.explain` does."""
        return self._all(
            lambda view: view.explain(subject, usage, priority=priority, preemptible=preemptible, most=most)
        )

    # Applications and allocations

    def application(self, application_id: str) -> ApplicationInfo | None:
        """Do what `ugm.Partition.application` does."""
        return self._one(application_id, lambda view: view.application(application_id), whole=True)

    def applications(self, queue_path: str | None = None) -> tuple[ApplicationInfo, ...]:
        """Do what `ugm.Partition.applications` does."""
        return self._all(lambda view: view.applications(queue_path))

    def allocation(self, allocation_id: str) -> Allocation | None:
        """Do what `ugm.Partition.allocation` does."""
        require_name("allocation_id", allocation_id)
        with self._reader.lock:
            need = Need(lines=(allocation_id,))
            return self._reader.ask(need, lambda tools: _shown(tools.state, allocation_id))

    def allocations(self, application_id: str | None = None) -> tuple[Allocation, ...]:
        """Do what `ugm.Partition.allocations` does."""
        if application_id is None:
            return self._all(lambda view: view.allocations())
        return self._one(application_id, lambda view: view.allocations(application_id), whole=True)

    # Queues, users and groups

    def queue(self, queue_path: str = "root") -> QueueState | None:
        """Do what `ugm.Partition.queue` does."""
        return self._all(lambda view: view.queue(queue_path))

    def queue_headroom(self, queue_path: str, *, cluster: bool = True) -> Resource | None:
        """Do what `ugm.Partition.queue_headroom` does."""
        return self._all(lambda view: view.queue_headroom(queue_path, cluster=cluster))

    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Do what `ugm.Partition.queue_maximum` does."""
        return self._all(lambda view: view.queue_maximum(queue_path))

    def users(self) -> tuple[UserUsage, ...]:
        """Do what `ugm.Partition.users` does."""
        return self._all(lambda view: view.users())

    def groups(self) -> tuple[GroupUsage, ...]:
        """Do what `ugm.Partition.groups` does."""
        return self._all(lambda view: view.groups())

    def nodes(self) -> dict[str, Resource]:
        """Do what `ugm.Partition.nodes` does."""
        return self._all(lambda view: view.nodes())

    def over_limit(self) -> tuple[Violation, ...]:
        """Do what `ugm.Partition.over_limit` does."""
        return self._all(lambda view: view.over_limit())

    def verify(self) -> None:
        """Recompute every counter of the database from the ledger, and compare.

        Raises:
            InvariantError: something differs.
        """
        with self._reader.lock:
            self._reader.everything(_verify)


def _shown(state: PartitionState, allocation_id: str) -> Allocation | None:
    entry = state.ledger.get(allocation_id)
    return None if entry is None else entry.to_allocation(allocation_id)


def _verify(state: PartitionState, counters: list[Any]) -> None:
    partition_around(state).verify()
    nodes: list[Node] = [node for tracker in state.holding_index.trees() for node in tracker.counters()]
    nodes += [queue.node for queue in state.tree.queues.values() if queue.node is not None]
    expected = {place_of(node): _used(node) for node in nodes if is_limiting(node)}
    found = {
        (kind, name, path): (vcore, memory, *others, running)
        for kind, name, path, vcore, memory, others, running in counters
    }
    findings = [
        f"{place} counts {found.get(place)}, its applications add up to {expected.get(place)}"
        for place in sorted({*found, *expected})
        if any(found.get(place, ())) or any(expected.get(place, ()))
        if found.get(place) != expected.get(place)
    ]
    if findings:
        raise InvariantError(tuple(findings))


def _used(node: Node) -> tuple[int, ...]:
    used = node.used()
    return (used[VCORE], used[MEMORY], *(used[name] for name in node.layout.names), node.running)

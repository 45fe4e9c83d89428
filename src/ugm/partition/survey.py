"""Questions of those who watch a partition, a piece at a time, and of those who have no application in it yet.

A page or a metric that wants everything of a large partition would hold its lock for long. These questions are small:
names first, then one user, one group, one queue or one application after the other. Each piece is of one moment, all of
them together are not.

Nothing here changes an answer or creates anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from ugm.arguments import require_amounts, require_name, require_resource, require_user, require_vector
from ugm.configuration import PartitionConfig
from ugm.decision import Decision, Violation, exceeded
from ugm.errors import RequestError, value_text
from ugm.hierarchy import Node, headroom
from ugm.identity import UserGroup, canonical_path
from ugm.model import Claim
from ugm.operation_lock import OperationLock, exclusive
from ugm.partition._submission import submission_of
from ugm.partition.admission import Admission
from ugm.partition.explanation import Explanation, Held, charged, explain, require_holder_count
from ugm.partition.ledger_entry import LedgerEntry
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.queues import Placement, QueueState, queue_state
from ugm.resources import Resource, as_float, sum_of
from ugm.tracking import EffectiveLimit, GroupUsage, UserUsage
from ugm.tracking.holding import Holding, HoldingTree
from ugm.tracking.snapshot import TrackerCopy

__all__ = ["NAMELESS", "LimitUtilization", "Survey", "effective", "is_limiting"]

#: The id of an application that is only asked about, where an id is asked for.
NAMELESS: Final = "?"


class LimitUtilization(NamedTuple):
    """How close one user or group is to the nearest of its limits."""

    name: str
    #: What is used in all queues together, without zeros.
    usage: Resource
    running_applications: int
    #: The limit of which the largest part is used; None if there is none where something runs.
    limit: EffectiveLimit | None = None
    #: The resource of that limit; None for the number of applications, and if there is no limit.
    resource: str | None = None
    #: How much of that limit is used: 1 is all of it. A limit of 0 counts as used up.
    share: Fraction = Fraction(0)

    def __repr__(self) -> str:
        fields = zip(self._fields, self, strict=True)
        return f"Standing({', '.join(f'{name}={value_text(value)}' for name, value in fields)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the standing for JSON, with the share as a decimal number."""
        limit = None if self.limit is None else self.limit.to_dict()
        return {**self._asdict(), "usage": dict(self.usage), "limit": limit, "share": as_float(self.share)}


class Survey:
    """What a `ugm.PartitionView` can be asked besides; see there."""

    __slots__ = ("_admission", "_lock", "_others", "_state")

    _lock: OperationLock

    def __init__(self, state: PartitionState, others: ModelSet) -> None:
        self._state: Final = state
        self._others: Final = others
        self._admission: Final = Admission(state, others)
        self._lock = state.in_force.lock
        self._lock.settle()

    @property
    def config(self) -> PartitionConfig | None:
        """The configuration in force, as it was given; None for none."""
        return self._state.compiled.config

    # Names

    def user_names(self) -> tuple[str, ...]:
        """Return all users for whom something runs, sorted."""
        return self._names(self._state.holding_index.users)

    def group_names(self) -> tuple[str, ...]:
        """Return all groups to which something is charged, sorted."""
        return self._names(self._state.holding_index.groups)

    def application_ids(self) -> tuple[str, ...]:
        """Return all applications, sorted."""
        return self._names(self._state.applications)

    def allocation_ids(self) -> tuple[str, ...]:
        """Return all allocations, pending ones included, sorted."""
        return self._names(self._state.ledger.owners)

    def queue_paths(self) -> tuple[str, ...]:
        """Return all queues, sorted by path: parents before children."""
        return self._names(self._state.tree.queues)

    def _names(self, index: Mapping[str, object]) -> tuple[str, ...]:
        return tuple(sorted(self._lock.run(list, index)))

    # Pieces

    def user(self, name: str) -> UserUsage | None:
        """Return what one user uses in which queues, with the limits there; None if nothing runs for the user."""
        copy = self._copy(self._state.holding_index.users, name)
        return None if copy is None else copy.user_usage()

    def group(self, name: str) -> GroupUsage | None:
        """Return what one group uses in which queues, with the limits there; None if nothing is charged to it."""
        copy = self._copy(self._state.holding_index.groups, name)
        return None if copy is None else copy.group_usage()

    @exclusive
    def _copy(self, trackers: Mapping[str, HoldingTree], name: str) -> TrackerCopy | None:
        tracker = trackers.get(require_name("name", name))
        return None if tracker is None else TrackerCopy.of(tracker)

    @exclusive
    def user_utilization(self, name: str) -> LimitUtilization | None:
        """Return how close a user is to a limit; None if nothing runs for the user."""
        tracker = self._state.holding_index.users.get(require_name("name", name))
        return None if tracker is None else _standing(tracker)

    @exclusive
    def group_utilization(self, name: str) -> LimitUtilization | None:
        """Return how close a group is to a limit; None if nothing is charged to it."""
        tracker = self._state.holding_index.groups.get(require_name("name", name))
        return None if tracker is None else _standing(tracker)

    @exclusive
    def user_share(self, name: str) -> float | None:
        """Return how much of the nearest limit of a user is used: the share of `user_utilization`, and quicker."""
        tracker = self._state.holding_index.users.get(require_name("name", name))
        return None if tracker is None else _share(tracker)

    @exclusive
    def group_share(self, name: str) -> float | None:
        """Return how much of the nearest limit of a group is used: the share of `group_utilization`, and quicker."""
        tracker = self._state.holding_index.groups.get(require_name("name", name))
        return None if tracker is None else _share(tracker)

    @exclusive
    def queue_alone(self, queue_path: str) -> QueueState | None:
        """Return one queue without those below it, whose usage is left out, too; None if there is no such queue.

        Takes time in the number of applications that were submitted to the queue itself.
        """
        path = canonical_path(queue_path)
        found = self._state.tree.queues.get(path)
        return None if found is None else queue_state(found, self._state.tree.cluster, alone=True)

    def pending(self, queue_path: str) -> tuple[int, Resource]:
        """Return how many allocations are pending in one queue itself, and what they add up to; nothing without it."""
        waiting = self._pending_in(canonical_path(queue_path))
        return len(waiting), sum_of(entry.usage for entry in waiting)

    @exclusive
    def _pending_in(self, queue_path: str) -> list[LedgerEntry]:
        found = self._state.tree.queues.get(queue_path)
        names = [] if found is None else list(found.applications)
        return [entry for name in names for entry in self._state.applications[name].pending.values()]

    # Somebody without an application

    @exclusive
    def placement_for(self, user: UserGroup, queue: str = "", tags: Mapping[str, str] | None = None) -> Placement:
        """Return where the placement rules would put an application of a user, and what every rule said.

        Raises:
            RequestError: an argument cannot be used.
        """
        submission = submission_of(NAMELESS, user, queue, tags)
        return self._state.compiled.rules.place(submission, self._state.tree)

    @exclusive
    def check_for(
        self,
        user: UserGroup,
        queue_path: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
    ) -> Decision:
        """Return what would be answered to the first allocation of a new application of a user in a queue.

        The answer is that of `ugm.Partition.allocate` after a `ugm.Partition.submit` with the same tags and quota. The
        queue need not exist: one that placement would create counts as created. Other quota models are asked too.

        Args:
            user: who would own the application.
            queue_path: the queue, as `placement_for` returned it.
            usage: what the allocation would take.
            tags: as for `ugm.Partition.submit`.
            quota: as for `ugm.Partition.submit`: the quota of a namespace.

        Raises:
            RequestError: an argument cannot be used, or the partition is being removed.
        """
        claim = self._claim_for(user, queue_path, usage, tags)
        return self._decision_for(claim, require_amounts("quota", quota))

    def explain_for(
        self,
        user: UserGroup,
        queue_path: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        most: int = 3,
    ) -> Explanation:
        """Return what `check_for` does, and for every limit in the way the *most* largest holders of what is missing.

        Raises:
            RequestError: as for `check_for`, or *most* is no number.
        """
        require_holder_count(most)
        claim, quota = self._claim_for(user, queue_path, usage, tags), require_amounts("quota", quota)
        return explain(*self._lock.run(self._decided, lambda: self._decision_for(claim, quota)), most)

    def _decided(self, decide: Callable[[], Decision]) -> tuple[Decision, list[Sequence[Held]]]:
        """Decide, and copy what is charged to the limits in the way; both show the same moment."""
        decision = decide()
        return decision, charged(self._state, decision)

    @exclusive
    def limits_for(
        self, user: UserGroup, queue_path: str, *, quota: Resource | None = None
    ) -> tuple[tuple[EffectiveLimit, ...], Resource | None]:
        """Return every limit that would hold for a new application of a user in a queue, and the headroom.

        The queue need not exist: one that placement would create counts as created.

        Args:
            user: who would own the application.
            queue_path: the queue, as `placement_for` returned it.
            quota: as for `check_for`.

        Raises:
            RequestError: an argument cannot be used.
        """
        path, quota = canonical_path(queue_path), require_amounts("quota", quota)
        holding = self._would_be(user, path, quota)
        nodes = holding.enforced(holding.chain())
        return effective(nodes), headroom(nodes)

    def _claim_for(self, user: UserGroup, queue_path: str, usage: Resource, tags: Mapping[str, str] | None) -> Claim:
        submission, path = submission_of(NAMELESS, user, queue_path, tags), canonical_path(queue_path)
        return Claim("", NAMELESS, require_resource("usage", usage), path, user, submission.tags)

    def _decision_for(self, claim: Claim, quota: Resource | None) -> Decision:
        if self._state.closed:
            raise RequestError("queue_path", claim.queue_path, "the partition is being removed")
        holding = self._would_be(claim.user, claim.queue_path, quota)
        violations = _violations(holding, claim.usage)
        return Decision(violations + self._others.check(claim) if self._others else violations)

    def _would_be(self, user: UserGroup, queue_path: str, quota: Resource | None = None) -> Holding:
        """Return what a new application would hold; nothing knows of it."""
        holding = self._state.holding_index.detached(queue_path, "", require_user(user))
        holding.quotas = _Quotas(self._state.tree.chain_if_made(queue_path, quota))
        return holding


def _violations(holding: Holding, usage: Resource) -> tuple[Violation, ...]:
    """Return every limit in the way of an application that would start; its counters may be of different layouts."""
    chain = holding.chain()
    starting = holding.newly_counted(chain)
    return tuple(
        violation
        for node in holding.enforced(chain)
        for violation in exceeded((node,), require_vector("usage", usage, node.layout), starting)
    )


class _Quotas(NamedTuple):
    """The limits of a queue that may not exist."""

    chain: tuple[Node, ...]


def effective(nodes: Sequence[Node]) -> tuple[EffectiveLimit, ...]:
    """Return the limits of some counters, without those that are there for a guarantee alone."""
    return tuple(EffectiveLimit.of(node) for node in nodes if is_limiting(node))


def is_limiting(node: Node) -> bool:
    """Return whether a counter limits anything."""
    limit = node.limit
    return bool(limit.resources or limit.applications or limit.closed)


def _standing(tracker: HoldingTree) -> LimitUtilization:
    used, most, node, resource = _nearest(tracker)
    limit = None if node is None else EffectiveLimit.of(node)
    return LimitUtilization(
        tracker.name, tracker.total(), len(tracker.holdings), limit, resource or None, Fraction(used, most)
    )


def _share(tracker: HoldingTree) -> float:
    used, most, _, _ = _nearest(tracker)
    return as_float(Fraction(used, most))


def _nearest(tracker: HoldingTree) -> tuple[int, int, Node | None, str]:
    """Return what is used of the nearest limit, the limit, its counter and its resource, empty for applications."""
    tracker.refresh()
    found: tuple[int, int, Node | None, str] = (0, 1, None, "")
    for node in tracker.nodes.values():
        limits = node.limit
        for name, limit in limits.resources.amounts.items():
            found = _nearer(found, limit - node.free(name), limit, node, name)
        if limits.applications:
            found = _nearer(found, node.running, limits.applications, node, "")
    return found


def _nearer(
    found: tuple[int, int, Node | None, str], used: int, limit: int, node: Node, name: str
) -> tuple[int, int, Node | None, str]:
    # A limit of nothing counts as used up. Compared as products: exact, and quicker than fractions.
    used, most = (used, limit) if limit else (1 + used, 1)
    return (used, most, node, name) if found[2] is None or used * found[1] > found[0] * most else found

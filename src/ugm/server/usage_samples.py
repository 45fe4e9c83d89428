"""Samples: the values of all subjects of a partition at one moment, for `ugm.server.series`.

Queues, users and groups are computed from a snapshot, so the values of one sample are of the same moment. The nodes of
the trees of quota models follow immediately after it, and have the amounts that their model reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import Final, TypeAlias, final

from ugm.decision import EffectiveLimit
from ugm.identity import ancestors, is_below
from ugm.partition import OwnerLimits, PartitionSnapshot, UsageSum
from ugm.queues import QueueState
from ugm.server.cooperative import cooperatively
from ugm.server.series import Metrics, Subject
from ugm.server.trees import ModelTree
from ugm.server.work_times import DenialCounts

__all__ = ["NO_DENIALS", "Sampler"]

#: The measures of trees under the names that they have for queues.
_TREE_MEASURES: Final = {"used": "usage", "min": "minimum", "max": "limit", "quota": "limit"}
#: Measures for which a missing value means 0. A limit of 0 is stored, because it differs from no limit.
_SUMS: Final = frozenset(("pending", "usage"))
NO_DENIALS: Final = DenialCounts({}, {}, {})

_Sample: TypeAlias = dict[Subject, dict[int, int]]
#: The facts that determine the values of a user or group, and these values.
_KnownOwner: TypeAlias = tuple[UsageSum | None, UsageSum | None, OwnerLimits, dict[int, int]]
#: Amounts by resource, and the largest number of applications or 0.
_Limit: TypeAlias = tuple[dict[str, int], int]


@final
class Sampler:
    """Computes the samples of one partition.

    Args:
        metrics: the numbers of the metrics.
    """

    __slots__ = ("_known", "_metrics")

    #: The users and groups of the newest sample, by kind and name.
    _known: dict[str, dict[str, _KnownOwner]]

    def __init__(self, metrics: Metrics) -> None:
        self._metrics: Final = metrics
        self._known = {}

    def sample(
        self, snapshot: PartitionSnapshot, trees: Iterable[ModelTree] = (), denials: DenialCounts = NO_DENIALS
    ) -> _Sample:
        """Return the values of all queues, nodes of trees, groups and users, in this order."""
        sample: _Sample = {}
        root = snapshot.queue()
        if root is not None:
            self._add_queues(sample, root, snapshot.pending_in_queues)
        for tree in trees:
            self._add_tree(sample, tree, denials.by_model_limit)
        groups, users = snapshot.usage_of_groups, snapshot.usage_of_users
        self._add_owners(sample, "group", groups, snapshot.pending_of_groups, snapshot.limits_of_group)
        self._add_owners(sample, "user", users, snapshot.pending_of_users, snapshot.limits_of_user)
        self._add_denials(sample, denials.by_subject)
        return sample

    def _add(self, values: dict[int, int], measure: str, amounts: Mapping[str, int]) -> None:
        for resource, amount in amounts.items():
            number = self._metrics.number(measure, resource)
            if number is not None and (amount or measure not in _SUMS):
                values[number] = amount

    def _count(self, values: dict[int, int], measure: str, count: int) -> None:
        if count:
            self._add(values, measure, {"": count})

    def _add_pending(self, values: dict[int, int], pending: UsageSum | None) -> None:
        if pending is not None:
            self._add(values, "pending", pending.amounts)
            self._count(values, "pending_allocations", pending.item_count)

    # Queues

    def _add_queues(self, sample: _Sample, state: QueueState, pending: Mapping[str, UsageSum]) -> None:
        for queue in cooperatively(_walk(state)):
            values = sample["queue", queue.queue_path] = dict[int, int]()
            self._add(values, "usage", queue.usage)
            self._add(values, "limit", queue.max_resources or {})
            self._add(values, "guaranteed", queue.guaranteed or {})
            self._count(values, "running_applications", queue.running_applications)
            self._count(values, "application_limit", queue.max_applications)
            self._add_pending(values, pending.get(queue.queue_path))

    # Nodes of trees

    def _add_tree(self, sample: _Sample, tree: ModelTree, denials: Mapping[tuple[str, str], int]) -> None:
        counts = _denials_of_nodes(tree.kind, denials)
        for node in cooperatively(tree.nodes.values()):
            values = sample["tree_node", tree.name, node.name] = dict[int, int]()
            for measure, amounts in node.amounts.items():
                self._add(values, _TREE_MEASURES.get(measure, measure), amounts)
            if "request" in node.amounts:
                used = node.amounts["used"]
                waiting = {name: amount - used.get(name, 0) for name, amount in node.amounts["request"].items()}
                self._add(values, "pending", {name: amount for name, amount in waiting.items() if amount > 0})
            self._count(values, "denials", counts.get(node.name, 0))

    # Users and groups

    def _add_owners(
        self,
        sample: _Sample,
        kind: str,
        usage: Mapping[str, UsageSum],
        pending: Mapping[str, UsageSum],
        limits_of: Callable[[str], OwnerLimits],
    ) -> None:
        known: dict[str, _KnownOwner] = {}
        before = self._known.get(kind, {})
        for name in cooperatively({**usage, **pending}):
            facts = usage.get(name), pending.get(name), limits_of(name)
            found = before.get(name)
            if found is None or not all(map(is_, found, facts)):
                found = (*facts, self._owner_values(*facts))
            known[name] = found
            sample[kind, name] = found[3]
        # Names without usage are forgotten.
        self._known[kind] = known

    def _owner_values(self, usage: UsageSum | None, pending: UsageSum | None, limits: OwnerLimits) -> dict[int, int]:
        values = dict[int, int]()
        if usage is not None:
            self._add(values, "usage", usage.amounts)
            self._count(values, "running_applications", usage.item_count)
        self._add_pending(values, pending)
        amounts, applications = _covering_limit(limits.effective, limits.queue_paths)
        self._add(values, "limit", amounts)
        self._count(values, "application_limit", applications)
        return values

    # Denials

    def _add_denials(self, sample: _Sample, denials: Mapping[tuple[str, str], int]) -> None:
        """Add the numbers of denials so far; those of a queue include the queues below."""
        totals: dict[Subject, int] = {}
        for (kind, name), count in cooperatively(denials.items()):
            for counted in ancestors(name) if kind == "queue" else (name,):
                totals[kind, counted] = totals.get((kind, counted), 0) + count
        for subject, count in cooperatively(totals.items()):
            # The values of a user or group may be those of the sample before.
            values = sample[subject] = dict(sample.get(subject, {}))
            self._count(values, "denials", count)


def _walk(state: QueueState) -> Iterator[QueueState]:
    stack = [state]
    while stack:
        queue = stack.pop()
        yield queue
        stack.extend(queue.children)


def _denials_of_nodes(tree_kind: str, denials: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the denials by name of the node; limits of elastic groups have several kinds with a common beginning."""
    prefix = "elastic group" if tree_kind == "elastic" else "quota node"
    found: dict[str, int] = {}
    for (kind, name), count in denials.items():
        if kind.startswith(prefix):
            found[name] = found.get(name, 0) + count
    return found


def _covering_limit(limits: Iterable[EffectiveLimit], paths: Iterable[str]) -> _Limit:
    """Return the smallest limits of those that count all work of a user or group, so that they compare with its sum."""
    amounts: dict[str, int] = {}
    applications = 0
    for limit in limits:
        if all(is_below(path, limit.queue_path) for path in paths):
            for resource, most in (limit.max_resources or {}).items():
                amounts[resource] = min(most, amounts.get(resource, most))
            if limit.max_applications:
                applications = min(limit.max_applications, applications or limit.max_applications)
    return amounts, applications

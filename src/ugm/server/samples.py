"""Samples: the values of all subjects of a partition at one moment, for `ugm.server.series`.

Queues, users and groups are computed from a snapshot, so the values of one sample are of the same moment. The nodes of
the trees of quota models follow immediately after it, and have the amounts that their model reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

from ugm.decision import EffectiveLimit
from ugm.identity import ancestors, is_below
from ugm.partition import PartitionSnapshot, Pending
from ugm.partition.compiled_config import CompiledConfig
from ugm.queues import QueueState
from ugm.server.cooperative import cooperatively
from ugm.server.series import Metrics, Subject
from ugm.server.trees import ModelTree
from ugm.server.work_times import DenialCounts

__all__ = ["NO_DENIALS", "OwnerUsage", "Sampler"]

#: The measures of trees under the names that they have for queues.
_TREE_MEASURES: Final = {"used": "usage", "min": "minimum", "max": "limit", "quota": "limit"}
#: Measures for which a missing value means 0. A limit of 0 is stored, because it differs from no limit.
_SUMS: Final = frozenset(("pending", "usage"))
NO_DENIALS: Final = DenialCounts({}, {}, {})

_Sample: TypeAlias = dict[Subject, dict[int, int]]
#: Amounts by resource, and the largest number of applications or 0.
_Limit: TypeAlias = tuple[dict[str, int], int]


@final
class Sampler:
    """Computes the samples of one partition.

    Args:
        metrics: the numbers of the metrics.
    """

    __slots__ = ("_compiled", "_limits", "_metrics")

    #: The configuration that `_limits` belongs to.
    _compiled: CompiledConfig | None
    #: The limits of users and groups by kind and name, with the queues that they were computed for.
    _limits: dict[tuple[str, str], tuple[frozenset[str], _Limit]]

    def __init__(self, metrics: Metrics) -> None:
        self._metrics: Final = metrics
        self._compiled = None
        self._limits = {}

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
        owners = OwnerUsage(snapshot)
        for kind, limits in (("group", snapshot.group_limits), ("user", snapshot.user_limits)):
            self._add_owners(sample, kind, owners, snapshot, limits)
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

    def _add_pending(self, values: dict[int, int], pending: Pending | None) -> None:
        if pending is not None:
            self._add(values, "pending", pending.amounts)
            self._count(values, "pending_allocations", pending.allocations)

    # Queues

    def _add_queues(self, sample: _Sample, state: QueueState, pending: Mapping[str, Pending]) -> None:
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
        owners: OwnerUsage,
        snapshot: PartitionSnapshot,
        limits: Callable[[str], Sequence[EffectiveLimit]],
    ) -> None:
        pending = snapshot.pending_of_users if kind == "user" else snapshot.pending_of_groups
        if self._compiled is not snapshot.compiled:
            self._compiled, self._limits = snapshot.compiled, {}
        known: dict[tuple[str, str], tuple[frozenset[str], _Limit]] = {}
        for name, owner in cooperatively(owners.by_kind[kind].items()):
            values = sample[kind, name] = dict[int, int]()
            self._add(values, "usage", owner.used)
            self._count(values, "running_applications", owner.running)
            self._add_pending(values, pending.get(name))
            paths = frozenset(owner.paths)
            found = self._limits.get((kind, name))
            if found is None or found[0] != paths:
                found = paths, _covering_limit(limits(name), paths)
            known[kind, name] = found
            amounts, applications = found[1]
            self._add(values, "limit", amounts)
            self._count(values, "application_limit", applications)
        # Names without usage are forgotten.
        others = {key: found for key, found in self._limits.items() if key[0] != kind}
        self._limits = {**others, **known}

    # Denials

    def _add_denials(self, sample: _Sample, denials: Mapping[tuple[str, str], int]) -> None:
        """Add the numbers of denials so far; those of a queue include the queues below."""
        totals: dict[Subject, int] = {}
        for (kind, name), count in cooperatively(denials.items()):
            for counted in ancestors(name) if kind == "queue" else (name,):
                totals[kind, counted] = totals.get((kind, counted), 0) + count
        for subject, count in cooperatively(totals.items()):
            self._count(sample.setdefault(subject, {}), "denials", count)


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


class _Owner:
    """The usage of a user or group, and the queues of its work."""

    __slots__ = ("paths", "running", "used")

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.running = 0
        self.paths: set[str] = set()


class OwnerUsage:
    """The usage of all users and groups of a snapshot.

    Attributes:
        by_kind: the users and the groups by name, under ``user`` and ``group``.
    """

    __slots__ = ("by_kind",)

    def __init__(self, snapshot: PartitionSnapshot) -> None:
        self.by_kind: dict[str, dict[str, _Owner]] = {"group": {}, "user": {}}
        for _, path, user, group, used in cooperatively(snapshot.usage_lines):
            for owner in self._owners(user, group):
                owner.running += 1
                owner.paths.add(path)
                total = owner.used
                for resource, amount in used.items():
                    total[resource] = total.get(resource, 0) + amount
        for line in cooperatively(snapshot.pending_lines):
            for owner in self._owners(line.user_name, line.group_name):
                owner.paths.add(line.queue_path)

    def _owners(self, user: str, group: str | None) -> Iterator[_Owner]:
        yield self.by_kind["user"].setdefault(user, _Owner())
        if group is not None:
            yield self.by_kind["group"].setdefault(group, _Owner())


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

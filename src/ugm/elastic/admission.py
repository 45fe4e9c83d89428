"""Decisions about pods: the limits that admit them, the pods to evict, and the groups that use more than their share.

A pod is compared with the runtime of its group, the minimum of its group, and the groups above. Only resources
that the pod requests are checked. A resource that exceeds its limit already does not deny a pod that requests none of
it. A resource that the maximum of the group does not name is not counted at all.

A plan of evictions revokes what a group borrowed, or makes room for a pod of the group. It is a value, which the caller
carries out. Only pods of the group itself are chosen, because priorities of different groups cannot be compared.
Non-preemptible pods are never chosen. A plan removes all other pods from the counts, and then keeps each pod that still
fits, the most important first.

A group is guaranteed its minimum, scaled down in a shortage. Its share is its runtime, or its minimum if that is more.
A group that uses more than its share uses what others are guaranteed or entitled to. This decides which allocations a
group has to return. The runtime rises as soon as a group requests more, and usage of other groups does not fall at the
same moment. Therefore the groups together may use more than the cluster has, and `overuse` yields what they have to
release for the request.

Source: Koordinator, multi-hierarchy elastic quota management, "PreFilter", "Min Guarantee and Preemption" and
"PostFilter".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonObject
from ugm.arguments import require_instance
from ugm.decision import EffectiveLimit, Violation
from ugm.elastic.group import BUILT_IN, ROOT_GROUP, SYSTEM_GROUP, Pod
from ugm.elastic.runtime import ResourceNode
from ugm.elastic.tree import ElasticTree, GroupNode, TrackedPod
from ugm.model import Borrower, Guarantee
from ugm.resources import Resource

__all__ = [
    "GROUP",
    "MINIMUM",
    "AdmissionRules",
    "ElasticPreemptionPlan",
    "GroupAdmission",
    "GroupStatus",
    "RevokePlan",
    "RuntimeViolation",
    "borrowers",
    "missing_request",
    "overuse",
    "plan_preemption",
    "plan_revoke",
    "refusal_of",
    "status",
]

#: The kinds of the violations.
GROUP: Final = "elastic group"
MINIMUM: Final = "elastic group minimum"

#: The groups that limit nothing.
_WITHOUT_LIMITS: Final = (ROOT_GROUP, SYSTEM_GROUP)

#: The requested resources that a group limits, with the amounts.
_Requested: TypeAlias = list[tuple[str, int]]


@final
class RuntimeViolation(Violation):
    """A violation of the runtime of a group. The runtime can increase when other groups request less.

    A request that no increase can help is reported as a plain `ugm.Violation` instead; see `ElasticQuota.never`.
    """

    __slots__ = ()

    @property
    def can_wait(self) -> bool:
        """True: waiting can help."""
        return True


class AdmissionRules(NamedTuple):
    """The rules for admitting pods."""

    #: True: the limit is the runtime of the group. False: the maximum, independent of the usage of other groups.
    by_runtime: bool = True
    #: Whether the groups above limit a pod as well. Koordinator's default is False.
    check_parents: bool = True


@final
@dataclass(frozen=True, slots=True)
class GroupAdmission:
    """The check of pods against the limits of their groups.

    Args:
        tree: the groups.
        rules: the rules for admitting pods.
    """

    tree: ElasticTree
    rules: AdmissionRules

    def room(self, group: str, resource: str) -> int | None:
        """Return the most of a resource with which an expected pod fits a group; None if that is not limited."""
        found = self.tree.nodes.get(group)
        node = None if found is None else found.resources.get(resource)
        if node is None or not node.is_limited:
            return None
        return self._most(node) - node.used

    def violations(self, group: str, usage: Resource, *, preemptible: bool) -> Iterator[Violation]:
        """Yield every limit that *usage* would exceed: of the group, of its minimum, and of the groups above.

        The groups above are in order from the parent upwards, without the root.

        Args:
            group: the group of the pod.
            usage: the request of the pod.
            preemptible: whether the pod may be evicted; otherwise it must fit the minimum of the group.
        """
        node = self.tree.node(group)
        requested = [
            (name, amount)
            for name, amount in usage.amounts.items()
            if amount > 0 and (own := node.resources.get(name)) and own.is_limited
        ]
        yield from self._group_violations(node, requested)
        if not preemptible:
            yield from _minimum_violations(node, requested)
        for above in self._above(node):
            yield from self._group_violations(above, requested)

    def _above(self, group: GroupNode) -> list[GroupNode]:
        """Return the groups above a group that limit it too, without the root."""
        found: list[GroupNode] = []
        while self.rules.check_parents and group.above is not None and group.above.parent is not None:
            group = group.above
            found.append(group)
        return found

    def _group_violations(self, group: GroupNode, requested: _Requested) -> Iterator[Violation]:
        kind = RuntimeViolation if self.rules.by_runtime else Violation
        for name, amount in requested:
            node = group.resources[name]
            if node.is_limited and node.used + amount > (limit := self._most(node)):
                yield kind(GROUP, group.name, "", "", name, limit, node.used, amount)

    def _most(self, node: ResourceNode) -> int:
        """Return the limit on the usage of a resource by a group."""
        return node.runtime() if self.rules.by_runtime else node.max

    def limits(self, group: str, *, preemptible: bool) -> list[EffectiveLimit]:
        """Return the limits of a pod of a group: of the group, of its minimum, and of the groups above.

        Args:
            group: the group, which has its `missing_request` now.
            preemptible: whether the pod may be evicted; otherwise it must fit the minimum of the group.
        """
        node = self.tree.node(group)
        found = [*self._limits(node)]
        if not preemptible and node.group is not None:
            found += _minimum(node, node.group.min)
        # Only resources that the group itself counts are checked above.
        counted = frozenset(name for name, own in node.resources.items() if own.is_limited)
        return found + [limit for above in self._above(node) for limit in self._limits(above, counted)]

    def all_limits(self) -> tuple[EffectiveLimit, ...]:
        """Return the limits of all groups at this moment, sorted by group."""
        return tuple(limit for name in sorted(self.tree.nodes) for limit in self._limits(self.tree.nodes[name]))

    def _limits(self, group: GroupNode, counted: AbstractSet[str] | None = None) -> Iterator[EffectiveLimit]:
        """Yield the limit of a group on some resources, or on all, if it limits any of them."""
        names = sorted(group.resources if counted is None else counted & group.resources.keys())
        nodes = {name: node for name in names if (node := group.resources[name]).is_limited}
        if not nodes or group.name in _WITHOUT_LIMITS:
            return
        most = {name: self._most(node) for name, node in nodes.items()}
        borrowed = {name: max(node.borrowed(), 0) for name, node in nodes.items() if self.rules.by_runtime}
        own = {name: amount - borrowed.get(name, 0) for name, amount in most.items()}
        guaranteed = None if own == most else Resource(own)
        yield _limit(GROUP, group.name, most, {name: node.used for name, node in nodes.items()}, guaranteed)


def _minimum_violations(group: GroupNode, requested: _Requested) -> Iterator[Violation]:
    """Yield where non-preemptible pods would use more than the minimum of their group."""
    minimums = group.group.min if group.group is not None else Resource()
    for name, amount in requested:
        node = group.resources[name]
        used = node.non_preemptible_used
        if name in minimums and used + amount > node.min:
            yield Violation(MINIMUM, group.name, "", "", name, node.min, used, amount)


def missing_request(tree: ElasticTree, group: str) -> Resource:
    """Return the additional request with which a group would request its maximum.

    With this request, the runtime of the group is the largest that it can get now. A smaller request never leads to a
    larger runtime, and it is granted if it is within that runtime.
    """
    nodes = tree.node(group).resources.items()
    return Resource({name: max(node.max - node.child_request, 0) for name, node in nodes if node.is_limited})


def refusal_of(tree: ElasticTree, group: str) -> Iterator[EffectiveLimit]:
    """Yield the limit of a group that accepts no pods: nothing of any resource of the group or the cluster."""
    names = sorted({*tree.total, *tree.node(group).resources})
    if names:
        yield _limit(GROUP, group, dict.fromkeys(names, 0), dict.fromkeys(names, 0))


def _minimum(group: GroupNode, minimum: Resource) -> Iterator[EffectiveLimit]:
    nodes = {name: node for name in minimum if (node := group.resources.get(name)) and node.is_limited}
    if nodes:
        used = {name: node.non_preemptible_used for name, node in nodes.items()}
        yield _limit(MINIMUM, group.name, {name: node.min for name, node in nodes.items()}, used)


def _limit(
    kind: str, name: str, most: dict[str, int], used: dict[str, int], guaranteed: Resource | None = None
) -> EffectiveLimit:
    place = f"elastic group {name!r}"
    return EffectiveLimit(kind, name, "", "", place, Resource(most), 0, Resource(used), 0, guaranteed)


_NOTHING: Final = Resource()


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group at one moment."""

    group: str
    #: Empty for the root.
    parent: str
    #: The configured minimum; empty for the root, whose limits have no effect.
    min: Resource
    #: The configured maximum. A resource that it does not name is not counted for the group.
    max: Resource
    #: The requests of its pods, plus the limited requests of its child groups.
    child_request: Resource
    #: The same, but at least the minimum if the group does not lend it.
    request: Resource
    #: The request to the parent group: the request up to the maximum.
    limited_request: Resource
    used: Resource
    #: The amounts that the group may use now. A resource that is not shared with the group is missing.
    runtime: Resource
    #: The minimum, scaled down if the sum of the minimums exceeds the available amount.
    scaled_min: Resource
    #: The part of the runtime beyond the minimum in force, which the group borrows from others.
    borrowed: Resource
    #: The part of the minimum in force beyond the runtime, which others may use.
    lent: Resource

    def to_dict(self) -> JsonObject:
        """Return the status for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: dict(value) if isinstance(value, Resource) else value for name, value in values.items()}


def status(tree: ElasticTree, group: str) -> GroupStatus:
    """Return the requests, usage and runtime of a group.

    Raises:
        GroupError: the group is unknown.
        RequestError: *tree* is not an ElasticTree.

    >>> from ugm.elastic import ElasticGroup
    >>> tree = ElasticTree(Resource(gpu=8), [ElasticGroup("ml", min=Resource(gpu=2), max=Resource(gpu=4))])
    >>> tree.change_request("ml", Resource(gpu=5))
    >>> found = status(tree, "ml")
    >>> found.request, found.runtime, found.borrowed
    (Resource(gpu=5), Resource(gpu=4), Resource(gpu=2))
    """
    require_instance("tree", tree, ElasticTree)
    node = tree.node(group)
    configured = None if node.parent is None else node.group
    borrowed = {resource: each.borrowed() for resource, each in node.resources.items()}
    return GroupStatus(
        group,
        node.parent.name if node.parent else "",
        configured.min if configured else _NOTHING,
        configured.max if configured else _NOTHING,
        tree.child_request(group),
        tree.request(group),
        tree.limited_request(group),
        tree.used(group),
        tree.runtime(group),
        tree.scaled_min(group),
        Resource({resource: amount for resource, amount in borrowed.items() if amount > 0}),
        Resource({resource: -amount for resource, amount in borrowed.items() if amount < 0}),
    )


class RevokePlan(NamedTuple):
    """The pods to evict from a group that uses more than its runtime."""

    group: str
    #: Most important first if the plan suffices; least important first if usage above the runtime remains.
    victims: tuple[str, ...]
    #: The usage above the runtime now.
    excess: Resource
    #: The usage above the runtime afterwards: of non-preemptible pods, or of child groups.
    remaining: Resource


class ElasticPreemptionPlan(NamedTuple):
    """The pods to evict for one pod of the same group."""

    pod: str
    group: str
    #: Least important first; empty if no eviction is necessary, or if none would help.
    victims: tuple[str, ...]
    #: The limits that are exceeded even if all candidates are evicted; empty if the pod fits.
    violations: tuple[Violation, ...]

    def __bool__(self) -> bool:
        return not self.violations


def plan_revoke(
    group: str, used: Mapping[str, int], limit: Mapping[str, int], pods: Iterable[TrackedPod]
) -> RevokePlan:
    """Choose pods to evict until *used* is within *limit*. All resources are considered.

    Args:
        group: the group.
        used: the usage of the group, including its child groups.
        limit: the limit of the group; a missing resource is not limited.
        pods: the pods of the group, in the order of arrival; only running pods are candidates.
    """
    over = {name: used.get(name, 0) - amount for name, amount in limit.items()}
    excess = _positive(over)

    def count(one: TrackedPod, sign: int) -> None:
        for name, amount in one.pod.usage.amounts.items():
            if name in over:
                over[name] += sign * amount

    candidates = _candidates(pods)
    needed = _needed(candidates, count, lambda: all(amount <= 0 for amount in over.values()))
    victims = candidates if needed is None else needed
    return RevokePlan(group, tuple(one.pod.name for one in victims), excess, _positive(over))


def _positive(over: Mapping[str, int]) -> Resource:
    return Resource({name: amount for name, amount in over.items() if amount > 0})


def plan_preemption(
    pod: Pod,
    group: str,
    pods: Iterable[TrackedPod],
    count: Callable[[TrackedPod, int], None],
    check: Callable[[], Iterable[Violation]],
) -> ElasticPreemptionPlan:
    """Choose pods of lower priority to evict for a pod: as few as possible, the least important first.

    Args:
        pod: the pod to admit.
        group: the group of the pod.
        pods: the pods of the group with a lower priority; of equal priority, in the order of arrival.
        count: removes a pod from the counts (-1) or adds it again (1). At the end all of them are counted.
        check: returns the limits that the pod would exceed at that point.
    """
    candidates = _candidates(pods)
    needed = _needed(candidates, count, lambda: not any(True for _ in check()))
    violations = tuple(check()) if needed is None else ()
    for one in candidates if needed is None else needed:
        count(one, 1)
    return ElasticPreemptionPlan(pod.name, group, tuple(one.pod.name for one in reversed(needed or ())), violations)


def _candidates(pods: Iterable[TrackedPod]) -> list[TrackedPod]:
    """Return the pods that may be evicted, least important first.

    Pods are compared by priority, and then by start: the youngest is the least important, and a pod without a start is
    the youngest. Sorting is stable, so equal pods stay in the order of arrival.
    """

    def importance(one: TrackedPod) -> tuple[int, bool, int]:
        return one.pod.priority, one.pod.started is not None, -(one.pod.started or 0)

    return sorted((one for one in pods if one.is_running and one.pod.preemptible), key=importance)


def _needed(
    candidates: list[TrackedPod], count: Callable[[TrackedPod, int], None], suffices: Callable[[], bool]
) -> list[TrackedPod] | None:
    """Remove the candidates, and add those again that can stay, the most important first.

    Returns:
        The removed candidates, most important first; None if the removal of all of them does not suffice.
    """
    for one in candidates:
        count(one, -1)
    if not suffices():
        return None
    needed = []
    for one in reversed(candidates):
        count(one, 1)
        if not suffices():
            count(one, -1)
            needed.append(one)
    return needed


def overuse(tree: ElasticTree, group: str, usage: Resource) -> Iterator[Violation]:
    """Yield each resource of the cluster of which other groups have to release a part for a request.

    Only resources that the group of the request limits are compared. The limit is the total, but at least what the
    group uses with the request: a minimum that is not scaled, or a maximum as the only limit, may exceed the total.
    Then all other usage has to be released, and the request fits if there is none.

    Args:
        tree: the groups.
        group: the group of the request.
        usage: the request.
    """
    resources = tree.node(group).resources
    for name, total in tree.total.amounts.items():
        node, amount = resources.get(name), usage.get(name, 0)
        if amount <= 0 or node is None or not node.is_limited:
            continue
        used, limit = tree.root.resources[name].used, max(total, node.used + amount)
        if used + amount > limit:
            yield Violation(GROUP, tree.root.name, "", "", name, limit, used, amount)


def borrowers(tree: ElasticTree, group: str, usage: Resource, pods: Mapping[str, Sequence[str]]) -> Iterator[Borrower]:
    """Yield all groups with pods that compete with a group, except the group itself.

    Args:
        tree: the groups, in which the request of *usage* counts.
        group: the group of the request.
        usage: the request.
        pods: the names of the running pods of each group.
    """
    claimant = _sharing_path(tree.node(group))
    for name in sorted(pods):
        path = _sharing_path(tree.node(name))
        if name == group or name in BUILT_IN:
            continue
        own = [node for node in path if node not in claimant]
        side = [node for node in claimant if node not in path]
        entitled = tuple(guarantee for node in side for guarantee in _guarantees(node, usage))
        guarantees = tuple(guarantee for node in own for guarantee in _guarantees(node))
        yield Borrower(GROUP, name, entitled, guarantees, tuple(pods[name]))


def _sharing_path(node: GroupNode) -> list[GroupNode]:
    """Return a group and the groups above it, without the root."""
    return list(node.path())[:-1]


def _guarantees(group: GroupNode, usage: Resource | None = None) -> Iterator[Guarantee]:
    """Yield the guarantees of a group for each resource that it limits; its usage includes *usage*."""
    for name, node in sorted(group.resources.items()):
        if node.is_limited:
            guaranteed = node.scaled_min()
            used = node.used + (0 if usage is None else usage.get(name, 0))
            yield Guarantee(
                GROUP,
                group.name,
                f"elastic group {group.name!r}",
                name,
                guaranteed,
                max(guaranteed, node.runtime()),
                used,
            )

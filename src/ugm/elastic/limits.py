"""The limits of elastic groups, the amounts that groups lend each other, and the state of a group, all as values.

A group is guaranteed its minimum, scaled down in a shortage. Its share is its runtime, or its minimum if that is more.
A group that uses more than its share uses what others are guaranteed or entitled to. This decides which allocations a
group has to return.

The admission of a pod compares its group with the runtime, which rises as soon as the group requests more. Usage of
other groups does not fall at the same moment. Therefore the groups together may use more than the cluster has, and
`overuse` yields what they have to release for the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Final

from ugm._json_values import JsonObject
from ugm.arguments import require_instance
from ugm.decision import EffectiveLimit, Violation
from ugm.elastic.group import BUILT_IN, ROOT_GROUP, SYSTEM_GROUP
from ugm.elastic.nodes import GroupNode, ResourceNode
from ugm.elastic.pods import GROUP, MINIMUM, AdmissionRules
from ugm.elastic.tree import ElasticTree
from ugm.model import Borrower, Guarantee
from ugm.resources import Resource

__all__ = ["GroupStatus", "all_limits", "borrowers", "limits_of", "missing_request", "overuse", "refusal_of", "status"]

#: The groups that limit nothing.
_WITHOUT_LIMITS: Final = (ROOT_GROUP, SYSTEM_GROUP)


def missing_request(tree: ElasticTree, group: str) -> Resource:
    """Return the additional request with which a group would request its maximum.

    With this request, the runtime of the group is the largest that it can get now. A smaller request never leads to a
    larger runtime, and it is granted if it is within that runtime.
    """
    nodes = tree.node(group).resources.items()
    return Resource({name: max(node.max - node.child_request, 0) for name, node in nodes if node.is_limited})


def limits_of(tree: ElasticTree, group: str, rules: AdmissionRules, *, preemptible: bool) -> list[EffectiveLimit]:
    """Return the limits of a pod of a group: of the group, of its minimum, and of the groups above.

    Args:
        tree: the groups, in which the group has its `missing_request`.
        group: the group.
        rules: the rules for admitting pods.
        preemptible: whether the pod may be evicted; otherwise it must fit the minimum of the group.
    """
    node = tree.node(group)
    found = [*_limits(node, rules)]
    if not preemptible and node.group is not None:
        found += _minimum(node, node.group.min)
    if rules.check_parents:
        # Only resources that the group itself counts are checked above.
        counted = frozenset(name for name, own in node.resources.items() if own.is_limited)
        found += [limit for above in list(node.path())[1:] for limit in _limits(above, rules, counted)]
    return found


def refusal_of(tree: ElasticTree, group: str) -> Iterator[EffectiveLimit]:
    """Yield the limit of a group that accepts no pods: nothing of any resource of the group or the cluster."""
    names = sorted({*tree.total, *tree.node(group).resources})
    if names:
        yield _limit(GROUP, group, dict.fromkeys(names, 0), dict.fromkeys(names, 0))


def all_limits(tree: ElasticTree, rules: AdmissionRules) -> list[EffectiveLimit]:
    """Return the limits of all groups at this moment, sorted by group."""
    return [limit for name in sorted(tree.nodes) for limit in _limits(tree.nodes[name], rules)]


def _limits(
    group: GroupNode, rules: AdmissionRules, counted: AbstractSet[str] | None = None
) -> Iterator[EffectiveLimit]:
    """Yield the limit of a group on some resources, or on all, if it limits any of them."""
    names = sorted(group.resources if counted is None else counted & group.resources.keys())
    nodes = {name: node for name in names if (node := group.resources[name]).is_limited}
    if not nodes or group.name in _WITHOUT_LIMITS:
        return
    most = {name: node.runtime() if rules.by_runtime else node.max for name, node in nodes.items()}
    own = {name: most[name] - _borrowed(node, rules) for name, node in nodes.items()}
    guaranteed = None if own == most else Resource(own)
    yield _limit(GROUP, group.name, most, {name: node.used for name, node in nodes.items()}, guaranteed)


def _borrowed(node: ResourceNode, rules: AdmissionRules) -> int:
    """Return the part of the runtime that a group borrows from others."""
    return max(node.borrowed(), 0) if rules.by_runtime else 0


def _minimum(group: GroupNode, minimum: Resource) -> Iterator[EffectiveLimit]:
    nodes = {name: node for name in minimum if (node := group.resources.get(name)) and node.is_limited}
    if nodes:
        used = {name: node.non_preemptible_used for name, node in nodes.items()}
        yield _limit(MINIMUM, group.name, {name: node.min for name, node in nodes.items()}, used)


def _limit(
    kind: str, name: str, most: dict[str, int], used: dict[str, int], guaranteed: Resource | None = None
) -> EffectiveLimit:
    return EffectiveLimit(
        kind=kind,
        name=name,
        queue_path="",
        limit_name="",
        place=f"elastic group {name!r}",
        max_resources=Resource(most),
        max_applications=0,
        usage=Resource(used),
        running_applications=0,
        guaranteed=guaranteed,
    )


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
    parent = node.parent.name if node.parent else ""
    borrowed = {resource: each.borrowed() for resource, each in node.resources.items()}
    return GroupStatus(
        group,
        parent,
        node.group.min if node.group and parent else _NOTHING,
        node.group.max if node.group and parent else _NOTHING,
        tree.child_request(group),
        tree.request(group),
        tree.limited_request(group),
        tree.used(group),
        tree.runtime(group),
        tree.scaled_min(group),
        Resource({resource: amount for resource, amount in borrowed.items() if amount > 0}),
        Resource({resource: -amount for resource, amount in borrowed.items() if amount < 0}),
    )

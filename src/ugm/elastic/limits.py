"""The limits of elastic groups as values, with the part that a group would borrow."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from ugm.decision import EffectiveLimit
from ugm.elastic.admission import GROUP, MINIMUM, AdmissionRules
from ugm.elastic.group import ROOT_GROUP, SYSTEM_GROUP
from ugm.elastic.nodes import GroupNode, ResourceNode
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["all_limits", "limits_of", "missing_request", "refusal_of"]

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

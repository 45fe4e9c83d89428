"""The rules for changes of the configured groups, checked before a change takes effect.

Each function yields all violated rules; Koordinator reports the first of them. A rule that depends on another rule is
skipped if that one is violated. Nothing here changes anything.

Source: Koordinator, multi-hierarchy elastic quota management, "Configuration Limit"; the other rules are those of its
webhooks. In contrast to the webhooks, a group below itself is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ugm.configuration.scheduler import ROOT_GROUP, ElasticGroup
from ugm.elastic.group import BUILT_IN, DEFAULT_GROUP, BrokenRule
from ugm.elastic.tree import ElasticTree, GroupNode, TrackedPod
from ugm.resources import Resource, format_amount

#: The pods by name.
_Pods: TypeAlias = Mapping[str, TrackedPod]


def with_defaults(group: ElasticGroup, tree: ElasticTree) -> ElasticGroup:
    """Fill in the parent, the tree id and the weights of a new group.

    A resource of the maximum that has no weight gets its maximum as weight. Weights of other resources are dropped.
    """
    if group.name == ROOT_GROUP:
        return group
    above = tree.nodes.get(group.parent)
    weight, tree_id = group.shared_weight, group.tree_id
    if weight is not None:
        weight = Resource({name: weight.amounts.get(name, maximum) for name, maximum in group.max.amounts.items()})
    if above is not None and above.group is not None:
        tree_id = tree_id or above.group.tree_id
    return replace(group, tree_id=tree_id, shared_weight=weight)


def refusals_of_create(group: ElasticGroup, tree: ElasticTree) -> Iterator[BrokenRule]:
    """Yield the rules that a new group violates, after its defaults were filled in."""
    node = tree.nodes.get(group.name)
    if not group.tree_id and group.parent not in tree.nodes:
        yield from tree.misplacements(group)
        return
    if node is not None and node.group is not None:
        yield "already_exists", "there is already a group of this name", "name"
        return
    yield from _namespaces(group, tree)
    yield from refusals_of_amounts(group)
    if group.name != ROOT_GROUP:
        yield from _placement(group, None, tree)


def refusals_of_update(group: ElasticGroup, tree: ElasticTree, pods: _Pods) -> Iterator[BrokenRule]:
    """Yield the rules that replacing a group violates.

    A change of only weights and lending is not checked, as in Koordinator.
    """
    node = tree.nodes.get(group.name)
    old = None if node is None else node.group
    if old is not None and _checked_fields(old) == _checked_fields(group):
        return
    if group.name in BUILT_IN and group.name != DEFAULT_GROUP:
        yield "forbidden_modify", "the group is built in", ""
        return
    yield from _namespaces(group, tree)
    if node is None or old is None:
        yield "not_found", "there is no such group", ""
        return
    yield from refusals_of_amounts(group)
    yield from _role(group, node, old, pods)
    yield from _placement(group, old, tree)


def _checked_fields(group: ElasticGroup) -> tuple[object, ...]:
    return group.min, group.max, group.parent, group.is_parent, group.tree_id, group.namespaces


def _namespaces(group: ElasticGroup, tree: ElasticTree) -> Iterator[BrokenRule]:
    for namespace in group.namespaces:
        other = tree.listed.get(namespace)
        if other not in (None, group.name):
            yield "namespace_bound", f"namespace {namespace!r} is already listed by {other!r}", "namespaces"


def refusals_of_amounts(group: ElasticGroup) -> Iterator[BrokenRule]:
    """Yield the rules that the amounts of a group violate by themselves."""
    for field in ("max", "min", "shared_weight"):
        negative = [name for name, amount in (getattr(group, field) or {}).items() if amount < 0]
        yield from ((f"negative_{field}", f"{field} of {name} is negative", field) for name in negative)
    for name, minimum in group.min.amounts.items():
        maximum = group.max.amounts.get(name)
        if maximum is None:
            yield "min_key_not_in_max", f"min names {name}, but max does not", "min"
        elif minimum > maximum:
            amounts = f"{format_amount(name, minimum)}, above max {format_amount(name, maximum)}"
            yield "min_exceeds_max", f"min of {name} is {amounts}", "min"
    for name, used in group.reported_used.amounts.items():
        maximum = group.max.amounts.get(name)
        if name in group.strict_max and (maximum is None or used > maximum):
            limit = "but max does not name it" if maximum is None else f"above max {format_amount(name, maximum)}"
            yield "max_below_used", f"{format_amount(name, used)} {name} is used, {limit}", ""


def _role(group: ElasticGroup, node: GroupNode, old: ElasticGroup, pods: _Pods) -> Iterator[BrokenRule]:
    """Yield the rules that a change of the mark as a parent violates."""
    if old.is_parent and not group.is_parent and node.children:
        yield "is_parent_with_children", f"{next(iter(node.children))!r} is below it", ""
    namespaces = (old.name, *old.namespaces)
    has_pods = (one.pod.group == old.name or one.pod.namespace in namespaces for one in pods.values())
    if group.is_parent and not old.is_parent and any(has_pods):
        yield "is_parent_with_pods", "there are pods in the group", ""


def _placement(group: ElasticGroup, old: ElasticGroup | None, tree: ElasticTree) -> Iterator[BrokenRule]:
    """Yield the rules that the group violates together with its parent, siblings and children."""
    node, above = tree.nodes.get(group.name), tree.nodes.get(group.parent)
    children = [child.group for child in node.children.values() if child.group is not None] if node else []
    parent = None if above is None or above.parent is None else above.group
    yield from _tree_ids(group, old, parent, children)
    if above is tree.root and not group.is_parent:
        return
    if above is not None and above is not tree.root and (parent is None or not parent.is_parent):
        yield "parent_is_not_parent", f"{above.name!r} is not marked as a parent", "parent"
        return
    misplacements = [*tree.misplacements(group)]
    yield from misplacements
    if misplacements or above is None:
        return
    yield from _names(group, parent, children)
    if not group.force_update and not group.is_root:
        yield from _sums(group, parent, above, node)


def _tree_ids(
    group: ElasticGroup, old: ElasticGroup | None, parent: ElasticGroup | None, children: list[ElasticGroup]
) -> Iterator[BrokenRule]:
    if old is not None and group.tree_id != old.tree_id:
        yield "tree_id_changed", f"the group belongs to the tree {old.tree_id!r}", ""
    if parent is not None and group.tree_id != parent.tree_id:
        yield "tree_id_parent_mismatch", f"{parent.name!r} belongs to another tree", "tree_id"
    for child in children:
        if group.tree_id != child.tree_id:
            yield "tree_id_child_mismatch", f"{child.name!r} belongs to another tree", "tree_id"


def _names(group: ElasticGroup, parent: ElasticGroup | None, children: list[ElasticGroup]) -> Iterator[BrokenRule]:
    """Yield the rules that are violated if the parent and the children name other resources."""
    for other in [parent, *children]:
        if other is not None and other.max.amounts.keys() != group.max.amounts.keys():
            yield "max_keys_mismatch", f"max of {other.name!r} names other resources", "max"
    if parent is not None and not group.min.amounts.keys() <= parent.min.amounts.keys():
        yield "min_keys_not_in_parent", f"min names resources that min of {parent.name!r} does not name", "min"
    for child in children:
        if not child.min.amounts.keys() <= group.min.amounts.keys():
            yield "min_keys_not_in_parent", f"min of {child.name!r} names resources that min does not name", "min"


def _sums(
    group: ElasticGroup, parent: ElasticGroup | None, above: GroupNode, node: GroupNode | None
) -> Iterator[BrokenRule]:
    """Yield the rules that are violated if a sum of minimums exceeds the minimum of the parent."""
    if parent is not None:
        for reason in _excesses("the group and its siblings", _min_sums(above, group), parent.min):
            yield "siblings_min_exceeds_parent_min", f"{reason} of {parent.name!r}", "min"
    for reason in _excesses("its children", {} if node is None else node.child_mins, group.min):
        yield "children_min_exceeds_min", reason, "min"


def _excesses(groups: str, sums: Mapping[str, int], minimums: Resource) -> Iterator[str]:
    for name, total in sums.items():
        minimum = minimums.amounts.get(name, 0)
        if total > minimum:
            added = f"the minimums of {groups} add up to {format_amount(name, total)} {name}"
            yield f"{added}, above min {format_amount(name, minimum)}"


def _min_sums(above: GroupNode, group: ElasticGroup) -> Mapping[str, int]:
    """Return the sums of the minimums of all children of *above*, including the new group, by resource."""
    sums, replaced = Counter(above.child_mins), above.children.get(group.name)
    if replaced is not None and replaced.group is not None:
        sums.subtract(replaced.group.min.amounts)
    sums.update(group.min.amounts)
    return sums

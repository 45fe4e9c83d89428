"""What a change of the configured groups must obey, before it takes effect.

Each rule yields what it finds; the first finding is the one that the original would report. Rules that need an earlier
one to hold are passed over when it does not. Nothing here changes anything.

Source: Koordinator, multi-hierarchy elastic quota management, "Configuration Limit"; the rules beyond it are those of
its webhooks. A group below itself, which they let pass, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from ugm.elastic.errors import Refusal
from ugm.elastic.group import BUILT_IN, DEFAULT_GROUP, ROOT_GROUP, ElasticGroup, parent_of
from ugm.elastic.node import TreeNode
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource, format_amount

__all__ = ["Bound", "refusals_of_create", "refusals_of_delete", "refusals_of_update", "with_defaults"]


class Bound(Protocol):
    """What the rules ask about pods and namespaces."""

    def group_bound_to(self, namespace: str) -> str | None:
        """Return the group that lists a namespace."""
        ...

    def has_pods_of(self, group: str) -> bool:
        """Return whether pods name a group."""
        ...

    def has_pods_in(self, namespace: str) -> bool:
        """Return whether there are pods in a namespace that name no group."""
        ...


def with_defaults(group: ElasticGroup, tree: ElasticTree) -> ElasticGroup:
    """Fill in what a new group leaves out: parent, tree and weights.

    Weights that are given are completed: a resource of the maximum without a weight gets the maximum as its weight, and
    weights of other resources are dropped.
    """
    if group.name == ROOT_GROUP:
        return group
    above = tree.nodes.get(parent_of(group))
    above_id = above.group.tree_id if above is not None and above.group is not None else None
    weight = group.shared_weight
    if weight is not None:
        weight = Resource({name: weight.amounts.get(name, most) for name, most in group.max.amounts.items()})
    tree_id = group.tree_id if group.tree_id is not None else above_id
    return group._replace(parent=parent_of(group), tree_id=tree_id, shared_weight=weight)


def refusals_of_create(group: ElasticGroup, tree: ElasticTree, bound: Bound) -> Iterator[Refusal]:
    """Yield what stands against a new group, its defaults filled in."""
    node = tree.nodes.get(group.name)
    if group.tree_id is None and parent_of(group) not in tree.nodes:
        yield Refusal(group.name, "parent_not_found", f"there is no group {group.parent!r}")
        return
    if group.unread_weight:
        yield from _readable_weight(group)
        return
    if node is not None and node.group is not None:
        yield Refusal(group.name, "already_exists", "there is a group of this name")
        return
    yield from _namespaces(group, bound)
    yield from _amounts(group)
    if group.name != ROOT_GROUP:
        yield from _place(group, None, tree)


def refusals_of_update(group: ElasticGroup, tree: ElasticTree, bound: Bound) -> Iterator[Refusal]:
    """Yield what stands against replacing a group.

    A change of nothing but weights, lending and marks is free; Koordinator does not look at it either.
    """
    node = tree.nodes.get(group.name)
    old = None if node is None else node.group
    if old is not None and _same_place(old, group):
        return
    if group.name in BUILT_IN and group.name != DEFAULT_GROUP:
        yield Refusal(group.name, "forbidden_modify", "the group is built in")
        return
    yield from _namespaces(group, bound)
    if node is None or old is None:
        yield Refusal(group.name, "not_found", "there is no such group")
        return
    yield from _amounts(group)
    yield from _role(group, node, old, bound)
    yield from _place(group, old, tree)


def refusals_of_delete(name: str, tree: ElasticTree, bound: Bound) -> Iterator[Refusal]:
    """Yield what stands against deleting a group."""
    node = tree.nodes.get(name)
    if name in BUILT_IN:
        yield Refusal(name, "forbidden_delete", "the group is built in")
        return
    if node is None:
        yield Refusal(name, "not_found", "there is no such group")
        return
    if node.children:
        yield Refusal(name, "has_children", f"{next(iter(node.children))!r} is below it")
    if bound.has_pods_of(name):
        yield Refusal(name, "has_pods", "there are pods that name it")


def _same_place(old: ElasticGroup, new: ElasticGroup) -> bool:
    return _place_of(old) == _place_of(new)


def _place_of(group: ElasticGroup) -> tuple[object, ...]:
    return group.min, group.max, parent_of(group), group.is_parent, group.tree_id or "", group.namespaces


def _namespaces(group: ElasticGroup, bound: Bound) -> Iterator[Refusal]:
    for namespace in group.namespaces:
        other = bound.group_bound_to(namespace)
        if other not in (None, group.name):
            yield Refusal(group.name, "namespace_bound", f"namespace {namespace!r} is bound to {other!r}")


def _amounts(group: ElasticGroup) -> Iterator[Refusal]:
    """Check the group by itself."""
    weight = group.shared_weight or Resource()
    for word, vector in (("max", group.max), ("min", group.min), ("shared_weight", weight)):
        for name, amount in vector.amounts.items():
            if amount < 0:
                yield Refusal(group.name, f"negative_{word}", f"{word} of {name} is negative")
    yield from _readable_weight(group)
    for name, least in group.min.amounts.items():
        most = group.max.amounts.get(name)
        if most is None:
            yield Refusal(group.name, "min_key_not_in_max", f"min names {name}, and max does not")
        elif least > most:
            told = f"{format_amount(name, least)} above max {format_amount(name, most)}"
            yield Refusal(group.name, "min_exceeds_max", f"min of {name} is {told}")
    for name, used in group.reported_used.amounts.items():
        most = group.max.amounts.get(name)
        if name in group.strict_max and (most is None or used > most):
            yield Refusal(group.name, "max_below_used", f"{format_amount(name, used)} {name} is used, max allows less")


def _readable_weight(group: ElasticGroup) -> Iterator[Refusal]:
    if group.unread_weight:
        yield Refusal(group.name, "bad_shared_weight", f"{group.unread_weight!r} is no mapping of weights")


def _role(group: ElasticGroup, node: TreeNode, old: ElasticGroup, bound: Bound) -> Iterator[Refusal]:
    """Check a change of whether the group is there for groups below it."""
    if old.is_parent and not group.is_parent and node.children:
        yield Refusal(group.name, "is_parent_with_children", f"{next(iter(node.children))!r} is below it")
    if group.is_parent and not old.is_parent and _has_pods(old, bound):
        yield Refusal(group.name, "is_parent_with_pods", "there are pods in it")


def _has_pods(group: ElasticGroup, bound: Bound) -> bool:
    return bound.has_pods_of(group.name) or any(map(bound.has_pods_in, (group.name, *group.namespaces)))


def _place(group: ElasticGroup, old: ElasticGroup | None, tree: ElasticTree) -> Iterator[Refusal]:
    """Check the group against those above, beside and below it."""
    node, above = tree.nodes.get(group.name), tree.nodes.get(parent_of(group))
    children = _children(node)
    parent = None if above is None or above.parent is None else above.group
    yield from _tree_ids(group, old, parent, children)
    if above is tree.root and not group.is_parent:
        return
    if above is None:
        yield Refusal(group.name, "parent_not_found", f"there is no group {group.parent!r}")
        return
    if above is not tree.root and (parent is None or not parent.is_parent):
        yield Refusal(group.name, "parent_is_not_parent", f"{above.name!r} is not there for groups below it")
        return
    if any(one.name == group.name for one in above.path()):
        yield Refusal(group.name, "cycle", f"{above.name!r} is the group itself, or below it")
        return
    yield from _names(group, parent, children)
    if not group.force_update and not group.is_root:
        yield from _sums(group, parent, above, children)


def _children(node: TreeNode | None) -> list[ElasticGroup]:
    return [child.group for child in node.children.values() if child.group is not None] if node else []


def _tree_ids(
    group: ElasticGroup, old: ElasticGroup | None, parent: ElasticGroup | None, children: list[ElasticGroup]
) -> Iterator[Refusal]:
    tree_id = group.tree_id or ""
    if old is not None and tree_id != (old.tree_id or ""):
        yield Refusal(group.name, "tree_id_changed", f"the group belongs to the tree {old.tree_id or ''!r}")
    if parent is not None and tree_id != (parent.tree_id or ""):
        yield Refusal(group.name, "tree_id_parent_mismatch", f"{parent.name!r} belongs to another tree")
    for child in children:
        if tree_id != (child.tree_id or ""):
            yield Refusal(group.name, "tree_id_child_mismatch", f"{child.name!r} belongs to another tree")


def _names(group: ElasticGroup, parent: ElasticGroup | None, children: list[ElasticGroup]) -> Iterator[Refusal]:
    """Check that groups above and below name the same resources."""
    for other in [parent, *children]:
        if other is not None and other.max.amounts.keys() != group.max.amounts.keys():
            yield Refusal(group.name, "max_keys_mismatch", f"max of {other.name!r} names other resources")
    if parent is not None and not group.min.amounts.keys() <= parent.min.amounts.keys():
        yield Refusal(group.name, "min_keys_not_in_parent", f"min names what min of {parent.name!r} does not")
    for child in children:
        if not child.min.amounts.keys() <= group.min.amounts.keys():
            yield Refusal(group.name, "min_keys_not_in_parent", f"min of {child.name!r} names what min does not")


def _sums(
    group: ElasticGroup, parent: ElasticGroup | None, above: TreeNode, children: list[ElasticGroup]
) -> Iterator[Refusal]:
    """Check that minimums fit into the minimum above."""
    if parent is not None:
        mins = _min_sums(above, group)
        for name, total in mins.items():
            most = parent.min.amounts.get(name, 0)
            if total > most:
                told = f"{format_amount(name, total)} {name}, min of {parent.name!r} {format_amount(name, most)}"
                yield Refusal(
                    group.name, "siblings_min_exceeds_parent_min", f"it and its siblings are guaranteed {told}"
                )
    for name in {name: None for child in children for name in child.min.amounts}:
        total, least = sum(child.min.amounts.get(name, 0) for child in children), group.min.amounts.get(name, 0)
        if total > least:
            told = f"{format_amount(name, total)} {name}, the group {format_amount(name, least)}"
            yield Refusal(group.name, "children_min_exceeds_min", f"the groups below it are guaranteed {told}")


def _min_sums(above: TreeNode, group: ElasticGroup) -> Mapping[str, int]:
    """Return the sums of the minimums of all groups below *above*, with the new group, of every resource they name."""
    sums = {**dict.fromkeys(group.min.amounts, 0), **above.child_mins}
    before = above.children.get(group.name)
    own = before.group.min if before is not None and before.group is not None else Resource()
    return {name: total - own.amounts.get(name, 0) + group.min.amounts.get(name, 0) for name, total in sums.items()}

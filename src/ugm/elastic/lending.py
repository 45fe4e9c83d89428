"""The amounts that elastic groups lend each other. They decide which allocations a group has to return.

A group is guaranteed its minimum, scaled down in a shortage. Its share is its runtime, or its minimum if that is more.
A group that uses more than its share uses what others are guaranteed or entitled to.

The admission of a pod compares its group with the runtime, which rises as soon as the group requests more. Usage of
other groups does not fall at the same moment. Therefore the groups together may use more than the cluster has, and
`overuse` yields what they have to release for the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ugm.decision import Violation
from ugm.elastic.admission import GROUP
from ugm.elastic.group import BUILT_IN
from ugm.elastic.nodes import GroupNode
from ugm.elastic.tree import ElasticTree
from ugm.model import Borrower, Guarantee
from ugm.resources import Resource

__all__ = ["borrowers", "overuse"]


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

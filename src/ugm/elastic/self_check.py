"""The self-check: all maintained sums and runtimes, recomputed from the groups and the requests of their pods.

A difference is a bug in ugm. The check only reads.
"""

from __future__ import annotations

from collections.abc import Iterator

from ugm.arguments import require_instance
from ugm.elastic.group import BUILT_IN
from ugm.elastic.nodes import GroupNode, ResourceNode
from ugm.elastic.sharing import shares_of
from ugm.elastic.tree import ElasticTree
from ugm.errors import InvariantError, RequestError

__all__ = ["verify"]


def verify(tree: ElasticTree, *, expected: ElasticTree | None = None) -> None:
    """Compare all sums and runtimes of a tree with recomputed values. Takes the time of a full recomputation.

    Args:
        tree: the tree.
        expected: a tree with the same groups, whose pods have the expected requests and usage.

    Raises:
        InvariantError: with a message for each difference.
        RequestError: an argument is not an ElasticTree, or the trees have different groups.
    """
    require_instance("tree", tree, ElasticTree)
    if expected is not None:
        require_instance("expected", expected, ElasticTree)
        if expected.nodes.keys() != tree.nodes.keys():
            raise RequestError("expected", expected, "expected a tree with the same groups")
    findings = [finding for node in tree.nodes.values() for finding in _group_findings(tree, node)]
    if expected is not None:
        findings += [
            finding for name in tree.nodes for finding in _pod_findings(tree.nodes[name], expected.nodes[name])
        ]
    if findings:
        raise InvariantError(tuple(findings))


def _pod_findings(group: GroupNode, expected: GroupNode) -> Iterator[str]:
    for resource in sorted(group.resources.keys() | expected.resources.keys()):
        counted, due = (_own_counts(node.resources.get(resource)) for node in (group, expected))
        if counted != due:
            yield f"elastic group {group.name!r}, {resource}: its pods count {counted}, expected {due}"


def _own_counts(node: ResourceNode | None) -> tuple[int, ...]:
    """Return the requests and the usage of the pods of a group, and the parts of non-preemptible pods."""
    return (0, 0, 0, 0) if node is None else (*node.own_requests, *node.own_usage)


def _group_findings(tree: ElasticTree, group: GroupNode) -> Iterator[str]:
    if group.parent is not None and group.parent.children.get(group.name) is not group:
        yield f"elastic group {group.name!r} is not listed below {group.parent.name!r}"
    for resource, node in group.resources.items():
        below = [
            child.resources[resource] for child in _contributing_groups(tree, group) if resource in child.resources
        ]
        for name, value, expected in _sums(tree, group, resource, below):
            if value != expected:
                yield f"elastic group {group.name!r}, {resource}: {name} is {value}, expected {expected}"
        if node.is_counted and any(child.competes for child in below):
            yield from _runtime_findings(tree, resource, node, below)


def _contributing_groups(tree: ElasticTree, group: GroupNode) -> list[GroupNode]:
    """Return the groups whose requests and usage are added to a group: its children. Built-in groups feed the root."""
    own = [child for child in group.children.values() if child.name not in BUILT_IN]
    return [*own, *(tree.nodes[name] for name in sorted(BUILT_IN - {group.name}))] if group is tree.root else own


def _sums(
    tree: ElasticTree, group: GroupNode, resource: str, below: list[ResourceNode]
) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the maintained value and the expected value of every sum of a resource."""
    node = group.resources[resource]
    counted = 1 if node.is_counted else 0
    child_request = counted * node.own_request + sum(child.limited_request for child in below)
    request = child_request if node.lends else max(child_request, node.min)
    yield "child request", node.child_request, child_request
    if group.parent is not None:
        yield "limited request", node.limited_request, min(request, node.max)
    else:
        served = sum(child.used for child in below if not child.competes)
        yield "amount to share", node.max, tree.total.get(resource, 0) - served
    yield "usage", node.used, counted * node.own_used + sum(child.used for child in below)
    expected = counted * node.own_non_preemptible_request + sum(child.non_preemptible_request for child in below)
    yield "non-preemptible request", node.non_preemptible_request, expected
    expected = counted * node.own_non_preemptible_used + sum(child.non_preemptible_used for child in below)
    yield "non-preemptible usage", node.non_preemptible_used, expected
    yield "minimum of children", node.shares.mins, sum(child.min for child in below if child.competes)


def _runtime_findings(tree: ElasticTree, resource: str, node: ResourceNode, below: list[ResourceNode]) -> Iterator[str]:
    expected = shares_of(node.runtime(), node.shares.sharers(), scale=tree.scale_min).runtime
    competing = [child for child in below if child.competes]
    if sorted(child.name for child in competing) != list(expected):
        yield f"elastic group {node.name!r}, {resource}: the groups that share differ from those below it"
        return
    for child in competing:
        if child.runtime() != expected[child.name]:
            difference = f"runtime is {child.runtime()}, expected {expected[child.name]}"
            yield f"elastic group {child.name!r}, {resource}: {difference}"

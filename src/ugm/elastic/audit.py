"""The self-check: everything that is kept up to date, recomputed from the groups and from what their pods ask for.

Any difference is a bug in ugm. The check reads only.
"""

from __future__ import annotations

from collections.abc import Iterator

from ugm.elastic.cell import Cell
from ugm.elastic.group import BUILT_IN
from ugm.elastic.node import TreeNode
from ugm.elastic.sharing import share
from ugm.elastic.tree import ElasticTree
from ugm.errors import InvariantError

__all__ = ["verify"]


def verify(tree: ElasticTree) -> None:
    """Compare all sums and all runtimes of a tree with what follows from its groups. Costs a full recomputation.

    Raises:
        InvariantError: with a sentence for each difference.
    """
    findings = [finding for node in tree.nodes.values() for finding in _node(tree, node)]
    if findings:
        raise InvariantError(tuple(findings))


def _node(tree: ElasticTree, node: TreeNode) -> Iterator[str]:
    if node.parent is not None and node.parent.children.get(node.name) is not node:
        yield f"elastic group {node.name!r} is not listed below {node.parent.name!r}"
    for resource, cell in node.cells.items():
        below = [child.cells[resource] for child in _feeding(tree, node) if resource in child.cells]
        for word, kept, due in _sums(tree, node, resource, cell, below):
            if kept != due:
                yield f"elastic group {node.name!r}, {resource}: {word} {kept}, but {due} follows"
        if cell.counts and any(child.competes for child in below):
            yield from _runtimes(tree, resource, cell, below)


def _feeding(tree: ElasticTree, node: TreeNode) -> list[TreeNode]:
    """Return whose requests and usage reach a group: its children, except that built-in groups feed the root."""
    own = [child for child in node.children.values() if child.name not in BUILT_IN]
    return [*own, *(tree.nodes[name] for name in sorted(BUILT_IN - {node.name}))] if node is tree.root else own


def _sums(
    tree: ElasticTree, node: TreeNode, resource: str, cell: Cell, below: list[Cell]
) -> Iterator[tuple[str, int, int]]:
    counts = 1 if cell.counts else 0
    asked = counts * cell.own_request + sum(child.limited for child in below)
    request = asked if cell.lends else max(asked, cell.least)
    yield "child request", cell.child_request, asked
    yield "request", cell.request, request
    if node.parent is not None:
        yield "limited request", cell.limited, min(request, cell.most)
    else:
        served = sum(child.used for child in below if not child.competes)
        yield "what there is", cell.most, tree.total.get(resource, 0) - served
    yield "used", cell.used, counts * cell.own_used + sum(child.used for child in below)
    yield "firm request", cell.firm_request, counts * cell.own_firm_request + sum(child.firm_request for child in below)
    yield "firm used", cell.firm_used, counts * cell.own_firm_used + sum(child.firm_used for child in below)
    least = sum(child.group.min.get(resource, 0) for child in node.children.values() if child.group is not None)
    yield "minimum of children", node.child_mins.get(resource, 0), least


def _runtimes(tree: ElasticTree, resource: str, cell: Cell, below: list[Cell]) -> Iterator[str]:
    shared = share(cell.runtime(), cell.pool.sharers(), scale=tree.scale_min)
    competing = [child for child in below if child.competes]
    if sorted(child.name for child in competing) != list(shared.runtime):
        yield f"elastic group {cell.name!r}, {resource}: others share than are below it"
        return
    for child in competing:
        if child.runtime() != shared.runtime[child.name]:
            due = shared.runtime[child.name]
            yield f"elastic group {child.name!r}, {resource}: runtime {child.runtime()}, but {due} follows"

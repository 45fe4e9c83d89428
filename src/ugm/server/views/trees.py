"""Endpoints that show the trees of quota models: elastic groups, and nodes of quota trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from ugm.resources import Resource
from ugm.server.http.payloads import require_found
from ugm.server.interface.route import PARTITION, Routes, ServedPartition
from ugm.server.interface.schemas import ListQuery, Name, Offset, PageSize, Text
from ugm.server.queries import natural_key
from ugm.server.views.model_trees import MEASURES, BorrowingConsumer, ModelTree, ShownRow, TreeItem, trees_of

__all__ = ["ROUTES"]

ROUTES: Final = Routes()
#: The largest number of nodes that are all visible at first.
_MOST_OPEN: Final = 100
_Sort: Any = Literal[tuple(sorted({"name", "share"}.union(*MEASURES.values())))]


@dataclass(frozen=True, slots=True)
class ListedTree:
    """A tree."""

    name: str
    kind: str
    mode: str
    nodes: int


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A quota model, by the name of its class."""

    model: str
    is_suspended: bool


@dataclass(frozen=True, slots=True)
class Trees:
    """The trees and the quota models of a partition."""

    trees: list[ListedTree]
    models: list[ListedModel]


@dataclass(frozen=True, slots=True)
class Tree(ListedTree):
    """A page of the visible nodes of a tree."""

    borrowers: int
    resources: list[str]
    resource: str
    total: int
    rows: list[ShownRow]


@dataclass(frozen=True, slots=True)
class TreeNodeDetail:
    """A node with its amounts of every resource."""

    name: str
    parent: str
    is_hard: bool
    path: list[str]
    children: int
    borrowers: int
    amounts: dict[str, Resource]


@dataclass(frozen=True, slots=True)
class Borrowers:
    """A page of consumers."""

    total: int
    consumers: list[BorrowingConsumer]


@ROUTES.get(f"{PARTITION}/trees")
def trees(served: ServedPartition) -> Trees:
    """List the trees of quota models, and all quota models of the partition."""
    reports = served.partition.model_reports()
    listed = [ListedTree(one.name, one.kind, one.mode, len(one.nodes)) for one in trees_of(reports)]
    return Trees(listed, [ListedModel(one.model, one.is_suspended) for one in reports])


@ROUTES.get(f"{PARTITION}/tree", types={"sort": _Sort})
def tree(
    served: ServedPartition,
    *,
    tree: Name,
    resource: Name = "",
    search: Text = "",
    offset: Offset = 0,
    limit: PageSize = 100,
    sort: str = "name",
    toggle: Annotated[list[Name], Meta(max_length=50)] = [],  # noqa: B006 - not changed
) -> Tree:
    """Return a page of the visible nodes of a tree, with their amounts of one resource.

    The nodes in ``toggle`` are open if others at their place are closed.
    """
    found = _find(served, tree)
    resource = resource or next(iter(found.resources), "")
    kept, toggled = found.matching(search.lower()) if search else None, frozenset(toggle)
    are_open = len(found.nodes) <= _MOST_OPEN

    def is_open(node: TreeItem, level: int) -> bool:
        return kept is not None or (are_open or level == 1) is not (node.name in toggled)

    page = islice(found.rows(is_open, _sort_key(found, resource, sort), kept), offset, None)
    rows = [
        row._replace(amounts={measure: one.get(resource) for measure, one in found.nodes[row.name].amounts.items()})
        for row in islice(page, limit)
    ]
    total = offset + len(rows) + sum(1 for _ in page)
    own = found.name, found.kind, found.mode, len(found.nodes), len(found.borrowers)
    return Tree(*own, list(found.resources), resource, total, rows)


def _find(served: ServedPartition, name: str) -> ModelTree:
    by_name = {one.name: one for one in trees_of(served.partition.model_reports())}
    return require_found("tree", name, by_name.get)


def _sort_key(found: ModelTree, resource: str, sort: str) -> Callable[[TreeItem], Any]:
    """Return the sort key of siblings; amounts are sorted from the largest, and equal ones by name."""
    if sort == "name":
        return lambda node: natural_key(node.name)
    if sort == "share":
        return lambda node: (-found.share(node, resource), natural_key(node.name))
    return lambda node: (-node.amounts.get(sort, {}).get(resource, 0), natural_key(node.name))


@ROUTES.get(f"{PARTITION}/tree/node")
def tree_node(served: ServedPartition, *, tree: Name, node: Name) -> TreeNodeDetail:
    """Return one node of a tree with its amounts of every resource."""
    found = _find(served, tree)
    one = require_found("node", node, found.nodes.get)
    children, borrowers = len(found.children.get(node, ())), found.held_for_others.get(node, 0)
    amounts = {measure: one.amounts[measure] for measure in MEASURES[found.kind]}
    return TreeNodeDetail(node, one.parent, one.is_hard, list(found.path(node)), children, borrowers, amounts)  # type: ignore[arg-type]  # amounts


class BorrowersQuery(ListQuery, forbid_unknown_fields=True, kw_only=True):
    """The tree, the node and the page of consumers."""

    tree: Name
    node: Name = ""


@ROUTES.get(f"{PARTITION}/tree/borrowers")
def tree_borrowers(served: ServedPartition, *, query: BorrowersQuery) -> Borrowers:
    """Return a page of the consumers that a node above their own node holds; ``node`` holds or owns them."""
    matching = [
        one
        for one in _find(served, query.tree).borrowers
        if query.node in ("", one.node, one.group) and query.matches(one.consumer_id)
    ]
    return Borrowers(len(matching), query.page(matching))

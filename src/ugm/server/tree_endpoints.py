"""Endpoints that show the trees of quota models: elastic groups, and nodes of quota trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from ugm.server.cooperative import cooperatively
from ugm.server.natural_order import natural_key
from ugm.server.payloads import require_found
from ugm.server.state import Query, RequestContext, ServedPartition
from ugm.server.trees import MEASURES, BorrowingConsumer, ModelTree, TreeItem, TreeRow

__all__ = ["tree", "tree_borrowers", "tree_node", "trees"]

#: The default size of a page.
_DEFAULT_PAGE: Final = 100
#: The largest number of nodes that are all visible at first.
_MOST_OPEN: Final = 100


def trees(served: ServedPartition, request: RequestContext) -> object:
    """List the trees of quota models, and all quota models of the partition."""
    models = served.models(request.arrived)
    return {
        "trees": [
            {"name": one.name, "kind": one.kind, "mode": one.mode, "nodes": len(one.nodes)} for one in models.trees
        ],
        "models": [{"model": report.model, "is_suspended": report.is_suspended} for report in models.reports],
    }


def tree(served: ServedPartition, request: RequestContext) -> object:
    """Return a page of the visible nodes of a tree, with their amounts of one resource."""
    found, query = _find(served, request), request.query
    resource = query.get("resource") or next(iter(found.resources), "")
    page = islice(cooperatively(_rows(found, resource, query)), query.get("offset", 0), None)
    most = query.get("limit", _DEFAULT_PAGE)
    rows = [_row_dict(found, row, resource) for row in islice(page, most)]
    return {
        "name": found.name,
        "kind": found.kind,
        "mode": found.mode,
        "nodes": len(found.nodes),
        "borrowers": len(found.borrowers),
        "resources": list(found.resources),
        "resource": resource,
        "total": query.get("offset", 0) + len(rows) + sum(1 for _ in page),
        "rows": rows,
    }


def _find(served: ServedPartition, request: RequestContext) -> ModelTree:
    by_name = {one.name: one for one in served.models(request.arrived).trees}
    return require_found("tree", request.query["tree"], by_name.get)


def _rows(found: ModelTree, resource: str, query: Query) -> Iterable[TreeRow]:
    text, toggled = query.get("search", "").lower(), frozenset(query.get("toggle", ()))
    kept = found.matching(text) if text else None
    are_open = len(found.nodes) <= _MOST_OPEN

    def is_open(node: TreeItem, level: int) -> bool:
        return kept is not None or (are_open or level == 1) is not (node.name in toggled)

    return found.rows(is_open, _sort_key(found, resource, query.get("sort", "name")), kept)


def _sort_key(found: ModelTree, resource: str, sort: str) -> Callable[[TreeItem], Any]:
    """Return the sort key of siblings; amounts are sorted from the largest, and equal ones by name."""
    if sort == "name":
        return lambda node: natural_key(node.name)
    if sort == "share":
        return lambda node: (-found.share(node, resource), natural_key(node.name))
    return lambda node: (-node.amounts.get(sort, {}).get(resource, 0), natural_key(node.name))


def _row_dict(found: ModelTree, row: TreeRow, resource: str) -> dict[str, object]:
    node = row.node
    return {
        "name": node.name,
        "parent": node.parent,
        "is_hard": node.is_hard,
        "level": row.level,
        "position": row.position,
        "siblings": row.siblings,
        "children": row.children,
        "is_open": row.is_open,
        "borrowers": found.held_for_others.get(node.name, 0),
        "amounts": {measure: amounts.get(resource) for measure, amounts in node.amounts.items()},
    }


def tree_node(served: ServedPartition, request: RequestContext) -> object:
    """Return one node of a tree with its amounts of every resource."""
    found = _find(served, request)
    node = require_found("node", request.query["node"], found.nodes.get)
    return {
        "name": node.name,
        "parent": node.parent,
        "is_hard": node.is_hard,
        "path": list(found.path(node.name)),
        "children": len(found.children.get(node.name, ())),
        "borrowers": found.held_for_others.get(node.name, 0),
        "amounts": {measure: dict(node.amounts[measure]) for measure in MEASURES[found.kind]},
    }


def tree_borrowers(served: ServedPartition, request: RequestContext) -> object:
    """Return a page of the consumers that a node above their own node holds."""
    found, query = _find(served, request), request.query
    offset = query.get("offset", 0)
    matching = [one for one in cooperatively(found.borrowers) if _matches(one, query)]
    page = matching[offset : offset + query.get("limit", _DEFAULT_PAGE)]
    return {"total": len(matching), "consumers": [{**one._asdict(), "request": dict(one.request)} for one in page]}


def _matches(borrower: BorrowingConsumer, query: Query) -> bool:
    """Return whether a consumer matches the text, and whether the chosen node holds or owns it."""
    node, text = query.get("node"), query.get("search", "").lower()
    return node in (None, borrower.node, borrower.group) and text in borrower.consumer_id.lower()

"""The state of groups for people and programs: one group as values, and all groups as a table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ugm._json_values import JsonObject
from ugm.arguments import require_instance, require_name, require_number
from ugm.elastic.group import ElasticGroup
from ugm.elastic.nodes import ResourceNode
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource, format_amount

__all__ = ["GroupStatus", "status", "table", "terms_of"]

_HEADER: Final[tuple[str, ...]] = ("", "min", "runtime", "request", "max")
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
        *terms_of(node.group, parent),
        tree.child_request(group),
        tree.request(group),
        tree.limited_request(group),
        tree.used(group),
        tree.runtime(group),
        tree.scaled_min(group),
        Resource({resource: amount for resource, amount in borrowed.items() if amount > 0}),
        Resource({resource: -amount for resource, amount in borrowed.items() if amount < 0}),
    )


def terms_of(group: ElasticGroup | None, parent: str) -> tuple[Resource, Resource]:
    """Return the minimum and the maximum of a group."""
    return (group.min, group.max) if group and parent else (_NOTHING, _NOTHING)


def table(tree: ElasticTree, resource: str, *, width: int = 40) -> str:
    """Return a table of one resource for all groups, each below its parent.

    In a bar ``=`` is the runtime, ``.`` the part of the request above the runtime, and ``|`` marks the minimum.

    Args:
        tree: the groups.
        resource: the resource; groups that do not share it are omitted.
        width: the number of characters for the total of the cluster.

    Raises:
        RequestError: an argument has the wrong type, or *width* is negative.

    >>> from ugm import Resource
    >>> from ugm.elastic import ElasticGroup
    >>> tree = ElasticTree(Resource(gpu=8), [ElasticGroup(name, "", Resource(gpu=4), Resource(gpu=8)) for name in "ab"])
    >>> tree.change_request("a", Resource(gpu=8))
    >>> tree.change_request("b", Resource(gpu=2))
    >>> print(table(tree, "gpu", width=16))
       min  runtime  request  max
    a    4        6        8    8  ========|===....
    b    4        2        2    8  ====    |
    """
    require_instance("tree", tree, ElasticTree)
    require_name("resource", resource)
    require_number("width", width, "characters")
    rows, bars, total = [_HEADER], [""], max(tree.total.get(resource, 0), 1)
    for group in tree.root.walk():
        node = group.resources.get(resource)
        if node is not None and node.competes and node.is_shared:
            indent = "  " * (len([*group.path()]) - 2)
            amounts = (node.min, node.runtime(), node.request, node.max)
            rows.append((f"{indent}{group.name}", *(format_amount(resource, amount) for amount in amounts)))
            bars.append(_bar(node, total, width))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths, bar) for row, bar in zip(rows, bars, strict=True))


def _line(row: tuple[str, ...], widths: list[int], bar: str) -> str:
    name, *amounts = row
    columns = [text.rjust(width) for text, width in zip(amounts, widths[1:], strict=True)]
    return "  ".join([name.ljust(widths[0]), *columns, bar]).rstrip()


def _bar(node: ResourceNode, total: int, width: int) -> str:
    minimum, runtime, request = (amount * width // total for amount in (node.min, node.runtime(), node.request))
    bar = ("=" * runtime).ljust(min(request, width), ".").ljust(minimum)
    return f"{bar[:minimum]}|{bar[minimum:]}"

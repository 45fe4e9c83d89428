"""The state of a group as values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ugm._json_values import JsonObject
from ugm.arguments import require_instance
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["GroupStatus", "status"]

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

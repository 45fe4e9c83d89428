"""What a group shows of itself: what it asks for, uses and gets."""

from __future__ import annotations

from typing import Any, NamedTuple

from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["GroupStatus", "status"]


class GroupStatus(NamedTuple):
    """One group at one moment."""

    group: str
    #: What the pods in it ask for, with what the groups below it ask of it.
    child_request: Resource
    #: The same, but at least the minimum if the group does not lend it.
    request: Resource
    #: What it asks of the group above: its request, up to its maximum.
    limited_request: Resource
    used: Resource
    #: What it may use now, of what the group above shares.
    runtime: Resource
    #: Its minimum, scaled down where the minimums are more than there is.
    scaled_min: Resource

    def to_dict(self) -> dict[str, Any]:
        """Return the status for JSON."""
        return {field: value if isinstance(value, str) else dict(value) for field, value in self._asdict().items()}


def status(tree: ElasticTree, group: str) -> GroupStatus:
    """Return what a group asks for, uses and gets.

    Raises:
        GroupError: the group is unknown.

    >>> from ugm.elastic import ElasticGroup
    >>> tree = ElasticTree(Resource(gpu=8), [ElasticGroup("ml", min=Resource(gpu=2), max=Resource(gpu=4))])
    >>> tree.change_request("ml", Resource(gpu=5))
    >>> status(tree, "ml").request, status(tree, "ml").runtime
    (Resource(gpu=5), Resource(gpu=4))
    """
    return GroupStatus(
        group,
        tree.child_request(group),
        tree.request(group),
        tree.limited_request(group),
        tree.used(group),
        tree.runtime(group),
        tree.scaled_min(group),
    )

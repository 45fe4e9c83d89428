"""One group in a tree of elastic groups: where it hangs, and what is counted there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from ugm.elastic.cell import UNLIMITED_TERMS, Cell, Terms
from ugm.elastic.group import ElasticGroup

__all__ = ["TreeNode"]


@final
class TreeNode:
    """One group in a tree, with what is below it."""

    __slots__ = ("cells", "child_mins", "children", "group", "name", "parent")

    name: str
    #: None for a built-in group that is not configured.
    group: ElasticGroup | None
    #: None for the root.
    parent: TreeNode | None
    #: By name, in the order in which they were put there.
    children: dict[str, TreeNode]
    #: The sums of their minimums, without zeros.
    child_mins: dict[str, int]
    #: By resource; for all resources that the group names, or that anybody below it asks for.
    cells: dict[str, Cell]

    def __init__(self, name: str, group: ElasticGroup | None, parent: TreeNode | None) -> None:
        self.name, self.group, self.parent = name, group, parent
        self.children = {}
        self.child_mins = {}
        self.cells = {}

    def take(self, child: TreeNode) -> None:
        """Put a group below this one."""
        self.children[child.name] = child
        self._sum_min(child, 1)

    def forget(self, child: TreeNode) -> None:
        """Undo `take`."""
        del self.children[child.name]
        self._sum_min(child, -1)

    def _sum_min(self, child: TreeNode, sign: int) -> None:
        for name, least in child.group.min.amounts.items() if child.group else ():
            total = self.child_mins.pop(name, 0) + sign * least
            if total:
                self.child_mins[name] = total

    def terms(self, resource: str) -> Terms:
        """Return what the configuration says of a resource."""
        if self.group is None or self.parent is None:
            return UNLIMITED_TERMS
        return Terms.of(self.group, resource)

    def path(self) -> Iterator[TreeNode]:
        """Yield the group and all above it, the root last."""
        node: TreeNode | None = self
        while node is not None:
            yield node
            node = node.parent

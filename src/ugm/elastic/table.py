"""Groups side by side, for people: what each is guaranteed, gets, asks for and may reach, in numbers and as bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ugm.elastic.group import BUILT_IN
from ugm.elastic.node import TreeNode
from ugm.elastic.tree import ElasticTree
from ugm.resources import format_amount

__all__ = ["table"]

_HEAD: Final = ("", "min", "runtime", "request", "max")


def table(tree: ElasticTree, resource: str, *, width: int = 40) -> str:
    """Return a table of one resource, every group below its parent.

    In a bar ``=`` is runtime, ``.`` is what is asked for and not had, and ``|`` marks the minimum. All bars are as long
    as what the cluster has is wide.

    Args:
        tree: the groups.
        resource: the one to show; groups that do not share it are left out.
        width: of what the cluster has, in characters.

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
    shown = list(_groups(tree.root, resource))
    rows = [(f"{'  ' * depth}{node.name}", *_texts(node, resource)) for depth, node in shown]
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(len(_HEAD))]
    total = max(tree.total.get(resource, 0), 1)
    bars = ["", *(_bar(node, resource, total, width) for _, node in shown)]
    return "\n".join(_line(row, widths, bar) for row, bar in zip([_HEAD, *rows], bars, strict=True))


def _groups(root: TreeNode, resource: str) -> Iterator[tuple[int, TreeNode]]:
    """Yield every group that shares a resource, with its depth, below the one above it."""
    waiting = [(0, child) for child in reversed(root.children.values())]
    while waiting:
        depth, node = waiting.pop()
        if node.name not in BUILT_IN and resource in node.cells and node.cells[resource].is_shared:
            yield depth, node
        waiting += [(depth + 1, child) for child in reversed(node.children.values())]


def _texts(node: TreeNode, resource: str) -> list[str]:
    cell = node.cells[resource]
    return [format_amount(resource, amount) for amount in (cell.least, cell.runtime(), cell.request, cell.most)]


def _line(row: tuple[str, ...], widths: list[int], bar: str) -> str:
    name, *amounts = row
    cells = [name.ljust(widths[0]), *(text.rjust(wide) for text, wide in zip(amounts, widths[1:], strict=True)), bar]
    return "  ".join(cells).rstrip()


def _bar(node: TreeNode, resource: str, total: int, width: int) -> str:
    cell = node.cells[resource]
    least, runtime, request = (amount * width // total for amount in (cell.least, cell.runtime(), cell.request))
    bar = ("=" * runtime).ljust(min(request, width), ".").ljust(least)
    return f"{bar[:least]}|{bar[least:]}"

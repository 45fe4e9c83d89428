"""Whether one more pod fits: what the runtime of its group, its minimum, and the groups above leave.

A resource that the pod does not ask for never denies, not even where more of it is used than allowed; nor does one that
the maximum of the group does not name, which is not counted at all.

Source: Koordinator, multi-hierarchy elastic quota management, "PreFilter".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, final

from ugm.decision import Violation
from ugm.elastic.cell import Cell
from ugm.elastic.node import TreeNode
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["GROUP", "MINIMUM", "Admission", "AdmissionRules", "RuntimeViolation"]

#: The kinds of the violations.
GROUP: Final = "elastic group"
MINIMUM: Final = "elastic group minimum"

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


@final
class RuntimeViolation(Violation):
    """More than the runtime of a group, which others may raise by asking for less."""

    __slots__ = ()

    @property
    def can_wait(self) -> bool:
        """Whether waiting can help: a request that no runtime can ever reach is told as one above the maximum."""
        return True


class AdmissionRules(NamedTuple):
    """What a pod is held to."""

    #: The runtime of its group; or its maximum alone, without lending and borrowing.
    by_runtime: bool = True
    #: Whether the groups above have to have room, too.
    check_parents: bool = False


@final
class Admission:
    """What stands in the way of a pod.

    Args:
        tree: the groups.
        rules: what pods are held to.
    """

    __slots__ = ("_rules", "_tree")

    _tree: ElasticTree
    _rules: AdmissionRules

    def __init__(self, tree: ElasticTree, rules: AdmissionRules) -> None:
        self._tree = tree
        self._rules = rules

    def violations(
        self, group: str, usage: Resource, *, firm: bool = False, freed: Mapping[str, int] = _NOTHING
    ) -> Iterator[Violation]:
        """Yield every limit that *usage* more in a group would exceed: the group's, its minimum's, those above.

        The nearest ancestor comes first.

        Args:
            group: the one that the pod belongs to.
            usage: what the pod asks for.
            firm: whether the pod must not be taken back.
            freed: what of the usage in the group is given up for it.
        """
        node = self._tree.node(group)
        asked = [
            (node.cells[name], name, amount) for name, amount in usage.amounts.items() if _counts(node, name, amount)
        ]
        for cell, name, amount in asked:
            yield from self._runtime(cell, name, amount, freed)
        if firm:
            yield from _minimum(node, asked)
        if self._rules.check_parents:
            # The cells of all resources have parents in the same groups.
            for level in zip(*(_above(cell) for cell, _, _ in asked), strict=True):
                for above, (_, name, amount) in zip(level, asked, strict=True):
                    yield from self._runtime(above, name, amount, freed)

    def _runtime(self, cell: Cell, name: str, amount: int, freed: Mapping[str, int]) -> Iterator[Violation]:
        used = cell.used - freed.get(name, 0)
        if not self._rules.by_runtime:
            if used + amount > cell.most:
                yield Violation(GROUP, cell.name, "", "", name, cell.most, used, amount)
            return
        runtime = cell.runtime()
        if used + amount > runtime:
            most = self._most(cell, name)
            told, limit = (Violation, most) if amount > most else (RuntimeViolation, runtime)
            yield told(GROUP, cell.name, "", "", name, limit, used, amount)

    def _most(self, cell: Cell, name: str) -> int:
        """Return an upper bound of the runtime of a cell, whatever is released.

        A cell gets no more than the one above has to share, than its maximum, and without weight than its minimum. A
        minimum that is not scaled is granted even if there is less to share, and one that is not lent even above the
        maximum.
        """
        top, path = cell.shared_path()
        most = max(self._tree.total.amounts.get(name, 0), 0) if top.parent is None else top.most
        for _, below in path:
            least = 0 if below.lends else below.least
            reach = max(below.most if below.weight > 0 else min(below.most, below.least), least)
            most = min(most if self._tree.scale_min else max(most, below.least), reach)
        return most


def _counts(node: TreeNode, name: str, amount: int) -> bool:
    return amount > 0 and name in node.cells and node.cells[name].is_limited


def _above(cell: Cell) -> Iterator[Cell]:
    """Yield what is above a cell and below the root."""
    while cell.parent is not None and cell.parent.parent is not None:
        cell = cell.parent
        yield cell


def _minimum(node: TreeNode, asked: list[tuple[Cell, str, int]]) -> Iterator[Violation]:
    """Yield where pods that must not be taken back would use more than the minimum of their group."""
    named = node.group.min if node.group is not None else Resource()
    for cell, name, amount in asked:
        if name in named and cell.firm_used + amount > cell.least:
            yield Violation(MINIMUM, node.name, "", "", name, cell.least, cell.firm_used, amount)

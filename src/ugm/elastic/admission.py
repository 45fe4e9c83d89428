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
from ugm.elastic.group import ROOT_GROUP
from ugm.elastic.tree import ElasticTree, TreeNode
from ugm.resources import Resource

__all__ = ["GROUP", "MINIMUM", "AdmissionRules", "RuntimeViolation", "violations"]

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


def violations(
    tree: ElasticTree,
    group: str,
    usage: Resource,
    *,
    firm: bool = False,
    rules: AdmissionRules = AdmissionRules(),  # noqa: B008 - immutable
    freed: Mapping[str, int] = _NOTHING,
) -> Iterator[Violation]:
    """Yield every limit that *usage* more in a group would exceed: the group's, its minimum's, those above.

    Args:
        tree: the groups.
        group: the one that the pod belongs to.
        usage: what the pod asks for.
        firm: whether the pod must not be taken back.
        rules: what it is held to.
        freed: what of the usage in the group is given up for it.
    """
    node = tree.node(group)
    asked = [(name, amount, node.cells[name]) for name, amount in usage.amounts.items() if _counts(node, name, amount)]
    for name, amount, cell in asked:
        yield from _above_runtime(tree, name, amount, cell, freed, rules)
    if firm:
        for name, amount, cell in asked:
            if node.group is not None and name in node.group.min and cell.firm_used + amount > cell.least:
                yield Violation(MINIMUM, group, "", "", name, cell.least, cell.firm_used, amount)
    if rules.check_parents:
        for name, amount, cell in asked:
            above = cell.parent
            while above is not None and above.parent is not None:
                yield from _above_runtime(tree, name, amount, above, freed, rules)
                above = above.parent


def _counts(node: TreeNode, name: str, amount: int) -> bool:
    return amount > 0 and name in node.cells and node.cells[name].is_limited


def _above_runtime(
    tree: ElasticTree, name: str, amount: int, cell: Cell, freed: Mapping[str, int], rules: AdmissionRules
) -> Iterator[Violation]:
    limit = cell.runtime() if rules.by_runtime else cell.most
    used = cell.used - freed.get(name, 0)
    if used + amount <= limit:
        return
    reach = _reach(tree, name, cell) if rules.by_runtime else limit
    if amount > reach or not rules.by_runtime:
        yield Violation(GROUP, cell.name, "", "", name, reach, used, amount)
    else:
        yield RuntimeViolation(GROUP, cell.name, "", "", name, limit, used, amount)


def _reach(tree: ElasticTree, name: str, cell: Cell) -> int:
    """Return what a runtime can be at most: no more than any maximum on the way, nor than the cluster has."""
    reach = cell.most
    while cell.parent is not None and cell.parent.name != ROOT_GROUP and cell.parent.counts:
        cell = cell.parent
        reach = min(reach, cell.most)
    is_shared = cell.competes and cell.parent is not None and cell.parent.parent is None
    return min(reach, tree.total.amounts.get(name, 0)) if is_shared else reach

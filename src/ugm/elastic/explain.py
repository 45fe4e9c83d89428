"""How a runtime came about, and who holds what a denied pod misses.

An `Account` is worked out from the tree when it is asked for, by the sharing itself (`ugm.elastic.sharing`), and says
of every group at the same place what it got and why. Nothing is kept for it while the engine runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from ugm.decision import Violation
from ugm.elastic.admission import GROUP, MINIMUM
from ugm.elastic.cell import BOUNDLESS, Cell
from ugm.elastic.sharing import Round, Shared, share
from ugm.elastic.tree import ElasticTree
from ugm.errors import RequestError
from ugm.resources import format_amount

__all__ = ["Account", "Cap", "Part", "Shortage", "explain", "shortage"]


class Cap(StrEnum):
    """What keeps a group from getting more."""

    REQUEST = "it asks for no more"
    MAX = "its maximum"
    WEIGHT = "it has no weight, and gets nothing beyond its minimum"
    OTHERS = "what the others left"
    NOT_LENT = "it does not lend its minimum"


class Part(NamedTuple):
    """What one group has to do with the sharing of one resource."""

    group: str
    #: As configured.
    min: int
    #: The minimum in force: scaled down where the minimums are more than there is, and than is asked for.
    least: int
    #: None if it is not limited.
    max: int | None
    weight: int
    request: int
    #: What it gets.
    runtime: int
    used: int
    cap: Cap

    @property
    def lent(self) -> int:
        """What others may use of its minimum."""
        return max(self.least - self.runtime, 0)

    @property
    def borrowed(self) -> int:
        """What it gets beyond its minimum."""
        return max(self.runtime - self.least, 0)


class Account(NamedTuple):
    """How the runtime of one group came about, in one resource."""

    group: str
    resource: str
    #: The group above, which shares.
    parent: str
    #: What it has to share.
    available: int
    #: All groups below it, this one among them, by name.
    parts: tuple[Part, ...]
    rounds: tuple[Round, ...]

    @property
    def part(self) -> Part:
        """The part of the group itself."""
        return next(part for part in self.parts if part.group == self.group)

    @property
    def lenders(self) -> tuple[Part, ...]:
        """Who lends to whoever is hungry: the siblings that ask for less than their minimum."""
        return tuple(part for part in self.parts if part.lent and part.group != self.group)

    @property
    def unused(self) -> int:
        """What nobody gets; less than nothing if the minimums are more than there is, and are not scaled."""
        return self.available - sum(part.runtime for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the account for JSON."""
        parts = [{**part._asdict(), "cap": str(part.cap)} for part in self.parts]
        return {**self._asdict(), "parts": parts, "rounds": [each._asdict() for each in self.rounds]}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        def amount(number: int) -> str:
            return format_amount(self.resource, number)

        part = self.part
        limit = "unlimited" if part.max is None else amount(part.max)
        yield f"elastic group {self.group!r} gets {amount(part.runtime)} {self.resource}"
        yield f"  asks for {amount(part.request)}; min {amount(part.min)}, max {limit}, weight {part.weight}"
        if part.least < part.min:
            yield f"  min scaled down to {amount(part.least)}: the minimums are more than there is"
        yield f"  {self.parent!r} has {amount(self.available)} to share"
        for lender in self.lenders:
            yield f"  {lender.group!r} lends {amount(lender.lent)}"
        for number, each in enumerate(self.rounds, 1):
            if self.group in each.given:
                given = amount(each.given[self.group])
                yield f"  round {number} deals {amount(each.left)} to weights of {each.weight}: {given} to it"
        if part.borrowed:
            yield f"  borrows {amount(part.borrowed)}"
        yield f"  capped by: {part.cap}"


class Shortage(NamedTuple):
    """What a denied pod misses, and who has it."""

    #: The group that denies.
    group: str
    resource: str
    missing: int
    #: Groups beside it, or beside a group above it, that use more than their minimum, and how much more; most first.
    borrowers: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        missing = f"elastic group {self.group!r}: {format_amount(self.resource, self.missing)} {self.resource} missing"
        borrowed = [f"{name!r} borrows {format_amount(self.resource, amount)}" for name, amount in self.borrowers]
        return "; ".join([missing, *borrowed])


def explain(tree: ElasticTree, group: str, resource: str) -> Account:
    """Return how the runtime of a group came about. Costs a pass over its siblings, and over the hungry in each round.

    Raises:
        GroupError: the group is unknown.
        RequestError: the group has no runtime of the resource: its maximum does not name it, or it is the root or built
            in, or the group above does not share it.
    """
    cell = tree.node(group).cells.get(resource)
    if cell is None or cell.parent is None or not (cell.is_shared and cell.competes):
        raise RequestError("resource", resource, f"it is not shared out to {group!r}")
    above = cell.parent
    shared = share(above.runtime(), above.pool.sharers(), scale=tree.scale_min)
    parts = tuple(_part(tree.node(name).cells[resource], shared) for name in shared.runtime)
    return Account(group, resource, above.name, shared.available, parts, shared.rounds)


def _part(cell: Cell, shared: Shared) -> Part:
    name = cell.name
    runtime, least = shared.runtime[name], shared.least[name]
    most = None if cell.most >= BOUNDLESS else cell.most
    return Part(name, cell.least, least, most, cell.weight, cell.request, runtime, cell.used, _cap(cell, runtime))


def _cap(cell: Cell, runtime: int) -> Cap:
    if runtime > cell.child_request and not cell.lends:
        return Cap.NOT_LENT
    if runtime >= cell.request:
        return Cap.REQUEST
    if runtime >= cell.limited:
        return Cap.MAX
    return Cap.OTHERS if cell.weight > 0 else Cap.WEIGHT


def shortage(tree: ElasticTree, violation: Violation) -> Shortage:
    """Return what a pod misses that was denied for *violation*, and who has it.

    Whoever must not be taken back competes with nobody: the minimum of the group is what is missing then.

    Raises:
        GroupError: the group is unknown.
        RequestError: the violation is none of elastic groups.
    """
    if violation.kind not in (GROUP, MINIMUM) or violation.resource is None:
        raise RequestError("violation", violation, "it is none of an elastic group")
    borrowers: dict[str, int] = {}
    if violation.kind != MINIMUM:
        for node in tree.node(violation.name).path():
            for sibling in node.parent.children.values() if node.parent else ():
                cell = sibling.cells.get(violation.resource)
                if cell is not None and cell.competes and sibling is not node and cell.used > cell.least:
                    borrowers[sibling.name] = cell.used - cell.least
    ordered = sorted(borrowers.items(), key=lambda each: (-each[1], each[0]))
    return Shortage(violation.name, violation.resource, violation.shortfall, tuple(ordered))

"""One group and one resource: what is asked for and used, and how a change travels up to the root.

Cells of one resource form a tree of their own; nothing in it depends on any other resource. A cell keeps what its pods
ask for and use even while the maximum of the group does not name the resource, but counts it only when it does.

A request reaches the group above only up to the group's maximum; a group that does not lend its minimum asks for
at least that. What is used travels up unlimited. What a cell gets is worked out when it is read, from the root down.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from ugm.elastic.group import ElasticGroup
from ugm.elastic.pool import Pool

__all__ = ["BOUNDLESS", "UNLIMITED_TERMS", "Cell", "Terms"]

#: The maximum of what is not limited: no sane request reaches it.
BOUNDLESS: Final = 1 << 128


class Terms(NamedTuple):
    """What the configuration of a group says of one resource."""

    #: Whether the maximum names the resource: only then is it counted, and shared among the groups below.
    counts: bool
    least: int
    #: `BOUNDLESS` if it is not limited.
    most: int
    weight: int
    lends: bool

    @classmethod
    def of(cls, group: ElasticGroup, resource: str) -> Terms:
        """Read the terms of a group."""
        most = group.max.amounts.get(resource)
        return cls(
            most is not None,
            group.min.amounts.get(resource, 0),
            BOUNDLESS if most is None else most,
            group.weight.amounts.get(resource, 0),
            group.allow_lent,
        )


#: For groups without a configuration: the root, and built-in groups whose maximum nobody has set.
UNLIMITED_TERMS: Final = Terms(counts=True, least=0, most=BOUNDLESS, weight=0, lends=True)


@final
class Cell:
    """What one group asks for, uses and gets of one resource.

    A cell is made without parent, and then attached.
    """

    __slots__ = (
        "child_request",
        "competes",
        "counts",
        "firm_request",
        "firm_used",
        "least",
        "lends",
        "limited",
        "most",
        "name",
        "own_firm_request",
        "own_firm_used",
        "own_request",
        "own_used",
        "parent",
        "pool",
        "request",
        "used",
        "weight",
    )

    #: That of the group.
    name: str
    #: The same resource of the group above; None for the root.
    parent: Cell | None
    #: The children that compete.
    pool: Pool
    #: Whether the cell is in the pool of its parent; the root and the built-in groups are in none.
    competes: bool
    #: What pods directly in the group ask for and use, counted or not. "Firm" is what must not be taken back.
    own_request: int
    own_firm_request: int
    own_used: int
    own_firm_used: int
    #: What pods in the group and what the groups below it ask for.
    child_request: int
    #: The same, but at least the minimum if the group does not lend it.
    request: int
    #: What the group asks of the one above.
    limited: int
    #: What pods in the group and below it use.
    used: int
    firm_request: int
    firm_used: int
    counts: bool
    least: int
    most: int
    weight: int
    lends: bool

    def __init__(self, name: str, terms: Terms, *, competes: bool, scales: bool) -> None:
        self.name = name
        self.parent = None
        self.pool = Pool(scales=scales)
        self.competes = competes
        self.own_request = self.own_firm_request = self.own_used = self.own_firm_used = 0
        self.child_request = self.request = self.limited = self.used = self.firm_request = self.firm_used = 0
        self._adopt(terms)

    def _adopt(self, terms: Terms) -> None:
        self.counts, self.least, self.most, self.weight, self.lends = terms
        self.request = self._request_of(self.child_request)
        self.limited = min(self.request, self.most)

    def _request_of(self, child_request: int) -> int:
        return child_request if self.lends or child_request > self.least else self.least

    def attach(self, parent: Cell) -> None:
        """Put the cell below another one, with all that is asked for and used in and below it."""
        self.parent = parent
        if self.competes:
            parent.pool.add(self)
        parent.ask_up(self.limited)
        parent.use_up(self.firm_request, self.used, self.firm_used)

    def detach(self) -> None:
        """Undo `attach`."""
        parent = self.parent
        if parent is None:
            return
        if self.competes:
            parent.pool.remove(self)
        self.parent = None
        parent.ask_up(-self.limited)
        parent.use_up(-self.firm_request, -self.used, -self.firm_used)

    def set_terms(self, terms: Terms) -> None:
        """Bring another configuration into force."""
        parent = self.parent
        self.detach()
        self._count_own(-1)
        self.counts = terms.counts
        self._count_own(1)
        self._adopt(terms)
        if parent is not None:
            self.attach(parent)

    def _count_own(self, sign: int) -> None:
        if self.counts:
            self.child_request += sign * self.own_request
            self.firm_request += sign * self.own_firm_request
            self.used += sign * self.own_used
            self.firm_used += sign * self.own_firm_used

    @property
    def is_shared(self) -> bool:
        """Whether the group has a runtime of the resource: it names it, and so does the group above."""
        return self.counts and self.most < BOUNDLESS and (self.parent is None or self.parent.counts)

    @property
    def is_limited(self) -> bool:
        """Whether anything limits what the group may use of the resource."""
        return self.counts and self.most < BOUNDLESS

    def own(self, *, asks: bool) -> tuple[int, int]:
        """Return what pods directly in the group ask for, or use, and how much of it is firm; counted or not."""
        return (self.own_request, self.own_firm_request) if asks else (self.own_used, self.own_firm_used)

    def ask(self, delta: int, firm: int = 0) -> None:
        """Count a change of what pods directly in the group ask for; *firm* is the part that must not be taken back."""
        self.own_request += delta
        self.own_firm_request += firm
        if self.counts:
            self.ask_up(delta)
            if firm:
                self.use_up(firm, 0, 0)

    def use(self, delta: int, firm: int = 0) -> None:
        """Count a change of what pods directly in the group use."""
        self.own_used += delta
        self.own_firm_used += firm
        if self.counts:
            self.use_up(0, delta, firm)

    def ask_up(self, delta: int) -> None:
        """Count a change of what is asked for from here up, as far as it is felt."""
        cell = self
        while delta:
            child_request = cell.child_request = cell.child_request + delta
            parent = cell.parent
            if parent is None:
                cell.request = child_request
                return
            request = child_request if cell.lends or child_request > cell.least else cell.least
            cell.request = request
            limited = min(cell.most, request)
            delta = limited - cell.limited
            if delta:
                if cell.competes:
                    parent.pool.ask(cell, limited)
                else:
                    cell.limited = limited
                cell = parent

    def use_up(self, firm_request: int, used: int, firm_used: int) -> None:
        """Count a change of what is used, and of what is firm, from here up to the root."""
        cell: Cell | None = self
        while cell is not None:
            cell.firm_request += firm_request
            cell.used += used
            cell.firm_used += firm_used
            cell = cell.parent

    def runtime(self) -> int:
        """Return what the group gets of the resource now.

        The root gets what there is for groups. Below a group that does not name the resource it is not shared, and a
        group there gets up to its maximum; so does a built-in group.
        """
        top, path = self.shared_path()
        gets = top.most
        for pool, cell in path:
            gets = pool.at_least(cell, gets)
        if gets != self.limited or (gets < self.least and not self.lends):
            gets = top.most
            for pool, cell in path:
                gets = pool.exactly(cell, gets)
        return gets

    def shared_path(self) -> tuple[Cell, list[tuple[Pool, Cell]]]:
        """Return the uppermost cell that shares, and all below it down to this one, each with its pool."""
        cell, path = self, []
        while cell.competes and cell.parent is not None and cell.parent.counts:
            path.append((cell.parent.pool, cell))
            cell = cell.parent
        path.reverse()
        return cell, path

    def scaled_min(self) -> int:
        """Return the minimum, scaled down if the minimums in its pool are more than there is."""
        parent = self.parent
        if parent is None or not self.competes:
            return self.least
        return parent.pool.scaled_min(self, parent.runtime())

"""The kernel: a quota is a node in a tree, and a request charges chains of nodes, all of them or none.

A *node* is one limit at one place of a hierarchy, with what it still leaves. A *chain* is the counters of the nodes that
one request must fit, leaf to root; the chains of a user, of a group and of any other quota are simply joined into one. A
request is *checked* against every counter of its chain first, reading only, and *charged* to them only when all agree.

A counter is a list with a column for each resource that some limit names, and column 0 for running applications. It
holds what is free, not what is used: a check is then one comparison. Where a node does not limit a column, the counter
starts from `UNLIMITED`, a number that no sane request reaches; what the node has used is exact either way.

This module knows no users, queues or configurations. It has no lock and never fails half-way: callers validate first,
under the lock of their engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = [
    "APPLICATIONS",
    "ONE_APPLICATION",
    "UNLIMITED",
    "Chain",
    "Layout",
    "Limit",
    "Node",
    "Row",
    "admit",
    "charge",
    "fits",
    "refund",
]

#: What a request asks, as (column, amount) pairs, without the columns of which it asks nothing.
Row = tuple[tuple[int, int], ...]

#: The counters that a request must fit, leaf to root. Tuples stand for nodes that nothing is charged to yet.
Chain = Iterable[Sequence[int]]

#: Where a counter starts in a column that its node does not limit. A request beyond it is not lost: a failed check is
#: always gone over again, limit by limit, before anybody is denied.
UNLIMITED: Final = 1 << 128

#: The column that counts running applications.
APPLICATIONS: Final = 0

#: What an application asks, beyond its resources, of every node below which it does not run yet.
ONE_APPLICATION: Final[Row] = ((APPLICATIONS, 1),)


@final
class Layout:
    """Which column counts which resource: one layout for all counters that may stand in one chain.

    Only resources that some limit names have a column. An engine keeps its layout for as long as the names stay the
    same, because every `Resource` remembers the row it has in the layout that asked last.
    """

    __slots__ = ("columns", "names")

    #: Sorted; the name at position i is counted in column i + 1.
    names: tuple[str, ...]
    columns: Mapping[str, int]

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = tuple(sorted(set(names)))
        self.columns = {name: column for column, name in enumerate(self.names, start=1)}

    def row(self, usage: Resource) -> Row:
        """Return what *usage* asks of each column, worked out once for each vector.

        Raises:
            RequestError: an amount is negative.
        """
        for name, amount in usage.amounts.items():
            if amount < 0:
                raise RequestError("usage", usage, f"the amount of {name} is negative")
        row = self.row_of(usage.amounts)
        usage.compiled = (self, row)
        return row

    def row_of(self, amounts: Mapping[str, int]) -> Row:
        """Return what *amounts*, none of them negative, ask of each column."""
        columns = self.columns
        return tuple((columns[name], amount) for name, amount in amounts.items() if amount and name in columns)


@final
class Limit:
    """The most that a node allows: of some resources, of running applications, or of both.

    Attributes:
        resources: a missing name is unlimited, a 0 allows none.
        applications: how many may run; 0 is no limit.
        wildcard: whether the limit holds for everybody whom no other limit names.
        place: where it was set, for people: the queue path and the position among its limits.
    """

    __slots__ = ("_caps", "applications", "place", "resources", "wildcard")

    def __init__(
        self, resources: Resource, applications: int = 0, *, wildcard: bool = False, place: str = ""
    ) -> None:
        self.resources: Final = resources
        self.applications: Final = applications
        self.wildcard: Final = wildcard
        self.place: Final = place
        self._caps: tuple[Layout | None, tuple[int, ...]] = (None, ())

    def caps(self, layout: Layout) -> tuple[int, ...]:
        """Return the counter of a node with this limit that nothing is charged to yet."""
        known, caps = self._caps
        if known is not layout:
            amounts = self.resources.amounts
            caps = (self.applications or UNLIMITED, *(amounts.get(name, UNLIMITED) for name in layout.names))
            self._caps = (layout, caps)
        return caps


@final
class Node:
    """One limit at one place, and what it still leaves.

    Invariant: ``caps[i] - free[i]`` is the sum of what is charged below the node, for every column i.
    """

    __slots__ = ("caps", "free", "limit")

    limit: Limit
    #: The counter as it would be if nothing were charged; shared with all nodes of the same limit.
    caps: tuple[int, ...]
    #: The counter. The list stays the same object for the life of the node, because chains hold it. An amount below
    #: zero says by how much a limit was set, or an existing allocation counted, beyond what is allowed.
    free: list[int]

    def __init__(self, limit: Limit, layout: Layout) -> None:
        self.limit = limit
        self.caps = limit.caps(layout)
        self.free = list(self.caps)

    def used(self, column: int) -> int:
        """Return what is charged to one column."""
        return self.caps[column] - self.free[column]

    def replace_limit(self, limit: Limit, layout: Layout) -> None:
        """Put another limit in force; what is charged stays. The layout must be the one that the node was made with."""
        caps = limit.caps(layout)
        self.free[:] = [free + new - old for free, new, old in zip(self.free, caps, self.caps, strict=True)]
        self.limit, self.caps = limit, caps


# The four operations below are the hot path of every engine. Columns outside and counters inside is the faster nesting:
# amounts are then local variables, and the first exhausted counter ends the check.


def fits(chain: Chain, row: Row) -> bool:
    """Return whether every counter of *chain* leaves what *row* asks.

    Takes at most one comparison for each counter and column asked for; changes nothing.
    """
    for column, amount in row:
        for free in chain:
            if free[column] < amount:
                return False
    return True


def charge(chain: Iterable[list[int]], row: Row) -> None:
    """Take *row* from every counter of *chain*, whether or not it fits."""
    for column, amount in row:
        for free in chain:
            free[column] -= amount


def refund(chain: Iterable[list[int]], row: Row) -> None:
    """Give *row* back to every counter of *chain*: the exact inverse of `charge`."""
    for column, amount in row:
        for free in chain:
            free[column] += amount


def admit(checked: Sequence[list[int]], charged: Sequence[list[int]], row: Row) -> bool:
    """Charge *row* to all of *charged* if all of *checked* leave it, else change nothing.

    The two chains are the same but where somebody is counted without being held to it.

    >>> layout = Layout(["memory"])
    >>> team, company = (Node(Limit(Resource(memory=most)), layout) for most in (4, 10))
    >>> chain = [team.free, company.free]
    >>> admit(chain, chain, layout.row(Resource(memory=3)))
    True
    >>> admit(chain, chain, layout.row(Resource(memory=2)))
    False
    >>> company.used(layout.columns["memory"])
    3
    """
    for column, amount in row:
        for free in checked:
            if free[column] < amount:
                return False
    for column, amount in row:
        for free in charged:
            free[column] -= amount
    return True

"""Lending during a replay: the amounts that groups of quota models use beyond their guarantees, and their lenders.

A group *borrows* what it uses beyond its guarantee. It borrows from other groups only as far as the amounts that are
guaranteed to no group are used up. The lent amount is then divided among the lenders in proportion to what they leave
unused of their guarantees, and among the borrowers in proportion to what they borrow.

The problem: each start and end of a job changes the part of every lender and borrower.

The idea: the part of a group is a factor that all groups share, times an amount of the group that rarely changes. So
the factor is summed over time, once for all groups, and a group multiplies the difference of two sums with its amount
when that amount changes. The sums are integers in units of 2**-`_BITS`, so the results do not depend on the machine,
and rounding does not add up to a whole unit.

The cost: constant time for each start and end, and time proportional to the number of lenders while something is lent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from ugm._json_values import JsonMapping
from ugm.decision import EffectiveLimit
from ugm.partition import AbstractPartition
from ugm.resources import Resource
from ugm.simulation.report import GroupLending, GroupLoan

__all__ = ["LendingGroup", "LendingGroups", "Sharing"]

#: The number of bits of a fraction of a unit.
_BITS: Final = 160


@final
@dataclass(slots=True, eq=False)
class Sharing:
    """One resource that the groups of a model share."""

    kind: str
    resource: str
    capacity: int
    groups: list[LendingGroup] = field(default_factory=list)
    #: The second up to which the sums are computed.
    _now: int = 0
    #: The amounts that all groups use, use beyond their guarantees, and leave unused of them.
    used: int = 0
    borrowed: int = 0
    unused: int = 0
    #: The sum over time of the share of the unused amounts that is lent, and of its share of the borrowed amounts.
    rate: int = 0
    pair_rate: int = 0

    @property
    def lent(self) -> int:
        """The amount that is borrowed from other groups now."""
        if not self.borrowed or not self.unused:
            return 0
        # Not more than what is borrowed, even if usage exceeds the capacity.
        return min(max(self.unused - max(self.capacity - self.used, 0), 0), self.borrowed)

    def advance(self, now: int) -> None:
        """Compute the sums up to a second."""
        seconds, self._now = now - self._now, now
        if seconds and self.unused and (lent := self.lent):
            amount = lent * seconds << _BITS
            self.rate += amount // self.unused
            self.pair_rate += amount // (self.unused * self.borrowed)


@final
@dataclass(slots=True, eq=False)
class LendingGroup:
    """One resource of one group."""

    sharing: Sharing
    name: str
    guaranteed: int
    used: int = 0
    peak: int = 0
    #: The amounts times seconds that it has borrowed, and that it has lent in units of 2**-`_BITS`.
    _borrowed_time: int = 0
    _lent_time: int = 0
    #: The same that it has lent to each group.
    _loans: defaultdict[LendingGroup, int] = field(default_factory=lambda: defaultdict(int))
    _now: int = 0
    _rate: int = 0
    _pair_rate: int = 0

    @property
    def borrowed(self) -> int:
        """The amount that it uses beyond its guarantee."""
        return max(self.used - self.guaranteed, 0)

    @property
    def unused(self) -> int:
        """The part of its guarantee that it does not use."""
        return max(self.guaranteed - self.used, 0)

    def change(self, now: int, amount: int) -> None:
        """Change its usage at a second."""
        sharing = self.sharing
        sharing.advance(now)
        self.count_up_to(now)
        before = self.used - self.guaranteed
        after = before + amount
        used = self.used = self.used + amount
        sharing.used += amount
        if before >= 0 <= after:
            sharing.borrowed += amount
        elif before <= 0 >= after:
            sharing.unused -= amount
        else:
            sharing.borrowed += max(after, 0) - max(before, 0)
            sharing.unused += max(-after, 0) - max(-before, 0)
        if used > self.peak:  # noqa: PLR1730 - a call of `max` takes longer
            self.peak = used

    def count_up_to(self, now: int) -> None:
        """Count what it has borrowed and lent up to a second, to which the sharing has advanced."""
        sharing, more = self.sharing, self.used - self.guaranteed
        if more > 0:
            self._borrowed_time += more * (now - self._now)
        self._now = now
        if sharing.rate != self._rate:
            if more < 0:
                self._lent_time -= more * (sharing.rate - self._rate)
            if more:
                self._count_loans(more)
            self._rate, self._pair_rate = sharing.rate, sharing.pair_rate

    def _count_loans(self, more: int) -> None:
        """Count the loans between this group and all others; *more* is its usage beyond its guarantee."""
        total, since = self.sharing.pair_rate, self._pair_rate
        for other in self.sharing.groups:
            # Negative if one of them borrows and the other one lends. Properties would take three times as long.
            product = more * (other.used - other.guaranteed)
            if product < 0:
                borrower, lender = (self, other) if more > 0 else (other, self)
                rate = total - max(since, other._pair_rate)  # noqa: SLF001 - of this class
                lender._loans[borrower] -= product * rate  # noqa: SLF001 - of this class

    def summary(self) -> GroupLending:
        """Return the summary for the report."""
        return GroupLending(
            self.sharing.kind,
            self.name,
            self.sharing.resource,
            self.guaranteed,
            self.peak,
            self._borrowed_time,
            _rounded(self._lent_time),
        )

    def loans(self) -> Iterator[GroupLoan]:
        """Yield what it has lent to each group."""
        for borrower, amount in self._loans.items():
            if rounded := _rounded(amount):
                yield GroupLoan(self.sharing.kind, self.sharing.resource, borrower.name, self.name, rounded)


def _rounded(amount: int) -> int:
    return (amount + (1 << _BITS - 1)) >> _BITS


@final
@dataclass(slots=True, eq=False)
class LendingGroups:
    """All groups with guarantees, in their lowest level."""

    sharings: list[Sharing] = field(default_factory=list)
    #: The groups of every resource, by the place and the name of their limits.
    _groups: dict[tuple[str, str], dict[str, LendingGroup]] = field(default_factory=dict)

    @classmethod
    def of(cls, partition: AbstractPartition) -> LendingGroups:
        """Return the groups of the elastic quotas and quota trees of a partition without allocations."""
        made = cls()
        for report in partition.model_reports():
            if report.state.get("kind") == "elastic":
                made._add_elastic(report.state)
            for tree in report.state.get("trees", ()):
                made._add_tree(tree)
        return made

    def _add_elastic(self, state: JsonMapping) -> None:
        parents = {group["parent"] for group in state["groups"]}
        sharings: dict[str, Sharing] = {}
        for group in state["groups"]:
            if (name := group["group"]) not in parents:
                self._add("elastic group", f"elastic group {name!r}", name, group["min"], state["total"], sharings)

    def _add_tree(self, tree: JsonMapping) -> None:
        parents = {node["parent"] for node in tree["nodes"]}
        total: Mapping[str, int] = next((node["quota"] for node in tree["nodes"] if not node["parent"]), {})
        sharings: dict[str, Sharing] = {}
        for node in tree["nodes"]:
            if (name := node["name"]) not in parents and node["parent"]:
                self._add("quota node", f"quota tree {tree['name']!r}", name, node["quota"], total, sharings)

    def _add(
        self,
        kind: str,
        place: str,
        name: str,
        guaranteed: Mapping[str, int],
        total: Mapping[str, int],
        sharings: dict[str, Sharing],
    ) -> None:
        for resource, amount in guaranteed.items():
            if resource not in sharings:
                sharings[resource] = Sharing(kind, resource, total.get(resource, 0))
                self.sharings.append(sharings[resource])
            sharing = sharings[resource]
            group = LendingGroup(sharing, name, amount)
            sharing.groups.append(group)
            sharing.unused += amount
            self._groups.setdefault((place, name), {})[resource] = group

    def __bool__(self) -> bool:
        return bool(self.sharings)

    def group(self, place: str, name: str, resource: str | None) -> LendingGroup | None:
        """Return a group by the place and the name of its limits; None if there is none."""
        return None if resource is None else self._groups.get((place, name), {}).get(resource)

    def of_limits(self, limits: Iterable[EffectiveLimit], usage: Resource) -> list[tuple[LendingGroup, int]]:
        """Return the groups that a job with some limits is charged to, with the amounts."""
        return [
            (group, amount)
            for limit in limits
            for resource, group in self._groups.get((limit.place, limit.name), {}).items()
            if (amount := usage.get(resource, 0))
        ]

    def finish(self, now: int) -> None:
        """Count everything up to the last second."""
        for sharing in self.sharings:
            sharing.advance(now)
            for group in sharing.groups:
                group.count_up_to(now)

    def summaries(self) -> tuple[GroupLending, ...]:
        """Return the summary of each group, those that borrowed most first."""
        found = [group.summary() for sharing in self.sharings for group in sharing.groups]
        return tuple(sorted(found, key=lambda one: (one.kind, one.resource, -one.borrowed, -one.lent, one.name)))

    def loans(self) -> tuple[GroupLoan, ...]:
        """Return what each group has lent to each other group, the most first."""
        found = [loan for sharing in self.sharings for group in sharing.groups for loan in group.loans()]
        return tuple(sorted(found, key=lambda one: (one.kind, one.resource, -one.amount, one.borrower, one.lender)))

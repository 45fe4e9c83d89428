"""The search for the allocations that groups have to return, among those that the rules allow.

The values of `ugm.model.Borrower` determine which allocations the rules allow. A function determines whether some of
them suffice. The search knows neither the partition nor its models.

The rules regard only the resources that the request lacks. An allocation may be evicted if

1. it is preemptible and uses such a resource;
2. in some model, the request is within the guarantee of its group, or of one above it that does not contain the
   allocation: at least one such resource that the allocation uses is guaranteed, and no guarantee is exceeded;
3. in that model, its group still uses more than its share when the victims before it have left;
4. in no model, a group that loses the allocation falls below its guarantee.

Priorities do not matter for the right to reclaim, only for the choice. A group that lost an allocation cannot reclaim
it, because it used more than its guarantee with it. It may borrow again.

The choice: allocations of low priority come first, then those that use most of the missing amounts, then by id. They
are added until the request fits; if it never does, the smallest allocations come first. Each victim that is not needed
is then removed, the most important first, so none can be left out.

The cost: one call of the function for each candidate that is added or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from ugm.decision import Violation
from ugm.identity import TrackingType
from ugm.model import Borrower, Guarantee
from ugm.partition.eviction.reclaim_plan import ProtectedCount, Protection
from ugm.partition.rows import Allocation

__all__ = ["ReclaimCandidate", "VictimSearch", "Victims", "is_entitled"]

#: A guarantee: the number of the model, and the place, name and resource.
_Key: TypeAlias = tuple[int, str, str, str]


@final
@dataclass(slots=True, eq=False)
class ReclaimCandidate:
    """An allocation of another group."""

    row: Allocation
    #: The amounts of missing resources that it uses; one object for many candidates that use the same.
    frees: Mapping[str, int]
    #: The part of the missing amounts that it frees, in millionths.
    size: int
    #: Its group in each model that lends, with the number of the model; one object for all candidates of the group.
    groups: list[tuple[int, Borrower]]

    @property
    def importance(self) -> tuple[int, int]:
        """Its priority; of two with equal ones, the one that frees less is more important."""
        return self.row.priority, -self.size


@final
@dataclass(slots=True, eq=False)
class Victims:
    """A set of victims that the rules allow."""

    chosen: dict[str, ReclaimCandidate] = field(default_factory=dict)
    #: The amounts of missing resources that they use together.
    freed: Counter[str] = field(default_factory=Counter)
    _taken: Counter[_Key] = field(default_factory=Counter)

    def add(self, candidate: ReclaimCandidate) -> None:
        """Add a candidate."""
        self._count(candidate, 1)
        self.chosen[candidate.row.allocation_id] = candidate

    def remove(self, candidate: ReclaimCandidate) -> None:
        """Undo `add`."""
        self._count(candidate, -1)
        del self.chosen[candidate.row.allocation_id]

    def _count(self, candidate: ReclaimCandidate, times: int) -> None:
        for resource, amount in candidate.frees.items():
            self.freed[resource] += times * amount
        for model, borrower in candidate.groups:
            for one in borrower.guarantees:
                self._taken[_key(model, one)] += times * candidate.frees.get(one.resource, 0)

    def used(self, model: int, guarantee: Guarantee) -> int:
        """Return the usage of a group after the eviction of all victims."""
        return guarantee.used - self._taken[_key(model, guarantee)] if self._taken else guarantee.used

    def protection_of(self, candidate: ReclaimCandidate) -> Protection | None:
        """Return the first reason against a further victim; None if the rules allow it."""
        if not candidate.row.preemptible:
            return Protection.NOT_PREEMPTIBLE
        if not candidate.frees:
            return Protection.FREES_NOTHING
        entitled = [group for group in candidate.groups if is_entitled(group[1].entitled, candidate.frees)]
        if not entitled:
            return Protection.NOT_ENTITLED
        if not any(self._exceeds_share(candidate, *group) for group in entitled):
            return Protection.WITHIN_SHARE
        return Protection.GUARANTEE if self._breaks_guarantee(candidate) else None

    # Loops, because generators take twice as long, and a search asks for every allocation of the other groups.

    def _exceeds_share(self, candidate: ReclaimCandidate, model: int, borrower: Borrower) -> bool:
        for one in borrower.guarantees:
            if one.name == borrower.name and one.resource in candidate.frees and self.used(model, one) > one.share:
                return True
        return False

    def _breaks_guarantee(self, candidate: ReclaimCandidate) -> bool:
        frees = candidate.frees
        for model, borrower in candidate.groups:
            for one in borrower.guarantees:
                freed = frees.get(one.resource)
                if freed and one.guaranteed and self.used(model, one) - freed < one.guaranteed:
                    return True
        return False


def _key(model: int, guarantee: Guarantee) -> _Key:
    return model, guarantee.place, guarantee.name, guarantee.resource


def is_entitled(guarantees: Iterable[Guarantee], resources: Mapping[str, int]) -> bool:
    """Return whether a request is within the guarantee of one of its groups in some resources."""
    within: dict[tuple[str, str], bool] = {}
    for one in guarantees:
        if one.resource in resources and one.guaranteed:
            group = one.place, one.name
            within[group] = within.get(group, True) and one.used <= one.guaranteed
    return any(within.values())


@final
@dataclass(slots=True, eq=False)
class VictimSearch:
    """The search for victims for one request."""

    #: What the request lacks.
    missing: Sequence[Violation]
    #: By allocation id.
    candidates: Mapping[str, ReclaimCandidate]
    #: What the node of the request lacks, if it has one; all candidates are there.
    lacking: Mapping[str, int]
    #: Returns whether the request fits without some allocations.
    fits: Callable[[Iterable[ReclaimCandidate]], bool]
    #: The reasons against candidates as the only victim, as far as they are known, by what decides about them.
    _protections: dict[tuple[object, ...], Protection | None] = field(default_factory=dict, init=False)

    def run(self) -> Victims | None:
        """Return the victims; None if there is no set that the rules allow and that suffices."""
        allowed = [one for one in self.candidates.values() if self._protection_of(one) is None]
        by_priority = sorted(allowed, key=lambda one: (one.importance, one.row.allocation_id))
        by_size = sorted(allowed, key=lambda one: (one.size, one.row.allocation_id))
        victims = self._add_until_fit(by_priority) or self._add_until_fit(by_size)
        return None if victims is None else self._without_needless(victims)

    def _protection_of(self, candidate: ReclaimCandidate) -> Protection | None:
        """Return the first reason against the eviction of a candidate alone; None if the rules allow it."""
        # Most allocations of a group use the same amounts. Equal amounts and groups are the same objects.
        alike = candidate.row.preemptible, id(candidate.frees), *map(id, candidate.groups)
        if alike not in self._protections:
            self._protections[alike] = Victims().protection_of(candidate)
        return self._protections[alike]

    def _add_until_fit(self, order: Iterable[ReclaimCandidate]) -> Victims | None:
        """Return the first candidates that the rules allow and that suffice."""
        victims = Victims()
        for candidate in order:
            if victims.protection_of(candidate) is None:
                victims.add(candidate)
                if self._may_suffice(victims) and self.fits(victims.chosen.values()):
                    return victims
        return None

    def _may_suffice(self, victims: Victims) -> bool:
        """Return whether the victims use as much as the node and any queue lack; this saves most checks."""
        return all(victims.freed[name] >= amount for name, amount in self.lacking.items()) and all(
            victims.freed[one.resource] >= one.shortfall
            for one in self.missing
            if one.kind == TrackingType.QUEUE and one.resource is not None
        )

    def _without_needless(self, victims: Victims) -> Victims:
        """Remove each victim without which the request fits as well, until there is none."""
        while True:
            important_first = sorted(victims.chosen.values(), key=lambda one: one.importance, reverse=True)
            needless = next((one for one in important_first if self._fits_without(victims, one)), None)
            if needless is None:
                return victims
            victims.remove(needless)

    def _fits_without(self, victims: Victims, left_out: ReclaimCandidate) -> bool:
        return self.fits([one for one in victims.chosen.values() if one is not left_out])

    def objection(self) -> str | None:
        """Return the reason why the candidates are not the victims that the rules choose; None if they are."""
        victims = self.run()
        if victims is None:
            protected = ", ".join(map(str, self.protected(Victims())))
            return f"its victims may not be evicted, or do not suffice: {protected}"
        needless = [name for name in self.candidates if name not in victims.chosen]
        return f"the eviction of {needless[0]!r} is no longer needed" if needless else None

    # The parts of a plan

    def entitled(self, victims: Victims) -> tuple[Guarantee, ...]:
        """Return the guarantees of the request against the victims, or against all groups if there are none."""
        resources = {one.resource for one in self.missing} | self.lacking.keys()
        found = (
            guarantee
            for candidate in (victims.chosen or self.candidates).values()
            for _, borrower in candidate.groups
            for guarantee in borrower.entitled
            if guarantee.resource in resources
        )
        return tuple(dict.fromkeys(found))

    def protected(self, victims: Victims) -> tuple[ProtectedCount, ...]:
        """Return the number of other allocations by group and reason; the largest numbers first."""
        counts: Counter[tuple[str, str, Protection]] = Counter()
        for name, candidate in self.candidates.items():
            if name not in victims.chosen:
                _, group = candidate.groups[0]
                counts[group.kind, group.name, self._protection_of(candidate) or Protection.NOT_NEEDED] += 1
        return tuple(
            ProtectedCount(*key, count) for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        )

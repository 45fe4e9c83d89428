"""Reclaim: the choice of allocations that other groups have to return to a group that asks within its guarantee.

The problem: groups lend each other what they do not use. If the owner asks for it, allocations of other groups must
end. Several models may lend, users and queues have limits as well, and no group may lose what it is guaranteed.

The idea: a model only reports guarantees, usage and allocations of its groups (`ugm.model.LendingModel`). The rules are
applied here, and whether a set of victims suffices is decided by all models and limits themselves, with the victims
refunded. Terminating allocations count as released.

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

The cost: a pass over the allocations of the models, and for each candidate of the search a check of all models with the
victims refunded. All of it happens under the lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, NamedTuple, TypeAlias, final

from ugm.arguments import require_resource
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, TrackingType, is_below
from ugm.model import Borrower, Claim, Guarantee
from ugm.partition.admission.protection import OwnAmount
from ugm.partition.answers.queries import SubjectQueries, require_subject
from ugm.partition.answers.reports import Subject, UserInQueue
from ugm.partition.engine.application import Application
from ugm.partition.eviction.reclaim_plan import ProtectedCount, ReclaimPlan, ReclaimVictim
from ugm.partition.rows import Allocation, AllocationRequest
from ugm.preemption import Outcome, PreemptionProtection
from ugm.resources import Resource, sum_of

__all__ = ["ReclaimPlanning", "require_reclaim_plan"]

#: The limits that eviction from other groups does not resolve.
_BLOCKING: Final = (TrackingType.USER, TrackingType.GROUP)

#: The application of a request, and its claim.
_Request: TypeAlias = tuple[Application, Claim]


def require_reclaim_plan(plan: object) -> ReclaimPlan:
    """Return a plan whose request is checked and copied.

    Raises:
        RequestError: it is not a plan, or its request is invalid.
    """
    if not isinstance(plan, ReclaimPlan):
        raise RequestError("plan", plan, "expected a ReclaimPlan")
    return replace(plan, subject=require_subject(plan.subject), usage=require_resource("usage", plan.usage))


class _Place(NamedTuple):
    """A node with its free amounts; without a name, the whole cluster."""

    node: str | None = None
    free: Resource | None = None


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

    def protection_of(self, candidate: ReclaimCandidate) -> PreemptionProtection | None:
        """Return the first reason against a further victim; None if the rules allow it."""
        if not candidate.row.preemptible:
            return PreemptionProtection.NOT_PREEMPTIBLE
        if not candidate.frees:
            return PreemptionProtection.FREES_NOTHING
        entitled = [group for group in candidate.groups if is_entitled(group[1].entitled, candidate.frees)]
        if not entitled:
            return PreemptionProtection.NOT_ENTITLED
        if not any(self._exceeds_share(candidate, *group) for group in entitled):
            return PreemptionProtection.WITHIN_SHARE
        return PreemptionProtection.GUARANTEE if self._breaks_guarantee(candidate) else None

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
    _protections: dict[tuple[object, ...], PreemptionProtection | None] = field(default_factory=dict, init=False)

    def run(self) -> Victims | None:
        """Return the victims; None if there is no set that the rules allow and that suffices."""
        allowed = [one for one in self.candidates.values() if self._protection_of(one) is None]
        by_priority = sorted(allowed, key=lambda one: (one.importance, one.row.allocation_id))
        by_size = sorted(allowed, key=lambda one: (one.size, one.row.allocation_id))
        victims = self._add_until_fit(by_priority) or self._add_until_fit(by_size)
        return None if victims is None else self._without_needless(victims)

    def _protection_of(self, candidate: ReclaimCandidate) -> PreemptionProtection | None:
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
        """Remove each victim without which the request fits as well, the most important first.

        A victim that is needed stays needed without others, so each is tried once.
        """
        for needless in sorted(victims.chosen.values(), key=lambda one: one.importance, reverse=True):
            if self.fits([one for one in victims.chosen.values() if one is not needless]):
                victims.remove(needless)
        return victims

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

    def protected(self, victims: Victims) -> Iterator[tuple[str, str, PreemptionProtection]]:
        """Yield the group of each other allocation, with the reason against it."""
        for name, candidate in self.candidates.items():
            if name not in victims.chosen:
                _, group = candidate.groups[0]
                yield group.kind, group.name, self._protection_of(candidate) or PreemptionProtection.NOT_NEEDED


def protected_counts(searches: Iterable[VictimSearch], victims: Victims) -> tuple[ProtectedCount, ...]:
    """Return the number of other allocations by group and reason; the largest numbers first."""
    counts = Counter(key for search in searches for key in search.protected(victims))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ProtectedCount(*key, count) for key, count in ordered)


@final
class ReclaimPlanning(SubjectQueries):
    """Makes plans and carries them out. The caller holds the lock, and has called `require_subject`."""

    __slots__ = ()

    def plan(self, subject: Subject, query: AllocationRequest, nodes: Mapping[str, Resource] | None) -> ReclaimPlan:
        """Return the allocations to evict for a request, all of one node if *nodes* are named."""
        application = self.application_of(subject)
        return self.best_plan(application, query, lambda query: self._plan(subject, query, nodes))

    def _plan(
        self,
        subject: Subject,
        query: AllocationRequest,
        nodes: Mapping[str, Resource] | None,
        only: Container[str] | None = None,
    ) -> ReclaimPlan:
        """Return a plan; with *only*, one that evicts no other allocations than these, which count as running."""
        request = self._request(subject, query)
        _, _, usage, _, priority, preemptible, duration, *_ = query
        made = ReclaimPlan(_plain(subject), usage, priority, preemptible, Outcome.FITS, duration=duration)
        terminating = [row for name, row in self._state.terminating_rows().items() if only is None or name not in only]
        places = [_Place()] if nodes is None else [_Place(name, free) for name, free in sorted(nodes.items())]
        for outcome, leaving in ((Outcome.FITS, []), (Outcome.AWAITS_TERMINATING, terminating)):
            missing = self._shortage(request, leaving)
            for place in places if not missing else ():
                if not self._lacking(request, place, leaving):
                    return replace(made, outcome=outcome, node=place.node, free_on_node=place.free)
        made = replace(made, missing=missing)
        if not all(violation.can_wait for violation in missing):
            return replace(made, outcome=Outcome.NEVER)
        if any(violation.kind in _BLOCKING or violation.resource is None for violation in missing):
            return replace(made, outcome=Outcome.BLOCKED)
        searches = [(one, self._search(request, missing, terminating, one, only)) for one in places]
        found = [(place, search, victims) for place, search in searches if (victims := search.run()) is not None]
        if not found:
            entitled = dict.fromkeys(one for _, search in searches for one in search.entitled(Victims()))
            protected = protected_counts([search for _, search in searches], Victims())
            return replace(made, outcome=Outcome.NONE, entitled=tuple(entitled), protected=protected)
        place, search, victims = min(found, key=lambda one: _order_of(one[0], one[2]))
        return replace(
            made,
            outcome=Outcome.PLAN,
            entitled=search.entitled(victims),
            victims=tuple(self._victim(one, victims) for one in victims.chosen.values()),
            protected=protected_counts([search], victims),
            node=place.node,
            free_on_node=place.free,
            missing_on_node=None if place.node is None else Resource(search.lacking),
        )

    def _victim(self, candidate: ReclaimCandidate, victims: Victims) -> ReclaimVictim:
        name = candidate.row.allocation_id
        groups = sorted(candidate.groups, key=lambda group: not is_entitled(group[1].entitled, candidate.frees))
        guarantees = (
            one._replace(used=victims.used(model, one))
            for model, borrower in groups
            for one in borrower.guarantees
            if one.resource in candidate.frees
        )
        return ReclaimVictim(*self._facts_of(self._state.allocations[name]), tuple(guarantees))

    def _lacking(self, request: _Request, place: _Place, leaving: Sequence[Allocation]) -> dict[str, int]:
        """Return the amounts that a place lacks for a request once some allocations have left."""
        if place.free is None:
            return {}
        free, (_, claim) = place.free, request
        for row in leaving:
            if row.node == place.node:
                free += row.usage
        for row in self._state.placed_rows().values():
            if row.node == place.node and row.application_id != claim.application_id:
                free -= row.usage
        lacking = ((name, amount - free.get(name, 0)) for name, amount in claim.usage.items())
        return {name: amount for name, amount in lacking if amount > 0}

    def _search(
        self,
        request: _Request,
        missing: Sequence[Violation],
        leaving: Sequence[Allocation],
        place: _Place,
        only: Container[str] | None,
    ) -> VictimSearch:
        """Return the search among the allocations of other groups in a place, or those of them that *only* contains."""
        candidates: dict[str, ReclaimCandidate] = {}
        lacking, held = self._lacking(request, place, leaving), self._state.held
        freed_by, only_there = _freed_amounts(missing, lacking), lacking.keys() - {one.resource for one in missing}
        borrowers = self._models.borrowers(request[1], {row.allocation_id for row in leaving})
        variants = self._admission.variants
        own = {} if variants is None else variants.protection.own_of_models(request[1])
        for model, found in enumerate(borrowers):
            for borrower in found:
                group = model, _down_to_guarantee(_with_own(borrower, own), only_there)
                for name in borrower.allocation_ids:
                    if name in candidates:
                        candidates[name].groups.append(group)
                    elif (only is None or name in only) and (row := held(name)) and place.node in {None, row.node}:
                        path = self._state.applications[row.application_id].queue.queue_path
                        candidates[name] = ReclaimCandidate(row, *freed_by(row.usage, path), [group])

        def fits(victims: Iterable[ReclaimCandidate]) -> bool:
            gone = [*leaving, *(one.row for one in victims)]
            return not self._lacking(request, place, gone) and not self._shortage(request, gone)

        return VictimSearch(missing, candidates, lacking, fits)

    def _request(self, subject: Subject, query: AllocationRequest) -> _Request:
        """Return the application and the claim of a request.

        Raises:
            RequestError: it cannot be made.
        """
        self.check(subject, query)
        application = self.application_of(subject)
        return application, self.claim(application, query)

    def _shortage(self, request: _Request, leaving: Sequence[Allocation]) -> tuple[Violation, ...]:
        """Return every limit that a request would exceed after the release of some allocations."""
        own, in_models = self.violations_without(*request, leaving)
        return own + in_models

    def carry_out(self, plan: ReclaimPlan) -> tuple[str, ...]:
        """Release the victims of a plan that still exist, or none of them.

        Raises:
            RequestError: the plan is stale.
        """
        rows = {name: row for name in plan.allocation_ids if (row := self._state.held(name)) is not None}
        if not rows:
            return ()
        objection = self._objection(plan, rows)
        if objection is not None:
            raise RequestError("plan", str(plan).partition("\n")[0], f"the plan is stale: {objection}", "plan-stale")
        self._admission.end(rows.values())
        return tuple(rows)

    def _facts_of(self, row: Allocation) -> tuple[str, str, str, str, Resource, int]:
        """Return what a plan says about a victim, except the guarantees."""
        _, user, path, *_ = self._state.owner(row).row
        return row.allocation_id, row.application_id, user.name, path, row.usage, row.priority

    def _objection(self, plan: ReclaimPlan, victims: Mapping[str, Allocation]) -> str | None:
        """Return the reason why the remaining victims of a plan may not be evicted now; None if they may."""
        for victim in plan.victims:
            row = victims.get(victim.allocation_id)
            if row is not None and (self._facts_of(row) != victim[:-1] or plan.node not in {None, row.node}):
                return f"allocation {victim.allocation_id!r} has changed"
        query = AllocationRequest("", "", plan.usage, False, plan.priority, plan.preemptible, plan.duration)  # noqa: FBT003 - no placeholder
        released = (one.usage for one in plan.victims if one.allocation_id not in victims)
        free = sum_of((plan.free_on_node or Resource(), *released))
        try:
            again = self._plan(plan.subject, query, None if plan.node is None else {plan.node: free}, victims)
        except RequestError as error:
            return str(error)
        if not again:
            return "; ".join(map(str.strip, str(again).splitlines()))
        needless = [name for name in victims if name not in again.allocation_ids]
        return f"the eviction of {needless[0]!r} is no longer needed" if needless else None


def _order_of(place: _Place, victims: Victims) -> tuple[list[int], int, str]:
    """Return the order of the victims of places: the lowest priorities first, then the fewest, then the name."""
    priorities = sorted((one.row.priority for one in victims.chosen.values()), reverse=True)
    return priorities, len(priorities), place.node or ""


def _down_to_guarantee(borrower: Borrower, resources: Collection[str]) -> Borrower:
    """Return a borrower that returns all above its guarantee of some resources.

    A share is an amount of the whole cluster. If only a node lacks a resource, every group may be within its share.
    """
    if not resources:
        return borrower
    lowered = (one._replace(share=one.guaranteed) if one.resource in resources else one for one in borrower.guarantees)
    return borrower._replace(guarantees=tuple(lowered))


def _with_own(borrower: Borrower, used: Mapping[str, Mapping[str, OwnAmount]]) -> Borrower:
    """Return a borrower whose guarantees of families protect its own cards, and count none that are borrowed."""
    if not used:
        return borrower

    def own(one: Guarantee) -> OwnAmount:
        return used.get(one.name, {}).get(one.resource, OwnAmount(one.guaranteed, 0))

    kept = (one._replace(guaranteed=min(one.guaranteed, own(one).own)) for one in borrower.guarantees)
    entitled = (one._replace(used=one.used - own(one).borrowed) for one in borrower.entitled)
    return borrower._replace(guarantees=tuple(kept), entitled=tuple(entitled))


def _plain(subject: Subject) -> Subject:
    """Return a subject that can be pickled: the tags of a checked one are a view."""
    if isinstance(subject, UserInQueue) and subject.tags is not None:
        return replace(subject, tags=dict(subject.tags))
    return subject


def _freed_amounts(
    missing: Sequence[Violation], lacking: Mapping[str, int]
) -> Callable[[Resource, str], tuple[Mapping[str, int], int]]:
    """Return a function of a usage and its queue: the amounts that it frees where they are lacking, and their size.

    The amounts that queues lack count for allocations in and below them, those of quota models and the node for all.
    Equal usages share one mapping.
    """
    needs = [(name, ROOT) for name in lacking]
    #: The largest amount that is lacking, at least 1, by resource.
    shortfalls = dict(lacking)
    for one in missing:
        if one.resource is not None:
            needs.append((one.resource, one.queue_path if one.kind == TrackingType.QUEUE else ROOT))
            shortfalls[one.resource] = max(one.shortfall, shortfalls.get(one.resource, 1))

    @cache
    def freed_by(usage: Resource, queue_path: str) -> tuple[Mapping[str, int], int]:
        names = dict.fromkeys(name for name, path in needs if usage.get(name, 0) > 0 and is_below(queue_path, path))
        frees = {name: usage[name] for name in names}
        size = sum(min(frees[name], shortfalls[name]) * 1_000_000 // shortfalls[name] for name in frees)
        return frees, size

    return freed_by

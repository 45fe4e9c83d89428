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

from ugm.arguments import require_instance, require_resource
from ugm.decision import KEPT, Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, TrackingType, is_below
from ugm.model import Borrower, Claim, Guarantee
from ugm.partition.admission.variant_protection import OwnAmount
from ugm.partition.answers.queries import SubjectQueries, require_subject
from ugm.partition.answers.reports import Subject
from ugm.partition.engine.application import Application
from ugm.partition.eviction.reclaim_plan import ProtectedCount, ReclaimPlan, ReclaimVictim
from ugm.partition.rows import Allocation, AllocationRequest
from ugm.preemption import Outcome, PreemptionProtection
from ugm.resources import Resource, sum_of

#: The limits that eviction from other groups does not resolve.
_BLOCKING: Final = (TrackingType.USER, TrackingType.GROUP, KEPT)


def require_reclaim_plan(plan: object) -> ReclaimPlan:
    """Return a plan whose request is checked and copied.

    Raises:
        RequestError: it is not a plan, or its request is invalid.
    """
    checked = require_instance("plan", plan, ReclaimPlan)
    require_resource("usage", require_instance("request", checked.request, AllocationRequest).usage)
    return replace(checked, subject=require_subject(checked.subject))


class _Request(NamedTuple):
    """A request with what counts as released and what may be evicted."""

    application: Application
    claim: Claim
    #: The terminating allocations.
    leaving: Sequence[Allocation]
    #: The ids of the allocations that may be evicted; None for all.
    only: Container[str] | None


#: A guarantee: the number of the model, and the place, name and resource.
_Key: TypeAlias = tuple[int, str, str, str]
#: A group, with the number of the model that lends.
_Group: TypeAlias = tuple[int, Borrower]


@final
@dataclass(slots=True, eq=False)
class ReclaimCandidate:
    """An allocation of another group."""

    row: Allocation
    #: The amounts of missing resources that it uses; one object for many candidates that use the same.
    frees: Mapping[str, int]
    #: The part of the missing amounts that it frees, in millionths.
    size: int
    #: Its group in each model that lends; one object for all candidates of the group.
    groups: list[_Group]

    @property
    def importance(self) -> tuple[int, int]:
        """Its priority; of two with equal ones, the one that frees less is more important."""
        return self.row.priority, -self.size

    @property
    def entitled(self) -> list[_Group]:
        """The groups that have to return what it frees, because the request is within its guarantee."""
        return [group for group in self.groups if is_entitled(group[1].entitled, self.frees)]

    def guarantees_of(self, groups: Iterable[_Group]) -> list[tuple[int, Borrower, Guarantee]]:
        """Return the guarantees of some of its groups, and those above them, in resources that it frees."""
        return [
            (model, borrower, one)
            for model, borrower in groups
            for one in borrower.guarantees
            if one.resource in self.frees
        ]


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
class ReclaimSearch:
    """The search for victims for one request, on one node or everywhere."""

    #: The node with its free amounts; None if nodes do not matter.
    node: str | None
    free: Resource | None
    #: What the request lacks.
    missing: Sequence[Violation]
    #: What it lacks on the node; all candidates are there.
    lacking: Mapping[str, int]
    #: By allocation id.
    candidates: Mapping[str, ReclaimCandidate]
    #: Returns whether the request fits without some allocations.
    fits: Callable[[Iterable[ReclaimCandidate]], bool]
    #: The victims by allocation id, a set that the rules allow.
    victims: dict[str, ReclaimCandidate] = field(default_factory=dict, init=False)
    #: The reason against each candidate as the only victim; None if the rules allow it.
    _protections: dict[str, PreemptionProtection | None] = field(default_factory=dict, init=False)
    #: The amounts of missing resources that the victims use together, and those that each group loses.
    _freed: Counter[str] = field(default_factory=Counter, init=False)
    _taken: Counter[_Key] = field(default_factory=Counter, init=False)

    def run(self) -> bool:
        """Find victims that suffice, and return whether there are any."""
        # Most allocations of a group use the same amounts. Equal amounts and groups are the same objects.
        known: dict[tuple[object, ...], PreemptionProtection | None] = {}
        for name, one in self.candidates.items():
            alike = one.row.preemptible, id(one.frees), *map(id, one.groups)
            if alike not in known:
                known[alike] = self._protection_of(one)
            self._protections[name] = known[alike]
        allowed = [one for name, one in self.candidates.items() if self._protections[name] is None]
        by_priority = sorted(allowed, key=lambda one: (one.importance, one.row.allocation_id))
        by_size = sorted(allowed, key=lambda one: (one.size, one.row.allocation_id))
        if not self._add_until_fit(by_priority) and not self._add_until_fit(by_size):
            return False
        # A victim that is needed stays needed without others, so each is tried once, the most important first.
        for needless in sorted(self.victims.values(), key=lambda one: one.importance, reverse=True):
            if self.fits([one for one in self.victims.values() if one is not needless]):
                self._remove(needless)
        return True

    def _add_until_fit(self, order: Iterable[ReclaimCandidate]) -> bool:
        """Add candidates that the rules allow until they suffice; remove them all if they never do."""
        for candidate in order:
            if self._protection_of(candidate) is None:
                self.victims[candidate.row.allocation_id] = candidate
                self._count(candidate, 1)
                if self._may_suffice() and self.fits(self.victims.values()):
                    return True
        for candidate in list(self.victims.values()):
            self._remove(candidate)
        return False

    def _remove(self, candidate: ReclaimCandidate) -> None:
        del self.victims[candidate.row.allocation_id]
        self._count(candidate, -1)

    def _count(self, candidate: ReclaimCandidate, times: int) -> None:
        for resource, amount in candidate.frees.items():
            self._freed[resource] += times * amount
        for model, _, one in candidate.guarantees_of(candidate.groups):
            self._taken[_key(model, one)] += times * candidate.frees[one.resource]

    def _may_suffice(self) -> bool:
        """Return whether the victims use as much as the node and any queue lack; this saves most checks."""
        in_queues = [one for one in self.missing if one.kind == TrackingType.QUEUE]
        needs = [*self.lacking.items(), *((one.resource, one.shortfall) for one in in_queues)]
        return all(resource is None or self._freed[resource] >= amount for resource, amount in needs)

    def used(self, model: int, guarantee: Guarantee) -> int:
        """Return the usage of a group after the eviction of all victims."""
        return guarantee.used - self._taken[_key(model, guarantee)]

    def _protection_of(self, candidate: ReclaimCandidate) -> PreemptionProtection | None:
        """Return the first reason against a further victim; None if the rules allow it."""
        if not candidate.row.preemptible:
            return PreemptionProtection.NOT_PREEMPTIBLE
        if not candidate.frees:
            return PreemptionProtection.FREES_NOTHING
        entitled = candidate.entitled
        if not entitled:
            return PreemptionProtection.NOT_ENTITLED
        own = (found for found in candidate.guarantees_of(entitled) if found[2].name == found[1].name)
        if not any(self.used(model, one) > one.share for model, _, one in own):
            return PreemptionProtection.WITHIN_SHARE
        for model, _, one in candidate.guarantees_of(candidate.groups):
            if one.guaranteed and self.used(model, one) - candidate.frees[one.resource] < one.guaranteed:
                return PreemptionProtection.GUARANTEE
        return None

    # The parts of a plan

    @property
    def order(self) -> tuple[list[int], int, str]:
        """The order of the victims of nodes: the lowest priorities first, then the fewest, then the name."""
        priorities = sorted((one.row.priority for one in self.victims.values()), reverse=True)
        return priorities, len(priorities), self.node or ""

    def entitled(self) -> Iterator[Guarantee]:
        """Yield the guarantees of the request against the victims, or against all groups if there are none."""
        resources = {one.resource for one in self.missing} | self.lacking.keys()
        for candidate in (self.victims or self.candidates).values():
            for _, borrower in candidate.groups:
                yield from (one for one in borrower.entitled if one.resource in resources)

    def protected(self) -> Iterator[tuple[str, str, PreemptionProtection]]:
        """Yield the group of each other allocation, with the reason against it."""
        for name, candidate in self.candidates.items():
            if name not in self.victims:
                _, group = candidate.groups[0]
                yield group.kind, group.name, self._protections[name] or PreemptionProtection.NOT_NEEDED


def _key(model: int, guarantee: Guarantee) -> _Key:
    return model, guarantee.place, guarantee.name, guarantee.resource


@final
class ReclaimPlanning(SubjectQueries):
    """Makes plans and carries them out. The caller holds the lock, and has called `require_subject`."""

    def plan(self, subject: Subject, query: AllocationRequest, nodes: Mapping[str, Resource] | None) -> ReclaimPlan:
        """Return the allocations to evict for a request, all of one node if *nodes* are named."""
        application = self.application_of(subject)
        return self.best_plan(application, query, lambda query, kept: self._plan(subject, query, nodes, kept=kept))

    def _plan(
        self,
        subject: Subject,
        query: AllocationRequest,
        nodes: Mapping[str, Resource] | None,
        only: Container[str] | None = None,
        kept: tuple[Violation, ...] = (),
    ) -> ReclaimPlan:
        """Return a plan; with *only*, one that evicts no other allocations than these, which count as running.

        If guarantees of variants forbid the request, *kept* are the violations of them.

        Raises:
            RequestError: the request cannot be made.
        """
        self.check(subject, query)
        application, terminating = self.application_of(subject), self._state.terminating_rows().items()
        leaving = [row for name, row in terminating if only is None or name not in only]
        request = _Request(application, self.claim(application, query), leaving, only)
        nodes = self.possible_nodes(request.claim, nodes)
        made = ReclaimPlan(subject, query, Outcome.FITS)
        places: list[tuple[str | None, Resource | None]] = [(None, None)] if nodes is None else [*sorted(nodes.items())]
        for outcome, one in ((Outcome.FITS, request._replace(leaving=())), (Outcome.AWAITS_TERMINATING, request)):
            missing = self._shortage(one) + kept
            for node, free in places if not missing else ():
                if not self._lacking(one, node, free):
                    return replace(made, outcome=outcome, node=node, free_on_node=free)
        made = replace(made, missing=missing)
        if not all(violation.can_wait for violation in missing):
            return replace(made, outcome=Outcome.NEVER)
        if any(violation.kind in _BLOCKING or violation.resource is None for violation in missing):
            return replace(made, outcome=Outcome.BLOCKED)
        return self._search_plan(made, [self._search(request, missing, *place) for place in places])

    def _search_plan(self, made: ReclaimPlan, searches: Sequence[ReclaimSearch]) -> ReclaimPlan:
        """Return the plan that follows from a search on each node."""
        found = [search for search in searches if search.run()]
        best = min(found, key=lambda search: search.order, default=None)
        shown = searches if best is None else [best]
        counts = Counter(key for search in shown for key in search.protected())
        made = replace(
            made,
            outcome=Outcome.NONE,
            entitled=tuple(dict.fromkeys(one for search in shown for one in search.entitled())),
            # The largest numbers first.
            protected=tuple(
                ProtectedCount(*key, -least) for least, key in sorted((-n, key) for key, n in counts.items())
            ),
        )
        if best is None:
            return made
        return replace(
            made,
            outcome=Outcome.PLAN,
            victims=tuple(self._victim(one, best) for one in best.victims.values()),
            node=best.node,
            free_on_node=best.free,
            missing_on_node=None if best.node is None else Resource(best.lacking),
        )

    def _victim(self, candidate: ReclaimCandidate, search: ReclaimSearch) -> ReclaimVictim:
        # The groups that have to return something come first.
        entitled = candidate.entitled
        groups = sorted(candidate.groups, key=lambda group: group not in entitled)
        found = candidate.guarantees_of(groups)
        guarantees = tuple(one._replace(used=search.used(model, one)) for model, _, one in found)
        return ReclaimVictim(*self._facts_of(candidate.row), guarantees)

    def _shortage(self, request: _Request, victims: Iterable[ReclaimCandidate] = ()) -> tuple[Violation, ...]:
        """Return every limit that a request would exceed after the release of some allocations."""
        gone = [*request.leaving, *(one.row for one in victims)]
        own, in_models = self.violations_without(request.application, request.claim, gone)
        return own + in_models

    def _lacking(
        self, request: _Request, node: str | None, free: Resource | None, victims: Iterable[ReclaimCandidate] = ()
    ) -> dict[str, int]:
        """Return the amounts that a node lacks for a request once some allocations have left."""
        if free is None:
            return {}
        gone, claim = [*request.leaving, *(one.row for one in victims)], request.claim
        free = sum_of((free, *(row.usage for row in gone if row.node == node)))
        for row in self._state.placed_rows().values():
            if row.node == node and row.application_id != claim.application_id:
                free -= row.usage
        lacking = ((name, amount - free.get(name, 0)) for name, amount in claim.usage.items())
        return {name: amount for name, amount in lacking if amount > 0}

    def _search(
        self, request: _Request, missing: Sequence[Violation], node: str | None, free: Resource | None
    ) -> ReclaimSearch:
        """Return the search among the allocations of other groups on a node, or on all."""
        candidates: dict[str, ReclaimCandidate] = {}
        lacking, held = self._lacking(request, node, free), self._state.held
        freed_by, only_there = _freed_amounts(missing, lacking), lacking.keys() - {one.resource for one in missing}
        borrowers = self._models.borrowers(request.claim, {row.allocation_id for row in request.leaving})
        variants = self._admission.variants
        own = {} if variants is None else variants.protection.own_of_models(request.claim)
        for model, found in enumerate(borrowers):
            for borrower in found:
                group = model, _down_to_guarantee(_with_own(borrower, own), only_there)
                for name in borrower.allocation_ids:
                    if name in candidates:
                        candidates[name].groups.append(group)
                    elif (
                        (request.only is None or name in request.only)
                        and (row := held(name))
                        and node in {None, row.node}
                    ):
                        path = self._state.applications[row.application_id].queue.queue_path
                        candidates[name] = ReclaimCandidate(row, *freed_by(row.usage, path), [group])

        def fits(victims: Iterable[ReclaimCandidate]) -> bool:
            return not self._lacking(request, node, free, victims) and not self._shortage(request, victims)

        return ReclaimSearch(node, free, missing, lacking, candidates, fits)

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
        released = (one.usage for one in plan.victims if one.allocation_id not in victims)
        free = sum_of((plan.free_on_node or Resource(), *released))
        try:
            again = self._plan(plan.subject, plan.request, None if plan.node is None else {plan.node: free}, victims)
        except RequestError as error:
            return str(error)
        if not again:
            return "; ".join(map(str.strip, str(again).splitlines()))
        needless = [name for name in victims if name not in again.allocation_ids]
        return f"the eviction of {needless[0]!r} is no longer needed" if needless else None


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

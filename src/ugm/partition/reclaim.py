"""Reclaim: the choice of allocations that other groups have to return to a group that asks within its guarantee.

The problem: groups lend each other what they do not use. If the owner asks for it, allocations of other groups must
end. Several models may lend, users and queues have limits as well, and no group may lose what it is guaranteed.

The idea: a model only reports guarantees, usage and allocations of its groups (`ugm.model.LendingModel`). The rules are
applied here, and whether a set of victims suffices is decided by all models and limits themselves, with the victims
refunded. Terminating allocations count as released.

The search for victims is in `ugm.partition.reclaim_search`, with the rules.

The cost: a pass over the allocations of the models, and for each candidate of the search a check of all models with the
victims refunded. All of it happens under the lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, final

from ugm.arguments import require_resource
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import TrackingType, is_below
from ugm.model import Borrower, Claim
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import AllocationState
from ugm.partition.application import LedgerEntry
from ugm.partition.model_set import ModelSet
from ugm.partition.reclaim_plan import ProtectedCount, Protection, ReclaimOutcome, ReclaimPlan, ReclaimVictim
from ugm.partition.reclaim_search import ReclaimCandidate, Victims, VictimSearch, is_entitled
from ugm.partition.state import PartitionState
from ugm.partition.subject import Subject, UserInQueue
from ugm.partition.subject_queries import QueryRequest, SubjectQueries, require_subject
from ugm.resources import Resource, sum_of

__all__ = ["ReclaimPlanning", "require_reclaim_plan"]

#: The limits that eviction from other groups does not resolve.
_BLOCKING: Final = (TrackingType.USER, TrackingType.GROUP)

#: Allocations with their ids.
_Entries: TypeAlias = Sequence[tuple[str, LedgerEntry]]


def require_reclaim_plan(plan: object) -> ReclaimPlan:
    """Return a plan whose request is checked and copied.

    Raises:
        RequestError: it is not a plan, or its request is invalid.
    """
    if not isinstance(plan, ReclaimPlan):
        raise RequestError("plan", plan, "expected a ReclaimPlan")
    return replace(plan, subject=require_subject(plan.subject), usage=require_resource("usage", plan.usage))


class _Request(NamedTuple):
    """A request for which allocations may be reclaimed."""

    subject: Subject
    usage: Resource
    claim: Claim


class _Place(NamedTuple):
    """A node with its free amounts; without a name, the whole cluster."""

    node: str | None = None
    free: Resource | None = None

    def has(self, stored: Resource | LedgerEntry) -> bool:
        """Return whether a stored allocation is in this place."""
        return self.node is None or (isinstance(stored, LedgerEntry) and stored.traits.node == self.node)


@final
class ReclaimPlanning:
    """Makes plans and carries them out. The caller holds the lock, and has called `require_subject`."""

    __slots__ = ("_admission", "_models", "_queries", "_state")

    def __init__(
        self, state: PartitionState, models: ModelSet, admission: AdmissionControl, queries: SubjectQueries
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._queries: Final = queries

    def plan(self, subject: Subject, query: QueryRequest, nodes: Mapping[str, Resource] | None) -> ReclaimPlan:
        """Return the allocations to evict for a request, all of one node if *nodes* are named."""
        self._queries.check(subject, query)
        usage, priority, preemptible, duration = query
        request = _Request(subject, usage, self._queries.claim(subject, query))
        made = ReclaimPlan(_plain(subject), usage, priority, preemptible, ReclaimOutcome.FITS, duration=duration)
        terminating = list(self._state.terminating_entries().items())
        places = [_Place()] if nodes is None else [_Place(name, free) for name, free in sorted(nodes.items())]
        for outcome, leaving in ((ReclaimOutcome.FITS, []), (ReclaimOutcome.AWAITS_TERMINATING, terminating)):
            missing = self._shortage(request, leaving)
            for place in places if not missing else ():
                if not self._lacking(request, place, leaving):
                    return replace(made, outcome=outcome, node=place.node, free_on_node=place.free)
        final = _outcome_without_victims(missing)
        if final is not None:
            return replace(made, outcome=final, missing=missing)
        return self._plan_with_victims(made, request, missing, terminating, places)

    def _plan_with_victims(
        self,
        made: ReclaimPlan,
        request: _Request,
        missing: tuple[Violation, ...],
        terminating: _Entries,
        places: Sequence[_Place],
    ) -> ReclaimPlan:
        """Return the plan of the place whose victims are the least important."""
        searches = [(one, self._search(request, missing, terminating, one)) for one in places]
        found = [(place, search, victims) for place, search in searches if (victims := search.run()) is not None]
        if not found:
            return _without_victims(made, missing, [search for _, search in searches])
        place, search, victims = min(found, key=lambda one: _order_of(one[0], one[2]))
        return replace(
            made,
            outcome=ReclaimOutcome.PLAN,
            missing=missing,
            entitled=search.entitled(victims),
            victims=tuple(_value_of(one, victims) for one in victims.chosen.values()),
            protected=search.protected(victims),
            node=place.node,
            free_on_node=place.free,
            missing_on_node=None if place.node is None else Resource(search.lacking),
        )

    def _lacking(self, request: _Request, place: _Place, leaving: _Entries) -> dict[str, int]:
        """Return the amounts that a place lacks for a request once some allocations have left."""
        if place.free is None:
            return {}
        free, application_id = place.free, request.claim.application_id
        for _, entry in leaving:
            if entry.traits.node == place.node:
                free += entry.usage
        for entry in self._state.placed_entries().values():
            if entry.traits.node == place.node and entry.application.application_id != application_id:
                free -= entry.usage
        lacking = ((name, amount - free.get(name, 0)) for name, amount in request.usage.items())
        return {name: amount for name, amount in lacking if amount > 0}

    def _search(
        self,
        request: _Request,
        missing: Sequence[Violation],
        leaving: _Entries,
        place: _Place,
        only: Container[str] | None = None,
    ) -> VictimSearch:
        """Return the search among the allocations of other groups in a place, or those of them that *only* contains."""
        candidates: dict[str, ReclaimCandidate] = {}
        lacking, owners = self._lacking(request, place, leaving), self._state.ledger.owners
        needs, only_there = _Needs(missing, lacking), lacking.keys() - {one.resource for one in missing}
        borrowers = self._models.borrowers(request.claim, {name for name, _ in leaving})
        for model, found in enumerate(borrowers):
            for borrower in found:
                group = model, _down_to_guarantee(borrower, only_there)
                for name in borrower.allocation_ids:
                    if name in candidates:
                        candidates[name].groups.append(group)
                    elif (only is None or name in only) and (owner := owners.get(name)) is not None:
                        stored = owner.allocations.get(name)
                        if stored is not None and place.has(stored):
                            usage = stored.usage if isinstance(stored, LedgerEntry) else stored
                            freed = needs.freed_by(usage, owner.queue.queue_path)
                            candidates[name] = ReclaimCandidate(name, owner, stored, *freed, [group])

        def fits(victims: Iterable[ReclaimCandidate]) -> bool:
            gone = [*leaving, *((one.allocation_id, one.entry) for one in victims)]
            return not self._lacking(request, place, gone) and not self._shortage(request, gone)

        return VictimSearch(missing, candidates, lacking, fits)

    def _shortage(self, request: _Request, leaving: _Entries) -> tuple[Violation, ...]:
        """Return every limit that a request would exceed after the release of some allocations."""
        return self._queries.violations_without(request.subject, request.usage, request.claim, leaving)

    def carry_out(self, plan: ReclaimPlan) -> tuple[str, ...]:
        """Release the victims of a plan that still exist, or none of them.

        Raises:
            RequestError: the plan is stale.
        """
        entries = [(name, entry) for name in plan.allocation_ids if (entry := self._held(name)) is not None]
        if not entries:
            return ()
        objection = self._objection(plan, dict(entries))
        if objection is not None:
            raise RequestError("plan", str(plan).partition("\n")[0], f"the plan is stale: {objection}", "plan-stale")
        self._admission.end(entries)
        return tuple(name for name, _ in entries)

    def _held(self, allocation_id: str) -> LedgerEntry | None:
        entry = self._state.ledger.get(allocation_id)
        return None if entry is None or entry.traits.state is AllocationState.PENDING else entry

    def _objection(self, plan: ReclaimPlan, victims: Mapping[str, LedgerEntry]) -> str | None:
        """Return the reason why the remaining victims of a plan may not be evicted now; None if they may."""
        for victim in plan.victims:
            entry = victims.get(victim.allocation_id)
            is_same = entry is None or _facts_of(victim.allocation_id, entry) == victim[:-1]
            if not is_same or (entry is not None and plan.node not in {None, entry.traits.node}):
                return f"allocation {victim.allocation_id!r} has changed"
        subject, query = plan.subject, QueryRequest(plan.usage, plan.priority, plan.preemptible, plan.duration)
        try:
            self._queries.check(subject, query)
        except RequestError as error:
            return str(error)
        request = _Request(subject, plan.usage, self._queries.claim(subject, query))
        leaving = [(name, entry) for name, entry in self._state.terminating_entries().items() if name not in victims]
        missing, place = self._shortage(request, leaving), _Place(plan.node, plan.free_on_node)
        if place.free is not None:
            released = (one.usage for one in plan.victims if one.allocation_id not in victims)
            place = _Place(plan.node, sum_of((place.free, *released)))
        if not missing and not self._lacking(request, place, leaving):
            return "the request fits without evicting the remaining victims"
        return self._search(request, missing, leaving, place, only=victims).objection(victims)


def _without_victims(
    made: ReclaimPlan, missing: tuple[Violation, ...], searches: Sequence[VictimSearch]
) -> ReclaimPlan:
    """Return the plan if no search has found victims."""
    counts: Counter[tuple[str, str, Protection]] = Counter()
    for search in searches:
        for kind, name, rule, number in search.protected(Victims()):
            counts[kind, name, rule] += number
    entitled = dict.fromkeys(one for search in searches for one in search.entitled(Victims()))
    protected = (ProtectedCount(*key, number) for key, number in counts.most_common())
    return replace(
        made, outcome=ReclaimOutcome.NONE, missing=missing, entitled=tuple(entitled), protected=tuple(protected)
    )


def _order_of(place: _Place, victims: Victims) -> tuple[list[int], int, str]:
    """Return the order of the victims of places: the lowest priorities first, then the fewest, then the name."""
    priorities = sorted((one.traits.priority for one in victims.chosen.values()), reverse=True)
    return priorities, len(priorities), place.node or ""


def _down_to_guarantee(borrower: Borrower, resources: Collection[str]) -> Borrower:
    """Return a borrower that returns all above its guarantee of some resources.

    A share is an amount of the whole cluster. If only a node lacks a resource, every group may be within its share.
    """
    if not resources:
        return borrower
    lowered = (one._replace(share=one.guaranteed) if one.resource in resources else one for one in borrower.guarantees)
    return borrower._replace(guarantees=tuple(lowered))


def _plain(subject: Subject) -> Subject:
    """Return a subject that can be pickled: the tags of a checked one are a view."""
    if isinstance(subject, UserInQueue) and subject.tags is not None:
        return replace(subject, tags=dict(subject.tags))
    return subject


def _outcome_without_victims(missing: Sequence[Violation]) -> ReclaimOutcome | None:
    """Return the outcome for a request that no eviction lets fit; None for any other."""
    if not all(violation.can_wait for violation in missing):
        return ReclaimOutcome.NEVER
    if any(violation.kind in _BLOCKING or violation.resource is None for violation in missing):
        return ReclaimOutcome.BLOCKED
    return None


@final
class _Needs:
    """The amounts that a request lacks."""

    def __init__(self, missing: Sequence[Violation], lacking: Mapping[str, int]) -> None:
        #: The resources that queues lack, with their paths, and those that quota models or the node lack.
        self._in_queues: Final = [
            (one.resource, one.queue_path)
            for one in missing
            if one.resource is not None and one.kind == TrackingType.QUEUE
        ]
        self._in_models: Final = {
            one.resource: None for one in missing if one.resource is not None and one.kind != TrackingType.QUEUE
        } | dict.fromkeys(lacking)
        #: The largest amount that is lacking, at least 1, by resource.
        self._shortfalls: Final[dict[str, int]] = dict(lacking)
        for one in missing:
            if one.resource is not None:
                self._shortfalls[one.resource] = max(one.shortfall, self._shortfalls.get(one.resource, 1))

        #: What was found for usages that are equal in all lacking resources, by queue.
        self._found: Final[dict[tuple[str, tuple[int, ...]], tuple[dict[str, int], int]]] = {}

    def freed_by(self, usage: Resource, queue_path: str) -> tuple[dict[str, int], int]:
        """Return the amounts that an allocation frees where they are lacking, and their size as for a candidate.

        Most allocations use the same amounts as others, so the dictionaries are shared. They must not be modified.
        """
        amounts = usage.amounts
        alike = queue_path, tuple([amounts.get(name, 0) for name in self._shortfalls])
        if alike not in self._found:
            frees = {name: amounts[name] for name in self._in_models if amounts.get(name, 0) > 0}
            for name, limited in self._in_queues:
                if amounts.get(name, 0) > 0 and is_below(queue_path, limited):
                    frees[name] = amounts[name]
            shares = [(min(amount, self._shortfalls[name]), self._shortfalls[name]) for name, amount in frees.items()]
            size = sum(part * 1_000_000 // shortfall for part, shortfall in shares)
            self._found[alike] = frees, size
        return self._found[alike]


def _value_of(candidate: ReclaimCandidate, victims: Victims) -> ReclaimVictim:
    entry = candidate.entry
    groups = sorted(candidate.groups, key=lambda group: not is_entitled(group[1].entitled, candidate.frees))
    guarantees = tuple(
        one._replace(used=victims.used(model, one))
        for model, borrower in groups
        for one in borrower.guarantees
        if one.resource in candidate.frees
    )
    return ReclaimVictim(*_facts_of(candidate.allocation_id, entry), guarantees)


def _facts_of(allocation_id: str, entry: LedgerEntry) -> tuple[str, str, str, str, Resource, int]:
    """Return what a plan says about a victim, except the guarantees."""
    application, usage, traits = entry
    submission, path = application.submission, application.queue.queue_path
    return allocation_id, submission.application_id, submission.user.name, path, usage, traits.priority

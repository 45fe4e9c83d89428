"""Reclaim: the choice of allocations that other groups have to return to a group that asks within its guarantee.

The problem: groups lend each other what they do not use. If the owner asks for it, allocations of other groups must
end. Several models may lend, users and queues have limits as well, and no group may lose what it is guaranteed.

The idea: a model only reports guarantees, usage and allocations of its groups (`ugm.model.LendingModel`). The rules are
applied here, and whether a set of victims suffices is decided by all models and limits themselves, with the victims
refunded. Terminating allocations count as released.

The search for victims is in `ugm.partition.eviction.reclaim_plan`, with the rules.

The cost: a pass over the allocations of the models, and for each candidate of the search a check of all models with the
victims refunded. All of it happens under the lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple, TypeAlias, final

from ugm.arguments import require_resource
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, TrackingType, is_below
from ugm.model import Borrower, Claim
from ugm.partition.answers.queries import SubjectQueries, require_subject
from ugm.partition.answers.reports import Subject, UserInQueue
from ugm.partition.engine.application import Application
from ugm.partition.eviction.reclaim_plan import (
    ProtectedCount,
    Protection,
    ReclaimCandidate,
    ReclaimOutcome,
    ReclaimPlan,
    ReclaimVictim,
    Victims,
    VictimSearch,
    is_entitled,
)
from ugm.partition.rows import Allocation, AllocationRequest
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


@final
class ReclaimPlanning(SubjectQueries):
    """Makes plans and carries them out. The caller holds the lock, and has called `require_subject`."""

    __slots__ = ()

    def plan(self, subject: Subject, query: AllocationRequest, nodes: Mapping[str, Resource] | None) -> ReclaimPlan:
        """Return the allocations to evict for a request, all of one node if *nodes* are named."""
        request = self._request(subject, query)
        _, _, usage, _, priority, preemptible, duration, *_ = query
        made = ReclaimPlan(_plain(subject), usage, priority, preemptible, ReclaimOutcome.FITS, duration=duration)
        terminating = list(self._state.terminating_rows().values())
        places = [_Place()] if nodes is None else [_Place(name, free) for name, free in sorted(nodes.items())]
        for outcome, leaving in ((ReclaimOutcome.FITS, []), (ReclaimOutcome.AWAITS_TERMINATING, terminating)):
            missing = self._shortage(request, leaving)
            for place in places if not missing else ():
                if not self._lacking(request, place, leaving):
                    return replace(made, outcome=outcome, node=place.node, free_on_node=place.free)
        final = _outcome_without_victims(missing)
        if final is not None:
            return replace(made, outcome=final, missing=missing)
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
            victims=tuple(self._victim(one, victims) for one in victims.chosen.values()),
            protected=search.protected(victims),
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
        only: Container[str] | None = None,
    ) -> VictimSearch:
        """Return the search among the allocations of other groups in a place, or those of them that *only* contains."""
        candidates: dict[str, ReclaimCandidate] = {}
        lacking, held = self._lacking(request, place, leaving), self._state.held
        freed_by, only_there = _freed_amounts(missing, lacking), lacking.keys() - {one.resource for one in missing}
        borrowers = self._models.borrowers(request[1], {row.allocation_id for row in leaving})
        for model, found in enumerate(borrowers):
            for borrower in found:
                group = model, _down_to_guarantee(borrower, only_there)
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
        try:
            request = self._request(plan.subject, query)
        except RequestError as error:
            return str(error)
        leaving = [row for name, row in self._state.terminating_rows().items() if name not in victims]
        missing, place = self._shortage(request, leaving), _Place(plan.node, plan.free_on_node)
        if place.free is not None:
            released = (one.usage for one in plan.victims if one.allocation_id not in victims)
            place = _Place(plan.node, sum_of((place.free, *released)))
        if not missing and not self._lacking(request, place, leaving):
            return "the request fits without evicting the remaining victims"
        search = self._search(request, missing, leaving, place, only=victims)
        foreign = [name for name in victims if name not in search.candidates]
        return f"allocation {foreign[0]!r} no longer belongs to another group" if foreign else search.objection()


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

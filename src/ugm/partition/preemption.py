"""Preemption in a partition: copies the state for the search of `ugm.preemption`, and carries plans out.

A plan needs the queues, the allocations and the answer of all limits at one moment. Under the lock, only references to
them are copied. `ugm.preemption` searches for victims without the lock.

If quota models deny the request as well, the allocations that they would evict count as released, and the search finds
the victims that queues and the cluster still need. Then all limits decide, with all victims refunded and charged back.
Victims of models that are not needed are removed.

Between plan and execution the partition may change. So a plan contains the usage, maxima and guarantees that it depends
on, and `PreemptionPlanning.carry_out` compares them. This takes a pass over the ledger under the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, final

from ugm.arguments import require_application_id, require_name, require_resource
from ugm.decision import Decision, Violation
from ugm.errors import RequestError
from ugm.identity import TrackingType
from ugm.model import Claim
from ugm.partition.admission import Admission
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import LedgerEntry
from ugm.partition.gang import require_requests
from ugm.partition.model_set import ModelSet
from ugm.partition.reduction_timers import ReductionTimers, SettingsCache
from ugm.partition.reports import OwnedAllocation, PreemptionStatus
from ugm.partition.state import PartitionState
from ugm.partition.subject_queries import QueryRequest, SubjectQueries
from ugm.partition.world_copy import WorldCopy, facts_of
from ugm.preemption import (
    Outcome,
    PlacedRequest,
    PreemptionPlan,
    PreemptionRequest,
    ReductionPlan,
    ReductionTimer,
    Victim,
    World,
)
from ugm.preemption import plan_preemption as plan_for_queues
from ugm.preemption import plan_reductions as reductions_of
from ugm.preemption.plan import queue_input
from ugm.preemption.queue_usage_tree import QueueUsageTree
from ugm.preemption.settings import PreemptionSettings
from ugm.resources import Resource
from ugm.tracking.self_check import ReadLocked

__all__ = [
    "PreemptionCall",
    "PreemptionPlanning",
    "require_preemption_call",
    "require_preemption_plan",
    "require_reduction_call",
]


_TERMINATING: Final = AllocationState.TERMINATING

#: The outcomes of plans that evict nothing, whatever models would do.
_FINAL: Final = frozenset((Outcome.BLOCKED, Outcome.NEVER, Outcome.MUST_NOT_PREEMPT, Outcome.EARLY, Outcome.NONE))


class PreemptionCall(NamedTuple):
    """The checked arguments of `PreemptionPlanning.plan`."""

    request: AllocationRequest
    since: int
    now: int | None
    may_preempt: bool
    within_queue: bool
    placed: Sequence[AllocationRequest]

    @property
    def query(self) -> QueryRequest:
        """The request as a query."""
        _, _, usage, _, priority, preemptible, duration = self.request
        return QueryRequest(usage, priority, preemptible, duration)


def require_preemption_call(
    request: AllocationRequest,
    since: int,
    now: int | None,
    placed: Iterable[AllocationRequest | tuple[str, str, Resource]],
    *,
    may_preempt: bool,
    within_queue: bool,
) -> PreemptionCall:
    """Return the arguments after checking them.

    Raises:
        RequestError: an argument is invalid.
    """
    if not isinstance(request, AllocationRequest):
        raise RequestError("request", request, "expected an AllocationRequest")
    require_resource("usage", request.usage)
    for argument, value in (("since", since), ("now", 0 if now is None else now)):
        if type(value) is not int:
            raise RequestError(argument, value, "expected whole seconds")
    for argument, flag in (("may_preempt", may_preempt), ("within_queue", within_queue)):
        if type(flag) is not bool:
            raise RequestError(argument, flag, "expected True or False")
    listed = require_requests(placed, "placed")
    for one in listed:
        require_name("allocation_id", one.allocation_id)
        require_application_id(one.application_id)
    return PreemptionCall(request, since, now, may_preempt, within_queue, listed)


def require_reduction_call(now: int | None, *, overshoot: bool) -> tuple[int | None, bool]:
    """Return the arguments of a plan of reductions, after checking them.

    Raises:
        RequestError: an argument is invalid.
    """
    if now is not None and type(now) is not int:
        raise RequestError("now", now, "expected whole seconds")
    if type(overshoot) is not bool:
        raise RequestError("overshoot", overshoot, "expected True or False")
    return now, overshoot


def require_preemption_plan(plan: object) -> PreemptionPlan | ReductionPlan:
    """Return a plan, after checking its type.

    Raises:
        RequestError: it is not a plan.
    """
    if not isinstance(plan, PreemptionPlan | ReductionPlan):
        raise RequestError("plan", plan, "expected a PreemptionPlan or a ReductionPlan")
    return plan


class _Copy(NamedTuple):
    """Everything that a plan depends on, at one moment."""

    world: WorldCopy
    request: PreemptionRequest
    #: The requests that count as granted: those that the caller names, and those of earlier plans.
    given: tuple[PlacedRequest, ...]
    recorded: tuple[PlacedRequest, ...]
    now: int
    #: Whether the request is pending, and whether it would be granted.
    is_pending: bool
    is_allowed: bool
    #: The answer of limits that no eviction resolves.
    blocked: Decision | None
    #: The limits of models that deny the request, and the allocations that the models would evict.
    in_models: tuple[Violation, ...]
    evictions: tuple[str, ...]


class _ReductionCopy(NamedTuple):
    """Everything that a plan of reductions depends on, at one moment."""

    #: None if no timer is due.
    world: WorldCopy | None
    timers: tuple[ReductionTimer, ...]
    placed: tuple[PlacedRequest, ...]
    now: int


@final
class PreemptionPlanning:
    """Makes plans for requests and for queues above their maxima, and carries them out.

    Args:
        state: the partition.
        models: its quota models.
        admission: decides about requests.
        queries: answers questions about subjects.
        timers: the timers of queues above their maxima.
        settings: the settings of the configuration.
        reserve: lets a pending request reserve capacity in the queues that do so.
    """

    __slots__ = ("_admission", "_counts", "_models", "_queries", "_reserve", "_settings", "_state", "_timers")

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        admission: Admission,
        queries: SubjectQueries,
        timers: ReductionTimers,
        settings: SettingsCache,
        reserve: Callable[[str, LedgerEntry], None],
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._reserve: Final = reserve
        self._queries: Final = queries
        self._timers: Final = timers
        self._settings: Final = settings
        #: The number of plans by outcome.
        self._counts: Final[dict[str, int]] = {}

    # Plans

    def plan(self, call: PreemptionCall, read: ReadLocked) -> PreemptionPlan:
        """Return a plan for a request.

        Args:
            call: the arguments.
            read: runs a function under the lock.

        Raises:
            RequestError: the application does not exist or is failing, or an argument is invalid.
        """
        copy = read(self._copy, call)
        settings = self._settings.of(copy.world.compiled)
        if copy.in_models:
            plan = self._plan_with_models(call, copy, settings, read)
        else:
            plan = _plan(copy, settings, call)
            if plan.outcome is Outcome.FITS and not copy.is_allowed:
                plan = replace(plan, outcome=Outcome.AWAITS_TERMINATING)
        read(self._count, plan.outcome.value)
        return plan

    def _copy(self, call: PreemptionCall) -> _Copy:
        request = call.request
        decision = self._queries.check(request.application_id, call.query)
        world = WorldCopy.of(self._state)
        claim = self._queries.claim(request.application_id, call.query)
        leaving = list(self._state.terminating_entries().items())
        violations = self._violations(call, claim, leaving)
        own = [one for one in violations if one.kind in tuple(TrackingType)]
        blocking = tuple(one for one in own if one.kind != TrackingType.QUEUE or one.resource is None)
        in_models = tuple(violations[len(own) :])
        return _Copy(
            world,
            PreemptionRequest(
                request.allocation_id,
                request.application_id,
                self._state.applications[request.application_id].queue.queue_path,
                request.usage,
                request.priority,
                call.since,
                call.may_preempt,
            ),
            self._given_placed(call),
            self._placed(request.allocation_id),
            self._models.clock.now(changes=False) if call.now is None else call.now,
            self._is_pending(request.allocation_id),
            decision.allowed,
            Decision(blocking) if blocking else None,
            in_models,
            self._models.evictions(claim) if in_models else (),
        )

    def _given_placed(self, call: PreemptionCall) -> tuple[PlacedRequest, ...]:
        """Return the requests that the caller names and for which no recorded plan has made room."""
        known = {call.request.allocation_id, *self._state.placed_entries()}
        named = {one.allocation_id: one for one in call.placed}
        return tuple(PlacedRequest(self._path_of(one), one.usage) for name, one in named.items() if name not in known)

    def _placed(self, but_for: str = "") -> tuple[PlacedRequest, ...]:
        """Return the pending requests for which earlier plans have made room, except one."""
        return tuple(
            PlacedRequest(entry.application.queue.queue_path, entry.usage)
            for name, entry in self._state.placed_entries().items()
            if name != but_for
        )

    def _path_of(self, placed: AllocationRequest) -> str:
        require_resource("usage", placed.usage)
        return self._admission.require_application(placed.application_id).queue.queue_path

    def _violations(
        self, call: PreemptionCall, claim: Claim, leaving: Sequence[tuple[str, LedgerEntry]]
    ) -> tuple[Violation, ...]:
        """Return every limit that the request would exceed after the release of some allocations."""
        return self._queries.violations_without(call.request.application_id, call.request.usage, claim, leaving)

    def _plan_with_models(
        self, call: PreemptionCall, copy: _Copy, settings: PreemptionSettings, read: ReadLocked
    ) -> PreemptionPlan:
        """Return a plan for a request that models deny."""
        evicted = [name for name in copy.evictions if _may_be_evicted(copy, name)]
        plan = _plan(copy, settings, call, evicted)
        if plan.outcome in _FINAL:
            return plan
        denied = PreemptionPlan(
            copy.request, Outcome.NONE, copy.now, decision=Decision(copy.in_models), missing=plan.missing
        )
        # Without evictions of models, the victims of the queues may free enough in the models as well.
        if len(evicted) < len(copy.evictions) or not read(self._fits, call, evicted, plan):
            return denied
        for name in list(evicted):
            rest = [one for one in evicted if one != name]
            other = _plan(copy, settings, call, rest)
            is_smaller = other.outcome not in _FINAL and len(other.victims) <= len(plan.victims)
            if is_smaller and read(self._fits, call, rest, other):
                plan, evicted = other, rest
        victims = _model_victims(copy.world, evicted)
        protected = tuple(kept for one in plan.protected if (kept := one.without(evicted)).allocation_ids)
        return replace(plan, outcome=Outcome.PLAN, by_model=victims, protected=protected)

    def _fits(self, call: PreemptionCall, evicted: Sequence[str], plan: PreemptionPlan) -> bool:
        """Return whether the request fits once victims and terminating allocations are released."""
        names = [*evicted, *(victim.allocation_id for victim in plan.victims)]
        ledger = self._state.ledger
        leaving = [(name, entry) for name in names if (entry := ledger.get(name)) is not None]
        leaving += [one for one in self._state.terminating_entries().items() if one[0] not in names]
        claim = self._queries.claim(call.request.application_id, call.query)
        return not self._violations(call, claim, leaving)

    # Status

    def status(self) -> PreemptionStatus:
        """Return the terminating allocations, the placed requests, the timers, and the number of plans by outcome."""
        state = self._state
        placed, terminating = state.placed_entries(), state.terminating_entries()
        return PreemptionStatus(
            tuple(OwnedAllocation.of(name, entry) for name, entry in terminating.items()),
            tuple(OwnedAllocation.of(name, entry) for name, entry in sorted(placed.items())),
            self._timers.running(),
            dict(sorted(self._counts.items())),
        )

    def _count(self, outcome: str) -> None:
        self._counts[outcome] = self._counts.get(outcome, 0) + 1

    # Reductions

    def plan_reductions(self, now: int | None, overshoot: bool, read: ReadLocked) -> ReductionPlan:  # noqa: FBT001 - checked arguments
        """Return a plan that brings all queues whose delay is over back within their maxima.

        Args:
            now: the time in seconds; None for the clock of the partition.
            overshoot: whether a leaf may give more than its share.
            read: runs a function under the lock.
        """
        copy = read(self._copy_for_reductions, now)
        if copy.world is None:
            return ReductionPlan(copy.now)
        world = copy.world.world(self._settings.of(copy.world.compiled), copy.placed)
        plan = reductions_of(world, copy.timers, copy.now, overshoot=overshoot)
        read(self._count, "reduction")
        return plan

    def _copy_for_reductions(self, now: int | None) -> _ReductionCopy:
        timers = self._timers.running()
        now = self._models.clock.now(changes=False) if now is None else now
        is_any_due = any(timer.due <= now for timer in timers)
        # The size of the cluster is not enforced.
        world = WorldCopy.of(self._state)._replace(cluster=None) if is_any_due else None
        return _ReductionCopy(world, timers, self._placed(), now)

    # Carrying out

    def carry_out(self, plan: PreemptionPlan | ReductionPlan) -> tuple[str, ...]:
        """Mark the victims of a plan as terminating, or none of them, and mark its request as placed if it is pending.

        Returns:
            The allocations that were marked; empty if no victim is held now.

        Raises:
            RequestError: the plan has no victims, or it is stale.
        """
        by_model = plan.by_model if isinstance(plan, PreemptionPlan) else ()
        victims = (*by_model, *plan.victims)
        if not victims:
            raise RequestError("plan", _headline(plan), "the plan has no victims")
        held = {victim.allocation_id: self._held(victim.allocation_id) for victim in victims}
        if not any(held.values()) and not self._waits_without_room(plan):
            return ()
        objection = self._changed_victim(victims, held) or self._changed_subject(plan) or self._changed_queue(plan)
        if objection:
            self._count("stale")
            raise RequestError("plan", _headline(plan), f"the plan is stale: {objection}")
        self._count("carried_out")
        for name, entry in held.items():
            if entry is not None:
                self._state.mark_terminating(name, entry)
        if isinstance(plan, PreemptionPlan):
            self._place(plan.request)
        return tuple(held)

    def _waits_without_room(self, plan: PreemptionPlan | ReductionPlan) -> bool:
        """Return whether the request of a plan is pending and not placed: the plan was not carried out."""
        if isinstance(plan, ReductionPlan):
            return False
        name = plan.request.allocation_id
        return self._is_pending(name) and name not in self._state.placed_entries()

    def _is_pending(self, allocation_id: str) -> bool:
        entry = self._state.ledger.get(allocation_id)
        return entry is not None and entry.traits.state is AllocationState.PENDING

    def _place(self, request: PreemptionRequest) -> None:
        """Mark a request as placed if it is pending, and let it take over the reservations of its queues."""
        entry = self._state.ledger.get(request.allocation_id)
        if entry is not None:
            self._state.mark_placed(request.allocation_id, entry)
            self._reserve(request.allocation_id, entry)

    def _changed_subject(self, plan: PreemptionPlan | ReductionPlan) -> str:
        """Return what has changed about the request, or about the timers of the due queues; empty for nothing."""
        if isinstance(plan, PreemptionPlan):
            return self._changed_request(plan)
        running = {timer.queue_path: timer.since for timer in self._timers.running()}
        changed = [one.queue_path for one in plan.queues if running.get(one.queue_path) != one.since]
        return f"the timer of queue {changed[0]} has stopped" if changed else ""

    def _changed_request(self, plan: PreemptionPlan) -> str:
        request = plan.request
        name = request.allocation_id
        if request.application_id not in self._state.applications:
            return f"application {request.application_id!r} has ended"
        entry = self._state.ledger.get(name)
        if entry is None:
            return f"request {name!r} was withdrawn" if plan.is_pending else ""
        if entry.traits.state is not AllocationState.PENDING:
            return f"request {name!r} is granted"
        found = entry.application.application_id, entry.usage, entry.traits.priority
        is_same = found == (request.application_id, request.usage, request.priority)
        return "" if is_same else f"request {name!r} has changed"

    def _held(self, allocation_id: str) -> LedgerEntry | None:
        entry = self._state.ledger.get(allocation_id)
        return None if entry is None or entry.traits.state is not AllocationState.HELD else entry

    def _changed_victim(self, victims: Sequence[Victim], held: dict[str, LedgerEntry | None]) -> str:
        for victim in victims:
            entry = held[victim.allocation_id]
            if entry is None:
                return f"allocation {victim.allocation_id!r} is terminating or released"
            found = entry.application.application_id, entry.usage, entry.traits.priority, entry.traits.preemptible
            if found != (victim.application_id, victim.usage, victim.priority, True):
                return f"allocation {victim.allocation_id!r} has changed"
        return ""

    def _changed_queue(self, plan: PreemptionPlan | ReductionPlan) -> str:
        nodes = QueueUsageTree(self._world_of(plan)).nodes
        for before in plan.inputs:
            node = nodes.get(before.queue_path)
            if node is None:
                return f"queue {before.queue_path} does not exist any more"
            now = queue_input(node)
            if now != before:
                fields = zip(before._fields, before, now, strict=True)
                changed = ", ".join(name for name, old, new in fields if old != new)
                return f"queue {before.queue_path} has changed ({changed})"
        return ""

    def _world_of(self, plan: PreemptionPlan | ReductionPlan) -> World:
        """Return the queues and allocations as they are now, with the assumptions of a plan."""
        settings, copy = self._settings.of(self._state.compiled), WorldCopy.of(self._state)
        if isinstance(plan, ReductionPlan):
            return copy._replace(cluster=None).world(settings, self._placed())
        evicted = {victim.allocation_id for victim in plan.by_model}
        placed = (*plan.placed, *self._placed(plan.request.allocation_id))
        return copy.world(settings, placed, evicted)


def _plan(
    copy: _Copy, settings: PreemptionSettings, call: PreemptionCall, evicted: Sequence[str] = ()
) -> PreemptionPlan:
    world = copy.world.world(settings, (*copy.given, *copy.recorded), set(evicted))
    plan = plan_for_queues(world, copy.request, copy.now, within_queue=call.within_queue, blocked=copy.blocked)
    return replace(plan, placed=copy.given, is_pending=copy.is_pending) if plan else plan


def _may_be_evicted(copy: _Copy, allocation_id: str) -> bool:
    """Return whether the rules about single allocations that do not depend on queues permit an eviction."""
    world, request = copy.world, copy.request
    if allocation_id not in world.names:
        return False
    index = world.names.index(allocation_id)
    stored = world.stored[index]
    if stored is None:
        return False
    facts = facts_of(allocation_id, world.owners[index], stored)
    if facts.is_terminating or not facts.preemptible or facts.application_id == request.application_id:
        return False
    least = request.priority + (facts.queue_path != request.queue_path)
    return facts.priority < least


def _model_victims(world: WorldCopy, names: Sequence[str]) -> tuple[Victim, ...]:
    found = []
    for name in names:
        index = world.names.index(name)
        stored = world.stored[index]
        if stored is not None:
            facts = facts_of(name, world.owners[index], stored)
            found.append(Victim(name, facts.application_id, facts.queue_path, facts.usage, facts.priority))
    return tuple(found)


def _headline(plan: PreemptionPlan | ReductionPlan) -> str:
    return str(plan).partition("\n")[0]

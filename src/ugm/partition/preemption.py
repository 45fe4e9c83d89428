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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, final

from ugm.decision import Decision
from ugm.errors import RequestError
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import LedgerEntry
from ugm.partition.model_set import ModelSet
from ugm.partition.model_victims import evictions_of_nodes, explained_evictions, permitted_evictions
from ugm.partition.preemption_call import PreemptionCall, requests_of
from ugm.partition.preemption_trial import PreemptionTrial, TrialAnswer
from ugm.partition.reduction_timers import ReductionTimers, SettingsCache
from ugm.partition.reports import OwnedAllocation, PreemptionStatus
from ugm.partition.state import PartitionState
from ugm.partition.subject_queries import QueryRequest, SubjectQueries
from ugm.partition.world_copy import WorldCopy, facts_of
from ugm.preemption import (
    AllocationFacts,
    Outcome,
    PlacedRequest,
    PreemptionPlan,
    PreemptionRequest,
    ReductionPlan,
    ReductionTimer,
    Victim,
    World,
)
from ugm.preemption import plan_reductions as reductions_of
from ugm.preemption.eligibility import Situation
from ugm.preemption.plan import QueueInput, queue_input
from ugm.preemption.planner import plans_of_nodes
from ugm.preemption.queue_usage_tree import QueueUsageTree
from ugm.preemption.settings import PreemptionSettings
from ugm.resources import Resource, sum_of
from ugm.tracking.self_check import ReadLocked

__all__ = ["PreemptionPlanning"]


_TERMINATING: Final = AllocationState.TERMINATING

#: The outcomes of plans that evict nothing, whatever models would do.
_FINAL: Final = frozenset((Outcome.BLOCKED, Outcome.NEVER, Outcome.MUST_NOT_PREEMPT, Outcome.EARLY, Outcome.NONE))


class _Copy(NamedTuple):
    """Everything that a plan depends on, at one moment."""

    world: WorldCopy
    request: PreemptionRequest
    #: The requests that count as granted: those that the caller names, and those of earlier plans.
    given: tuple[PlacedRequest, ...]
    recorded: tuple[PlacedRequest, ...]
    now: int
    #: The allocations that are leaving already.
    terminating: frozenset[str]
    #: Whether the request is pending, and whether it would be granted.
    is_pending: bool
    is_allowed: bool
    #: The answer of all limits once the terminating allocations are released.
    answer: TrialAnswer

    @property
    def blocked(self) -> Decision | None:
        """The answer of limits that no eviction resolves."""
        return Decision(self.answer.blocking) if self.answer.blocking else None

    @property
    def placed(self) -> tuple[PlacedRequest, ...]:
        """All requests that count as granted."""
        return (*self.given, *self.recorded)


class _ReductionCopy(NamedTuple):
    """Everything that a plan of reductions depends on, at one moment."""

    #: None if no timer is due.
    world: WorldCopy | None
    timers: tuple[ReductionTimer, ...]
    placed: tuple[PlacedRequest, ...]
    now: int


class _Trial(NamedTuple):
    """A plan for queues that counts some evictions of models as released."""

    plan: PreemptionPlan
    evicted: list[str]
    #: Whether all evictions that the models propose on the nodes of the plan are permitted.
    is_permitted: bool

    def order(self) -> tuple[object, ...]:
        """Return the place among the trials of other nodes: fewer evictions first, and then the cheaper victims."""
        cost = self.plan.cost
        rest = () if cost is None else cost.order
        return len(self.evicted) + len(self.plan.victims), rest, self.plan.node or ""


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

    __slots__ = ("_admission", "_counts", "_models", "_queries", "_reserve", "_settings", "_state", "_timers", "_trial")

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        admission: AdmissionControl,
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
        self._trial: Final = PreemptionTrial(state, models, admission, queries)
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
        if copy.answer.in_models and not copy.is_allowed:
            plan = self._plan_with_models(call, copy, settings, read)
        else:
            plan = next(_plans(copy, settings, call, (), call.nodes))
            if plan.outcome is Outcome.FITS and not copy.is_allowed:
                plan = replace(plan, outcome=Outcome.AWAITS_TERMINATING)
        read(self._count, plan.outcome.value)
        return plan

    def _copy(self, call: PreemptionCall) -> _Copy:
        request = call.request
        _, application_id, usage, _, priority, preemptible, duration, _ = request
        decision = self._queries.check(application_id, QueryRequest(usage, priority, preemptible, duration))
        placed = self._trial.placed_entries(request.allocation_id, call.placed)
        answer = self._trial.answer(request, placed, self._state.terminating_entries(), evicts=True)
        return _Copy(
            WorldCopy.of(self._state),
            PreemptionRequest(
                request.allocation_id,
                request.application_id,
                self._state.applications[request.application_id].queue.queue_path,
                request.usage,
                request.priority,
                call.since,
                call.may_preempt,
            ),
            self._given_placed(call, placed),
            self._placed(request.allocation_id),
            self._models.clock.now(changes=False) if call.now is None else call.now,
            frozenset(self._state.terminating_entries()),
            self._is_pending(request.allocation_id),
            decision.allowed and answer.is_allowed,
            answer,
        )

    def _given_placed(self, call: PreemptionCall, placed: Mapping[str, LedgerEntry]) -> tuple[PlacedRequest, ...]:
        """Return the requests that the caller names and for which no recorded plan has made room.

        Args:
            call: the arguments.
            placed: all requests that count as granted.
        """
        recorded, named = self._state.placed_entries(), {one.allocation_id: one for one in call.placed}
        return tuple(
            _placed_request(one, placed[name]) for name, one in named.items() if name in placed and name not in recorded
        )

    def _placed(self, but_for: str = "") -> tuple[PlacedRequest, ...]:
        """Return the pending requests for which earlier plans have made room, except one."""
        return tuple(
            PlacedRequest(entry.application.queue.queue_path, entry.usage, node=entry.traits.node)
            for name, entry in self._state.placed_entries().items()
            if name != but_for
        )

    def _plan_with_models(
        self, call: PreemptionCall, copy: _Copy, settings: PreemptionSettings, read: ReadLocked
    ) -> PreemptionPlan:
        """Return a plan for a request that models deny."""
        # What a model would evict may be leaving already.
        evictions = [name for name in copy.answer.evictions if name not in copy.terminating]
        trials: list[_Trial] = []
        for proposed, nodes in evictions_of_nodes(copy.world, evictions, call.nodes):
            evicted = permitted_evictions(copy.world, copy.request, proposed)
            plans = _plans(copy, settings, call, evicted, nodes)
            trials += [_Trial(plan, evicted, is_permitted=len(evicted) == len(proposed)) for plan in plans]
        possible = sorted((one for one in trials if one.plan.outcome not in _FINAL), key=_Trial.order)
        if not possible:
            return trials[0].plan
        for plan, evicted, is_permitted in possible:
            # Without evictions of models, the victims of the queues may free enough in the models as well.
            if is_permitted and read(self._fits, call, evicted, plan):
                return self._without_needless(call, copy, settings, read, plan, evicted)
        missing, in_models = possible[0].plan.missing, copy.answer.in_models
        return PreemptionPlan(copy.request, Outcome.NONE, copy.now, decision=Decision(in_models), missing=missing)

    def _without_needless(
        self,
        call: PreemptionCall,
        copy: _Copy,
        settings: PreemptionSettings,
        read: ReadLocked,
        plan: PreemptionPlan,
        evicted: list[str],
    ) -> PreemptionPlan:
        """Return a plan without evictions of models that are not needed."""
        nodes = None if plan.node is None else {plan.node: plan.free_on_node or Resource()}
        for name in list(evicted):
            rest = [one for one in evicted if one != name]
            other = next(_plans(copy, settings, call, rest, nodes))
            is_smaller = other.outcome not in _FINAL and len(other.victims) <= len(plan.victims)
            if is_smaller and read(self._fits, call, rest, other):
                plan, evicted = other, rest
        victims = explained_evictions(copy.world, evicted)
        protected = tuple(kept for one in plan.protected if (kept := one.without(evicted)).allocation_ids)
        return replace(plan, outcome=Outcome.PLAN, by_model=victims, protected=protected)

    def _fits(self, call: PreemptionCall, evicted: Sequence[str], plan: PreemptionPlan) -> bool:
        """Return whether the request fits once victims and terminating allocations are released."""
        names = [*evicted, *(victim.allocation_id for victim in plan.victims)]
        return not self._answer_without(call.request, call.placed, names).denials

    def _answer_without(
        self,
        request: AllocationRequest,
        named: Sequence[AllocationRequest],
        names: Iterable[str] = (),
        *,
        evicts: bool = False,
    ) -> TrialAnswer:
        """Return the answer of all limits without some allocations and the terminating ones."""
        ledger = self._state.ledger
        leaving = {name: entry for name in names if (entry := ledger.get(name)) is not None}
        placed = self._trial.placed_entries(request.allocation_id, named)
        return self._trial.answer(request, placed, leaving | self._state.terminating_entries(), evicts=evicts)

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
        objection = self._changed_victim(victims, held, plan) or self._changed_subject(plan) or self._changed_rest(plan)
        if objection:
            self._count("stale")
            raise RequestError("plan", _headline(plan), f"the plan is stale: {objection}", "plan-stale")
        self._count("carried_out")
        for name, entry in held.items():
            if entry is not None:
                self._state.mark_terminating(name, entry)
        if isinstance(plan, PreemptionPlan):
            self._place(plan)
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

    def _place(self, plan: PreemptionPlan) -> None:
        """Mark a request as placed if it is pending, and let it take over the reservations of its queues."""
        name = plan.request.allocation_id
        entry = self._state.ledger.get(name)
        if entry is not None:
            self._state.mark_placed(name, entry, plan.node)
            self._reserve(name, self._state.ledger[name])

    def _changed_subject(self, plan: PreemptionPlan | ReductionPlan) -> str:
        """Return what has changed about the request, or about the timers of the due queues; empty for nothing."""
        if isinstance(plan, PreemptionPlan):
            return self._changed_request(plan)
        running, now = {timer.queue_path: timer for timer in self._timers.running()}, self._latest(plan)
        for one in plan.queues:
            timer = running.get(one.queue_path)
            if timer is None or timer.since != one.since:
                return f"the timer of queue {one.queue_path} has stopped"
            if timer.due > now:
                return f"queue {one.queue_path} is due at {timer.due} now"
        return ""

    def _changed_request(self, plan: PreemptionPlan) -> str:
        for one in (_planned_request(plan), *plan.placed):
            changed = self._changed_pending(one)
            if changed:
                return changed
        name = plan.request.allocation_id
        if self._state.ledger.get(name) is None:
            return f"request {name!r} was withdrawn" if plan.is_pending else ""
        return "" if self._is_pending(name) else f"request {name!r} is granted"

    def _changed_pending(self, planned: PlacedRequest) -> str:
        """Return what has changed about the application of a request, or about the request if it is pending."""
        application = self._state.applications.get(planned.application_id)
        if application is None or application.failing:
            return f"application {planned.application_id!r} {'has ended' if application is None else 'is failing'}"
        path, name = application.queue.queue_path, planned.allocation_id
        if path != planned.queue_path:
            return f"application {planned.application_id!r} is in queue {path} now"
        entry = self._state.ledger.get(name)
        if entry is None or entry.traits.state is not AllocationState.PENDING:
            return ""
        is_same = _is_same(entry, planned, preemptible=planned.preemptible)
        return "" if is_same and entry.traits.duration == planned.duration else f"request {name!r} has changed"

    def _held(self, allocation_id: str) -> LedgerEntry | None:
        entry = self._state.ledger.get(allocation_id)
        return None if entry is None or entry.traits.state is not AllocationState.HELD else entry

    def _changed_victim(
        self, victims: Sequence[Victim], held: dict[str, LedgerEntry | None], plan: PreemptionPlan | ReductionPlan
    ) -> str:
        node = plan.node if isinstance(plan, PreemptionPlan) else None
        for victim in victims:
            entry = held[victim.allocation_id]
            if entry is None:
                return f"allocation {victim.allocation_id!r} is terminating or released"
            if not _is_same(entry, victim, preemptible=True) or node not in {None, entry.traits.node}:
                return f"allocation {victim.allocation_id!r} has changed"
        return ""

    def _changed_rest(self, plan: PreemptionPlan | ReductionPlan) -> str:
        """Return what has changed about queues, policies or limits; empty for nothing."""
        tree = QueueUsageTree(self._world_of(plan))
        changed = _changed_queue(plan.inputs, tree)
        if changed or isinstance(plan, ReductionPlan):
            return changed
        return _changed_policy(plan, tree, self._latest(plan)) or self._changed_answer(plan, tree)

    def _latest(self, plan: PreemptionPlan | ReductionPlan) -> int:
        """Return the time in seconds; a program may have made the plan for a later time than that of the clock."""
        return max(plan.now, self._models.clock.now(changes=False))

    def _changed_answer(self, plan: PreemptionPlan, tree: QueueUsageTree) -> str:
        """Return the reason why the request does not need the victims now, or why they do not suffice."""
        request, named = requests_of(plan)
        now = self._answer_without(request, named, evicts=bool(plan.by_model))
        lacking = {} if plan.node is None else tree.lacking_on(plan.node, plan.request.usage.amounts)
        if (now.is_allowed or not now.denials) and not lacking:
            return "the request fits without evictions now"
        freed = sum_of(one.usage for one in plan.victims)
        if any(freed.get(name, 0) < amount for name, amount in lacking.items()):
            return f"the request would not fit on node {plan.node!r}"
        victims = [one.allocation_id for one in (*plan.by_model, *plan.victims)]
        denials = self._answer_without(request, named, victims).denials
        if denials:
            return f"the request would not fit: {denials[0]}"
        # The application of a victim may be another one with the same id, in a group that does not lack anything.
        kept = [one.allocation_id for one in plan.by_model if one.allocation_id not in now.evictions]
        return f"no quota model would evict allocation {kept[0]!r} now" if kept else ""

    def _world_of(self, plan: PreemptionPlan | ReductionPlan) -> World:
        """Return the queues and allocations as they are now, with the assumptions of a plan."""
        settings, copy = self._settings.of(self._state.compiled), WorldCopy.of(self._state)
        if isinstance(plan, ReductionPlan):
            return copy._replace(cluster=None).world(settings, self._placed())
        evicted = {victim.allocation_id for victim in plan.by_model}
        recorded = self._placed(plan.request.allocation_id)
        nodes = None if plan.node is None else {plan.node: plan.free_on_node or Resource()}
        return copy.world(settings, (*self._uncounted(plan.placed), *recorded), evicted, nodes)

    def _uncounted(self, named: Iterable[PlacedRequest]) -> Iterator[PlacedRequest]:
        """Yield the named requests that neither are granted now nor have a plan that was carried out since."""
        recorded = self._state.placed_entries()
        for one in named:
            entry = self._state.ledger.get(one.allocation_id)
            is_granted = entry is not None and entry.traits.state is not AllocationState.PENDING
            if not is_granted and one.allocation_id not in recorded:
                yield one


def _plans(
    copy: _Copy,
    settings: PreemptionSettings,
    call: PreemptionCall,
    evicted: Sequence[str],
    nodes: Mapping[str, Resource] | None,
) -> Iterator[PreemptionPlan]:
    """Yield the plans of some nodes, the cheapest first; see `plans_of_nodes`."""
    world = copy.world.world(settings, copy.placed, set(evicted), nodes)
    plans = plans_of_nodes(world, copy.request, copy.now, within_queue=call.within_queue, blocked=copy.blocked)
    _, _, _, _, _, preemptible, duration, _ = call.request
    for plan in plans:
        yield replace(plan, placed=copy.given, is_pending=copy.is_pending, preemptible=preemptible, duration=duration)


def _placed_request(placed: AllocationRequest, entry: LedgerEntry) -> PlacedRequest:
    name, _, _, _, priority, preemptible, duration, node = placed
    if entry.traits.state is AllocationState.PENDING:
        # These count, whatever the caller says.
        _, _, priority, preemptible, _, duration, known_node = entry.traits
        node = node or known_node
    application = entry.application
    path, application_id = application.queue.queue_path, application.application_id
    return PlacedRequest(path, entry.usage, name, application_id, priority, preemptible, duration, node)


def _planned_request(plan: PreemptionPlan) -> PlacedRequest:
    name, application_id, path, usage, priority, *_ = plan.request
    return PlacedRequest(path, usage, name, application_id, priority, plan.preemptible, plan.duration)


def _is_same(entry: LedgerEntry, planned: Victim | PlacedRequest, *, preemptible: bool) -> bool:
    """Return whether an entry is what a plan knows under its id, which may have been used again since."""
    name, path = planned.allocation_id, planned.queue_path
    known = AllocationFacts(name, planned.application_id, path, planned.usage, planned.priority, preemptible)
    return facts_of(name, entry.application, entry)._replace(node=None) == known


def _changed_queue(inputs: Iterable[QueueInput], tree: QueueUsageTree) -> str:
    for before in inputs:
        node = tree.nodes.get(before.queue_path)
        if node is None:
            return f"queue {before.queue_path} does not exist any more"
        now = queue_input(node)
        if now != before:
            fields = zip(before._fields, before, now, strict=True)
            changed = ", ".join(name for name, old, new in fields if old != new)
            return f"queue {before.queue_path} has changed ({changed})"
    return ""


def _changed_policy(plan: PreemptionPlan, tree: QueueUsageTree, now: int) -> str:
    situation = Situation(tree, plan.request, within_queue=True)
    # Victims that quota models choose need no delay.
    if plan.victims and situation.due > now:
        return f"the request may preempt from {situation.due} on"
    for victim in plan.victims:
        policy = situation.policy_protection(victim.queue_path)
        if policy is not None:
            return f"allocation {victim.allocation_id!r} is protected now ({policy})"
    return ""


def _headline(plan: PreemptionPlan | ReductionPlan) -> str:
    return str(plan).partition("\n")[0]

"""Preemption in a partition: plans for requests and for queues above their maxima, and how plans are carried out.

A plan needs the queues, the allocations and the answer of all limits at one moment, so it is made under the lock.
`ugm.preemption` searches for victims.

If quota models deny the request as well, the allocations that they would evict count as released, and the search finds
the victims that queues and the cluster still need. Then all limits decide, with all victims refunded and charged back.
Victims of models that are not needed are removed.

Between plan and execution the partition may change. `PreemptionPlanning.carry_out` makes the plan again, and accepts it
only if the request and the victims are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self, final

from ugm._json_values import Row
from ugm.arguments import require_instance, require_resource
from ugm.decision import Decision, Violation
from ugm.errors import RequestError
from ugm.identity import TrackingType, is_below, require_name
from ugm.model import SetupViolation
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.admission.trial_charges import TrialCharges
from ugm.partition.admission.variant_protection import OwnAmount
from ugm.partition.answers.queries import SubjectQueries
from ugm.partition.answers.reports import OwnedAllocation, owned_allocations
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation, AllocationRequest, AllocationState
from ugm.preemption import (
    AllocationFacts,
    Outcome,
    PreemptionPlan,
    PreemptionRequest,
    ReductionPlan,
    ReductionTimer,
    Victim,
    World,
    plan_reductions,
)
from ugm.preemption.eligibility import Situation
from ugm.preemption.plan import plans_of_nodes
from ugm.preemption.queue_usage_tree import QueueFacts, QueueUsageTree
from ugm.resources import Resource

_TERMINATING: Final = AllocationState.TERMINATING

#: The outcomes of plans that evict nothing, whatever models would do.
_FINAL: Final = frozenset((Outcome.BLOCKED, Outcome.NEVER, Outcome.MUST_NOT_PREEMPT, Outcome.EARLY, Outcome.NONE))


class PreemptionCall(NamedTuple):
    """The arguments of `PreemptionPlanning.plan`."""

    request: AllocationRequest
    since: int
    now: int | None
    may_preempt: bool
    within_queue: bool
    placed: Sequence[AllocationRequest]
    nodes: Mapping[str, Resource] | None

    def checked(self) -> Self:
        """Return the arguments after checking them.

        Raises:
            RequestError: an argument is invalid.
        """
        require_resource("usage", require_instance("request", self.request, AllocationRequest).usage)
        require_instance("since", self.since, int)
        require_instance("now", 0 if self.now is None else self.now, int)
        require_instance("may_preempt", self.may_preempt, bool)
        require_instance("within_queue", self.within_queue, bool)
        for one in self.placed:
            require_name("allocation_id", one.allocation_id)
            require_name("application_id", one.application_id)
        return self


class _Answer(NamedTuple):
    """The limits that deny a request after some releases."""

    #: The limits of users, groups and queues.
    own: tuple[Violation, ...]
    in_models: tuple[Violation, ...]
    #: Whether it would be granted now, before any release.
    is_allowed: bool
    #: The allocations that the models would evict now; empty if they allow the request, or if that does not help.
    evictions: tuple[str, ...]
    #: The named nodes on which the models allow as much as elsewhere; None if nodes do not matter.
    nodes: Mapping[str, Resource] | None

    @property
    def blocking(self) -> tuple[Violation, ...]:
        """The limits that evictions from other queues do not relieve."""
        return tuple(one for one in self.own if one.kind != TrackingType.QUEUE or one.resource is None)


class _Question(NamedTuple):
    """A request with everything that decides about its plan."""

    call: PreemptionCall
    request: PreemptionRequest
    #: The requests that count as granted, by id: those that the caller names, and those of earlier plans.
    placed: Mapping[str, Allocation]
    now: int
    #: The answer of all limits once the terminating allocations are released.
    answer: _Answer


class _Trial(NamedTuple):
    """A plan for queues that counts some evictions of models as released."""

    plan: PreemptionPlan
    evicted: tuple[str, ...]
    #: Whether all evictions that the models propose on the nodes of the plan are permitted.
    is_permitted: bool

    def order(self) -> tuple[object, ...]:
        """Return the place among the trials of other nodes: fewer evictions first, and then the cheaper victims."""
        plan = self.plan
        return len(self.evicted) + len(plan.victims), () if plan.cost is None else plan.cost.order, plan.node or ""


@dataclass(frozen=True, slots=True)
class PreemptionStatus(Row):
    """The allocations, requests and timers of preemption plans and reductions, and the number of plans by outcome."""

    #: The allocations that were marked and not released yet, sorted by id.
    terminating: tuple[OwnedAllocation, ...]
    #: The pending requests for which a plan has made room, sorted by id. Plans for others count them as granted.
    placed: tuple[OwnedAllocation, ...]
    #: The queues above their maximum that take part in reductions, sorted by path.
    timers: tuple[ReductionTimer, ...]
    #: The number of plans that this process has made for requests, by outcome. In addition, ``reduction`` is the number
    #: of plans for due queues, ``carried_out`` that of plans that were carried out, and ``stale`` that of refused ones.
    plans: Mapping[str, int]


@final
class PreemptionPlanning(SubjectQueries):
    """Makes plans for requests and for queues above their maxima, and carries them out; the caller holds the lock.

    Args:
        state: the partition.
        models: its quota models.
        admission: decides about requests.
        reserve: lets a pending request reserve capacity in the queues that do so.
    """

    def __init__(
        self, state: PartitionState, models: ModelSet, admission: AdmissionControl, reserve: Callable[[str], None]
    ) -> None:
        super().__init__(state, models, admission)
        self._reserve: Final = reserve
        #: The number of plans by outcome.
        self._counts: Final[Counter[str]] = Counter()

    # Plans for requests

    def plan(self, call: PreemptionCall) -> PreemptionPlan:
        """Return a plan for a request.

        Raises:
            RequestError: the application does not exist or is failing, or an argument is invalid.
        """
        application = self._admission.require_application(call.request.application_id)
        plan = self.best_plan(application, call.request, lambda *one: self._plan(call._replace(request=one[0]), one[1]))
        self._counts[plan.outcome.value] += 1
        return plan

    def _plan(self, call: PreemptionCall, objections: tuple[Violation, ...] = ()) -> PreemptionPlan:
        name, application_id, usage, _, priority, *_ = call.request
        decision = self.check(application_id, call.request)
        placed = self._placed_rows(name, call.placed)
        answer = self._answer(call.request, placed, evicts=True, nodes=call.nodes)
        answer = answer._replace(own=answer.own + objections, is_allowed=answer.is_allowed and not objections)
        path = self._state.applications[application_id].queue.queue_path
        options = call.since, call.may_preempt, call.within_queue, call.request.preemptible, call.request.duration
        request = PreemptionRequest(name, application_id, path, usage, priority, *options)
        now = self._models.clock.now(changes=False) if call.now is None else call.now
        call = call._replace(nodes=answer.nodes)
        question = _Question(call, request, placed, now, answer)
        is_allowed = decision.allowed and answer.is_allowed
        if answer.in_models and not is_allowed:
            return self._plan_with_models(question)
        plan = next(self._plans(question, (), call.nodes))
        if plan.outcome is Outcome.FITS and not is_allowed:
            plan = replace(plan, outcome=Outcome.AWAITS_TERMINATING)
        return plan

    # The answer of all limits after some releases

    def _placed_rows(self, allocation_id: str, placed: Sequence[AllocationRequest]) -> dict[str, Allocation]:
        """Return the requests that count as granted when a request is planned, those of earlier plans first.

        Args:
            allocation_id: the request.
            placed: requests that its caller counts as granted. Those that are granted count already. Of a pending one,
                only the node counts that the caller names.

        Raises:
            RequestError: the application of one does not exist or is failing, or another property is invalid.
        """
        rows = self._state.placed_rows()
        for one in placed:
            known = self._state.allocations.get(one.allocation_id)
            if known is None:
                new = self._admission.row(one, AllocationState.HELD)
                self._admission.require_not_failing(self._state.owner(new))
                rows.setdefault(one.allocation_id, new)
            elif known.state is AllocationState.PENDING:
                rows.setdefault(one.allocation_id, known._replace(node=one.node or known.node))
        rows.pop(allocation_id, None)
        return rows

    def _answer(
        self,
        request: AllocationRequest,
        placed: Mapping[str, Allocation],
        leaving: Iterable[Allocation] = (),
        *,
        evicts: bool = False,
        nodes: Mapping[str, Resource] | None = None,
    ) -> _Answer:
        """Return the answer of all limits. Everything is charged and refunded, so nothing has changed afterwards.

        Args:
            request: the request.
            placed: requests that count as granted.
            leaving: allocations that count as released, in addition to the terminating ones.
            evicts: whether to ask the models for evictions.
            nodes: the nodes that the request may run on.
        """
        charges = TrialCharges(self._state, self._models)
        for row in placed.values():
            # A model need not be able to charge a claim for which it is not set up. It never grants the request.
            if not any(isinstance(one, SetupViolation) for one in self._models.check(self._state.claim(row))):
                charges.charge(self._state.owner(row), row)
        application = self._state.applications[request.application_id]
        claim = self.claim(application, request)
        denied = self._models.check(claim)
        is_allowed = not denied and not self._state.violations(application, claim.usage)
        evictions = self._models.evictions(claim) if denied and evicts else ()
        possible = self.possible_nodes(claim, nodes)
        gone = [*leaving, *self._state.terminating_rows().values()]
        own, in_models = self.violations_without(application, claim, gone)
        charges.refund_all()
        return _Answer(own, in_models, is_allowed, evictions, possible)

    def _plans(
        self, question: _Question, evicted: Sequence[str], nodes: Mapping[str, Resource] | None
    ) -> Iterator[PreemptionPlan]:
        """Yield the plans of some nodes, the cheapest first; see `plans_of_nodes`."""
        request, blocking = question.request, question.answer.blocking
        world = self._world(question.placed.values(), evicted)
        world = world._replace(queues=self._with_own(world.queues, request.queue_path), nodes=nodes)
        situation = Situation(QueueUsageTree(world, request.application_id), request)
        given = tuple(self._facts(row) for name, row in question.placed.items() if name not in self._state.placed)
        is_pending = request.allocation_id in self._state.tables.requests
        for plan in plans_of_nodes(situation, question.now, Decision(blocking) if blocking else None):
            yield replace(plan, placed=given, is_pending=is_pending)

    def _world(self, placed: Iterable[Allocation], evicted: Iterable[str] = (), *, is_limited: bool = True) -> World:
        """Return the queues and allocations for a planner.

        Args:
            placed: the requests that count as granted.
            evicted: allocations that count as terminating.
            is_limited: whether the size of the cluster counts.
        """
        state, leaving = self._state, frozenset(evicted)
        settings = state.preemption_settings(state.compiled)
        clusters = {"root": state.tree.cluster if is_limited else None}
        queues = [
            settings.facts(path, one.quota, cluster=clusters.get(path)) for path, one in state.tree.queues.items()
        ]
        granted = (row for row in state.allocations.values() if row.state is not AllocationState.PENDING)
        facts = [self._facts(row, leaving) for row in granted]
        return World(queues, facts, [self._facts(row) for row in placed])

    def _with_own(self, queues: Sequence[QueueFacts], queue_path: str) -> Sequence[QueueFacts]:
        """Return the queues with guarantees of families as they count with borrowed amounts.

        Cards of a variant that other queues are guaranteed are no part of a guarantee of any variant. So a guarantee
        protects no more cards than are a queue's own, and does not count those that the queue of the request borrows.
        """
        variants = self._admission.variants
        if variants is None:
            return queues
        used = variants.protection.own_of_queues()
        return [_counted(one, used.get(one.queue_path, {}), is_below(queue_path, one.queue_path)) for one in queues]

    def _facts(self, row: Allocation, leaving: frozenset[str] = frozenset()) -> AllocationFacts:
        name, application_id, usage, state, _, priority, preemptible, _, duration, node, *_ = row
        path, is_terminating = self._state.applications[application_id].queue.queue_path, state is _TERMINATING
        traits = priority, preemptible, is_terminating or name in leaving, node, duration
        return AllocationFacts(name, application_id, path, usage, *traits)

    # Evictions of models

    def _plan_with_models(self, question: _Question) -> PreemptionPlan:
        """Return a plan for a request that models deny."""
        # What a model would evict may be leaving already.
        names = [name for name in question.answer.evictions if name not in self._state.terminating]
        granted, free = self._granted(names), question.call.nodes
        # The proposed victims of each node, and none on the other nodes; without nodes, all belong together.
        groups: list[tuple[list[AllocationFacts], Mapping[str, Resource] | None]] = [(granted, None)]
        if free is not None:
            hosts = {one.node: free[one.node] for one in granted if one.node is not None and one.node in free}
            groups = [([], {host: amounts for host, amounts in free.items() if host not in hosts})]
            groups += [([one for one in granted if one.node == host], {host: free[host]}) for host in hosts]
        trials: list[_Trial] = []
        for proposed, nodes in groups:
            evicted = tuple(one.allocation_id for one in proposed if _may_be_evicted(one, question.request))
            plans = self._plans(question, evicted, nodes)
            trials += [_Trial(plan, evicted, is_permitted=len(evicted) == len(proposed)) for plan in plans]
        possible = sorted((one for one in trials if one.plan.outcome not in _FINAL), key=_Trial.order)
        if not possible:
            return trials[0].plan
        for plan, evicted, is_permitted in possible:
            # Without evictions of models, the victims of the queues may free enough in the models as well.
            if is_permitted and self._fits(question, evicted, plan):
                return self._without_needless(question, plan, evicted)
        missing, decision = possible[0].plan.missing, Decision(question.answer.in_models)
        return PreemptionPlan(question.request, Outcome.NONE, question.now, decision=decision, missing=missing)

    def _granted(self, names: Iterable[str]) -> list[AllocationFacts]:
        """Return the facts about granted allocations; those with other names are left out."""
        return [self._facts(row) for row in map(self._state.held, names) if row is not None]

    def _without_needless(self, question: _Question, plan: PreemptionPlan, evicted: tuple[str, ...]) -> PreemptionPlan:
        """Return a plan without evictions of models that are not needed."""
        for name in list(evicted):
            rest = tuple(one for one in evicted if one != name)
            other = next(self._plans(question, rest, _node_of(plan)))
            is_smaller = other.outcome not in _FINAL and len(other.victims) <= len(plan.victims)
            if is_smaller and self._fits(question, rest, other):
                plan, evicted = other, rest
        by_model = tuple(Victim(*facts[:5]) for facts in self._granted(evicted))
        groups = ((one, tuple(name for name in one.allocation_ids if name not in evicted)) for one in plan.protected)
        protected = tuple(one._replace(allocation_ids=kept) for one, kept in groups if kept)
        return replace(plan, outcome=Outcome.PLAN, by_model=by_model, protected=protected)

    def _fits(self, question: _Question, evicted: Sequence[str], plan: PreemptionPlan) -> bool:
        """Return whether the request fits once victims and terminating allocations are released."""
        request, rows = question.call.request, self._state.allocations
        leaving = [rows[name] for name in (*evicted, *(victim.allocation_id for victim in plan.victims))]
        answer = self._answer(request, question.placed, leaving)
        return not answer.own and not answer.in_models

    # Status

    def status(self) -> PreemptionStatus:
        """Return the terminating allocations, the placed requests, the timers, and the number of plans by outcome."""
        return PreemptionStatus(
            owned_allocations(self._state, sorted(self._state.terminating)),
            owned_allocations(self._state, sorted(self._state.placed)),
            self._admission.timers.running(),
            dict(sorted(self._counts.items())),
        )

    # Reductions

    def plan_reductions(self, now: int | None, *, overshoot: bool) -> ReductionPlan:
        """Return a plan that brings all queues whose delay is over back within their maxima.

        Args:
            now: the time in seconds; None for the clock of the partition.
            overshoot: whether a leaf may give more than its share.

        Raises:
            RequestError: an argument is invalid.
        """
        require_instance("now", 0 if now is None else now, int)
        require_instance("overshoot", overshoot, bool)
        now, timers = self._models.clock.now(changes=False) if now is None else now, self._admission.timers.running()
        if not any(timer.due <= now for timer in timers):
            return ReductionPlan(now, overshoot=overshoot)
        self._counts["reduction"] += 1
        return self._reductions(timers, now, overshoot=overshoot)

    def _reductions(self, timers: Iterable[ReductionTimer], now: int, *, overshoot: bool) -> ReductionPlan:
        # The size of the cluster is not enforced.
        world = self._world(self._state.placed_rows().values(), is_limited=False)
        return plan_reductions(world, timers, now, overshoot=overshoot)

    # Carrying out

    def carry_out(self, plan: PreemptionPlan | ReductionPlan) -> tuple[str, ...]:
        """Mark the victims of a plan as terminating, or none of them, and mark its request as placed if it is pending.

        Returns:
            The allocations that were marked; empty if no victim is held now.

        Raises:
            RequestError: it is not a plan, has no victims, or is stale.
        """
        if not isinstance(plan, PreemptionPlan | ReductionPlan):
            raise RequestError("plan", plan, "expected a PreemptionPlan or a ReductionPlan")
        victims = _victims(plan)
        if not victims:
            raise RequestError("plan", _headline(plan), "the plan has no victims")
        rows = self._state.allocations
        held = [row for one in victims if (row := rows.get(one.allocation_id)) and row.state is AllocationState.HELD]
        name, node = (plan.request.allocation_id, plan.node) if isinstance(plan, PreemptionPlan) else ("", None)
        # A pending request that is not placed: the plan was not carried out.
        if not held and (name not in self._state.tables.requests or name in self._state.placed):
            return ()
        objection = self._objection(plan, victims, held)
        if objection:
            self._counts["stale"] += 1
            raise RequestError("plan", _headline(plan), f"the plan is stale: {objection}", "plan-stale")
        self._counts["carried_out"] += 1
        for row in held:
            self._state.mark_terminating(row)
        if name in rows:
            # The request takes over the reservations of its queues.
            self._state.mark_placed(rows[name], node)
            self._reserve(name)
        return tuple(row.allocation_id for row in held)

    def _objection(
        self, plan: PreemptionPlan | ReductionPlan, victims: Sequence[Victim], held: Iterable[Allocation]
    ) -> str:
        """Return the difference between a plan and the one that would be made now; empty for none."""
        facts: dict[object, tuple[object, ...]] = {row.allocation_id: self._facts(row)[:5] for row in held}
        for name, *rest in map(_facts_of, victims):
            if facts.get(name) != (name, *rest):
                return f"allocation {name!r} {'has changed' if name in facts else 'is terminating or released'}"
        # A program may have made the plan for a later time than that of the clock.
        now = max(plan.now, self._models.clock.now(changes=False))
        if isinstance(plan, ReductionPlan):
            due = {one.queue_path: one.since for one in plan.queues}
            timers = [one for one in self._admission.timers.running() if due.get(one.queue_path) == one.since]
            again: PreemptionPlan | ReductionPlan = self._reductions(timers, now, overshoot=plan.overshoot)
        else:
            try:
                again = self._plan(_call_of(plan, now))
            except RequestError as error:
                return f"{error.argument} {error.value!r}: {error.reason}"
            changed = self._changed_request(plan, again)
            if changed:
                return f"request {plan.request.allocation_id!r} {changed}"
        if not _victims(again):
            return _headline(again)
        same = [*map(_facts_of, _victims(again))] == [*map(_facts_of, victims)]
        return "" if same else "other victims are chosen now"

    def _changed_request(self, plan: PreemptionPlan, again: PreemptionPlan) -> str:
        """Return what has happened to the request of a plan, or to those that it counts as granted."""
        row = self._state.allocations.get(plan.request.allocation_id)
        if row is None and plan.is_pending:
            return "was withdrawn"
        if row is not None and row.state is not AllocationState.PENDING:
            return "is granted"
        if again.request != plan.request or not set(again.placed) <= set(plan.placed):
            return "or a placed one has changed"
        if row is not None:
            _, application_id, _, usage, priority, _, _, _, *traits = plan.request
            variants = self._admission.variants
            is_same = row.usage == usage or (variants and variants.is_assignment(usage, row.usage))
            now = [row.application_id, row.priority, row.preemptible, row.duration]
            if not is_same or now != [application_id, priority, *traits]:
                return "has changed"
        return ""


def _counted(queue: QueueFacts, used: Mapping[str, OwnAmount], is_of_request: bool) -> QueueFacts:  # noqa: FBT001 - of a private function
    """Return a queue whose guarantee is larger by the borrowed amounts of families, or at most its own amounts."""
    guaranteed = queue.guaranteed
    counted = {
        name: guaranteed[name] + one.borrowed if is_of_request else min(guaranteed[name], one.own)
        for name, one in used.items()
        if name in guaranteed
    }
    return queue._replace(guaranteed=Resource({**guaranteed, **counted}))


def _victims(plan: PreemptionPlan | ReductionPlan) -> tuple[Victim, ...]:
    """Return the victims of a plan, those of models first."""
    return plan.victims if isinstance(plan, ReductionPlan) else (*plan.by_model, *plan.victims)


def _facts_of(victim: Victim) -> tuple[object, ...]:
    return victim.allocation_id, victim.application_id, victim.queue_path, victim.usage, victim.priority


def _may_be_evicted(facts: AllocationFacts, request: PreemptionRequest) -> bool:
    """Return whether an allocation that a model proposes may be evicted; rules about queues do not apply."""
    if facts.is_terminating or not facts.preemptible or facts.application_id == request.application_id:
        return False
    return facts.priority < request.priority + (facts.queue_path != request.queue_path)


def _headline(plan: PreemptionPlan | ReductionPlan) -> str:
    return str(plan).partition("\n")[0]


def _call_of(plan: PreemptionPlan, now: int) -> PreemptionCall:
    """Return the arguments with which a plan is made again, for its node only."""
    name, application_id, _, usage, priority, since, may_preempt, within_queue, preemptible, duration = plan.request
    request = AllocationRequest(name, application_id, usage, False, priority, preemptible, duration)  # noqa: FBT003 - no placeholder
    placed = [
        AllocationRequest(*one[:2], one.usage, False, *one[4:6], one.duration, one.node)  # noqa: FBT003 - no placeholder
        for one in plan.placed
    ]
    return PreemptionCall(request, since, now, may_preempt, within_queue, placed, _node_of(plan))


def _node_of(plan: PreemptionPlan) -> Mapping[str, Resource] | None:
    """Return the node of a plan with its free amounts."""
    return None if plan.node is None else {plan.node: plan.free_on_node or Resource()}

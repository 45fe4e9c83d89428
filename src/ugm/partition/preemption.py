"""Preemption: plans for requests of a partition, and carrying them out.

A plan needs the queues, the allocations and the answer of all limits at one moment. Under the lock, only references to
them are copied. `ugm.preemption` searches for victims without the lock.

If quota models deny the request as well, the allocations that they would evict count as released, and the search finds
the victims that queues and the cluster still need. Then all limits decide, with all victims refunded and charged back.
Victims of models that are not needed are removed.

Between plan and execution the partition may change. So a plan contains the usage, maxima and guarantees that it depends
on, and `Preempting.carry_out` compares them. This takes a pass over the ledger under the lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, final, overload

from ugm.arguments import require_resource
from ugm.decision import Decision, Violation
from ugm.errors import RequestError
from ugm.identity import TrackingType
from ugm.model import Claim
from ugm.partition.admission import Admission
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.gang import require_requests
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.partition.subject_queries import QueryRequest, SubjectQueries
from ugm.preemption import AllocationFacts, Outcome, PlacedRequest, PreemptionPlan, PreemptionRequest, Victim, World
from ugm.preemption import plan_preemption as plan_for_queues
from ugm.preemption.plan import queue_input
from ugm.preemption.settings import PreemptionSettings
from ugm.preemption.usage_tree import QueueUsageTree
from ugm.queues.specs import Quota
from ugm.resources import Resource
from ugm.tracking.self_check import ReadLocked

__all__ = ["Preempting", "PreemptionCall", "require_preemption_call", "require_preemption_plan"]


_TERMINATING: Final = AllocationState.TERMINATING

#: The outcomes of plans that evict nothing, whatever models would do.
_FINAL: Final = frozenset((Outcome.BLOCKED, Outcome.NEVER, Outcome.UNWILLING, Outcome.EARLY, Outcome.NONE))


class PreemptionCall(NamedTuple):
    """The checked arguments of `Preempting.plan`."""

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
    listed = list(placed)
    return PreemptionCall(request, since, now, may_preempt, within_queue, require_requests(listed) if listed else ())


def require_preemption_plan(plan: object) -> PreemptionPlan:
    """Return a plan, after checking its type.

    Raises:
        RequestError: it is not a plan.
    """
    if not isinstance(plan, PreemptionPlan):
        raise RequestError("plan", plan, "expected a PreemptionPlan")
    return plan


class _WorldCopy(NamedTuple):
    """References to the queues and allocations of a partition at one moment."""

    compiled: CompiledConfig
    cluster: Resource | None
    queues: list[tuple[str, Quota]]
    names: list[str]
    owners: list[Application]
    #: None for a pending allocation.
    stored: list[Resource | LedgerEntry | None]

    @classmethod
    def of(cls, state: PartitionState) -> _WorldCopy:
        """Copy a state; the caller holds the lock."""
        owners = state.ledger.owners
        return cls(
            state.compiled,
            state.tree.cluster,
            [(queue.queue_path, queue.quota) for queue in state.tree.queues.values()],
            list(owners),
            list(owners.values()),
            [owner.allocations.get(name) for name, owner in owners.items()],
        )

    def terminating(self) -> list[tuple[str, LedgerEntry]]:
        """Return the terminating allocations, in the order of the ledger."""
        return [
            (name, stored)
            for name, stored in zip(self.names, self.stored, strict=True)
            if type(stored) is LedgerEntry and stored.traits.state is _TERMINATING
        ]

    def world(
        self, settings: PreemptionSettings, placed: Sequence[PlacedRequest], evicted: Collection[str] = ()
    ) -> World:
        """Return the queues and allocations for a planner.

        Args:
            settings: the settings of the configuration.
            placed: the requests that count as granted.
            evicted: allocations that count as terminating.
        """
        queues = [
            settings.facts(path, quota, cluster=self.cluster if path == "root" else None) for path, quota in self.queues
        ]
        return World(queues, _CopiedAllocations(self, evicted), placed)


@final
class _CopiedAllocations(Sequence[AllocationFacts]):
    """The granted allocations of a copy, each made when it is read.

    The garbage collector would visit a list of them again and again, so a plan for many allocations would take more
    than proportional time.

    Args:
        copy: the copy.
        evicted: allocations that count as terminating.
    """

    __slots__ = ("_evicted", "_names", "_owners", "_stored")

    def __init__(self, copy: _WorldCopy, evicted: Collection[str]) -> None:
        self._evicted: Final = frozenset(evicted)
        self._names, self._owners, self._stored = copy.names, copy.owners, copy.stored
        if None in copy.stored:
            granted = [index for index, stored in enumerate(copy.stored) if stored is not None]
            self._names = [copy.names[index] for index in granted]
            self._owners = [copy.owners[index] for index in granted]
            self._stored = [copy.stored[index] for index in granted]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[AllocationFacts]:
        facts = map(_facts, self._names, self._owners, self._stored)
        return facts if not self._evicted else map(self._with_state, facts)

    @overload
    def __getitem__(self, index: int) -> AllocationFacts: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[AllocationFacts]: ...

    def __getitem__(self, index: int | slice) -> AllocationFacts | Sequence[AllocationFacts]:
        if isinstance(index, slice):
            return list(self)[index]
        return self._with_state(_facts(self._names[index], self._owners[index], self._stored[index]))

    def _with_state(self, facts: AllocationFacts) -> AllocationFacts:
        return facts._replace(is_terminating=True) if facts.allocation_id in self._evicted else facts


def _facts(name: str, owner: Application, stored: Resource | LedgerEntry | None) -> AllocationFacts:
    application_id, path = owner.submission.application_id, owner.queue.queue_path
    if type(stored) is Resource:
        return AllocationFacts(name, application_id, path, stored)
    assert stored is not None  # noqa: S101 - the callers pass granted allocations
    _, usage, traits = stored
    return AllocationFacts(
        name, application_id, path, usage, traits.priority, traits.preemptible, traits.state is _TERMINATING
    )


class _Copy(NamedTuple):
    """Everything that a plan depends on, at one moment."""

    world: _WorldCopy
    request: PreemptionRequest
    placed: tuple[PlacedRequest, ...]
    now: int
    #: Whether the request would be granted.
    is_allowed: bool
    #: The answer of limits that no eviction resolves.
    blocked: Decision | None
    #: The limits of models that deny the request, and the allocations that the models would evict.
    in_models: tuple[Violation, ...]
    evictions: tuple[str, ...]


@final
class Preempting:
    """Makes plans for requests and carries them out."""

    __slots__ = ("_admission", "_models", "_queries", "_settings", "_state")

    def __init__(self, state: PartitionState, models: ModelSet, admission: Admission, queries: SubjectQueries) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._queries: Final = queries
        #: The settings of the last configuration that was used.
        self._settings: tuple[CompiledConfig, PreemptionSettings] | None = None

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
        settings = self._settings_of(copy.world.compiled)
        if copy.in_models:
            return self._plan_with_models(call, copy, settings, read)
        plan = _plan(copy, settings, call)
        if plan.outcome is Outcome.FITS and not copy.is_allowed:
            return replace(plan, outcome=Outcome.AWAITS_TERMINATING)
        return plan

    def _settings_of(self, compiled: CompiledConfig) -> PreemptionSettings:
        known = self._settings
        if known is None or known[0] is not compiled:
            known = self._settings = compiled, PreemptionSettings(compiled.config)
        return known[1]

    def _copy(self, call: PreemptionCall) -> _Copy:
        request = call.request
        decision = self._queries.check(request.application_id, call.query)
        world = _WorldCopy.of(self._state)
        claim = self._queries.claim(request.application_id, call.query)
        leaving = world.terminating()
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
            tuple(PlacedRequest(self._path_of(one), one.usage) for one in call.placed),
            self._models.clock.now(changes=False) if call.now is None else call.now,
            decision.allowed,
            Decision(blocking) if blocking else None,
            in_models,
            self._models.evictions(claim) if in_models else (),
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
        if not evicted or len(evicted) < len(copy.evictions) or not read(self._fits, call, evicted, plan):
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
        leaving += [one for one in _WorldCopy.of(self._state).terminating() if one[0] not in names]
        claim = self._queries.claim(call.request.application_id, call.query)
        return not self._violations(call, claim, leaving)

    # Carrying out

    def carry_out(self, plan: PreemptionPlan) -> tuple[str, ...]:
        """Mark the victims of a plan as terminating, or none of them.

        Returns:
            The allocations that were marked; empty if no victim is held any more.

        Raises:
            RequestError: the plan has no victims, or it is stale.
        """
        victims = (*plan.by_model, *plan.victims)
        if not victims:
            raise RequestError("plan", _headline(plan), "the plan has no victims")
        held = {victim.allocation_id: self._held(victim.allocation_id) for victim in victims}
        if not any(held.values()):
            return ()
        objection = self._changed_victim(victims, held) or self._changed_queue(plan)
        if objection:
            raise RequestError("plan", _headline(plan), f"the plan is stale: {objection}")
        for name, entry in held.items():
            if entry is not None:
                self._state.mark_terminating(name, entry)
        return tuple(held)

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

    def _changed_queue(self, plan: PreemptionPlan) -> str:
        evicted = {victim.allocation_id for victim in plan.by_model}
        settings = self._settings_of(self._state.compiled)
        nodes = QueueUsageTree(_WorldCopy.of(self._state).world(settings, plan.placed, evicted)).nodes
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


def _plan(
    copy: _Copy, settings: PreemptionSettings, call: PreemptionCall, evicted: Sequence[str] = ()
) -> PreemptionPlan:
    world = copy.world.world(settings, copy.placed, set(evicted))
    plan = plan_for_queues(world, copy.request, copy.now, within_queue=call.within_queue, blocked=copy.blocked)
    return replace(plan, placed=copy.placed) if plan else plan


def _may_be_evicted(copy: _Copy, allocation_id: str) -> bool:
    """Return whether the laws about single allocations that do not depend on queues permit an eviction."""
    world, request = copy.world, copy.request
    if allocation_id not in world.names:
        return False
    index = world.names.index(allocation_id)
    stored = world.stored[index]
    if stored is None:
        return False
    facts = _facts(allocation_id, world.owners[index], stored)
    if facts.is_terminating or not facts.preemptible or facts.application_id == request.application_id:
        return False
    least = request.priority + (facts.queue_path != request.queue_path)
    return facts.priority < least


def _model_victims(world: _WorldCopy, names: Sequence[str]) -> tuple[Victim, ...]:
    found = []
    for name in names:
        index = world.names.index(name)
        stored = world.stored[index]
        if stored is not None:
            facts = _facts(name, world.owners[index], stored)
            found.append(Victim(name, facts.application_id, facts.queue_path, facts.usage, facts.priority))
    return tuple(found)


def _headline(plan: PreemptionPlan) -> str:
    return str(plan).partition("\n")[0]

"""Configuration plans: the effects that another configuration would have, before it is put in force.

A plan is made by applying the configuration to a copy of the state. The copy is made under the lock, the plan without
it. So a plan and its application follow the same rules.

Sums of allocations are enough for users, groups and queues. A declared quota model whose definition changes is made
and charged again, as when the configuration is applied, so a plan with such a change needs every allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeAlias, final

from ugm._declared_models import ModelDefinition
from ugm._json_values import JsonObject
from ugm._unmapped_queues import unmapped_queues
from ugm.decision import Exhaustion, Violation
from ugm.errors import RequestError, time_text
from ugm.identity import UserGroup
from ugm.model import Claim, PersistentModel, QuotaModel, ReportingModel
from ugm.partition.allocation import PLAIN, Allocation, AllocationState
from ugm.partition.application import Application, GangStyle, LedgerEntry
from ugm.partition.checkpoint import ApplicationRecord, Checkpoint, ModelRecord, QueueRecord, queue_records, restore
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes, changes_between
from ugm.partition.config_schedule import NEVER
from ugm.partition.declared_models import ModelFactory
from ugm.partition.limit_risks import LimitRisk, below_usage, lowered_limits
from ugm.partition.model_calls import Call, ledger_calls
from ugm.partition.reduction_timers import SettingsCache, exceeded_queues
from ugm.partition.state import PartitionState
from ugm.queues import Submission
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, amounts_by_name
from ugm.tracking.self_check import ReadLocked

__all__ = [
    "ConfigPlan",
    "ConfigPlanInput",
    "ConfigPlanParts",
    "CopiedModels",
    "DrainingQueue",
    "ModelEffects",
    "PlannedReduction",
    "ScheduledChange",
    "make_config_plan",
    "make_scheduled_changes",
    "require_change_count",
    "require_confirmed",
]


class DrainingQueue(NamedTuple):
    """A queue with applications that a configuration removes, or that it makes a parent."""

    queue_path: str
    #: Sorted. They continue as before; the queue accepts no more applications.
    applications: tuple[str, ...]

    def to_dict(self) -> JsonObject:
        """Return the queue for JSON."""
        return {"queue_path": self.queue_path, "applications": list(self.applications)}

    def __str__(self) -> str:
        return f"{self.queue_path} accepts no new applications, and still has {', '.join(map(repr, self.applications))}"


class PlannedReduction(NamedTuple):
    """A queue that a configuration would leave above its maximum, so that a timer of a reduction would start."""

    queue_path: str
    #: The time after which it would be reduced, in seconds.
    delay: int

    def to_dict(self) -> JsonObject:
        """Return the queue for JSON."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.queue_path} after {self.delay} s above its maximum"


class ScheduledChange(NamedTuple):
    """A change of limits by a schedule, and its effects on the present usage."""

    #: The second at which it takes effect.
    at: int
    changes: Changes
    #: Every limit that would be exceeded then. Nothing is evicted, and growth is denied until usage is below the limit.
    exceeded: tuple[Violation, ...]
    #: Those of `exceeded` that would be exceeded by more than now.
    newly_exceeded: tuple[Violation, ...]

    def to_dict(self) -> JsonObject:
        """Return the change for JSON."""
        return {
            "at": self.at,
            "changes": self.changes.to_dict(),
            "text": str(self.changes),
            "exceeded": [violation.to_dict() for violation in self.exceeded],
            "newly_exceeded": [violation.to_dict() for violation in self.newly_exceeded],
        }

    def __str__(self) -> str:
        lines = [f"at {time_text(self.at)}:", *str(self.changes).splitlines()]
        lines += [f"would be exceeded: {one}" for one in self.newly_exceeded]
        return "\n  ".join(lines)


class ConfigPlan(NamedTuple):
    """The effects of another configuration: changes, exceeded limits, drained queues and timers of reductions."""

    changes: Changes
    #: Every limit that would be exceeded. Nothing is evicted, and growth is denied until usage is below the limit.
    exceeded: tuple[Violation, ...]
    #: Those of `exceeded` that would be exceeded by more than now.
    newly_exceeded: tuple[Violation, ...]
    draining: tuple[DrainingQueue, ...]
    #: The configuration in force when the plan was made, and the planned one.
    base: CompiledConfig
    compiled: CompiledConfig
    #: The queues whose timer would start; see `ugm.partition.AbstractPartition.plan_reductions`.
    reductions: tuple[PlannedReduction, ...] = ()
    #: The budgets that would be used up at the current rate of use, and are not used up that early now.
    exhausting: tuple[Exhaustion, ...] = ()
    #: The next changes of limits by the schedule of the planned configuration.
    scheduled: tuple[ScheduledChange, ...] = ()

    @property
    def risks(self) -> tuple[LimitRisk, ...]:
        """The limits that fall below the present usage, and those that fall by more than 10 %.

        `AbstractPartition.apply` requires a confirmation if there are any.
        """
        return (*map(below_usage, self.newly_exceeded), *lowered_limits(self.changes))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The queues in which a declared quota model denies every request, because no source maps them to a group."""
        return tuple(map(str, unmapped_queues(self.compiled.config)))

    def to_dict(self) -> JsonObject:
        """Return the plan for JSON."""
        return {
            "changes": self.changes.to_dict(),
            "text": str(self.changes),
            "exceeded": [violation.to_dict() for violation in self.exceeded],
            "newly_exceeded": [violation.to_dict() for violation in self.newly_exceeded],
            "draining": [queue.to_dict() for queue in self.draining],
            "reductions": [queue.to_dict() for queue in self.reductions],
            "exhausting": [exhaustion.to_dict() for exhaustion in self.exhausting],
            "scheduled": [change.to_dict() for change in self.scheduled],
            "risks": [risk.to_dict() for risk in self.risks],
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        parts = [str(self.changes)]
        sections: tuple[tuple[str, tuple[object, ...]], ...] = (
            ("would be exceeded:", self.newly_exceeded),
            ("would be reduced:", self.reductions),
            ("would run out:", self.exhausting),
            ("draining:", self.draining),
        )
        for heading, items in sections:
            if items:
                parts.append("\n".join([heading, *(f"  {item}" for item in items)]))
        still = len(self.exceeded) - len(self.newly_exceeded)
        if still:
            parts.append(f"already exceeded: {still} limit{'s' if still > 1 else ''}")
        parts += map(str, self.scheduled)
        parts += (f"warning: {warning}" for warning in self.warnings)
        return "\n".join(parts)


#: An application, with everything about it that changes: its group, and its amounts if it runs.
_CopiedApplication: TypeAlias = tuple[Application, str | None, Amounts | None]


class _PlainNodes(NamedTuple):
    """The nodes, with their sum."""

    nodes: dict[str, Resource]
    total: Resource | None


class _PlainApplication(NamedTuple):
    """An application, with the sum of its allocations."""

    application_id: str
    user: UserGroup
    requested_queue: str
    tags: Mapping[str, str]
    group: str | None
    queue_path: str
    #: None if it is not running.
    amounts: dict[str, int] | None


class _PlainClaim(NamedTuple):
    """An allocation."""

    is_pending: bool
    allocation_id: str
    application_id: str
    usage: dict[str, int]
    priority: int
    preemptible: bool
    until: int | None


class ModelEffects(NamedTuple):
    """The limits of one quota model that need attention."""

    #: The kind and the name of its definition; empty for a model of the program.
    kind: str
    name: str
    exceeded: list[Violation]
    exhaustions: list[Exhaustion]


class CopiedModels(NamedTuple):
    """The facts about quota models that a plan depends on."""

    #: The effects of the configuration in force.
    now: list[ModelEffects]
    #: The limits of models of the program that would be exceeded with the planned configuration.
    exceeded: list[Violation]
    #: The second of the copy; None if no model may depend on it.
    time: int | None
    #: The past of the declared models that have one.
    past: list[ModelRecord]


class ConfigPlanParts(NamedTuple):
    """The values of a `ConfigPlanInput` except the configuration in force."""

    user_limits_win: bool
    cluster: _PlainNodes
    #: The queues that the configuration does not name.
    queues: list[QueueRecord]
    applications: list[_PlainApplication]
    models: CopiedModels
    #: None if the allocations were not copied.
    claims: list[_PlainClaim] | None
    #: The second of the copy.
    now: int


@final
class ConfigPlanInput:
    """A copy of everything that a plan depends on. It can be pickled, and so can its `parts`, which are smaller.

    Args:
        compiled: the configuration in force.
        parts: everything else, as `parts` returns it.
    """

    __slots__ = ("_parts", "compiled", "now")

    def __init__(self, compiled: CompiledConfig, parts: ConfigPlanParts) -> None:
        #: The second at which the copy was made.
        self.now: Final = parts.now
        self.compiled: Final = compiled.at(self.now)
        self._parts: Final = parts

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the parts in their form for other processes."""
        return type(self), (self.compiled, self.parts())

    @classmethod
    def copy(
        cls,
        state: PartitionState,
        read: ReadLocked,
        copy_models: Callable[[], CopiedModels],
        now: Callable[[], int],
        *,
        allocations: bool,
    ) -> ConfigPlanInput:
        """Copy a state.

        Args:
            state: the state.
            read: runs a function under the lock of the state. Most of the work follows without it.
            copy_models: copies the facts about quota models.
            now: returns the time.
            allocations: whether to copy all allocations; they are copied in any case if the configuration
                declares models or limits pending work.
        """
        compiled, user_limits_win, cluster, queues, copies, models, calls, second = read(
            _copy, state, copy_models, now, allocations=allocations
        )
        applications = [
            _PlainApplication(*one.submission, group, one.queue.queue_path, amounts and amounts_by_name(amounts))
            for one, group, amounts in copies
        ]
        claims = None if calls is None else [_plain_claim(*call) for call in calls]
        return cls(compiled, ConfigPlanParts(user_limits_win, cluster, queues, applications, models, claims, second))

    def parts(self) -> ConfigPlanParts:
        """Return everything except the configuration in force in a form that can be pickled."""
        # Tags are a view of a mapping, which cannot be pickled.
        applications = [one._replace(tags=dict(one.tags)) for one in self._parts.applications]
        return self._parts._replace(applications=applications)

    @property
    def exceeded(self) -> list[Violation]:
        """The exceeded limits of quota models."""
        return [violation for one in self._parts.models.now for violation in one.exceeded]

    @property
    def exhaustions(self) -> list[Exhaustion]:
        """The limits of quota models that begin to deny everything."""
        return [exhaustion for one in self._parts.models.now for exhaustion in one.exhaustions]

    def effects_on_models(self, compiled: CompiledConfig) -> tuple[list[Violation], list[Exhaustion]]:
        """Return the limits of quota models that would be exceeded, or would begin to deny everything.

        Args:
            compiled: another configuration.

        Raises:
            RequestError: the configuration changes declared models, and the copy has no allocations.
        """
        models = self._parts.models
        factory = ModelFactory(self._parts.cluster.total, cache(self._calls), self._time)
        kept = {(one.kind, one.name): (one.exceeded, one.exhaustions) for one in models.now if one.kind}
        exhaustions = [found for one in models.now if not one.kind for found in one.exhaustions]
        declared: list[Violation] = []
        for definition in compiled.models:
            if definition in self.compiled.models and definition.key in kept:
                violations, exhausted = kept[definition.key]
            else:
                model = factory.make(definition, self._replaced(definition))
                if not isinstance(model, ReportingModel):
                    continue
                violations, exhausted = list(model.exceeded()), list(model.exhaustions())
            declared += violations
            exhaustions += exhausted
        return [*declared, *models.exceeded], exhaustions

    def _time(self) -> int:
        time = self._parts.models.time
        if time is None:
            raise RequestError("plan_input", "without the time", "expected a copy with all allocations")
        return time

    def _replaced(self, definition: ModelDefinition) -> QuotaModel | None:
        """Return the model that one of a definition replaces, with its past and without claims; None without a past."""
        past = {(one.kind, one.name): one.past for one in self._parts.models.past}
        old = next((one for one in self.compiled.models if one.key == definition.key and one.key in past), None)
        if old is None:
            return None
        model = old.build()
        assert isinstance(model, PersistentModel)  # noqa: S101 - it has a past
        model.load(past[old.key])
        return model

    def _calls(self) -> list[Call]:
        """Return the calls that charge a quota model with all allocations."""
        if self._parts.claims is None:
            raise RequestError("plan_input", "without allocations", "expected a copy with all allocations")
        owners = {one.application_id: one for one in self._parts.applications}
        calls: list[Call] = []
        for one in self._parts.claims:
            owner = owners[one.application_id]
            claim = Claim(
                one.allocation_id,
                one.application_id,
                Resource(one.usage),
                owner.queue_path,
                owner.user,
                owner.tags,
                one.priority,
                one.preemptible,
                one.until,
            )
            calls.append(("add_pending" if one.is_pending else "charge", claim))
        return calls

    def state(self) -> PartitionState:
        """Return a state with the usage and the limits of the copied one."""
        parts = self._parts
        state = PartitionState(self.compiled, user_limits_win=parts.user_limits_win)
        checkpoint = Checkpoint(
            closed=False,
            nodes=parts.cluster.nodes,
            total=parts.cluster.total,
            queues=tuple(parts.queues),
            applications=tuple(_record_of(one) for one in parts.applications),
            # The sum of the allocations of an application is one allocation.
            allocations=(
                Allocation.of(one.application_id, one.application_id, Resource(one.amounts), PLAIN)
                for one in parts.applications
                if one.amounts is not None
            ),
        )
        restore(state, checkpoint)
        self._add_pending(state)
        return state

    def _add_pending(self, state: PartitionState) -> None:
        """Add the pending allocations, which count for limits on pending work, as far as they were copied."""
        traits = PLAIN._replace(state=AllocationState.PENDING)
        for one in self._parts.claims or ():
            if one.is_pending:
                entry = LedgerEntry(state.applications[one.application_id], Resource(one.usage), traits)
                state.write_pending(f"pending {one.allocation_id}", entry)
                state.undo.clear()


def _record_of(application: _PlainApplication) -> ApplicationRecord:
    application_id, user, requested_queue, tags, group, queue_path, _ = application
    submission = Submission(application_id, user, requested_queue, tags)
    return ApplicationRecord(submission, queue_path, GangStyle.SOFT, is_adopted=False, group=group)


def _plain_claim(method: str, claim: Claim) -> _PlainClaim:
    return _PlainClaim(
        method == "add_pending",
        claim.allocation_id,
        claim.application_id,
        dict(claim.usage),
        claim.priority,
        claim.preemptible,
        claim.until,
    )


def _copy(
    state: PartitionState, copy_models: Callable[[], CopiedModels], now: Callable[[], int], *, allocations: bool
) -> tuple[
    CompiledConfig,
    bool,
    _PlainNodes,
    list[QueueRecord],
    list[_CopiedApplication],
    CopiedModels,
    list[Call] | None,
    int,
]:
    applications: list[_CopiedApplication] = [
        (one, one.group, one.holding and one.holding.amounts) for one in state.applications.values()
    ]
    cluster = _PlainNodes(dict(state.cluster.nodes), state.cluster.total)
    user_limits_win, queues = state.active_limits.user_limits_win, queue_records(state)
    calls = ledger_calls(state) if allocations or state.compiled.needs_allocations else None
    return state.compiled, user_limits_win, cluster, queues, applications, copy_models(), calls, now()


def make_config_plan(plan_input: ConfigPlanInput, compiled: CompiledConfig) -> ConfigPlan:
    """Return the effects of a configuration on the state that was copied."""
    state = plan_input.state()
    planned, exhaustions = plan_input.effects_on_models(compiled)
    before = {_key(one): one.used - one.limit for one in (*state.exceeded_limits(), *plan_input.exceeded)}
    settings = SettingsCache()
    running = exceeded_queues(state, settings)
    compiled = compiled.at(plan_input.now)
    state.replace_config(compiled)
    started = sorted(exceeded_queues(state, settings).items())
    exceeded = (*state.exceeded_limits(), *planned)
    newly = tuple(one for one in exceeded if one.used - one.limit > before.get(_key(one), 0))
    draining = tuple(
        DrainingQueue(path, tuple(sorted(queue.applications)))
        for path, queue in sorted(state.tree.queues.items())
        if queue.applications and (queue.draining or not queue.is_leaf)
    )
    changes = changes_between(plan_input.compiled, compiled)
    reductions = tuple(PlannedReduction(path, delay) for path, delay in started if path not in running)
    exhausting = _sooner(exhaustions, plan_input.exhaustions)
    scheduled = scheduled_changes(state, compiled)
    base = plan_input.compiled
    return ConfigPlan(changes, exceeded, newly, draining, base, compiled, reductions, exhausting, scheduled)


def _sooner(planned: Iterable[Exhaustion], now: Iterable[Exhaustion]) -> tuple[Exhaustion, ...]:
    """Return the exhaustions that are new, or begin earlier than now."""
    before = {one[:5]: one.begins for one in now}
    return tuple(one for one in planned if one[:5] not in before or one.begins < before[one[:5]])


#: The maximum number of changes by a schedule that a plan lists.
_MOST_SCHEDULED: Final = 10
#: The maximum number of changes of the schedule that are examined.
_MOST_TESTED: Final = 4000


def scheduled_changes(
    state: PartitionState, compiled: CompiledConfig, most: int = _MOST_SCHEDULED
) -> tuple[ScheduledChange, ...]:
    """Return the next changes of limits by the schedule of the configuration in force, each with its effects.

    Args:
        state: a state that may be changed; it has the present usage.
        compiled: the configuration with the limits in force now.
        most: the maximum number of changes.
    """
    found: list[ScheduledChange] = []
    known = {_key(one): one.used - one.limit for one in state.exceeded_limits()}
    for _ in range(_MOST_TESTED):
        second = compiled.changes_at
        if compiled.schedule is None or second >= NEVER or len(found) >= most:
            break
        before, compiled = compiled, compiled.at(second)
        if compiled.active != before.active:
            state.replace_config(compiled)
            exceeded = tuple(state.exceeded_limits())
            newly = tuple(one for one in exceeded if one.used - one.limit > known.get(_key(one), 0))
            found.append(ScheduledChange(second, changes_between(before, compiled), exceeded, newly))
    return tuple(found)


def require_confirmed(plan: object, *, confirm: bool) -> None:
    """Check that a plan may be applied.

    Raises:
        RequestError: it is not a plan, or it has risks that are not confirmed.
    """
    if not isinstance(plan, ConfigPlan):
        raise RequestError("plan", plan, "expected a ConfigPlan")
    if type(confirm) is not bool:
        raise RequestError("confirm", confirm, "expected True or False")
    if plan.risks and not confirm:
        listed = "; ".join(map(str, plan.risks))
        raise RequestError(
            "confirm", confirm, f"the plan lowers limits, which has to be confirmed: {listed}", "unconfirmed"
        )


def require_change_count(max_changes: int) -> int:
    """Return the maximum number of changes, after checking it.

    Raises:
        RequestError: it is not a number of changes.
    """
    if type(max_changes) is not int or max_changes < 0:
        raise RequestError("max_changes", max_changes, "expected an int >= 0")
    return max_changes


def make_scheduled_changes(plan_input: ConfigPlanInput, most: int) -> tuple[ScheduledChange, ...]:
    """Return the next changes of limits by the schedule of the configuration that was copied."""
    return scheduled_changes(plan_input.state(), plan_input.compiled, most)


def _key(violation: Violation) -> tuple[str, str, str, str | None]:
    return violation.kind, violation.name, violation.queue_path, violation.resource

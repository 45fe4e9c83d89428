"""Configuration plans: the effects that another configuration would have, before it is put in force.

A plan is made by applying the configuration to a second state, which is made from a copy of the rows. The copy is made
under the lock, the plan without it. So a plan and its application follow the same rules. A declared quota model whose
definition changes is made and charged again, as when the configuration is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from ugm._json_values import JsonMapping, JsonObject, attributes
from ugm.arguments import require_instance
from ugm.configuration.model_kinds import ModelDefinition, unmapped_queues
from ugm.decision import Exhaustion, Violation
from ugm.errors import RequestError, time_text
from ugm.model import GuaranteeingModel, PersistentModel, QuotaModel, ReportingModel
from ugm.partition.admission.variant_assignment import VariantAssignment, convert_rows
from ugm.partition.admission.variant_protection import unsatisfiable
from ugm.partition.config.changes import Changes, LimitRisk, below_usage, changes_between, lowered_limits
from ugm.partition.config.compiled import NEVER, CompiledConfig
from ugm.partition.engine.model_calls import ModelFactory, row_calls
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState, exceeded_queues


class DrainingQueue(NamedTuple):
    """A queue with applications that a configuration removes, or that it makes a parent."""

    queue_path: str
    #: Sorted. They continue as before; the queue accepts no more applications.
    applications: tuple[str, ...]

    def to_dict(self) -> JsonObject:
        """Return the queue for JSON."""
        return attributes(self, self._fields)

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
        return {**attributes(self, self._fields), "text": str(self.changes)}

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
        return (*map(below_usage, self.newly_exceeded), *lowered_limits(self.base, self.compiled))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The queues in which a declared quota model denies every request, because no source maps them to a group."""
        return tuple(map(str, unmapped_queues(self.compiled.config)))

    def to_dict(self) -> JsonObject:
        """Return the plan for JSON."""
        return {**attributes(self, _SHOWN), "text": str(self.changes)}

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


#: The attributes of a plan for JSON.
_SHOWN: Final = tuple(name for name in (*ConfigPlan._fields, "risks", "warnings") if name not in {"base", "compiled"})


class ModelFacts(NamedTuple):
    """The facts about one quota model that a plan depends on."""

    #: The kind and the name of its definition; empty for a model of the program.
    kind: str
    name: str
    #: The limits that need attention with the configuration in force.
    exceeded: list[Violation]
    exhaustions: list[Exhaustion]
    #: The limits of a model of the program that would be exceeded with the planned configuration.
    planned: list[Violation]
    #: The result of `ugm.model.PersistentModel.save` of a declared model that has a past.
    past: JsonMapping | None


class PlanInput(NamedTuple):
    """Everything that a plan depends on, at one moment."""

    #: A state with a copy of the rows, and with the limits of their time, which the plan changes.
    state: PartitionState
    #: The second of the copy.
    now: int
    models: list[ModelFacts]


def _effects_on_models(
    given: PlanInput, before: Sequence[ModelDefinition], compiled: CompiledConfig
) -> tuple[list[Violation], list[Exhaustion]]:
    """Return the limits of quota models that another configuration would exceed, or that would deny everything."""
    state = given.state
    factory = ModelFactory(state.row.cluster, cache(lambda: row_calls(state.tables)), lambda: given.now)
    known = {(one.kind, one.name): one for one in given.models if one.kind}
    exceeded: list[Violation] = []
    exhaustions = [found for one in given.models if not one.kind for found in one.exhaustions]
    for definition in compiled.models:
        facts = known.get(definition.key)
        if facts is not None and definition in before:
            exceeded += facts.exceeded
            exhaustions += facts.exhaustions
        else:
            model = factory.make(definition, facts and _replaced(before, facts))
            families = compiled.limits.families
            if families is not None and isinstance(model, GuaranteeingModel):
                exceeded += (found for one in model.guarantees(None) for found in unsatisfiable(one, families))
            if isinstance(model, ReportingModel):
                exceeded += model.exceeded()
                exhaustions += model.exhaustions()
    return [*exceeded, *(found for one in given.models for found in one.planned)], exhaustions


def _replaced(definitions: Sequence[ModelDefinition], facts: ModelFacts) -> QuotaModel | None:
    """Return the model that another one replaces, with its past and without claims; None without a past."""
    if facts.past is None:
        return None
    model = next(one for one in definitions if one.key == (facts.kind, facts.name)).build()
    assert isinstance(model, PersistentModel)  # noqa: S101 - it has a past
    model.load(facts.past)
    return model


def make_config_plan(given: PlanInput, compiled: CompiledConfig) -> ConfigPlan:
    """Return the effects of a configuration on the state that was copied."""
    state = given.state
    base, compiled = state.compiled, compiled.at(given.now)
    before = _excess((*state.exceeded_limits(), *(found for one in given.models for found in one.exceeded)))
    exhausted = {found[:5]: found.begins for one in given.models for found in one.exhaustions}
    running = exceeded_queues(state)
    state.replace_config(compiled)
    assignment = VariantAssignment(state, ModelSet((), state.lock))
    if base.limits.families != compiled.limits.families:
        convert_rows(state, assignment)
    planned, exhaustions = _effects_on_models(given, base.models, compiled)
    started = sorted(exceeded_queues(state).items())
    exceeded = (*state.exceeded_limits(), *planned, *assignment.protection.unmet())
    draining = tuple(
        DrainingQueue(path, tuple(sorted(queue.applications)))
        for path, queue in sorted(state.tree.queues.items())
        if queue.applications and (queue.draining or not queue.is_leaf)
    )
    return ConfigPlan(
        changes_between(base, compiled),
        exceeded,
        _newly(exceeded, before),
        draining,
        base,
        compiled,
        tuple(PlannedReduction(path, delay) for path, delay in started if path not in running),
        # New, or earlier than now.
        tuple(one for one in exhaustions if one[:5] not in exhausted or one.begins < exhausted[one[:5]]),
        scheduled_changes(state, compiled),
    )


def _excess(exceeded: Iterable[Violation]) -> dict[tuple[object, ...], int]:
    """Return the usage above each limit."""
    return {_key(one): one.used - one.limit for one in exceeded}


def _newly(exceeded: Iterable[Violation], before: dict[tuple[object, ...], int]) -> tuple[Violation, ...]:
    """Return the limits that are exceeded by more than before."""
    return tuple(one for one in exceeded if one.used - one.limit > before.get(_key(one), 0))


def _key(violation: Violation) -> tuple[object, ...]:
    return violation.kind, violation.name, violation.queue_path, violation.resource


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
    known = _excess(state.exceeded_limits())
    for _ in range(_MOST_TESTED):
        second = compiled.changes_at
        if compiled.schedule is None or second >= NEVER or len(found) >= most:
            break
        before, compiled = compiled, compiled.at(second)
        if compiled.active != before.active:
            state.replace_config(compiled)
            exceeded = tuple(state.exceeded_limits())
            found.append(ScheduledChange(second, changes_between(before, compiled), exceeded, _newly(exceeded, known)))
    return tuple(found)


def require_confirmed(plan: object, *, confirm: bool) -> None:
    """Check that a plan may be applied.

    Raises:
        RequestError: it is not a plan, or it has risks that are not confirmed.
    """
    risks = require_instance("plan", plan, ConfigPlan).risks
    if risks and not require_instance("confirm", confirm, bool):
        listed = "; ".join(map(str, risks))
        raise RequestError(
            "confirm", confirm, f"the plan lowers limits, which has to be confirmed: {listed}", "unconfirmed"
        )

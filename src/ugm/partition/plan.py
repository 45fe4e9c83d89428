"""Plans: the effects that another configuration would have, before it is put in force.

A plan is made by applying the configuration to a copy of the state. The copy is made under the lock, the plan without
it. So a plan and its application cannot differ in a rule.

Sums of allocations are enough for users, groups and queues. A declared quota model whose definition changes is made
and charged again, as when the configuration is applied, so a plan with such a change needs every allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import UserGroup
from ugm.model import Claim, ReportingModel
from ugm.partition.allocation import PLAIN, Allocation
from ugm.partition.application import Application, GangStyle
from ugm.partition.checkpoint import ApplicationRecord, Checkpoint, QueueRecord, queue_records, restore
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes, changes_between
from ugm.partition.model_set import Call, charged_model, claims_of
from ugm.partition.state import PartitionState
from ugm.queues import Submission
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, amounts_by_name
from ugm.tracking.self_check import ReadLocked

__all__ = ["DrainingQueue", "Plan", "PlanInput", "PlanParts", "PlannedModels", "make_plan"]


class DrainingQueue(NamedTuple):
    """A queue with applications that a configuration removes, or that it makes a parent."""

    queue_path: str
    #: Sorted. They continue as before; the queue accepts no more applications.
    applications: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the queue for JSON."""
        return {"queue_path": self.queue_path, "applications": list(self.applications)}

    def __str__(self) -> str:
        return f"{self.queue_path} takes no more applications, and has {', '.join(map(repr, self.applications))}"


class Plan(NamedTuple):
    """The effects of another configuration: changes, exceeded limits and drained queues."""

    changes: Changes
    #: Every limit that would be exceeded. Nothing is evicted, and growth is denied until usage is below the limit.
    exceeded: tuple[Violation, ...]
    #: Those of `exceeded` that would be exceeded by more than now.
    newly_exceeded: tuple[Violation, ...]
    draining: tuple[DrainingQueue, ...]
    #: The configuration in force when the plan was made, and the planned one.
    base: CompiledConfig
    compiled: CompiledConfig

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return {
            "changes": self.changes.to_dict(),
            "over": [violation.to_dict() for violation in self.exceeded],
            "newly_over": [violation.to_dict() for violation in self.newly_exceeded],
            "leaving": [queue.to_dict() for queue in self.draining],
        }

    def __str__(self) -> str:
        parts = [str(self.changes)]
        for heading, items in (("would be over:", self.newly_exceeded), ("draining:", self.draining)):
            if items:
                parts.append("\n".join([heading, *(f"  {item}" for item in items)]))
        still = len(self.exceeded) - len(self.newly_exceeded)
        if still:
            parts.append(f"over already: {still} limit{'s' if still > 1 else ''}")
        return "\n".join(parts)


_Nodes: TypeAlias = tuple[dict[str, Resource], Resource | None]
#: An application: its submission, its group, its queue, and the sum of its allocations if it runs.
_PlainApplication: TypeAlias = tuple[str, UserGroup, str, Mapping[str, str], str | None, str, dict[str, int] | None]
#: An application, with everything about it that changes: its group, and its amounts if it runs.
_CopiedApplication: TypeAlias = tuple[Application, str | None, Amounts | None]
#: Of each quota model: kind and name of its definition, empty without one, and its limits that are exceeded. Then the
#: limits that would be exceeded in the models without a definition.
PlannedModels: TypeAlias = tuple[list[tuple[str, str, list[Violation]]], list[Violation]]
#: An allocation: whether it is pending, its id, its application, usage and priority, whether it is preemptible, and its
#: promised end.
_PlainClaim: TypeAlias = tuple[bool, str, str, dict[str, int], int, bool, int | None]
#: The result of `PlanInput.parts`: whether user limits win, the nodes with their sum, the queues that the configuration
#: does not name, the applications, the exceeded limits of quota models, and the allocations; None without them.
PlanParts: TypeAlias = tuple[
    bool, _Nodes, list[QueueRecord], list[_PlainApplication], PlannedModels, list[_PlainClaim] | None
]


@final
class PlanInput:
    """A copy of everything that a plan depends on. Its `parts` can be sent to another process.

    Args:
        compiled: the configuration in force.
        parts: everything else, as `parts` returns it.
    """

    __slots__ = ("_parts", "compiled")

    def __init__(self, compiled: CompiledConfig, parts: PlanParts) -> None:
        self.compiled: Final = compiled
        self._parts: Final = parts

    @classmethod
    def copy(
        cls, state: PartitionState, read: ReadLocked, in_models: Callable[[], PlannedModels], *, allocations: bool
    ) -> PlanInput:
        """Copy a state.

        Args:
            state: the state.
            read: runs a function under the lock of the state. Most of the work follows without it.
            in_models: returns the exceeded limits of quota models.
            allocations: whether to copy all allocations; they are copied in any case if there are declared models.
        """
        compiled, user_limits_win, nodes, queues, copies, exceeded, calls = read(
            _copy, state, in_models, allocations=allocations
        )
        applications: list[_PlainApplication] = [
            (*one.submission, group, one.queue.queue_path, amounts and amounts_by_name(amounts))
            for one, group, amounts in copies
        ]
        claims = None if calls is None else [_plain_claim(*call) for call in calls]
        return cls(compiled, (user_limits_win, nodes, queues, applications, exceeded, claims))

    def parts(self) -> PlanParts:
        """Return everything except the configuration in force in a form that can be pickled."""
        user_limits_win, nodes, queues, applications, exceeded, claims = self._parts
        # Tags are a view of a mapping, which cannot be pickled.
        picklable: list[_PlainApplication] = [(*one[:3], dict(one[3]), *one[4:]) for one in applications]
        return user_limits_win, nodes, queues, picklable, exceeded, claims

    @property
    def exceeded(self) -> list[Violation]:
        """The exceeded limits of quota models."""
        return [violation for *_, found in self._parts[4][0] for violation in found]

    def exceeded_with(self, compiled: CompiledConfig) -> list[Violation]:
        """Return the limits of quota models that would be exceeded with another configuration.

        Raises:
            RequestError: the configuration changes declared models, and the copy has no allocations.
        """
        now, planned = self._parts[4]
        kept = {(kind, name): found for kind, name, found in now}
        total, calls = self._parts[1][1], None
        exceeded: list[Violation] = []
        for definition in compiled.models:
            if definition in self.compiled.models and definition.key in kept:
                exceeded += kept[definition.key]
                continue
            calls = self._calls() if calls is None else calls
            model = charged_model(definition, total, calls)
            if isinstance(model, ReportingModel):
                exceeded += model.exceeded()
        return [*exceeded, *planned]

    def _calls(self) -> list[Call]:
        """Return the calls that charge a quota model with all allocations."""
        if self._parts[5] is None:
            raise RequestError("plan_input", "without allocations", "expected a copy with all allocations")
        owners = {one[0]: one for one in self._parts[3]}
        calls: list[Call] = []
        for pending, allocation_id, application_id, usage, priority, preemptible, until in self._parts[5]:
            _, user, _, tags, _, queue_path, _ = owners[application_id]
            fields = (application_id, Resource(usage), queue_path, user, tags, priority, preemptible, until)
            calls.append(("add_pending" if pending else "charge", Claim(allocation_id, *fields)))
        return calls

    def state(self) -> PartitionState:
        """Return a state with the usage and the limits of the copied one."""
        user_limits_win, (nodes, total), queues, applications, *_ = self._parts
        state = PartitionState(self.compiled, user_limits_win=user_limits_win)
        records = tuple(
            ApplicationRecord(Submission(*one[:4]), one[5], GangStyle.SOFT, is_adopted=False, group=one[4])
            for one in applications
        )
        # The sum of the allocations of an application is one allocation.
        sums = (Allocation.of(one[0], one[0], Resource(one[-1]), PLAIN) for one in applications if one[-1] is not None)
        restore(
            state,
            Checkpoint(
                closed=False, nodes=nodes, total=total, queues=tuple(queues), applications=records, allocations=sums
            ),
        )
        return state


def _plain_claim(method: str, claim: Claim) -> _PlainClaim:
    pending, usage = method == "add_pending", dict(claim.usage)
    return (pending, claim.allocation_id, claim.application_id, usage, claim.priority, claim.preemptible, claim.until)


def _copy(
    state: PartitionState, in_models: Callable[[], PlannedModels], *, allocations: bool
) -> tuple[CompiledConfig, bool, _Nodes, list[QueueRecord], list[_CopiedApplication], PlannedModels, list[Call] | None]:
    applications: list[_CopiedApplication] = [
        (one, one.group, one.holding and one.holding.amounts) for one in state.applications.values()
    ]
    nodes = dict(state.cluster.nodes), state.cluster.total
    user_limits_win, queues = state.active_limits.user_limits_win, queue_records(state)
    calls = claims_of(state) if allocations or state.compiled.models else None
    return state.compiled, user_limits_win, nodes, queues, applications, in_models(), calls


def make_plan(plan_input: PlanInput, compiled: CompiledConfig) -> Plan:
    """Return the effects of a configuration on the state that was copied."""
    state = plan_input.state()
    planned = plan_input.exceeded_with(compiled)
    before = {_key(one): one.used - one.limit for one in (*state.exceeded_limits(), *plan_input.exceeded)}
    state.replace_config(compiled)
    exceeded = (*state.exceeded_limits(), *planned)
    newly = tuple(one for one in exceeded if one.used - one.limit > before.get(_key(one), 0))
    draining = tuple(
        DrainingQueue(path, tuple(sorted(queue.applications)))
        for path, queue in sorted(state.tree.queues.items())
        if queue.applications and (queue.draining or not queue.is_leaf)
    )
    changes = changes_between(plan_input.compiled, compiled)
    return Plan(changes, exceeded, newly, draining, plan_input.compiled, compiled)


def _key(violation: Violation) -> tuple[str, str, str, str | None]:
    return violation.kind, violation.name, violation.queue_path, violation.resource

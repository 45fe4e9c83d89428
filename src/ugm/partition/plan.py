"""Plans: the effects that another configuration would have, before it is put in force.

A plan is made by applying the configuration to a copy of the state. The copy is made under the lock, the plan without
it. So a plan and its application cannot differ in a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeAlias, final

from ugm.configuration import PartitionConfig
from ugm.decision import Violation
from ugm.partition.allocation import PLAIN
from ugm.partition.application import Application, GangStyle, LedgerEntry
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes, changes_between
from ugm.partition.state import PartitionState
from ugm.queues import QueueSpec, Submission
from ugm.resources import Resource

__all__ = ["LeavingQueue", "Plan", "PlanInput", "PlanParts", "make_plan"]


class LeavingQueue(NamedTuple):
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
    over: tuple[Violation, ...]
    #: Those of `over` that would be exceeded by more than now.
    newly_over: tuple[Violation, ...]
    leaving: tuple[LeavingQueue, ...]
    #: The configuration in force when the plan was made, and the planned one.
    base: CompiledConfig
    compiled: CompiledConfig

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return {
            "changes": self.changes.to_dict(),
            "over": [violation.to_dict() for violation in self.over],
            "newly_over": [violation.to_dict() for violation in self.newly_over],
            "leaving": [leaving.to_dict() for leaving in self.leaving],
        }

    def __str__(self) -> str:
        parts = [str(self.changes)]
        for heading, items in (("would be over:", self.newly_over), ("draining:", self.leaving)):
            if items:
                parts.append("\n".join([heading, *(f"  {item}" for item in items)]))
        still = len(self.over) - len(self.newly_over)
        if still:
            parts.append(f"over already: {still} limit{'s' if still > 1 else ''}")
        return "\n".join(parts)


class _PlacedApplication(NamedTuple):
    """The part of an application that a plan depends on."""

    submission: Submission
    group: str | None
    queue_path: str
    held: Mapping[str, int] | None


class _DynamicQueue(NamedTuple):
    """A queue that the configuration does not name."""

    spec: QueueSpec
    has_left: bool
    annotated: Resource | None


_Nodes: TypeAlias = tuple[dict[str, Resource], Resource | None]
_CopiedParts: TypeAlias = tuple[bool, _Nodes, list[_DynamicQueue], list[_PlacedApplication]]
#: The result of `PlanInput.parts`.
PlanParts: TypeAlias = tuple[bool, _Nodes, list[_DynamicQueue], list[tuple[Any, ...]]]


@final
class PlanInput:
    """A copy of everything that a plan depends on. Its `parts` can be sent to another process."""

    __slots__ = ("_applications", "_nodes", "_queues", "_user_limits_win", "compiled")

    compiled: CompiledConfig

    def __init__(self, compiled: CompiledConfig, parts: _CopiedParts) -> None:
        self.compiled = compiled
        self._user_limits_win, self._nodes, self._queues, self._applications = parts

    @classmethod
    def copy(cls, state: PartitionState) -> Self:
        """Copy a state; the caller holds the lock."""
        nodes = dict(state.cluster.nodes), state.cluster.total
        made = [
            _DynamicQueue(queue.spec, queue.has_left, queue.annotated)
            for queue in state.tree.root.below()
            if not queue.managed
        ]
        applications = [
            _PlacedApplication(
                application.submission,
                application.group,
                application.queue.queue_path,
                application.held(),
            )
            for application in state.applications.values()
        ]
        return cls(state.compiled, (state.in_force.user_limits_win, nodes, made, applications))

    def parts(self) -> PlanParts:
        """Return everything except the configuration in force in a form that can be pickled."""
        # Tags are a view of a mapping, which cannot be pickled.
        applications = [
            (*one.submission[:3], dict(one.submission.tags), *one[1:3], None if one.held is None else dict(one.held))
            for one in self._applications
        ]
        return self._user_limits_win, self._nodes, self._queues, applications

    @classmethod
    def of(cls, config: PartitionConfig | None, parts: PlanParts) -> Self:
        """Return the input with these `parts`, copied under a configuration."""
        applications = [_PlacedApplication(Submission(*one[:4]), *one[4:]) for one in parts[3]]
        return cls(CompiledConfig.of(config), (*parts[:3], applications))

    def state(self) -> PartitionState:
        """Return a state that is equal to the copied one."""
        state = PartitionState(self.compiled, user_limits_win=self._user_limits_win)
        state.cluster.nodes.update(self._nodes[0])
        state.cluster.total = self._nodes[1]
        for spec, has_left, annotated in self._queues:
            queue = state.tree.create(spec.queue_path)
            queue.spec, queue.has_left, queue.annotated = spec, has_left, annotated
            state.count_resources((*spec.names, *queue.quota.names))
        state.tree.connect(state.in_force.epoch.layout)
        for placed in self._applications:
            self._add_application(state, placed)
        state.resize_cluster()
        return state

    def _add_application(self, state: PartitionState, placed: _PlacedApplication) -> None:
        queue = state.tree.queues[placed.queue_path]
        application = Application(placed.submission, queue, GangStyle.SOFT)
        application.group = placed.group
        state.add_application(application)
        if placed.held is not None:
            entry = LedgerEntry(application, Resource(placed.held), PLAIN)
            state.charge(entry, state.in_force.epoch.layout.vector(entry.usage))
            state.write_allocated(application.application_id, entry)
        state.undo.clear()


def make_plan(plan_input: PlanInput, compiled: CompiledConfig) -> Plan:
    """Return the effects of a configuration on the state that was copied."""
    state = plan_input.state()
    before = {_key(violation): violation.used - violation.limit for violation in state.exceeded_limits()}
    state.replace_config(compiled)
    over = tuple(state.exceeded_limits())
    newly = tuple(one for one in over if one.used - one.limit > before.get(_key(one), 0))
    leaving = tuple(
        LeavingQueue(path, tuple(sorted(queue.applications)))
        for path, queue in sorted(state.tree.queues.items())
        if queue.applications and (queue.draining or not queue.is_leaf)
    )
    return Plan(changes_between(plan_input.compiled, compiled), over, newly, leaving, plan_input.compiled, compiled)


def _key(violation: Violation) -> tuple[str, str, str, str | None]:
    return violation.kind, violation.name, violation.queue_path, violation.resource

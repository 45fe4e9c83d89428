"""What another configuration would do to a partition, before it is put in force.

The question is put to a copy of the books, made under the lock and asked outside of it, so that a plan and its
application cannot disagree about a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, final

from ugm.configuration import PartitionConfig
from ugm.decision import Violation
from ugm.partition.application import Application, GangStyle
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes, changes_between
from ugm.partition.ledger_entry import PLAIN, LedgerEntry
from ugm.partition.state import PartitionState
from ugm.queues import QueueSpec, Submission
from ugm.resources import Resource

__all__ = ["Leaving", "Plan", "Snapshot", "make_plan"]


class Leaving(NamedTuple):
    """A queue with applications in it that a configuration does not have, or not as one that takes applications."""

    queue_path: str
    #: Sorted. They go on as before; nothing more can be submitted to the queue.
    applications: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the queue for JSON."""
        return {"queue_path": self.queue_path, "applications": list(self.applications)}

    def __str__(self) -> str:
        return f"{self.queue_path} takes no more applications, and has {', '.join(map(repr, self.applications))}"


class Plan(NamedTuple):
    """What another configuration changes, whom it puts over a limit, and which queues it drains."""

    changes: Changes
    #: Every limit that would be exceeded. Nobody is evicted; what is over gets no more until it is below again.
    over: tuple[Violation, ...]
    #: Those of `over` that are not exceeded by as much now.
    newly_over: tuple[Violation, ...]
    leaving: tuple[Leaving, ...]
    #: The configuration in force when the plan was made, and the one that it is for.
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


class _Tenancy(NamedTuple):
    """An application, as far as a plan cares."""

    submission: Submission
    group: str | None
    queue_path: str
    held: Mapping[str, int] | None


class _Made(NamedTuple):
    """A queue that the configuration does not name."""

    spec: QueueSpec
    has_left: bool
    annotated: Resource | None


@final
class Snapshot:
    """Everything of some books that bears on a plan, copied. Its `parts` can go to another process."""

    __slots__ = ("_made", "_nodes", "_tenancies", "_user_limits_win", "compiled")

    compiled: CompiledConfig

    def __init__(self, compiled: CompiledConfig, parts: tuple[Any, ...]) -> None:
        self.compiled = compiled
        self._user_limits_win, self._nodes, self._made, self._tenancies = parts

    @classmethod
    def take(cls, state: PartitionState) -> Self:
        """Copy some books; the caller holds the lock."""
        nodes = dict(state.cluster.nodes), state.cluster.total
        made = [
            _Made(queue.spec, queue.has_left, queue.annotated) for queue in state.tree.root.below() if not queue.managed
        ]
        tenancies = [
            _Tenancy(
                application.submission,
                application.group,
                application.queue.queue_path,
                application.held(),
            )
            for application in state.applications.values()
        ]
        return cls(state.compiled, (state.in_force.user_limits_win, nodes, made, tenancies))

    def parts(self) -> tuple[Any, ...]:
        """Return everything but the configuration in force in a form that can be pickled."""
        # Tags are a view of a mapping, which cannot be pickled.
        tenancies = [
            (*one.submission[:3], dict(one.submission.tags), *one[1:3], None if one.held is None else dict(one.held))
            for one in self._tenancies
        ]
        return self._user_limits_win, self._nodes, self._made, tenancies

    @classmethod
    def of(cls, config: PartitionConfig | None, parts: tuple[Any, ...]) -> Self:
        """Return the snapshot with these `parts`, made under a configuration."""
        tenancies = [_Tenancy(Submission(*one[:4]), *one[4:]) for one in parts[-1]]
        return cls(CompiledConfig.of(config), (*parts[:-1], tenancies))

    def state(self) -> PartitionState:
        """Return books that say what the copied ones said."""
        state = PartitionState(self.compiled, user_limits_win=self._user_limits_win)
        state.cluster.nodes.update(self._nodes[0])
        state.cluster.total = self._nodes[1]
        for spec, has_left, annotated in self._made:
            queue = state.tree.create(spec.queue_path)
            queue.spec, queue.has_left, queue.annotated = spec, has_left, annotated
            state.count((*spec.names, *queue.quota.names))
        state.tree.connect(state.in_force.epoch.layout)
        for tenancy in self._tenancies:
            self._move_in(state, tenancy)
        state.resize_cluster()
        return state

    def _move_in(self, state: PartitionState, tenancy: _Tenancy) -> None:
        queue = state.tree.queues[tenancy.queue_path]
        application = Application(tenancy.submission, queue, GangStyle.SOFT)
        application.group = tenancy.group
        state.enter(application)
        if tenancy.held is not None:
            entry = LedgerEntry(application, Resource(tenancy.held), PLAIN)
            state.charge(entry, state.in_force.epoch.layout.vector(entry.usage))
            state.note(application.application_id, entry)
        state.undo.clear()


def make_plan(snapshot: Snapshot, compiled: CompiledConfig) -> Plan:
    """Return what a configuration would do where a snapshot was taken."""
    state = snapshot.state()
    before = {_key(violation): violation.used - violation.limit for violation in state.over()}
    state.swap(compiled)
    over = tuple(state.over())
    newly = tuple(told for told in over if told.used - told.limit > before.get(_key(told), 0))
    leaving = tuple(
        Leaving(path, tuple(sorted(queue.applications)))
        for path, queue in sorted(state.tree.queues.items())
        if queue.applications and (queue.draining or not queue.is_leaf)
    )
    return Plan(changes_between(snapshot.compiled, compiled), over, newly, leaving, snapshot.compiled, compiled)


def _key(violation: Violation) -> tuple[str, str, str, str | None]:
    return violation.kind, violation.name, violation.queue_path, violation.resource

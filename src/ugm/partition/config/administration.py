"""The administration of a partition: nodes, queue quotas, budgets and the configuration with its schedule.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, final

from ugm.arguments import require_amounts, require_exact_name, require_instance, require_resource
from ugm.errors import RequestError
from ugm.identity import require_name
from ugm.model import BudgetChange
from ugm.partition.admission.admission import AdmissionPart
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.model_calls import row_calls
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.partition.config.plan import ConfigPlan

T = TypeVar("T")


@final
class Administration(AdmissionPart):
    """Administrative changes: nodes, queue quotas, budgets and configuration. The caller runs them as transactions.

    Each operation begins with the limits of its time, and with the timers of reductions that lower limits start.
    """

    # The schedule

    def follow_schedule(self) -> None:
        """Let every operation read the clock first while limits change with the time."""
        self._models.set_schedule(self._follow if self._state.compiled.schedule else None)

    def restore(self, second: int) -> None:
        """Put the limits in force that were in force in the second of the last change; called before all operations.

        So the next operation finds which timers run, as if the partition had never stopped.
        """
        if self._state.compiled.schedule is not None:
            self._state.follow_schedule(second)

    def _follow(self, now: int, *, changes: bool) -> None:
        """Put the limits of the schedule in force when an operation begins."""
        state, timers = self._state, self._admission.timers
        if now >= state.compiled.changes_at:
            # First: an interruption may leave the limits changed, because they follow from the time alone.
            timers.keep_running()
            if state.follow_schedule(now):
                state.mark_everything()
        # A query cannot record that a timer has started.
        if timers.continuing is not None and (changes or not state.is_recorded):
            before = timers.continuing
            self._models.note_undo(partial(timers.set_continuing, before))
            timers.continuing = None
            timers.start(before)

    # Queues

    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name.

        Raises:
            RequestError: the queue does not exist, or the configuration names it.
        """
        queue = self._admission.require_queue(queue_path)
        if queue.managed:
            raise RequestError(
                "queue_path", queue_path, "the configuration sets the quota of this queue", "state-conflict"
            )
        self._admission.set_queue_quota(queue, quota)

    # Nodes

    def remove_node(self, name: str) -> bool:
        """Remove a node and return whether it existed."""
        if require_name("node", name) not in self._state.cluster.nodes:
            return False
        return self.change_node(self._state.cluster.remove, name)

    def change_node(self, change: Callable[..., T], name: str, *offers: Resource) -> T:
        """Add, change or remove a node by a method of the cluster."""
        state, variants = self._state, self._admission.variants
        total = state.cluster.total
        changed = change(name, *(offers if variants is None else map(variants.offered, offers)))
        state.write_node(name)
        self._models.resize(total, state.cluster.total)
        return changed

    # Budgets

    def change_budget(self, change: BudgetChange) -> bool:
        """Make a change of a budget, and return whether it is new.

        Raises:
            RequestError: there is no such budget, or it does not allow the change.
        """
        budgets = self._models.budgets_with(change.budget)
        # A query, because the model forgets promised ends that have passed.
        (prepared,) = self._models.query(budgets, lambda change: (budgets.prepare(change),), change)
        if prepared is None:
            return False
        self._models.note_undo(prepared.undo)
        prepared.apply()
        self._state.note("budget", change, change.budget)
        return True

    # The configuration

    def configure(self, config: CompiledConfig, author: str = "") -> None:
        """Put another configuration in force, with the models that it declares."""
        if config.schedule is not None:
            config = config.at(self._models.clock.now(changes=True))
        timers = self._admission.timers
        before = timers.exceeded()
        families = self._state.compiled.limits.families
        self._state.replace_config(config, author)
        if config.limits.families != families:
            from ugm.partition.admission.variant_assignment import VariantAssignment, convert_rows  # noqa: PLC0415 - rarely needed

            self._models.apply(convert_rows(self._state, VariantAssignment(self._state, self._models)))
        timers.start(before)
        self._models.declare(config.models, self._state.cluster.total, partial(row_calls, self._state.tables))

    def apply(self, plan: ConfigPlan) -> None:
        """Put the configuration of a plan in force.

        Raises:
            RequestError: the plan was made for a different configuration than the one in force.
        """
        version = self._state.compiled.version
        if plan.compiled.version == version:
            return
        if plan.base.version != version:
            raise RequestError(
                "plan", "outdated", "it was made for a different configuration than the one in force", "plan-stale"
            )
        self.configure(plan.compiled)


def require_budget_change(change: object) -> BudgetChange:
    """Return a change of a budget, after checking it.

    Raises:
        RequestError: it is not a change, or one of its fields is invalid.
    """
    return require_instance("change", change, BudgetChange).checked()


def require_node(name: str, offers: Resource) -> None:
    """Check the arguments that register a node.

    Raises:
        RequestError: an argument is invalid.
    """
    require_exact_name("node", name)
    require_amounts("offers", require_resource("offers", offers))

"""The administration of a partition: nodes, queue quotas, budgets and the configuration.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar, final

from ugm.arguments import require_amounts, require_exact_name, require_name, require_resource
from ugm.budgets import BudgetChange
from ugm.errors import RequestError
from ugm.partition.admission import AdmissionControl
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_plan import ConfigPlan
from ugm.partition.events import BudgetChanged
from ugm.partition.model_calls import ledger_calls
from ugm.partition.model_set import ModelSet
from ugm.partition.reduction_timers import ReductionTimers
from ugm.partition.state import PartitionState
from ugm.resources import Resource

__all__ = ["Administration", "require_budget_change", "require_node"]

T = TypeVar("T")


@final
class Administration:
    """Administrative changes: nodes, queue quotas, budgets and configuration. The caller runs them as transactions."""

    __slots__ = ("_admission", "_models", "_state", "_timers")

    def __init__(
        self, state: PartitionState, models: ModelSet, admission: AdmissionControl, timers: ReductionTimers
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._timers: Final = timers

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

    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node."""
        self._change_node(self._state.cluster.add, name, offers)

    def update_node(self, name: str, offers: Resource) -> None:
        """Change the resources of a node."""
        self._change_node(self._state.cluster.update, name, offers)

    def remove_node(self, name: str) -> bool:
        """Remove a node and return whether it existed."""
        if type(name) is not str or name not in self._state.cluster.nodes:
            require_name("node", name)
            return False
        return self._change_node(self._state.cluster.remove, name)

    def _change_node(self, change: Callable[..., T], name: str, *offers: Resource) -> T:
        state = self._state
        before, total = state.cluster.nodes.get(name), state.cluster.total
        state.prepare_node_change(name)
        changed = change(name, *offers)
        state.finish_node_change(name, before)
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
        self._state.undo.append((prepared.undo, ()))
        prepared.apply()
        if self._state.record:
            self._state.record(BudgetChanged(change))
        return True

    # The configuration

    def configure(self, config: CompiledConfig, author: str = "") -> None:
        """Put another configuration in force, with the models that it declares."""
        if config.schedule is not None:
            config = config.at(self._models.clock.now(changes=True))
        before = self._timers.exceeded()
        self._state.replace_config(config, author)
        self._timers.start(before)
        self._models.declare(config.models, self._state.cluster.total, partial(ledger_calls, self._state))

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
    if not isinstance(change, BudgetChange):
        raise RequestError("change", change, "expected a BudgetChange")
    return change.checked()


def require_node(name: str, offers: Resource) -> None:
    """Check the arguments that register a node.

    Raises:
        RequestError: an argument is invalid.
    """
    require_exact_name("node", name)
    require_amounts("offers", require_resource("offers", offers))

"""What whoever runs a shared partition changes: quotas, nodes and the configuration; and the ledger, by the truth.

A change of what decisions are compiled from keeps all others out for as long as it takes, and is in force for all
processes at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from ugm.arguments import require_amounts, require_name
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.model import QuotaModel
from ugm.partition.administration import Administration, require_node
from ugm.partition.audit import AuditReport, Difference, RunningAllocation, audit, differences_of, truth_of
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.plan import Plan, PlanInput, make_plan
from ugm.partition.reconcile import reconcile
from ugm.resources import Resource
from ugm.shared.calls import Calls, bounded, require_counted
from ugm.shared.engine import Need, Tools

__all__ = ["Upkeep"]

T = TypeVar("T")


class Upkeep(Calls):
    """The operations of whoever runs it; see `ugm.shared.SharedPartition`."""

    __slots__ = ()

    # Other quota models

    def replace_model(self, old: QuotaModel, new: QuotaModel) -> None:  # noqa: ARG002 - there is none to replace
        """Refuse: a shared partition has no other quota models, because the state of a model is in one process.

        Raises:
            RequestError: always.
        """
        raise RequestError("old", old, "a shared partition has no other quota models")

    # Queues and the cluster

    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        """Do what `ugm.Partition.set_queue_quota` does."""
        most = require_amounts("quota", quota)
        if most is None:
            raise RequestError("quota", quota, "expected a Resource that names at least one resource")
        self._do(
            Need(structural=True),
            lambda tools: Administration(tools.state, tools.admission).set_queue_quota(queue_path, most),
        )

    def add_node(self, name: str, offers: Resource) -> None:
        """Do what `ugm.Partition.add_node` does."""
        require_node(name, offers)
        self._node(name, lambda tools: tools.state.cluster.add(name, offers))

    def update_node(self, name: str, offers: Resource) -> None:
        """Do what `ugm.Partition.update_node` does."""
        require_node(name, offers)
        self._node(name, lambda tools: tools.state.cluster.update(name, offers))

    def remove_node(self, name: str) -> bool:
        """Do what `ugm.Partition.remove_node` does."""
        return self._node(require_name("node", name), lambda tools: tools.state.cluster.remove(name))

    def _node(self, name: str, operation: Callable[[Tools], T]) -> T:
        def changed(tools: Tools) -> T:
            before = tools.state.cluster.nodes.get(name)
            answer = operation(tools)
            tools.state.finish_node_change(name, before)
            return answer

        return self._do(Need(structural=True), changed)

    # The configuration

    def plan_input(self) -> PlanInput:
        """Do what `ugm.Partition.plan_input` does."""
        with self._engine.lock:
            return self._engine.everything(lambda state, _counters: PlanInput.copy(state))

    def plan(self, config: PartitionConfig | None) -> Plan:
        """Do what `ugm.Partition.plan` does."""
        compiled = CompiledConfig.of(config)
        with self._engine.lock:
            return self._engine.everything(lambda state, _counters: make_plan(PlanInput.copy(state), compiled))

    def apply(self, plan: Plan) -> None:
        """Do what `ugm.Partition.apply` does, with a plan that this process has made."""
        if not isinstance(plan, Plan):
            raise RequestError("plan", plan, "expected a Plan")

        def applied(tools: Tools) -> None:
            if plan.compiled is tools.state.compiled:
                return
            if plan.base.version is not tools.state.compiled.version:
                raise RequestError("plan", "outdated", "it was made for another configuration than the one in force")
            tools.state.replace_config(plan.compiled)

        self._do(Need(structural=True), applied)

    def configure(self, config: PartitionConfig | None) -> None:
        """Put another configuration in force, for all processes at the same moment; see `ugm.Partition.configure`."""
        compiled = CompiledConfig.of(config)
        self._do(Need(structural=True), lambda tools: tools.state.replace_config(compiled))

    # The truth

    def audit(self, running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> AuditReport:
        """Do what `ugm.Partition.audit` does."""
        truth = truth_of(running)
        with self._engine.lock:
            return self._engine.everything(lambda state, _counters: audit(state, truth))

    def reconcile(self, report: AuditReport) -> AuditReport:
        """Do what `ugm.Partition.reconcile` does, each difference by itself."""
        differences = differences_of(report)
        repaired: list[AuditReport] = []
        for told in differences:
            usage = Resource() if told.truth is None else bounded(told.truth.usage)

            sides = [side.application_id for side in (told.ledger, told.truth) if side is not None]
            need = Need(sides, (told.allocation_id,), checks=False)
            repaired.append(self._counting(need, partial(_mended, told, usage), usage))
        return AuditReport(tuple(one for part in repaired for one in part.differences))


def _mended(told: Difference, usage: Resource, tools: Tools) -> AuditReport:
    require_counted(tools, usage)
    return reconcile(tools.state, tools.admission, [told])

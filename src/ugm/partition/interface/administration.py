"""The changes of an administrator: nodes, quotas, budgets, configurations, and the comparison with reality."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ugm.arguments import require_amounts, require_whole
from ugm.errors import InvariantError, RequestError
from ugm.identity import require_name
from ugm.partition.config.administration import require_budget_change, require_node
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.model_calls import row_calls
from ugm.partition.interface.parts import PartitionParts

if TYPE_CHECKING:
    from ugm.configuration import PartitionConfig
    from ugm.model import BudgetChange
    from ugm.partition.admission.running_work import AuditReport, RunningAllocation, RunningApplication
    from ugm.partition.answers.reports import SyncReport
    from ugm.partition.config.plan import ConfigPlan, PlanInput, ScheduledChange
    from ugm.resources import Resource


class AdministrationOperations(PartitionParts):
    """The operations of an administrator."""

    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name, for example the quota of a namespace.

        Raises:
            RequestError: the queue does not exist, the configuration names it, or the quota is invalid.
        """
        maximum = self._require_listed("quota", require_amounts("quota", quota))
        if maximum is None:
            raise RequestError("quota", quota, "expected a Resource that names at least one resource")
        self._transactions.run(self._administration.set_queue_quota, queue_path, maximum)

    def change_budget(self, change: BudgetChange) -> bool:
        """Set the amounts of a budget, refill an account, or transfer what remains in one account to another.

        The change applies to a budget of the configuration, or of a `ugm.budgets.Budgets` of the program. New amounts
        stay until the configuration changes those of the budget. Nothing that runs is stopped.

        Args:
            change: the change, with a reason for people. With an id, a repeated call has no effect.

        Returns:
            False if the change of this id was made before.

        Raises:
            RequestError: there is no such budget or account, the amounts do not suit it, less remains than a transfer
                moves, or another change had this id.
        """
        checked = require_budget_change(change)
        return self._transactions.run(self._administration.change_budget, checked)

    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node, which increases the maximum of the root.

        After the first node is registered, requests for resources that no node has are denied. A node with a new
        resource name causes all counters to be rebuilt on their next use.

        Raises:
            RequestError: a node of that name is registered with other resources, or an argument is invalid.
        """
        require_node(name, offers)
        self._require_listed("offers", offers)
        self._transactions.run(self._administration.change_node, self._state.cluster.add, name, offers)

    def update_node(self, name: str, offers: Resource) -> None:
        """Change the resources of a node. If usage exceeds the new total, nothing is evicted and growth is denied.

        Raises:
            RequestError: the node does not exist, or an argument is invalid.
        """
        require_node(name, offers)
        self._require_listed("offers", offers)
        self._transactions.run(self._administration.change_node, self._state.cluster.update, name, offers)

    def remove_node(self, name: str) -> bool:
        """Remove a node and return whether it existed. Without any node, the root allows nothing."""
        return self._transactions.run(self._administration.remove_node, name)

    def plan(self, config: PartitionConfig | None) -> ConfigPlan:
        """Return the effects that another configuration would have, without any change.

        The time depends on the size of the partition. The lock is held only to copy the usage.

        Raises:
            RequestError: the configuration is invalid.
        """
        from ugm.partition.config.plan import make_config_plan  # noqa: PLC0415 - see `_Part`

        compiled = CompiledConfig.of(config)
        return make_config_plan(self._plan_input(config), compiled)

    def scheduled_changes(self, *, max_changes: int = 10) -> tuple[ScheduledChange, ...]:
        """Return the next changes of limits by the schedule of the configuration in force, in their order.

        Each change lists the limits that the present usage would exceed then. The time depends on the size of the
        partition. The lock is held only to copy the usage.

        Args:
            max_changes: the maximum number of changes.

        Raises:
            RequestError: *max_changes* is not a number.
        """
        from ugm.partition.config.plan import scheduled_changes  # noqa: PLC0415 - see `_Part`

        count = require_whole("max_changes", max_changes)
        if self._lock.run(lambda: self._state.compiled.schedule) is None:
            # Without the copy that follows, which takes long with thousands of queues.
            return ()
        state = self._plan_input(self._state.compiled.config).state
        return scheduled_changes(state, state.compiled, count)

    def apply(self, plan: ConfigPlan, *, confirm: bool = False) -> None:
        """Put the configuration of a plan in force.

        A plan with `ConfigPlan.risks`, whose limits fall below the usage or by more than 10 %, has to be confirmed.
        `configure` needs no confirmation.

        Usage may have changed since the plan was made. The configuration may have been replaced by an equal one; the
        changes are the planned ones. A plan that is in force already changes nothing.

        Args:
            plan: the plan.
            confirm: whether its risks are accepted.

        Raises:
            RequestError: the configuration in force is not the one for which the plan was made, or the plan has risks
                that are not confirmed. Nothing has changed.
        """
        from ugm.partition.config.plan import require_confirmed  # noqa: PLC0415 - see `_Part`

        require_confirmed(plan, confirm=confirm)
        self._transactions.run(self._administration.apply, plan)

    def configure(self, config: PartitionConfig | None, author: str = "") -> None:
        """Put another configuration in force at once.

        All later answers follow it. Applications keep their queue and their group, nothing is evicted, and removed
        queues with applications are drained. The time depends on the number of queues.

        Args:
            config: the configuration; None for none.
            author: the author of the change, of at most 256 characters. `ugm.events.ConfigurationChanged` and a store
                contain it.

        Raises:
            RequestError: an argument is invalid; the old configuration is still in force.
        """
        named, compiled = author and require_name("author", author), CompiledConfig.of(config)
        self._transactions.run(self._administration.configure, compiled, named)

    def audit(self, running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> AuditReport:
        """Compare the ledger with the allocations that really run, without any change.

        Args:
            running: the allocations that run, each as a `RunningAllocation` or as a tuple of its fields.

        Raises:
            RequestError: an item is not an allocation, or an id occurs twice.
        """
        from ugm.partition.admission.running_work import AuditReport, differences, require_running  # noqa: PLC0415 - see `_Part`

        by_id, tables = require_running(running), self._read(self._state.tables.copy)
        return AuditReport(differences(tables.allocations, tables.applications, by_id))

    def reconcile(self, report: AuditReport) -> AuditReport:
        """Repair the differences of an audit: adopt, release or correct allocations.

        A difference is skipped if the ledger has changed there since the audit, or if its application is unknown.

        Returns:
            The differences that were repaired.

        Raises:
            RequestError: the report is invalid; nothing has changed.
        """
        from ugm.partition.admission.running_work import require_differences  # noqa: PLC0415 - see `_Part`

        return self._transactions.run(self._running_work.reconcile, require_differences(report))

    def synchronize(
        self, running: Iterable[RunningApplication], *, starting: Iterable[str] = (), among: Iterable[str] | None = None
    ) -> SyncReport:
        """Make the applications and allocations equal to the running work of a host, in one step.

        Missing applications and allocations are adopted, also above limits, like `adopt_application` and `adopt`. The
        sizes and nodes of allocations are corrected. Allocations that no longer run are released, and applications
        that the host does not name are ended. Pending requests of named applications stay.

        Args:
            running: the applications that run, with their allocations.
            starting: the ids of applications and allocations that are about to run, or that wait. They are neither
                released nor ended.
            among: the ids of the only applications and allocations that may be released or ended; None for all. Hosts
                that share a partition, or that start work while they list it, pass the ids that they found before.

        Returns:
            What has changed, and every limit that is exceeded now. A repeated call changes nothing.

        Raises:
            RequestError: an argument is invalid, an id occurs twice, or an application belongs to another user. Nothing
                has changed.
        """
        from ugm.partition.admission.running_work import require_work  # noqa: PLC0415 - see `_Part`

        work = require_work(running, starting, among)
        return self._transactions.run(self._running_work.synchronize, work, self._exceeded_limits)

    def verify(self) -> None:
        """Recompute every counter from the ledger, and compare it. Other quota models may compare theirs as well.

        Raises:
            InvariantError: a counter differs. This is a bug in ugm, please report it, or in a custom quota model.
        """
        from ugm.partition.engine.self_check import verify  # noqa: PLC0415 - see `_Part`

        verify(self._state)
        if self._models:
            self._read(self._verify_models)

    def _plan_input(self, config: PartitionConfig | None) -> PlanInput:
        from ugm.partition.config.plan import PlanInput  # noqa: PLC0415 - see `_Part`

        state, clock, models = self._state, self._models.clock, self._model_queries
        compiled, tables, now, facts = self._read(
            lambda: (state.compiled, state.tables.copy(), clock.now(changes=False), models.copy_for_plan(config))
        )
        return PlanInput(state.made_from(compiled.at(now), tables, ()), now, facts)

    def _verify_models(self) -> None:
        findings = list(self._model_queries.findings(row_calls(self._state.tables)))
        if findings:
            raise InvariantError(tuple(findings))

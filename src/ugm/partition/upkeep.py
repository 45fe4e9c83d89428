"""What whoever runs a partition changes: quotas, nodes and the configuration; and the ledger, once the truth is known.

Every operation takes the lock once, for the whole of its work.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ugm.arguments import require_amounts, require_name, require_resource
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.model import QuotaModel
from ugm.operation_lock import growing
from ugm.partition.audit import AuditReport, Running, audit, differences_of, truth_of
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import changes_between
from ugm.partition.lifecycle import ApplicationLifecycle
from ugm.partition.model_set import ModelSet, claims_of
from ugm.partition.plan import Plan, Snapshot, make_plan
from ugm.partition.reconcile import reconcile
from ugm.partition.state import PartitionState
from ugm.partition.view import PartitionView
from ugm.resources import Resource

__all__ = ["Upkeep", "require_offer"]

T = TypeVar("T")


class Upkeep(PartitionView):
    """The operations of a `ugm.Partition` that no single application asks for."""

    __slots__ = ("_life",)

    def _open(self, state: PartitionState, others: ModelSet) -> None:
        """Begin with some books."""
        super().__init__(state, others)
        self._life = ApplicationLifecycle(state, others, self._admission)
        self._lock.rebuild = self._rebuild

    # After an interruption, and after the failure of a quota model

    def _rebuild(self) -> None:
        """Recompute every counter from the ledger, and charge models whose state is unknown with the ledger."""
        self._state.rebuild()
        if self._others:
            self._others.rebuild(claims_of(self._state))

    @growing
    def replace_model(self, old: QuotaModel, new: QuotaModel) -> None:
        """Put another quota model in the place of one, charged with everything that is held and pending.

        This is the way back from a model that failed in the middle of a call and cannot be reset: until then every
        request is denied with its name. Passing the same model again is right once the program has repaired it.

        Raises:
            RequestError: *old* is not a model of this partition, or *new* is not a quota model.
        """
        self._others.replace(old, new, claims_of(self._state))

    # Queues and the cluster

    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        """Let a queue that the configuration does not name use *quota*: the quota of a namespace that has changed.

        Raises:
            RequestError: there is no such queue, the configuration names it, or the quota is none.
        """
        most = require_amounts("quota", quota)
        if most is None:
            raise RequestError("quota", quota, "expected a Resource that names something")
        self._lock.grow(self._life.change_quota, queue_path, most)

    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node: the root may use that much more.

        Registering the first node closes the cluster: from then on a resource that no node offers is denied. A resource
        that nothing has named before makes every counter be put together again, when it is used next.

        Raises:
            RequestError: a node of that name is registered with other resources, or an argument cannot be used.
        """
        require_offer(name, offers)
        self._lock.grow(self._change_node, self._state.cluster.add, name, offers)

    def _change_node(self, change: Callable[..., T], name: str, *offers: Resource) -> T:
        before = self._state.cluster.nodes.get(name)
        if not offers and before is None:
            return change(name)
        self._state.note_node(name)
        changed = change(name, *offers)
        self._state.follow_node(name, before)
        return changed

    def update_node(self, name: str, offers: Resource) -> None:
        """Change what a node offers. Nobody is evicted; the root denies growth until usage has come down.

        Raises:
            RequestError: there is no such node, or an argument cannot be used.
        """
        require_offer(name, offers)
        self._lock.grow(self._change_node, self._state.cluster.update, name, offers)

    def remove_node(self, name: str) -> bool:
        """Remove a node, and say whether there was one. Without any node, the root allows nothing."""
        if type(name) is not str or name not in self._state.cluster.nodes:
            require_name("node", name)
        return self._lock.give(self._change_node, self._state.cluster.remove, name)

    # The configuration

    def plan(self, config: PartitionConfig | None) -> Plan:
        """Return what another configuration would do here, without doing it.

        Takes time in the size of the partition, and of that under the lock only what it takes to copy who holds what.

        Raises:
            RequestError: the configuration cannot be used.
        """
        compiled = CompiledConfig.of(config)
        return make_plan(self.plan_basis(), compiled)

    def plan_basis(self) -> Snapshot:
        """Return a copy of everything that a plan depends on, so that it can be made in another process.

        Takes time in the number of queues and applications, under the lock.
        """
        return self._lock.run(Snapshot.take, self._state)

    def apply(self, plan: Plan) -> None:
        """Put the configuration of a plan in force.

        Usage may have changed since the plan was made, and so may the configuration, if the new one is equal to the one
        that the plan was made for; the changes are the planned ones. A plan that is in force already changes nothing.

        Raises:
            RequestError: another configuration has been put in force since the plan was made, or it was made for
                another partition.
        """
        if not isinstance(plan, Plan):
            raise RequestError("plan", plan, "expected a Plan")
        self._lock.grow(self._apply, plan)

    def _apply(self, plan: Plan) -> None:
        if plan.compiled is self._state.compiled:
            return
        if plan.base.version is not self._state.compiled.version:
            raise RequestError("plan", "outdated", "it was made for another configuration than the one in force")
        self._state.swap(plan.compiled)

    def configure(self, config: PartitionConfig | None) -> None:
        """Put another configuration in force, all at once.

        From then on every answer follows it. Applications stay where they are and keep their group, nobody is evicted,
        and queues that leave with applications in them are drained. Takes time in the number of queues.

        Raises:
            RequestError: the configuration cannot be used; the old one is still in force.
        """
        compiled, known = CompiledConfig.of(config), self._state.compiled
        equal = compiled if changes_between(known, compiled) else compiled._replace(version=known.version)
        self._lock.grow(self._configure, known, equal, compiled)

    def _configure(self, known: CompiledConfig, equal: CompiledConfig, compiled: CompiledConfig) -> None:
        self._state.swap(equal if self._state.compiled is known else compiled)

    # The truth

    def audit(self, running: Iterable[Running | tuple[str, str, Resource]]) -> AuditReport:
        """Compare the ledger with everything that really runs, and only report.

        Each is a `ugm.Running`, or a tuple of its parts.

        Raises:
            RequestError: something in it is no allocation, or an id is there twice.
        """
        return self._lock.run(audit, self._state, truth_of(running))

    def reconcile(self, report: AuditReport) -> AuditReport:
        """Repair what an audit reported: adopt what runs, release what does not, and correct what differs in size.

        A difference is left alone if the ledger has changed in that place since, or if the application is unknown.

        Returns:
            The differences that were repaired.

        Raises:
            RequestError: this is no report, or has something in it that no audit could have found; nothing has changed.
        """
        return self._lock.grow(reconcile, self._state, self._admission, differences_of(report))


def require_offer(name: str, offers: Resource) -> None:
    """Make sure that a node can be registered with what it offers.

    Raises:
        RequestError: it cannot.
    """
    require_name("node", name)
    require_amounts("offers", require_resource("offers", offers))

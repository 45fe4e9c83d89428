"""What whoever runs a partition changes: quotas, nodes and the configuration; and the ledger, once the truth is known.

Every operation takes the lock once, for the whole of its work.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from ugm.arguments import amounts_of, name_of, resource_of
from ugm.errors import RequestError
from ugm.partition.audit import AuditReport, Running, audit, differences_of, truth_of
from ugm.partition.books import Books
from ugm.partition.compiled import Compiled, PartitionSettings
from ugm.partition.life import LifeCycle
from ugm.partition.others import OtherModels
from ugm.partition.plan import Plan, Snapshot, make_plan
from ugm.partition.reconcile import reconcile
from ugm.partition.view import PartitionView
from ugm.resources import Resource

__all__ = ["Upkeep", "require_offer"]


class Upkeep(PartitionView):
    """The operations of a `ugm.Partition` that no single application asks for."""

    __slots__ = ("_giving", "_growing", "_life")

    #: The lock, as it is taken by whatever may let the books grow: grants, submissions, nodes, configurations.
    _growing: AbstractContextManager[object]
    #: The lock, as it is taken by whatever gives back or ends.
    _giving: AbstractContextManager[object]

    def _open(
        self,
        books: Books,
        others: OtherModels,
        growing: AbstractContextManager[object],
        giving: AbstractContextManager[object],
    ) -> None:
        """Begin with some books; both locks guard the same as theirs."""
        super().__init__(books, others)
        self._growing, self._giving = growing, giving
        self._life = LifeCycle(books, others, self._admission)

    # Queues and the cluster

    def give_quota(self, queue_path: str, quota: Resource) -> None:
        """Let a queue that the configuration does not name use *quota*: the quota of a namespace that has changed.

        Raises:
            RequestError: there is no such queue, the configuration names it, or the quota is none.
        """
        most = amounts_of("quota", quota)
        if most is None:
            raise RequestError("quota", quota, "expected a Resource that names something")
        with self._growing:
            self._life.change_quota(queue_path, most)

    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node: the root may use that much more.

        Registering the first node closes the cluster: from then on a resource that no node offers is denied. A resource
        that nothing has named before makes every counter be put together again, when it is used next.

        Raises:
            RequestError: a node of that name is registered with other resources, or an argument cannot be used.
        """
        require_offer(name, offers)
        with self._growing:
            before = self._books.cluster.nodes.get(name)
            self._books.cluster.add(name, offers)
            self._books.follow_node(name, before)

    def update_node(self, name: str, offers: Resource) -> None:
        """Change what a node offers. Nobody is evicted; the root denies growth until usage has come down.

        Raises:
            RequestError: there is no such node, or an argument cannot be used.
        """
        require_offer(name, offers)
        with self._growing:
            before = self._books.cluster.nodes.get(name)
            self._books.cluster.update(name, offers)
            self._books.follow_node(name, before)

    def remove_node(self, name: str) -> bool:
        """Remove a node, and say whether there was one. Without any node, the root allows nothing."""
        name_of("node", name)
        with self._giving:
            before = self._books.cluster.nodes.get(name)
            removed = self._books.cluster.remove(name)
            self._books.follow_node(name, before)
            return removed

    # The configuration

    def plan(self, config: PartitionSettings | None) -> Plan:
        """Return what another configuration would do here, without doing it.

        Takes time in the size of the partition, and of that under the lock only what it takes to copy who holds what.

        Raises:
            RequestError: the configuration cannot be used.
        """
        compiled = Compiled.of(config)
        with self._lock:
            snapshot = Snapshot(self._books)
        return make_plan(snapshot, compiled)

    def apply(self, plan: Plan) -> None:
        """Put the configuration of a plan in force.

        What happened to usage since the plan was made does not matter; the changes are the planned ones. A plan that is
        in force already changes nothing.

        Raises:
            RequestError: another configuration has been put in force since the plan was made, or it was made for
                another partition.
        """
        if not isinstance(plan, Plan):
            raise RequestError("plan", plan, "expected a Plan")
        with self._growing:
            if plan.compiled is self._books.compiled:
                return
            if plan.base is not self._books.compiled:
                raise RequestError("plan", "outdated", "it was made for another configuration than the one in force")
            self._books.swap(plan.compiled)

    def configure(self, config: PartitionSettings | None) -> None:
        """Put another configuration in force, all at once.

        From then on every answer follows it. Applications stay where they are and keep their group, nobody is evicted,
        and queues that leave with applications in them are drained. Takes time in the number of queues.

        Raises:
            RequestError: the configuration cannot be used; the old one is still in force.
        """
        compiled = Compiled.of(config)
        with self._growing:
            self._books.swap(compiled)

    # The truth

    def audit(self, running: Iterable[Running | tuple[str, str, Resource]]) -> AuditReport:
        """Compare the ledger with everything that really runs, and only report.

        Each is a `ugm.Running`, or a tuple of its parts.

        Raises:
            RequestError: something in it is no allocation, or an id is there twice.
        """
        truth = truth_of(running)
        with self._lock:
            return audit(self._books, truth)

    def reconcile(self, report: AuditReport) -> AuditReport:
        """Repair what an audit reported: adopt what runs, release what does not, and correct what differs in size.

        A difference is left alone if the ledger has changed in that place since, or if the application is unknown. If
        another quota model raises, what has been repaired until then stays so.

        Returns:
            The differences that were repaired.

        Raises:
            RequestError: this is no report, or has something in it that no audit could have found; nothing has changed.
        """
        differences = differences_of(report)
        with self._growing:
            return reconcile(self._books, self._admission, differences)


def require_offer(name: str, offers: Resource) -> None:
    """Make sure that a node can be registered with what it offers.

    Raises:
        RequestError: it cannot.
    """
    name_of("node", name)
    amounts_of("offers", resource_of("offers", offers))

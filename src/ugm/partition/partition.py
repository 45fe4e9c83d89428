"""One partition: everything that a scheduler asks before it starts something, in one place.

A `Partition` places applications in queues, and admits their allocations only if the limits of the user, of the group,
of every queue up to the root, and of every other quota model agree. Allocations are a ledger keyed by id; every counter
follows from it. So each call can be repeated without harm: a scheduler that did not hear the answer asks again.

One lock guards everything; every public operation holds it once, for the whole of its work. Other quota models run
under it. Time is the caller's business: whatever waits for a while is ended by a call.

Source: Apache YuniKorn, resource quota management; user based resource usage tracking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Literal

from ugm.arguments import amounts_of, name_of, resource_of
from ugm.decision import ALLOWED, Decision, Violation
from ugm.errors import RequestError
from ugm.identity import UserGroup
from ugm.model import QuotaModel
from ugm.partition._submission import group_of, placed_path, style_of, submission_of
from ugm.partition.application import ApplicationInfo
from ugm.partition.audit import AuditReport, Running, audit, truth_of
from ugm.partition.books import Books
from ugm.partition.compiled import Compiled, PartitionSettings
from ugm.partition.entry import Ask
from ugm.partition.events import Subscriber
from ugm.partition.feed import Feed, TellingLock
from ugm.partition.gang import allocate_all
from ugm.partition.life import LifeCycle
from ugm.partition.others import OtherModels
from ugm.partition.plan import Plan, Snapshot, make_plan
from ugm.partition.reconcile import reconcile
from ugm.partition.view import PartitionView
from ugm.queues import Placement
from ugm.resources import Resource

__all__ = ["Partition"]

#: The one node of a cluster whose nodes nobody registers.
_CLUSTER: Final = "cluster"


class Partition(PartitionView):
    """The queues, users and groups of one partition, its applications and their allocations.

    Any number of threads may call any operation at any time. Signal handlers and finalizers may not, as with a
    `ugm.Manager`.

    Args:
        config: the partition of a configuration, from `ugm.load_config`; None for a root without queues and limits.
        cluster: what the cluster offers, for a program that registers no nodes; it counts as one node, called
            ``cluster``. Without it, and until a first node is registered, the size of the cluster limits nothing.
        models: other quota models, asked and charged in this order, after users, groups and queues.
        subscribers: who is told of everything that happens, after the lock has been released. A partition that somebody
            follows takes longer over each allocation.
        group_limits: as for a `ugm.Manager`.

    Raises:
        RequestError: an argument cannot be used.

    >>> from ugm import parse_config
    >>> config = parse_config("partitions: [{name: default, queues: [{name: prod, resources: {max: {memory: 4Gi}}}]}]")
    >>> partition = Partition(config.partition())
    >>> partition.submit("app-1", UserGroup("sue"), "root.prod").queue_path
    'root.prod'
    >>> partition.allocate("app-1-0", "app-1", Resource(memory=3 * 2**30)).allowed
    True
    >>> print(partition.allocate("app-1-1", "app-1", Resource(memory=2 * 2**30)))
    denied, waiting can help:
      queue root.prod: 2Gi memory requested, 3Gi of 4Gi used, 1Gi too much
    >>> partition.release("app-1-0"), partition.release("app-1-0")
    (True, False)
    """

    __slots__ = ("_giving", "_growing", "_life", "_owners")

    #: The lock, as it is taken by whatever may let the books grow: grants, submissions, nodes, configurations.
    _growing: AbstractContextManager[object]
    #: The lock, as it is taken by whatever gives back or ends.
    _giving: AbstractContextManager[object]

    def __init__(
        self,
        config: PartitionSettings | None = None,
        *,
        cluster: Resource | None = None,
        models: Iterable[QuotaModel] = (),
        subscribers: Iterable[Subscriber] = (),
        group_limits: Literal["always", "unless-user-limited"] = "always",
    ) -> None:
        if group_limits not in ("always", "unless-user-limited"):
            raise RequestError("group_limits", group_limits, "expected 'always' or 'unless-user-limited'")
        followers = tuple(subscribers)
        feed = Feed(followers) if followers else None
        books = Books(
            Compiled.of(config),
            user_limits_win=group_limits == "unless-user-limited",
            lock=feed and TellingLock(feed),
            tell=feed and feed.add,
        )
        self._open(books, OtherModels(models), books.in_force.lock, books.in_force.lock)
        if cluster is not None:
            self.add_node(_CLUSTER, cluster)

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
        #: The ledger itself, close at hand.
        self._owners = books.entries.owners

    # Applications

    def submit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
    ) -> Placement:
        """Place an application in a queue, once and for all.

        The placement rules of the configuration choose the queue; where a rule may create queues, it is created.

        Args:
            application_id: the application.
            user: who owns it, with the groups of this moment.
            queue: the queue that is asked for, if any.
            tags: what rules and other quota models look at, for example the namespace.
            quota: the most that may be used in the queue, for one that the configuration does not name: the quota of a
                namespace. It replaces what the queue had, also when a submission is repeated, and is not looked at for
                other queues.
            gang_style: what becomes of the application if its gang is not complete in time: ``soft`` lets it go on,
                ``hard`` lets it fail.

        Returns:
            Where it was placed; false if no rule had a queue for it, with what every rule said. Nothing has changed
            then.

        Raises:
            RequestError: an argument cannot be used, or the id stands for an application submitted otherwise. The same
                submission once more is answered with the same queue, whatever the rules say now.
        """
        submission = submission_of(application_id, user, queue, tags)
        style, most = style_of(gang_style), amounts_of("quota", quota)
        with self._growing:
            return self._life.submit(submission, style, most)

    def adopt_application(
        self,
        application_id: str,
        user: UserGroup,
        queue_path: str,
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
        group: str | None = "",
    ) -> None:
        """List an application where it was placed before: recovery after a restart.

        Placement rules and access lists are not asked, and a queue that is missing is created. Where it could not have
        been, because a leaf stands there now, or something that is draining, it takes no more applications. Submitting
        the application once more, in whatever way, is answered with where it is.

        Args:
            application_id: the application.
            user: who owns it.
            queue_path: where it was placed.
            tags: as for `submit`.
            quota: as for `submit`.
            gang_style: as for `submit`.
            group: the group that it was charged to, None for none; left out, it is chosen with its first allocation.

        Raises:
            RequestError: as for `submit`, or the queue is the root.
        """
        submission = submission_of(application_id, user, placed_path(queue_path), tags)
        style, most, chosen = style_of(gang_style), amounts_of("quota", quota), group_of(group)
        with self._growing:
            self._life.adopt(submission, style, most, chosen)

    def complete(self, application_id: str) -> ApplicationInfo:
        """Forget an application that has done its work, and return what it was.

        Raises:
            RequestError: there is no such application, or it still holds something or has something pending.
        """
        with self._giving:
            return self._life.complete(self._admission.application(application_id))

    def fail(self, application_id: str) -> tuple[str, ...]:
        """Let an application fail: it gets nothing more, and is forgotten with its last allocation.

        Returns:
            The allocations that have to be stopped and then released; they are counted until then.

        Raises:
            RequestError: there is no such application.
        """
        with self._giving:
            return self._life.fail(self._admission.application(application_id))

    def remove(self, application_id: str) -> tuple[str, ...]:
        """Forget an application with all that it holds, and return the allocations that this has released.

        Raises:
            RequestError: there is no such application.
        """
        with self._giving:
            return self._life.remove(self._admission.application(application_id))

    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Wait no longer for the gang of an application.

        Placeholders that nothing has replaced have to go. An application of the style ``hard`` fails if it has nothing
        but placeholders, and none has ever been replaced; otherwise it goes on without them.

        Returns:
            The allocations that have to be stopped and then released; they are counted until then.

        Raises:
            RequestError: there is no such application.
        """
        with self._giving:
            return self._life.time_out_gang(self._admission.application(application_id))

    def close(self) -> tuple[str, ...]:
        """Begin to remove the partition: it takes nothing more, and all its applications fail.

        Returns:
            The allocations that have to be stopped and then released.
        """
        with self._giving:
            return self._life.close()

    # Allocations

    def ask(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> None:
        """Note that an allocation is wanted: it is pending until `allocate` grants it or `release` withdraws it.

        It counts against no limit. While anything is pending, an application that has started goes on running.

        Raises:
            RequestError: as for `allocate`.
        """
        ask = Ask(allocation_id, application_id, usage, placeholder, priority, preemptible)
        with self._growing:
            self._life.ask(ask)

    def allocate(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        evict: bool = False,
    ) -> Decision:
        """Grant an allocation, if every limit of user, group, queues and other models has room for it.

        The first allocation of an application starts it, and chooses its group. Costs time in the number of limits
        between the queue and the root, whatever the number of allocations, applications, users, queues and limits.

        Args:
            allocation_id: the allocation, one that is pending or a new one.
            application_id: the application, which has been submitted.
            usage: what it takes. Pass the same object again for the same size.
            placeholder: whether it only keeps room for another that will `replace` it.
            priority: for other quota models that look at it.
            preemptible: as above.
            evict: whether allocations that another quota model gives up for this one are released at once, in all
                models. Where they take time to go, look at the evictions of a denial, `preempt` them, and ask again
                when they are released.

        Returns:
            The decision; a denial names every limit in the way, and nothing has changed. The same allocation once more
            is answered as before.

        Raises:
            RequestError: an argument cannot be used, there is no such application, it is failing, or the id stands for
                an allocation of other content.
        """
        force = self._in_force
        with self._growing:
            try:
                application = self._applications.get(application_id)
                is_new = allocation_id not in self._owners
            except TypeError:
                # What cannot be hashed is no id; it is refused below.
                application, is_new = None, False
            # What follows needs no more than the counters: nearly every allocation.
            if (
                is_new
                and application is not None
                and application.is_plain
                and type(allocation_id) is str
                and allocation_id
                and placeholder is False
                and preemptible is True
                and priority == 0
                and type(usage) is Resource
            ):
                layout, row = usage.compiled
                if layout is not force.epoch.layout:
                    row = force.epoch.layout.row(usage)
                holding = application.holding
                if holding is None or holding.epoch is not force.epoch:
                    violations = self._books.admit(application, row)
                else:
                    violations = () if holding.grow(row) else holding.tell_why(row)
                if violations:
                    return Decision(violations)
                self._owners[allocation_id] = application
                application.lines[allocation_id] = usage
                return ALLOWED
            ask = Ask(allocation_id, application_id, usage, placeholder, priority, preemptible)
            return self._admission.allocate(ask, evict=evict)

    def allocate_all(self, asks: Iterable[Ask | tuple[str, str, Resource]]) -> Decision:
        """Grant several allocations together, or none of them: a gang.

        Each is a `ugm.Ask`, or a tuple of its parts. They may be of one application or of many; each is held to the
        limits as if those before it had been granted. A denial names every limit that was short, with what all of them
        together ask of it.

        Raises:
            RequestError: as for `allocate`, for any of them; nothing has changed.
        """
        # Whatever makes the asks is foreign code, and done with before the lock is taken.
        batch = _asks(asks)
        with self._growing:
            return allocate_all(self._books, self._others, self._admission, batch)

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> Decision:
        """Put a real allocation in the place of a placeholder of the same application, in one step.

        Only what grows is checked: an allocation that is no larger in any resource is always granted. Other quota
        models are asked again if it has another priority than the placeholder, or is preemptible and the other is not.

        Raises:
            RequestError: there is no such placeholder, or an argument cannot be used. The same replacement once more is
                answered as before; what replaced what is not remembered, any allocation of that id and size answers.
        """
        with self._growing:
            return self._admission.replace(placeholder_id, allocation_id, usage)

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Let an allocation take something else from now on, if what grows fits. What only shrinks is never denied.

        Raises:
            RequestError: there is no such allocation, the usage is none, or it grows and the application is failing.
        """
        with self._growing:
            return self._admission.resize(allocation_id, usage)

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as going, and say whether there is one.

        It is counted until `release` confirms that it has gone.
        """
        name_of("allocation_id", allocation_id)
        with self._giving:
            return self._life.preempt(allocation_id)

    def release(self, allocation_id: str) -> bool:
        """Give an allocation back, or withdraw one that is pending, and say whether there was one.

        Never denied, and harmless when it is repeated. With its last allocation gone and nothing pending, an
        application has stopped running; it may start again.

        Raises:
            RequestError: the id is none.
        """
        force, owners = self._in_force, self._owners
        with self._giving:
            # Nearly every allocation is a plain one of a running application; any other is put back for the long way.
            application = owners.get(allocation_id) if type(allocation_id) is str else None
            if application is not None and application.is_plain:
                holding, usage = application.holding, application.lines.get(allocation_id)
                if (
                    holding is not None
                    and holding.epoch is force.epoch
                    and type(usage) is Resource
                    and usage.compiled[0] is force.epoch.layout
                ):
                    holding.take(usage.compiled[1])
                    del owners[allocation_id], application.lines[allocation_id]
                    if not application.lines:
                        self._books.settle(application)
                    return True
            return self._admission.release(allocation_id)

    def adopt(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> tuple[Violation, ...]:
        """Charge an allocation that exists already, without checking: recovery after a restart.

        Returns:
            Every limit of users, groups and queues that is exceeded now; empty when all is within limits.

        Raises:
            RequestError: as for `allocate`, except that an application which is failing may be given what it has.
        """
        ask = Ask(allocation_id, application_id, usage, placeholder, priority, preemptible)
        with self._growing:
            return self._admission.adopt(ask)

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
            queue = self._queue(queue_path)
            if queue.managed:
                raise RequestError("queue_path", queue_path, "the configuration says what the queue may use")
            self._life.give_quota(queue, most)

    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node: the root may use that much more.

        Registering the first node closes the cluster: from then on a resource that no node offers is denied. A resource
        that nothing has named before makes every counter be put together again, when it is used next.

        Raises:
            RequestError: a node of that name is registered with other resources, or an argument cannot be used.
        """
        name_of("node", name)
        amounts_of("offers", resource_of("offers", offers))
        with self._growing:
            before = self._books.cluster.nodes.get(name)
            self._books.cluster.add(name, offers)
            self._books.follow_node(name, before)

    def update_node(self, name: str, offers: Resource) -> None:
        """Change what a node offers. Nobody is evicted; the root denies growth until usage has come down.

        Raises:
            RequestError: there is no such node, or an argument cannot be used.
        """
        name_of("node", name)
        amounts_of("offers", resource_of("offers", offers))
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
            RequestError: this is no report.
        """
        if not isinstance(report, AuditReport):
            raise RequestError("report", report, "expected an AuditReport")
        with self._growing:
            return reconcile(self._books, self._admission, report)


def _asks(asks: Iterable[Ask | tuple[str, str, Resource]]) -> list[Ask]:
    try:
        return [Ask(*ask) for ask in asks]
    except TypeError as error:
        raise RequestError("asks", asks, "expected Asks, or tuples of their parts") from error

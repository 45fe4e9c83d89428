"""One partition: everything that a scheduler asks before it starts something, in one place.

A `Partition` places applications in queues, and admits their allocations only if the limits of the user, of the group,
of every queue up to the root, and of every other quota model agree. Allocations are a ledger keyed by id; every counter
follows from it. So each call can be repeated without harm: a scheduler that did not hear the answer asks again.

One lock guards everything; every public operation holds it once, for the whole of its work. Other quota models run
under it. Time is the caller's business: whatever waits for a while is ended by a call.

Source: Apache YuniKorn, resource quota management; user based resource usage tracking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ugm.configuration import PartitionConfig
from ugm.decision import ALLOWED, Decision, Violation
from ugm.errors import RequestError
from ugm.hierarchy import RequestVector
from ugm.model import QuotaModel
from ugm.operation_lock import CHANGING, OperationLock
from ugm.partition.application import Application
from ugm.partition.applications import Applications
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_outbox import EventOutbox, Notifier
from ugm.partition.events import Subscriber
from ugm.partition.gang import allocate_all, asks_of
from ugm.partition.ledger_entry import DEFAULT_PRIORITY, AllocationRequest
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.resources import Resource

__all__ = ["Partition"]

#: The one node of a cluster whose nodes nobody registers.
_CLUSTER: Final = "cluster"


class Partition(Applications):
    """The queues, users and groups of one partition, its applications and their allocations.

    Any number of threads may call any operation at any time. A call by a signal handler, finalizer or quota model
    raises `ugm.ReentrantCallError` if it comes in the middle of an operation of the same thread.

    If an exception interrupts an operation, the operation has taken effect or not, and no lock is held.

    Args:
        config: the partition of a configuration, from `ugm.load_config`; None for a root without queues and limits.
        cluster: what the cluster offers, for a program that registers no nodes; it counts as one node, called
            ``cluster``. Without it, and until a first node is registered, the size of the cluster limits nothing.
        models: other quota models, asked and charged in this order, after users, groups and queues. What one of them
            raises goes to the caller, and changes neither the partition nor another model. A model that raises in a
            call that changes it is reset, or suspended until `replace_model` replaces it.
        subscribers: functions that are called with everything that happens, after the lock has been released; see
            ``ugm.partition.Subscriber``. A partition with subscribers takes longer over each allocation.
        group_limits: as for a `ugm.Manager`.

    Raises:
        RequestError: an argument cannot be used.

    >>> from ugm import UserGroup, parse_config
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

    __slots__ = ("_owners",)

    def __init__(
        self,
        config: PartitionConfig | None = None,
        *,
        cluster: Resource | None = None,
        models: Iterable[QuotaModel] = (),
        subscribers: Iterable[Subscriber] = (),
        group_limits: Literal["always", "unless-user-limited"] = "always",
    ) -> None:
        if group_limits not in ("always", "unless-user-limited"):
            raise RequestError("group_limits", group_limits, "expected 'always' or 'unless-user-limited'")
        followers, lock = tuple(subscribers), OperationLock()
        outbox = EventOutbox(followers, lock.undo) if followers else None
        lock.outlet = outbox and Notifier(outbox)
        state = PartitionState(
            CompiledConfig.of(config),
            user_limits_win=group_limits == "unless-user-limited",
            lock=lock,
            tell=outbox and outbox.add,
        )
        self._open(state, ModelSet(models, lock))
        if cluster is not None:
            self.add_node(_CLUSTER, cluster)

    def _open(self, state: PartitionState, others: ModelSet) -> None:
        super()._open(state, others)
        #: The ledger itself, close at hand.
        self._owners = state.ledger.owners

    # Allocations

    def request(
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
        request = AllocationRequest(allocation_id, application_id, usage, placeholder, priority, preemptible)
        self._lock.grow(self._life.request, request)

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
        lock = self._lock
        try:
            # Before the lock is taken: one that is forgotten by then is not plain any more.
            application = self._applications.get(application_id)
        except TypeError:
            # What cannot be hashed is no id; it is refused below.
            application = None
        try:
            with lock:
                settled, lock.settled = lock.settled, CHANGING
                # What follows needs no more than the counters: nearly every allocation.
                if (
                    application is not None
                    and application.is_plain
                    and type(allocation_id) is str
                    and allocation_id not in self._owners
                    and allocation_id
                    and len(allocation_id) <= 256  # noqa: PLR2004 - `MAX_NAME`; to look it up costs 1 % of an allocation
                    and placeholder is False
                    and preemptible is True
                    and priority is DEFAULT_PRIORITY
                    and type(usage) is Resource
                ):
                    holding = application.holding
                    layout, vector = usage.compiled
                    if holding is not None and holding.epoch is settled and layout is settled.layout:
                        if holding.try_charge(vector):
                            # In this order: the second assignment commits the change.
                            application.lines[allocation_id] = usage
                            self._owners[allocation_id] = application
                            lock.settled = settled
                            return ALLOWED
                        violations = holding.violations(vector)
                        if violations:
                            lock.settled = settled
                            return Decision(violations)
                    if settled is lock.token:
                        if layout is self._state.in_force.epoch.layout:
                            return self._start(application, allocation_id, usage, vector)
                        return lock.attempt(settled, self._start_new_size, application, allocation_id, usage)
                lock.settled = settled
        except BaseException as error:
            lock.let_go_after(error)
            raise
        request = AllocationRequest(allocation_id, application_id, usage, placeholder, priority, preemptible)
        return lock.grow(self._admission.allocate, request, evict=evict)

    def _start(self, application: Application, allocation_id: str, usage: Resource, vector: RequestVector) -> Decision:
        """Grant an allocation that starts a plain application, or is the first since the limits have changed."""
        state, lock = self._state, self._lock
        violations = state.admit(application, vector)
        if not violations:
            # In this order: the second assignment commits the change.
            application.lines[allocation_id] = usage
            self._owners[allocation_id] = application
            lock.undo.clear()
        lock.settled = lock.token
        return Decision(violations) if violations else ALLOWED

    def _start_new_size(self, application: Application, allocation_id: str, usage: Resource) -> Decision:
        """Do what `_start` does for a vector that was not used here before."""
        return self._start(application, allocation_id, usage, self._admission.vector(usage))

    def allocate_all(self, requests: Iterable[AllocationRequest | tuple[str, str, Resource]]) -> Decision:
        """Grant several allocations together, or none of them: a gang.

        Each is a `ugm.AllocationRequest`, or a tuple of its parts. They may be of one application or of many; each is
        held to the limits as if those before it had been granted. A denial names every limit that was short, with what
        all of them together request of it.

        Raises:
            RequestError: as for `allocate`, for any of them; nothing has changed.
        """
        # Whatever makes the asks is foreign code, and done with before the lock is taken.
        batch = asks_of(requests)
        return self._lock.grow(allocate_all, self._state, self._others, self._admission, batch)

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> Decision:
        """Put a real allocation in the place of a placeholder of the same application, in one step.

        Only what grows is checked: an allocation that is no larger in any resource is always granted. Other quota
        models are asked again if it has another priority than the placeholder, or is preemptible and the other is not.

        Raises:
            RequestError: there is no such placeholder, or an argument cannot be used. The same replacement once more is
                answered as before; what replaced what is not remembered, any allocation of that id and size answers.
        """
        return self._lock.grow(self._admission.replace, placeholder_id, allocation_id, usage)

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Let an allocation take something else from now on, if what grows fits. What only shrinks is never denied.

        Raises:
            RequestError: there is no such allocation, the usage is none, or it grows and the application is failing.
        """
        return self._lock.grow(self._admission.resize, allocation_id, usage)

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as going, and say whether there is one.

        It is counted until `release` confirms that it has gone.
        """
        return self._lock.give(self._life.preempt, allocation_id)

    def release(self, allocation_id: str) -> bool:
        """Give an allocation back, or withdraw one that is pending, and say whether there was one.

        Never denied, and harmless when it is repeated. With its last allocation gone and nothing pending, an
        application has stopped running; it may start again.

        Raises:
            RequestError: the id is none.
        """
        lock, owners = self._lock, self._owners
        try:
            # Before the lock is taken: what matters is what the application lists by then.
            application = owners.get(allocation_id)
        except TypeError:
            # What cannot be hashed is no id; it is refused below.
            application = None
        try:
            with lock:
                settled, lock.settled = lock.settled, CHANGING
                # Nearly every allocation is a plain one of a running application.
                if application is not None and application.is_plain:
                    holding, usage = application.holding, application.lines.get(allocation_id)
                    if holding is not None and holding.epoch is settled and type(usage) is Resource:
                        # Read once: the vector may be shared with another partition, under another lock.
                        layout, vector = usage.compiled
                        if layout is not settled.layout:
                            vector = settled.layout.vector(usage)
                        if holding.try_refund(vector):
                            # In this order: the first deletion commits the change.
                            del owners[allocation_id], application.lines[allocation_id]
                            if not application.lines:
                                self._state.settle(application)
                                lock.undo.clear()
                            lock.settled = settled
                            return True
                lock.settled = settled
        except BaseException as error:
            lock.let_go_after(error)
            raise
        return lock.give(self._admission.release, allocation_id)

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
        request = AllocationRequest(allocation_id, application_id, usage, placeholder, priority, preemptible)
        return self._lock.grow(self._admission.adopt, request)

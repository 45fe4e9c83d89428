"""The partition interface: every operation of a partition, described once.

A program that uses a partition should depend on `AbstractPartition` alone. Then it works with every implementation:

- `ugm.Partition` keeps everything in memory;
- `ugm.journal.JournaledPartition` also writes every change to a journal before the call returns;
- `ugm.service.RemotePartition` calls the leader of a service, which has the partition.

All arguments and results are values, so they can be sent to another process.
Implementations inherit the docstrings of this module and repeat none of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from ugm.budgets import AccountState, BudgetChange
from ugm.configuration import PartitionConfig
from ugm.decision import Decision, EffectiveLimit, Explanation, Violation
from ugm.identity import UserGroup
from ugm.partition.allocation import Allocation, AllocationRequest
from ugm.partition.application import ApplicationInfo
from ugm.partition.audit import AuditReport, RunningAllocation
from ugm.partition.model_queries import ModelReport
from ugm.partition.pending_usage import PendingHeadroom
from ugm.partition.plan import Plan, PlanInput, ScheduledChange
from ugm.partition.reclaim_plan import ReclaimPlan
from ugm.partition.reports import ApplicationReport, OwnedAllocation, PreemptionStatus, SubmissionReport
from ugm.partition.reservation import Reservation
from ugm.partition.scheduling_order import Turn
from ugm.partition.snapshot import CooperativeIteration, PartitionSnapshot
from ugm.partition.subject import Subject
from ugm.partition.utilization import LimitUtilization
from ugm.preemption import PreemptionPlan, ReductionPlan, ReductionTimer
from ugm.queues import Placement, QueueState
from ugm.resources import Resource
from ugm.tracking import GroupUsage, UserUsage

__all__ = ["AbstractPartition"]


class AbstractPartition(ABC):
    """The operations of a partition: queues, users, groups, applications and their allocations.

    Any number of threads may call any operation at any time. Each operation takes effect as a whole or not at all.
    Every operation that changes the partition can be repeated without harm: a caller that did not receive the answer
    repeats the call.

    If an exception interrupts an operation, it has either taken effect completely or not at all, and no lock is held.
    A signal handler, finalizer or quota model that calls an operation in the middle of another operation of the same
    thread gets a `ugm.ReentrantCallError`.
    """

    __slots__ = ()

    # Allocations

    @abstractmethod
    def request(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
    ) -> Decision:
        """Record a pending allocation, which `allocate` grants later or `release` withdraws.

        A pending allocation counts only against limits on pending work; see `pending_headroom`. While an application
        has pending allocations, it continues to run even without any other allocation. A promised duration counts from
        the grant on.

        Returns:
            The decision. It is allowed if the configuration does not limit pending work. A denial contains every limit
            on pending work that the request would exceed, and nothing is recorded. A repeated call is allowed.

        Raises:
            RequestError: as for `allocate`.
        """

    @abstractmethod
    def allocate(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
    ) -> Decision:
        """Grant an allocation if no limit of the user, the group, the queues and the other quota models forbids it.

        The first allocation of an application starts the application and chooses its group. The time depends on the
        number of limits between the queue and the root, and not on the number of allocations, applications, users,
        queues and limits of the partition.

        Args:
            allocation_id: the id of a pending allocation or of a new one.
            application_id: an application that was submitted.
            usage: the resources of the allocation. Pass the same object again for the same size.
            placeholder: whether the allocation only reserves resources for another one, see `replace`.
            priority: the priority that other quota models see.
            preemptible: whether other quota models may evict the allocation.
            duration: the number of seconds after which its release is promised; None for no promise. The promised end
                is stored with the allocation, for quota models. Nothing happens to an allocation that is still held
                then. `resize` and `replace` keep the end.

        Returns:
            The decision. A denial contains every limit that the allocation would exceed, and changes nothing. A
            repeated call gets the same answer as the first, and does not move the promised end.

        Raises:
            RequestError: an argument is invalid, the application does not exist or is failing, or the id belongs to
                an allocation with other properties.
        """

    @abstractmethod
    def allocate_evicting(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
    ) -> Decision:
        """Grant an allocation, and release the allocations that other quota models evict for it.

        This is `allocate` for programs that can stop allocations at once. Where stopping takes time, call `allocate`,
        `preempt` the evictions of the denial, and call `allocate` again when they are released.

        Args:
            allocation_id: as for `allocate`.
            application_id: as for `allocate`.
            usage: as for `allocate`.
            placeholder: as for `allocate`.
            priority: as for `allocate`.
            preemptible: as for `allocate`.
            duration: as for `allocate`.

        Returns:
            The decision, with the allocations that were released.

        Raises:
            RequestError: as for `allocate`.
        """

    @abstractmethod
    def allocate_all(self, requests: Iterable[AllocationRequest | tuple[str, str, Resource]]) -> Decision:
        """Grant several allocations (a gang), or none of them.

        The allocations may belong to different applications. Each is checked as if those before it had been granted. A
        denial contains every limit that would be exceeded, with the sum that all the allocations request of it.

        Args:
            requests: the allocations, each as an `AllocationRequest` or as a tuple of its first fields.

        Raises:
            RequestError: as for `allocate`, for any of them; nothing has changed.
        """

    @abstractmethod
    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> Decision:
        """Replace a placeholder by a real allocation of the same application in one step.

        Only the resources that grow are checked, so an allocation that is not larger than the placeholder in any
        resource is always granted. Other quota models check the allocation again if its priority or its promised end
        differs from that of the placeholder, or if only one of them is preemptible.

        The allocation keeps the promised end of the placeholder. If it was requested with a duration of its own, this
        duration counts from now on.

        Raises:
            RequestError: the placeholder does not exist, or an argument is invalid. A repeated call gets the same
                answer as the first; it succeeds if there is an allocation of that id and size.
        """

    @abstractmethod
    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Change the resources of an allocation. Only growth is checked, so a reduction is never denied.

        Raises:
            RequestError: the allocation does not exist, the usage is invalid, or the allocation grows and its
                application is failing.
        """

    @abstractmethod
    def renew(self, allocation_id: str, duration: int) -> Decision:
        """Promise that an allocation ends *duration* seconds from now.

        An allocation without a promised end gets one. The end is checked like a growth by `resize`: quota models may
        deny a later one, for example a budget. An earlier end is never denied. A repeated call counts from its own
        time.

        Raises:
            RequestError: the allocation does not exist or is terminating, the duration is invalid, or the end is later
                and the application is failing.
        """

    @abstractmethod
    def overdue(self, now: int | None = None) -> tuple[Allocation, ...]:
        """Return the allocations whose promised end has come, sorted by end and id.

        An allocation that promised to end at second *t* is overdue from *t* on, until its release. Its state
        shows whether it is terminating already. The time depends on the number of overdue allocations.

        Args:
            now: the time in seconds; None for the clock of the partition.

        Raises:
            RequestError: the time is invalid.
        """

    @abstractmethod
    def expire(self, now: int | None = None) -> tuple[str, ...]:
        """Mark all overdue allocations as terminating.

        They count until the program has stopped and released them. Where an allocation can be stopped at once, call
        `release_overdue` instead.

        Args:
            now: as for `overdue`.

        Returns:
            The allocations that were marked, sorted by promised end and id. A repeated call marks nothing; `overdue`
            lists them until their release.

        Raises:
            RequestError: the time is invalid.
        """

    @abstractmethod
    def release_overdue(self, now: int | None = None) -> tuple[str, ...]:
        """Release all overdue allocations at once, including terminating ones.

        Args:
            now: as for `overdue`.

        Returns:
            The allocations that were released, sorted by promised end and id. A repeated call releases nothing.

        Raises:
            RequestError: the time is invalid; or a quota model failed, and nothing has changed.
        """

    @abstractmethod
    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as terminating and return whether it exists.

        It counts against the limits until `release` confirms its end.
        """

    @abstractmethod
    def release(self, allocation_id: str) -> bool:
        """Release an allocation, or withdraw a pending one, and return whether it existed.

        A release is never denied and can be repeated. An application stops running when its last allocation is
        released and nothing is pending. It can start again.

        Raises:
            RequestError: the id is invalid.
        """

    @abstractmethod
    def adopt(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
    ) -> tuple[Violation, ...]:
        """Charge an existing allocation without a check: for recovery after a restart.

        Returns:
            Every limit of users, groups and queues of the application that is exceeded now.

        Raises:
            RequestError: as for `allocate`, but the application may be failing.
        """

    @abstractmethod
    def reclaim(self, plan: ReclaimPlan) -> tuple[str, ...]:
        """Release the victims of a plan at once, or none of them.

        This is for programs that can stop allocations at once. Where stopping takes time, `preempt` each victim, and
        `release` it when it has ended. Some of the victims may be terminating or released already. The request is not
        granted; call `allocate` next.

        Returns:
            The allocations that were released. A repeated call releases nothing.

        Raises:
            RequestError: the plan is stale: a victim has changed, is protected now, or is no longer needed, or the
                request does not fit without the victims. Nothing has changed.
        """

    @abstractmethod
    def carry_out(self, plan: PreemptionPlan | ReductionPlan) -> tuple[str, ...]:
        """Mark the victims of a plan as terminating, or none of them.

        They still count until the program has stopped and released them. A pending request of the plan stays pending,
        and has the first right to the room: all other plans count it as granted until it is granted or withdrawn; see
        `preemption_status`. If the request is not pending, pass it as *placed* to `plan_preemption` of other requests.

        The usage, maxima and guarantees that the plan depends on are compared with the present ones, and so are the
        timers of a plan of reductions. This takes a time proportional to the number of allocations.

        Returns:
            The allocations that were marked. A repeated call marks nothing.

        Raises:
            RequestError: the plan has no victims, or is stale: a victim, a queue, a timer or the request has changed.
                Nothing has changed.
        """

    # Applications

    @abstractmethod
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
        """Place an application in a queue for its whole lifetime.

        The placement rules of the configuration choose the queue. A rule that may create queues creates it.

        Args:
            application_id: the id of the new application.
            user: the owner, with the groups at this moment.
            queue: the requested queue; empty for none.
            tags: properties that placement rules and other quota models read, for example the namespace.
            quota: the maximum of a queue that the configuration does not name, for example the quota of a namespace. It
                replaces the previous maximum, also when a submission is repeated. Other queues ignore it.
            gang_style: the consequence of an incomplete gang, see `time_out_gang`: ``soft`` lets the application
                continue, ``hard`` lets it fail.

        Returns:
            The placement. It is false if no rule found a queue, or if the number of submitted applications would exceed
            a limit; then it has the result of every rule or the exceeded limits, and nothing has changed.

        Raises:
            RequestError: an argument is invalid, or the id belongs to an application that was submitted with other
                arguments. A repeated submission returns the same queue, also if the rules have changed.
        """

    @abstractmethod
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
        """Add an application to the queue in which it was placed before: for recovery after a restart.

        Placement rules and access lists are not applied, and a missing queue is created. If the queue above is
        draining, or is a leaf in the present configuration, the new queue is draining: it accepts no further
        applications. If the application is submitted later, with any arguments but by the same user, `submit` returns
        this queue.

        Args:
            application_id: the id of the application.
            user: the owner.
            queue_path: the queue.
            tags: as for `submit`.
            quota: as for `submit`.
            gang_style: as for `submit`.
            group: the group that the application was charged to, or None for no group. By default the first allocation
                chooses it.

        Raises:
            RequestError: as for `submit`, or the queue is the root or has more than 100 names.
        """

    @abstractmethod
    def complete(self, application_id: str) -> ApplicationInfo:
        """Remove an application that has finished, and return its last state.

        Raises:
            RequestError: the application does not exist, or has allocations or pending allocations.
        """

    @abstractmethod
    def fail(self, application_id: str) -> tuple[str, ...]:
        """Let an application fail: it receives no more allocations, and is removed with its last one.

        Returns:
            The allocations to stop and then release. They count against the limits until then.

        Raises:
            RequestError: the application does not exist.
        """

    @abstractmethod
    def remove(self, application_id: str) -> tuple[str, ...]:
        """Remove an application with all of its allocations, and return the allocations that were released.

        Raises:
            RequestError: the application does not exist.
        """

    @abstractmethod
    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Stop waiting for the gang of an application, because a timeout of the program has expired.

        All placeholders that were not replaced terminate. An application of the style ``hard`` fails if it holds only
        placeholders and none was ever replaced. Any other application continues without them.

        Returns:
            The allocations to stop and then release. They count against the limits until then.

        Raises:
            RequestError: the application does not exist.
        """

    @abstractmethod
    def close(self) -> tuple[str, ...]:
        """Begin to remove the partition: it accepts no more requests, and all its applications fail.

        Returns:
            The allocations to stop and then release.
        """

    # Scheduling

    @abstractmethod
    def order(self, *, max_turns: int | None = None, ranks: Mapping[str, int] | None = None) -> tuple[Turn, ...]:
        """Return the pending requests in the order in which a scheduler should try them, with the reasons.

        The order is that of a scheduling pass which grants each request that fits the maxima of its queues. Limits of
        users and groups and other quota models do not count. The properties ``application.sort.policy``,
        ``application.sort.priority``, ``priority.offset`` and ``priority.policy`` of the queues decide it.

        The lock is held only to copy the usage and the requests. The rest takes time proportional to their number.

        Args:
            max_turns: the maximum number of requests to return; None for all.
            ranks: the place of each user, the first one lowest, which then orders the applications of every queue; for
                example from `ugm.fairness.FairRank.position`. Other users come last.

        Raises:
            RequestError: an argument is invalid.
        """

    @abstractmethod
    def reservations(self) -> tuple[Reservation, ...]:
        """Return the pending requests for which capacity is kept, with their expected starts, the earliest first.

        Scheduling passes and wake-ups make reservations. Takes time proportional to the number of running allocations
        that promise an end before the start.
        """

    # Administration

    @abstractmethod
    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name, for example the quota of a namespace.

        Raises:
            RequestError: the queue does not exist, the configuration names it, or the quota is invalid.
        """

    @abstractmethod
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

    @abstractmethod
    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node, which increases the maximum of the root.

        After the first node is registered, requests for resources that no node has are denied. A node with a new
        resource name causes all counters to be rebuilt on their next use.

        Raises:
            RequestError: a node of that name is registered with other resources, or an argument is invalid.
        """

    @abstractmethod
    def update_node(self, name: str, offers: Resource) -> None:
        """Change the resources of a node. If usage exceeds the new total, nothing is evicted and growth is denied.

        Raises:
            RequestError: the node does not exist, or an argument is invalid.
        """

    @abstractmethod
    def remove_node(self, name: str) -> bool:
        """Remove a node and return whether it existed. Without any node, the root allows nothing."""

    @abstractmethod
    def plan(self, config: PartitionConfig | None) -> Plan:
        """Return the effects that another configuration would have, without any change.

        The time depends on the size of the partition. The lock is held only to copy the usage.

        Raises:
            RequestError: the configuration is invalid.
        """

    @abstractmethod
    def plan_input(self, *, allocations: bool = False) -> PlanInput:
        """Return a copy of everything that a plan depends on, so that another process can make the plan.

        The lock is held for a time proportional to the number of queues and applications, and to that of the
        allocations if they are copied.

        Args:
            allocations: whether to copy every allocation, which a plan needs for a configuration that declares quota
                models. They are copied in any case if the configuration in force declares any.
        """

    @abstractmethod
    def scheduled_changes(self, *, most: int = 10) -> tuple[ScheduledChange, ...]:
        """Return the next changes of limits by the schedule of the configuration in force, in their order.

        Each change lists the limits that the present usage would exceed then. The time depends on the size of the
        partition. The lock is held only to copy the usage.

        Args:
            most: the maximum number of changes.

        Raises:
            RequestError: *most* is not a number.
        """

    @abstractmethod
    def apply(self, plan: Plan, *, confirm: bool = False) -> None:
        """Put the configuration of a plan in force.

        A plan with `Plan.risks`, whose limits fall below the usage or by more than 10 %, has to be confirmed.
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

    @abstractmethod
    def configure(self, config: PartitionConfig | None) -> None:
        """Put another configuration in force at once.

        All later answers follow it. Applications keep their queue and their group, nothing is evicted, and removed
        queues with applications are drained. The time depends on the number of queues.

        Raises:
            RequestError: the configuration is invalid; the old one is still in force.
        """

    @abstractmethod
    def audit(self, running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> AuditReport:
        """Compare the ledger with the allocations that really run, without any change.

        Args:
            running: the allocations that run, each as a `RunningAllocation` or as a tuple of its fields.

        Raises:
            RequestError: an item is not an allocation, or an id occurs twice.
        """

    @abstractmethod
    def reconcile(self, report: AuditReport) -> AuditReport:
        """Repair the differences of an audit: adopt, release or correct allocations.

        A difference is skipped if the ledger has changed there since the audit, or if its application is unknown.

        Returns:
            The differences that were repaired.

        Raises:
            RequestError: the report is invalid; nothing has changed.
        """

    @abstractmethod
    def verify(self) -> None:
        """Recompute every counter from the ledger, and compare it. Other quota models may compare theirs as well.

        Raises:
            InvariantError: a counter differs. This is a bug in ugm, please report it, or in a custom quota model.
        """

    # Queries about a subject: an application, or a user in a queue

    @abstractmethod
    def check(
        self,
        subject: Subject,
        usage: Resource,
        *,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
    ) -> Decision:
        """Return the answer that `allocate` would give to one more allocation now.

        For a user in a queue it is the answer to the first allocation after a `submit`. Another thread may use the
        resources in between; only the answer of `allocate` is binding.

        Raises:
            RequestError: the application does not exist or is failing, the partition is being removed, or an argument
                is invalid.
        """

    @abstractmethod
    def plan_reclaim(
        self, subject: Subject, usage: Resource, *, priority: int = 0, preemptible: bool = True
    ) -> ReclaimPlan:
        """Return the allocations that other groups have to return, so that a request within its guarantee fits.

        Quota models whose groups lend each other what they do not use determine the guarantees, for example elastic
        quotas and quota trees. No group loses what it is guaranteed. The priority of the request does not matter.
        Terminating allocations count as released. Nothing changes.

        The time depends on the number of allocations, and on the number of victims squared.

        Args:
            subject: as for `check`.
            usage: as for `check`.
            priority: as for `check`.
            preemptible: as for `check`.

        Raises:
            RequestError: as for `check`.
        """

    @abstractmethod
    def plan_preemption(
        self,
        request: AllocationRequest,
        *,
        since: int,
        now: int | None = None,
        may_preempt: bool = True,
        within_queue: bool = False,
        placed: Iterable[AllocationRequest | tuple[str, str, Resource]] = (),
    ) -> PreemptionPlan:
        """Return the allocations to evict so that a request fits that guarantees of its queues entitle to them.

        No queue loses what it is guaranteed, and no allocation of a higher priority is evicted. The properties
        ``preemption.policy`` and ``preemption.delay`` of the queues take effect. If other quota models deny the
        request, the allocations that they evict are listed separately. Nothing changes; see `carry_out`.

        The lock is held only for a copy. The time depends on the number of queues and allocations.

        Args:
            request: the request, pending or not.
            since: the time since which the request has been waiting, in seconds.
            now: the time in seconds; None for the clock of the partition.
            may_preempt: whether allocations may be evicted for the request.
            within_queue: whether allocations of lower priority in the queue of the request may be evicted.
            placed: requests that count as granted, in addition to those of `preemption_status`.

        Raises:
            RequestError: an application does not exist or is failing, or an argument is invalid.
        """

    @abstractmethod
    def plan_reductions(self, now: int | None = None, *, overshoot: bool = True) -> ReductionPlan:
        """Return the allocations to evict so that queues above a lowered maximum are within it again.

        A queue takes part if ``preemption.quotapreemptionenabled`` of the partition is set and the queue has a
        ``quota.preemption.delay``. It is reduced once its usage has been above its maximum for this delay; see
        `reduction_timers`. No queue loses what it is guaranteed. Nothing changes; see `carry_out`.

        The lock is held only for a copy, and only if a queue is due. The time depends on the number of queues and
        allocations.

        Args:
            now: the time in seconds; None for the clock of the partition.
            overshoot: whether a leaf queue may give more than its share. Otherwise an excess that is smaller than every
                allocation stays.

        Raises:
            RequestError: an argument is invalid.
        """

    @abstractmethod
    def reduction_timers(self) -> tuple[ReductionTimer, ...]:
        """Return the queues that take part in reductions and are above their maximum, since when, sorted by path.

        The time depends on the number of queues.
        """

    @abstractmethod
    def preemption_status(self) -> PreemptionStatus:
        """Return the terminating allocations, the requests with a right to room, the timers, and counts of plans.

        The time depends on the number of queues and of these allocations and requests.
        """

    @abstractmethod
    def explain(
        self,
        subject: Subject,
        usage: Resource,
        *,
        priority: int = 0,
        preemptible: bool = True,
        max_holders: int = 3,
        duration: int | None = None,
    ) -> Explanation:
        """Return the answer of `check` with the largest holders of each short resource, the limits and the headroom.

        All parts show the same moment. The time depends on the number of applications that are charged to the limits.
        Under the lock, their amounts are only copied.

        Args:
            subject: as for `check`.
            usage: as for `check`.
            priority: as for `check`.
            preemptible: as for `check`.
            max_holders: the number of holders for each exceeded limit.
            duration: as for `check`.

        Raises:
            RequestError: as for `check`, or *max_holders* is not a number.
        """

    @abstractmethod
    def headroom(self, subject: Subject, *, duration: int | None = None) -> Resource | None:
        """Return the amounts that the subject may still use, for each limited resource.

        With a *duration*, they are the amounts for an allocation that promises to end after this number of seconds.

        Every request within the headroom fits all resource limits at the same moment, and one unit more of any resource
        does not. Limits of users, groups and queues, the size of the cluster and other quota models count. If a model
        lets a request choose between much of one resource and much of another, the resources are filled in the order of
        their names: each gets as much as is allowed together with those before it. All amounts are 0 if a model denies
        even an empty request.

        Returns:
            None if no resource is limited. An amount is negative if a limit was reduced below the usage. In a partition
            with nodes, a resource that is missing from the result and that no node offers is unavailable.

        Raises:
            RequestError: the application does not exist, or an argument is invalid.
        """

    @abstractmethod
    def pending_headroom(self, subject: Subject) -> PendingHeadroom:
        """Return the pending requests and the applications that the subject may still add.

        An application is counted from its submission to its end. For an application, the number of further
        applications is that of its user.

        Returns:
            Every value is None if the configuration does not limit pending work.

        Raises:
            RequestError: the application does not exist, or an argument is invalid.
        """

    @abstractmethod
    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return every limit for the subject, and the place where it is set.

        The limits of users, groups and queues come first, then those on pending work, and then those of other quota
        models that report them. The kind of a limit on pending work is for example ``pending user`` or ``submitted
        queue``; its numbers of applications are those of pending requests, or of submitted applications.

        Raises:
            RequestError: the application does not exist, or an argument is invalid.
        """

    @abstractmethod
    def place(self, user: UserGroup, queue: str = "", tags: Mapping[str, str] | None = None) -> Placement:
        """Return the queue in which `submit` would place an application now, with the result of every rule.

        Raises:
            RequestError: an argument is invalid.
        """

    @abstractmethod
    def explain_submission(
        self,
        user: UserGroup,
        queue: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        max_holders: int = 3,
        duration: int | None = None,
    ) -> SubmissionReport:
        """Return the placement of a new application, and the answer to its first allocation, at one moment.

        Args:
            user: the owner of the application.
            queue: the requested queue; empty for none.
            usage: the resources of the allocation.
            tags: as for `submit`.
            quota: as for `submit`.
            max_holders: as for `explain`.
            duration: as for `allocate`.

        Raises:
            RequestError: an argument is invalid, or the partition is being removed.
        """

    # Applications and allocations

    @abstractmethod
    def application(self, application_id: str) -> ApplicationInfo | None:
        """Return the current state of an application, or None if it does not exist."""

    @abstractmethod
    def applications(self, queue_path: str | None = None) -> tuple[ApplicationInfo, ...]:
        """Return all applications, or those in and below a queue, sorted by id.

        Raises:
            RequestError: the queue does not exist.
        """

    @abstractmethod
    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        """Return those of the given applications that exist, in the given order, at one moment."""

    @abstractmethod
    def application_ids(self) -> tuple[str, ...]:
        """Return the ids of all applications, sorted."""

    @abstractmethod
    def application_report(
        self, application_id: str, *, max_pending: int = 10, max_holders: int = 3
    ) -> ApplicationReport | None:
        """Return an application with its limits, and explanations for its first pending allocations.

        Args:
            application_id: the application.
            max_pending: the number of pending allocations to explain.
            max_holders: as for `explain`.

        Returns:
            None if the application does not exist.
        """

    @abstractmethod
    def allocation(self, allocation_id: str) -> Allocation | None:
        """Return the current state of an allocation, which may be pending, or None if it does not exist."""

    @abstractmethod
    def allocations(self, application_id: str | None = None) -> tuple[Allocation, ...]:
        """Return all allocations, or those of one application, including pending ones, sorted by id.

        Raises:
            RequestError: the application does not exist.
        """

    @abstractmethod
    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        """Return those of the given allocations that exist with their owners, in the given order, at one moment."""

    @abstractmethod
    def allocation_ids(self) -> tuple[str, ...]:
        """Return the ids of all allocations, including pending ones, sorted."""

    # Queues and nodes

    @property
    @abstractmethod
    def config(self) -> PartitionConfig | None:
        """The configuration in force, as it was passed; None if there is none."""

    @abstractmethod
    def queue(self, queue_path: str = "root") -> QueueState | None:
        """Return the current state of a queue with all queues below it, or None if it does not exist.

        The time depends on the number of applications in and below it.
        """

    @abstractmethod
    def queue_alone(self, queue_path: str) -> QueueState | None:
        """Return the current state of one queue, without the queues below it and without its usage.

        The time depends on the number of applications in the queue itself.

        Returns:
            None if the queue does not exist.
        """

    @abstractmethod
    def queue_paths(self) -> tuple[str, ...]:
        """Return the paths of all queues, sorted: parents before children."""

    @abstractmethod
    def queue_headroom(self, queue_path: str, *, cluster: bool = True) -> Resource | None:
        """Return for each limited resource the minimum that is free in the queue and its parents.

        Args:
            queue_path: the queue.
            cluster: whether the size of the cluster counts.

        Returns:
            None if no resource is limited. An amount is negative if usage exceeds a limit.

        Raises:
            RequestError: the queue does not exist.
        """

    @abstractmethod
    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return for each limited resource the minimum of the maxima of the queue and its parents.

        Raises:
            RequestError: the queue does not exist.
        """

    @abstractmethod
    def pending(self, queue_path: str) -> tuple[int, Resource]:
        """Return the number and the sum of the pending allocations in a queue itself; zero if it does not exist."""

    @abstractmethod
    def nodes(self) -> dict[str, Resource]:
        """Return the resources of every registered node, by name."""

    # Users and groups

    @abstractmethod
    def users(self) -> tuple[UserUsage, ...]:
        """Return the usage of every user in each queue, with the limits there, sorted by name."""

    @abstractmethod
    def user(self, name: str) -> UserUsage | None:
        """Return the usage of a user in each queue, with the limits there; None if the user runs nothing."""

    @abstractmethod
    def user_usage(self, name: str) -> UserUsage | None:
        """Return the usage of a user in each queue, including the queues with only pending allocations.

        Returns:
            None if the user has no allocations, pending ones included.
        """

    @abstractmethod
    def user_names(self) -> tuple[str, ...]:
        """Return the names of all users with running applications, sorted."""

    @abstractmethod
    def user_utilization(self, name: str) -> LimitUtilization | None:
        """Return the utilization of the most used limit of a user; None if the user runs nothing."""

    @abstractmethod
    def groups(self) -> tuple[GroupUsage, ...]:
        """Return the usage of every group in each queue, with the limits there, sorted by name."""

    @abstractmethod
    def group(self, name: str) -> GroupUsage | None:
        """Return the usage of a group in each queue, with the limits there; None if nothing is charged to it."""

    @abstractmethod
    def group_names(self) -> tuple[str, ...]:
        """Return the names of all groups with charged applications, sorted."""

    @abstractmethod
    def group_utilization(self, name: str) -> LimitUtilization | None:
        """Return the utilization of the most used limit of a group; None if nothing is charged to it."""

    @abstractmethod
    def exceeded_limits(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded.

        The limits of users, groups and queues come first, each by name, leaf to root. Those on pending work follow, and
        then those of other quota models that report them.
        """

    @abstractmethod
    def model_utilization(self) -> tuple[LimitUtilization, ...]:
        """Return the utilization of the most used limit of every owner of limits in other quota models.

        An owner is for example an elastic group or a node of a quota tree. Sorted by kind and name.
        """

    @abstractmethod
    def budget_accounts(self, user: UserGroup | None = None, queue_path: str | None = None) -> tuple[AccountState, ...]:
        """Return the accounts of budgets: limit, settled, promised and remaining amounts, and when they are renewed.

        Args:
            user: only the accounts that count allocations of this user; None for all accounts that exist.
            queue_path: only the accounts of budgets that apply in this queue; None for all queues.

        Returns:
            The accounts in the order of their budgets, then by owner and resource.

        Raises:
            RequestError: an argument is invalid.
        """

    @abstractmethod
    def model_reports(self) -> tuple[ModelReport, ...]:
        """Return the state and the definition of every other quota model, as plain data, in their order."""

    # The whole partition

    @abstractmethod
    def snapshot(self, iterate: CooperativeIteration | None = None) -> PartitionSnapshot:
        """Return a copy of the partition at this moment, from which all other values can be computed.

        The lock is held for about half a microsecond for each queue and application.

        Args:
            iterate: wraps every long loop over the copy, for a caller that pauses now and then; None for no pause.
        """

"""Applications, their allocations, and the order and the plans of pending requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ugm.arguments import require_amounts, require_instance, require_nodes, require_resource
from ugm.errors import RequestError
from ugm.identity import require_name
from ugm.partition.admission.applications import (
    require_chosen_group,
    require_gang_style,
    require_leaf_path,
    require_submission,
)
from ugm.partition.answers.queries import require_subject
from ugm.partition.interface.parts import PartitionParts
from ugm.partition.rows import NO_USAGE, AllocationRequest, request_of, require_requests, require_specs

if TYPE_CHECKING:
    from ugm.decision import Decision, Violation
    from ugm.identity import UserGroup
    from ugm.partition.answers.reports import Admission, Subject
    from ugm.partition.engine.application import ApplicationInfo
    from ugm.partition.eviction.preemption import PreemptionStatus
    from ugm.partition.eviction.reclaim_plan import ReclaimPlan
    from ugm.partition.ordering.pending_order import GroupTree, OrderCopy
    from ugm.partition.ordering.planned_start import Reservation
    from ugm.partition.ordering.scheduling_pass import Turn
    from ugm.partition.rows import Allocation, AllocationSpec
    from ugm.preemption import PreemptionPlan, ReductionPlan, ReductionTimer
    from ugm.queues import Placement
    from ugm.resources import Resource


class WorkOperations(PartitionParts):
    """The operations on applications and allocations."""

    def request(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
        label: str | None = None,
        assign: Resource | None = None,
        prefer: tuple[str, ...] = (),
    ) -> Decision:
        """Record a pending allocation, which `allocate` grants later or `release` withdraws.

        A pending allocation counts only against limits on pending work (see `pending_headroom`), and in quota models
        that count pending claims. While an application has pending allocations, it continues to run even without any
        other allocation. A promised duration counts from the grant on.

        Returns:
            The decision. It is allowed if the configuration does not limit pending work. A denial contains every limit
            on pending work that the request would exceed, and nothing is recorded. A repeated call is allowed.

        Raises:
            RequestError: as for `allocate`.
        """
        traits = placeholder, priority, preemptible, duration, node, label, assign, prefer
        request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.change(self._admission.request, request)

    def allocate(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
        label: str | None = None,
        assign: Resource | None = None,
        prefer: tuple[str, ...] = (),
    ) -> Decision:
        """Grant an allocation if no limit of the user, the group, the queues or another quota model forbids it.

        In queues with the property ``ugm.reservation``, capacity that is kept for a request denies those that would
        delay it, and a pending request that only queues block may get a reservation. `check` and `allocate_all` do not
        regard reservations.

        The first allocation of an application starts the application and chooses its group. The time depends on the
        number of limits between the queue and the root, and not on the number of allocations, applications, users,
        queues and limits of the partition.

        Args:
            allocation_id: the id of a pending allocation or of a new one; or an `AllocationRequest`, without any other
                argument.
            application_id: an application that was submitted.
            usage: the resources of the allocation. Pass the same object again for the same size.
            placeholder: whether the allocation only reserves resources for another one, see `replace`.
            priority: a higher priority comes first in the scheduling order, and protects against preemption by lower
                ones. The decision itself depends on it only in other quota models.
            preemptible: whether quota models and plans of preemption may evict the allocation.
            duration: the number of seconds after which its release is promised; None for no promise. The promised end
                is stored with the allocation, for quota models. Nothing happens to an allocation that is still held
                then. `resize` and `replace` keep the end.
            node: the name of the node that the allocation runs on; None for no node. It is stored for queries and for
                plans of preemption with nodes. Only quota models may depend on it, and it need not be registered. A
                pending allocation may have another node or none: the node of the grant counts.
            label: the name of the work at the host, for people, of at most 256 characters. It is stored and shown, and
                a repeated call may have another one, which has no effect.
            assign: the variants to which amounts of any variant are assigned (see `ugm.families`), for example those of
                the node; None leaves the choice to the partition. The decision names them.
            prefer: the variants to try first if the partition chooses, before those that the queue prefers.

        Returns:
            The decision. A denial contains every limit that the allocation would exceed, and changes nothing. A
            repeated call after a grant is allowed again and does not move the promised end.

        Raises:
            RequestError: an argument is invalid, the application does not exist or is failing, or the id belongs to
                an allocation with other properties.
        """
        decide = self._reservations.allocate if self._state.reserves else self._admission.allocate
        traits = placeholder, priority, preemptible, duration, node, label, assign, prefer
        if type(allocation_id) is str:
            return self._transactions.change(decide, (allocation_id, application_id, usage, *traits))
        return self._transactions.change(decide, request_of(allocation_id, application_id, usage, traits))

    def allocate_ignoring_reservations(self, request: AllocationRequest) -> Decision:
        """Decide like `allocate`, without respect to reservations: capacity that is kept for others may be granted.

        Raises:
            RequestError: as for `allocate`, or the request is not an `AllocationRequest`.
        """
        checked = require_instance("request", request, AllocationRequest)
        return self._transactions.run(self._admission.allocate, checked)

    def allocate_evicting(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
        label: str | None = None,
        assign: Resource | None = None,
        prefer: tuple[str, ...] = (),
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
            node: as for `allocate`.
            label: as for `allocate`.
            assign: as for `allocate`.
            prefer: as for `allocate`.

        Returns:
            The decision, with the allocations that were released.

        Raises:
            RequestError: as for `allocate`.
        """
        traits = placeholder, priority, preemptible, duration, node, label, assign, prefer
        request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.run(self._admission.allocate_evicting, request)

    def allocate_all(self, requests: Iterable[AllocationRequest | tuple[str, str, Resource]]) -> Decision:
        """Grant several allocations (a gang), or none of them.

        The allocations may belong to different applications. Each is checked as if those before it had been granted. A
        denial contains every limit that would be exceeded: limits of users, groups and queues with the sum that all the
        allocations request of it, limits of other quota models with the request of the first allocation that they deny,
        or of one that they can never allow. After a denial, other quota models check only the first 100 allocations.

        Args:
            requests: the allocations, each as an `AllocationRequest` or as a tuple of its first fields.

        Raises:
            RequestError: as for `allocate`, for any of them; nothing has changed.
        """
        return self._transactions.run(self._gangs.allocate_all, require_requests(requests))

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource, *, node: str | None = None) -> Decision:
        """Replace a placeholder by a real allocation of the same application in one step.

        Only the resources that grow are checked, so an allocation that is not larger than the placeholder in any
        resource is always granted. Other quota models check the allocation again if its priority or its promised end
        differs from that of the placeholder, or if only one of them is preemptible.

        The allocation keeps the promised end of the placeholder. If it was requested with a duration of its own, this
        duration counts from now on. It runs on the node of the placeholder, unless *node* names another one.

        Raises:
            RequestError: the placeholder does not exist, or an argument is invalid. A repeated call gets the same
                answer as the first; it succeeds if there is an allocation of that id and size.
        """
        return self._transactions.run(self._admission.replace, placeholder_id, allocation_id, usage, node)

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Change the resources of an allocation. Only growth is checked, so a reduction is never denied.

        Raises:
            RequestError: the allocation does not exist, the usage is invalid, or the allocation grows and its
                application is failing.
        """
        return self._transactions.run(self._admission.resize, allocation_id, usage)

    def renew(self, allocation_id: str, duration: int | None) -> Decision:
        """Promise that an allocation ends *duration* seconds from now, or remove the promised end with None.

        An allocation without a promised end gets one. The end is checked like a growth by `resize`: quota models may
        deny a later one or its removal, for example a budget. An earlier end is never denied. A repeated call counts
        from its own time.

        Raises:
            RequestError: the allocation does not exist or is terminating, the duration is invalid, or the end is later
                and the application is failing.
        """
        return self._transactions.run(self._admission.renew, allocation_id, duration)

    def overdue(self, now: int | None = None) -> tuple[Allocation, ...]:
        """Return the allocations whose promised end has come, sorted by end and id.

        An allocation that promised to end at second *t* is overdue from *t* on, until its release. Its state
        shows whether it is terminating already. The time depends on the number of overdue allocations.

        Args:
            now: the time in seconds; None for the clock of the partition.

        Raises:
            RequestError: the time is invalid.
        """
        return self._read(self._admission.overdue, now)

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
        return self._transactions.run(self._admission.expire, now)

    def release_overdue(self, now: int | None = None) -> tuple[str, ...]:
        """Release all overdue allocations at once, including terminating ones.

        Args:
            now: as for `overdue`.

        Returns:
            The allocations that were released, sorted by promised end and id. A repeated call releases nothing.

        Raises:
            RequestError: the time is invalid; or a quota model failed, and nothing has changed.
        """
        return self._transactions.run(self._admission.release_overdue, now)

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as terminating and return whether it exists.

        It counts against the limits until `release` confirms its end.
        """
        return self._transactions.run(self._admission.preempt, allocation_id)

    def release(self, allocation_id: str) -> bool:
        """Release an allocation, or withdraw a pending one, and return whether it existed.

        A release is never denied and can be repeated. An application stops running when its last allocation is
        released and nothing is pending. It can start again.

        Raises:
            RequestError: the id is invalid.
        """
        return self._transactions.change(self._admission.release, allocation_id)

    def adopt(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
        label: str | None = None,
        assign: Resource | None = None,
        prefer: tuple[str, ...] = (),
    ) -> tuple[Violation, ...]:
        """Charge an existing allocation without a check: for recovery after a restart.

        Returns:
            Every limit of users, groups and queues of the application that is exceeded now.

        Raises:
            RequestError: as for `allocate`, but the application may be failing.
        """
        traits = placeholder, priority, preemptible, duration, node, label, assign, prefer
        request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.run(self._admission.adopt, request)

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
                replaces the previous maximum, even when a submission is repeated. Other queues ignore it.
            gang_style: the consequence of an incomplete gang, see `time_out_gang`: ``soft`` lets the application
                continue, ``hard`` lets it fail.

        Returns:
            The placement. It is false if no rule found a queue, or if the number of submitted applications would exceed
            a limit; then it has the result of every rule or the exceeded limits, and nothing has changed.

        Raises:
            RequestError: an argument is invalid, or the id belongs to an application that was submitted with other
                arguments. A repeated submission returns the same queue, even if the rules have changed.
        """
        submission = require_submission(application_id, user, queue, tags)
        style, maximum = require_gang_style(gang_style), self._require_listed("quota", require_amounts("quota", quota))
        return self._transactions.run(self._lifecycle.submit, submission, style, maximum)

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
        submission = require_submission(application_id, user, require_leaf_path(queue_path), tags)
        style, maximum = require_gang_style(gang_style), self._require_listed("quota", require_amounts("quota", quota))
        chosen = require_chosen_group(group)
        self._transactions.run(self._lifecycle.adopt, submission, style, maximum, chosen)

    def admit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        allocations: Iterable[AllocationSpec | tuple[str, Resource]] = (),
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
    ) -> Admission:
        """Submit an application and grant its allocations, or change nothing.

        After a denial, the partition is as before the call: it has no application, tracker or dynamic queue of it.
        An application that was submitted before the call stays.

        A repeated call has the same answer while the application and these allocations exist, even if limits were
        lowered. It charges nothing. `end` is the counterpart.

        Args:
            application_id: as for `submit`.
            user: as for `submit`.
            queue: as for `submit`.
            allocations: the allocations of the application, each as an `AllocationSpec` or as a tuple of its first
                fields: the id and the usage. Several are granted like a gang, see `allocate_all`.
            tags: as for `submit`.
            quota: as for `submit`.

        Raises:
            RequestError: an argument is invalid, or an id is in use with other properties. An application that has run
                and does not hold one of the allocations is in use with other allocations.
        """
        submission, specs = require_submission(application_id, user, queue, tags), require_specs(allocations)
        maximum = require_amounts("quota", quota)
        return self._transactions.run(self._lifecycle.admit, submission, specs, maximum, self._allocate)

    def end(self, application_id: str) -> bool:
        """Release everything that an application holds and requests, remove it, and return whether it existed.

        A repeated call returns False.

        Raises:
            RequestError: the id is invalid.
        """
        return self._transactions.run(self._lifecycle.end, application_id)

    def complete(self, application_id: str) -> ApplicationInfo:
        """Remove an application that has finished, and return its last state.

        Raises:
            RequestError: the application does not exist, or has allocations or pending allocations.
        """
        return self._transactions.run(self._lifecycle.complete, application_id)

    def fail(self, application_id: str) -> tuple[str, ...]:
        """Let an application fail: it receives no more allocations, and is removed with its last one.

        Returns:
            The allocations to stop and then release. They count against the limits until then.

        Raises:
            RequestError: the application does not exist.
        """
        return self._transactions.run(self._lifecycle.fail, application_id)

    def remove(self, application_id: str) -> tuple[str, ...]:
        """Remove an application with all of its allocations, and return the allocations that were released.

        Raises:
            RequestError: the application does not exist.
        """
        return self._transactions.change(self._lifecycle.remove, application_id)

    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Stop waiting for the gang of an application, because a timeout of the program has expired.

        All placeholders that were not replaced terminate. An application of the style ``hard`` fails if it holds only
        placeholders and none was ever replaced. Any other application continues without them.

        Returns:
            The allocations to stop and then release. They count against the limits until then.

        Raises:
            RequestError: the application does not exist.
        """
        return self._transactions.run(self._lifecycle.time_out_gang, application_id)

    def terminate(self, *, confirm: bool = False) -> tuple[str, ...]:
        """Begin to remove the partition for good: it accepts no more requests, and all its applications fail.

        To end only this object, use `AbstractPartition.close`.

        Args:
            confirm: True if the partition is to be removed.

        Returns:
            The allocations to stop and then release.

        Raises:
            RequestError: the call is not confirmed.
        """
        if confirm is not True:
            reason = "terminating a partition ends all its applications for good; pass confirm=True"
            raise RequestError("confirm", confirm, reason, "unconfirmed")
        return self._transactions.run(self._lifecycle.terminate)

    def order(
        self,
        *,
        max_turns: int | None = None,
        ranks: Mapping[str, int] | None = None,
        explained: bool = True,
        tree: str = "",
    ) -> tuple[Turn, ...]:
        """Return the pending requests in the order in which a scheduler should try them, with the reasons.

        The order is that of a scheduling pass which grants each request that fits the maxima of its queues. Limits of
        users and groups and other quota models do not count. The properties ``application.sort.policy``,
        ``application.sort.priority``, ``priority.offset`` and ``priority.policy`` of the queues decide it.

        The lock is held only to copy the requests, their applications, and the usage of the queues on their paths. The
        rest takes time proportional to the number of requests and of these queues. With *tree*, all applications and
        queues are copied.

        Args:
            max_turns: the maximum number of requests to return; None for all.
            ranks: the place of each user, the first one lowest, which then orders the applications of every queue; for
                example from `ugm.fairness.FairRank.position`. Other users come last.
            explained: whether the turns have the comparisons that chose them; without them it takes less time.
            tree: the groups that are traversed instead of the queues: ``elastic groups``, or the name of a quota tree;
                see `ugm.Partition.scheduling_pass`.

        Raises:
            RequestError: an argument is invalid, or there is no such tree.
        """
        from ugm.partition.ordering.scheduling_pass import require_max_turns, require_ranks, turns_of  # noqa: PLC0415 - see `_Part`

        limit, keys = require_max_turns(max_turns), require_ranks(ranks)
        copied = self._read(self._copy_order, tree, for_keys=bool(keys))
        return turns_of(copied, limit, keys, explained=explained)

    def reservations(self) -> tuple[Reservation, ...]:
        """Return the pending requests for which capacity is kept, with their expected starts, the earliest first.

        Scheduling passes and wake-ups make reservations. Takes time proportional to the number of running allocations
        that promise an end before the start.
        """
        return self._read(self._reservations.current) if self._state.reserves else ()

    def plan_reclaim(
        self,
        subject: Subject,
        usage: Resource,
        *,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        nodes: Mapping[str, Resource] | None = None,
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
            duration: as for `check`.
            nodes: as for `plan_preemption`; placed requests of the same application are not subtracted. If amounts are
                missing only on a node, groups return them down to their guarantee.

        Raises:
            RequestError: as for `check`, or *nodes* is invalid.
        """
        checked, amounts = require_subject(subject), self._require_listed("usage", require_resource("usage", usage))
        query = AllocationRequest("", "", amounts, priority=priority, preemptible=preemptible, duration=duration)
        return self._read(self._reclaiming.plan, checked, query, require_nodes(nodes))

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
        from ugm.partition.eviction.reclaim import require_reclaim_plan  # noqa: PLC0415 - see `_Part`

        checked = require_reclaim_plan(plan)
        return self._transactions.run(self._reclaiming.carry_out, checked)

    def plan_preemption(
        self,
        request: AllocationRequest,
        *,
        since: int,
        now: int | None = None,
        may_preempt: bool = True,
        within_queue: bool = False,
        placed: Iterable[AllocationRequest | tuple[str, str, Resource]] = (),
        nodes: Mapping[str, Resource] | None = None,
    ) -> PreemptionPlan:
        """Return the allocations to evict for a request that the guarantees of its queues entitle to resources.

        No queue loses what it is guaranteed, and no allocation of a higher priority is evicted. The properties
        ``preemption.policy`` and ``preemption.delay`` of the queues take effect. If other quota models deny the
        request, the allocations that they evict are listed separately; guarantees and policies of queues do not protect
        these. Nothing changes; see `carry_out`.

        The time depends on the number of queues and allocations, and on the number of nodes times that of queues.

        Args:
            request: the request, pending or not.
            since: the time since which the request has been waiting, in seconds.
            now: the time in seconds; None for the clock of the partition.
            may_preempt: whether allocations may be evicted for the request.
            within_queue: whether allocations of lower priority in the queue of the request may be evicted.
            placed: requests that count as granted, in addition to those of `preemption_status`.
            nodes: the nodes that the request may run on, each with the amounts that no allocation uses there; None if
                nodes do not matter. A resource that is not listed is 0. Terminating allocations still use their
                amounts. Placed requests are subtracted here, so they must not be subtracted before. All victims of a
                plan run on its ``node``. Their release makes the request fit there and in all limits. Of several nodes,
                the one with the cheapest victims is chosen, and of those without victims the first by name.

        Raises:
            RequestError: an application does not exist or is failing, or an argument is invalid.
        """
        from ugm.partition.eviction.preemption import PreemptionCall  # noqa: PLC0415 - see `_Part`

        listed, flags = require_requests(placed, "placed"), (may_preempt, within_queue)
        call = PreemptionCall(request, since, now, *flags, listed, require_nodes(nodes)).checked()
        self._require_listed("usage", call.request.usage)
        return self._read(self._preempting.plan, call)

    def plan_reductions(self, now: int | None = None, *, overshoot: bool = True) -> ReductionPlan:
        """Return the allocations to evict so that queues above a lowered maximum are within it again.

        A queue takes part if ``preemption.quotapreemptionenabled`` of the partition is set and the queue has a
        ``quota.preemption.delay``. It is reduced once its usage has been above its maximum for this delay; see
        `reduction_timers`. No queue loses what it is guaranteed. Nothing changes; see `carry_out`.

        If a queue is due, the time depends on the number of queues and allocations.

        Args:
            now: the time in seconds; None for the clock of the partition.
            overshoot: whether a leaf queue may give more than its share. Otherwise an excess that is smaller than every
                allocation stays.

        Raises:
            RequestError: an argument is invalid.
        """
        return self._read(self._preempting.plan_reductions, now, overshoot=overshoot)

    def carry_out(self, plan: PreemptionPlan | ReductionPlan) -> tuple[str, ...]:
        """Mark the victims of a plan as terminating, or none of them.

        They still count until the program has stopped and released them. A pending request of the plan stays pending.
        It gets the node of the plan, if there is one. All other plans count it as granted until it is granted or
        withdrawn; see `preemption_status`. If the request is
        not pending, pass it as *placed* to `plan_preemption` of other requests.

        The plan is made again, for its node and its due queues, and must have the same victims. If a delay has been
        raised since, the new one must be over as well. The victims and the request must be the same as in the plan: an
        id may have been used again. This takes the time of a plan.

        Returns:
            The allocations that were marked. A repeated call marks nothing.

        Raises:
            RequestError: the plan has no victims, or is stale: a victim or the request has changed, or other victims
                would be chosen now. Then nothing is marked.
        """
        return self._transactions.run(self._preempting.carry_out, plan)

    def reduction_timers(self) -> tuple[ReductionTimer, ...]:
        """Return the queues that take part in reductions and are above their maximum, since when, sorted by path.

        The time depends on the number of queues.
        """
        return self._read(self._timers.running)

    def preemption_status(self) -> PreemptionStatus:
        """Return the terminating allocations, the placed requests, the timers, and the number of plans by outcome.

        The time depends on the number of queues and of these allocations and requests.
        """
        return self._read(self._preempting.status)

    def _copy_order(self, tree: str, *, for_keys: bool) -> OrderCopy:
        from ugm.partition.ordering.pending_order import OrderCopy  # noqa: PLC0415 - see `_Part`

        groups = self._groups(tree)
        if groups is None:
            copied = OrderCopy.of_pending(self._state, for_keys=for_keys)
        else:
            copied = OrderCopy.of(self._state, for_keys=for_keys, tree=groups)
        return copied._replace(reservations=self._reservations.current())

    def _groups(self, tree: str) -> GroupTree | None:
        """Return the groups that an order descends through; None for the queues."""
        from ugm.partition.ordering.pending_order import GroupTree  # noqa: PLC0415 - see `_Part`

        if tree == "":
            return None
        return GroupTree(self._models, self._models.order_tree(require_name("tree", tree)), tree)

    def _start_waiting(self) -> None:
        from ugm.partition.ordering.waiting_list import WaitingList  # noqa: PLC0415 - see `_Part`
        from ugm.partition.ordering.wake_search import WakeSearch  # noqa: PLC0415 - see `_Part`

        if self._waiting is None:
            marks = self._start_marking()
            search = WakeSearch(self._state, self._models, self._admission, self._reservations, marks)
            self._waiting = WaitingList(search, self._reservations, self._lock, self._transactions, marks)

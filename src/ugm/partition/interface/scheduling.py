"""The order of pending requests, and the allocations that end for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from ugm.partition.allocation import AllocationRequest
from ugm.partition.planned_start import Reservation
from ugm.partition.reclaim_plan import ReclaimPlan
from ugm.partition.reports import PreemptionStatus
from ugm.partition.scheduling_order import Turn
from ugm.partition.subject import Subject
from ugm.preemption import PreemptionPlan, ReductionPlan, ReductionTimer
from ugm.resources import Resource

__all__ = ["AbstractScheduling"]


class AbstractScheduling(ABC):
    """The order of pending requests, and plans that make room for them."""

    __slots__ = ()

    @abstractmethod
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

    @abstractmethod
    def reservations(self) -> tuple[Reservation, ...]:
        """Return the pending requests for which capacity is kept, with their expected starts, the earliest first.

        Scheduling passes and wake-ups make reservations. Takes time proportional to the number of running allocations
        that promise an end before the start.
        """

    @abstractmethod
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
            nodes: as for `plan_preemption`; placed requests of the same application are not subtracted. What is missing
                only on a node, groups return down to their guarantee.

        Raises:
            RequestError: as for `check`, or *nodes* is invalid.
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

        The lock is held only for a copy. The time depends on the number of queues and allocations, and on the number of
        nodes times that of queues.

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
    def carry_out(self, plan: PreemptionPlan | ReductionPlan) -> tuple[str, ...]:
        """Mark the victims of a plan as terminating, or none of them.

        They still count until the program has stopped and released them. A pending request of the plan stays pending.
        It gets the node of the plan, if there is one. All other plans count it as granted until it is granted or
        withdrawn; see `preemption_status`. If the request is
        not pending, pass it as *placed* to `plan_preemption` of other requests.

        The usage, maxima and guarantees that the plan depends on are compared with the present ones, and so are the
        timers of a plan of reductions. If a delay has been raised since, the new one must be over as well. The victims
        and the pending request must be the same as in the plan: an id may have been used again. The request must still
        need the victims, and fit without them. This takes a time proportional to the number of allocations.

        Returns:
            The allocations that were marked. A repeated call marks nothing.

        Raises:
            RequestError: the plan has no victims, or is stale: a victim, a queue, a limit, a timer or the request has
                changed. Then nothing is marked.
        """

    @abstractmethod
    def reduction_timers(self) -> tuple[ReductionTimer, ...]:
        """Return the queues that take part in reductions and are above their maximum, since when, sorted by path.

        The time depends on the number of queues.
        """

    @abstractmethod
    def preemption_status(self) -> PreemptionStatus:
        """Return the terminating allocations, the placed requests, the timers, and the number of plans by outcome.

        The time depends on the number of queues and of these allocations and requests.
        """

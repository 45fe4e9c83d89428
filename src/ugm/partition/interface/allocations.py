"""Grants and releases of allocations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ugm.decision import Decision, Violation
from ugm.partition.allocation import NO_USAGE, Allocation, AllocationRequest
from ugm.resources import Resource

__all__ = ["AbstractAllocations"]


class AbstractAllocations(ABC):
    """The operations on allocations."""

    __slots__ = ()

    @abstractmethod
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

    @abstractmethod
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
                plans of preemption with nodes. Limits do not depend on it, and it need not be registered. A pending
                allocation may have another node or none: the node of the grant counts.

        Returns:
            The decision. A denial contains every limit that the allocation would exceed, and changes nothing. A
            repeated call after a grant is allowed again and does not move the promised end.

        Raises:
            RequestError: an argument is invalid, the application does not exist or is failing, or the id belongs to
                an allocation with other properties.
        """

    @abstractmethod
    def allocate_ignoring_reservations(self, request: AllocationRequest) -> Decision:
        """Decide like `allocate`, without respect to reservations: capacity that is kept for others may be granted.

        Raises:
            RequestError: as for `allocate`, or the request is not an `AllocationRequest`.
        """

    @abstractmethod
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

        Returns:
            The decision, with the allocations that were released.

        Raises:
            RequestError: as for `allocate`.
        """

    @abstractmethod
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

    @abstractmethod
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

    @abstractmethod
    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Change the resources of an allocation. Only growth is checked, so a reduction is never denied.

        Raises:
            RequestError: the allocation does not exist, the usage is invalid, or the allocation grows and its
                application is failing.
        """

    @abstractmethod
    def renew(self, allocation_id: str, duration: int | None) -> Decision:
        """Promise that an allocation ends *duration* seconds from now, or remove the promised end with None.

        An allocation without a promised end gets one. The end is checked like a growth by `resize`: quota models may
        deny a later one or its removal, for example a budget. An earlier end is never denied. A repeated call counts
        from its own time.

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
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
    ) -> tuple[Violation, ...]:
        """Charge an existing allocation without a check: for recovery after a restart.

        Returns:
            Every limit of users, groups and queues of the application that is exceeded now.

        Raises:
            RequestError: as for `allocate`, but the application may be failing.
        """

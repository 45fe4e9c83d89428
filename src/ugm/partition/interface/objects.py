"""Queries about applications, allocations, queues, nodes, users and groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ugm.budgets import AccountState
from ugm.configuration import PartitionConfig
from ugm.decision import Violation
from ugm.identity import UserGroup
from ugm.partition.allocation import Allocation
from ugm.partition.application import ApplicationInfo
from ugm.partition.line_index import CooperativeIteration
from ugm.partition.model_queries import ModelReport
from ugm.partition.reports import ApplicationReport, OwnedAllocation
from ugm.partition.snapshot import PartitionSnapshot
from ugm.partition.utilization import LimitUtilization
from ugm.queues import QueueState
from ugm.resources import Resource
from ugm.tracking import GroupUsage, UserUsage

__all__ = ["AbstractObjectQueries"]


class AbstractObjectQueries(ABC):
    """The state of the objects of a partition."""

    __slots__ = ()

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
        """Return those of the given applications that exist, in the given order, at one moment.

        Raises:
            RequestError: an id is not a text of 1 to 256 characters.
        """

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

        Raises:
            RequestError: an argument is invalid.
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
        """Return those of the given allocations that exist, with their owners, in the given order, at one moment.

        Raises:
            RequestError: an id is not a text of 1 to 256 characters.
        """

    @abstractmethod
    def allocation_ids(self) -> tuple[str, ...]:
        """Return the ids of all allocations, including pending ones, sorted."""

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
        """Return the accounts of budgets: limit, settled, committed and remaining amounts, and when they are renewed.

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

    @abstractmethod
    def snapshot(
        self, iterate: CooperativeIteration | None = None, previous: PartitionSnapshot | None = None
    ) -> PartitionSnapshot:
        """Return a copy of the partition at this moment, from which all other values can be computed.

        The lock is held for about half a microsecond for each queue and application.

        Args:
            iterate: wraps every long loop over the copy, for a caller that pauses now and then; None for no pause.
            previous: an earlier snapshot of this partition. The new one takes over the values that have not changed
                since, which saves most of the time after the copy; None to compute all values when they are first used.

        Raises:
            RequestError: *previous* is not a snapshot.
        """

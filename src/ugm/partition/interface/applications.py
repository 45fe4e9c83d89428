"""The start and the end of applications."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from ugm.identity import UserGroup
from ugm.partition.allocation import AllocationSpec
from ugm.partition.application import ApplicationInfo
from ugm.partition.reports import Admission
from ugm.queues import Placement
from ugm.resources import Resource

__all__ = ["AbstractApplications"]


class AbstractApplications(ABC):
    """The operations on applications."""

    __slots__ = ()

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

    @abstractmethod
    def end(self, application_id: str) -> bool:
        """Release everything that an application holds and requests, remove it, and return whether it existed.

        A repeated call returns False.

        Raises:
            RequestError: the id is invalid.
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

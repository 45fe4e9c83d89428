"""Queries about a subject: an application, or a user in a queue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from ugm.decision import Decision, EffectiveLimit, Explanation
from ugm.identity import UserGroup
from ugm.partition.pending_usage import PendingHeadroom
from ugm.partition.reports import SubmissionReport
from ugm.partition.subject import Subject
from ugm.queues import Placement
from ugm.resources import Resource

__all__ = ["AbstractSubjectQueries"]


class AbstractSubjectQueries(ABC):
    """Answers about the requests that a subject may make."""

    __slots__ = ()

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
            RequestError: the application does not exist or is failing, the partition is closed, or an argument
                is invalid.
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
        their names: each gets as much as is allowed together with those before it.

        If a model denies even an empty request, for example because the application has no group in a quota tree, the
        amount of every resource that a limit, a node or a model names is 0. No request is granted then, not even of
        another resource.

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
            RequestError: an argument is invalid, or the partition is closed.
        """

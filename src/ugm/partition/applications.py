"""The applications of a partition, from their submission to their end.

Every operation takes the lock once, for the whole of its work.

Source: Apache YuniKorn, user based resource usage tracking, "Running state entry" and "Running state exit".
"""

from __future__ import annotations

from collections.abc import Mapping

from ugm.arguments import require_amounts
from ugm.identity import UserGroup
from ugm.operation_lock import giving
from ugm.partition._submission import group_of, placed_path, style_of, submission_of
from ugm.partition.application import ApplicationInfo
from ugm.partition.upkeep import Upkeep
from ugm.queues import Placement
from ugm.resources import Resource

__all__ = ["Applications"]


class Applications(Upkeep):
    """The operations of a `ugm.Partition` that begin and end applications."""

    __slots__ = ()

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
        style, most = style_of(gang_style), require_amounts("quota", quota)
        return self._lock.grow(self._life.submit, submission, style, most)

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
            RequestError: as for `submit`, or the queue is the root, or has more than 100 names.
        """
        submission = submission_of(application_id, user, placed_path(queue_path), tags)
        style, most, chosen = style_of(gang_style), require_amounts("quota", quota), group_of(group)
        self._lock.grow(self._life.adopt, submission, style, most, chosen)

    @giving
    def complete(self, application_id: str) -> ApplicationInfo:
        """Forget an application that has done its work, and return what it was.

        Raises:
            RequestError: there is no such application, or it still holds something or has something pending.
        """
        return self._life.complete(self._admission.application(application_id))

    @giving
    def fail(self, application_id: str) -> tuple[str, ...]:
        """Let an application fail: it gets nothing more, and is forgotten with its last allocation.

        Returns:
            The allocations that have to be stopped and then released; they are counted until then.

        Raises:
            RequestError: there is no such application.
        """
        return self._life.fail(self._admission.application(application_id))

    @giving
    def remove(self, application_id: str) -> tuple[str, ...]:
        """Forget an application with all that it holds, and return the allocations that this has released.

        Raises:
            RequestError: there is no such application.
        """
        return self._life.remove(self._admission.application(application_id))

    @giving
    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Wait no longer for the gang of an application.

        Placeholders that nothing has replaced have to go. An application of the style ``hard`` fails if it has nothing
        but placeholders, and none has ever been replaced; otherwise it goes on without them.

        Returns:
            The allocations that have to be stopped and then released; they are counted until then.

        Raises:
            RequestError: there is no such application.
        """
        return self._life.time_out_gang(self._admission.application(application_id))

    def close(self) -> tuple[str, ...]:
        """Begin to remove the partition: it takes nothing more, and all its applications fail.

        Returns:
            The allocations that have to be stopped and then released.
        """
        return self._lock.give(self._life.close)

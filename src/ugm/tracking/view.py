"""What a `ugm.Manager` can be asked. Nothing here changes an answer.

Every question takes the lock once. Answers are values, but for the trackers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ugm.arguments import require_name, require_user, require_vector
from ugm.decision import ALLOWED, Decision, Violation, over
from ugm.hierarchy import fits, headroom
from ugm.identity import UserGroup
from ugm.operation_lock import exclusive
from ugm.resources import Resource
from ugm.tracking.audit import verify
from ugm.tracking.group_tracker import GroupTracker
from ugm.tracking.holding import DETACHED
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.limits import LimitsInForce
from ugm.tracking.named_tracker import NamedTracker
from ugm.tracking.snapshot import GroupUsage, TrackerCopy, UserUsage
from ugm.tracking.tracker import EffectiveLimit
from ugm.tracking.user_tracker import UserTracker

__all__ = ["ManagerView", "copies_of"]

#: What an application asks that only wants to run.
_NOTHING: Final = Resource()


class ManagerView:
    """The questions of a `ugm.Manager`.

    Args:
        in_force: the limits that hold; nothing is charged yet.
    """

    def __init__(self, in_force: LimitsInForce) -> None:
        self._in_force: Final = in_force
        self._lock: Final = in_force.lock
        self._index: Final = HoldingIndex(in_force)

    def __repr__(self) -> str:
        # Without the lock: a debugger may ask while another thread holds it.
        users, groups = self._index.users, self._index.groups
        return f"<{type(self).__name__} users={len(users)} groups={len(groups)}>"

    @exclusive
    def check(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> Decision:
        """Return what `increase` would answer now.

        Another thread may be granted the room in between; only `increase` itself is binding.

        Raises:
            RequestError: as for `increase`. The other questions answer about an application of another user, too, as
                if it had not started: they only ask what would be.
        """
        vector = require_vector("usage", usage, self._in_force.epoch.layout)
        holding = self._index.find(queue_path, application_id, user)
        if holding.epoch is not DETACHED and fits(holding.checked, vector):
            return ALLOWED
        violations = holding.violations(vector)
        return Decision(violations) if violations else ALLOWED

    @exclusive
    def headroom(self, queue_path: str, application_id: str, user: UserGroup) -> Resource | None:
        """Return how much more an application may use: the least that any limit leaves, for each limited resource.

        Returns:
            None where nothing limits resources. An amount is negative where a limit was lowered below the usage.

        >>> from ugm import Manager
        >>> Manager().headroom("root.prod", "app-1", UserGroup("sue")) is None
        True
        """
        holding = self._index.find_for_query(queue_path, application_id, user)
        return headroom(holding.enforced(holding.chain()))

    @exclusive
    def can_run_app(self, queue_path: str, application_id: str, user: UserGroup) -> bool:
        """Return whether the application runs in the queue, or may start there, as far as counts of applications go."""
        nothing = self._in_force.epoch.layout.vector(_NOTHING)
        return not self._index.find_for_query(queue_path, application_id, user).violations(nothing)

    @exclusive
    def group_for(self, queue_path: str, application_id: str, user: UserGroup) -> str | None:
        """Return the group that the application is charged to, or would be; ``*`` for a group wildcard."""
        group = self._index.find_for_query(queue_path, application_id, user).group
        return None if group is None else group.name

    @exclusive
    def effective_limits(
        self, user: UserGroup, queue_path: str, application_id: str | None = None
    ) -> tuple[EffectiveLimit, ...]:
        """Return every limit that holds for a user in a queue, and which entry of the configuration sets it.

        Args:
            user: the user.
            queue_path: the queue.
            application_id: a running application, to see the group that it is charged to; otherwise the group is the
                one that a new application would be charged to.

        Returns:
            The limits of the user, then those of the group, each leaf to root.
        """
        if application_id is None:
            holding = self._index.detached(self._in_force.path(queue_path), "", require_user(user))
        else:
            holding = self._index.find_for_query(queue_path, application_id, user)
        return tuple(EffectiveLimit.of(node) for node in holding.enforced(holding.chain()))

    @exclusive
    def over_limit(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded now, users before groups, each sorted by name, leaf to root.

        Takes time in the number of limited queues of all users and groups, under the lock.
        """
        nodes = (node for tracker in self._index.trackers() for node in tracker.counters())
        return tuple(violation for node in nodes for violation in over(node))

    # Showing

    @exclusive
    def get_user_resources(self, user: UserGroup) -> Resource | None:
        """Return what a user uses in all queues together, without zeros; None for a user who is not tracked."""
        tracker = self._index.users.get(require_user(user).name)
        return None if tracker is None else tracker.queue.total()

    @exclusive
    def get_group_resources(self, group: str) -> Resource | None:
        """Return what a group uses in all queues together, without zeros; None for a group that is not tracked."""
        require_name("group", group)
        tracker = self._index.groups.get(group)
        return None if tracker is None else tracker.queue.total()

    def get_users_resources(self) -> tuple[UserUsage, ...]:
        """Return what every tracked user uses in which queues, with the limits there, sorted by name."""
        copies = self._lock.run(copies_of, self._index.users)
        return tuple(copy.user_usage() for copy in copies)

    def get_groups_resources(self) -> tuple[GroupUsage, ...]:
        """Return what every tracked group uses in which queues, with the limits there, sorted by name."""
        copies = self._lock.run(copies_of, self._index.groups)
        return tuple(copy.group_usage() for copy in copies)

    @exclusive
    def get_user_tracker(self, user_name: str) -> UserTracker | None:
        """Return the live tracker of a user, to read and to set limits by hand; None for a user who is not tracked.

        It is charged through the manager only, and dropped when the last application of the user has ended.
        """
        require_name("user_name", user_name)
        return self._index.users.get(user_name)

    @exclusive
    def get_group_tracker(self, group_name: str) -> GroupTracker | None:
        """Return the live tracker of a group, to read and to set limits by hand; see `get_user_tracker`."""
        require_name("group_name", group_name)
        return self._index.groups.get(group_name)

    @exclusive
    def verify(self) -> None:
        """Recompute every counter from what the applications hold, and compare.

        Raises:
            InvariantError: something differs. That is a bug in ugm, and worth a report.
        """
        verify(self._index)


def copies_of(trackers: Mapping[str, NamedTracker]) -> list[TrackerCopy]:
    """Copy all trackers, sorted by name; what they show is worked out after the lock has been released."""
    return [TrackerCopy.of(trackers[name].queue) for name in sorted(trackers)]

"""The public view of tracking: trackers, which show and change the usage and limits of one user or group.

This module contains no rules. `ugm.tracking.holding` charges usage, and `ugm.counters` compares it with the limits.

A tracker is the public interface of one `ugm.tracking.holding.OwnerUsageTree`. Trackers that belong to a
`ugm.Manager` are charged through it only. Trackers that were created directly are charged with `increase_resource` and
`decrease_resource`. Every change is made to a user and the group of the application together, or to neither.

Each method takes the lock once and checks its arguments.

Source: Apache YuniKorn, user based resource usage tracking, "User tracking", "Group tracking" and "Queue tracking".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, final

from ugm.arguments import require_application_id, require_count, require_name, require_vector
from ugm.counters import Limit
from ugm.errors import NotTrackedError, RequestError
from ugm.identity import ROOT, TrackingType
from ugm.resources import Resource
from ugm.tracking.holding import Holding, OwnerUsageTree
from ugm.tracking.limits import ActiveLimits, checked_limit

__all__ = ["GroupTracker", "QueueTracker", "UserTracker", "tracker_of"]

_USER: Final = TrackingType.USER
_GROUP: Final = TrackingType.GROUP


class _Tracker:
    """The operations that all trackers share. Two trackers of the same tree are equal."""

    __slots__ = ("_tree",)

    _tree: OwnerUsageTree

    def __init__(self, name: str, kind: TrackingType, active_limits: ActiveLimits | None) -> None:
        if active_limits is not None and not isinstance(active_limits, ActiveLimits):
            raise RequestError("active_limits", active_limits, "expected ActiveLimits")
        self._tree = OwnerUsageTree(name, kind, active_limits or ActiveLimits())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._tree is self._tree

    def __hash__(self) -> int:
        return hash(self._tree)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._tree.name!r} applications={len(self._tree.holdings)}>"

    @property
    def usage(self) -> Resource:
        """The usage in all queues together, without zeros. The time depends on the number of applications."""
        return self._tree.active_limits.lock.run(self._tree.total)

    @property
    def applications(self) -> tuple[str, ...]:
        """The applications that run in any queue, sorted."""
        return tuple(sorted(self._tree.active_limits.lock.run(list, self._tree.holdings)))

    def increase_resource(self, queue_path: str, application_id: str, usage: Resource) -> bool:
        """Charge *usage* to an application in a queue, and start the application there if it does not run there yet.

        All limits from the queue to the root are checked first.

        Returns:
            Whether *usage* was charged. If not, nothing has changed.

        Raises:
            RequestError: an argument is empty or of the wrong type, the application is charged through its user, or
                the tracker belongs to a manager.
        """
        return self._tree.active_limits.lock.run(self._increase, queue_path, application_id, usage)

    def _increase(self, queue_path: str, application_id: str, usage: Resource) -> bool:
        tree = self._tree
        path, application_id = tree.active_limits.path(queue_path), require_application_id(application_id)
        vector = require_vector("usage", usage, tree.active_limits.epoch.layout)
        holding = tree.find(application_id, path)
        _require_unmanaged(tree)
        _require_owner(tree, tree, application_id)
        if holding is None:
            group = self._group_of(application_id)
            if group is not None:
                _require_owner(group, tree, application_id)
            holding = Holding(application_id, path, tree, group)
            tree.active_limits.lock.changes.append((holding.undo_attach,))
        else:
            holding.refresh()
        is_charged = not holding.admit(vector)
        if is_charged:
            tree.drop_group_choice(application_id)
        return is_charged

    def _group_of(self, application_id: str) -> OwnerUsageTree | None:
        """Return the group that an application is, or would be, charged to."""
        running = self._tree.holdings.get(application_id)
        return running.group if running is not None else (self._tree.group_choices or {}).get(application_id)

    def decrease_resource(
        self, queue_path: str, application_id: str, usage: Resource, *, remove_app: bool = False
    ) -> None:
        """Refund *usage* of an application in a queue. With *remove_app*, also end the application there.

        The refund goes to every tracker that the application is charged to.

        Raises:
            RequestError: as for `increase_resource`.
            NotTrackedError: the application does not run in that queue.
            ReleaseError: it holds less than *usage*, or would end while it still holds something.
        """
        self._tree.active_limits.lock.run(self._decrease, queue_path, application_id, usage, remove_app=remove_app)

    def _decrease(self, queue_path: str, application_id: str, usage: Resource, *, remove_app: bool) -> None:
        tree = self._tree
        path, application_id = tree.active_limits.path(queue_path), require_application_id(application_id)
        vector = require_vector("usage", usage, tree.active_limits.epoch.layout)
        holding = tree.find(application_id, path)
        if holding is None:
            raise NotTrackedError(application_id, path, tree.name, "it does not run in that queue")
        _require_unmanaged(tree)
        _require_owner(tree, tree, application_id)
        holding.refresh()
        holding.require_held(vector, everything=remove_app)
        if remove_app:
            tree.active_limits.lock.changes.append((holding.undo_detach, holding.amounts))
        holding.try_refund(vector)
        if remove_app:
            holding.detach()

    def set_max_applications(self, count: int | None, queue_path: str = "") -> None:
        """Limit the running applications in and below a queue until the next configuration is applied.

        The order of the arguments is that of the design document. The method creates no counters: it raises an error if
        no application of the tracker runs in or below the queue.

        Args:
            count: the maximum number of running applications; None or 0 removes the limit.
            queue_path: a full path; empty for the root.

        Raises:
            RequestError: the count is not valid, the path is not well formed, or nothing runs in or below the queue.
        """
        path, applications = self._tree.active_limits.path(queue_path or ROOT), require_count("count", count)
        self._set_limit(path, lambda old: _manual(old, old.resources, applications))

    def set_max_resources(self, resource: Resource | None, queue_path: str = "") -> None:
        """Limit the resources used in and below a queue until the next configuration is applied.

        See `set_max_applications` for the order of the arguments, and for queues in which nothing runs.

        Args:
            resource: the maximum usage; None or an empty vector removes the limit.
            queue_path: a full path; empty for the root.

        Raises:
            RequestError: the vector is not a valid limit (negative, or only zeros), the path is not well formed, or
                nothing runs in or below the queue.
        """
        path, resources = self._tree.active_limits.path(queue_path or ROOT), checked_limit("resource", resource)
        self._set_limit(path, lambda old: _manual(old, resources, old.applications))

    def _set_limit(self, queue_path: str, change: Callable[[Limit], Limit]) -> None:
        self._tree.active_limits.lock.run(self._tree.set_limit, queue_path, change)


@final
class QueueTracker(_Tracker):
    """The usage of one user or group in each queue, with the counters of its limits.

    Args:
        name: the user or group.
        kind: which of the two.

    Raises:
        RequestError: the name is empty or not a string, or the kind is neither a user nor a group.

    >>> tracker = QueueTracker("sue", TrackingType.USER)
    >>> tracker.increase_resource("root.prod", "app-1", Resource(memory=4))
    True
    >>> tracker.set_max_resources(Resource(memory=5), "root")
    >>> tracker.increase_resource("root.test", "app-2", Resource(memory=2))
    False
    >>> tracker.usage
    Resource(memory=4)
    """

    __slots__ = ()

    def __init__(self, name: str, kind: TrackingType) -> None:
        super().__init__(require_name("name", name), _require_kind(kind), None)

    def __repr__(self) -> str:
        tree = self._tree
        return f"<{type(self).__name__} of {tree.kind} {tree.name!r} applications={len(tree.holdings)}>"

    @property
    def name(self) -> str:
        """The user or group."""
        return self._tree.name

    @property
    def kind(self) -> TrackingType:
        """The kind of the owner: a user or a group."""
        return self._tree.kind

    @property
    def running_applications(self) -> tuple[str, ...]:
        """The applications that run in any queue, sorted."""
        return self.applications


@final
class GroupTracker(_Tracker):
    """The usage of the members of one group together. The group ``*`` stands for all groups under a group wildcard.

    Applications that are charged through their users (see `ugm.tracking.UserTracker.set_group_for_app`) appear here
    automatically and cannot be charged a second time.

    Args:
        group_name: the group.
        active_limits: the limits, shared by all trackers of a partition; None for a tracker without configured limits.
    """

    __slots__ = ()

    def __init__(self, group_name: str, active_limits: ActiveLimits | None = None) -> None:
        super().__init__(require_name("group_name", group_name), _GROUP, active_limits)

    @property
    def group_name(self) -> str:
        """The group."""
        return self._tree.name


@final
class UserTracker(_Tracker):
    """The usage of one user in each queue, with the group of every application.

    Args:
        user_name: the user.
        active_limits: the limits, shared by all trackers of a partition; None for a tracker without configured limits.

    >>> active_limits = ActiveLimits()
    >>> sue, test = UserTracker("sue", active_limits), GroupTracker("test", active_limits)
    >>> sue.set_group_for_app("app-1", test)
    >>> sue.increase_resource("root.prod", "app-1", Resource(memory=4))
    True
    >>> test.usage
    Resource(memory=4)
    """

    __slots__ = ()

    def __init__(self, user_name: str, active_limits: ActiveLimits | None = None) -> None:
        super().__init__(require_name("user_name", user_name), _USER, active_limits)

    @property
    def user_name(self) -> str:
        """The user."""
        return self._tree.name

    def has_group_for_app(self, application_id: str) -> bool:
        """Return whether a group, or no group, has been chosen for an application.

        Raises:
            RequestError: the application id is not valid.
        """
        application_id = require_application_id(application_id)
        return self._tree.active_limits.lock.run(self._tree.has_group_choice, application_id)

    def set_group_for_app(self, application_id: str, group_tracker: GroupTracker | None) -> None:
        """Choose the group that an application is charged to; None charges it to no group.

        The first choice remains until the application has ended in its last queue. A second choice has no effect.

        Raises:
            RequestError: the application id is empty, or the group tracker belongs to another partition.
        """
        application_id = require_application_id(application_id)
        if group_tracker is not None and not isinstance(group_tracker, GroupTracker):
            raise RequestError("group_tracker", group_tracker, "expected a GroupTracker, or None")
        group = None if group_tracker is None else group_tracker._tree  # noqa: SLF001 - of the base class
        if group is not None and group.active_limits is not self._tree.active_limits:
            raise RequestError(
                "group_tracker", group.name, "the tracker belongs to another partition", "state-conflict"
            )
        self._tree.active_limits.lock.run(self._tree.choose_group, application_id, group)

    def group_name_for_app(self, application_id: str) -> str | None:
        """Return the group chosen for an application; None if no group was chosen, or nothing was chosen yet.

        Raises:
            RequestError: the application id is not valid.
        """
        application_id = require_application_id(application_id)
        group = self._tree.active_limits.lock.run(self._group_of, application_id)
        return None if group is None else group.name


TrackerT = TypeVar("TrackerT", UserTracker, GroupTracker)


def tracker_of(tree: OwnerUsageTree, kind: type[TrackerT]) -> TrackerT:
    """Return a tracker for the usage tree of a manager."""
    tracker = kind.__new__(kind)
    tracker._tree = tree  # noqa: SLF001 - of the base class
    return tracker


def _require_unmanaged(tree: OwnerUsageTree) -> None:
    if tree.active_limits.managed:
        raise RequestError(
            "tracker", tree.name, "the tracker belongs to a manager and is charged through it", "state-conflict"
        )


def _require_owner(tree: OwnerUsageTree, owner: OwnerUsageTree, application_id: str) -> None:
    """Check that *tree* is charged for an application by *owner* only."""
    holding = tree.holdings.get(application_id)
    if holding is not None and holding.owner is not owner:
        reason = f"the application is charged through its {holding.owner.kind} {holding.owner.name!r}"
        raise RequestError("application_id", application_id, reason, "id-in-use")


def _manual(old: Limit, resources: Resource, applications: int) -> Limit:
    """Return a limit of which one half is set by hand. It keeps the wildcard, so that it applies to the same owner."""
    place = f"{old.place}, changed by hand" if old.place else "set by hand"
    return Limit(resources, applications, wildcard=old.wildcard, place=place)


def _require_kind(kind: object) -> TrackingType:
    """Return a kind of tracker, which may also be given as a string."""
    if kind in (_USER, _GROUP):
        return TrackingType(str(kind))
    raise RequestError("kind", kind, f"expected {_USER.value!r} or {_GROUP.value!r}")

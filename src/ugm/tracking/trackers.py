"""The public view of tracking: trackers, which show and change the usage and limits of one owner, and snapshots.

This module contains no rules. `ugm.tracking.holding` charges usage, and `ugm.counters` compares it with the limits.

A tracker is the public interface of one `ugm.tracking.holding.OwnerUsageTree`. Trackers that belong to a `ugm.Manager`
are charged through it only. Trackers that were created directly are charged with `increase_resource` and
`decrease_resource`. Every change is made to a user and the group of the application together, or to neither.

Each method takes the lock once and checks its arguments.

Source: Apache YuniKorn, user based resource usage tracking, "User tracking", "Group tracking" and "Queue tracking".

A snapshot is a frozen tree of usage and limits, with its JSON. It is made in two steps. `TrackerCopy` copies the
holdings and limits under the lock, and computes the tree of queues from them after the lock has been released.

Source: Apache YuniKorn, user based resource usage tracking, "Exposure of usage tracking"; user based quota enforcement,
"Exposure of quota details". The JSON is the union of both: limits are always shown, and groups show both their users
and their applications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeVar, final

from ugm._json_values import JsonObject
from ugm.arguments import require_count, require_vector
from ugm.counters import Limit
from ugm.errors import NotTrackedError, RequestError
from ugm.identity import ROOT, TrackingType, ancestors, require_name
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, Holding, OwnerUsageTree, all_holdings, amounts_by_name
from ugm.tracking.limits import ActiveLimits, checked_limit


@dataclass(frozen=True, slots=True)
class QueueUsage:
    """The usage of one user or group in and below one queue."""

    #: The full path.
    queue_path: str
    #: The sum over all applications, without zeros.
    usage: Resource
    #: Sorted.
    running_applications: tuple[str, ...]
    #: The limit in force; None if resources are not limited.
    max_resources: Resource | None
    #: The limit in force; 0 if applications are not limited.
    max_applications: int
    #: The child queues in which something runs, sorted by name.
    children: tuple[QueueUsage, ...]

    def to_dict(self) -> JsonObject:
        """Return the queue in the JSON of the design documents, and with the field ``queuePath`` of YuniKorn."""
        return {
            "queuename": self.queue_path,
            "queuePath": self.queue_path,
            "resourceUsage": dict(self.usage),
            "runningApplications": list(self.running_applications),
            "children": [child.to_dict() for child in self.children],
            "maxApplications": self.max_applications,
            "maxResources": dict(self.max_resources or {}),
        }


class UserUsage(NamedTuple):
    """The usage of one user, from ``root`` down."""

    user_name: str
    #: Application to group, for every application that is charged to a group.
    groups: Mapping[str, str]
    #: The root queue.
    queues: QueueUsage

    def to_dict(self) -> JsonObject:
        """Return the user in the JSON of the design documents."""
        return {"userName": self.user_name, "groups": dict(self.groups), "queues": self.queues.to_dict()}


class GroupUsage(NamedTuple):
    """The usage of one group, from ``root`` down."""

    #: ``*`` for all groups under a group wildcard.
    group_name: str
    #: The users whose applications are charged to the group, sorted.
    users: tuple[str, ...]
    #: Sorted.
    applications: tuple[str, ...]
    #: The root queue.
    queues: QueueUsage

    def to_dict(self) -> JsonObject:
        """Return the group in the JSON of the design documents."""
        return {
            "groupName": self.group_name,
            "users": list(self.users),
            "applications": list(self.applications),
            "queues": self.queues.to_dict(),
        }


class UsageLine(NamedTuple):
    """A copy of one holding; or the pending allocations of an application."""

    application_id: str
    queue_path: str
    user_name: str
    #: None if the application is charged to no group, or has not run yet.
    group_name: str | None
    used: dict[str, int]
    #: 1 for a running application, or the number of pending allocations.
    item_count: int = 1


def usage_line(holding: Holding, amounts: Amounts) -> UsageLine:
    """Return the line of a holding whose amounts were copied; without the lock."""
    group = holding.group and holding.group.name
    return UsageLine(holding.application_id, holding.queue_path, holding.owner.name, group, amounts_by_name(amounts))


class TrackerCopy(NamedTuple):
    """A copy of a tracker at one moment."""

    name: str
    lines: list[UsageLine]
    limits: dict[str, Limit]
    #: Queues to show even if nothing runs there.
    queue_paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tree: OwnerUsageTree) -> Self:
        """Copy a usage tree; the caller holds the lock."""
        tree.refresh()
        lines = [usage_line(holding, holding.amounts) for holding in all_holdings(tree.holdings)]
        return cls(tree.name, lines, {path: counter.limit for path, counter in tree.counters.items()})

    def user_usage(self) -> UserUsage:
        """Return the usage of a user."""
        groups = {line.application_id: line.group_name for line in self.lines if line.group_name is not None}
        return UserUsage(self.name, dict(sorted(groups.items())), self._queues())

    def group_usage(self) -> GroupUsage:
        """Return the usage of a group."""
        users = sorted({line.user_name for line in self.lines})
        applications = sorted({line.application_id for line in self.lines})
        return GroupUsage(self.name, tuple(users), tuple(applications), self._queues())

    def _queues(self) -> QueueUsage:
        paths = {ROOT, *(path for shown in self.queue_paths for path in ancestors(shown))}
        queues: dict[str, _QueueSum] = {path: _QueueSum() for path in paths}
        for line in self.lines:
            for path in ancestors(line.queue_path):
                queues.setdefault(path, _QueueSum()).add(line)
        # Deeper queues come first, so that the children of a queue exist before it is made.
        children: dict[str, list[QueueUsage]] = {}
        for path in sorted(queues, key=lambda path: (-path.count("."), path)):
            usage = queues[path].usage(path, self.limits.get(path), children.pop(path, []))
            children.setdefault(path.rpartition(".")[0], []).append(usage)
        return children[""][0]


class _QueueSum:
    """The sum of the holdings in and below one queue."""

    __slots__ = ("amounts", "applications")

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}
        self.applications: set[str] = set()

    def add(self, line: UsageLine) -> None:
        self.applications.add(line.application_id)
        for name, amount in line.used.items():
            self.amounts[name] = self.amounts.get(name, 0) + amount

    def usage(self, path: str, limit: Limit | None, children: list[QueueUsage]) -> QueueUsage:
        return QueueUsage(
            queue_path=path,
            usage=Resource(self.amounts).without_zeros(),
            running_applications=tuple(sorted(self.applications)),
            max_resources=limit.resources if limit and limit.resources else None,
            max_applications=limit.applications if limit else 0,
            children=tuple(children),
        )


def copies_of(trees: Mapping[str, OwnerUsageTree]) -> list[TrackerCopy]:
    """Copy all trees, sorted by name; the caller holds the lock."""
    return [TrackerCopy.of(trees[name]) for name in sorted(trees)]


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
        path, application_id = tree.active_limits.path(queue_path), require_name("application_id", application_id)
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
        return not holding.admit(vector)

    def _group_of(self, application_id: str) -> OwnerUsageTree | None:
        """Return the group that an application is, or would be, charged to."""
        running = self._tree.holdings.get(application_id)
        return self._tree.group_choices.get(application_id) if running is None else running.group

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
        path, application_id = tree.active_limits.path(queue_path), require_name("application_id", application_id)
        vector = require_vector("usage", usage, tree.active_limits.epoch.layout)
        holding = tree.find(application_id, path)
        if holding is None:
            raise NotTrackedError(application_id, path, tree.name, "it does not run in that queue")
        _require_unmanaged(tree)
        _require_owner(tree, tree, application_id)
        holding.refresh()
        holding.require_held(vector, everything=remove_app)
        if remove_app:
            tree.drop_group_choice(application_id)
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
        application_id = require_name("application_id", application_id)
        return self._tree.active_limits.lock.run(self._tree.has_group_choice, application_id)

    def set_group_for_app(self, application_id: str, group_tracker: GroupTracker | None) -> None:
        """Choose the group that an application is charged to; None charges it to no group.

        The first choice remains until the application has ended in its last queue. A second choice has no effect.

        Raises:
            RequestError: the application id is empty, or the group tracker belongs to another partition.
        """
        application_id = require_name("application_id", application_id)
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
        application_id = require_name("application_id", application_id)
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

"""What a tracker shows: frozen trees of usage and limits, and the documents' JSON.

A snapshot is made in two steps: what it shows is copied while the lock is held, and put in order afterwards.

Source: Apache YuniKorn, user based resource usage tracking, "Exposure of usage tracking"; user based quota enforcement,
"Exposure of quota details". The JSON is the union of both: limits are always shown, and groups show both their users
and their applications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from ugm.hierarchy import Limit
from ugm.identity import ROOT, ancestors
from ugm.resources import Resource
from ugm.tracking.links import all_holdings
from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["GroupUsage", "QueueUsage", "TrackerCopy", "UsageLine", "UserUsage"]


class QueueUsage(NamedTuple):
    """What one user or group uses in and below one queue."""

    #: The full path.
    queue_path: str
    #: The sum over all applications, without zeros.
    usage: Resource
    #: Sorted.
    running_applications: tuple[str, ...]
    #: The limit in force; None where resources are not limited.
    max_resources: Resource | None
    #: The limit in force; 0 where applications are not limited.
    max_applications: int
    #: The queues directly below in which something runs, sorted by name.
    children: tuple[QueueUsage, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the queue as the documents show it."""
        return {
            "queuename": self.queue_path,
            "resourceUsage": dict(self.usage),
            "runningApplications": list(self.running_applications),
            "children": [child.to_dict() for child in self.children],
            "maxApplications": self.max_applications,
            "maxResources": dict(self.max_resources or {}),
        }


class UserUsage(NamedTuple):
    """What one user uses, from ``root`` down."""

    user_name: str
    #: The group of every application that is charged to one.
    groups: Mapping[str, str]
    #: The root queue.
    queues: QueueUsage

    def to_dict(self) -> dict[str, Any]:
        """Return the user as the documents show it."""
        return {"userName": self.user_name, "groups": dict(self.groups), "queues": self.queues.to_dict()}


class GroupUsage(NamedTuple):
    """What one group uses, from ``root`` down."""

    #: ``*`` for everybody who falls under a group wildcard.
    group_name: str
    #: Whose applications are charged to the group, sorted.
    users: tuple[str, ...]
    #: Sorted.
    applications: tuple[str, ...]
    #: The root queue.
    queues: QueueUsage

    def to_dict(self) -> dict[str, Any]:
        """Return the group as the documents show it."""
        return {
            "groupName": self.group_name,
            "users": list(self.users),
            "applications": list(self.applications),
            "queues": self.queues.to_dict(),
        }


class UsageLine(NamedTuple):
    """What one application of a user holds in one queue, copied."""

    application_id: str
    queue_path: str
    user_name: str
    group_name: str | None
    used: dict[str, int]


class TrackerCopy(NamedTuple):
    """A tracker as it was at one moment."""

    name: str
    lines: list[UsageLine]
    limits: dict[str, Limit]
    #: Queues that are shown although nothing may run there.
    queue_paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tracker: QueueTracker) -> Self:
        """Copy a tracker; the caller holds the lock."""
        tracker.refresh()
        lines = [
            UsageLine(
                holding.application_id,
                holding.queue_path,
                holding.owner.name,
                holding.group.name if holding.group else None,
                holding.held(),
            )
            for holding in all_holdings(tracker.holdings)
        ]
        return cls(tracker.name, lines, {path: node.limit for path, node in tracker.nodes.items()})

    def user_usage(self) -> UserUsage:
        """Return the copy as that of a user."""
        groups = {line.application_id: line.group_name for line in self.lines if line.group_name is not None}
        return UserUsage(self.name, dict(sorted(groups.items())), self._queues())

    def group_usage(self) -> GroupUsage:
        """Return the copy as that of a group."""
        users = sorted({line.user_name for line in self.lines})
        applications = sorted({line.application_id for line in self.lines})
        return GroupUsage(self.name, tuple(users), tuple(applications), self._queues())

    def _queues(self) -> QueueUsage:
        paths = {ROOT, *(path for shown in self.queue_paths for path in ancestors(shown))}
        queues: dict[str, _Queue] = {path: _Queue() for path in paths}
        for line in self.lines:
            for path in ancestors(line.queue_path):
                queues.setdefault(path, _Queue()).add(line)
        # Children are made before their parents: a path is longer than every path above it.
        made: dict[str, list[QueueUsage]] = {}
        for path in sorted(queues, key=lambda path: (-path.count("."), path)):
            shown = queues[path].shown(path, self.limits.get(path), made.pop(path, []))
            made.setdefault(path.rpartition(".")[0], []).append(shown)
        return made[""][0]


class _Queue:
    __slots__ = ("applications", "usage")

    def __init__(self) -> None:
        self.usage: dict[str, int] = {}
        self.applications: set[str] = set()

    def add(self, line: UsageLine) -> None:
        self.applications.add(line.application_id)
        for name, amount in line.used.items():
            self.usage[name] = self.usage.get(name, 0) + amount

    def shown(self, path: str, limit: Limit | None, children: list[QueueUsage]) -> QueueUsage:
        return QueueUsage(
            queue_path=path,
            usage=Resource(self.usage).without_zeros(),
            running_applications=tuple(sorted(self.applications)),
            max_resources=limit.resources if limit and limit.resources else None,
            max_applications=limit.applications if limit else 0,
            children=tuple(children),
        )

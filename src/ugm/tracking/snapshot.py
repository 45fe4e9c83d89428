"""Snapshots of trackers: frozen trees of usage and limits, and their JSON.

A snapshot is made in two steps. `TrackerCopy` copies the holdings and limits under the lock, and computes the tree of
queues from them after the lock has been released.

Source: Apache YuniKorn, user based resource usage tracking, "Exposure of usage tracking"; user based quota enforcement,
"Exposure of quota details". The JSON is the union of both: limits are always shown, and groups show both their users
and their applications.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from ugm._json_values import JsonObject
from ugm.counters import Limit
from ugm.identity import ROOT, ancestors
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, Holding, OwnerUsageTree, all_holdings, amounts_by_name

__all__ = ["GroupUsage", "QueueUsage", "TrackerCopy", "UsageLine", "UserUsage", "copies_of", "usage_line"]


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

"""Invariants of trackers and partitions, as functions that raise `ugm.InvariantError`.

They only use public queries, so they work with every object that has the methods of `ugm.tracking.Tracker`, and with
every partition. `verify_all` also calls the self-check of a `ugm.Manager` or a partition. `check_never_above` may run
while other threads change the object; the other checks compare several queries, so the object must not change
meanwhile.

>>> tracker = Manager()
>>> tracker.increase_tracked_resource("root.prod", "app-1", Resource(memory=4), UserGroup("sue"))
True
>>> check_sums(tracker)
>>> check_never_above(tracker)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from operator import itemgetter
from typing import Final

from ugm import InvariantError, Manager, Resource, TrackingType, UserGroup
from ugm._json_values import JsonObject
from ugm.partition import AbstractPartition
from ugm.queues import QueueState
from ugm.tracking import GroupUsage, QueueUsage, Tracker, UserUsage

__all__ = ["check_never_above", "check_sums", "exposed", "exposed_partition", "verify_all"]

_BOTH: Final = frozenset((TrackingType.USER, TrackingType.GROUP))


def exposed(tracker: Tracker) -> dict[str, JsonObject]:
    """Return the visible state of a tracker as plain dictionaries, for comparisons.

    Returns:
        ``users`` and ``groups`` by name; in each, ``queues`` by path.
    """
    return _exposed(tracker.get_users_resources(), tracker.get_groups_resources())


def _exposed(users: Iterable[UserUsage], groups: Iterable[GroupUsage]) -> dict[str, JsonObject]:
    return {
        "users": {user.user_name: {"groups": dict(user.groups), "queues": _by_path(user.queues)} for user in users},
        "groups": {
            group.group_name: {
                "users": list(group.users),
                "applications": list(group.applications),
                "queues": _by_path(group.queues),
            }
            for group in groups
        },
    }


def exposed_partition(partition: AbstractPartition) -> JsonObject:
    """Return the visible state of a partition as plain values, for comparisons.

    Returns:
        ``users`` and ``groups`` as in `exposed`; ``queues``, ``applications`` and ``allocations`` sorted by path or id;
        ``nodes`` by name; and ``over``, the exceeded limits.
    """
    root = partition.queue()
    queues = () if root is None else root.walk()
    return {
        **_exposed(partition.users(), partition.groups()),
        "queues": sorted(map(_attributes, queues), key=itemgetter("queue_path")),
        "applications": list(partition.applications()),
        "allocations": list(partition.allocations()),
        "nodes": partition.nodes(),
        "over": sorted(partition.exceeded_limits(), key=tuple.__repr__),
    }


def _attributes(queue: QueueState) -> dict[str, object]:
    """Return the attributes of a queue, with the number of its children in place of them."""
    return {field.name: getattr(queue, field.name) for field in fields(queue)} | {"children": len(queue.children)}


def _by_path(root: QueueUsage) -> dict[str, dict[str, object]]:
    return {
        queue.queue_path: {
            "usage": dict(queue.usage),
            "running_applications": list(queue.running_applications),
            "max_resources": None if queue.max_resources is None else dict(queue.max_resources),
            "max_applications": queue.max_applications,
        }
        for queue in _walk(root)
    }


def _walk(queue: QueueUsage) -> Iterator[QueueUsage]:
    yield queue
    for child in queue.children:
        yield from _walk(child)


def _raise(findings: list[str]) -> None:
    if findings:
        raise InvariantError(tuple(findings))


def _usages(checked: Tracker | AbstractPartition) -> tuple[tuple[UserUsage, ...], tuple[GroupUsage, ...]]:
    """Return the usage of all users and groups of a tracker or a partition."""
    if isinstance(checked, Tracker):
        return checked.get_users_resources(), checked.get_groups_resources()
    return checked.users(), checked.groups()


def _subjects(
    users: Iterable[UserUsage], groups: Iterable[GroupUsage]
) -> Iterator[tuple[TrackingType, str, QueueUsage]]:
    """Yield the kind, the name and the usage of each user and group."""
    yield from ((TrackingType.USER, user.user_name, user.queues) for user in users)
    yield from ((TrackingType.GROUP, group.group_name, group.queues) for group in groups)


def _total_of(checked: Tracker | AbstractPartition, kind: TrackingType, name: str) -> Resource | None:
    """Return the total of a user or group from another query."""
    is_user = kind is TrackingType.USER
    if isinstance(checked, Tracker):
        return checked.get_user_resources(UserGroup(name)) if is_user else checked.get_group_resources(name)
    utilization = checked.user_utilization(name) if is_user else checked.group_utilization(name)
    return None if utilization is None else utilization.usage


def check_sums(tracker: Tracker | AbstractPartition) -> None:
    """Check that the usage of users and groups is consistent.

    No usage is negative. The usage of a queue is at least the sum of the usages of the queues below it, and its running
    applications include theirs. The total of a user or group is the usage of its root queue. The members of a group are
    consistent with the groups of the users, and all groups together use no more than all users.

    Raises:
        InvariantError: with a message for each violated invariant.
    """
    users, groups = _usages(tracker)
    findings: list[str] = []
    for kind, name, root in _subjects(users, groups):
        findings += _sums(f"{kind} {name!r}", root)
        total = _total_of(tracker, kind, name)
        if total != root.usage:
            findings.append(f"{kind} {name!r} uses {root.usage} according to its queues, and {total} in total")
    _raise([*findings, *_members(users, groups)])


def _sums(subject: str, root: QueueUsage) -> Iterator[str]:
    for queue in _walk(root):
        for name, used in queue.usage.items():
            if used < 0:
                yield f"{subject} uses {used} {name} in {queue.queue_path}"
        below = sum((child.usage for child in queue.children), Resource())
        for name, rest in (queue.usage - below).items():
            if rest < 0 and queue.children:
                yield f"{subject} uses {-rest} {name} more below {queue.queue_path} than in it"
        running = {application for child in queue.children for application in child.running_applications}
        for application in sorted(running.difference(queue.running_applications)):
            yield f"{subject} runs {application!r} below {queue.queue_path} but not in it"
        if not queue.running_applications:
            yield f"{subject} is listed in {queue.queue_path} without a running application"


def _members(users: tuple[UserUsage, ...], groups: tuple[GroupUsage, ...]) -> Iterator[str]:
    due: dict[str, set[tuple[str, str]]] = {}
    for user in users:
        for application, group_name in user.groups.items():
            due.setdefault(group_name, set()).add((user.user_name, application))
    shown = {group.group_name: group for group in groups}
    for name in sorted(due.keys() | shown.keys()):
        members = due.get(name, set())
        group = shown.get(name)
        if group is None:
            yield f"group {name!r} is not tracked, but has charged users"
            continue
        if set(group.users) != {user for user, _ in members}:
            yield f"group {name!r} lists other users than its charged users"
        if set(group.applications) != {application for _, application in members}:
            yield f"group {name!r} lists other applications than its charged applications"
    everything = sum((user.queues.usage for user in users), Resource())
    grouped = sum((group.queues.usage for group in groups), Resource())
    for name, ungrouped in (everything - grouped).items():
        if ungrouped < 0:
            yield f"the groups use {-ungrouped} {name} more than the users"


def check_never_above(tracker: Tracker | AbstractPartition, kinds: Collection[TrackingType] = _BOTH) -> None:
    """Check that no user and no group exceeds a limit.

    That is an invariant as long as no allocation was adopted and no limit was lowered. With
    ``group_limits="unless-user-limited"``, it is only an invariant of users.

    Args:
        tracker: the tracker or partition. The ``exceeded_limits`` of a partition also report exceeded queue quotas.
        kinds: users, groups, or both.

    Raises:
        InvariantError: with a message for each exceeded limit.
    """
    subjects = [subject for subject in _subjects(*_usages(tracker)) if subject[0] in kinds]
    _raise([message for kind, name, root in subjects for message in _above(f"{kind} {name!r}", root)])


def _above(subject: str, root: QueueUsage) -> Iterator[str]:
    for queue in _walk(root):
        for name, most in (queue.max_resources or Resource()).items():
            used = queue.usage.get(name, 0)
            if used > most:
                yield f"{subject} uses {used} {name} in {queue.queue_path}, where the limit is {most}"
        running = len(queue.running_applications)
        if 0 < queue.max_applications < running:
            limit = f"where the limit is {queue.max_applications}"
            yield f"{subject} runs {running} applications in {queue.queue_path}, {limit}"


def verify_all(tracker: Tracker | AbstractPartition) -> None:
    """Check all invariants: `check_sums`, and the self-check of a `ugm.Manager` or a partition.

    Raises:
        InvariantError: with a message for each violated invariant.
    """
    if isinstance(tracker, Manager) or not isinstance(tracker, Tracker):
        tracker.verify()
    check_sums(tracker)

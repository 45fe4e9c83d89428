"""Invariants of trackers and partitions, as functions that raise `ugm.InvariantError`.

They only use public queries, so they work with every object that has the methods of `ugm.tracking.Tracker`, and with
every partition. They may run while other threads change the object.

>>> from ugm import Manager, Resource, UserGroup
>>> tracker = Manager()
>>> tracker.increase_tracked_resource("root.prod", "app-1", Resource(memory=4), UserGroup("sue"))
True
>>> verify_all(tracker)
>>> check_never_above(tracker)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from operator import itemgetter
from typing import Final

from ugm import InvariantError, Manager, Resource, TrackingType
from ugm._json_values import JsonObject
from ugm.partition import AbstractPartition
from ugm.queues import QueueState
from ugm.tracking import GroupUsage, QueueUsage, Tracker, UserUsage

__all__ = ["check_never_above", "exposed", "exposed_partition", "verify_all"]

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
    findings = [message for kind, name, root in subjects for message in _above(f"{kind} {name!r}", root)]
    if findings:
        raise InvariantError(tuple(findings))


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
    """Recompute every counter of a `ugm.Manager` or a partition. Other trackers have no self-check.

    Raises:
        InvariantError: with a message for each wrong counter.
    """
    if isinstance(tracker, Manager) or not isinstance(tracker, Tracker):
        tracker.verify()

"""What is seen of a partition: users, groups, queues, applications, allocations, nodes, and what has happened.

Every function returns one answer for JSON, and every answer shows the partition at one moment. Large answers are made
from a snapshot: the lock of the partition is held while it is copied, and not while anything is put together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice, zip_longest
from typing import Any, Final

from ugm.identity import ancestors, canonical_path, is_below
from ugm.partition import ApplicationInfo, LimitUtilization, PartitionSettings, PartitionSnapshot, Pending
from ugm.queues import QueueState
from ugm.resources import Resource, as_float
from ugm.server.cooperative import cooperatively
from ugm.server.errors import unknown
from ugm.server.state import RequestContext

__all__ = [
    "allocation",
    "allocations",
    "applications",
    "closest",
    "group",
    "group_standings",
    "groups",
    "history",
    "natural",
    "nodes",
    "partition_dict",
    "queue",
    "queues",
    "user",
    "user_standings",
    "users",
]

#: How many lines a list has when nobody says so.
_USUAL: Final = 100
_DIGITS: Final = re.compile("([0-9]+)")


# Users and groups


def users(asked: RequestContext) -> object:
    """Return what every user uses, as the documents show it."""
    snapshot = asked.snapshot()
    return [told.to_dict() for name in cooperatively(snapshot.user_names) if (told := snapshot.user(name)) is not None]


def groups(asked: RequestContext) -> object:
    """Return what every group uses, as the documents show it."""
    snapshot = asked.snapshot()
    return [
        told.to_dict() for name in cooperatively(snapshot.group_names) if (told := snapshot.group(name)) is not None
    ]


def user(asked: RequestContext) -> object:
    """Return what one user uses, as the documents show it."""
    found = asked.partition.user_usage(asked.path["name"])
    if found is None:
        raise unknown("user", asked.path["name"])
    return found.to_dict()


def group(asked: RequestContext) -> object:
    """Return what one group uses, as the documents show it."""
    found = asked.partition.group(asked.path["name"])
    if found is None:
        raise unknown("group", asked.path["name"])
    return found.to_dict()


def user_standings(asked: RequestContext) -> object:
    """Return the users that are closest to a limit."""
    snapshot = asked.snapshot()
    total, names = _page(snapshot.user_names, snapshot.user_share, asked.query)
    pending = snapshot.pending_of_users
    return {"total": total, "standings": [_standing_dict(snapshot.user_utilization(name), pending) for name in names]}


def group_standings(asked: RequestContext) -> object:
    """Return the groups that are closest to a limit."""
    snapshot = asked.snapshot()
    total, names = _page(snapshot.group_names, snapshot.group_share, asked.query)
    # An application with nothing but pending allocations has not chosen a group yet.
    return {"total": total, "standings": [_standing_dict(snapshot.group_utilization(name), {}) for name in names]}


def _page(names: Sequence[str], share: Callable[[str], float], query: Mapping[str, Any]) -> tuple[int, Sequence[str]]:
    """Return how many names fit a query, and the names on its page."""
    text, skip = query.get("find", "").lower(), query.get("skip", 0)
    found = [name for name in names if text in name.lower()] if text else names
    return len(found), closest(found, share, skip + query.get("most", _USUAL))[skip:]


def closest(names: Iterable[str], share: Callable[[str], float], most: int) -> list[str]:
    """Return the names with the largest shares, the largest first; equal ones in the order that people expect."""
    ranked = ((-share(name), natural(name), name) for name in cooperatively(names))
    return [name for _, _, name in nsmallest(most, ranked)]


def natural(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a key that sorts ``team2`` before ``team10``."""
    parts = _DIGITS.split(name.casefold())
    # Text and digits alternate. Numbers are compared by their length first: they may have very many digits.
    numbers = [part.lstrip("0") for part in parts[1::2]]
    return tuple((text, len(number), number) for text, number in zip_longest(parts[::2], numbers, fillvalue=""))


def _standing_dict(standing: LimitUtilization, pending: Mapping[str, Pending]) -> dict[str, Any]:
    waiting = pending.get(standing.name)
    return {
        **standing.to_dict(),
        "pending": dict(waiting.amounts) if waiting else {},
        "pending_allocations": waiting.allocations if waiting else 0,
    }


# Queues


def queues(asked: RequestContext) -> object:
    """Return all queues as a tree, with what is used and pending in and below each."""
    snapshot = asked.snapshot()
    root = snapshot.queue()
    return None if root is None else _queue_dict(root, snapshot.pending_in_queues)


def queue(asked: RequestContext) -> object:
    """Return one queue with those below it, the headroom there, and the limits that are set on it."""
    snapshot, path = asked.snapshot(), canonical_path(asked.path["queue_path"])
    found = snapshot.queue(path)
    if found is None:
        raise unknown("queue", path)
    return {
        **_queue_dict(found, snapshot.pending_in_queues),
        "headroom": _plain(snapshot.queue_headroom(path)),
        "maximum": _plain(snapshot.queue_maximum(path)),
        "limits": list(_configured(snapshot.config, path)),
    }


def _queue_dict(state: QueueState, pending: Mapping[str, Pending]) -> dict[str, Any]:
    children = [_queue_dict(child, pending) for child in cooperatively(state.children)]
    waiting = pending.get(state.queue_path)
    share = state.share
    return {
        "queue_path": state.queue_path,
        "is_leaf": state.is_leaf,
        "is_managed": state.is_managed,
        "is_draining": state.is_draining,
        "max_resources": _plain(state.max_resources),
        "max_applications": state.max_applications,
        "guaranteed": _plain(state.guaranteed),
        "usage": dict(state.usage),
        "share": None if share is None else as_float(share),
        "running_applications": state.running_applications,
        "applications": len(state.applications) + sum(child["applications"] for child in children),
        "pending": dict(sorted(waiting.amounts.items())) if waiting else {},
        "pending_allocations": waiting.allocations if waiting else 0,
        "children": children,
    }


def _plain(amounts: Resource | None) -> dict[str, int] | None:
    return None if amounts is None else dict(amounts)


def _configured(config: PartitionSettings | None, path: str) -> Iterator[dict[str, Any]]:
    """Yield the limits that the configuration sets on a queue."""
    found = None if config is None else config.root
    for above in list(reversed(list(ancestors(path))))[1:]:
        name = above.rpartition(".")[2]
        found = next((queue for queue in (found.queues if found else ()) if queue.name.lower() == name), None)
    for entry in found.limits if found else ():
        yield {
            "users": list(entry.users),
            "groups": list(entry.groups),
            "max_resources": _plain(entry.max_resources),
            "max_applications": entry.max_applications,
            "label": getattr(entry, "label", ""),
        }


# Applications and allocations


def applications(asked: RequestContext) -> object:
    """Return applications in the order of their ids, a page at a time."""
    partition, query = asked.partition, asked.query
    after = query.get("after", "")
    fitting = (
        name
        for name in cooperatively(partition.application_ids())
        if name > after and (told := partition.application(name)) is not None and _fits(told, query)
    )
    page, following = _cut(fitting, query)
    # The page is read again in one piece: one that has ended since, or does not fit any more, is left out.
    found = [told.to_dict() for told in partition.applications_by_id(page) if _fits(told, query)]
    return {"applications": found, "next": following}


def _cut(names: Iterator[str], query: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """Return the names of a page, and the last of them if there are more."""
    page = list(islice(names, query.get("most", _USUAL)))
    return page, page[-1] if next(names, None) is not None else None


def _fits(told: ApplicationInfo, query: Any) -> bool:  # noqa: ANN401 - checked against the description
    if "queue" in query and not is_below(told.queue_path, query["queue"].lower()):
        return False
    asked = (("user", told.user.name), ("group", told.group), ("state", told.state))
    return all(query.get(name, value) == value for name, value in asked)


def allocations(asked: RequestContext) -> object:
    """Return allocations with those who hold them, in the order of their ids, a page at a time."""
    partition, query = asked.partition, asked.query
    after, application_id = query.get("after", ""), query.get("application")
    if application_id is None:
        names = iter(partition.allocation_ids())
    elif partition.application(application_id) is None:
        raise unknown("application", application_id)
    else:
        names = (told.allocation_id for told in partition.allocations(application_id))
    page, following = _cut((name for name in cooperatively(names) if name > after), query)
    # As for applications. An id may belong to another application by now.
    found = [
        told.to_dict()
        for told in partition.allocations_by_id(page)
        if application_id in (None, told.allocation.application_id)
    ]
    return {"allocations": found, "next": following}


def allocation(asked: RequestContext) -> object:
    """Return one allocation with who holds it."""
    found = asked.partition.allocations_by_id([asked.path["name"]])
    if not found:
        raise unknown("allocation", asked.path["name"])
    return found[0].to_dict()


# The rest


def nodes(asked: RequestContext) -> object:
    """Return what every registered node offers."""
    return {name: dict(offers) for name, offers in asked.partition.nodes().items()}


def history(asked: RequestContext) -> object:
    """Return the newest events, oldest first."""
    query = asked.query
    page = asked.history.page(after=query.get("after", 0), kind=query.get("kind"), most=query.get("most", _USUAL))
    return {"newest": page.newest, "told": page.told, "records": [record.to_dict() for record in page.records]}


def partition_dict(name: str, snapshot: PartitionSnapshot, *, has_history: bool) -> dict[str, Any]:
    """Return a partition in a few figures."""
    return {
        "name": name,
        "usage": dict(sorted(snapshot.usage().items())),
        "cluster": _plain(snapshot.cluster),
        "users": len(snapshot.user_names),
        "groups": len(snapshot.group_names),
        "queues": len(snapshot.queue_paths),
        "applications": snapshot.application_count,
        "allocations": snapshot.allocation_count,
        "nodes": len(snapshot.nodes),
        "has_history": has_history,
    }

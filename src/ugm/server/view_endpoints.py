"""Endpoints that show a partition: users, groups, queues, applications, allocations, nodes and the history.

Each response shows the partition at one moment. Large responses are created from a snapshot: the lock of the partition
is held while the state is copied, and not while the response is put together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice, zip_longest
from typing import Final, TypedDict

from ugm.configuration import PartitionConfig
from ugm.identity import ancestors, canonical_path, is_below
from ugm.partition import ApplicationInfo, LimitUtilization, PartitionSnapshot, Pending
from ugm.queues import QueueState
from ugm.resources import Resource, as_float
from ugm.server.cooperative import cooperatively
from ugm.server.errors import unknown
from ugm.server.state import Query, RequestContext, ServedPartition

__all__ = [
    "allocation",
    "allocations",
    "applications",
    "closest",
    "group",
    "group_utilization",
    "groups",
    "history",
    "natural_key",
    "nodes",
    "partition_dict",
    "queue",
    "queues",
    "user",
    "user_utilization",
    "users",
]

#: The default size of a page.
_DEFAULT_PAGE: Final = 100
_DIGITS: Final = re.compile("([0-9]+)")


# Users and groups


def users(served: ServedPartition, request: RequestContext) -> object:
    """Return the usage of every user, in the form of the design documents."""
    snapshot = served.snapshot(request.arrived)
    names = cooperatively(snapshot.user_names)
    return [usage.to_dict() for name in names if (usage := snapshot.user(name)) is not None]


def groups(served: ServedPartition, request: RequestContext) -> object:
    """Return the usage of every group, in the form of the design documents."""
    snapshot = served.snapshot(request.arrived)
    names = cooperatively(snapshot.group_names)
    return [usage.to_dict() for name in names if (usage := snapshot.group(name)) is not None]


def user(served: ServedPartition, request: RequestContext) -> object:
    """Return the usage of one user, in the form of the design documents."""
    name = request.path["name"]
    found = served.partition.user_usage(name)
    if found is None:
        raise unknown("user", name)
    return found.to_dict()


def group(served: ServedPartition, request: RequestContext) -> object:
    """Return the usage of one group, in the form of the design documents."""
    name = request.path["name"]
    found = served.partition.group(name)
    if found is None:
        raise unknown("group", name)
    return found.to_dict()


def user_utilization(served: ServedPartition, request: RequestContext) -> object:
    """Return a page of the users that are closest to a limit."""
    snapshot = served.snapshot(request.arrived)
    total, names = _page(snapshot.user_names, snapshot.user_share, request.query)
    pending = snapshot.pending_of_users
    return {
        "total": total,
        "standings": [_utilization_dict(snapshot.user_utilization(name), pending) for name in names],
    }


def group_utilization(served: ServedPartition, request: RequestContext) -> object:
    """Return a page of the groups that are closest to a limit."""
    snapshot = served.snapshot(request.arrived)
    total, names = _page(snapshot.group_names, snapshot.group_share, request.query)
    # An application that has only pending allocations is not assigned to a group yet.
    return {"total": total, "standings": [_utilization_dict(snapshot.group_utilization(name), {}) for name in names]}


def _page(names: Sequence[str], share: Callable[[str], float], query: Query) -> tuple[int, Sequence[str]]:
    """Return the number of names that match a query, and one page of them."""
    text, skip = query.get("find", "").lower(), query.get("skip", 0)
    found = [name for name in names if text in name.lower()] if text else names
    return len(found), closest(found, share, skip + query.get("most", _DEFAULT_PAGE))[skip:]


def closest(names: Iterable[str], share: Callable[[str], float], most: int) -> list[str]:
    """Return the names with the largest shares, the largest first; names with equal shares are in natural order."""
    ranked = ((-share(name), natural_key(name), name) for name in cooperatively(names))
    return [name for _, _, name in nsmallest(most, ranked)]


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a sort key that puts ``team2`` before ``team10``."""
    parts = _DIGITS.split(name.casefold())
    # Text and digits alternate. Numbers stay texts, because they may have any length; longer ones are larger.
    numbers = [part.lstrip("0") for part in parts[1::2]]
    return tuple((text, len(number), number) for text, number in zip_longest(parts[::2], numbers, fillvalue=""))


def _utilization_dict(utilization: LimitUtilization, pending: Mapping[str, Pending]) -> dict[str, object]:
    waiting = pending.get(utilization.name)
    return {
        **utilization.to_dict(),
        "pending": dict(waiting.amounts) if waiting else {},
        "pending_allocations": waiting.allocations if waiting else 0,
    }


# Queues


class _QueueDict(TypedDict):
    """A queue for JSON, with the queues below it."""

    queue_path: str
    is_leaf: bool
    is_managed: bool
    is_draining: bool
    max_resources: dict[str, int] | None
    max_applications: int
    guaranteed: dict[str, int] | None
    usage: dict[str, int]
    share: float | None
    running_applications: int
    applications: int
    pending: dict[str, int]
    pending_allocations: int
    children: list[_QueueDict]


def queues(served: ServedPartition, request: RequestContext) -> object:
    """Return all queues as a tree, with the usage and the pending amounts in and below each."""
    snapshot = served.snapshot(request.arrived)
    root = snapshot.queue()
    return None if root is None else _queue_dict(root, snapshot.pending_in_queues)


def queue(served: ServedPartition, request: RequestContext) -> object:
    """Return one queue with the queues below it, its headroom and its configured limits."""
    snapshot, path = served.snapshot(request.arrived), canonical_path(request.path["queue_path"])
    found = snapshot.queue(path)
    if found is None:
        raise unknown("queue", path)
    return {
        **_queue_dict(found, snapshot.pending_in_queues),
        "headroom": _amounts_dict(snapshot.queue_headroom(path)),
        "maximum": _amounts_dict(snapshot.queue_maximum(path)),
        "limits": list(_configured_limits(snapshot.config, path)),
    }


def _queue_dict(state: QueueState, all_pending: Mapping[str, Pending]) -> _QueueDict:
    children = [_queue_dict(child, all_pending) for child in cooperatively(state.children)]
    pending, share = all_pending.get(state.queue_path), state.share
    return {
        "queue_path": state.queue_path,
        "is_leaf": state.is_leaf,
        "is_managed": state.is_managed,
        "is_draining": state.is_draining,
        "max_resources": _amounts_dict(state.max_resources),
        "max_applications": state.max_applications,
        "guaranteed": _amounts_dict(state.guaranteed),
        "usage": dict(state.usage),
        "share": None if share is None else as_float(share),
        "running_applications": state.running_applications,
        "applications": len(state.applications) + sum(child["applications"] for child in children),
        "pending": dict(sorted(pending.amounts.items())) if pending else {},
        "pending_allocations": pending.allocations if pending else 0,
        "children": children,
    }


def _amounts_dict(amounts: Resource | None) -> dict[str, int] | None:
    return None if amounts is None else dict(amounts)


def _configured_limits(config: PartitionConfig | None, path: str) -> Iterator[dict[str, object]]:
    """Yield the limits that the configuration sets on a queue."""
    found = None if config is None else config.root
    for above in list(reversed(list(ancestors(path))))[1:]:
        name = above.rpartition(".")[2]
        found = next((queue for queue in (found.queues if found else ()) if queue.name.lower() == name), None)
    for entry in found.limits if found else ():
        yield {
            "users": list(entry.users),
            "groups": list(entry.groups),
            "max_resources": _amounts_dict(entry.max_resources),
            "max_applications": entry.max_applications,
            "label": getattr(entry, "label", ""),
        }


# Applications and allocations


def applications(served: ServedPartition, request: RequestContext) -> object:
    """Return a page of applications, ordered by id."""
    partition, query = served.partition, request.query
    after = str(query.get("after", ""))
    matching = (
        name
        for name in cooperatively(partition.application_ids())
        if name > after and (info := partition.application(name)) is not None and _matches(info, query)
    )
    page, following = _first_page(matching, query)
    # The page is read again at one moment, without applications that have ended or changed since.
    found = [info.to_dict() for info in partition.applications_by_id(page) if _matches(info, query)]
    return {"applications": found, "next": following}


def _first_page(names: Iterator[str], query: Query) -> tuple[list[str], str | None]:
    """Return the names of a page, and the last of them if more names follow."""
    page = list(islice(names, query.get("most", _DEFAULT_PAGE)))
    return page, page[-1] if next(names, None) is not None else None


def _matches(info: ApplicationInfo, query: Query) -> bool:
    if "queue" in query and not is_below(info.queue_path, query["queue"].lower()):
        return False
    fields = (("user", info.user.name), ("group", info.group), ("state", info.state))
    return all(query.get(name, value) == value for name, value in fields)


def allocations(served: ServedPartition, request: RequestContext) -> object:
    """Return a page of allocations with their holders, ordered by id."""
    partition, query = served.partition, request.query
    after, application_id = str(query.get("after", "")), query.get("application")
    if application_id is None:
        names = iter(partition.allocation_ids())
    elif partition.application(application_id) is None:
        raise unknown("application", application_id)
    else:
        names = (info.allocation_id for info in partition.allocations(application_id))
    page, following = _first_page((name for name in cooperatively(names) if name > after), query)
    # As for applications. Another application may have reused an id since.
    found = [
        info.to_dict()
        for info in partition.allocations_by_id(page)
        if application_id in (None, info.allocation.application_id)
    ]
    return {"allocations": found, "next": following}


def allocation(served: ServedPartition, request: RequestContext) -> object:
    """Return one allocation with its holder."""
    found = served.partition.allocations_by_id([request.path["name"]])
    if not found:
        raise unknown("allocation", request.path["name"])
    return found[0].to_dict()


# Nodes, history, summary


def nodes(served: ServedPartition, _request: RequestContext) -> object:
    """Return the resources of every registered node."""
    return {name: dict(capacity) for name, capacity in served.partition.nodes().items()}


def history(served: ServedPartition, request: RequestContext) -> object:
    """Return the newest events, oldest first."""
    query = request.query
    after, most = int(query.get("after", 0)), query.get("most", _DEFAULT_PAGE)
    page = served.history.page(after=after, kind=query.get("kind"), most=most)
    return {"newest": page.newest, "told": page.counts, "records": [record.to_dict() for record in page.records]}


def partition_dict(name: str, snapshot: PartitionSnapshot, *, has_history: bool) -> dict[str, object]:
    """Return a summary of a partition."""
    return {
        "name": name,
        "usage": dict(sorted(snapshot.usage().items())),
        "cluster": _amounts_dict(snapshot.cluster),
        "users": len(snapshot.user_names),
        "groups": len(snapshot.group_names),
        "queues": len(snapshot.queue_paths),
        "applications": snapshot.application_count,
        "allocations": snapshot.allocation_count,
        "nodes": len(snapshot.nodes),
        "has_history": has_history,
    }

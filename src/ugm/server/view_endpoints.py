"""Endpoints that show a partition: users, groups, queues, applications, allocations, nodes, history and service.

Each response shows the partition at one moment. Large responses are created from a snapshot: the lock of the partition
is held while the state is copied, and not while the response is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from typing import Any, Final

from ugm.configuration import PartitionConfig
from ugm.identity import canonical_path, is_below
from ugm.partition import ApplicationInfo, Pending
from ugm.queues import QueueState
from ugm.resources import Resource
from ugm.server.cooperative import cooperatively
from ugm.server.natural_order import natural_key
from ugm.server.payloads import require_found
from ugm.server.state import Query, RequestContext, ServedPartition

__all__ = [
    "allocation",
    "allocations",
    "applications",
    "group",
    "group_utilization",
    "groups",
    "history",
    "nodes",
    "partition",
    "queue",
    "queues",
    "service",
    "user",
    "user_utilization",
    "users",
]

#: The default size of a page.
_DEFAULT_PAGE: Final = 100


# Users and groups


def users(served: ServedPartition, request: RequestContext) -> object:
    """List usage and limits of every user per queue, in the format of Apache YuniKorn."""
    snapshot = served.snapshot(request.arrived)
    return [usage.to_dict() for name in cooperatively(snapshot.user_names) if (usage := snapshot.user(name))]


def groups(served: ServedPartition, request: RequestContext) -> object:
    """List usage and limits of every group per queue, in the format of Apache YuniKorn."""
    snapshot = served.snapshot(request.arrived)
    return [usage.to_dict() for name in cooperatively(snapshot.group_names) if (usage := snapshot.group(name))]


def user(served: ServedPartition, request: RequestContext) -> object:
    """Return usage and limits of one user per queue, in the format of Apache YuniKorn."""
    return require_found("user", request.path["name"], served.partition.user_usage).to_dict()


def group(served: ServedPartition, request: RequestContext) -> object:
    """Return usage and limits of one group per queue, in the format of Apache YuniKorn."""
    return require_found("group", request.path["name"], served.partition.group).to_dict()


def user_utilization(served: ServedPartition, request: RequestContext) -> object:
    """List the users that are closest to a limit, the closest first, or in another order."""
    snapshot = served.snapshot(request.arrived)
    pending = snapshot.pending_of_users
    rank = _rank(request.query, snapshot.user_share, snapshot.user_amount, pending)
    total, names = _page(snapshot.user_names, rank, request.query)
    utilizations = [{**snapshot.user_utilization(name).to_dict(), **_pending_dict(pending.get(name))} for name in names]
    return {"total": total, "standings": utilizations}


def group_utilization(served: ServedPartition, request: RequestContext) -> object:
    """List the groups that are closest to a limit, the closest first, or in another order."""
    snapshot = served.snapshot(request.arrived)
    rank = _rank(request.query, snapshot.group_share, snapshot.group_amount, {})
    total, names = _page(snapshot.group_names, rank, request.query)
    # An application that has only pending allocations is not assigned to a group yet.
    utilizations = [{**snapshot.group_utilization(name).to_dict(), **_pending_dict(None)} for name in names]
    return {"total": total, "standings": utilizations}


def _pending_dict(pending: Pending | None) -> dict[str, object]:
    return {
        "pending": dict(sorted(pending.amounts.items())) if pending else {},
        "pending_allocations": pending.allocations if pending else 0,
    }


def _rank(
    query: Query,
    share: Callable[[str], float],
    amount: Callable[[str, str | None], int],
    pending: Mapping[str, Pending],
) -> Callable[[str], float]:
    """Return the number by which names are sorted, the largest first; equal ones are in natural order."""
    sort = query.get("sort", "share")
    if sort == "name":
        return lambda _name: 0
    if sort == "pending":
        return lambda name: pending[name].allocations if name in pending else 0
    if sort == "share":
        return share
    resource = None if sort == "applications" else query.get("resource", "")
    return lambda name: amount(name, resource)


def _page(names: Sequence[str], rank: Callable[[str], float], query: Query) -> tuple[int, Sequence[str]]:
    """Return the number of names that match a query, and one page of them."""
    text, skip = query.get("find", "").lower(), query.get("skip", 0)
    found = [name for name in names if text in name.lower()] if text else names
    return len(found), _first(found, rank, skip + query.get("most", _DEFAULT_PAGE))[skip:]


def _first(names: Iterable[str], rank: Callable[[str], float], most: int) -> list[str]:
    """Return the names with the largest ranks, the largest first; names with equal ranks are in natural order."""
    ranked = ((-rank(name), natural_key(name), name) for name in cooperatively(names))
    return [name for _, _, name in nsmallest(most, ranked)]


# Queues


def queues(served: ServedPartition, request: RequestContext) -> object:
    """Return all queues as a tree, with the usage and the pending amounts in and below each."""
    snapshot = served.snapshot(request.arrived)
    root = snapshot.queue()
    return None if root is None else _queue_dict(root, snapshot.pending_in_queues)


def queue(served: ServedPartition, request: RequestContext) -> object:
    """Return one queue with the queues below it, its headroom and its configured limits."""
    snapshot, path = served.snapshot(request.arrived), canonical_path(request.path["queue_path"])
    return {
        **_queue_dict(require_found("queue", path, snapshot.queue), snapshot.pending_in_queues),
        "headroom": _amounts_dict(snapshot.queue_headroom(path)),
        "maximum": _amounts_dict(snapshot.queue_maximum(path)),
        "limits": list(_configured_limits(snapshot.config, path)),
    }


def _queue_dict(state: QueueState, all_pending: Mapping[str, Pending]) -> dict[str, Any]:
    children = [_queue_dict(child, all_pending) for child in cooperatively(state.children)]
    return {
        **replace(state, children=()).to_dict(),
        **_pending_dict(all_pending.get(state.queue_path)),
        "applications": len(state.applications) + sum(child["applications"] for child in children),
        "children": children,
    }


def _amounts_dict(amounts: Resource | None) -> dict[str, int] | None:
    return None if amounts is None else dict(amounts)


def _configured_limits(config: PartitionConfig | None, path: str) -> Iterator[dict[str, object]]:
    """Yield the limits that the configuration sets on a queue."""
    configured = {} if config is None else dict(config.root.walk())
    for limit in configured[path].limits if path in configured else ():
        yield {
            "users": limit.users,
            "groups": limit.groups,
            "max_resources": _amounts_dict(limit.max_resources),
            "max_applications": limit.max_applications,
            "label": limit.label,
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
    else:
        require_found("application", application_id, partition.application)
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
    name, find = request.path["name"], served.partition.allocations_by_id
    return require_found("allocation", name, lambda name: next(iter(find([name])), None)).to_dict()


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


def service(served: ServedPartition, _request: RequestContext) -> object:
    """Return the status of the service: the leader, its standbys, its clients and its commits."""
    return served.service.to_dict()


def partition(served: ServedPartition, request: RequestContext) -> object:
    """Return a summary of one partition."""
    snapshot = served.snapshot(request.arrived)
    return {
        "name": served.name,
        "usage": dict(sorted(snapshot.usage().items())),
        "cluster": _amounts_dict(snapshot.cluster),
        "users": len(snapshot.user_names),
        "groups": len(snapshot.group_names),
        "queues": len(snapshot.queue_paths),
        "applications": snapshot.application_count,
        "allocations": snapshot.allocation_count,
        "nodes": len(snapshot.nodes),
        "has_history": served.has_history,
        "has_service": served.has_service,
    }

"""Endpoints that show a partition: users, groups, queues, applications, allocations, nodes, history and service.

Each response shows the partition at one moment. Large responses are created from a snapshot: the lock of the partition
is held while the state is copied, and not while the response is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple

from ugm.configuration import PartitionConfig
from ugm.identity import ROOT, canonical_path, is_below
from ugm.partition import ApplicationInfo, LimitUtilization, PartitionSnapshot, UsageSum
from ugm.partition.line_index import LineIndex
from ugm.partition.snapshot_parts import PendingLine
from ugm.resources import Resource
from ugm.server.cooperative import cooperatively
from ugm.server.natural_order import natural_key
from ugm.server.payloads import Payload, json_payload, require_found
from ugm.server.queue_rows import extended, pending_fields
from ugm.server.state import Query, RequestContext, ServedPartition
from ugm.tracking.snapshot import UsageLine

__all__ = [
    "allocation",
    "allocations",
    "applications",
    "group_utilization",
    "history",
    "nodes",
    "overdue",
    "partition",
    "queue",
    "queues",
    "scheduled_changes",
    "service",
    "user_utilization",
]

#: The default size of a page.
_DEFAULT_PAGE: Final = 100
#: The default number of scheduled changes.
_DEFAULT_CHANGES: Final = 10
#: The number of applications that are read at one time.
_BLOCK: Final = 200


# Users and groups


def user_utilization(served: ServedPartition, request: RequestContext) -> object:
    """List the users that are closest to a limit, the closest first, or in another order."""
    snapshot = served.snapshot(request.arrived)
    usage, pending = _sums(snapshot, request.query)
    names = sorted(usage.users.keys() | pending.users.keys())
    owners = _Owners(names, usage.users, pending.users, snapshot.user_share, snapshot.user_utilization)
    return _utilizations(owners, request.query)


def group_utilization(served: ServedPartition, request: RequestContext) -> object:
    """List the groups that are closest to a limit, the closest first, or in another order."""
    snapshot = served.snapshot(request.arrived)
    usage, pending = _sums(snapshot, request.query)
    # An application that has only pending allocations is not assigned to a group yet.
    owners = _Owners(
        sorted(usage.groups), usage.groups, pending.groups, snapshot.group_share, snapshot.group_utilization
    )
    return _utilizations(owners, request.query)


class _Owners(NamedTuple):
    """Users or groups, with their usage in and below the queue of a query."""

    names: Sequence[str]
    usage: Mapping[str, UsageSum]
    pending: Mapping[str, UsageSum]
    share: Callable[[str], float]
    utilization: Callable[[str], LimitUtilization]


def _sums(snapshot: PartitionSnapshot, query: Query) -> tuple[LineIndex[UsageLine], LineIndex[PendingLine]]:
    """Return the sums in and below the queue of a query, or in all queues."""
    path = canonical_path(query.get("queue", ROOT))
    require_found("queue", path, snapshot.queue)
    return snapshot.sums_below(path)


def _utilizations(owners: _Owners, query: Query) -> object:
    total, names = _page(owners.names, _rank(query, owners), query)
    return {"total": total, "utilizations": [_utilization(owners, name) for name in names]}


def _utilization(owners: _Owners, name: str) -> dict[str, object]:
    """Return the nearest limit of an owner, which counts all queues, and its usage in the queue."""
    used = owners.usage.get(name, UsageSum(0, Resource()))
    found = replace(owners.utilization(name), usage=used.amounts, running_applications=used.item_count)
    return {**found.to_dict(), **pending_fields(owners.pending.get(name))}


def _rank(query: Query, owners: _Owners) -> Callable[[str], float]:
    """Return the sort key of names: the largest comes first, and equal ones are in natural order."""
    sort, resource = query.get("sort", "share"), query.get("resource", "")
    if sort == "name":
        return lambda _name: 0
    if sort == "pending":
        return lambda name: owners.pending[name].item_count if name in owners.pending else 0
    if sort == "share":
        return owners.share
    if sort == "applications":
        return lambda name: owners.usage[name].item_count if name in owners.usage else 0
    return lambda name: owners.usage[name].amounts.get(resource, 0) if name in owners.usage else 0


def _page(names: Sequence[str], rank: Callable[[str], float], query: Query) -> tuple[int, Sequence[str]]:
    """Return the number of names that match a query, and one page of them."""
    text, offset = query.get("search", "").lower(), query.get("offset", 0)
    found = [name for name in names if text in name.lower()] if text else names
    return len(found), _first(found, rank, offset + query.get("limit", _DEFAULT_PAGE))[offset:]


def _first(names: Iterable[str], rank: Callable[[str], float], most: int) -> list[str]:
    """Return the names with the largest ranks, the largest first; names with equal ranks are in natural order."""
    ranked = ((-rank(name), natural_key(name), name) for name in cooperatively(names))
    return [name for _, _, name in nsmallest(most, ranked)]


# Queues


def queues(served: ServedPartition, request: RequestContext) -> object:
    """Return all queues as a tree, with the usage and the pending amounts in and below each."""
    _, rows = served.queue_rows(request.arrived)
    return Payload(200, rows[ROOT].tree) if ROOT in rows else None


def queue(served: ServedPartition, request: RequestContext) -> object:
    """Return one queue with the queues below it, its headroom and its configured limits."""
    path = canonical_path(request.path["queue_path"])
    snapshot, rows = served.queue_rows(request.arrived)
    row = require_found("queue", path, rows.get)
    more = {
        "headroom": _amounts_dict(snapshot.queue_headroom(path)),
        "maximum": _amounts_dict(snapshot.queue_maximum(path)),
        "limits": list(_configured_limits(snapshot.config, path)),
    }
    return Payload(200, extended(row.tree, json_payload(more).content))


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
    """Return a page of applications, ordered by id; ``search`` selects by ids, users, groups, queues and tags."""
    partition, query = served.partition, request.query
    after = str(query.get("after", ""))
    names = [name for name in partition.application_ids() if name > after and _is_old(served, name, query)]
    blocks = (names[at : at + _BLOCK] for at in range(0, len(names), _BLOCK))
    infos = (info for block in blocks for info in cooperatively(partition.applications_by_id(block)))
    page, following = _first_page((info.application_id for info in infos if _matches(info, query)), query)
    # The page is read again at one moment, without applications that have ended or changed since.
    found = [
        {**info.to_dict(), "submitted_at": served.submitted_at(info.application_id)}
        for info in partition.applications_by_id(page)
        if _matches(info, query)
    ]
    return {"applications": found, "next": following}


def _is_old(served: ServedPartition, application_id: str, query: Query) -> bool:
    """Return whether an application was submitted at least the requested number of seconds ago."""
    if "older_than" not in query:
        return True
    at = served.submitted_at(application_id)
    return at is not None and served.now() - at >= query["older_than"]


def _first_page(names: Iterator[str], query: Query) -> tuple[list[str], str | None]:
    """Return the names of a page, and the last of them if more names follow."""
    page = list(islice(names, query.get("limit", _DEFAULT_PAGE)))
    return page, page[-1] if next(names, None) is not None else None


def _matches(info: ApplicationInfo, query: Query) -> bool:
    if "queue" in query and not is_below(info.queue_path, query["queue"].lower()):
        return False
    text = query.get("search", "").lower()
    if text and not any(text in name.lower() for name in _searched(info)):
        return False
    fields = (("user", info.user.name), ("group", info.group), ("state", info.state))
    return all(query.get(name, value) == value for name, value in fields)


def _searched(info: ApplicationInfo) -> Iterator[str]:
    yield from (info.application_id, info.user.name, info.queue_path, info.group or "")
    yield from info.tags.values()


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


def overdue(served: ServedPartition, request: RequestContext) -> object:
    """Return the first overdue allocations and their owners, sorted by end and id."""
    found = served.partition.overdue(request.query.get("now"))
    page = [one.allocation_id for one in found[: request.query.get("limit")]]
    return {"total": len(found), "allocations": [info.to_dict() for info in served.partition.allocations_by_id(page)]}


def scheduled_changes(served: ServedPartition, request: RequestContext) -> object:
    """Return the next changes of limits by schedules, with the limits that would be exceeded."""
    found = served.partition.scheduled_changes(max_changes=request.query.get("limit", _DEFAULT_CHANGES))
    return {"changes": [change.to_dict() for change in found]}


# Nodes, history, summary


def nodes(served: ServedPartition, _request: RequestContext) -> object:
    """Return the resources of every registered node."""
    return {name: dict(capacity) for name, capacity in served.partition.nodes().items()}


def history(served: ServedPartition, request: RequestContext) -> object:
    """Return the newest events, oldest first."""
    query = request.query
    after, most = int(query.get("after", 0)), query.get("limit", _DEFAULT_PAGE)
    page = served.history.page(after=after, kind=query.get("kind"), most=most)
    return {"newest": page.newest, "counts": page.counts, "records": [record.to_dict() for record in page.records]}


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

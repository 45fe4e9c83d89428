"""Endpoints that show the usage of users and groups with their limits, and of queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from heapq import nsmallest
from typing import Annotated, Final, Literal

from msgspec import Struct

from ugm._json_values import to_json
from ugm.configuration import LimitConfig, PartitionConfig
from ugm.identity import canonical_path
from ugm.partition import LimitUtilization, OwnerLimits, PartitionSnapshot, UsageSum
from ugm.queues import QueueState
from ugm.resources import Resource
from ugm.server.http.payloads import require_found
from ugm.server.interface.route import PARTITION, Routes, ServedPartition
from ugm.server.interface.schemas import ListQuery, Name, Object, QueuePath
from ugm.server.queries import natural_key

ROUTES: Final = Routes()
_NOTHING: Final = UsageSum(0, Resource())


# Users and groups


class LimitUtilizations(Struct):
    """A page of users or groups."""

    total: int
    utilizations: list[Annotated[Object, LimitUtilization]]


class OwnersQuery(ListQuery, forbid_unknown_fields=True, kw_only=True):
    """The filters, the order and the page of users or groups."""

    kind: Literal["groups", "users"]
    sort: Literal["applications", "name", "pending", "share", "usage"] = "share"
    resource: Name = ""
    queue: QueuePath = "root"


@ROUTES.get(f"{PARTITION}/utilization/{{kind}}")
def utilization(served: ServedPartition, *, query: OwnersQuery) -> LimitUtilizations:
    """List the users or groups that are closest to a limit, the closest first, or in another order."""
    snapshot, path, of_users = served.partition.snapshot(), canonical_path(query.queue), query.kind == "users"
    require_found("queue", path, snapshot.queue)
    running, waiting = snapshot.running.below(path), snapshot.pending.below(path)
    usage, pending = (running.users, waiting.users) if of_users else (running.groups, waiting.groups)
    limits = snapshot.limits_of_user if of_users else snapshot.limits_of_group
    # An application that has only pending allocations is not assigned to a group yet.
    names = list(filter(query.matches, usage.keys() | pending.keys() if of_users else usage))

    # The number by which names are sorted, the largest first.
    rank: Callable[[str], float] = {
        "name": lambda _name: 0,
        "pending": lambda name: pending.get(name, _NOTHING).item_count,
        "share": lambda name: limits(name).share,
        "applications": lambda name: usage.get(name, _NOTHING).item_count,
        "usage": lambda name: usage.get(name, _NOTHING).amounts.get(query.resource, 0),
    }[query.sort]
    end = query.offset + query.limit
    ranked = nsmallest(end, ((-rank(name), natural_key(name), name) for name in names))
    page = [name for *_, name in ranked[query.offset :]]
    return LimitUtilizations(len(names), [_row(limits(name), usage.get(name), pending.get(name)) for name in page])


def _row(limits: OwnerLimits, usage: UsageSum | None, pending: UsageSum | None) -> Object:
    """Return the nearest limit of an owner, which counts all queues, and its usage in the queue."""
    used = usage or _NOTHING
    found = replace(limits.utilization, usage=used.amounts, running_applications=used.item_count)
    return {**found.to_dict(), **_pending_fields(pending)}


def _pending_fields(pending: UsageSum | None) -> dict[str, object]:
    found = pending or _NOTHING
    return {"pending": dict(sorted(found.amounts.items())), "pending_allocations": found.item_count}


# Queues


class QueueDetail(QueueState):  # type: ignore[misc]  # only its annotations are used
    """A queue with its headroom and its configured limits."""

    headroom: Resource | None
    maximum: Resource | None
    limits: list[LimitConfig]


@ROUTES.get(f"{PARTITION}/queues")
def queues(served: ServedPartition) -> Annotated[Object, QueueState]:
    """Return all queues as a tree, with the usage and the pending amounts in and below each."""
    snapshot = served.partition.snapshot()
    return _tree(require_found("queue", "root", snapshot.queue), queue_rows(snapshot))


@ROUTES.get(f"{PARTITION}/queue/{{queue_path}}")
def queue(served: ServedPartition, *, queue_path: QueuePath) -> Annotated[Object, QueueDetail]:
    """Return one queue with the queues below it, its headroom and its configured limits."""
    path, snapshot = canonical_path(queue_path), served.partition.snapshot()
    return {
        **_tree(require_found("queue", path, snapshot.queue), queue_rows(snapshot, path)),
        "headroom": snapshot.queue_headroom(path),
        "maximum": snapshot.queue_maximum(path),
        "limits": list(_configured_limits(snapshot.config, path)),
    }


def queue_rows(snapshot: PartitionSnapshot, path: str = "root") -> dict[str, Object]:
    """Return a queue and those below it for JSON, by path, each without its children."""
    top = snapshot.queue(path)
    rows: dict[str, Object] = {}
    for state in reversed([] if top is None else list(top.walk())):
        fields: Object = replace(state, children=()).to_dict()
        del fields["children"]
        fields |= _pending_fields(snapshot.pending.queues.get(state.queue_path))
        below = sum(rows[child.queue_path]["applications"] for child in state.children)
        rows[state.queue_path] = {**fields, "applications": len(state.applications) + below}
    return rows


def _tree(state: QueueState, rows: Mapping[str, Object]) -> Object:
    return {**rows[state.queue_path], "children": [_tree(child, rows) for child in state.children]}


def _configured_limits(config: PartitionConfig | None, path: str) -> Iterator[Object]:
    """Yield the limits that the configuration sets on a queue."""
    configured = {} if config is None else dict(config.root.walk())
    for limit in configured[path].limits if path in configured else ():
        yield {name: value for name, value in to_json(limit).items() if name != "ugm"}

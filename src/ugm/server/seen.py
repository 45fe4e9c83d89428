"""What is seen of a partition: users, groups, queues, applications, allocations, nodes, and what has happened.

Every function answers one question for JSON. The lock of the partition is held for one piece at a time and never while
anything is put together or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Any, Final

from ugm.errors import RequestError
from ugm.identity import ancestors, canonical_path, is_below
from ugm.partition import Allocation, ApplicationInfo, Partition, Standing
from ugm.queues import QueueState
from ugm.resources import Resource, as_float
from ugm.server.errors import unknown
from ugm.server.pace import paced
from ugm.server.site import Question

__all__ = [
    "allocation",
    "allocations",
    "applications",
    "closest_groups",
    "closest_users",
    "group",
    "group_standings",
    "groups",
    "history",
    "nodes",
    "partition_dict",
    "queue",
    "queues",
    "told_allocation",
    "user",
    "user_standings",
    "users",
]

#: How many lines a list has when nobody says so.
_USUAL: Final = 100


# Users and groups


def users(asked: Question) -> object:
    """Return what every user uses, as the documents show it."""
    partition = asked.partition
    return [told.to_dict() for name in paced(partition.user_names()) if (told := partition.user(name)) is not None]


def groups(asked: Question) -> object:
    """Return what every group uses, as the documents show it."""
    partition = asked.partition
    return [told.to_dict() for name in paced(partition.group_names()) if (told := partition.group(name)) is not None]


def user(asked: Question) -> object:
    """Return what one user uses, as the documents show it."""
    found = asked.partition.user(asked.path["name"])
    if found is None:
        raise unknown("user", asked.path["name"])
    return found.to_dict()


def group(asked: Question) -> object:
    """Return what one group uses, as the documents show it."""
    found = asked.partition.group(asked.path["name"])
    if found is None:
        raise unknown("group", asked.path["name"])
    return found.to_dict()


def user_standings(asked: Question) -> object:
    """Return the users that are closest to a limit."""
    partition = asked.partition
    return _standings(partition.user_names(), asked.query, lambda *found: closest_users(partition, *found))


def group_standings(asked: Question) -> object:
    """Return the groups that are closest to a limit."""
    partition = asked.partition
    return _standings(partition.group_names(), asked.query, lambda *found: closest_groups(partition, *found))


def _standings(
    names: Sequence[str], query: Mapping[str, Any], closest: Callable[[Sequence[str], int], list[Standing]]
) -> dict[str, Any]:
    text, skip = query.get("find", "").lower(), query.get("skip", 0)
    found = [name for name in names if text in name.lower()] if text else names
    page = closest(found, skip + query.get("most", _USUAL))[skip:]
    return {"total": len(found), "standings": [told.to_dict() for told in page]}


def closest_users(partition: Partition, names: Sequence[str], most: int) -> list[Standing]:
    """Return those of some users that are closest to a limit, the closest first."""
    return _closest(names, partition.user_share, partition.user_standing, most)


def closest_groups(partition: Partition, names: Sequence[str], most: int) -> list[Standing]:
    """Return those of some groups that are closest to a limit, the closest first."""
    return _closest(names, partition.group_share, partition.group_standing, most)


def _closest(
    names: Sequence[str], share: Callable[[str], float | None], ask: Callable[[str], Standing | None], most: int
) -> list[Standing]:
    shares = ((-found, name) for name in paced(names) if (found := share(name)) is not None)
    # Asked again, because only of few it matters what they use of what.
    standings = [told for _, name in nsmallest(most, shares) if (told := ask(name)) is not None]
    return sorted(standings, key=lambda told: (-told.share, told.name))


# Queues


def queues(asked: Question) -> object:
    """Return all queues as a tree, with what is used and pending in and below each."""
    return _tree(asked.partition, "root")


def queue(asked: Question) -> object:
    """Return one queue with those below it, the headroom there, and the limits that are set on it."""
    partition, path = asked.partition, canonical_path(asked.path["queue_path"])
    tree = _tree(partition, path)
    if tree is None:
        raise unknown("queue", path)
    try:
        left, maximum = partition.queue_headroom(path), partition.queue_maximum(path)
    except RequestError:
        # It has gone since.
        raise unknown("queue", path) from None
    return {**tree, "headroom": _plain(left), "maximum": _plain(maximum), "limits": list(_configured(partition, path))}


def _tree(partition: Partition, top: str) -> dict[str, Any] | None:
    """Return a queue with all below it; usage is summed up outside the lock, so that it always adds up."""
    nodes: dict[str, dict[str, Any]] = {}
    totals: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    inside = [path for path in partition.queue_paths() if is_below(path, top)]
    # A path sorts before every path below it, so going backward meets children before their parents.
    for path in paced(reversed(inside)):
        state = partition.queue_alone(path)
        if state is None:
            continue
        count, waiting = partition.pending(path)
        used, pending = totals.pop(path, ({}, {}))
        _add(used, state.usage)
        _add(pending, waiting)
        below = nodes.pop(path, {"running": 0, "applications": 0, "pending": 0, "children": []})
        node = _queue_dict(state, used, pending, below, count)
        above = path.rpartition(".")[0]
        if path == top:
            return node
        _add_to_parent(nodes, totals, above, node)
    return None


def _add_to_parent(
    nodes: dict[str, dict[str, Any]],
    totals: dict[str, tuple[dict[str, int], dict[str, int]]],
    above: str,
    node: dict[str, Any],
) -> None:
    sums = nodes.setdefault(above, {"running": 0, "applications": 0, "pending": 0, "children": []})
    sums["running"] += node["running_applications"]
    sums["applications"] += node["applications"]
    sums["pending"] += node["pending_allocations"]
    sums["children"].insert(0, node)
    used, pending = totals.setdefault(above, ({}, {}))
    _add(used, node["usage"])
    _add(pending, node["pending"])


def _queue_dict(
    state: QueueState, used: dict[str, int], pending: dict[str, int], below: dict[str, Any], waiting: int
) -> dict[str, Any]:
    usage = Resource(used).without_zeros()
    share = state._replace(usage=usage).share
    return {
        "queue_path": state.queue_path,
        "is_leaf": state.is_leaf,
        "is_managed": state.is_managed,
        "is_draining": state.is_draining,
        "max_resources": _plain(state.max_resources),
        "max_applications": state.max_applications,
        "guaranteed": _plain(state.guaranteed),
        "usage": dict(usage),
        "share": None if share is None else as_float(share),
        "running_applications": state.running_applications + below["running"],
        "applications": len(state.applications) + below["applications"],
        "pending": dict(sorted(pending.items())),
        "pending_allocations": waiting + below["pending"],
        "children": below["children"],
    }


def _add(total: dict[str, int], more: Any) -> None:  # noqa: ANN401 - amounts by name, of one kind or the other
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _plain(amounts: Resource | None) -> dict[str, int] | None:
    return None if amounts is None else dict(amounts)


def _configured(partition: Partition, path: str) -> Iterator[dict[str, Any]]:
    """Yield the limits that the configuration sets on a queue."""
    found = None if partition.config is None else partition.config.root
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


def applications(asked: Question) -> object:
    """Return applications in the order of their ids, a page at a time."""
    partition, query = asked.partition, asked.query
    after = query.get("after", "")
    found = (
        told
        for name in paced(partition.application_ids())
        if name > after and (told := partition.application(name)) is not None and _fits(told, query)
    )
    page = list(islice(found, query.get("most", _USUAL)))
    more = next(found, None) is not None
    return {"applications": [told.to_dict() for told in page], "next": page[-1].application_id if more else None}


def _fits(told: ApplicationInfo, query: Any) -> bool:  # noqa: ANN401 - checked against the description
    if "queue" in query and not is_below(told.queue_path, query["queue"].lower()):
        return False
    asked = (("user", told.user.name), ("group", told.group), ("state", told.state))
    return all(query.get(name, value) == value for name, value in asked)


def allocations(asked: Question) -> object:
    """Return allocations with those who hold them, in the order of their ids, a page at a time."""
    partition, query = asked.partition, asked.query
    after, most, application_id = query.get("after", ""), query.get("most", _USUAL), query.get("application")
    if application_id is None:
        names = (name for name in paced(partition.allocation_ids()) if name > after)
        found: Iterator[Allocation] = (told for name in names if (told := partition.allocation(name)) is not None)
    elif partition.application(application_id) is None:
        raise unknown("application", application_id)
    else:
        found = (told for told in partition.allocations(application_id) if told.allocation_id > after)
    page = list(islice(found, most))
    more = next(found, None) is not None
    lines = [told_allocation(partition, allocation) for allocation in page]
    return {"allocations": lines, "next": page[-1].allocation_id if more else None}


def allocation(asked: Question) -> object:
    """Return one allocation with who holds it."""
    found = asked.partition.allocation(asked.path["name"])
    if found is None:
        raise unknown("allocation", asked.path["name"])
    return told_allocation(asked.partition, found)


def told_allocation(partition: Partition, found: Allocation) -> dict[str, Any]:
    """Return an allocation with who holds it; with nobody if the application has ended since."""
    owner = partition.application(found.application_id)
    whose = (None, None, None) if owner is None else (owner.user.name, owner.group, owner.queue_path)
    return {**found.to_dict(), **dict(zip(("user", "group", "queue_path"), whose, strict=True))}


# The rest


def nodes(asked: Question) -> object:
    """Return what every registered node offers."""
    return {name: dict(offers) for name, offers in asked.partition.nodes().items()}


def history(asked: Question) -> object:
    """Return the newest events, oldest first."""
    followed, query = asked.history, asked.query
    # Before the lines: what comes in between is told twice rather than never.
    newest = followed.newest
    records = followed.records(after=query.get("after", 0), kind=query.get("kind"), most=query.get("most", _USUAL))
    return {"newest": newest, "told": followed.told(), "records": [record.to_dict() for record in records]}


def partition_dict(name: str, partition: Partition, *, has_history: bool) -> dict[str, Any]:
    """Return a partition in a few figures."""
    root = partition.queue_alone("root")
    used: dict[str, int] = {}
    for path in paced(partition.queue_paths()):
        state = partition.queue_alone(path)
        _add(used, state.usage if state else {})
    return {
        "name": name,
        "usage": dict(sorted(used.items())),
        "cluster": _plain(root.max_resources if root else None),
        "users": len(partition.user_names()),
        "groups": len(partition.group_names()),
        "queues": len(partition.queue_paths()),
        "applications": len(partition.application_ids()),
        "allocations": len(partition.allocation_ids()),
        "nodes": len(partition.nodes()),
        "has_history": has_history,
    }

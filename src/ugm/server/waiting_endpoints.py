"""Endpoints that show waiting work: pending requests with age, position and reasons, by application and by user.

Positions come from the scheduling order of the partition. Computing it takes about a second for 10,000 requests, so
responses share an order for a while; the field ``as_of`` is its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from ugm.errors import RequestError
from ugm.identity import is_below
from ugm.partition import AbstractPartition, AllocationRequest, Turn
from ugm.resources import sum_of
from ugm.server.cooperative import cooperatively
from ugm.server.natural_order import natural_key
from ugm.server.state import Query, RequestContext, ServedPartition

__all__ = ["waiting", "waiting_applications", "waiting_users"]

_Item = TypeVar("_Item")

_DEFAULT_PAGE: Final = 100
_MOST_HOLDERS: Final = 3


class WaitingTurn(NamedTuple):
    """A pending request and its position, from 1."""

    turn: Turn
    position: int
    #: In seconds since 1970; None if it is not known.
    requested_at: float | None


class WaitingGroup(NamedTuple):
    """The pending requests of one application or user, in their order."""

    name: str
    requests: list[WaitingTurn]

    @property
    def position(self) -> int:
        """The first position."""
        return self.requests[0].position

    @property
    def requested_at(self) -> float | None:
        """The time of the oldest request; None if none is known."""
        return min((one.requested_at for one in self.requests if one.requested_at is not None), default=None)


def waiting(served: ServedPartition, request: RequestContext) -> object:
    """List pending requests with their age and position, the limits that deny them, and the holders of these."""
    as_of, found = _matching(served, request)
    query = request.query
    found.sort(key=_request_key(query.get("sort", "position")))
    explanations = _Explanations(served.partition)
    return {
        "as_of": as_of,
        "total": len(found),
        "requests": [_request_dict(one, explanations) for one in cooperatively(_page(found, query))],
    }


def waiting_applications(served: ServedPartition, request: RequestContext) -> object:
    """List the applications with pending requests, with the age of the oldest and the position of the first."""
    as_of, found = _matching(served, request)
    groups = _sorted_groups(found, lambda turn: turn.request.application_id, request.query)
    rows = [
        {
            "application_id": group.name,
            "user": group.requests[0].turn.user,
            "queue_path": group.requests[0].turn.queue_path,
            "submitted_at": served.submitted_at(group.name),
            **_group_dict(group),
        }
        for group in _page(groups, request.query)
    ]
    return {"as_of": as_of, "total": len(groups), "applications": rows}


def waiting_users(served: ServedPartition, request: RequestContext) -> object:
    """List the users with pending requests, including those without usage."""
    as_of, found = _matching(served, request)
    groups = _sorted_groups(found, lambda turn: turn.user, request.query)
    snapshot = served.snapshot(request.arrived)
    rows = [
        {
            "user": group.name,
            "applications": len({one.turn.request.application_id for one in group.requests}),
            "running_applications": snapshot.user_amount(group.name, None),
            **_group_dict(group),
        }
        for group in _page(groups, request.query)
    ]
    return {"as_of": as_of, "total": len(groups), "users": rows}


# Selection


def _matching(served: ServedPartition, request: RequestContext) -> tuple[float, list[WaitingTurn]]:
    """Return the time of the order, and the requests that match a query, by position."""
    as_of, turns = served.order()
    query = request.query
    now, older_than = served.now(), query.get("older_than")
    found = []
    for position, turn in cooperatively(enumerate(turns, 1)):
        if _matches(turn, query):
            at = served.requested_at(turn.request.allocation_id)
            if older_than is None or (at is not None and now - at >= older_than):
                found.append(WaitingTurn(turn, position, at))
    return as_of, found


def _matches(turn: Turn, query: Query) -> bool:
    if "queue" in query and not is_below(turn.queue_path, query["queue"].lower()):
        return False
    if query.get("user", turn.user) != turn.user:
        return False
    wanted = turn.request
    if query.get("application", wanted.application_id) != wanted.application_id:
        return False
    text = query.get("search", "").lower()
    names = (wanted.allocation_id, wanted.application_id, turn.user, turn.queue_path)
    return not text or any(text in name.lower() for name in names)


def _request_key(sort: str) -> Callable[[WaitingTurn], Any]:
    if sort == "age":
        return lambda one: (_age_key(one.requested_at), one.position)
    if sort == "name":
        return lambda one: natural_key(one.turn.request.allocation_id)
    return lambda one: one.position


def _age_key(requested_at: float | None) -> tuple[bool, float]:
    """Return a key that puts the oldest first, and those of unknown age before them: they are from before the start."""
    return requested_at is not None, requested_at or 0.0


def _sorted_groups(found: Iterable[WaitingTurn], name_of: Callable[[Turn], str], query: Query) -> list[WaitingGroup]:
    groups: dict[str, WaitingGroup] = {}
    for one in cooperatively(found):
        name = name_of(one.turn)
        group = groups.get(name)
        if group is None:
            group = groups[name] = WaitingGroup(name, [])
        group.requests.append(one)
    keys: dict[str, Callable[[WaitingGroup], Any]] = {
        "age": lambda group: (_age_key(group.requested_at), group.position),
        "name": lambda group: natural_key(group.name),
        "position": lambda group: group.position,
    }
    return sorted(groups.values(), key=keys[query.get("sort", "position")])


def _page(found: list[_Item], query: Query) -> list[_Item]:
    offset = query.get("offset", 0)
    return found[offset : offset + query.get("limit", _DEFAULT_PAGE)]


# Answers


class _Explanations:
    """The explanations of requests; equal requests of an application share one."""

    def __init__(self, partition: AbstractPartition) -> None:
        self._partition: Final = partition
        self._known: Final[dict[AllocationRequest, dict[str, object] | None]] = {}

    def of(self, turn: Turn) -> dict[str, object] | None:
        """Return the explanation of a request for JSON; None if its application has ended since."""
        key = turn.request._replace(allocation_id="")
        if key not in self._known:
            self._known[key] = self._explain(key)
        return self._known[key]

    def _explain(self, wanted: AllocationRequest) -> dict[str, object] | None:
        try:
            found = self._partition.explain(
                wanted.application_id,
                wanted.usage,
                priority=wanted.priority,
                preemptible=wanted.preemptible,
                duration=wanted.duration,
                max_holders=_MOST_HOLDERS,
            )
        except RequestError:
            return None
        fields = found.to_dict()
        return {**{name: fields[name] for name in ("allowed", "can_wait", "violations")}, "text": str(found)}


def _request_dict(one: WaitingTurn, explanations: _Explanations) -> dict[str, object]:
    turn, wanted = one.turn, one.turn.request
    return {
        "allocation_id": wanted.allocation_id,
        "application_id": wanted.application_id,
        "user": turn.user,
        "queue_path": turn.queue_path,
        "usage": dict(wanted.usage),
        "priority": wanted.priority,
        "position": one.position,
        "requested_at": one.requested_at,
        "fits": turn.fits,
        "blocked_by": turn.blocked_by,
        "node": wanted.node,
        "reasons": explanations.of(turn),
    }


def _group_dict(group: WaitingGroup) -> dict[str, object]:
    usages = [one.turn.request.usage for one in group.requests]
    return {
        "pending": dict(sorted(sum_of(usages).items())),
        "pending_allocations": len(usages),
        "position": group.position,
        "requested_at": group.requested_at,
    }

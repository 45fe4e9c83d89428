"""Endpoints that show waiting work: pending requests with age, position and reasons, by application and by user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Struct

from ugm.errors import RequestError
from ugm.identity import is_below
from ugm.partition import AllocationRequest, Turn
from ugm.resources import Resource, sum_of
from ugm.server.interface.route import PARTITION, Routes, ServedPartition
from ugm.server.interface.schemas import ListQuery, Name, Object, Offset, QueuePath, ViolationWithHolders
from ugm.server.queries import contains, natural_key

ROUTES: Final = Routes()
_PATH: Final = f"{PARTITION}/waiting"


class WaitingReasons(Struct):
    """The present answer to a pending request."""

    allowed: bool
    can_wait: bool
    violations: list[Annotated[Object, ViolationWithHolders]]
    text: str


class WaitingRequest(Turn):
    """A pending request in the scheduling order, without its reservation."""

    start: None
    reserved_for: None
    #: From 1.
    position: int
    requested_at: float | None
    #: None if its application has ended since.
    reasons: WaitingReasons | None


#: The fields of a turn that explain its place.
_PLACE: Final = ("reasons", "start", "reserved_for")


class _Page(Struct):
    as_of: float
    total: int


class WaitingRequests(_Page):
    """A page of pending requests."""

    requests: list[Annotated[Object, WaitingRequest]]


class WaitingOwner(Struct):
    """The pending requests of one application or user."""

    user: str
    pending: Resource
    pending_allocations: int
    #: Of the first one.
    position: int
    #: Of the oldest one.
    requested_at: float | None


class WaitingApplication(WaitingOwner):
    """An application with pending requests."""

    application_id: str
    queue_path: str
    submitted_at: float | None


class WaitingUser(WaitingOwner):
    """A user with pending requests."""

    applications: int
    running_applications: int


class WaitingApplications(_Page):
    """A page of applications with pending requests."""

    applications: list[WaitingApplication]


class WaitingUsers(_Page):
    """A page of users with pending requests."""

    users: list[WaitingUser]


class _Waiting(NamedTuple):
    """A pending request with its position, from 1, and the time of the request, if it is known."""

    turn: Turn
    position: int
    requested_at: float | None


class Selection(ListQuery, forbid_unknown_fields=True):
    """The filters, the order and the page of a query."""

    older_than: Offset | None = None
    application: Name = ""
    queue: QueuePath = "root"
    user: Name = ""
    sort: Literal["age", "name", "position"] = "position"

    def find(self, served: ServedPartition) -> list[_Waiting]:
        """Return the pending requests that match, by position."""
        requested = served.times.requested
        numbered = enumerate(served.partition.order(explained=False), 1)
        found = (_Waiting(turn, position, requested.get(turn.request.allocation_id)) for position, turn in numbered)
        return [one for one in found if self._matches(one.turn) and served.is_old(one.requested_at, self.older_than)]

    def _matches(self, turn: Turn) -> bool:
        wanted = turn.request
        return (
            is_below(turn.queue_path, self.queue.lower())
            and self.user in ("", turn.user)
            and self.application in ("", wanted.application_id)
            and contains(self.search, (wanted.allocation_id, wanted.application_id, turn.user, turn.queue_path))
        )

    def sorted_page(self, found: Iterable[list[_Waiting]], name_of: Callable[[Turn], str]) -> list[list[_Waiting]]:
        """Return a page of requests or groups of requests; the oldest first, and unknown times before them."""
        keys: dict[str, Callable[[list[_Waiting]], Any]] = {
            "age": lambda group: (_oldest(group) is not None, _oldest(group) or 0.0, group[0].position),
            "name": lambda group: natural_key(name_of(group[0].turn)),
            "position": lambda group: group[0].position,
        }
        return self.page(sorted(found, key=keys[self.sort]))


def _oldest(group: list[_Waiting]) -> float | None:
    return min((one.requested_at for one in group if one.requested_at is not None), default=None)


@ROUTES.get(_PATH)
def waiting(served: ServedPartition, *, query: Selection) -> WaitingRequests:
    """List pending requests with their age and position, the limits that deny them, and the holders of these."""
    as_of, found = served.now(), query.find(served)
    page = query.sorted_page(([one] for one in found), lambda turn: turn.request.allocation_id)
    known: dict[AllocationRequest, WaitingReasons | None] = {}
    return WaitingRequests(as_of, len(found), [_request(served, one, known) for [one] in page])


@ROUTES.get(f"{_PATH}/applications")
def waiting_applications(served: ServedPartition, *, query: Selection) -> WaitingApplications:
    """List the applications with pending requests, with the age of the oldest and the position of the first."""
    as_of, total, page = _grouped(served, query, lambda turn: turn.request.application_id)
    rows = [
        WaitingApplication(
            **_owner(group),
            application_id=(name := group[0].turn.request.application_id),
            queue_path=group[0].turn.queue_path,
            submitted_at=served.times.submitted.get(name),
        )
        for group in page
    ]
    return WaitingApplications(as_of, total, rows)


@ROUTES.get(f"{_PATH}/users")
def waiting_users(served: ServedPartition, *, query: Selection) -> WaitingUsers:
    """List the users with pending requests, including those without usage."""
    as_of, total, page = _grouped(served, query, lambda turn: turn.user)
    snapshot = served.partition.snapshot()
    rows = [
        WaitingUser(
            **_owner(group),
            applications=len({one.turn.request.application_id for one in group}),
            running_applications=len(snapshot.running.by_user.get(group[0].turn.user, ())),
        )
        for group in page
    ]
    return WaitingUsers(as_of, total, rows)


def _grouped(
    served: ServedPartition, query: Selection, name_of: Callable[[Turn], str]
) -> tuple[float, int, list[list[_Waiting]]]:
    """Return the time, the number of groups of the matching requests, and a page of them."""
    as_of, groups = served.now(), dict[str, list[_Waiting]]()
    for one in query.find(served):
        groups.setdefault(name_of(one.turn), []).append(one)
    return as_of, len(groups), query.sorted_page(groups.values(), name_of)


def _owner(group: list[_Waiting]) -> dict[str, Any]:
    """Return the fields of a `WaitingOwner`."""
    usages = [one.turn.request.usage for one in group]
    return {
        "user": group[0].turn.user,
        "pending": sum_of(usages),
        "pending_allocations": len(usages),
        "position": group[0].position,
        "requested_at": _oldest(group),
    }


def _request(served: ServedPartition, one: _Waiting, known: dict[AllocationRequest, WaitingReasons | None]) -> Object:
    turn, position, requested_at = one
    # Equal requests of an application have the same reasons.
    key = turn.request._replace(allocation_id="")
    if key not in known:
        known[key] = _reasons(served, key)
    fields = {name: value for name, value in turn.to_dict().items() if name not in _PLACE}
    return {**fields, "position": position, "requested_at": requested_at, "reasons": known[key]}


def _reasons(served: ServedPartition, wanted: AllocationRequest) -> WaitingReasons | None:
    explain = partial(served.partition.explain, wanted.application_id, wanted.usage)
    try:
        found = explain(priority=wanted.priority, preemptible=wanted.preemptible, duration=wanted.duration)
    except RequestError:
        return None
    fields: dict[str, Any] = found.to_dict()
    return WaitingReasons(fields["allowed"], fields["can_wait"], fields["violations"], str(found))

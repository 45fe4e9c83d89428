"""Endpoints that show a partition: its summary, applications, allocations, nodes, events and service.

Each response shows the partition at one moment. Large responses are created from a snapshot: the lock of the partition
is held while the state is copied, and not while the response is put together.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict, get_args

from msgspec import Struct

from ugm.events import Event, event_name
from ugm.identity import is_below
from ugm.partition import ApplicationInfo, ApplicationState, ScheduledChange
from ugm.partition.answers.reports import OwnedAllocation
from ugm.resources import Resource
from ugm.server.http.payloads import ApiError, require_found
from ugm.server.interface.route import PARTITION, Routes, ServedPartition
from ugm.server.interface.schemas import Name, Number, Object, Offset, PageSize, QueuePath, Text
from ugm.server.queries import contains, first_page
from ugm.service.protocol.status import ServiceStatus

ROUTES: Final = Routes()
_PAGE: Final = 100
#: The number of applications that are read at one time.
_BLOCK: Final = 200


class PartitionSummary(Struct):
    """A partition in figures."""

    name: str
    usage: Resource
    cluster: Resource | None
    users: int
    groups: int
    queues: int
    applications: int
    allocations: int
    nodes: int
    has_history: bool
    has_service: bool


@ROUTES.get(PARTITION)
def partition(served: ServedPartition) -> PartitionSummary:
    """Return a summary of one partition."""
    snapshot = served.partition.snapshot()
    return PartitionSummary(
        name=served.name,
        usage=snapshot.usage(),
        cluster=snapshot.cluster,
        users=len(snapshot.user_names),
        groups=len(snapshot.group_names),
        queues=len(snapshot.queue_paths),
        applications=snapshot.application_count,
        allocations=snapshot.allocation_count,
        nodes=len(snapshot.nodes),
        has_history=served.history is not None,
        has_service=served.service is not None,
    )


# Applications and allocations


class ListedApplication(ApplicationInfo):
    """An application, and when it was submitted."""

    submitted_at: float | None


class Applications(Struct):
    """A page of applications."""

    applications: list[Annotated[Object, ListedApplication]]
    #: The last id, if more follow.
    next: str | None


@ROUTES.get(f"{PARTITION}/applications")
def applications(
    served: ServedPartition,
    *,
    after: Text = "",
    limit: PageSize = _PAGE,
    older_than: Offset | None = None,
    search: Text = "",
    queue: QueuePath = "root",
    user: Name = "",
    group: Name = "",
    state: ApplicationState | None = None,
) -> Applications:
    """Return a page of applications, ordered by id; ``search`` selects by ids, users, groups, queues and tags."""

    def matches(info: ApplicationInfo) -> bool:
        names = (info.application_id, info.user.name, info.queue_path, info.group, *info.tags.values())
        fields = ((user, info.user.name), (group, info.group), (state, info.state))
        is_wanted = all(not wanted or wanted == found for wanted, found in fields)
        return is_wanted and is_below(info.queue_path, queue.lower()) and contains(search, names)

    submitted = served.times.submitted
    following_ids = (name for name in served.partition.application_ids() if name > after)
    names = [name for name in following_ids if served.is_old(submitted.get(name), older_than)]
    blocks = (names[at : at + _BLOCK] for at in range(0, len(names), _BLOCK))
    infos = (info for block in blocks for info in served.partition.applications_by_id(block))
    page, following = first_page((info.application_id for info in infos if matches(info)), limit)
    # The page is read again at one moment, without applications that have ended or changed since.
    found = [
        {**info.to_dict(), "submitted_at": submitted.get(info.application_id)}
        for info in served.partition.applications_by_id(page)
        if matches(info)
    ]
    return Applications(found, following)


class Allocations(Struct):
    """A page of allocations."""

    allocations: list[OwnedAllocation]
    #: The last id, if more follow.
    next: str | None


@ROUTES.get(f"{PARTITION}/allocations")
def allocations(
    served: ServedPartition, *, after: Text = "", limit: PageSize = _PAGE, application: Name = ""
) -> Allocations:
    """Return a page of allocations with their holders, ordered by id."""
    if application:
        require_found("application", application, served.partition.application)
        names = iter([info.allocation_id for info in served.partition.allocations(application)])
    else:
        names = iter(served.partition.allocation_ids())
    page, following = first_page((name for name in names if name > after), limit)
    # As for applications. Another application may have reused an id since.
    infos = served.partition.allocations_by_id(page)
    return Allocations([one for one in infos if application in ("", one.allocation.application_id)], following)


@ROUTES.get(f"{PARTITION}/allocation/{{name}}")
def allocation(served: ServedPartition, *, name: Name) -> OwnedAllocation:
    """Return one allocation with its holder."""
    find = served.partition.allocations_by_id
    return require_found("allocation", name, lambda name: next(iter(find([name])), None))


class Overdue(Struct):
    """Overdue allocations."""

    total: int
    allocations: tuple[OwnedAllocation, ...]


@ROUTES.get(f"{PARTITION}/overdue")
def overdue(served: ServedPartition, *, now: Number | None = None, limit: PageSize | None = None) -> Overdue:
    """Return the first overdue allocations and their owners, sorted by end and id."""
    found = served.partition.overdue(now)
    return Overdue(len(found), served.partition.allocations_by_id([one.allocation_id for one in found[:limit]]))


# Nodes, schedules, events and service


class ScheduledChanges(Struct):
    """The next changes of limits."""

    changes: tuple[ScheduledChange, ...]


@ROUTES.get(f"{PARTITION}/scheduled_changes")
def scheduled_changes(served: ServedPartition, *, limit: PageSize = 10) -> ScheduledChanges:
    """Return the next changes of limits by schedules, with the limits that would be exceeded."""
    return ScheduledChanges(served.partition.scheduled_changes(max_changes=limit))


@ROUTES.get(f"{PARTITION}/nodes")
def nodes(served: ServedPartition) -> dict[str, Resource]:
    """Return the resources of every registered node."""
    return served.partition.nodes()


_Kind: Any = Literal[tuple(sorted(map(event_name, get_args(Event))))]
#: A record also has the fields of its event; see `ugm.events.event_to_dict`.
_RECORD: Final = {
    "type": "object",
    "properties": {"event": {"type": "string"}, **{key: {"type": "integer"} for key in ("number", "last", "times")}},
    "required": ["event", "first_at", "last", "last_at", "number", "times"],
}


class Events(TypedDict):
    """The newest events, and the number of events of each kind so far."""

    newest: int
    counts: dict[str, int]
    records: list[Annotated[Object, _RECORD]]


@ROUTES.get(f"{PARTITION}/history", types={"kind": _Kind | None})
def history(
    served: ServedPartition, *, after: Number = 0, kind: str | None = None, limit: PageSize = _PAGE
) -> Annotated[Object, Events]:
    """Return the newest events, oldest first."""
    if served.history is None:
        raise ApiError(404, "history-missing", "the partition was started without a history")
    return served.history.page(after=after, kind=kind, most=limit)._asdict()


@ROUTES.get(f"{PARTITION}/service")
def service(served: ServedPartition) -> ServiceStatus:
    """Return the status of the service: the leader, its clients and its commits."""
    if served.service is None:
        raise ApiError(404, "service-missing", "the partition is not that of a service")
    return served.service()

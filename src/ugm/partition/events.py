"""The events of a partition: its changes and denials as values for subscribers, computed from the changes of rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, get_args

from ugm._json_values import JsonObject, to_json
from ugm.decision import Decision
from ugm.identity import UserGroup
from ugm.model import BudgetChange
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import ApplicationState
from ugm.partition.rows import (
    Allocation,
    AllocationRequest,
    AllocationState,
    ApplicationRow,
    Change,
    GangStyle,
    PartitionRow,
)
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.partition.config.changes import Changes

__all__ = [
    "Allocated",
    "AllocationRequested",
    "ApplicationEnded",
    "ApplicationFailing",
    "ApplicationSubmitted",
    "BudgetChanged",
    "ConfigurationChanged",
    "Denied",
    "Event",
    "GroupAssigned",
    "ModelsChanged",
    "NodeChanged",
    "PartitionClosed",
    "Preempted",
    "QueueQuotaSet",
    "ReductionTimersStarted",
    "Released",
    "Renewed",
    "RequestPlaced",
    "RequestWithdrawn",
    "ReservationChanged",
    "Resized",
    "Subscriber",
    "event_name",
    "event_to_dict",
]

_PENDING: Final = AllocationState.PENDING
_TERMINATING: Final = AllocationState.TERMINATING
#: `Allocated(...)` takes twice as long.
_new: Final = tuple.__new__


class ApplicationSubmitted(NamedTuple):
    """An application was placed, or adopted with its previous queue."""

    application_id: str
    user: UserGroup
    queue_path: str
    #: The queue that the submission requested, if any.
    requested_queue: str
    tags: Mapping[str, str]
    gang_style: GangStyle
    #: Whether `ugm.partition.AbstractPartition.adopt_application` added it.
    is_adopted: bool = False
    #: The group that it was charged to before, or None for no group; empty if its first allocation chooses the group.
    group: str | None = ""


class QueueQuotaSet(NamedTuple):
    """The quota of a queue that the configuration does not name was set."""

    queue_path: str
    quota: Resource


class GroupAssigned(NamedTuple):
    """An application has started for the first time, and its group was chosen."""

    application_id: str
    user: str
    #: None if it is charged to no group.
    group: str | None


class ApplicationFailing(NamedTuple):
    """An application is failing and receives no more allocations."""

    application_id: str


class ApplicationEnded(NamedTuple):
    """An application was removed."""

    application_id: str
    #: Completed, failed, or the state before its removal.
    state: ApplicationState


class AllocationRequested(NamedTuple):
    """A pending allocation was added."""

    allocation: Allocation


class RequestWithdrawn(NamedTuple):
    """A pending allocation was removed without a grant."""

    allocation: Allocation


class Allocated(NamedTuple):
    """An allocation was granted or adopted."""

    allocation: Allocation
    #: The placeholder that it replaces, if any.
    replaces: str = ""


class Resized(NamedTuple):
    """The usage of an allocation has changed."""

    allocation: Allocation
    before: Resource


class Renewed(NamedTuple):
    """The promised end of an allocation has changed."""

    allocation: Allocation
    #: The previous promised end; None if there was none.
    before: int | None


class Preempted(NamedTuple):
    """An allocation was marked as terminating."""

    allocation: Allocation


class RequestPlaced(NamedTuple):
    """A plan of preemption has made room for a pending allocation. Other plans count it as granted."""

    allocation: Allocation


class ReductionTimersStarted(NamedTuple):
    """Queues are above their maximum from now on, and a reduction is due after their delay.

    A timer stops without an event, when the usage of its queue is within the maximum again.
    """

    queue_paths: tuple[str, ...]
    #: The time of the change, in seconds.
    since: int


class Released(NamedTuple):
    """An allocation was released, replaced or evicted."""

    allocation: Allocation


class Denied(NamedTuple):
    """A request was denied: for one allocation, or for a gang."""

    requests: tuple[AllocationRequest, ...]
    decision: Decision


class ReservationChanged(NamedTuple):
    """The pending request that has the reservation of a queue has changed; see `ugm.partition.Reservation`.

    A reservation that ends because its request is granted or withdrawn has no event of its own.
    """

    queue_path: str
    #: The request that had the reservation; None for none.
    before: str | None
    #: The request that has it now; None for none.
    after: str | None


class NodeChanged(NamedTuple):
    """A node was added, changed or removed."""

    name: str
    #: None if the node is new.
    before: Resource | None
    #: None if the node was removed.
    after: Resource | None


class ModelsChanged(NamedTuple):
    """The program has added, replaced or left out quota models of its own; see `ugm.QuotaModel`.

    The models of a configuration change with it.
    """

    #: The names of their classes, in their order.
    before: tuple[str, ...]
    after: tuple[str, ...]


class BudgetChanged(NamedTuple):
    """An operator has set, refilled or transferred a budget."""

    change: BudgetChange


class PartitionClosed(NamedTuple):
    """The partition is closed and accepts no more requests."""


class ConfigurationChanged(NamedTuple):
    """Another configuration was put in force."""

    before: CompiledConfig
    after: CompiledConfig
    #: The author that the call named; empty for none.
    author: str = ""

    @property
    def changes(self) -> Changes:
        """The differences between the configurations, computed on demand."""
        from ugm.partition.config.changes import changes_between  # noqa: PLC0415 - few programs need it

        return changes_between(self.before, self.after)


Event: TypeAlias = (
    ApplicationSubmitted
    | QueueQuotaSet
    | GroupAssigned
    | ApplicationFailing
    | ApplicationEnded
    | AllocationRequested
    | RequestWithdrawn
    | Allocated
    | Resized
    | Renewed
    | Preempted
    | RequestPlaced
    | ReductionTimersStarted
    | Released
    | Denied
    | ReservationChanged
    | NodeChanged
    | BudgetChanged
    | ModelsChanged
    | ConfigurationChanged
    | PartitionClosed
)


class Subscriber(Protocol):
    """A function that is called with all events of a partition.

    It is called after the lock has been released, and before the operation that made the changes returns. One thread
    calls at a time, in the order of the numbers. If a call is interrupted, the same events are delivered again with the
    same numbers, so a subscriber must accept repetition. An exception that a subscriber raises is logged and changes
    nothing.

    A subscriber may call the partition; the events of such a call are delivered after the subscriber has returned. It
    must not wait for another thread that changes the partition, because that thread waits for the subscriber.
    """

    def __call__(self, first: int, events: tuple[Event, ...], /) -> None:
        """Handle the events of one operation, which are numbered from *first* on; the first event has number 1."""


def events_of(changes: Sequence[object]) -> tuple[Event, ...]:
    """Return the events of the changes of an operation, which may contain other items."""
    if len(changes) == 1 and type(changes[0]) is Change and changes[0].table == "allocation":
        # Most grants and releases.
        _, _, old, new, cause = changes[0]
        event = _event_of_allocation(old, new, cause)
        return () if event is None else (event,)
    found: list[Event] = []
    placed: dict[str, Allocation] = {}
    for change in changes:
        if type(change) is not Change:
            continue
        table, key, old, new, cause = change
        if table == "allocation":
            event = _event_of_allocation(old, new, cause)
            if event is not None:
                found.append(event)
            else:
                placed[key] = new
        elif table == "application":
            found.extend(_events_of_application(old, new, cause))
        elif table == "request":
            if old is not None and new is not None:
                found.append(RequestPlaced(placed[key]))
        elif table != "queue" or (new is not None and new.quota not in {None, old and old.quota}):
            found.extend(_other_events(change))
    return tuple(found)


def _event_of_allocation(old: Allocation | None, new: Allocation | None, cause: str) -> Event | None:
    """Return the event of a change of an allocation; None if it is pending before and after."""
    if new is None:
        assert old is not None  # noqa: S101 - a removed row
        return RequestWithdrawn(old) if old.state is _PENDING else _new(Released, (old,))
    if old is None or old.state is _PENDING:
        if new.state is not _PENDING:
            return _new(Allocated, (new, cause))
        return AllocationRequested(new) if old is None else None
    if new.state is _TERMINATING and old.state is not _TERMINATING:
        return Preempted(new)
    if old.until != new.until:
        return Renewed(new, old.until)
    return Resized(new, old.usage)


def _events_of_application(old: ApplicationRow | None, new: ApplicationRow | None, cause: str) -> Iterator[Event]:
    if new is None:
        assert old is not None  # noqa: S101 - a removed row
        yield ApplicationEnded(old.application_id, ApplicationState(cause))
    elif old is None:
        application_id, user, path, requested, tags, gang_style, is_adopted, _, group, *_ = new
        yield ApplicationSubmitted(application_id, user, path, requested, dict(tags), gang_style, is_adopted, group)
    else:
        if new.has_run and not old.has_run:
            yield GroupAssigned(new.application_id, new.user.name, new.group)
        if new.failing and not old.failing:
            yield ApplicationFailing(new.application_id)


def _other_events(change: Change) -> Iterator[Event]:
    table, key, old, new, cause = change
    match table:
        case "partition":
            yield from _events_of_partition(old, new, cause)
        case "configuration":
            yield ConfigurationChanged(old.compiled, new.compiled, new.author)
        case "node":
            yield NodeChanged(key, old and old.offers, new and new.offers)
        case "queue":
            yield QueueQuotaSet(key, new.quota)
        case "budget":
            yield BudgetChanged(new)
        case "denial":
            yield new


def _events_of_partition(old: PartitionRow, new: PartitionRow, cause: str) -> Iterator[Event]:
    if new.closed and not old.closed:
        yield PartitionClosed()
    if old.added_models != new.added_models:
        yield ModelsChanged(old.added_models, new.added_models)
    if old.reservations != new.reservations and cause:
        yield ReservationChanged(cause, old.reservations.get(cause), new.reservations.get(cause))
    started = {path: since for path, since in new.reduction_timers.items() if old.reduction_timers.get(path) != since}
    if started:
        yield ReductionTimersStarted(tuple(sorted(started)), max(started.values()))


# Events as JSON

#: The names for clients that differ from those of the classes.
_SHORT_NAMES: Final[Mapping[type[Event], str]] = {
    ApplicationSubmitted: "submitted",
    QueueQuotaSet: "quota_given",
    ApplicationFailing: "failing",
    ApplicationEnded: "ended",
    AllocationRequested: "asked",
    RequestWithdrawn: "withdrawn",
    ConfigurationChanged: "configured",
    PartitionClosed: "closed",
}
_EVENT_NAMES: Final[Mapping[type[Event], str]] = {
    kind: _SHORT_NAMES.get(kind) or re.sub(r"\B(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Event)
}
#: The fields whose name for clients differs from the attribute.
_CLIENT_NAMES: Final = {"requests": "asks", "requested_queue": "asked_queue"}


def event_name(kind: type[Event]) -> str:
    """Return the name of a class of events for clients: in JSON, in metrics and in requests.

    >>> event_name(NodeChanged)
    'node_changed'
    """
    return _EVENT_NAMES[kind]


def event_to_dict(event: Event) -> JsonObject:
    """Return an event for JSON, with its name as ``event``."""
    name = {"event": event_name(type(event))}
    if isinstance(event, ConfigurationChanged):
        return {**name, "changes": event.changes.to_dict(), "author": event.author}
    return {**name, **{_CLIENT_NAMES.get(field, field): to_json(getattr(event, field)) for field in event._fields}}

"""What happens in a partition, as values for those who follow it: a page, a metric, a journal.

Every change of the books is one event, and so is every denial. Together, in their order, they say everything: whoever
has seen all events knows what the books hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ugm.decision import Decision
from ugm.identity import UserGroup
from ugm.partition.application import ApplicationState, GangStyle
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes, changes_between
from ugm.partition.ledger_entry import Allocation, AllocationRequest
from ugm.resources import Resource

__all__ = [
    "Allocated",
    "AllocationRequested",
    "ApplicationEnded",
    "ApplicationFailing",
    "ApplicationSubmitted",
    "ConfigurationChanged",
    "Denied",
    "Event",
    "GroupAssigned",
    "NodeChanged",
    "PartitionClosed",
    "Preempted",
    "QueueQuotaSet",
    "Released",
    "RequestWithdrawn",
    "Resized",
    "Subscriber",
    "event_dict",
    "event_name",
]


class ApplicationSubmitted(NamedTuple):
    """An application was placed, or listed where it was placed before."""

    application_id: str
    user: UserGroup
    queue_path: str
    #: The queue that the submission requested, if any.
    requested_queue: str
    tags: Mapping[str, str]
    gang_style: GangStyle
    #: Whether it was listed where it had been placed before, by `Partition.adopt_application`.
    is_adopted: bool = False
    #: The group that it was charged to before, None for none; empty where it is still to be chosen.
    group: str | None = ""


class QueueQuotaSet(NamedTuple):
    """A queue that the configuration does not name was given a quota of its own."""

    queue_path: str
    quota: Resource


class GroupAssigned(NamedTuple):
    """An application started for the first time, which chose the group that it is charged to."""

    application_id: str
    user: str
    #: None if it is charged to no group.
    group: str | None


class ApplicationFailing(NamedTuple):
    """An application gets nothing more."""

    application_id: str


class ApplicationEnded(NamedTuple):
    """An application was forgotten."""

    application_id: str
    #: Completed, failed, or what it was when it was removed.
    state: ApplicationState


class AllocationRequested(NamedTuple):
    """An allocation is pending."""

    allocation: Allocation


class RequestWithdrawn(NamedTuple):
    """An allocation is pending no longer, and was not granted."""

    allocation: Allocation


class Allocated(NamedTuple):
    """An allocation was granted, or adopted."""

    allocation: Allocation
    #: The placeholder that it took the place of, if any.
    replaces: str = ""


class Resized(NamedTuple):
    """An allocation takes something else."""

    allocation: Allocation
    before: Resource


class Preempted(NamedTuple):
    """An allocation was told to go."""

    allocation: Allocation


class Released(NamedTuple):
    """An allocation was given back: released, replaced or evicted."""

    allocation: Allocation


class Denied(NamedTuple):
    """Something was asked for and not granted: one allocation, or the several of a gang."""

    requests: tuple[AllocationRequest, ...]
    decision: Decision


class NodeChanged(NamedTuple):
    """A node was registered, changed or removed."""

    name: str
    #: None if the node is new.
    before: Resource | None
    #: None if the node has gone.
    after: Resource | None


class PartitionClosed(NamedTuple):
    """The partition takes nothing more."""


class ConfigurationChanged(NamedTuple):
    """Another configuration is in force."""

    before: CompiledConfig
    after: CompiledConfig

    @property
    def changes(self) -> Changes:
        """What has changed, worked out when somebody asks."""
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
    | Preempted
    | Released
    | Denied
    | NodeChanged
    | ConfigurationChanged
    | PartitionClosed
)


#: The name of each kind of event in JSON, in metrics and in requests. Stored records have these names.
_NAMES: Final[dict[type[Event], str]] = {
    ApplicationSubmitted: "submitted",
    QueueQuotaSet: "quota_given",
    GroupAssigned: "linked",
    ApplicationFailing: "failing",
    ApplicationEnded: "ended",
    AllocationRequested: "asked",
    RequestWithdrawn: "withdrawn",
    Allocated: "allocated",
    Resized: "resized",
    Preempted: "preempted",
    Released: "released",
    Denied: "denied",
    NodeChanged: "node_changed",
    ConfigurationChanged: "configured",
    PartitionClosed: "closed",
}
#: Fields whose name in JSON differs from the attribute.
_FIELDS: Final = {"requests": "asks", "requested_queue": "asked_queue"}


def event_name(kind: type[Event]) -> str:
    """Return the name of a kind of events, wherever it is text.

    >>> event_name(NodeChanged)
    'node_changed'
    """
    return _NAMES[kind]


class Subscriber(Protocol):
    """A function that is called with everything that happens in a partition.

    It is called after the lock has been released, and before the operation that made the changes returns. One thread
    calls at a time, in the order of the numbers. If a call is interrupted, the same events are delivered again with the
    same numbers, so a subscriber must accept repetition. An exception that a subscriber raises is logged and changes
    nothing.

    A subscriber may call the partition; the events of such a call are delivered after the subscriber has returned. It
    must not wait for another thread that changes the partition, because that thread waits for the subscriber.
    """

    def __call__(self, first: int, events: tuple[Event, ...], /) -> None:
        """Take note of events that happened in one go; they are numbered from *first* on, all events from 1."""
        ...


def event_dict(event: Event) -> dict[str, Any]:
    """Return an event for JSON, with its kind as ``event``."""
    told: dict[str, Any] = {"event": event_name(type(event))}
    if isinstance(event, ConfigurationChanged):
        return {**told, "changes": event.changes.to_dict()}
    return {**told, **{_FIELDS.get(name, name): _plain(value) for name, value in event._asdict().items()}}


def _plain(value: object) -> object:
    if isinstance(value, UserGroup):
        return {"name": value.name, "groups": list(value.groups)}
    if isinstance(value, Allocation | Decision):
        return value.to_dict()
    if isinstance(value, AllocationRequest):
        return {**value._asdict(), "usage": dict(value.usage)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value

"""What happens in a partition, as values for those who follow it: a page, a metric, a journal.

Every change of the books is one event, and so is every denial. Together, in their order, they say everything: whoever
has seen all events knows what the books hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, get_args

from ugm.decision import Decision
from ugm.identity import UserGroup
from ugm.partition.application import ApplicationState, GangStyle
from ugm.partition.changes import Changes, changes_between
from ugm.partition.compiled import Compiled
from ugm.partition.entry import Allocation, Ask
from ugm.resources import Resource

__all__ = [
    "Allocated",
    "Asked",
    "Closed",
    "Configured",
    "Denied",
    "Ended",
    "Event",
    "Failing",
    "Linked",
    "NodeChanged",
    "Preempted",
    "QuotaGiven",
    "Released",
    "Resized",
    "Submitted",
    "Subscriber",
    "Withdrawn",
    "event_dict",
    "event_name",
]


class Submitted(NamedTuple):
    """An application was placed, or listed where it was placed before."""

    application_id: str
    user: UserGroup
    queue_path: str
    #: The queue that was asked for, if any.
    asked_queue: str
    tags: Mapping[str, str]
    gang_style: GangStyle
    #: Whether it was listed where it had been placed before, by `Partition.adopt_application`.
    is_adopted: bool = False
    #: The group that it was charged to before, None for none; empty where it is still to be chosen.
    group: str | None = ""


class QuotaGiven(NamedTuple):
    """A queue that the configuration does not name was given a quota of its own."""

    queue_path: str
    quota: Resource


class Linked(NamedTuple):
    """An application started for the first time, which chose the group that it is charged to."""

    application_id: str
    user: str
    #: None if it is charged to no group.
    group: str | None


class Failing(NamedTuple):
    """An application gets nothing more."""

    application_id: str


class Ended(NamedTuple):
    """An application was forgotten."""

    application_id: str
    #: Completed, failed, or what it was when it was removed.
    state: ApplicationState


class Asked(NamedTuple):
    """An allocation is pending."""

    allocation: Allocation


class Withdrawn(NamedTuple):
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

    asks: tuple[Ask, ...]
    decision: Decision


class NodeChanged(NamedTuple):
    """A node was registered, changed or removed."""

    name: str
    #: None if the node is new.
    before: Resource | None
    #: None if the node has gone.
    after: Resource | None


class Closed(NamedTuple):
    """The partition takes nothing more."""


class Configured(NamedTuple):
    """Another configuration is in force."""

    before: Compiled
    after: Compiled

    @property
    def changes(self) -> Changes:
        """What has changed, worked out when somebody asks."""
        return changes_between(self.before, self.after)


Event: TypeAlias = (
    Submitted
    | QuotaGiven
    | Linked
    | Failing
    | Ended
    | Asked
    | Withdrawn
    | Allocated
    | Resized
    | Preempted
    | Released
    | Denied
    | NodeChanged
    | Configured
    | Closed
)


#: By the class of an event, its name in JSON, in metrics and in requests.
_NAMES: Final = {kind: re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Event)}


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
    if isinstance(event, Configured):
        return {**told, "changes": event.changes.to_dict()}
    return {**told, **{name: _plain(value) for name, value in event._asdict().items()}}


def _plain(value: object) -> object:
    if isinstance(value, UserGroup):
        return {"name": value.name, "groups": list(value.groups)}
    if isinstance(value, Allocation | Decision):
        return value.to_dict()
    if isinstance(value, Ask):
        return {**value._asdict(), "usage": dict(value.usage)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value

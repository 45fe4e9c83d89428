"""What happens in a partition, as values for those who follow it: a page, a metric, a journal.

Every change of the books is one event, and so is every denial. Together, in their order, they say everything: whoever
has seen all events knows what the books hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ugm.decision import Decision
from ugm.identity import UserGroup
from ugm.partition.allocation import Allocation, AllocationRequest
from ugm.partition.application import ApplicationState, GangStyle
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes, changes_between
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

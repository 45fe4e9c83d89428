"""The events of a partition: changes and denials as values, for subscribers and journals.

Every change of the state of a partition is one event, and so is every denial. All events in their order determine the
state: `ugm.partition.replay` rebuilds it from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ugm.budgets import BudgetChange
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
]


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
        ...

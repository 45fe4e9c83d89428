"""What the events of a partition say about its applications and allocations."""

from __future__ import annotations

from collections.abc import Iterable

from ugm import Partition
from ugm.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationSubmitted,
    Event,
    Preempted,
    Released,
    Renewed,
    RequestPlaced,
    RequestWithdrawn,
    Resized,
)
from ugm.partition import Allocation


class EventFollower:
    """The applications and allocations after some events."""

    def __init__(self) -> None:
        self.allocations: dict[str, Allocation] = {}
        self.applications: set[str] = set()

    def follow(self, events: Iterable[Event]) -> None:
        """Apply events in their order."""
        for event in events:
            match event:
                case Allocated(one, replaces):
                    self.allocations.pop(replaces, None)
                    self.allocations[one.allocation_id] = one
                case AllocationRequested(one) | Resized(one, _) | Renewed(one, _) | Preempted(one) | RequestPlaced(one):
                    self.allocations[one.allocation_id] = one
                case Released(one) | RequestWithdrawn(one):
                    del self.allocations[one.allocation_id]
                case ApplicationSubmitted():
                    self.applications.add(event.application_id)
                case ApplicationEnded():
                    self.applications.remove(event.application_id)

    def require_same(self, partition: Partition) -> None:
        """Expect that a partition has what the events say."""
        assert {one.allocation_id: one for one in partition.allocations()} == self.allocations
        assert set(partition.application_ids()) == self.applications

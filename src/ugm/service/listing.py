"""Long answers of a partition in a service: their items are made one by one, while they are encoded.

A leader must not stop for the time in which a million values are made, visited by the garbage collector, or deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast

from ugm.partition import Partition
from ugm.partition.allocation import Allocation
from ugm.partition.audit import AuditReport, Difference, RunningAllocation
from ugm.resources import Resource

__all__ = ["ListingPartition"]


class ListingPartition(Partition):
    """A partition of a service: the engine of a leader, or the state that a standby follows."""

    __slots__ = ()

    def list_allocations(self, application_id: str | None = None) -> Collection[Allocation]:
        """Return the items of `allocations`."""
        return self._copied_allocations(application_id).values()

    def list_differences(self, running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> AuditReport:
        """Return the report of `audit`, whose differences are not a tuple here."""
        return AuditReport(cast("tuple[Difference, ...]", self._differences(running)))

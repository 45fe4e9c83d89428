"""The parts of a snapshot, and their creation from copied attributes."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from ugm.queues import QueueSpec, Quota
from ugm.resources import Resource, sum_of
from ugm.tracking.holding import amounts_by_name
from ugm.tracking.snapshot import UsageLine

__all__ = ["CopiedQueue", "PendingLine", "Row", "SnapshotParts", "copied_queue", "pending_line", "usage_line"]

#: The copied attributes of one item.
Row: TypeAlias = tuple[Any, ...]


class CopiedQueue(NamedTuple):
    """A copied queue."""

    spec: QueueSpec
    is_managed: bool
    was_configured: bool
    quota_override: Resource | None
    applications: tuple[str, ...]

    @property
    def quota(self) -> Quota:
        """The quota in force."""
        quota = self.spec.quota
        return quota if self.quota_override is None else quota._replace(max_resources=self.quota_override)


class PendingLine(NamedTuple):
    """The pending allocations of one application."""

    user_name: str
    #: None if the application is charged to no group, or has not run yet.
    group_name: str | None
    queue_path: str
    usages: list[Resource]

    @property
    def item_count(self) -> int:
        """The number of the allocations."""
        return len(self.usages)

    @property
    def used(self) -> Resource:
        """The sum of the allocations."""
        return self.usages[0] if len(self.usages) == 1 else sum_of(self.usages)


class SnapshotParts(NamedTuple):
    """The values of a snapshot except its configuration, as another process needs them."""

    #: The sum of all nodes; None until a first node is registered.
    cluster: Resource | None
    nodes: dict[str, Resource]
    application_count: int
    allocation_count: int
    #: Sorted by path.
    queues: dict[str, CopiedQueue]
    #: The usage of every running application.
    lines: list[UsageLine]
    #: Every application with pending allocations.
    pending: list[PendingLine]


def copied_queue(_path: str, row: Row) -> CopiedQueue:
    """Return a copied queue for its values."""
    return CopiedQueue(*row)


def usage_line(application_id: str, row: Row) -> UsageLine:
    """Return the line of an application for the values of its holding."""
    if isinstance(row, UsageLine):
        return row
    queue_path, owner, group, amounts = row
    return UsageLine(application_id, queue_path, owner.name, group and group.name, amounts_by_name(amounts))


def pending_line(_application_id: str, row: Row) -> PendingLine:
    """Return the line of an application for its pending entries of the ledger."""
    if isinstance(row, PendingLine):
        return row
    user, group, queue_path, entries = row
    return PendingLine(user, group, queue_path, [entry.usage for entry in entries])

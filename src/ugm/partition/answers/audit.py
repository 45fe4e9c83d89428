"""Audits: comparisons of the ledger with the allocations that really run, which only the embedding program knows.

An audit reports the differences and changes nothing. `ugm.partition.AbstractPartition.reconcile` repairs those that
still exist.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from ugm._json_values import JsonObject, attributes
from ugm.arguments import require_application_id, require_exact_name, require_name, require_resource
from ugm.errors import RequestError
from ugm.identity import UserGroup
from ugm.partition.rows import Allocation, AllocationSpec, AllocationState
from ugm.resources import Resource

__all__ = [
    "AuditReport",
    "Difference",
    "RunningAllocation",
    "RunningApplication",
    "differences",
    "require_differences",
    "require_running",
]


class RunningAllocation(NamedTuple):
    """An allocation that really runs, as the embedding program knows it."""

    allocation_id: str
    application_id: str
    usage: Resource
    #: None if it is unknown; then every node of the ledger is right.
    node: str | None = None


class RunningApplication(NamedTuple):
    """An application that runs, with its allocations, as the host knows it."""

    application_id: str
    #: The owner, with the groups.
    user: UserGroup
    #: The path of the queue in which the application was placed.
    queue_path: str
    #: The allocations that run, each as an `AllocationSpec` or as a tuple of its id and usage.
    allocations: Iterable[AllocationSpec | tuple[str, Resource]] = ()
    tags: Mapping[str, str] | None = None


class Difference(NamedTuple):
    """A difference between the ledger and the allocations that run."""

    #: The allocation in the ledger; None if the ledger does not contain it.
    ledger: RunningAllocation | None
    #: The allocation that runs; None if it does not run.
    running: RunningAllocation | None
    #: Whether the application of the running allocation exists. If not, it must be adopted first.
    is_application_known: bool = True

    @property
    def allocation_id(self) -> str:
        """The id of the allocation."""
        known = self.ledger or self.running
        return known.allocation_id if known else ""

    def __str__(self) -> str:
        if self.ledger is None and self.running is not None:
            return f"{_text(self.running, is_known=self.is_application_known)} runs, but is not in the ledger"
        if self.running is None and self.ledger is not None:
            return f"{_text(self.ledger)} is in the ledger, but is not running"
        return f"{self.ledger and _text(self.ledger)} is in the ledger, but {self.running and _text(self.running)} runs"


class AuditReport(NamedTuple):
    """The differences between the ledger and the allocations that run; false if there are none."""

    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def to_dict(self) -> JsonObject:
        """Return the report for JSON."""
        return attributes(self, self._fields)

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences)) or "the ledger agrees with what runs"


def _text(running: RunningAllocation, *, is_known: bool = True) -> str:
    owner = "" if is_known else "the unknown application "
    node = "" if running.node is None else f" on node {running.node!r}"
    return f"{running.allocation_id!r} of {owner}{running.application_id!r} with {running.usage}{node}"


def require_running(running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> dict[str, RunningAllocation]:
    """Return the running allocations by id.

    Raises:
        RequestError: an item is not an allocation, or an id occurs twice.
    """
    by_id: dict[str, RunningAllocation] = {}
    if not isinstance(running, Iterable):
        raise RequestError("running", running, "expected an iterable of allocations")
    for item in running:
        try:
            one = RunningAllocation(*item)
        except TypeError as error:
            reason = "expected a RunningAllocation, or a tuple of its parts"
            raise RequestError("running", item, reason) from error
        _require_valid(one)
        if by_id.setdefault(one.allocation_id, one) is not one:
            raise RequestError("running", one.allocation_id, "the allocation occurs twice")
    return by_id


def _require_valid(running: RunningAllocation) -> None:
    require_resource("usage", running.usage)
    require_application_id(running.application_id)
    require_name("allocation_id", running.allocation_id)
    if running.node is not None:
        require_exact_name("node", running.node)


def require_differences(report: object) -> tuple[Difference, ...]:
    """Return the differences of a report, which the program may have filtered or built.

    Raises:
        RequestError: it is not a report, or an audit cannot have found one of its differences.
    """
    if not isinstance(report, AuditReport) or not isinstance(report.differences, tuple):
        raise RequestError("report", report, "expected an AuditReport")
    for difference in report.differences:
        sides = _sides(difference)
        for side in sides:
            _require_valid(side)
        if sides[0].allocation_id != sides[-1].allocation_id:
            raise RequestError("report", difference, "the difference is about two allocations")
    return report.differences


def _sides(value: object) -> list[RunningAllocation]:
    """Return the sides of a difference, one or two."""
    both = (value.ledger, value.running) if isinstance(value, Difference) else ()
    sides = [side for side in both if side is not None]
    if not sides or not all(isinstance(side, RunningAllocation) for side in sides):
        raise RequestError("report", value, "expected a Difference between one or two RunningAllocations")
    return sides


def differences(
    rows: Mapping[str, Allocation], application_ids: Container[str], running: Mapping[str, RunningAllocation]
) -> tuple[Difference, ...]:
    """Return the differences between the ledger and the running allocations, in the order of the ids.

    A terminating allocation counts until its release.

    Args:
        rows: a copy of the ledger.
        application_ids: the applications at the same moment.
        running: the running allocations by id.
    """
    held = {name: row for name, row in rows.items() if row.state is not AllocationState.PENDING}
    found = []
    for name in sorted({**held, **running}):
        row, one = held.get(name), running.get(name)
        if row is None or one is None or not _agree(row, one):
            ledger = row and RunningAllocation(*row[:3], row.node)
            found.append(Difference(ledger, one, one is None or one.application_id in application_ids))
    return tuple(found)


def _agree(one: Allocation, running: RunningAllocation) -> bool:
    if one[:2] != running[:2] or (running.node is not None and running.node != one.node):
        return False
    return one.usage == running.usage or one.usage.without_zeros() == running.usage.without_zeros()

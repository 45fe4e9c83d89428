"""Audits and the self-check of a partition.

An *audit* compares the ledger with the allocations that really run, which only the embedding program knows. It reports
the differences and changes nothing. `ugm.partition.AbstractPartition.reconcile` repairs those that still exist.

The *self-check* compares every counter with the ledger. Any difference is a bug in ugm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ugm.arguments import require_application_id, require_name, require_resource
from ugm.errors import InvariantError, RequestError
from ugm.partition.allocation import AllocationState
from ugm.partition.application import Application
from ugm.partition.state import PartitionState
from ugm.queues.queue import Queue
from ugm.resources import Resource, sum_of
from ugm.tracking.audit import findings as tracking_findings

__all__ = ["AuditReport", "Difference", "RunningAllocation", "audit", "differences_of", "truth_of", "verify"]


class RunningAllocation(NamedTuple):
    """An allocation that really runs, as the embedding program knows it."""

    allocation_id: str
    application_id: str
    usage: Resource


class Difference(NamedTuple):
    """A difference between the ledger and the allocations that run."""

    #: The allocation in the ledger; None if the ledger does not contain it.
    ledger: RunningAllocation | None
    #: The allocation that runs; None if it does not run.
    truth: RunningAllocation | None
    #: Whether the application of the running allocation exists. If not, it must be adopted first.
    is_known: bool = True

    @property
    def allocation_id(self) -> str:
        """The id of the allocation."""
        known = self.ledger or self.truth
        return known.allocation_id if known else ""

    def __str__(self) -> str:
        if self.ledger is None and self.truth is not None:
            unknown = "" if self.is_known else ", an unknown application"
            return f"{_text(self.truth)} runs{unknown}, and is not in the ledger"
        if self.truth is None and self.ledger is not None:
            return f"{_text(self.ledger)} is in the ledger but is not running"
        return f"{self.ledger and _text(self.ledger)} is in the ledger, but {self.truth and _text(self.truth)} runs"


class AuditReport(NamedTuple):
    """The differences between the ledger and the allocations that run; false if there are none."""

    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {"differences": [_as_dict(difference) for difference in self.differences]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences)) or "the ledger agrees with what runs"


def _text(running: RunningAllocation) -> str:
    return f"{running.allocation_id!r} of {running.application_id!r} with {running.usage}"


def _as_dict(difference: Difference) -> dict[str, Any]:
    sides = {"ledger": difference.ledger, "truth": difference.truth}
    fields = {name: side and {**side._asdict(), "usage": dict(side.usage)} for name, side in sides.items()}
    return {**fields, "is_known": difference.is_known}


def truth_of(running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> dict[str, RunningAllocation]:
    """Return the running allocations by id.

    Raises:
        RequestError: an item is not an allocation, or an id occurs twice.
    """
    truth: dict[str, RunningAllocation] = {}
    if not isinstance(running, Iterable):
        raise RequestError("running", running, "expected an iterable of allocations")
    for item in running:
        try:
            one = RunningAllocation(*item)
        except TypeError as error:
            reason = "expected a RunningAllocation, or a tuple of its three parts"
            raise RequestError("running", item, reason) from error
        _require_valid(one)
        if truth.setdefault(one.allocation_id, one) is not one:
            raise RequestError("running", one.allocation_id, "the allocation occurs twice")
    return truth


def _require_valid(running: RunningAllocation) -> None:
    require_resource("usage", running.usage)
    require_application_id(running.application_id)
    require_name("allocation_id", running.allocation_id)


def differences_of(report: object) -> tuple[Difference, ...]:
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
    sides = [side for side in (value.ledger, value.truth) if side is not None] if isinstance(value, Difference) else []
    if not sides or not all(isinstance(side, RunningAllocation) for side in sides):
        raise RequestError("report", value, "expected a Difference between one or two RunningAllocations")
    return sides


def audit(state: PartitionState, truth: dict[str, RunningAllocation]) -> AuditReport:
    """Compare the ledger with the running allocations; a terminating allocation counts until its release."""
    ledger = {
        name: RunningAllocation(name, entry.application.application_id, entry.usage)
        for name, entry in state.ledger.items()
        if entry.traits.state is not AllocationState.PENDING
    }
    return AuditReport(
        tuple(
            Difference(ledger.get(name), truth.get(name), name not in truth or _is_known(state, truth[name]))
            for name in sorted({*ledger, *truth})
            if not _agree(ledger.get(name), truth.get(name))
        )
    )


def _is_known(state: PartitionState, running: RunningAllocation) -> bool:
    return running.application_id in state.applications


def _agree(one: RunningAllocation | None, other: RunningAllocation | None) -> bool:
    if one is None or other is None:
        return one is other
    return one[:2] == other[:2] and one.usage.without_zeros() == other.usage.without_zeros()


def verify(state: PartitionState) -> None:
    """Recompute every counter from the ledger.

    Raises:
        InvariantError: a counter differs; the error has a message for each difference.
    """
    found = [*tracking_findings(state.holding_index), *_entries(state), *_holdings(state), *_queues(state)]
    if found:
        raise InvariantError(tuple(found))


def _entries(state: PartitionState) -> Iterator[str]:
    listed: dict[str, Application] = {}
    for application_id, application in state.applications.items():
        if application.application_id != application_id:
            yield f"application {application.application_id!r} is listed as {application_id!r}"
        listed |= dict.fromkeys([*application.allocations, *application.pending], application)
        if not application.pending.keys().isdisjoint(application.allocations):
            yield f"application {application_id!r} lists an allocation as held and as pending"
    if listed != state.ledger.owners:
        yield "the applications list other allocations than the ledger"


def _holdings(state: PartitionState) -> Iterator[str]:
    for application_id, application in state.applications.items():
        due = sum_of(entry.usage for entry in application.entries().values())
        held = Resource(application.held() or {}).without_zeros()
        if held != due:
            yield f"application {application_id!r} holds {held}, but its allocations add up to {due}"
        first = state.holding_index.holdings.get(application_id)
        if first is not application.holding:
            yield f"application {application_id!r} is charged otherwise than it runs"
        if application.allocations and application.holding is None:
            yield f"application {application_id!r} has allocations and does not run"
    for application_id in state.holding_index.holdings:
        if application_id not in state.applications:
            yield f"application {application_id!r} is charged and not listed"


def _queues(state: PartitionState) -> Iterator[str]:
    placed: dict[str, set[str]] = {}
    for name, application in state.applications.items():
        placed.setdefault(application.queue.queue_path, set()).add(name)
    for path, queue in state.tree.queues.items():
        if set(queue.applications) != placed.pop(path, set()):
            yield f"queue {path} lists other applications than were placed in it"
        if queue.is_idle and not queue.managed:
            yield f"queue {path} is empty but was not deleted"
        yield from _counter(state, queue)
    yield from (f"queue {path} has applications but does not exist" for path in placed)


def _counter(state: PartitionState, queue: Queue) -> Iterator[str]:
    path, node = queue.queue_path, queue.node
    if node is None:
        if queue.limit(state.tree.cluster) is not None:
            yield f"queue {path} has a limit and does not count"
        if path in state.tree.nodes:
            yield f"queue {path} does not count and is listed among those in use"
        return
    running, usage = len(list(queue.running())), queue.usage()
    if node.layout is not state.in_force.epoch.layout:
        yield f"queue {path} counts other resources than the partition"
    if node.running != running:
        yield f"queue {path} counts {node.running} applications, but {running} run"
    for name, used in node.used().items():
        if used != usage.get(name, 0):
            yield f"queue {path} counts {used} {name}, but its applications hold {usage.get(name, 0)}"
    if (path in state.tree.nodes) != bool(running):
        yield f"queue {path} is not listed among those in use as it should be"

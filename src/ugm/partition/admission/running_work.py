"""The running work of a host, compared with the ledger and made equal to it.

A host that runs containers works with whole applications. After a restart it names all that run, and
`Synchronization` makes the ledger equal to it. An audit compares single allocations. It reports the differences and
changes nothing; `ugm.partition.AbstractPartition.reconcile` repairs those that still exist.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject, attributes
from ugm.arguments import require_exact_name, require_items, require_resource
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.families import is_equal
from ugm.identity import UserGroup, require_name
from ugm.partition.admission.applications import ApplicationLifecycle, require_leaf_path, require_submission
from ugm.partition.admission.checked_arguments import in_use_reason
from ugm.partition.answers.reports import SyncReport
from ugm.partition.rows import Allocation, AllocationRequest, AllocationSpec, AllocationState, GangStyle, require_specs
from ugm.queues import Submission
from ugm.resources import Resource


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
    require_name("application_id", running.application_id)
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
        for side in _sides(difference):
            _require_valid(side)
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
    return any(
        is_equal(known.without_zeros(), running.usage.without_zeros()) for known in (one.usage, one.requested_usage)
    )


_PENDING: Final = AllocationState.PENDING


class RunningWork(NamedTuple):
    """The running work of a host, checked."""

    applications: Mapping[str, tuple[Submission, tuple[AllocationSpec, ...]]]
    #: The application of each allocation.
    owners: Mapping[str, str]
    #: The applications and allocations that are about to run.
    starting: frozenset[str]
    #: The applications and allocations that may be released or ended; None for all.
    among: frozenset[str] | None

    def may_end(self, name: str) -> bool:
        """Return whether an application or allocation that does not run may be ended or released."""
        return name not in self.starting and (self.among is None or name in self.among)


def require_work(
    running: Iterable[RunningApplication], starting: Iterable[str], among: Iterable[str] | None
) -> RunningWork:
    """Return the running work of a host.

    Raises:
        RequestError: an item is invalid, or an id occurs twice.
    """
    applications: dict[str, tuple[Submission, tuple[AllocationSpec, ...]]] = {}
    owners: dict[str, str] = {}
    for item in require_items("running", running):
        if not isinstance(item, RunningApplication):
            raise RequestError("running", item, "expected a RunningApplication")
        submission = require_submission(item.application_id, item.user, require_leaf_path(item.queue_path), item.tags)
        specs = require_specs(item.allocations)
        if item.application_id in applications:
            raise RequestError("running", item.application_id, "the application occurs twice")
        applications[item.application_id] = submission, specs
        for spec in specs:
            if owners.setdefault(spec.allocation_id, item.application_id) != item.application_id:
                raise RequestError("running", spec.allocation_id, "the allocation occurs twice")
    return RunningWork(
        applications, owners, _ids("starting", starting), None if among is None else _ids("among", among)
    )


def _ids(argument: str, ids: Iterable[str]) -> frozenset[str]:
    return frozenset(require_name("application_id", name) for name in require_items(argument, ids))


@final
class Synchronization(ApplicationLifecycle):
    """Makes applications and allocations equal to running work. The caller runs its methods as transactions."""

    def synchronize(self, work: RunningWork, exceeded: Callable[[], tuple[Violation, ...]]) -> SyncReport:
        """Make the applications and allocations equal to the running work of a host.

        Args:
            work: the running work.
            exceeded: returns the limits that are exceeded after it.
        """
        for application_id, (submission, _) in work.applications.items():
            known = self._state.applications.get(application_id)
            if known is not None and known.row.user.name != submission.user.name:
                reason = in_use_reason("user", known.row.user.name, submission.user.name)
                raise RequestError("application_id", application_id, reason, "id-in-use")
        before = self._state.applications.keys() | set()
        released = self._release_gone(work)
        self._end_gone(work)
        ended = before - self._state.applications.keys()
        new = work.applications.keys() - self._state.applications.keys()
        adopted: list[str] = []
        corrected: list[str] = []
        for application_id, (submission, specs) in work.applications.items():
            if application_id in new:
                self.adopt(submission, GangStyle.SOFT, None, "")
            for spec in specs:
                self._make_true(spec, application_id, adopted, corrected)
        return SyncReport(
            adopted_applications=_sorted(new),
            adopted=_sorted(adopted),
            corrected=_sorted(corrected),
            released=_sorted(released),
            ended=_sorted(ended),
            exceeded=exceeded(),
        )

    def _release_gone(self, work: RunningWork) -> list[str]:
        gone = [
            row
            for name, row in self._state.allocations.items()
            if row.state is not _PENDING
            and name not in work.owners
            and work.may_end(name)
            and row.application_id not in work.starting
        ]
        self._admission.end(gone)
        return [row.allocation_id for row in gone]

    def _end_gone(self, work: RunningWork) -> None:
        # The application of an allocation that stays, stays as well.
        owners = {row.application_id for name, row in self._state.allocations.items() if not work.may_end(name)}
        named = owners | work.applications.keys()
        for name in [name for name in self._state.applications if name not in named and work.may_end(name)]:
            self.remove(name)

    def _make_true(self, spec: AllocationSpec, application_id: str, adopted: list[str], corrected: list[str]) -> None:
        """Adopt an allocation that the ledger does not have, or correct its size and node."""
        name = spec.allocation_id
        if name not in self._state.allocations:
            self._admission.adopt(spec.request(application_id))
            adopted.append(name)
            return
        running = RunningAllocation(name, application_id, spec.usage, spec.node)
        row, held = self._state.held(name), self._in_ledger(name)
        if row is not None and _agree(row, running):
            return
        self._repair(Difference(held, running))
        (corrected if held is not None and held.application_id == application_id else adopted).append(name)

    def reconcile(self, differences: Sequence[Difference]) -> AuditReport:
        """Repair the differences that still exist, and return them."""
        return AuditReport(tuple(one for one in differences if self._repair(one)))

    def _repair(self, difference: Difference) -> bool:
        name, ledger, running = difference.allocation_id, difference.ledger, difference.running
        if self._in_ledger(name) != ledger:
            return False
        if running is None:
            return self._admission.release(name)
        if running.application_id not in self._state.applications:
            return False
        if ledger is not None and ledger.application_id == running.application_id:
            self._admission.correct(name, running.usage, running.node)
            return True
        known = self._state.allocations.get(name)
        # Also a pending allocation: its size or application may differ from the running one.
        self._admission.release(name)
        self._admission.adopt_row(self._row(running, known))
        return True

    def _row(self, running: RunningAllocation, known: Allocation | None) -> Allocation:
        """Return the row of a running allocation, with the properties and the promised end that are known."""
        if known is None:
            return self._admission.row(AllocationRequest(*running[:3], node=running.node), AllocationState.HELD)
        promised = known.duration if known.state is _PENDING else None
        _, application_id, usage, node = running
        request = known.request._replace(
            application_id=application_id, usage=usage, duration=promised, node=node or known.node
        )
        row = self._admission.row(request, AllocationState.HELD)
        return row if promised is not None else row._replace(until=known.until, duration=known.duration)

    def _in_ledger(self, allocation_id: str) -> RunningAllocation | None:
        """Return an allocation of the ledger as a running one; None if it is pending or does not exist."""
        row = self._state.held(allocation_id)
        return row and RunningAllocation(*row[:3], row.node)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))

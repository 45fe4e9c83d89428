"""The reservations of a partition: the requests that have one, their starts, and the requests that they hold back.

A reservation is stored in the state as the queue and the id of the request, so it survives the order of the other
requests, and a store keeps it. Everything else is planned from the ledger and the clock; see
`ugm.partition.ordering.planned_start`. A plan is made again when something has changed that it did not make itself.

Scheduling passes, the waiting list and `allocate` respect reservations; `allocate_ignoring_reservations` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self, final

from ugm.decision import Decision, Violation
from ugm.identity import TrackingType, ancestors
from ugm.model import SetupViolation
from ugm.ordering.sort_settings import QueueSettings
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import ChangeMarks
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.ordering.planned_start import (
    CandidateRequest,
    Change,
    PlannedStart,
    Reservation,
    plan_start,
    released_places,
)
from ugm.partition.rows import Allocation, AllocationRequest, AllocationState, RequestFields

#: Priorities are signed 32-bit integers.
_LOWEST: Final = -(2**31)
_HIGHEST: Final = 2**31 - 1


@final
class _Trial:
    """The reservations and grants of a pass that is tried out and undone.

    The changes of reservations before the first grant are recorded. The later ones depend on grants that do not exist
    yet: a request that was reserved after them could keep those requests waiting that the pass has granted before it.
    """

    def __init__(self, reservations: Mapping[str, str]) -> None:
        #: The reservations and `dropped` before the first grant; None before it.
        self.before_grants: tuple[dict[str, str], set[str]] | None = None
        #: What the requests that the pass has granted free at their ends.
        self.ends: list[Change] = []
        #: Whether a reservation has ended since the trial began, or since `Reservations.have_ended` was called.
        self.has_ended: bool = False
        #: The queues whose reservation was dropped.
        self.dropped: set[str] = set()
        self.reservations = dict(reservations)

    @property
    def to_record(self) -> tuple[dict[str, str], set[str]]:
        """The reservations that the pass has made without grants, and the queues whose reservation it has dropped."""
        return self.before_grants or (self.reservations, self.dropped)

    def set(self, queue_path: str, allocation_id: str | None) -> None:
        """Let a request reserve capacity for a queue in place of the one before; None for no request."""
        self.reservations.pop(queue_path, None)
        if allocation_id is None:
            self.dropped.add(queue_path)
            self.has_ended = True
        else:
            self.reservations[queue_path] = allocation_id

    def grant(self, waiting: CandidateRequest, now: int) -> None:
        """Note a grant, which ends the reservation of the request."""
        if self.before_grants is None:
            self.before_grants = dict(self.reservations), set(self.dropped)
        granted = waiting.allocation_id
        kept = {path: name for path, name in self.reservations.items() if name != granted}
        self.has_ended |= len(kept) < len(self.reservations)
        self.reservations = kept
        if waiting.row.duration is not None:
            self.ends.append((now + waiting.row.duration, released_places(waiting.application, waiting.row.usage)))


@final
class Reservations:
    """The reservations of one partition; the caller holds the lock.

    Args:
        state: the partition.
        models: its quota models.
        admission: decides about requests.
        start_marking: returns marks of all changes from now on.
    """

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        admission: AdmissionControl,
        start_marking: Callable[[], ChangeMarks],
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._start_marking: Final = start_marking
        #: What has changed since the last plan; None while nothing follows the changes.
        self._marks: ChangeMarks | None = None
        #: The requests that have reservations; None before the first plan.
        self._planned: list[PlannedStart] | None = None
        self._settings: tuple[CompiledConfig, QueueSettings] | None = None
        #: The second of the plan.
        self._now = 0
        #: The pass that is tried out; None if there is none.
        self._trial: _Trial | None = None

    # Questions

    @property
    def are_enabled(self) -> bool:
        """True if some queue of the configuration reserves capacity."""
        return self._queue_settings.has_reservations

    def current(self) -> tuple[Reservation, ...]:
        """Return the reservations at this moment."""
        if not self.are_enabled or not self._stored():
            return ()
        now = self._models.clock.now(changes=False)
        if self._marks is None:
            # A query does not make later changes slower.
            self._now = now
            self._planned = self._plan(())
        else:
            self._follow(now)
        return tuple(one.reservation() for one in self._planned or ())

    # Changes

    def allocate(self, fields: RequestFields) -> Decision:
        """Decide about a request of a scheduling pass; if queues block it, it may reserve capacity.

        Raises:
            RequestError: as for `ugm.Partition.allocate`.
        """
        request = AllocationRequest._make(fields)
        now = self._models.clock.now(changes=True)
        row = self._admission.row(request, AllocationState.HELD, now)
        known = self._state.allocations.get(request.allocation_id)
        if known is not None and known.state is not AllocationState.PENDING:
            return self._admission.allocate(request)
        self._follow(now)
        self._drop_blocked()
        waiting = CandidateRequest.of(self._state, self._state.owner(row), row)
        objection = self.objection(waiting)
        decision = self._admission.allocate(request, () if objection is None else (objection,))
        if decision:
            self._take_marks()
            self._note_grant(waiting)
        elif known is not None:
            self._reserve(row, decision.violations)
        return decision

    def _note_grant(self, waiting: CandidateRequest) -> None:
        """Follow a grant without planning again, if it changes no more of the plans than their slack."""
        for one in self._planned or ():
            is_own = waiting.starts and one.request.application is waiting.application
            is_own |= one.request.allocation_id == waiting.allocation_id
            if is_own or self._comes_before(waiting.row, one.request.row):
                self._planned = None
                return
        for one in self._planned or ():
            one.take(waiting, self._now)

    def _reserve(self, row: Allocation, violations: Iterable[Violation]) -> None:
        """Reserve the queues of a denied request that no other request has reserved, if only queues block it."""
        if not is_blocked_by_queues(violations):
            return
        for path in self._free_paths(row):
            self._set(path, row.allocation_id)
            self._planned = None

    def reserve_placed(self, allocation_id: str) -> None:
        """Let a pending request for which a preemption plan has made room reserve capacity in its queues.

        It takes the place of other requests, except of those for which earlier plans have made room.
        """
        current, placed = self._state.current_reservations(), self._state.placed
        for path in ancestors(self._queue_path(self._state.allocations[allocation_id])):
            if self._queue_settings.reserves(path) and current.get(path) not in placed:
                self._set(path, allocation_id)
                self._planned = None

    def _set(self, queue_path: str, allocation_id: str | None) -> None:
        if self._trial is None:
            self._state.set_reservation(queue_path, allocation_id)
        else:
            self._trial.set(queue_path, allocation_id)

    def _free_paths(self, row: Allocation) -> list[str]:
        """Return the queues of a blocked request whose reservation it gets."""
        taken = {path: one.request.row for one in self._planned or () for path in one.queue_paths}
        return [
            path
            for path in ancestors(self._queue_path(row))
            if self._queue_settings.reserves(path)
            and (path not in taken or self._comes_before(row, taken[path]))
            and (path not in taken or taken[path].allocation_id != row.allocation_id)
        ]

    def _drop_blocked(self) -> None:
        """Drop the reservations of requests that something else blocks, or whose queue does not reserve any more."""
        if self._trial is None and not self._state.row.reservations:
            return
        stored = self._stored()
        if stored:
            kept = {path for one in self._planned or () for path in one.queue_paths}
            for path in sorted(stored.keys() - kept):
                self._set(path, None)

    # Passes that are tried out

    def begin_trial(self) -> None:
        """Begin a pass whose grants are charged and refunded, and recorded nowhere."""
        self._follow(self._models.clock.now(changes=True))
        self._trial = _Trial(self._state.current_reservations())
        self._drop_blocked()
        self._trial.has_ended = False

    def follow_trial(self) -> None:
        """Bring the plan up to date with the grants of the trial."""
        self._follow(self._now)
        self._drop_blocked()

    def note_trial_grant(self, waiting: CandidateRequest) -> None:
        """Follow a grant of the trial after its charge."""
        assert self._trial is not None  # noqa: S101 - a trial runs
        self._trial.grant(waiting, self._now)
        self._note_grant(waiting)

    def note_blocked(self, row: Allocation) -> None:
        """Let a request of the trial that a limit blocks have a reservation, if there is one for it."""
        self.follow_trial()
        if self._free_paths(row):
            waiting = self.candidate(row)
            self._reserve(row, self._admission.violations(waiting.application, waiting.row))

    def free(self) -> set[str]:
        """Return the queues that reserve capacity, and whose reservation no request has."""
        settings = self._queue_settings
        paths: Iterable[str] = settings.reserving
        if settings.has_reserving_template:
            paths = (path for path in self._state.tree.queues if settings.reserves(path))
        return set(paths).difference(*(one.queue_paths for one in self._planned or ()))

    def have_ended(self) -> bool:
        """Return whether the last grant of the trial has ended a reservation."""
        self.follow_trial()
        assert self._trial is not None  # noqa: S101 - a trial runs
        has_ended, self._trial.has_ended = self._trial.has_ended, False
        return has_ended

    def end_trial(self) -> None:
        """End the pass, and record the reservations that it has made or dropped before its first grant."""
        trial, self._trial, self._planned = self._trial, None, None
        assert trial is not None  # noqa: S101 - a trial runs
        before = self._state.current_reservations()
        made, dropped = trial.to_record
        for path in sorted(dropped.difference(made).intersection(before)):
            self._state.set_reservation(path, None)
        for path, name in made.items():
            if before.get(path) != name:
                self._state.set_reservation(path, name)

    def abandon_trial(self) -> None:
        """End the pass after an error."""
        self._trial = self._planned = None

    # Objections

    def objection(self, waiting: CandidateRequest) -> Violation | None:
        """Return the violation of a grant that would delay a reserved request; None if it may be made."""
        planned = self._planned or ()
        own = next((one for one in planned if one.request.allocation_id == waiting.allocation_id), None)
        if own is not None and own.start == self._now:
            # The plan of the others contains its start.
            return None
        for one in planned:
            if one is not own and not self._comes_before(waiting.row, one.request.row):
                objection = one.objection(waiting, self._now) or self._objection_of_models(waiting, one)
                if objection is not None:
                    return objection
        return None

    def _objection_of_models(self, waiting: CandidateRequest, one: PlannedStart) -> Violation | None:
        """Return the violation of a request with which other quota models would deny a reserved one."""
        models = self._models
        # A model that depends on the time may count a request that has ended.
        if not models.may_deny or (waiting.ends_by(self._now, one.start) and not models.clock.is_read_first):
            return None
        if any(isinstance(violation, SetupViolation) for violation in models.check(waiting.claim)):
            # A model need not be able to charge a claim for which it is not set up. It denies the request itself.
            return None
        mark = len(self._state.lock.changes)
        models.charge(waiting.claim, waiting=self._state.waiting_usage(waiting.allocation_id))
        violations = models.check(one.request.claim)
        models.take_back(mark)
        if not violations:
            return None
        return ReservationViolation.of(one.request.allocation_id, violations[0])

    def _queue_path(self, row: Allocation) -> str:
        return self._state.applications[row.application_id].row.queue_path

    def _comes_before(self, row: Allocation, reserved: Allocation) -> bool:
        """Return whether a request has a higher priority than a reserved one, where their queues part."""
        settings = self._queue_settings
        if not settings.has_offsets and row.priority <= reserved.priority:
            return False
        one, other = self._queue_path(row), self._queue_path(reserved)
        above = next(path for path in ancestors(one) if path in ancestors(other))
        if not settings.of(above).priority_first:
            return False
        return self._priority_below(row, above) > self._priority_below(reserved, above)

    def _priority_below(self, row: Allocation, above: str) -> int:
        """Return the priority of a request as the children of a queue are compared."""
        priority = row.priority
        for path in ancestors(self._queue_path(row)):
            if path == above:
                break
            settings = self._queue_settings.of(path)
            highest = settings.offset if settings.is_fenced else priority + settings.offset
            priority = min(max(highest, _LOWEST), _HIGHEST)
        return priority

    # Following the partition

    @property
    def _queue_settings(self) -> QueueSettings:
        compiled = self._state.compiled
        if self._settings is None or self._settings[0] is not compiled:
            self._settings = compiled, QueueSettings(compiled.config)
        return self._settings[1]

    def _follow(self, now: int) -> None:
        """Bring the plan up to date."""
        # What a quota model denies may depend on the time.
        is_later = now != self._now and bool(self._models) and self._models.clock.is_read_first
        is_outdated, self._now = self._take_marks() or is_later, now
        if is_outdated or self._planned is None or (self._planned and _has_passed(self._planned, now)):
            # If planning is interrupted, the next call does it.
            self._planned = None
            self._planned = self._plan(() if self._trial is None else self._trial.ends)

    def _take_marks(self) -> bool:
        """Return whether anything has changed since the last call that may change a plan."""
        if self._marks is None:
            self._marks = self._start_marking()
        marks = self._marks
        freed, is_outdated = bool(marks.freed), marks.everything
        changed = [(name, one) for name, ids in marks.take().items() for one in ids]
        if not changed or is_outdated:
            return is_outdated
        return freed or bool(self._models.pending) or any(not self._is_pending(*one) for one in changed)

    def _is_pending(self, application_id: str, allocation_id: str) -> bool:
        application = self._state.applications.get(application_id)
        return application is not None and allocation_id in application.pending

    def _plan(self, more: Iterable[Change]) -> list[PlannedStart]:
        """Return the reserved requests with their starts."""
        planned: list[PlannedStart] = []
        for row, paths in self._reserving_rows():
            waiting = self.candidate(row)
            violations = self._admission.violations(waiting.application, waiting.row)
            if not waiting.application.row.failing and (not violations or is_blocked_by_queues(violations)):
                one = PlannedStart(waiting, paths)
                plan_start(self._state, one, planned, more, self._now)
                planned.append(one)
        return planned

    def _reserving_rows(self) -> list[tuple[Allocation, tuple[str, ...]]]:
        """Return the reserved requests with their queues, each before those over which it has priority."""
        found: list[tuple[Allocation, tuple[str, ...]]] = []
        for name, paths in self._reserving_queues().items():
            row = self._state.allocations[name]
            later = (at for at, (other, _) in enumerate(found) if self._comes_before(row, other))
            found.insert(next(later, len(found)), (row, paths))
        return found

    def _reserving_queues(self) -> dict[str, tuple[str, ...]]:
        """Return the queues of each stored reservation that still reserve capacity."""
        found: dict[str, tuple[str, ...]] = {}
        for path, name in self._stored().items():
            if path in ancestors(self._queue_path(self._state.allocations[name])) and self._queue_settings.reserves(
                path
            ):
                found[name] = (*found.get(name, ()), path)
        return found

    def _stored(self) -> Mapping[str, str]:
        """Return the request that has the reservation of each queue, the earliest reservation first."""
        return self._state.current_reservations() if self._trial is None else self._trial.reservations

    def candidate(self, row: Allocation) -> CandidateRequest:
        """Return a pending request as it would be granted at the time of the plan."""
        application = self._state.applications[row.application_id]
        granted = self._admission.assigned(application, row.granted(self._now))
        return CandidateRequest.of(self._state, application, granted)


class ReservationViolation(Violation):
    """A reserved request that a quota model would deny after another one."""

    _denial: Violation

    @classmethod
    def of(cls, allocation_id: str, denial: Violation) -> Self:
        """Return the violation for a reserved request and its denial."""
        amounts = denial.resource, denial.limit, denial.used, denial.requested
        made = cls("reservation", allocation_id, denial.queue_path, "", *amounts)
        made._denial = denial
        return made

    @property
    def can_wait(self) -> bool:
        """True: the request may fit after the reserved one has ended."""
        return True

    def _what(self) -> str:
        return f"it would be denied after this request ({self._denial})"


def is_blocked_by_queues(violations: Iterable[Violation]) -> bool:
    """Return whether only queue limits or the size of the cluster deny a request, and waiting can help."""
    found = tuple(violations)
    # A limit that a schedule raises later can be waited for, but nothing can be reserved below it now.
    return bool(found) and all(one.kind == TrackingType.QUEUE and one.requested <= one.limit for one in found)


def _has_passed(planned: Iterable[PlannedStart], now: int) -> bool:
    """Return whether a planned start has passed."""
    return any(one.start is not None and one.start < now for one in planned)

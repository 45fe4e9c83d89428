"""The search of the waiting list for the pending requests that fit after a release or a raised limit.

The answer is that of a pass in scheduling order that grants each request which fits. It is found by making the pass:
each request that fits is charged to all limits and models, and everything is refunded at the end, under one lock.

The idea: `ugm.partition.ordering.request_classes` remembers what blocks a request. Only the classes that are open are
tested, in the order of `ugm.partition.ordering.candidate_order`. Where blocked requests decide about the order, the
whole pass is made over a copy of the order.

With reservations, blocked classes that may get one are tested as well. If a grant ends a reservation, or if priorities
differ, the whole pass decides who gets it.

The cost: a search takes time in proportion to the queues with classes that may fit, and to the classes of the queues
that it reaches; if the age of the applications alone decides, to the limits that may have room, for each request that
is tested. A whole pass, the first search, and the first one after a change of queues, limits or nodes read everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, final

from ugm.counters import fits
from ugm.decision import Violation
from ugm.identity import TrackingType, ancestors
from ugm.model import UserRank
from ugm.ordering.sort_settings import QueueSettings
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.admission.trial_charges import TrialCharges
from ugm.partition.config.compiled import NEVER
from ugm.partition.engine.application import Application, ChangeMarks
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.ordering.candidate_order import CandidateOrder, UndecidedError
from ugm.partition.ordering.pending_order import OrderCopy, PendingOrder, rank_of
from ugm.partition.ordering.request_classes import BlockingLimit, Charged, RequestClass, RequestClasses
from ugm.partition.ordering.reservations import Reservations
from ugm.partition.rows import Allocation, AllocationRequest, ApplicationRow

#: The longest wait for a change of limits by a schedule, in seconds.
_LONGEST_PAUSE: Final = 86400


@final
class WakeSearch:
    """The search for the pending requests that fit; the caller holds the lock.

    Args:
        state: the partition.
        models: its quota models.
        admission: decides about requests.
        reservations: the reservations of the partition.
        marks: marks of all changes since the last search.

    Attributes:
        is_outdated: whether everything must be read again, so that requests are woken again. Set without the lock.
        tests: the number of requests that were compared with all their limits so far.
    """

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        admission: AdmissionControl,
        reservations: Reservations,
        marks: ChangeMarks,
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._reservations: Final = reservations
        self._marks: Final = marks
        self._charges: Final = TrialCharges(state, models)
        self.is_outdated: bool = True
        self.tests: int = 0
        self._classes = RequestClasses(state, models, admission)
        self._settings = QueueSettings(None)
        self._epoch: object = None
        #: What the last pass has charged.
        self._charged: Final[dict[Charged, None]] = {}
        #: The requests that the last pass has woken.
        self._woken: list[Allocation] = []
        #: Whether the pass respects and makes reservations, and the classes that take part in one that does.
        self._is_reserving = False
        self._reserving: dict[RequestClass, None] = {}

    def until_change(self) -> int | None:
        """Return the number of seconds until limits may change by a schedule, at most a day; None if they never do."""
        compiled = self._state.compiled
        if compiled.schedule is None or compiled.changes_at >= NEVER:
            return None
        return min(max(1, compiled.changes_at - self._models.clock.latest), _LONGEST_PAUSE)

    def run(self, *, reserving: bool = False) -> tuple[AllocationRequest, ...]:
        """Return the requests that a pass would grant, in its order.

        Args:
            reserving: whether the pass respects and makes reservations, within a trial of them.
        """
        self._is_reserving, self._woken = reserving, []
        try:
            self._pass(is_first=self._follow())
            self._charges.refund_all()
        except BaseException:
            # The lock rebuilds what was charged.
            self.is_outdated = True
            self._charges.forget()
            raise
        for row in self._woken:
            self._classes.parts.follow(row.application_id, self._state.owner(row).row.queue_path)
        return tuple([row.request for row in self._woken])

    # Passes

    def _pass(self, *, is_first: bool) -> None:
        """Wake the requests that a pass would grant, each charged; *is_first* if nothing is known to be blocked."""
        if not is_first and self._is_decided():
            if self._is_by_submission and not self._is_reserving:
                return self._search_by_submission()
            try:
                return self._search()
            except UndecidedError:
                self._start_again()
        return self._whole_pass()

    def _is_decided(self) -> bool:
        """Return whether the pass may leave out all blocked requests."""
        settings = self._settings
        is_uniform = len(self._classes.priorities) <= 1 and not settings.has_offsets
        # A request of a higher priority takes the reservation of another one, wherever it comes.
        return is_uniform or not (self._is_reserving or settings.has_offsets or settings.has_priority_last)

    @property
    def _is_by_submission(self) -> bool:
        """True if the age of the applications alone decides the order."""
        classes = self._classes
        return self._settings.is_by_submission and len(classes.priorities) <= 1 and not classes.is_nested

    def _search_by_submission(self) -> None:
        """Wake the requests that a pass by the age of the applications would grant, each charged."""
        while (found := self._classes.first_open()) is not None:
            self._grant(found, found.requests[0].row)

    def _search(self) -> None:
        """Wake the requests that a pass would grant, each charged.

        Raises:
            UndecidedError: requests that do not fit decide about the order.
        """
        rank = cache(self._rank)
        if self._settings.has_shares:
            # Before the first grant.
            rank()
        for priority in sorted(self._classes.priorities, reverse=True):
            self._take_candidates()
            order = CandidateOrder(
                self._state,
                self._settings,
                rank,
                self._classes,
                priority,
                self._sources(),
                self._takes_part,
            )
            while (first := order.pop()) is not None:
                _, request, position, found = first
                if found.limit.is_open and self._grant(found, request.row):
                    order.grant(request)
                    if self._is_reserving and self._reservations.have_ended():
                        # Another request may get the reservation, but none that comes earlier.
                        raise UndecidedError
                    if not (self._is_reserving or self._classes.has_open):
                        return
                    self._take_candidates()
                else:
                    position += 1
                    if self._is_reserving:
                        self._reservations.note_blocked(request.row)
                if found.limit.is_open:
                    order.push(found, position)

    def _take_candidates(self) -> None:
        """Note the classes that are open, or that may get a reservation, if the pass makes reservations."""
        if self._is_reserving:
            free, blocked = self._reservations.free(), self._classes.blocked_by_queues()
            may_reserve = (one for one in blocked if not free.isdisjoint(ancestors(one.queue_path)))
            is_open = chain.from_iterable(chain.from_iterable(one.values() for one in self._classes.open_by_queue()))
            self._reserving = dict.fromkeys(chain(is_open, may_reserve if free else ()))

    def _sources(self) -> Sequence[Mapping[str, Iterable[RequestClass]]]:
        if not self._is_reserving:
            return self._classes.open_by_queue()
        by_queue: dict[str, list[RequestClass]] = {}
        for one in self._reserving:
            by_queue.setdefault(one.queue_path, []).append(one)
        return [by_queue]

    def _takes_part(self, found: RequestClass) -> bool:
        return found in self._reserving if self._is_reserving else found.limit.is_open

    def _rank(self) -> UserRank | None:
        read = rank_of(self._state)
        return None if read is None else read()

    def _start_again(self) -> None:
        """Undo a pass that has not ended."""
        self._charges.refund_all()
        self._classes.return_offered([row.allocation_id for row in self._woken])
        self._woken = []
        self._classes.parts.forget_all()
        self._reopen()
        if self._is_reserving:
            self._reservations.abandon_trial()
            self._reservations.begin_trial()

    def _whole_pass(self) -> None:
        """Wake the requests that a pass over all requests would grant, each charged."""
        state, offered = self._state, self._classes.offered
        order = PendingOrder(OrderCopy.of_pending(state, for_keys=False), {})
        while self._is_reserving or self._classes.has_open:
            application = order.tree.first()
            request = None if application is None else application.next()
            if application is None or request is None:
                break
            row = state.allocations[request.allocation_id]
            found = self._classes.class_of(row.allocation_id)
            is_open = found.limit.is_open and row.allocation_id not in offered
            if is_open and (granted := self._grant(found, row)):
                order.tree.grant(application, request, granted.usage)
                continue
            order.tree.skip(application, request)
            if self._is_reserving and row.allocation_id not in offered:
                self._reservations.note_blocked(row)

    # Decisions

    def _grant(self, found: RequestClass, row: Allocation) -> Allocation | None:
        """Charge, wake and return a request of an open class if it fits; otherwise note what blocks the class."""
        # A request that is older than the list of resources may have names that are not listed any more.
        if not self._state.active_limits.request_names.allow(row.usage):
            self._classes.block(found, None)
            return None
        application = self._state.applications[row.application_id]
        if self._is_held_back(row) or self._is_without_room(found, application):
            return None
        granted, is_running = self._granted(application, row), application.holding is not None
        waiting = self._reservations.candidate(row) if self._is_reserving else None
        if self._is_denied(found, application, granted):
            return None
        if waiting is not None:
            self._reservations.note_trial_grant(waiting)
        self._note_charged(application.row)
        self._woken.append(row)
        self._classes.offer(row.allocation_id)
        if not is_running and len(application.pending) > 1:
            self._classes.start(row.application_id)
        self._classes.block_again()
        return granted

    def _is_without_room(self, found: RequestClass, application: Application) -> bool:
        """Return whether a queue has no room for a class, and block the class by the queue."""
        # A class that may get a reservation is blocked by another limit, if there is one, until it has room.
        chain = () if self._is_reserving else application.queue.chain
        vector = self._state.vector(found.size)
        if fits(chain, vector):
            return False
        full = next(counter for counter in chain if not fits((counter,), vector))
        self._classes.block(found, BlockingLimit((TrackingType.QUEUE, full.queue_path), found.size, full))
        return True

    def _is_denied(self, found: RequestClass, application: Application, granted: Allocation) -> bool:
        """Charge a request, or block its class by a limit that denies it; return whether one does."""
        self.tests += 1
        violations = self._admission.violations(application, granted)
        if not violations:
            self._charges.charge(application, granted)
            return False
        limit = self._classes.limit_of(application, min(violations, key=_is_of_queue), found.size)
        # Another variant may become free.
        self._classes.block(found, limit if granted.assign is None else None)
        return True

    def _granted(self, application: Application, row: Allocation) -> Allocation:
        """Return a pending request as it would be held now, as far as limits and models can tell the difference."""
        if not self._models.all and self._admission.variants is None:
            return row
        clock = self._models.clock
        granted = row.granted(clock.latest if row.duration is None else clock.now(changes=True))
        return self._admission.assigned(application, granted)

    # Reservations

    def _is_held_back(self, row: Allocation) -> bool:
        """Return whether a reservation holds back a request that fits."""
        if not self._is_reserving:
            return False
        reservations = self._reservations
        reservations.follow_trial()
        if reservations.objection(reservations.candidate(row)) is None:
            return False
        # A limit may block it as well.
        reservations.note_blocked(row)
        return True

    # Following the partition

    def _follow(self) -> bool:
        """Bring everything up to date, and return whether everything was read."""
        marks, classes, epoch = self._marks, self._classes, self._state.active_limits.epoch
        if self.is_outdated or marks.everything or epoch is not self._epoch:
            self.is_outdated = False
            self._epoch, self._settings = epoch, QueueSettings(self._state.compiled.config)
            self._charged.clear()
            classes = self._classes = RequestClasses(self._state, self._models, self._admission)
            marks.take()
            for name, application in self._state.applications.items():
                classes.follow(name, application.pending)
            return True
        freed = marks.freed
        for row in (*marks.ended, *(one.row for one in map(self._state.applications.get, freed) if one is not None)):
            classes.parts.follow(row.application_id, row.queue_path)
            self._note_charged(row)
        self._reopen()
        for name, request_ids in marks.take().items():
            classes.follow(name, request_ids)
        if freed:
            # Last: most of the woken requests are granted.
            classes.return_offered(classes.offered)
        return False

    def _note_charged(self, row: ApplicationRow) -> None:
        self._charged[row.user.name, row.group, row.queue_path] = None

    def _reopen(self) -> None:
        """Open what released requests, and woken ones that were not charged, have closed."""
        self._classes.reopen(self._charged)
        self._charged.clear()


def _is_of_queue(violation: Violation) -> bool:
    return violation.kind == TrackingType.QUEUE

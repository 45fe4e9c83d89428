"""The search of the waiting list for the pending requests that fit after a release or a raised limit.

The answer is that of a pass in scheduling order that grants each request which fits. It is found by making the pass:
each request that fits is charged to all limits and models, and everything is refunded at the end, under one lock. What
makes it fast is that few requests are looked at; see `ugm.partition.pending_views`.

Requests that are known to be blocked decide the priority and the age of their queues. `_is_order_known` states when the
order of the others does not depend on them, except for ties that `ugm.fairness.order_view` decides. Otherwise all
requests are looked at, in time proportional to the pending ones.

A scan of everything is needed at first, and after a change of queues, limits or nodes. It works on a copy, so the lock
is held only for the copy; see `WakeSearch.prepare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from ugm.counters import fits
from ugm.decision import Violation
from ugm.fairness.order_tree import OrderedApplication, OrderedQueue, OrderedRequest, OrderEntry
from ugm.fairness.order_view import OrderRules, OrderShape, UndecidedOrderError, first_request
from ugm.identity import TrackingType, ancestors
from ugm.operation_lock import OperationLock
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.change_marks import ChangeMarks
from ugm.partition.config_schedule import NEVER
from ugm.partition.model_set import ModelSet
from ugm.partition.order_copy import OrderCopy
from ugm.partition.pending_views import BlockingLimit, Owner, PendingViews
from ugm.partition.planned_start import CandidateRequest
from ugm.partition.reservations import Reservations
from ugm.partition.scheduling_order import ApplicationOrder, allocation_request
from ugm.partition.state import PartitionState
from ugm.partition.trial_charges import TrialCharges

__all__ = ["WakeSearch"]

#: The owners of limits that deny all requests of a size until something is released that is charged to them.
_OWNERS: Final = frozenset((TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE))

#: The longest wait for a change of limits by a schedule, in seconds.
_LONGEST_PAUSE: Final = 86400


class _Copied(NamedTuple):
    """The facts that determine a search, copied under the lock."""

    order: OrderCopy
    epoch: object


class _Built(NamedTuple):
    """The data of a search, built from a copy."""

    order: ApplicationOrder
    pending: PendingViews
    copied: _Copied


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
        tests: the number of requests that were compared with all their limits so far.
    """

    __slots__ = (
        "_admission",
        "_charged_owners",
        "_charged_paths",
        "_charges",
        "_epoch",
        "_held_back",
        "_is_reserving",
        "_latest",
        "_marks",
        "_models",
        "_order",
        "_pending",
        "_reservations",
        "_shape",
        "_state",
        "_taken",
        "is_outdated",
        "tests",
    )

    #: Whether everything must be read again, so that requests are woken again. Set without the lock.
    is_outdated: bool

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
        self.is_outdated = False
        self.tests: int = 0
        #: None until everything was read.
        self._order: ApplicationOrder | None = None
        self._pending: PendingViews | None = None
        self._epoch: object = None
        #: The newest copy that is not installed yet.
        self._latest: _Copied | None = None
        self._shape = OrderShape.of({})
        #: The queues of the requests that were woken last with those above them, and the owners of their limits.
        self._charged_paths: set[str] = set()
        self._charged_owners: set[Owner] = set()
        #: The requests that the pass has taken out of the order.
        self._taken: list[tuple[OrderedApplication, OrderEntry]] = []
        self._charges: Final = TrialCharges(state, models, admission)
        #: Whether the pass respects and makes reservations.
        self._is_reserving = False
        #: The kinds of requests that reservations hold back, until the plan is another one.
        self._held_back: tuple[object, set[object]] = (None, set())

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
        self._is_reserving = reserving
        try:
            self._follow()
            woken = self._pass()
            self._restore()
            self._views.dissolve()
        except BaseException:
            # The lock undoes and rebuilds what was charged.
            self._order = self._pending = None
            self._charges.forget()
            self._taken.clear()
            raise
        return woken

    @property
    def _views(self) -> PendingViews:
        assert self._pending is not None  # noqa: S101 - `_follow` has built it
        return self._pending

    @property
    def _all(self) -> ApplicationOrder:
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        return self._order

    def _pass(self) -> tuple[AllocationRequest, ...]:
        """Return the requests that a pass would grant, each charged."""
        self._views.refuse_sizes(("root",))
        if self._is_order_known and self._are_reservations_settled:
            try:
                return tuple(self._pass_over_open())
            except UndecidedOrderError:
                self._start_again()
        return tuple(self._pass_over_all())

    @property
    def _is_order_known(self) -> bool:
        """True if the order of the requests that may fit does not depend on the others, except for ties.

        If priority comes first everywhere, the request that gives a queue its priority is the first one in the queue.
        It is either granted or skipped, and then the priority of the queue is that of the rest.
        """
        return self._shape.has_priority_first or self._is_uniform

    @property
    def _is_uniform(self) -> bool:
        """True if all pending requests have the same priority in all queues."""
        return len(self._views.priorities) <= 1 and not self._shape.has_offsets

    @property
    def _are_reservations_settled(self) -> bool:
        """True if no blocked request would get a reservation."""
        if not self._is_reserving:
            return True
        reservations, ledger = self._reservations, self._state.ledger
        return (
            self._is_uniform
            and reservations.are_all_taken(self._has_pending)
            and not any(self._views.may_fit(ledger.owners[name], name) for name in reservations.reserved())
        )

    def _has_pending(self, queue_path: str) -> bool:
        queue = self._all.tree.queues.get(queue_path)
        return queue is not None and queue.key is not None

    def _start_again(self) -> None:
        """Undo a pass that has not ended."""
        for charged in self._charges.made:
            self._views.withdraw_offer(charged.claim.allocation_id)
        self._restore()
        self._reopen()
        if self._is_reserving:
            self._reservations.abandon_trial()
            self._reservations.begin_trial()
        self._views.refuse_sizes(("root",))

    # Passes

    def _pass_over_open(self) -> Iterator[AllocationRequest]:
        """Yield the requests that a pass would grant, each charged; looks only at the requests that may fit.

        Raises:
            UndecidedOrderError: the order depends on the other requests.
        """
        tree, views = self._all.tree, self._views
        self._shape = self._shape.following(tree.queues)
        is_simple = self._shape.is_simple if self._is_uniform else _is_never_simple
        rules = OrderRules(tree, self._is_uniform, self._charged_paths, is_simple)
        while (found := first_request([one.view for one in views.open_views()], rules)) is not None:
            application, request = tree.applications[found.application_id], found.entry[2]
            if self._grants(application, request):
                self._take(application, found.entry)
                tree.update(application)
                yield allocation_request(application.application_id, request)
                if not self._are_reservations_settled:
                    raise UndecidedOrderError

    def _pass_over_all(self) -> Iterator[AllocationRequest]:
        """Yield the requests that a pass would grant, each charged; looks at all requests."""
        tree, views = self._all.tree, self._views
        while self._goes_on() and (application := tree.first()) is not None:
            entry = application.next_entry()
            assert entry is not None  # noqa: S101 - the application is the first one
            request = entry[2]
            owner = self._state.applications[application.application_id]
            if views.may_fit(owner, request.request_id):
                is_granted = self._grants(application, request)
            else:
                is_granted = False
                if request.request_id not in views.offered:
                    self._note_blocked(application, request)
            self._take(application, entry)
            tree.update(application)
            if is_granted:
                yield allocation_request(application.application_id, request)

    def _goes_on(self) -> bool:
        """Return whether a pass over all requests has to look at further ones."""
        if self._is_reserving and not (self._is_uniform and self._reservations.are_all_taken(self._has_pending)):
            return True
        return bool(self._views.open_views())

    def _take(self, application: OrderedApplication, entry: OrderEntry) -> None:
        del application.requests[entry[2].request_id]
        self._taken.append((application, entry))

    def _grants(self, ordered: OrderedApplication, request: OrderedRequest) -> bool:
        """Charge a request that may fit if it fits; otherwise leave out all requests that the same limit denies."""
        application, request_id, views = (
            self._state.applications[ordered.application_id],
            request.request_id,
            self._views,
        )
        # A request that is older than the list of resources may have names that are not listed any more.
        is_listed = self._state.active_limits.request_names.allow(request.usage)
        if not is_listed or self._is_held_back(ordered, request):
            views.set_aside(ordered.application_id, request_id)
            return False
        size = views.requests[ordered.application_id][request_id].size
        vector = self._admission.vector(size.usage)
        for counter in application.queue.chain:
            if not fits((counter,), vector):
                views.refuse(counter.queue_path, size)
                self._note_blocked(ordered, request)
                return False
        limit = views.blocking_limit(application, size)
        if limit is None:
            self.tests += 1
            entry = self._admission.entry(allocation_request(ordered.application_id, request), AllocationState.HELD)
            violations = self._admission.violations(request_id, entry)
            if not violations:
                self._charge(ordered, request, entry)
                return True
            limit = self._limit_of(violations[0])
        self._note_blocked(ordered, request)
        if limit is None:
            views.set_aside(ordered.application_id, request_id)
        else:
            views.block(application, request_id, limit)
        return False

    def _limit_of(self, denial: Violation) -> BlockingLimit | None:
        """Return the limit that has denied a request; None if it is unknown when it has room again."""
        kind, name, path, _, resource, *_, requested = denial
        if kind in _OWNERS:
            return BlockingLimit((kind, path if kind == TrackingType.QUEUE else name), path, resource is None)
        room = None if resource is None else self._models.room(kind, name, resource)
        if room is None or room >= requested:
            return None
        return BlockingLimit((kind, name), "", is_count=False, resource=resource)

    # Reservations

    def _note_blocked(self, ordered: OrderedApplication, request: OrderedRequest) -> None:
        """Let a request that a limit blocks have a reservation, if there is one for it."""
        if not self._is_reserving:
            return
        candidate = self._candidate(ordered, request)
        if self._reservations.may_reserve(candidate):
            violations = self._admission.violations(request.request_id, candidate.entry)
            self._reservations.note_trial_denial(candidate, violations)

    def _is_held_back(self, ordered: OrderedApplication, request: OrderedRequest) -> bool:
        """Return whether a reservation holds back a request that fits."""
        if not self._is_reserving:
            return False
        reservations, candidate = self._reservations, self._candidate(ordered, request)
        if self._held_back[0] is not reservations.plan:
            self._held_back = reservations.plan, set()
        kind = self._kind_of(candidate)
        has_reservation = reservations.has_reservation(request.request_id)
        if kind in self._held_back[1] and not has_reservation:
            return True
        if reservations.objection(reservations.grant_of(candidate)) is None:
            return False
        violations = self._admission.violations(request.request_id, candidate.entry)
        if violations:
            reservations.note_trial_denial(candidate, violations)
        elif not has_reservation and candidate.application.holding is not None:
            self._held_back[1].add(kind)
        return True

    def _candidate(self, ordered: OrderedApplication, request: OrderedRequest) -> CandidateRequest:
        entry = self._state.applications[ordered.application_id].pending[request.request_id]
        return self._reservations.next_request(request.request_id, entry)

    @staticmethod
    def _kind_of(candidate: CandidateRequest) -> object:
        """Return what decides whether reservations hold back a request of a running application."""
        application, entry = candidate.application, candidate.entry
        path = application.queue.queue_path
        priority = entry.traits.priority
        return application.submission.user, application.group, path, entry.usage, priority, candidate.duration

    # Charges

    def _charge(self, ordered: OrderedApplication, request: OrderedRequest, entry: LedgerEntry) -> None:
        """Charge a request as `AdmissionControl` does, but without a record."""
        request_id, views = request.request_id, self._views
        if self._is_reserving:
            waiting = entry.application.pending[request_id]
            grant = self._reservations.grant_of(self._reservations.next_request(request_id, waiting))
            self._charge_limits(request_id, entry)
            self._reservations.note_trial_grant(grant)
        else:
            self._charge_limits(request_id, entry)
        place = views.requests[ordered.application_id][request_id].entry
        views.offer(ordered.application_id, request_id)
        if self._charges.made[-1].starts:
            # It is charged to its group from now on, and counts in the maximum numbers of applications already.
            views.unblock_later(ordered.application_id, place)
        self._all.tree.add_usage(ordered, request.usage)
        views.note_application(ordered)
        views.refuse_sizes(ancestors(ordered.queue.path))

    def _charge_limits(self, request_id: str, entry: LedgerEntry) -> None:
        application = entry.application
        self._charges.charge(request_id, entry)
        self._charged_owners.update(_owners_of(application))
        self._charged_paths.update(ancestors(application.queue.queue_path))

    def _restore(self) -> None:
        """Undo everything that the pass has charged and taken."""
        tree, views = self._all.tree, self._views
        while self._charges.made:
            charged = self._charges.refund_last()
            ordered = tree.applications[charged.entry.application.application_id]
            tree.set_usage(ordered, charged.entry.application.held() or {})
            views.note_application(ordered)
        changed = {application.application_id: application for application, _ in self._taken}
        while self._taken:
            application, entry = self._taken.pop()
            application.put_back(entry)
        for application in changed.values():
            tree.update(application)

    # Following the partition

    def _follow(self) -> None:
        """Bring the order and the views up to date."""
        marks, state = self._marks, self._state
        if self.needs_building or self._all.is_stale(state, marks.applications):
            self._install(self._build(self._copy()))
            return
        order, views = self._all, self._views
        freed = marks.freed
        views.take_part_again(freed=bool(freed))
        self._reopen()
        for name in freed:
            self._free(name)
        for name, request_ids in marks.take().items():
            before = order.tree.applications.get(name)
            order.apply(order.read(state, name, request_ids), frozenset())
            views.follow(name, request_ids)
            # Another application may have the id of one that has ended.
            for one in dict.fromkeys((before, order.tree.applications.get(name))):
                if one is not None:
                    views.note_application(one)
        if order.read_ranks(state):
            views.note_everything()

    def _reopen(self) -> None:
        """Open the views and queues that woken requests closed without a charge, and the views of models with room."""
        self._views.take_part_again(freed=False)
        for owner in self._charged_owners:
            self._views.open(owner)
        for path in self._charged_paths:
            self._views.allow(path)
        self._views.open_models(self._models.room)
        self._charged_owners.clear()
        self._charged_paths.clear()

    def _free(self, application_id: str) -> None:
        """Open what an application may have closed by its usage."""
        ordered = self._all.tree.applications.get(application_id)
        if ordered is None:
            # It came after the last call. What it may have freed, it has used since then.
            return
        application = self._state.applications.get(application_id)
        groups = {self._views.known_group(application_id), None if application is None else application.group}
        for group in groups:
            if group is not None:
                self._views.open((TrackingType.GROUP, group))
        self._views.open((TrackingType.USER, self._all.user_of(application_id)))
        for path in ancestors(ordered.queue.path):
            self._views.open((TrackingType.QUEUE, path))
            self._views.allow(path)

    # Building everything

    @property
    def needs_building(self) -> bool:
        """True before the first search, if queues, limits or nodes have changed, and after an interrupted call."""
        is_stale = self._marks.everything or self._state.active_limits.epoch is not self._epoch
        return self._order is None or self.is_outdated or is_stale

    def prepare(self, lock: OperationLock) -> None:
        """Read everything again if need be, and hold the lock only to copy it.

        What changes meanwhile is followed later. If other threads change queues, limits or nodes again and again, the
        search itself builds everything under the lock.
        """
        copied = lock.run(self._copy_if_outdated) if self.needs_building else None
        if copied is not None:
            lock.run(self._install, self._build(copied))

    def _copy_if_outdated(self) -> _Copied | None:
        return self._copy() if self.needs_building else None

    def _copy(self) -> _Copied:
        # Until the copy is installed, another thread that searches makes a newer one, which has taken all marks.
        self._order = None
        self.is_outdated = False
        self._marks.take()
        order, epoch = OrderCopy.of(self._state, for_keys=False), self._state.active_limits.epoch
        copied = self._latest = _Copied(order, epoch)
        return copied

    def _build(self, copied: _Copied) -> _Built:
        """Return the order and the views of a copy; without the lock."""
        order = ApplicationOrder(copied.order, {})
        return _Built(order, PendingViews(self._state, self._admission, order), copied)

    def _install(self, built: _Built) -> None:
        if built.copied is self._latest:
            self._order, self._pending, self._epoch = built.order, built.pending, built.copied.epoch
            self._latest = None
            self._shape = OrderShape.of(built.order.tree.queues)
            self._charged_paths.clear()
            self._charged_owners.clear()


def _owners_of(application: Application) -> list[Owner]:
    """Return the owners of the limits of an application."""
    found: list[Owner] = [(TrackingType.USER, application.submission.user.name)]
    if application.group:
        found.append((TrackingType.GROUP, application.group))
    found += ((TrackingType.QUEUE, path) for path in ancestors(application.queue.queue_path))
    return found


def _is_never_simple(_: OrderedQueue) -> bool:
    return False

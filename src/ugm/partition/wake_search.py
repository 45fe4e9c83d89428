"""The search of the waiting list for the pending requests that fit after a release or a raised limit.

The answer is that of a pass in scheduling order that grants each request which fits. It is found by making the pass:
each request that fits is charged to all limits and models, and everything is refunded at the end, under one lock. What
makes it fast is that few requests are tested; see `ugm.partition.open_requests`.

Requests that are known to be blocked take part in the order, because they decide the priority and the age of their
queues. If few requests may fit, and all have one priority, only these are searched: see `_tree_of_open_requests`.
Otherwise a wake-up takes time proportional to the blocked requests that come before the last one that fits.

A scan of everything is needed at first, and after a change of queues, limits or nodes. It works on a copy, so the lock
is held only for the copy; see `WakeSearch.prepare`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias, final

from ugm.fairness.order_tree import OrderedApplication, OrderedQueue, OrderedRequest, OrderTree
from ugm.hierarchy import fits
from ugm.identity import TrackingType, ancestors
from ugm.model import Claim
from ugm.operation_lock import OperationLock
from ugm.partition.admission import Admission
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.change_marks import ChangeMarks
from ugm.partition.config_schedule import NEVER
from ugm.partition.model_set import ModelSet, charging
from ugm.partition.open_requests import RequestClass, Witness
from ugm.partition.pending_classes import PendingClasses, class_start
from ugm.partition.reservation import CandidateRequest
from ugm.partition.reservations import Reservations
from ugm.partition.scheduling_order import (
    ApplicationOrder,
    OrderCopy,
    allocation_request,
)
from ugm.partition.state import PartitionState
from ugm.tracking.holding import Holding

__all__ = ["WakeSearch"]

#: The owners of limits that deny all requests of a class until something is released that is charged to them.
_OWNERS: Final = frozenset((TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE))
#: The kind of the witness of a denial by a quota model, which may decide otherwise at any time.
_MODEL: Final = "model"
#: With more open requests or classes than this, the whole tree is searched.
_MOST_OPEN: Final = 256
#: With more sizes than this, a queue finds out which ones it refuses when they come up.
_MOST_SIZES: Final = 64

#: The longest wait for a change of limits by a schedule, in seconds.
_LONGEST_PAUSE: Final = 86400

#: What `Application.start` changes.
_Start: TypeAlias = tuple[Holding | None, str | None, bool]


class _Charged(NamedTuple):
    """A request that the pass has charged, with the data to refund it."""

    entry: LedgerEntry
    claim: Claim
    #: The attributes of the application before.
    before: _Start


class _Taken(NamedTuple):
    """A request that the pass has taken out of the order."""

    application: OrderedApplication
    entry: tuple[int, int, OrderedRequest]
    #: Its class if it counted as open.
    counted: RequestClass | None


class _Moved(NamedTuple):
    """A request that the pass has put into another class."""

    classes: dict[str, RequestClass]
    request_id: str
    old: RequestClass


class _Copied(NamedTuple):
    """The facts that determine a search, copied under the lock."""

    order: OrderCopy
    epoch: object
    has_models: bool


class _Built(NamedTuple):
    """The data of a search, built from a copy."""

    order: ApplicationOrder
    pending: PendingClasses
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
        "_charged",
        "_charged_paths",
        "_epoch",
        "_held_back",
        "_is_reserving",
        "_is_whole",
        "_latest",
        "_marks",
        "_models",
        "_moved",
        "_order",
        "_pending",
        "_provisional",
        "_reservations",
        "_state",
        "_taken",
        "_updated",
        "tests",
    )

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        admission: Admission,
        reservations: Reservations,
        marks: ChangeMarks,
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._reservations: Final = reservations
        self._marks: Final = marks
        self.tests: int = 0
        self._order: ApplicationOrder | None = None
        self._epoch: object = None
        #: The newest copy that is not installed yet.
        self._latest: _Copied | None = None
        self._pending = PendingClasses(state, admission, by_id=bool(models))
        #: The queues of the requests that were woken last, and those above them.
        self._charged_paths: set[str] = set()
        #: The classes that were closed while woken requests were charged.
        self._provisional: list[Witness] = []
        self._taken: list[_Taken] = []
        self._charged: list[_Charged] = []
        self._moved: list[_Moved] = []
        #: The applications whose keys the pass has computed again.
        self._updated: dict[str, OrderedApplication] = {}
        #: Whether the pass respects and makes reservations.
        self._is_reserving = False
        #: Whether the current pass searches all requests.
        self._is_whole = True
        #: The classes and durations that reservations hold back, until the plan is another one.
        self._held_back: tuple[object, set[tuple[RequestClass, int | None]]] = (None, set())

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
        except BaseException:
            # The lock undoes and rebuilds what was charged.
            self._order = None
            self._charged.clear()
            self._taken.clear()
            self._moved.clear()
            self._updated.clear()
            raise
        return woken

    def _pass(self) -> tuple[AllocationRequest, ...]:
        """Return the requests that a pass would grant, each charged."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        self._refuse("root")
        # With reservations, blocked requests count as well.
        small = None if self._is_reserving else self._tree_of_open_requests()
        if small is not None:
            # The pass changes only this tree, which is dropped at the end.
            self._is_whole = False
            try:
                return tuple(self._pass_over(small))
            except _TiedQueuesError:
                self._start_again()
        self._is_whole = True
        return tuple(self._pass_over(self._order.tree))

    def _tree_of_open_requests(self) -> OrderTree | None:
        """Return a tree of the open requests alone; None if there are many, or if the others may change their order.

        Requests that are not open matter for the order only through the priority and the earliest submission of their
        queues. If all requests have the same priority, the priorities of queues are the same without them. The
        submission matters only for queues with equal ratios; see `_check_ties`.
        """
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        found, tree = self._pending.open, self._order.tree
        if len(found.priorities) > 1 or max(found.total, len(found.open_classes)) > _MOST_OPEN:
            return None
        wanted: dict[str, list[str]] = {}
        for one in found.open_classes:
            if found.is_open(one):
                for name, application_id in one.requests.items():
                    if name not in self._pending.offered:
                        wanted.setdefault(application_id, []).append(name)
        for application_id, names in wanted.items():
            # If it is started, other limits may apply to the rest of its requests.
            is_running = self._state.applications[application_id].holding is not None
            if not is_running and len(names) < len(tree.applications[application_id].requests):
                return None
        return tree.part(wanted)

    def _start_again(self) -> None:
        """Undo a pass that has not ended."""
        for charged in self._charged:
            self._pending.offered.pop(charged.claim.allocation_id, None)
        self._restore()
        for witness in self._provisional:
            self._pending.open.reopen(witness)
        for path in self._charged_paths:
            self._pending.allow(path)
        self._charged_paths, self._provisional = set(), []
        self._refuse("root")

    def _heads(self, tree: OrderTree) -> Iterator[OrderedApplication]:
        """Yield the application whose next request is the first one, each time after the caller has taken it."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        while (application := tree.first()) is not None and self._goes_on():
            if tree is not self._order.tree:
                _check_ties(application)
            yield application
            # Not after the last request, so that less has to be undone.
            if self._goes_on():
                tree.update(application)
                self._updated[application.application_id] = application
            else:
                return

    def _goes_on(self) -> bool:
        """Return whether the pass has to look at further requests."""
        return self._pending.open.total > 0 or self._is_reserving

    def _pass_over(self, tree: OrderTree) -> Iterator[AllocationRequest]:
        """Yield the requests of a tree that a pass would grant, each charged."""
        for application in self._heads(tree):
            request = application.next()
            assert request is not None  # noqa: S101 - the application is the first one
            classes = self._pending.by_application[application.application_id]
            one = classes[request.request_id]
            if request.request_id in self._pending.offered:
                self._take(application, None)
            elif not self._pending.open.is_open(one):
                if self._is_reserving:
                    self._note_blocked(application, request)
                self._take(application, one)
            elif self._is_held_back(application, request, one):
                self._take(application, one)
            elif self._fits(application, request, one):
                # Its class is another one if it has started its application.
                self._take(application, classes[request.request_id])
                self._pending.offered[request.request_id] = application.application_id
                tree.add_usage(application, request.usage)
                for path in ancestors(application.queue.path):
                    self._refuse(path)
                    self._charged_paths.add(path)
                yield allocation_request(application.application_id, request)
            else:
                self._take(application, one)

    def _take(self, application: OrderedApplication, counted: RequestClass | None) -> None:
        if counted is not None:
            self._pending.open.add(counted, -1)
        self._taken.append(_Taken(application, application.take(), counted))

    def _refuse(self, queue_path: str) -> None:
        """Let a queue refuse the sizes for which it has no room."""
        counter = self._state.tree.queues[queue_path].counter
        sizes = list(self._pending.open.sizes(queue_path)) if counter is not None else []
        if counter is not None and len(sizes) <= _MOST_SIZES:
            for size in sizes:
                if not fits((counter,), self._admission.vector(size.usage)):
                    self._pending.open.refuse(queue_path, size)

    def _fits(self, ordered: OrderedApplication, request: OrderedRequest, one: RequestClass) -> bool:
        """Charge a request if it fits all limits; otherwise leave out all requests that the same limit denies."""
        application = self._state.applications[ordered.application_id]
        vector = self._admission.vector(one.size.usage)
        for counter in application.queue.chain:
            if not fits((counter,), vector):
                self._pending.open.refuse(counter.queue_path, one.size)
                if self._is_reserving:
                    self._note_blocked(ordered, request)
                return False
        self.tests += 1
        wanted = allocation_request(ordered.application_id, request)
        entry = self._admission.entry(wanted, AllocationState.HELD)
        violations = self._admission.violations(request.request_id, entry)
        if not violations:
            self._charge(request.request_id, entry)
            return True
        if self._is_reserving:
            self._note_blocked(ordered, request)
        first = violations[0]
        witness = (first.kind, first.queue_path if first.kind == TrackingType.QUEUE else first.name)
        if first.kind not in _OWNERS:
            witness = (_MODEL, request.request_id)
        self._pending.open.close(one, witness)
        if self._charged:
            self._provisional.append(witness)
        return False

    # Reservations

    def _note_blocked(self, ordered: OrderedApplication, request: OrderedRequest) -> None:
        """Let a request that a limit blocks have a reservation, if there is one for it."""
        candidate = self._candidate(ordered, request)
        if self._reservations.may_reserve(candidate):
            violations = self._admission.violations(request.request_id, candidate.entry)
            self._reservations.note_trial_denial(candidate, violations)

    def _is_held_back(self, ordered: OrderedApplication, request: OrderedRequest, one: RequestClass) -> bool:
        """Return whether a reservation holds back a request that fits."""
        if not self._is_reserving:
            return False
        reservations, candidate = self._reservations, self._candidate(ordered, request)
        if self._held_back[0] is not reservations.plan:
            self._held_back = reservations.plan, set()
        kind = one, candidate.duration
        has_reservation = reservations.has_reservation(request.request_id)
        if kind in self._held_back[1] and not has_reservation:
            return True
        if reservations.objection(candidate) is None:
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

    # Charges

    def _charge(self, request_id: str, entry: LedgerEntry) -> None:
        """Charge a request as `Admission` does, but without a record."""
        if self._is_reserving:
            waiting = entry.application.pending[request_id]
            grant = self._reservations.grant_of(self._reservations.next_request(request_id, waiting))
            self._charge_limits(request_id, entry)
            self._reservations.note_trial_grant(grant)
        else:
            self._charge_limits(request_id, entry)

    def _charge_limits(self, request_id: str, entry: LedgerEntry) -> None:
        state, application, claim = self._state, entry.application, entry.claim(request_id)
        before = application.holding, application.group, application.has_run
        self._charged.append(_Charged(entry, claim, before))
        if self._models:
            self._models.apply(charging(claim, pending=True))
        holding = state.holding_of(application)
        holding.charge(self._admission.vector(entry.usage))
        if application.holding is None:
            state.undo.append((application.undo_start, before))
            state.holding_index.add(holding)
            application.start(holding)
            self._move(application)

    def _move(self, application: Application) -> None:
        """Put the rest of the requests of an application that the pass has started into other classes.

        It is charged to its group from now on, and counts in the maximum numbers of applications already.
        """
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        start, classes = class_start(application), self._pending.by_application[application.application_id]
        for name in self._order.tree.applications[application.application_id].requests:
            old = classes[name]
            new = classes[name] = self._pending.open.class_of((*start, *old.key[4:]))
            new.requests[name] = application.application_id
            self._moved.append(_Moved(classes, name, old))
            if name not in self._pending.offered:
                self._pending.open.add(old, -1)
                self._pending.open.add(new, 1)

    def _restore(self) -> None:
        """Undo everything that the pass has charged and taken."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        tree = self._order.tree
        while self._charged:
            entry, claim, before = self._charged.pop()
            self._refund(entry, claim, before)
            if not self._is_whole:
                continue
            ordered = tree.applications[entry.application.application_id]
            tree.set_usage(ordered, entry.application.held() or {})
        while self._taken:
            application, request, counted = self._taken.pop()
            if self._is_whole:
                application.put_back(request)
            if counted is not None and request[2].request_id not in self._pending.offered:
                self._pending.open.add(counted, 1)
        while self._moved:
            classes, name, old = self._moved.pop()
            new, classes[name] = classes[name], old
            del new.requests[name]
            if name not in self._pending.offered:
                self._pending.open.add(new, -1)
                self._pending.open.add(old, 1)
            self._pending.open.forget_if_empty(new)
        for application in self._updated.values() if self._is_whole else ():
            tree.update(application)
        self._updated.clear()

    def _refund(self, entry: LedgerEntry, claim: Claim, before: _Start) -> None:
        application = entry.application
        holding = self._state.holding_of(application)
        holding.try_refund(self._admission.vector(entry.usage))
        if before[0] is None:
            self._state.holding_index.end(holding)
            application.undo_start(*before)
        if self._models:
            self._models.apply([("refund", claim), ("add_pending", claim._replace(until=None))])

    # Following the partition

    def _follow(self) -> None:
        """Bring the order and the classes up to date."""
        if self.needs_building:
            self._install(self._build(self._copy()))
            return
        marks, state = self._marks, self._state
        assert self._order is not None  # noqa: S101 - it has been built
        freed = marks.freed
        if freed:
            self._pending.forget_offers()
        for witness in (*self._provisional, *self._pending.open.witnesses(_MODEL)):
            self._pending.open.reopen(witness)
        for path in self._charged_paths.union(path for name in freed for path in self._free(name)):
            self._pending.allow(path)
        self._charged_paths, self._provisional = set(), []
        for name, request_ids in marks.take().items():
            self._order.apply(self._order.read(state, name, request_ids), frozenset())
            self._pending.reclassify(name, request_ids)
        self._order.read_ranks(state)

    # Building everything

    @property
    def needs_building(self) -> bool:
        """True before the first search, and if queues, limits or nodes have changed."""
        return self._order is None or self._marks.everything or self._state.active_limits.epoch is not self._epoch

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
        self._marks.take()
        order, epoch = OrderCopy.of(self._state, for_keys=False), self._state.active_limits.epoch
        copied = self._latest = _Copied(order, epoch, bool(self._models))
        return copied

    def _build(self, copied: _Copied) -> _Built:
        """Return the order and the classes of a copy; without the lock."""
        order = ApplicationOrder(copied.order, {})
        applications = copied.order.applications
        pending = PendingClasses(self._state, self._admission, by_id=copied.has_models, copied=applications)
        return _Built(order, pending, copied)

    def _install(self, built: _Built) -> None:
        if built.copied is self._latest:
            self._order, self._pending, self._epoch = built.order, built.pending, built.copied.epoch
            self._latest, self._provisional = None, []
            self._charged_paths.clear()

    def _free(self, application_id: str) -> Iterable[str]:
        """Open what an application may have closed by its usage, and return the paths of its queues."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        ordered = self._order.tree.applications.get(application_id)
        return self._pending.free(application_id, None if ordered is None else ordered.queue.path)


class _TiedQueuesError(Exception):
    """The order of two queues depends on requests that are not in the tree."""


def _check_ties(application: OrderedApplication) -> None:
    """Check that the ratios have decided between all queues on the way to an application.

    Raises:
        _TiedQueuesError: two of them have equal ratios.
    """
    queue: OrderedQueue | None = application.queue
    while queue is not None and queue.parent is not None:
        other = queue.parent.children.runner_up()
        if other is not None and (other.priority, other.ratio) == (queue.priority, queue.ratio):
            raise _TiedQueuesError
        queue = queue.parent

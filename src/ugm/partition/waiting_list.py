"""The waiting list: which pending requests can fit now, after something was released or a limit was raised.

The answer is that of a pass in scheduling order that grants each request which fits. It is found by making the pass:
each request that fits is charged to all limits and models, and everything is refunded at the end, under one lock. What
makes it fast is that few requests are tested; see `ugm.partition.open_requests`.

Requests that are known to be blocked take part in the order, because they decide the priority and the age of their
queues. If few requests may fit, and all have one priority, only these are searched: see `_tree_of_open_requests`.
Otherwise a wake-up takes time proportional to the blocked requests that come before the last one that fits.

A request that was woken and is still pending at the next call was declined: nothing else is assumed to have used its
place. So the next call wakes others that fit without it. It is woken again when something has been released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from threading import Event as ThreadingEvent
from typing import Final, NamedTuple, TypeAlias, final

from ugm.fairness.order_tree import OrderedApplication, OrderedQueue, OrderedRequest, OrderTree
from ugm.hierarchy import fits
from ugm.identity import TrackingType, UserGroup, ancestors
from ugm.model import Claim
from ugm.operation_lock import OperationLock
from ugm.partition.admission import Admission
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.change_marks import ChangeMarks
from ugm.partition.model_set import ModelSet, charging
from ugm.partition.open_requests import ClassKey, OpenRequests, RequestClass, Witness
from ugm.partition.scheduling_order import (
    ApplicationOrder,
    OrderCopy,
    allocation_request,
)
from ugm.partition.state import PartitionState
from ugm.tracking.holding import Holding

__all__ = ["WaitingList"]

#: The owners of limits that deny all requests of a class until something is released that is charged to them.
_OWNERS: Final = frozenset((TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE))
#: The kind of the witness of a denial by a quota model, which may decide otherwise at any time.
_MODEL: Final = "model"
#: With more open requests or classes than this, the whole tree is searched.
_MOST_OPEN: Final = 256
#: With more sizes than this, a queue finds out which ones it refuses when they come up.
_MOST_SIZES: Final = 64

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


@final
class WaitingList:
    """The pending requests of a partition that wait; `ugm.Partition.waiting_list` returns it.

    Any number of threads may use it; each request is woken by one call.

    Attributes:
        event: is set when a waiting request may fit, or a new request waits; a call of `wake` clears it.
        tests: the number of requests that were compared with all their limits so far.
    """

    __slots__ = (
        "_admission",
        "_charged",
        "_charged_paths",
        "_classes",
        "_epoch",
        "_lock",
        "_loops",
        "_marks",
        "_models",
        "_moved",
        "_offered",
        "_open",
        "_order",
        "_provisional",
        "_state",
        "_taken",
        "_users",
        "event",
        "tests",
    )

    def __init__(
        self, state: PartitionState, models: ModelSet, admission: Admission, lock: OperationLock, marks: ChangeMarks
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._lock: Final = lock
        self._marks: Final = marks
        self.event: Final = ThreadingEvent()
        self.event.set()
        self.tests: int = 0
        #: The tasks that wait.
        self._loops: Final[dict[asyncio.Future[None], asyncio.AbstractEventLoop]] = {}
        marks.notify = self._notify
        self._order: ApplicationOrder | None = None
        self._epoch: object = None
        self._open = OpenRequests()
        #: The class of each request, by application.
        self._classes: dict[str, dict[str, RequestClass]] = {}
        #: The requests that were woken since something was released, with their applications.
        self._offered: dict[str, str] = {}
        #: The queues of the requests that were woken last, and those above them.
        self._charged_paths: set[str] = set()
        #: The owner of each application.
        self._users: dict[str, str] = {}
        #: The classes that were closed while woken requests were charged.
        self._provisional: list[Witness] = []
        self._taken: list[_Taken] = []
        self._charged: list[_Charged] = []
        self._moved: list[_Moved] = []

    # Calls of programs

    def wake(self) -> tuple[AllocationRequest, ...]:
        """Return the pending requests that can fit now, in scheduling order: those that a pass would grant.

        The partition grants nothing by this. Allocate the requests, in any order, or decline them by doing nothing.
        """
        self.event.clear()
        return self._lock.run(self._wake)

    def wait(self, timeout: float | None = None) -> tuple[AllocationRequest, ...]:
        """Wait in a thread until some requests can fit, and return them.

        Args:
            timeout: the number of seconds after which an empty result is returned; None to wait for ever. The time
                starts again with each change that wakes no request.
        """
        while True:
            woken = self.wake()
            if woken or not self.event.wait(timeout):
                return woken

    async def woken(self) -> tuple[AllocationRequest, ...]:
        """Wait in a task until some requests can fit, and return them."""
        loop = asyncio.get_running_loop()
        while True:
            changed = loop.create_future()
            # Before the call of `wake`, so that no change is missed.
            self._loops[changed] = loop
            try:
                woken = self.wake()
                if woken:
                    return woken
                await changed
            finally:
                self._loops.pop(changed, None)

    def _notify(self) -> None:
        """Notify all who wait; called under the lock."""
        if self.event.is_set() and not self._loops:
            return
        self.event.set()
        for changed, loop in list(self._loops.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(_finish, changed)

    # The pass

    def _wake(self) -> tuple[AllocationRequest, ...]:
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
            raise
        return woken

    def _pass(self) -> tuple[AllocationRequest, ...]:
        """Return the requests that a pass would grant, each charged."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        self._refuse("root")
        small = self._tree_of_open_requests()
        if small is not None:
            try:
                return tuple(self._pass_over(small))
            except _TiedQueuesError:
                self._start_again()
        return tuple(self._pass_over(self._order.tree))

    def _tree_of_open_requests(self) -> OrderTree | None:
        """Return a tree of the open requests alone; None if there are many, or if the others may change their order.

        Requests that are not open matter for the order only through the priority and the earliest submission of their
        queues. If all requests have the same priority, the priorities of queues are the same without them. The
        submission matters only for queues with equal ratios; see `_check_ties`.
        """
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        found, tree = self._open, self._order.tree
        if len(found.priorities) > 1 or max(found.total, len(found.open_classes)) > _MOST_OPEN:
            return None
        wanted: dict[str, list[str]] = {}
        for one in found.open_classes:
            if found.is_open(one):
                for name, application_id in one.requests.items():
                    if name not in self._offered:
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
            self._offered.pop(charged.claim.allocation_id, None)
        self._restore()
        for witness in self._provisional:
            self._open.reopen(witness)
        for path in self._charged_paths:
            self._allow(path)
        self._charged_paths, self._provisional = set(), []
        self._refuse("root")

    def _pass_over(self, tree: OrderTree) -> Iterator[AllocationRequest]:
        """Yield the requests of a tree that a pass would grant, each charged."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        while self._open.total and (application := tree.first()) is not None:
            if tree is not self._order.tree:
                _check_ties(application)
            request = application.next()
            assert request is not None  # noqa: S101 - the application is the first one
            classes = self._classes[application.application_id]
            one = classes[request.request_id]
            if request.request_id in self._offered:
                self._take(application, None)
            elif not self._open.is_open(one):
                self._take(application, one)
            elif self._fits(application, request, one):
                # Its class is another one if it has started its application.
                self._take(application, classes[request.request_id])
                self._offered[request.request_id] = application.application_id
                tree.set_usage(application, _sum(application.used, request.usage))
                for path in ancestors(application.queue.path):
                    self._refuse(path)
                    self._charged_paths.add(path)
                yield allocation_request(application.application_id, request)
            else:
                self._take(application, one)
            tree.update(application)

    def _take(self, application: OrderedApplication, counted: RequestClass | None) -> None:
        if counted is not None:
            self._open.add(counted, -1)
        self._taken.append(_Taken(application, application.take(), counted))

    def _refuse(self, queue_path: str) -> None:
        """Let a queue refuse the sizes for which it has no room."""
        counter, layout = self._state.tree.queues[queue_path].counter, self._state.active_limits.epoch.layout
        sizes = list(self._open.sizes(queue_path)) if counter is not None else []
        if counter is not None and len(sizes) <= _MOST_SIZES:
            for size in sizes:
                if not fits((counter,), layout.vector(size)):
                    self._open.refuse(queue_path, size)

    def _fits(self, ordered: OrderedApplication, request: OrderedRequest, one: RequestClass) -> bool:
        """Charge a request if it fits all limits; otherwise leave out all requests that the same limit denies."""
        application = self._state.applications[ordered.application_id]
        vector = self._admission.vector(one.size)
        for counter in application.queue.chain:
            if not fits((counter,), vector):
                self._open.refuse(counter.queue_path, one.size)
                return False
        self.tests += 1
        wanted = allocation_request(ordered.application_id, request)
        entry = self._admission.entry(wanted, AllocationState.HELD)
        violations = self._admission.violations(request.request_id, entry)
        if not violations:
            self._charge(request.request_id, entry)
            return True
        first = violations[0]
        witness = (first.kind, first.queue_path if first.kind == TrackingType.QUEUE else first.name)
        if first.kind not in _OWNERS:
            witness = (_MODEL, request.request_id)
        self._open.close(one, witness)
        if self._charged:
            self._provisional.append(witness)
        return False

    def _charge(self, request_id: str, entry: LedgerEntry) -> None:
        """Charge a request as `Admission` does, but without a record."""
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
        start, classes = _class_start(application), self._classes[application.application_id]
        for name in self._order.tree.applications[application.application_id].requests:
            old = classes[name]
            new = classes[name] = self._open.class_of((*start, *old.key[4:]))
            new.requests[name] = application.application_id
            self._moved.append(_Moved(classes, name, old))
            if name not in self._offered:
                self._open.add(old, -1)
                self._open.add(new, 1)

    def _restore(self) -> None:
        """Undo everything that the pass has charged and taken."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        tree, changed = self._order.tree, dict[str, OrderedApplication]()
        while self._charged:
            entry, claim, before = self._charged.pop()
            self._refund(entry, claim, before)
            ordered = changed[entry.application.application_id] = tree.applications[entry.application.application_id]
            tree.set_usage(ordered, entry.application.held() or {})
        while self._taken:
            application, request, counted = self._taken.pop()
            application.put_back(request)
            changed[application.application_id] = application
            if counted is not None and request[2].request_id not in self._offered:
                self._open.add(counted, 1)
        while self._moved:
            classes, name, old = self._moved.pop()
            new, classes[name] = classes[name], old
            del new.requests[name]
            if name not in self._offered:
                self._open.add(new, -1)
                self._open.add(old, 1)
            self._open.forget_if_empty(new)
        for application in changed.values():
            tree.update(application)

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
        marks, state = self._marks, self._state
        if self._order is None or marks.everything or state.active_limits.epoch is not self._epoch:
            marks.take()
            self._order = ApplicationOrder(OrderCopy.of(state, for_keys=False), {})
            self._epoch = state.active_limits.epoch
            self._open, self._classes, self._provisional = OpenRequests(), {}, []
            self._offered.clear()
            self._charged_paths.clear()
            self._users = {name: one.submission.user.name for name, one in state.applications.items()}
            for name, ordered in self._order.tree.applications.items():
                self._classify(state.applications[name], ordered.requests)
            return
        freed = marks.freed
        if freed:
            self._forget_offers()
        for witness in (*self._provisional, *self._open.witnesses(_MODEL)):
            self._open.reopen(witness)
        for path in self._charged_paths.union(path for name in freed for path in self._free(name)):
            self._allow(path)
        self._charged_paths, self._provisional = set(), []
        for name, request_ids in marks.take().items():
            self._order.apply(self._order.read(state, name, request_ids), frozenset())
            self._reclassify(name, request_ids)

    def _forget_offers(self) -> None:
        """Let the requests take part again that were woken before."""
        for name, application_id in self._offered.items():
            one = self._classes.get(application_id, {}).get(name)
            if one is not None:
                self._open.add(one, 1)
        self._offered.clear()

    def _free(self, application_id: str) -> Iterable[str]:
        """Open what an application may have closed by its usage, and return the paths of its queues."""
        assert self._order is not None  # noqa: S101 - `_follow` has built it
        ordered = self._order.tree.applications.get(application_id)
        application = self._state.applications.get(application_id)
        if ordered is None:
            # It came after the last call. What it may have freed, it has used since then.
            return ()
        self._open.reopen((TrackingType.USER, self._users[application_id]))
        # If it was removed, its group is unknown.
        group = None if application is None else application.group
        for witness in [(TrackingType.GROUP, group)] if group else self._open.witnesses(TrackingType.GROUP):
            self._open.reopen(witness)
        paths = list(ancestors(ordered.queue.path))
        for each in paths:
            self._open.reopen((TrackingType.QUEUE, each))
        return paths

    def _allow(self, queue_path: str) -> None:
        """Let a queue allow the sizes again for which it has room."""
        queue, layout = self._state.tree.queues.get(queue_path), self._state.active_limits.epoch.layout
        for size in self._open.refused(queue_path):
            if queue is None or queue.counter is None or fits((queue.counter,), layout.vector(size)):
                self._open.allow(queue_path, size)

    def _reclassify(self, application_id: str, request_ids: Iterable[str]) -> None:
        """Put the changed requests of an application into their classes, or all if the application has changed."""
        known = self._classes.get(application_id, {})
        application = self._state.applications.get(application_id)
        if application is None:
            self._users.pop(application_id, None)
            self._drop(self._classes.pop(application_id, {}), list(known))
            self._withdraw_offers(request_ids)
            return
        self._users[application_id] = application.submission.user.name
        start = _class_start(application)
        changed = set(request_ids)
        if any(one.key[:4] != start for one in known.values()):
            changed.update(known)
        self._drop(known, changed)
        pending = {name: entry for name, entry in application.pending.items() if name in changed}
        self._withdraw_offers(changed.difference(pending))
        self._classify(application, pending)
        if not self._classes.get(application_id):
            self._classes.pop(application_id, None)

    def _withdraw_offers(self, request_ids: Iterable[str]) -> None:
        for name in request_ids:
            self._offered.pop(name, None)

    def _drop(self, known: dict[str, RequestClass], request_ids: Iterable[str]) -> None:
        for name in request_ids:
            one = known.pop(name, None)
            if one is not None:
                if name not in self._offered:
                    self._open.add(one, -1)
                del one.requests[name]
                self._open.forget_if_empty(one)

    def _classify(self, application: Application, request_ids: Iterable[str]) -> None:
        """Put requests of an application into their classes."""
        start, classes = _class_start(application), self._classes.setdefault(application.application_id, {})
        for name in request_ids:
            entry = application.pending[name]
            key: ClassKey = (*start, entry.usage, name if self._models else "", entry.traits.priority)
            one = classes[name] = self._open.class_of(key)
            one.requests[name] = application.application_id
            if name not in self._offered:
                self._open.add(one, 1)


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


def _class_start(application: Application) -> tuple[UserGroup, str | None, str, bool]:
    """Return the part of the key of a class that all requests of an application have in common."""
    queue_path, is_running = application.queue.queue_path, application.holding is not None
    return application.submission.user, application.group, queue_path, is_running


def _sum(amounts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    total = dict(amounts)
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
    return total


def _finish(changed: asyncio.Future[None]) -> None:
    if not changed.done():
        changed.set_result(None)

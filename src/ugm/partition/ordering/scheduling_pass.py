"""Passes over the pending requests of a partition in scheduling order.

`turns_of` returns the whole order at one moment, with the reasons for each place. A `SchedulingPass` offers one request
after the other, each to be granted or skipped, and follows what other callers change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from sys import maxsize
from typing import Final, NamedTuple, Self, TypeAlias, final

from ugm.arguments import require_items, require_mapping
from ugm.decision import Decision
from ugm.engine_lock import EngineLock
from ugm.errors import RequestError
from ugm.identity import ROOT, canonical_path, require_name
from ugm.model import OrderNode, UserRank
from ugm.ordering.request_order import Comparison, PendingRequest
from ugm.partition.engine.application import ChangeMarks
from ugm.partition.engine.state import PartitionState
from ugm.partition.ordering.pending_order import ApplicationKey, CopiedApplication, GroupTree, OrderCopy, PendingOrder
from ugm.partition.ordering.planned_start import Reservation
from ugm.partition.rows import Allocation, AllocationRequest


class Turn(NamedTuple):
    """A pending request at its place in the order."""

    request: AllocationRequest
    user: str
    #: The queue of its application; or its group, if the order descends through the groups of a quota model.
    queue_path: str
    #: Whether it fits the maximum of each queue on its path, together with those before it that fit.
    fits: bool
    #: The queue whose maximum it exceeds; empty if it fits.
    blocked_by: str
    #: The comparisons that chose it, from the root down.
    keys: tuple[Comparison, ...]
    #: The reservation of the request, with its expected start; None if it has none.
    reservation: Reservation | None = None

    def explain(self) -> str:
        """Return the reasons for the place in words, one line for each comparison, and one for a reservation."""
        return "\n".join(self._reasons())

    def _reasons(self) -> list[str]:
        return [*map(str, self.keys), *([] if self.reservation is None else [str(self.reservation)])]

    def to_dict(self) -> dict[str, object]:
        """Return the turn for JSON; exact numbers are texts."""
        return {
            "allocation_id": self.request.allocation_id,
            "application_id": self.request.application_id,
            "user": self.user,
            "queue_path": self.queue_path,
            "usage": dict(self.request.usage),
            "priority": self.request.priority,
            "node": self.request.node,
            "label": self.request.label,
            "fits": self.fits,
            "blocked_by": self.blocked_by,
            "reasons": self._reasons(),
            "start": None if self.reservation is None else self.reservation.start,
            "reserved_for": [] if self.reservation is None else list(self.reservation.queue_paths),
        }


def by_share(rank: UserRank) -> ApplicationKey:
    """Return the key that orders the applications of a queue by the rank of their users.

    Users that tie, and applications of one user, are ordered by submission.

    >>> from ugm.fairness import ShareTree
    >>> tree = ShareTree({}, {"ana": 1, "ben": 1})
    >>> keys = {"root.research": by_share(tree.rank({"ana": 5}))}
    """
    return lambda application: rank.position_of_user(application.user.name)


def turns_of(
    copied: OrderCopy,
    max_turns: int | None = None,
    keys: Mapping[str, ApplicationKey] | None = None,
    *,
    explained: bool = True,
) -> tuple[Turn, ...]:
    """Return the pending requests of a copy in their order; see `AbstractPartition.order`."""
    order = PendingOrder(copied, keys or {})
    # The maxima of queues also count if the order descends through groups.
    queues = order if copied.tree is None else PendingOrder(copied._replace(tree=None), {})
    reservations = {one.allocation_id: one for one in copied.reservations}
    return tuple(islice(_turns(order, queues, reservations, explained=explained), max_turns))


def _turns(
    order: PendingOrder, queues: PendingOrder, reservations: Mapping[str, Reservation], *, explained: bool
) -> Iterator[Turn]:
    """Yield the requests in their order, each granted if it fits the maxima of its queues; ends the order.

    Args:
        order: the order.
        queues: the order of the queues.
        reservations: the reservations by allocation id.
        explained: whether the turns have the comparisons that chose them.
    """
    tree = order.tree
    while (application := tree.first()) is not None and (request := application.next()) is not None:
        name, path = application.application_id, application.queue.path
        keys = tree.comparisons(application) if explained else ()
        queue = queues.tree.applications[name].queue
        full = queue.blocking_queue(request.usage)
        blocked_by, reservation = "" if full is None else full.path, reservations.get(request.allocation_id)
        yield Turn(_allocation_request(request), order.users[name], path, full is None, blocked_by, keys, reservation)
        if full is not None:
            tree.skip(application, request)
            continue
        tree.grant(application, request)
        if queues is not order:
            queue.add_usage(request.usage)


def _allocation_request(request: PendingRequest) -> AllocationRequest:
    """Return a request of an order as the caller or the ledger has it."""
    if isinstance(request, AllocationRequest):
        return request
    assert isinstance(request, Allocation)  # noqa: S101 - an order has requests of these two types
    return request.request


class PassCalls(NamedTuple):
    """The calls of a partition that its scheduling passes make."""

    #: Decides about a request, and respects reservations.
    allocate: Callable[[AllocationRequest], Decision]
    #: Returns the reservations of the partition.
    reservations: Callable[[], tuple[Reservation, ...]]


#: The changed applications by id, None for one that has ended, and the groups that are traversed with their amounts.
_Changes: TypeAlias = tuple[list[tuple[str, CopiedApplication | None]], list[OrderNode]]


@final
class Head:
    """The request that comes next in a scheduling pass.

    Attributes:
        request: the request.
        queue_path: the queue of its application; or its group, if the pass traverses the groups of a quota model.
        keys: the comparisons that chose it, from the root down.
    """

    def __init__(
        self, owner: SchedulingPass, request: AllocationRequest, queue_path: str, keys: tuple[Comparison, ...]
    ) -> None:
        self._pass: Final = owner
        self.request: Final = request
        self.queue_path: Final = queue_path
        self.keys: Final = keys

    def __repr__(self) -> str:
        return f"<Head {self.request.allocation_id!r} of {self.request.application_id!r} in {self.queue_path}>"

    def allocate(self, node: str | None = None) -> Decision:
        """Grant the request if the partition allows it; otherwise it takes no further part in the pass.

        If a queue above it reserves capacity (see `Reservation`), a request that would delay the reserved one is denied
        with a violation of the kind ``reservation``. A pending request that only queues block may get the reservation.

        Args:
            node: the node that the allocation runs on; None for the one of the request.

        Raises:
            RequestError: as for `ugm.Partition.allocate`.
        """
        request = self.request if node is None else self.request._replace(node=node)
        return self._pass._allocate(request)  # noqa: SLF001 - a part of the same class

    def skip(self) -> None:
        """Leave the request out of the rest of the pass. To continue with the next head has the same effect."""
        self._pass._skip(self.request.allocation_id)  # noqa: SLF001 - a part of the same class

    @property
    def reservation(self) -> Reservation | None:
        """The reservation that the request has at this moment, with its expected start; None if it has none."""
        found = self._pass._calls.reservations()  # noqa: SLF001 - a part of the same class
        return next((one for one in found if one.allocation_id == self.request.allocation_id), None)

    def explain(self) -> str:
        """Return the reasons for the choice in words, one line for each comparison, and one for a reservation."""
        reservation = self.reservation
        return "\n".join([*map(str, self.keys), *([] if reservation is None else [str(reservation)])])


@final
class SchedulingPass:
    """An iterator over the requests in scheduling order; `ugm.Partition.scheduling_pass` returns it.

    Each head follows the usage and the requests at the moment when it is returned, even if other callers have changed
    them. No lock is held between two heads. A request that is denied or skipped takes no further part, and the next
    request of its application takes its place. One thread at a time may use the pass.
    """

    def __init__(
        self,
        calls: PassCalls,
        state: PartitionState,
        lock: EngineLock,
        marks: ChangeMarks,
        requests: Mapping[str, tuple[AllocationRequest, ...]] | None,
        keys: Mapping[str, ApplicationKey],
        tree: GroupTree | None = None,
    ) -> None:
        self._tree: Final = tree
        self._calls: Final = calls
        self._state: Final = state
        self._lock: Final = lock
        #: What has changed since the last head; marks of everything let the first head build the order.
        self._marks: Final = marks
        self._requests: Final = requests
        self._keys: Final = keys
        #: The requests that were granted or skipped.
        self._out: Final[set[str]] = set()
        #: None while it is changed, so that it is built again after an exception.
        self._order: PendingOrder | None = None
        #: The ranks of users, which are read once.
        self._rank: UserRank | None = None
        #: The id of the last head.
        self._head: str | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Head:
        if self._head is not None:
            self._skip(self._head)
        order = self._follow()
        application = order.tree.first()
        request = None if application is None else application.next()
        if application is None or request is None:
            self._order = order
            raise StopIteration
        keys = order.tree.comparisons(application)
        head = Head(self, _allocation_request(request), application.queue.path, keys)
        self._head, self._order = request.allocation_id, order
        return head

    # Following the partition

    def _follow(self) -> PendingOrder:
        """Return the order at this moment. Only the facts are read under the lock: a key of the program may be slow."""
        order, self._order = self._order, None
        changes = self._lock.run(self._changes, order)
        if order is None or isinstance(changes, OrderCopy):
            assert isinstance(changes, OrderCopy)  # noqa: S101 - without an order, everything is copied
            order = PendingOrder(changes, self._keys, self._requests, self._out, self._rank)
            self._rank = order.rank
            return order
        applications, nodes = changes
        for name, copied in applications:
            order.apply(name, copied, self._out)
        order.set_amounts(nodes)
        return order

    def _changes(self, order: PendingOrder | None) -> OrderCopy | _Changes:
        """Return what has changed since the last head; the caller holds the lock."""
        marks = self._marks
        if order is None or marks.everything or order.is_stale(self._state, marks.applications):
            marks.take()
            return OrderCopy.of(self._state, for_keys=bool(self._keys), tree=self._tree)
        applications = [(name, order.read(self._state, name, ids)) for name, ids in marks.take().items()]
        return applications, [] if self._tree is None else self._tree.nodes()

    # Changes by the caller

    def _allocate(self, request: AllocationRequest) -> Decision:
        decision = self._calls.allocate(request)
        self._skip(request.allocation_id)
        return decision

    def _skip(self, request_id: str) -> None:
        self._out.add(request_id)
        if self._head == request_id:
            order, self._head, self._order = self._order, None, None
            application = None if order is None else order.tree.first()
            if order is not None and application is not None and request_id in application.requests:
                order.tree.skip(application, application.requests[request_id][2])
                self._order = order


# Arguments


def require_keys(keys: Mapping[str, ApplicationKey] | None) -> dict[str, ApplicationKey]:
    """Return the keys of a program by canonical queue path; a key also applies to the queues below.

    Raises:
        RequestError: the keys are not a mapping, or a key is not callable.
    """
    found: dict[str, ApplicationKey] = {}
    for path, key in ({} if keys is None else require_mapping("keys", keys)).items():
        if not callable(key):
            raise RequestError("keys", key, f"the key of {path} must be a function of an application")
        found[canonical_path(path)] = key
    return found


def require_requests_by_application(
    requests: Mapping[str, Iterable[AllocationRequest]] | None,
) -> dict[str, tuple[AllocationRequest, ...]] | None:
    """Return the requests of a program by application; None for the pending ones.

    Raises:
        RequestError: the requests are not a mapping, or one is not an `AllocationRequest` of its application.
    """
    if requests is None:
        return None
    found: dict[str, tuple[AllocationRequest, ...]] = {}
    for application_id, listed in require_mapping("requests", requests).items():
        found[require_name("application_id", application_id)] = require_items("requests", listed)
        for request in found[application_id]:
            if type(request) is not AllocationRequest or request.application_id != application_id:
                raise RequestError("requests", request, f"expected an AllocationRequest of {application_id!r}")
    return found


def require_max_turns(max_turns: int | None) -> int | None:
    """Return a maximum number of turns; None for no maximum.

    Raises:
        RequestError: it is neither None nor a number of at least 0.
    """
    if max_turns is not None and (type(max_turns) is not int or max_turns < 0):
        raise RequestError("max_turns", max_turns, "expected an int of at least 0, or None")
    # More than any list can have.
    return None if max_turns is None else min(max_turns, maxsize)


def require_ranks(ranks: Mapping[str, int] | None) -> dict[str, ApplicationKey]:
    """Return the keys that order the applications of all queues by the places of their users.

    Raises:
        RequestError: the places are not a mapping, or one is not a number.
    """
    if ranks is None:
        return {}
    places = require_mapping("ranks", ranks)
    for name, place in places.items():
        if type(place) is not int:
            raise RequestError("ranks", place, f"the place of {name} must be an int")
    last = max(places.values(), default=0) + 1
    return {ROOT: lambda application: places.get(application.user.name, last)}

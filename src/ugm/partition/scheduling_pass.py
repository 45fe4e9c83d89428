"""Scheduling passes: the pending requests of a partition, one after the other, each to be granted or skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Self, final

from ugm.decision import Decision
from ugm.fairness import Comparison
from ugm.fairness.order_tree import OrderedApplication, OrderedRequest
from ugm.model import OrderNode
from ugm.operation_lock import OperationLock
from ugm.partition.allocation import AllocationRequest
from ugm.partition.change_marks import ChangeMarks
from ugm.partition.order_copy import ApplicationChange, GroupTree, OrderCopy
from ugm.partition.planned_start import Reservation
from ugm.partition.scheduling_order import ApplicationKey, ApplicationOrder, allocation_request
from ugm.partition.state import PartitionState

__all__ = ["Head", "SchedulingPass"]


class PassCalls(NamedTuple):
    """The calls of a partition that its scheduling passes make."""

    #: Decides about a request, and respects reservations.
    allocate: Callable[[AllocationRequest], Decision]
    #: Returns the reservations of the partition.
    reservations: Callable[[], tuple[Reservation, ...]]


@final
class Head:
    """The request that comes next in a scheduling pass.

    Attributes:
        request: the request.
        queue_path: the queue of its application; or its group, if the pass traverses the groups of a quota model.
        keys: the comparisons that chose it, from the root down.
    """

    __slots__ = ("_decide", "_pass", "keys", "queue_path", "request")

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

    __slots__ = (
        "_calls",
        "_head",
        "_is_outdated",
        "_keys",
        "_lock",
        "_marks",
        "_nodes",
        "_order",
        "_out",
        "_requests",
        "_state",
        "_tree",
    )

    def __init__(
        self,
        calls: PassCalls,
        state: PartitionState,
        lock: OperationLock,
        marks: ChangeMarks,
        requests: Mapping[str, tuple[AllocationRequest, ...]] | None,
        keys: Mapping[str, ApplicationKey],
        tree: GroupTree | None = None,
    ) -> None:
        self._tree: Final = tree
        self._nodes: Sequence[OrderNode] = ()
        self._calls: Final = calls
        self._state: Final = state
        self._lock: Final = lock
        #: What has changed since the last head; marks of everything let the first head build the order.
        self._marks: Final = marks
        self._requests: Final = requests
        self._keys: Final = keys
        #: The requests that were granted or skipped.
        self._out: Final[set[str]] = set()
        self._order: ApplicationOrder | None = None
        #: Whether the order is being changed, or was when an exception interrupted that. It is built again then.
        self._is_outdated = False
        #: The last head: its id, its application and its request.
        self._head: tuple[str, OrderedApplication, OrderedRequest] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Head:
        if self._head is not None:
            self._skip(self._head[0])
        order = self._follow()
        application = order.tree.first()
        request = None if application is None else application.next()
        if application is None or request is None:
            self._is_outdated = False
            raise StopIteration
        keys, wanted = order.tree.comparisons(application), allocation_request(application.application_id, request)
        head = Head(self, wanted, application.queue.path, keys)
        self._is_outdated = False
        try:
            self._head = request.request_id, application, request
            # In the block: a head that the caller has not got is not skipped.
            return head  # noqa: TRY300 - as above
        except BaseException:
            self._head = None
            raise

    # Following the partition

    def _follow(self) -> ApplicationOrder:
        """Return the order at this moment."""
        order, changes = self._order, self._lock.run(self._changes)
        if order is None or isinstance(changes, OrderCopy):
            assert isinstance(changes, OrderCopy)  # noqa: S101 - the marks begin with everything
            # The ranks of users are read once.
            rank_key = None if order is None else order.rank_key
            order = self._order = ApplicationOrder(changes, self._keys, self._requests, self._out, rank_key)
        else:
            for change in changes:
                order.apply(change, self._out)
            order.set_amounts(self._nodes)
        return order

    def _changes(self) -> OrderCopy | list[ApplicationChange]:
        """Return what has changed since the last head; the caller holds the lock."""
        marks = self._marks
        was_outdated, self._is_outdated = self._is_outdated, True
        order = self._order
        if order is None or was_outdated or marks.everything or order.is_stale(self._state, marks.applications):
            return self._copy()
        if self._tree is not None:
            self._nodes = self._tree.nodes()
        return [order.read(self._state, name, request_ids) for name, request_ids in marks.take().items()]

    def _copy(self) -> OrderCopy:
        self._marks.take()
        return OrderCopy.of(self._state, for_keys=bool(self._keys), tree=self._tree)

    # Changes by the caller

    def _allocate(self, request: AllocationRequest) -> Decision:
        decision = self._calls.allocate(request)
        self._skip(request.allocation_id)
        return decision

    def _skip(self, request_id: str) -> None:
        self._out.add(request_id)
        if self._head is not None and self._head[0] == request_id and self._order is not None:
            _, application, request = self._head
            was_outdated, self._is_outdated = self._is_outdated, True
            self._head = None
            if not was_outdated:
                self._order.tree.skip(application, request)
                self._is_outdated = False

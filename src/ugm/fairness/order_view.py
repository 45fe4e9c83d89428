"""Views of an `OrderTree`: some of its requests, in the order that they have without the others.

The problem: nearly all pending requests of a busy partition are blocked. A search for the first request that may fit
would take time proportional to the blocked ones before it.

The idea: each `OrderView` contains requests that are blocked together, or not known to be blocked. `first_request`
descends through several views at once and skips all others. The views share the queues of one tree, with their usage;
each view follows a log of changed queues when it is searched.

Invariant: after `sync`, the keys of a view are those of a tree with its requests alone, without the queues that refuse
them.

Blocked requests decide the order of others only if the order of queues is a tie: the earliest submission among all
remaining requests of a queue comes first. `first_request` finds it, or raises `UndecidedOrderError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias, final

from ugm.fairness.order_tree import OrderedApplication, OrderedQueue, OrderEntry, OrderTree

__all__ = ["FoundRequest", "OrderLog", "OrderRules", "OrderShape", "OrderView", "UndecidedOrderError", "first_request"]

#: The most changes that are stored; a view that is older computes all its keys again.
_MOST_CHANGES: Final = 1 << 17


class UndecidedOrderError(Exception):
    """The order of two queues depends on requests that are in none of the views."""


@final
class OrderLog:
    """The queues and applications whose keys may have changed, in the order of the changes."""

    __slots__ = ("_changed", "_first")

    def __init__(self) -> None:
        self._changed: list[OrderedQueue | OrderedApplication] = []
        #: The number of the first stored change.
        self._first = 0

    @property
    def position(self) -> int:
        """The number of all changes so far."""
        return self._first + len(self._changed)

    def add(self, changed: OrderedQueue | OrderedApplication) -> None:
        """Note a change of a queue or an application of the tree."""
        if len(self._changed) >= _MOST_CHANGES:
            self.forget()
        self._changed.append(changed)

    def forget(self) -> None:
        """Let all views compute all keys again."""
        # One more, so that also a view of the newest position is outdated.
        self._first = self.position + 1
        self._changed = []

    def since(self, position: int) -> Sequence[OrderedQueue | OrderedApplication] | None:
        """Return the changes since a position; None if they are no longer stored."""
        return None if position < self._first else self._changed[position - self._first :]


@final
class OrderView:
    """Some requests of an order tree.

    Args:
        tree: the tree.
        log: the changes of the tree.
        refused: the paths of queues that refuse all requests of the view; the caller changes it, and notes the change
            in the log.
    """

    __slots__ = ("_log", "_position", "_tree", "applications", "queues", "refused", "root")

    def __init__(self, tree: OrderTree, log: OrderLog, refused: AbstractSet[str]) -> None:
        self._tree: Final = tree
        self._log: Final = log
        self._position = log.position
        self.refused: Final = refused
        self.root: Final = OrderedQueue.view_of(tree.root, None)
        self.queues: Final = {"root": self.root}
        self.root.is_refused = "root" in refused
        self.applications: Final[dict[str, OrderedApplication]] = {}

    def add(self, application_id: str, entries: Collection[OrderEntry]) -> None:
        """Add requests of an application, each with its place in the order of the application."""
        application = self.applications.get(application_id)
        if application is None:
            source = self._tree.applications[application_id]
            application = OrderedApplication(application_id, self._queue(source.queue), source.number, source)
            self.applications[application_id] = application
        for entry in entries:
            application.put_back(entry)
        application.refresh()
        application.queue.refresh_requests()

    def _queue(self, source: OrderedQueue) -> OrderedQueue:
        found = self.queues.get(source.path)
        if found is None:
            above = source.parent
            assert above is not None  # noqa: S101 - every view has the root
            found = self.queues[source.path] = OrderedQueue.view_of(source, self._queue(above))
            found.is_refused = source.path in self.refused
        return found

    def remove(self, application_id: str, request_ids: Iterable[str]) -> None:
        """Remove requests of an application."""
        application = self.applications[application_id]
        for request_id in request_ids:
            del application.requests[request_id]
        if not application.requests:
            del self.applications[application_id]
        application.refresh()
        application.queue.refresh_requests()

    def sync(self) -> None:
        """Follow all changes of the tree."""
        log = self._log
        if self._position == log.position:
            return
        changed = log.since(self._position)
        self._position = log.position
        if changed is None:
            self._refresh_everything()
            return
        queues: set[OrderedQueue] = set()
        used: list[OrderedQueue] = []
        for one in set(changed):
            if type(one) is OrderedApplication:
                application = self.applications.get(one.application_id)
                if application is not None:
                    application.refresh()
                    queues.update(application.queue.lineage())
            elif (queue := self.queues.get(one.path)) is not None:
                is_refused = one.path in self.refused
                if queue.is_refused is is_refused:
                    used.append(queue)
                else:
                    queue.is_refused = is_refused
                    queues.update(queue.lineage())
        # The log has the queues above them as well.
        for queue in used:
            queue.refresh_ratio()
        for queue in sorted(queues, key=_depth):
            queue.refresh_key()

    def _refresh_everything(self) -> None:
        for application in self.applications.values():
            application.refresh()
        for queue in reversed(self.queues.values()):
            queue.is_refused = queue.path in self.refused
            queue.refresh_key()


def _depth(queue: OrderedQueue) -> int:
    return -queue.path.count(".")


@final
class OrderShape(NamedTuple):
    """The properties of all queues together that concern the order."""

    queues: int
    #: Whether priority is compared first everywhere.
    has_priority_first: bool
    #: Whether some queue changes the priority of its requests.
    has_offsets: bool
    #: The paths of the queues with a child that is not plain. A queue is plain if its applications are in the order of
    #: submission, all queues below it are plain, and the ratio of each of them is always 0.
    complex: frozenset[str]

    @classmethod
    def of(cls, queues: dict[str, OrderedQueue]) -> OrderShape:
        """Return the properties of queues."""
        mixed, unequal = set[str](), set[str]()
        # Children come before their parents.
        for queue in reversed(queues.values()):
            is_plain = queue.first_key is None and queue.path not in mixed and queue.path not in unequal
            if queue.parent is not None and not is_plain:
                mixed.add(queue.parent.path)
            if queue.parent is not None and (queue.guaranteed or queue.fair_maximum):
                unequal.add(queue.parent.path)
        settings = [queue.settings for queue in queues.values()]
        return cls(
            len(queues),
            all(one.priority_first for one in settings),
            any(one.offset or one.is_fenced for one in settings),
            frozenset(mixed),
        )

    def following(self, queues: dict[str, OrderedQueue]) -> OrderShape:
        """Return the properties after queues may have been added."""
        return self if len(queues) == self.queues else OrderShape.of(queues)

    def is_simple(self, queue: OrderedQueue) -> bool:
        """Return whether in each child of a queue the first request has the earliest submission."""
        return queue.path not in self.complex


class OrderRules(NamedTuple):
    """The rules for ties between queues.

    The earliest submission of all remaining requests is known if all requests have the same priority, and no queue
    changes it. Otherwise there are a lower and an upper bound.
    """

    tree: OrderTree
    #: Whether all requests have the same priority, in all queues.
    is_uniform: bool
    #: The queues in which requests were granted since the search began. Some of their requests may have been skipped.
    charged: Collection[str]
    #: Whether the children of a queue have a simple order: in each, the first request has the earliest submission.
    is_simple: Callable[[OrderedQueue], bool]


class FoundRequest(NamedTuple):
    """The first request of some views."""

    application_id: str
    entry: OrderEntry
    view: OrderView
    #: The place of the application in the order of submission.
    submitted: int


#: The lowest and the highest possible submission.
_Bounds: TypeAlias = tuple[int, int]


def first_request(views: Sequence[OrderView], rules: OrderRules) -> FoundRequest | None:
    """Return the first request of some views; None if there is none.

    Raises:
        UndecidedOrderError: the order of queues depends on other requests.
    """
    found = [view for view in views if view.root.key is not None]
    return _first_below("root", found, rules) if found else None


def _first_below(path: str, views: Sequence[OrderView], rules: OrderRules) -> FoundRequest:
    """Return the first request in or below a queue, which all of the views contain."""
    while True:
        best: OrderedQueue | None = None
        is_leaf = False
        for view in views:
            queue = view.queues[path]
            if queue.applications.best() is not None:
                is_leaf = True
                break
            child = queue.children.best()
            if child is not None and (best is None or child.key < best.key):  # type: ignore[operator] # it has a key
                best = child
        if is_leaf:
            return _first_in_leaf(path, views)
        assert best is not None  # noqa: S101 - the key of the queue is not None
        if not rules.is_simple(rules.tree.queues[path]):
            tied = _tied(path, views, best)
            if len(tied) > 1:
                return _first_of_tied(tied, views, rules)
        path = best.path
        views = _containing(path, views)


def _containing(path: str, views: Sequence[OrderView]) -> list[OrderView]:
    return [view for view in views if (queue := view.queues.get(path)) is not None and queue.key is not None]


def _first_in_leaf(path: str, views: Sequence[OrderView]) -> FoundRequest:
    best: OrderedApplication | None = None
    for view in views:
        one = view.queues[path].applications.best()
        if one is not None and (best is None or one.key < best.key):  # type: ignore[operator] # it has a key
            best = one
    assert best is not None  # noqa: S101 - the key of the queue is not None
    name = best.application_id
    found: FoundRequest | None = None
    for view in views:
        application = view.applications.get(name)
        entry = None if application is None else application.next_entry()
        if entry is not None and (found is None or entry[:2] < found.entry[:2]):
            found = FoundRequest(name, entry, view, best.number)
    assert found is not None  # noqa: S101 - the application has a key
    return found


def _tied(path: str, views: Sequence[OrderView], best: OrderedQueue) -> set[str]:
    """Return the paths of the children whose priority and ratio are those of the best one."""
    assert best.key is not None  # noqa: S101 - it is in the order
    start = best.key[:3]
    return {child.path for view in views for child in view.queues[path].children.with_key_start(start)}


def _first_of_tied(tied: AbstractSet[str], views: Sequence[OrderView], rules: OrderRules) -> FoundRequest:
    """Return the first request of the queue with the earliest submission of a remaining request.

    The queues are looked at by their earliest submission, until no further one can come first.
    """
    queues = sorted((rules.tree.queues[path] for path in tied), key=lambda one: one.submitted)
    best: FoundRequest | None = None
    lowest = highest = queues[-1].submitted
    for queue in queues:
        if best is not None and queue.submitted > highest:
            break
        one = _first_below(queue.path, _containing(queue.path, views), rules)
        low, high = _remaining(queue.path, one, rules)
        if best is None or high < lowest:
            best, lowest, highest = one, low, high
        elif low <= highest:
            raise UndecidedOrderError
    assert best is not None  # noqa: S101 - some queues are tied
    return best


def _remaining(path: str, found: FoundRequest, rules: OrderRules) -> _Bounds:
    """Return bounds of the earliest submission in a queue when its first request comes next.

    The blocked requests before it have been skipped then: all of the queues with smaller ratios. Queues with equal
    ratios have later submissions left.
    """
    tree = rules.tree
    if not rules.is_uniform:
        return tree.queues[path].submitted, found.submitted
    queue = tree.applications[found.application_id].queue
    low = high = found.submitted
    if queue.first_key is not None:
        low = min(low, queue.submitted)
    for below, above in _steps(queue, path):
        ratio = below.ratio
        for other in above.children.by_submission():
            if other.submitted >= high:
                break
            if other is not below and ratio < other.ratio:
                low = min(low, other.submitted)
                if other.path not in rules.charged:
                    high = other.submitted
    return low, high


def _steps(queue: OrderedQueue, path: str) -> Iterator[tuple[OrderedQueue, OrderedQueue]]:
    """Yield each queue from a leaf upward to a path with the queue above it."""
    while queue.path != path:
        above = queue.parent
        assert above is not None  # noqa: S101 - the path is above the leaf
        yield queue, above
        queue = above

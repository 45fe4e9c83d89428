"""Scheduling order: which pending request of a tree of queues is next, and the reasons in words.

The problem: the order of queues depends on their usage and on their pending requests, so it changes with every grant.
Sorting everything for every request would take time proportional to the tree.

The idea: the search descends from the root into the first child until it reaches an application. Each queue keeps its
children, or its applications, in a heap by their keys. After a change, only the keys on the path to the root are
computed again. Entries of outdated keys stay in a heap until they come to its top.

Invariant: the key of a queue or application is current, and is None if nothing is pending there. For each current key
its heap has an entry.

The cost: an offer takes time proportional to the depth times the logarithm of the number of siblings.

Source: Apache YuniKorn, sorting policies and priorities. Unlike there, keys form a total order: ties between queues are
decided by the earliest submission, then the path; between applications by the id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, final

from ugm.errors import fields_text, number_text
from ugm.model import UserRank
from ugm.ordering.ratios import ZERO_RATIO, Ratio, Shares, shares
from ugm.ordering.sibling_heap import HeapItem, HeapKey, Siblings


class SortKeys(NamedTuple):
    """The values by which a queue or an application is compared with its siblings."""

    #: The path of the queue, or the id of the application.
    name: str
    #: The highest priority that is pending in the queue, with its offset; or that of the next request.
    priority: int
    #: The ratio of the queue; or the shares of the application, the largest first, for the order ``fair``.
    shares: tuple[Fraction, ...]
    #: The key of the program, or the place of the user for the order ``share``, as a text; empty if there is none.
    custom: str
    #: The place in the order of submission of the application, or of the first one in the queue.
    submitted: int

    def __repr__(self) -> str:
        return fields_text(self, self._asdict())


class Comparison(NamedTuple):
    """One step of the search: the winner among the children or applications of a queue."""

    #: The queue in which the step chooses.
    queue_path: str
    #: The first value that is compared besides priority: ``ratio``, ``shares``, ``rank``, ``custom`` or ``submitted``.
    criterion: str
    #: Whether priority is compared before it.
    priority_first: bool
    winner: SortKeys
    #: The next best; None if the winner is alone.
    beaten: SortKeys | None

    def __str__(self) -> str:
        winner, beaten = self.winner, self.beaten
        if beaten is None:
            return f"{winner.name} is the only one in {self.queue_path} with pending requests"
        order = ("priority", self.criterion) if self.priority_first else (self.criterion, "priority")
        for value in (*order, "submitted"):
            one, other = _value(winner, value), _value(beaten, value)
            if one != other:
                return f"{winner.name} comes before {beaten.name} by {_WORDS[value]}: {one} against {other}"
        return f"{winner.name} comes before {beaten.name} by name, because everything else is equal"


#: The words for the compared values.
_WORDS: Final = {
    "priority": "priority",
    "ratio": "the ratio of its usage",
    "shares": "its shares",
    "rank": "the fair share of its user",
    "custom": "the key of the program",
    "submitted": "the order of submission",
}


def _value(keys: SortKeys, name: str) -> str:
    if name in ("ratio", "shares"):
        return ", ".join(map(number_text, keys.shares)) or "none"
    if name == "rank":
        return keys.custom
    return str(getattr(keys, name))


#: Priorities are signed 32-bit integers.
_LOWEST: Final = -(2**31)
_HIGHEST: Final = 2**31 - 1


class SortSettings(NamedTuple):
    """The settings of a queue that concern the order."""

    #: The order of the applications of a leaf: ``fifo``, ``fair`` or ``share``.
    policy: str = "fifo"
    #: Whether the priority is compared first among the children or applications of the queue.
    priority_first: bool = True
    #: Added to the priority of the queue.
    offset: int = 0
    #: Whether the offset alone is the priority of the queue.
    is_fenced: bool = False
    #: Whether the first request in or below the queue that queue limits block reserves capacity.
    reserves: bool = False
    #: Whether its child queues are compared by submission, and not by the parts that they use.
    by_submission: bool = False


class PendingRequest(Protocol):
    """A pending request of an application."""

    @property
    def allocation_id(self) -> str:
        """The id of the request."""

    @property
    def usage(self) -> Mapping[str, int]:
        """The requested amounts by resource name."""

    @property
    def priority(self) -> int:
        """The priority; the highest comes first."""


#: A request with its place in the order of its application: the negative priority, and the order of arrival.
OrderEntry: TypeAlias = tuple[int, int, PendingRequest]


@final
class OrderedQueue(HeapItem):
    """A queue of an `OrderTree`."""

    __slots__ = (
        "_ratio",
        "applications",
        "children",
        "fair_maximum",
        "first_key",
        "guaranteed",
        "key",
        "maximum",
        "parent",
        "path",
        "priority",
        "settings",
        "submitted",
        "used",
    )

    path: str
    parent: OrderedQueue | None
    settings: SortSettings
    guaranteed: Mapping[str, int]
    #: What the queue may use itself; a missing resource is not limited.
    maximum: Mapping[str, int]
    #: What its ratio refers to.
    fair_maximum: Mapping[str, int]
    #: The usage in and below the queue.
    used: dict[str, int]
    #: The first key of the order of its applications besides their priority; None for the submission.
    first_key: Callable[[OrderedApplication], Any] | None
    children: Siblings[OrderedQueue]
    applications: Siblings[OrderedApplication]
    key: HeapKey | None
    #: Valid while something is pending.
    priority: int
    submitted: int

    def __init__(
        self,
        path: str,
        parent: OrderedQueue | None,
        settings: SortSettings,
        guaranteed: Mapping[str, int],
        maximum: Mapping[str, int],
    ) -> None:
        self.path = path
        self.parent = parent
        self.settings = settings
        self.guaranteed = guaranteed
        self.maximum = maximum
        if parent is None:
            self.fair_maximum = {name: amount for name, amount in maximum.items() if amount}
        else:
            self.fair_maximum = {**parent.fair_maximum, **maximum}
        self.used = {}
        self.first_key = shares_of if settings.policy == "fair" else None
        self.children = Siblings()
        self.applications = Siblings()
        self.key = None
        self.priority = self.submitted = 0
        self._ratio: Ratio | None = ZERO_RATIO

    @property
    def ratio(self) -> Ratio:
        """The part that the queue uses of its guarantee or fair maximum; 0 if its parent does not compare it."""
        if self.parent is not None and self.parent.settings.by_submission:
            return ZERO_RATIO
        if self._ratio is None:
            self._ratio = Ratio.used(self.used, self.guaranteed, self.fair_maximum)
        return self._ratio

    def lineage(self) -> Iterator[OrderedQueue]:
        """Yield the queue and the queues above it."""
        queue: OrderedQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def add_usage(self, amounts: Mapping[str, int], sign: int = 1) -> None:
        """Add a usage to the queue and those above it; the keys are outdated until `refresh`."""
        for queue in self.lineage():
            used = queue.used
            for name, amount in amounts.items():
                used[name] = used.get(name, 0) + sign * amount
            queue._ratio = None  # noqa: SLF001 - of the same class

    def set_guaranteed(self, guaranteed: Mapping[str, int]) -> bool:
        """Change the amounts that its ratio refers to, and return whether they differ; the keys are outdated then."""
        if guaranteed == self.guaranteed:
            return False
        self.guaranteed, self._ratio = guaranteed, None
        return True

    def blocking_queue(self, amounts: Mapping[str, int]) -> OrderedQueue | None:
        """Return the first queue, from this one upward, whose maximum the amounts would exceed; None if they fit."""
        for queue in self.lineage():
            for name, amount in amounts.items():
                limit = queue.maximum.get(name)
                if limit is not None and amount and queue.used.get(name, 0) + amount > limit:
                    return queue
        return None

    def pending_priority(self) -> int | None:
        """Return the priority of the queue; None if nothing is pending."""
        highest, other = self.applications.priority(), self.children.priority()
        if highest is None or (other is not None and other > highest):
            highest = other
        settings = self.settings
        if highest is None or not (settings.offset or settings.is_fenced):
            return highest
        highest = settings.offset if settings.is_fenced else highest + settings.offset
        return min(max(highest, _LOWEST), _HIGHEST)

    def refresh(self) -> None:
        """Compute the keys of the queue and of those above it again."""
        for queue in self.lineage():
            queue.refresh_key()

    def refresh_key(self) -> None:
        """Compute the key of the queue alone again."""
        priority = self.pending_priority()
        parent = self.parent
        if priority is None:
            if parent is None:
                self.key = None
            else:
                parent.children.remove(self)
            return
        submitted, other = self.applications.submitted(), self.children.submitted()
        if submitted is None or (other is not None and other < submitted):
            submitted = other
        assert submitted is not None  # noqa: S101 - what has a priority was submitted
        if parent is None:
            self.key, self.priority, self.submitted = (), priority, submitted
            return
        ratio = self.ratio
        if parent.settings.priority_first:
            key: HeapKey = (-priority, ratio.nearest, ratio, submitted, self.path)
        else:
            key = (ratio.nearest, ratio, -priority, submitted, self.path)
        parent.children.update(self, key, priority, submitted)

    @property
    def criterion(self) -> str:
        """The first value by which its applications are compared besides priority."""
        if self.first_key is None:
            return "submitted"
        if self.first_key is shares_of:
            return "shares"
        return "rank" if isinstance(self.first_key, RankKey) else "custom"

    def keys(self) -> SortKeys:
        """Return the compared values."""
        return SortKeys(self.path, self.priority, (self.ratio.fraction,), "", self.submitted)


@final
class OrderedApplication(HeapItem):
    """An application of an `OrderTree`."""

    __slots__ = (
        "_heap",
        "application_id",
        "key",
        "number",
        "priority",
        "queue",
        "requests",
        "submitted",
        "used",
        "value",
    )

    application_id: str
    queue: OrderedQueue
    #: Its usage, which is part of the usage of its queue.
    used: Mapping[str, int]
    #: Its pending requests by id, each with its place.
    requests: dict[str, OrderEntry]
    key: HeapKey | None
    priority: int
    submitted: int
    #: The submission, also while nothing is pending.
    number: int
    #: The value of the first key; None for the order of submission.
    value: Any

    def __init__(self, application_id: str, queue: OrderedQueue, number: int) -> None:
        self.application_id = application_id
        self.queue = queue
        self.number = number
        self.used = {}
        self.requests = {}
        #: By negative priority, and the order in which they were made.
        self._heap: list[OrderEntry] = []
        self.key = self.value = None
        self.priority = self.submitted = 0

    def add(self, request: PendingRequest, number: int) -> None:
        """Add a pending request, or replace the one of the same id; the key is outdated until `refresh`.

        Args:
            request: the request.
            number: its place in the order in which the requests of the application were made.
        """
        if request.allocation_id in self.requests:
            # Equal places would let the heap compare the requests.
            self._heap = [entry for entry in self._heap if entry[2].allocation_id != request.allocation_id]
            heapify(self._heap)
        entry = self.requests[request.allocation_id] = -request.priority, number, request
        heappush(self._heap, entry)

    def next(self) -> PendingRequest | None:
        """Return the request that the application would place next; None if nothing is pending."""
        heap, requests = self._heap, self.requests
        while heap:
            entry = heap[0]
            if requests.get(entry[2].allocation_id) is entry:
                return entry[2]
            heappop(heap)
        return None

    def refresh(self) -> None:
        """Compute the key again."""
        queue, number = self.queue, self.number
        request = self.next()
        if request is None:
            queue.applications.remove(self)
            return
        priority = request.priority
        if queue.first_key is None:
            parts: HeapKey = (number,)
        else:
            self.value = queue.first_key(self)
            parts = (self.value, number)
        name = self.application_id
        if queue.settings.priority_first:
            key: HeapKey = (-priority, *parts, name)
        else:
            key = (parts[0], -priority, *parts[1:], name)
        queue.applications.update(self, key, priority, number)

    def keys(self) -> SortKeys:
        """Return the compared values."""
        criterion = self.queue.criterion
        shares = tuple(ratio.fraction for _, ratio in self.value) if criterion == "shares" else ()
        custom = str(self.value) if criterion == "custom" else ""
        if isinstance(self.queue.first_key, RankKey):
            custom = self.queue.first_key.text(self)
        return SortKeys(self.application_id, self.priority, shares, custom, self.submitted)


def shares_of(application: OrderedApplication) -> Shares:
    """Return the shares of an application in its queue."""
    queue = application.queue
    return shares(application.used, queue.guaranteed, queue.fair_maximum)


@final
class RankKey:
    """The key of an application by the rank of its user.

    Args:
        rank: the ranks, which stay the same until they are replaced.
        users: the user of each application; it may change.
    """

    def __init__(self, rank: UserRank, users: Mapping[str, str]) -> None:
        self.rank: UserRank = rank
        self._users: Final = users

    def __call__(self, application: OrderedApplication) -> int:
        """Return the number of users that come before the user of an application."""
        return self.rank.position_of_user(self._users[application.application_id])

    def text(self, application: OrderedApplication) -> str:
        """Return the place of the user of an application as a text."""
        return self.rank.describe_user(self._users[application.application_id])


@final
class OrderTree:
    """The queues, applications and pending requests of one scheduling pass.

    Args:
        settings: those of the root.
        maximum: the size of the cluster; empty if it is not known.
    """

    def __init__(self, settings: SortSettings, maximum: Mapping[str, int]) -> None:
        self.root: Final = OrderedQueue("root", None, settings, {}, maximum)
        self.queues: Final = {"root": self.root}
        self.applications: Final[dict[str, OrderedApplication]] = {}

    def add_queue(
        self,
        path: str,
        settings: SortSettings,
        guaranteed: Mapping[str, int],
        maximum: Mapping[str, int],
        above: str | None = None,
    ) -> OrderedQueue:
        """Add a queue below one that was added before, by default the one whose path begins its own."""
        parent = self.queues[path.rpartition(".")[0] if above is None else above]
        queue = self.queues[path] = OrderedQueue(path, parent, settings, guaranteed, maximum)
        return queue

    def add_application(self, application_id: str, queue_path: str, submitted: int) -> OrderedApplication:
        """Add an application without usage and requests.

        Args:
            application_id: the application.
            queue_path: its queue.
            submitted: its place in the order of submission.
        """
        application = OrderedApplication(application_id, self.queues[queue_path], submitted)
        self.applications[application_id] = application
        return application

    def set_usage(self, application: OrderedApplication, used: Mapping[str, int]) -> None:
        """Change the usage of an application; the keys are outdated until `update`."""
        if used != application.used:
            application.queue.add_usage(application.used, -1)
            application.queue.add_usage(used)
            application.used = used

    def update(self, application: OrderedApplication) -> None:
        """Compute the keys again that depend on an application."""
        application.refresh()
        application.queue.refresh()

    def remove(self, application_id: str) -> None:
        """Remove an application with its usage."""
        application = self.applications.pop(application_id)
        application.queue.add_usage(application.used, -1)
        application.requests.clear()
        self.update(application)

    def refresh(self) -> None:
        """Compute all keys again, for example after the tree was filled."""
        for application in self.applications.values():
            application.refresh()
        self.refresh_queues()

    def refresh_queues(self) -> None:
        """Compute the keys of all queues again."""
        for queue in reversed(self.queues.values()):
            # Children come before their parents.
            queue.refresh_key()

    def first(self) -> OrderedApplication | None:
        """Return the application whose next request is the first one; None if nothing is pending."""
        if self.root.key is None:
            return None
        queue = self.root
        while True:
            application = queue.applications.best()
            if application is not None:
                return application
            child = queue.children.best()
            if child is None:
                return None
            queue = child

    def comparisons(self, application: OrderedApplication) -> tuple[Comparison, ...]:
        """Return the steps of the search that led to the first application."""
        path = list(application.queue.lineage())[::-1]
        steps = [_comparison(above, "ratio", queue, above.children.runner_up()) for above, queue in pairwise(path)]
        last = application.queue
        return (*steps, _comparison(last, last.criterion, application, last.applications.runner_up()))

    def skip(self, application: OrderedApplication, request: PendingRequest) -> None:
        """Remove a request of an application."""
        application.requests.pop(request.allocation_id, None)
        self.update(application)

    def grant(
        self, application: OrderedApplication, request: PendingRequest, usage: Mapping[str, int] | None = None
    ) -> None:
        """Remove a request of an application, and add its usage, or the given one with assigned variants."""
        usage = request.usage if usage is None else usage
        total = dict(application.used)
        for name, amount in usage.items():
            total[name] = total.get(name, 0) + amount
        application.queue.add_usage(usage)
        application.used = total
        self.skip(application, request)


def _comparison(
    queue: OrderedQueue,
    criterion: str,
    winner: OrderedQueue | OrderedApplication,
    beaten: OrderedQueue | OrderedApplication | None,
) -> Comparison:
    keys = None if beaten is None else beaten.keys()
    return Comparison(queue.path, criterion, queue.settings.priority_first, winner.keys(), keys)

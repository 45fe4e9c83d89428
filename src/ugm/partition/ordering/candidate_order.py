"""The scheduling order of the requests that may fit, among all those that are pending.

The problem: a pass in scheduling order offers thousands of blocked requests, which decide the age of their queues until
the pass skips them. A search for the few requests that fit must not visit them all.

The idea: the order among the candidates follows without the pass. Requests of one priority come before all lower ones,
if priorities are compared first and without offsets. Among them, the search descends into the child with candidates
that uses the smallest part: children without candidates change nothing when they come first. If several use equal
parts, the *age* of a child decides: its oldest request that the pass has not skipped when the next candidate of the
child comes up. The pass has skipped all requests of its children that use smaller parts, and none of those that use
larger parts. The age of a child never falls, so the child with the lower age at its candidate comes first.

The candidates of a queue are read when the search reaches it, because most searches end after a few grants.

If priorities have offsets or are not compared first, or in rare other cases, `UndecidedError` says that the whole pass
must be made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf
from typing import Any, Final, TypeAlias, final

from ugm.identity import ROOT, ancestors
from ugm.model import UserRank
from ugm.ordering.ratios import ZERO_RATIO, Ratio, shares
from ugm.ordering.sort_settings import QueueSettings
from ugm.partition.engine.application import Application
from ugm.partition.engine.state import PartitionState
from ugm.partition.ordering.request_classes import RequestClass, RequestClasses, WaitingRequest, guaranteed
from ugm.queues.tree import Queue

#: The value of an application in its queue, then the next request of a class, and the number of earlier ones.
Candidate: TypeAlias = tuple[Any, WaitingRequest, int, RequestClass]

_NOTHING: Final[Mapping[str, int]] = {}


class UndecidedError(Exception):
    """Only the whole pass shows which request comes next."""


@final
class CandidateOrder:
    """The requests of open classes in scheduling order, all of one priority.

    Args:
        state: the partition; the caller holds the lock.
        settings: the settings of the queues.
        rank: returns the ranks of users for queues with the policy ``share``; None without shares.
        requests: all pending requests.
        priority: the priority.
        sources: the classes that take part, by queue path; those of other priorities are left out.
        takes_part: returns whether a class still takes part.
    """

    def __init__(
        self,
        state: PartitionState,
        settings: QueueSettings,
        rank: Callable[[], UserRank | None],
        requests: RequestClasses,
        priority: int,
        sources: Sequence[Mapping[str, Iterable[RequestClass]]],
        takes_part: Callable[[RequestClass], bool],
    ) -> None:
        self._state: Final = state
        self._settings: Final = settings
        self._rank: Final = rank
        self._in_queue: Final = requests.in_queue
        self._priority: Final = priority
        self._sources: Final = sources
        self._takes_part: Final = takes_part
        #: The candidates of the queues that the search has reached, as heaps, and the children that may have some.
        self._heaps: Final[dict[str, list[Candidate]]] = {}
        self._children: Final[dict[str, dict[str, None]]] = {ROOT: {}}
        self._parts: Final = requests.parts
        #: The values of the applications that were compared, until a grant changes them.
        self._values: Final[dict[str, Any]] = {}
        #: The oldest requests below queues.
        self._oldest: Final[dict[str, tuple[float, float]]] = {}
        #: The last granted request of each application and queue.
        self._granted: Final[dict[str, WaitingRequest]] = {}
        self._is_only_priority: Final = len(requests.priorities) == 1
        if requests.is_nested:
            raise UndecidedError
        for path in chain.from_iterable(sources):
            self._link(path)

    def _link(self, path: str) -> None:
        """Note that a queue may have candidates."""
        while path != ROOT:
            above = path.rpartition(".")[0]
            children = self._children.setdefault(above, {})
            is_known = bool(children)
            children[path] = None
            if is_known:
                return
            path = above

    def push(self, one: RequestClass, position: int) -> None:
        """Let the requests of a class that was taken out take part from a position on."""
        if position >= len(one.requests):
            return
        path, request = one.queue_path, one.requests[position]
        heappush(self._heaps.setdefault(path, []), (self._value(path, request), request, position, one))
        self._link(path)

    def pop(self) -> Candidate | None:
        """Take out the next request with the rest of its class, until `push`; None for no request.

        Raises:
            UndecidedError: only the whole pass shows which one comes next.
        """
        path: str | None = ROOT
        while path in self._children:
            path = self._first_child(path)
        return None if path is None else heappop(self._heaps[path])

    def _has_candidates(self, path: str) -> bool:
        """Return whether a queue has candidates in it or below it; otherwise forget it."""
        if path in self._children:
            return any(self._has_candidates(child) for child in list(self._children[path]))
        heap = self._heaps.get(path)
        if heap is None:
            classes = chain.from_iterable(source.get(path, ()) for source in self._sources)
            taking_part = [one for one in classes if one.priority == self._priority and self._takes_part(one)]
            heap = [(self._value(path, one.requests[0]), one.requests[0], 0, one) for one in taking_part]
            heapify(heap)
            self._heaps[path] = heap
        while heap and not self._takes_part(heap[0][3]):
            heappop(heap)
        while not heap and path != ROOT and not self._children.get(path):
            above = path.rpartition(".")[0]
            del self._children[above][path]
            path = above
        return bool(heap)

    def grant(self, request: WaitingRequest) -> None:
        """Follow the grant of a request that was taken out."""
        path = self._state.applications[request.row.application_id].row.queue_path
        self._granted[request.row.application_id] = request
        self._parts.follow(request.row.application_id, path)
        for above in ancestors(path):
            self._granted[above] = request
        if self._settings.of(path).policy == "fair" and path in self._heaps:
            # Other classes may have requests of the same application.
            self._values.pop(request.row.application_id, None)
            heap = [(self._value(path, request), request, *rest) for _, request, *rest in self._heaps[path]]
            self._heaps[path] = sorted(heap)

    # Comparisons

    def _first_child(self, path: str) -> str | None:
        """Return the child whose candidates come first; None if no child has any."""
        while children := self._children[path]:
            if len(children) == 1:
                child = next(iter(children))
                return child if self._has_candidates(child) else None
            ratios = [(self._ratio(path, child), child) for child in children]
            least = min(ratios, key=lambda one: (one[0].nearest, one[0]))[0]
            tied = [child for ratio, child in ratios if ratio == least and self._has_candidates(child)]
            if tied:
                return tied[0] if len(tied) == 1 else min(tied, key=self._age)
        return None

    def _age(self, path: str) -> float:
        """Return the oldest request in and below a queue when its next candidate comes up."""
        heap, queue = self._heaps.get(path), self._state.tree.queues[path]
        if heap:
            own = self._age_of_leaf(path, heap[0])
            return own if self._is_only_priority else min(own, self._oldest_of(queue)[1])
        first = self._first_child(path)
        assert first is not None  # noqa: S101 - it has candidates
        age, ratio = self._age(first), self._ratio(path, first)
        for child in queue.children.values():
            name = child.queue_path
            if name != first:
                same, lower = self._oldest_of(child)
                age = min(age, lower)
                if same < age and ratio < self._ratio(path, name):
                    age = min(age, self._oldest_left(child))
        return age

    def _age_of_leaf(self, path: str, candidate: Candidate) -> int:
        value, (number, *_), *_ = candidate
        if self._settings.of(path).policy != "fifo":
            for one in self._in_queue[path][self._priority]:
                if one.application >= number:
                    break
                granted = self._granted.get(one.row.application_id)
                if value < self._value(path, one) and (granted is None or granted.number < one.number):
                    return one.application
        return number

    def _oldest_of(self, queue: Queue) -> tuple[float, float]:
        """Return the oldest request of the priority in and below a queue, and that of lower priorities."""
        path = queue.queue_path
        found = self._oldest.get(path)
        if found is None:
            lists = self._in_queue.get(path, {})
            own = [requests[0].application for priority, requests in lists.items() if priority < self._priority]
            below = [self._oldest_of(child) for child in queue.children.values()]
            same = [requests[0].application for priority, requests in lists.items() if priority == self._priority]
            found = (
                min([*same, *(one for one, _ in below)], default=inf),
                min([*own, *(one for _, one in below)], default=inf),
            )
            self._oldest[path] = found
        return found

    def _oldest_left(self, queue: Queue) -> float:
        """Return the oldest request of the priority in a queue that the pass has not reached since its last grant."""
        granted, path = self._granted.get(queue.queue_path), queue.queue_path
        if granted is None:
            return self._oldest_of(queue)[0]
        if queue.children or self._settings.of(path).policy != "fifo":
            raise UndecidedError
        requests = self._in_queue[path][self._priority]
        later = bisect_right(requests, granted)
        return requests[later].application if later < len(requests) else inf

    # The compared values

    def _value(self, path: str, request: WaitingRequest) -> Any:  # noqa: ANN401 - values of one queue are comparable
        """Return the value by which the application of a request is compared before its submission."""
        name = request.row.application_id
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = self._value_of(path, self._state.applications[name])
        return found

    def _value_of(self, path: str, application: Application) -> Any:  # noqa: ANN401 - as above
        policy = self._settings.of(path).policy
        if policy == "fifo":
            return 0
        if policy == "share":
            rank = self._rank()
            return 0 if rank is None else rank.position_of_user(application.row.user.name)
        queue = self._state.tree.queues[path]
        return shares(application.held() or _NOTHING, guaranteed(queue), self._parts.fair_maximum(queue))

    def _ratio(self, above: str, path: str) -> Ratio:
        """Return the part that a queue uses."""
        if self._settings.of(above).by_submission:
            return ZERO_RATIO
        return self._parts.of(self._state.tree.queues[path])

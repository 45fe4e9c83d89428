"""The pending requests that may fit: a count by queue and size, without those known to be blocked.

The problem: after a release, nearly all waiting requests are still blocked. Testing each of them would take time
proportional to their number for every release.

The idea: requests that get the same answer form a `RequestClass`: they have the same user, group, queue and size. A
denied class is closed, with the limit that denied it as its witness, until something is released that is charged to the
witness. If a queue has no room for a size, that size is refused for the whole subtree at once, in time proportional to
the depth.

Invariant: `OpenRequests.total` is the number of requests that are in no closed class, and whose size no queue on their
path refuses. So a pass can end when it is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, final
from weakref import WeakValueDictionary

from ugm.identity import UserGroup, ancestors
from ugm.resources import Resource

__all__ = ["OpenRequests", "RequestClass", "RequestSize", "Witness"]

#: The limit that denies a class: the kind and the name of its owner, for example ``("user", "ana")``.
Witness: TypeAlias = tuple[str, str]


#: What decides the answer: user, group, queue and whether the application runs; the size; with quota models, which may
#: see anything, the id of the request; and the priority, so that the priorities of all requests are known.
ClassKey: TypeAlias = tuple[UserGroup, str | None, str, bool, Resource, str, int]


@final
class RequestSize:
    """The usage of requests; one object for equal usages, because it is hashed often."""

    __slots__ = ("__weakref__", "usage")

    def __init__(self, usage: Resource) -> None:
        self.usage: Final = usage


@final
class RequestClass:
    """Pending requests that get the same answer at the same moment."""

    __slots__ = ("count", "key", "paths", "requests", "size", "witness")

    key: ClassKey
    #: The number of its requests that take part.
    count: int
    #: The application of each of its requests.
    requests: dict[str, str]
    #: The limit that denies them; None while the class is open.
    witness: Witness | None

    #: The size of each request.
    size: RequestSize
    #: The queue of the requests, and those above it.
    paths: tuple[str, ...]

    def __init__(self, key: ClassKey, size: RequestSize) -> None:
        self.key = key
        self.size = size
        self.paths = tuple(ancestors(key[2]))
        self.count = 0
        self.requests = {}
        self.witness = None


@final
class OpenRequests:
    """The classes of all pending requests, and the number of open requests."""

    __slots__ = (
        "_closed",
        "_counts",
        "_known_sizes",
        "_refused",
        "_sizes",
        "classes",
        "open_classes",
        "priorities",
        "total",
    )

    #: The number of open requests.
    total: int
    classes: dict[ClassKey, RequestClass]
    #: The classes that are not closed, in no order.
    open_classes: dict[RequestClass, None]
    #: The number of classes of each priority.
    priorities: dict[int, int]

    def __init__(self) -> None:
        self.total = 0
        self.classes = {}
        self.open_classes = {}
        self.priorities = {}
        self._known_sizes: Final[WeakValueDictionary[Resource, RequestSize]] = WeakValueDictionary()
        #: The open requests in and below a queue by its path and their size, as if the queue itself refused nothing.
        self._counts: Final[dict[tuple[str, RequestSize], int]] = {}
        #: The sizes of requests in and below each queue.
        self._sizes: Final[dict[str, set[RequestSize]]] = {}
        #: The sizes that each queue refuses.
        self._refused: Final[dict[str, set[RequestSize]]] = {}
        #: The closed classes by witness.
        self._closed: Final[dict[Witness, set[RequestClass]]] = {}

    # Requests

    def add(self, one: RequestClass, number: int) -> None:
        """Add requests to a class, or remove some if the number is negative."""
        one.count += number
        if one.witness is None:
            self._add(one.paths, one.size, number)

    def _add(self, paths: Iterable[str], size: RequestSize, number: int) -> None:
        counts = self._counts
        if not number:
            return
        for path in paths:
            before = counts.get((path, size), 0)
            count = counts[path, size] = before + number
            if not count:
                self._sizes[path].discard(size)
                del counts[path, size]
            elif not before:
                self._sizes.setdefault(path, set()).add(size)
            if size in self._refused.get(path, ()):
                return
        self.total += number

    def class_of(self, key: ClassKey) -> RequestClass:
        """Return the class of a key, which is made if it does not exist."""
        found = self.classes.get(key)
        if found is None:
            size = self._known_sizes.get(key[4])
            if size is None:
                size = self._known_sizes[key[4]] = RequestSize(key[4])
            found = self.classes[key] = RequestClass(key, size)
            self.open_classes[found] = None
            self.priorities[key[6]] = self.priorities.get(key[6], 0) + 1
        return found

    def forget_if_empty(self, one: RequestClass) -> None:
        """Forget a class without requests."""
        if not one.requests and self.classes.get(one.key) is one:
            del self.classes[one.key]
            priority = one.key[6]
            self.priorities[priority] -= 1
            if not self.priorities[priority]:
                del self.priorities[priority]
            if one.witness is None:
                del self.open_classes[one]
            else:
                self._closed[one.witness].discard(one)

    def is_open(self, one: RequestClass) -> bool:
        """Return whether the requests of a class may fit."""
        return one.witness is None and not any(one.size in self._refused.get(path, ()) for path in one.paths)

    # Classes

    def close(self, one: RequestClass, witness: Witness) -> None:
        """Close a class because a limit denies it."""
        self._add(one.paths, one.size, -one.count)
        one.witness = witness
        self.open_classes.pop(one, None)
        self._closed.setdefault(witness, set()).add(one)

    def reopen(self, witness: Witness) -> None:
        """Open all classes that a limit has denied."""
        for one in self._closed.pop(witness, ()):
            one.witness = None
            self.open_classes[one] = None
            self._add(one.paths, one.size, one.count)

    def witnesses(self, kind: str) -> list[Witness]:
        """Return the witnesses of a kind that close some classes."""
        return [witness for witness in self._closed if witness[0] == kind]

    # Sizes

    def sizes(self, queue_path: str) -> Iterator[RequestSize]:
        """Yield the sizes of open requests in and below a queue that the queue does not refuse."""
        refused = self._refused.get(queue_path, ())
        return (size for size in tuple(self._sizes.get(queue_path, ())) if size not in refused)

    def refused(self, queue_path: str) -> tuple[RequestSize, ...]:
        """Return the sizes that a queue refuses."""
        return tuple(self._refused.get(queue_path, ()))

    def refuse(self, queue_path: str, size: RequestSize) -> None:
        """Leave out all requests of a size in and below a queue."""
        hidden = self._counts.get((queue_path, size), 0)
        self._change_above(queue_path, size, -hidden)
        self._refused.setdefault(queue_path, set()).add(size)

    def allow(self, queue_path: str, size: RequestSize) -> None:
        """Undo `refuse`."""
        self._refused[queue_path].discard(size)
        self._change_above(queue_path, size, self._counts.get((queue_path, size), 0))

    def _change_above(self, queue_path: str, size: RequestSize, number: int) -> None:
        above = queue_path.rpartition(".")[0]
        if not number:
            return
        if above:
            self._add(ancestors(above), size, number)
        else:
            self.total += number

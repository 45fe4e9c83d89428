"""The scheduling order, recomputed for every offer by sorting everything, as a reference for the fast one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

__all__ = ["NaiveApplication", "NaiveOrder", "NaiveQueue"]

Amounts = Mapping[str, int]


@dataclass
class NaiveQueue:
    """A queue with its settings; `used` is the usage in and below it."""

    path: str
    guaranteed: Amounts
    maximum: Amounts
    policy: str
    priority_first: bool
    offset: int
    fence: bool
    used: dict[str, int] = field(default_factory=dict)


@dataclass
class NaiveApplication:
    """An application with its pending requests: the id, the priority, and the usage, in the order of the requests."""

    name: str
    queue: str
    submitted: int
    used: Amounts
    requests: list[tuple[str, int, Amounts]]
    key: Any = None


class NaiveOrder:
    """The queues and applications at one moment."""

    def __init__(self, queues: Iterable[NaiveQueue], applications: Iterable[NaiveApplication]) -> None:
        self.queues: Final = {queue.path: queue for queue in queues}
        self.applications: Final = [one for one in applications if one.requests]

    def first(self) -> tuple[str, str] | None:
        """Return the application and the request that are next; None if there is none."""
        if not self.applications:
            return None
        path = "root"
        while not any(one.queue == path for one in self.applications):
            children = [each for each in self.queues if each.rpartition(".")[0] == path and self._below(each)]
            path = min(children, key=lambda each: self._queue_key(each, first=self.queues[path].priority_first))
        queue = self.queues[path]
        found = min(
            (one for one in self.applications if one.queue == path), key=lambda one: self._application_key(queue, one)
        )
        return found.name, _next(found)[0]

    def _below(self, path: str) -> list[NaiveApplication]:
        return [one for one in self.applications if one.queue == path or one.queue.startswith(f"{path}.")]

    def priority(self, path: str) -> int:
        """Return the priority of a queue with pending requests."""
        queue = self.queues[path]
        if queue.fence:
            return queue.offset
        own = [_next(one)[1] for one in self.applications if one.queue == path]
        below = [self.priority(each) for each in self.queues if each.rpartition(".")[0] == path and self._below(each)]
        return min(max(max(own + below) + queue.offset, -(2**31)), 2**31 - 1)

    def fair_maximum(self, path: str) -> dict[str, int]:
        """Return the amounts that the ratio of a queue refers to."""
        queue = self.queues[path]
        if path == "root":
            return {name: amount for name, amount in queue.maximum.items() if amount}
        return {**self.fair_maximum(path.rpartition(".")[0]), **queue.maximum}

    def ratio(self, path: str) -> Fraction:
        """Return the largest part that a queue uses of what it may use."""
        queue, parts = self.queues[path], [Fraction(0)]
        available = {**self.fair_maximum(path), **queue.guaranteed}
        for name, amount in queue.used.items():
            if amount and name in available:
                parts.append(Fraction(amount, available[name]) if available[name] else Fraction(1))
        return max(parts)

    def _queue_key(self, path: str, *, first: bool) -> tuple[object, ...]:
        priority, ratio = -self.priority(path), self.ratio(path)
        rest = min(one.submitted for one in self._below(path)), path
        return (priority, ratio, *rest) if first else (ratio, priority, *rest)

    def _application_key(self, queue: NaiveQueue, one: NaiveApplication) -> tuple[object, ...]:
        priority = -_next(one)[1]
        own: list[Any] = [one.submitted]
        if one.key is not None:
            own = [one.key, one.submitted]
        elif queue.policy == "fair":
            own = [self._shares(queue, one), one.submitted]
        parts = [priority, *own] if queue.priority_first else [own[0], priority, *own[1:]]
        return (*parts, one.name)

    def _shares(self, queue: NaiveQueue, one: NaiveApplication) -> list[Fraction]:
        fair, shares = self.fair_maximum(queue.path), []
        for name, amount in one.used.items():
            available = queue.guaranteed.get(name, 0) or fair.get(name, 0)
            if available and amount:
                shares.append(Fraction(amount, available))
        return sorted(shares, reverse=True)


def _next(one: NaiveApplication) -> tuple[str, int, Amounts]:
    """Return the request with the highest priority, of equal ones the first."""
    return max(one.requests, key=lambda request: request[1])

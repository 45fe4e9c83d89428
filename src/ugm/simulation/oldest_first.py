"""The order in which a scheduler loop retries waiting jobs: the oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

__all__ = ["retry_oldest_first"]

Kind = TypeVar("Kind", bound=Hashable)


def retry_oldest_first(waiting: Mapping[Kind, deque[Any]], start: Callable[[Kind], bool]) -> None:
    """Start the waiting jobs that fit now, the oldest first.

    Args:
        waiting: the waiting jobs by kind: if one of a kind is denied, the others are, too. A job is a tuple that begins
            with the number of its arrival, which is unique. The oldest of a kind is first, and no kind is empty.
        start: starts the oldest job of a kind and removes it from *waiting*, or returns False if it is denied.
    """
    # The numbers of arrivals are unique, so kinds are never compared.
    heads = [(jobs[0][0], kind) for kind, jobs in waiting.items()]
    heapify(heads)
    while heads:
        _, kind = heappop(heads)
        # Usage only grows during a round, so equal jobs are denied again.
        if start(kind) and kind in waiting:
            heappush(heads, (waiting[kind][0][0], kind))

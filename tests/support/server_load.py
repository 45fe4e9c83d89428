"""A scheduler that never pauses, and the check of queue trees that clients read next to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from ugm import Partition, Resource

__all__ = ["SIZE", "decide", "is_consistent"]

#: The size of every allocation.
SIZE: Final = Resource(vcore=100, memory=1 << 20)


def decide(partition: Partition, seconds: float, applications: int, *, pauses: bool = False) -> list[int]:
    """Allocate and release for some seconds, and return the sorted nanoseconds that each call took.

    Args:
        partition: has applications with the ids ``app-0`` and so on.
        seconds: the duration.
        applications: the number of applications that take turns.
        pauses: whether to sleep for a millisecond after each ten decisions.
    """
    times: list[int] = []
    allocate, release, clock = partition.allocate, partition.release, time.perf_counter_ns
    end, number = clock() + int(seconds * 10**9), 0
    while (start := clock()) < end:
        number += 1
        allocate("more", f"app-{number % applications}", SIZE)
        middle = clock()
        release("more")
        times += (middle - start, clock() - middle)
        if pauses and number % 5 == 0:
            time.sleep(0.001)
    return sorted(times)


def is_consistent(queue: Mapping[str, Any]) -> bool:
    """Return whether every parent has the sum of its children, and nothing is above a maximum."""
    children = queue["children"]
    if children:
        for name in queue["usage"]:
            if sum(child["usage"].get(name, 0) for child in children) != queue["usage"][name]:
                return False
    if any(queue["usage"].get(name, 0) > most for name, most in (queue["max_resources"] or {}).items()):
        return False
    return all(map(is_consistent, children))

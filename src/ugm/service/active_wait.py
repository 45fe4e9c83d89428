"""A selector that looks for the next message for a moment before it sleeps.

The problem: if a process sleeps between two messages, the operating system has to wake it up for each one. On an idle
machine this takes longer than the decision.

The idea: while messages arrive quickly, the selector asks again and again whether one is there, and only then sleeps.
Between two looks, other threads and processes may use the processor. If the last waits were longer than that, it sleeps
at once, so an idle service needs no processor time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from selectors import DefaultSelector, SelectorKey
from time import perf_counter, sleep
from typing import Any, Final, final

__all__ = ["ActiveSelector", "run_with_active_wait"]

#: The weight of the last wait in the average.
_WEIGHT: Final = 0.1


#: Let other threads and processes run, with the cheapest call of the system.
_give_way: Final[Callable[[], None]] = getattr(os, "sched_yield", partial(sleep, 0))


@final
class ActiveSelector(DefaultSelector):
    """The selector of the platform, with active waiting.

    Args:
        duration: how long it looks for events before it sleeps, in seconds, if it has waited for less on average.
    """

    def __init__(self, duration: float) -> None:
        super().__init__()
        self._duration: Final = duration
        #: The average wait. Each wait counts at most twice the duration, so the next few waits decide.
        self._average = 2 * duration

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return the events that are ready, after at most *timeout* seconds; None waits for the first one."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began_at = perf_counter()
        found = self._look(began_at, timeout) if self._average < self._duration else []
        if not found:
            found = super().select(None if timeout is None else timeout - (perf_counter() - began_at))
        waited = min(perf_counter() - began_at, 2 * self._duration)
        self._average += _WEIGHT * (waited - self._average)
        return found

    def _look(self, began_at: float, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        end = began_at + (self._duration if timeout is None else min(timeout, self._duration))
        while True:
            found = super().select(0)
            if found or perf_counter() >= end:
                return found
            _give_way()


def run_with_active_wait(main: Coroutine[Any, Any, None], duration: float) -> None:
    """Run a coroutine like `asyncio.run`, in a loop that waits actively; with a duration of 0, in a usual loop."""
    if not duration:
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(ActiveSelector(duration))) as runner:
        runner.run(main)

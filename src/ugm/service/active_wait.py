"""Waiting that polls for the next message for a moment before it sleeps.

The problem: if a process sleeps between two messages, the operating system has to wake it up for each one. On an idle
machine this takes longer than the decision.

The idea: while messages arrive quickly, the process polls for some time before it sleeps. Between two polls, other
threads and processes may use the processor. If the last waits were longer than the time for which it would poll, it
sleeps at once, so an idle process needs no processor time. If polling takes much longer than planned, other programs
need the processors, and polling would only delay the messages. Then it sleeps at once for a while.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from selectors import DefaultSelector, SelectorKey
from time import perf_counter, sleep
from typing import Any, Final, Generic, TypeVar, final

from ugm.errors import RequestError

__all__ = ["ActiveSelector", "ActiveWait", "require_duration", "run_with_active_wait"]

_Found = TypeVar("_Found")

#: The weight of the last wait in the average.
_WEIGHT: Final = 0.1

#: The number of waits without polling after polling took too long because other programs used the processors.
_WAITS_OF_BUSY_PROCESSORS: Final = 1000

#: The maximum time for which a process polls before it sleeps, in seconds.
_LONGEST: Final = 0.01

#: Let other threads and processes run, with the cheapest call of the system.
_give_way: Final[Callable[[], None]] = getattr(os, "sched_yield", partial(sleep, 0))


@final
class ActiveWait(Generic[_Found]):
    """Waits for something.

    Args:
        wait: waits for at most the given seconds, None for any time, and returns what it found, if anything.
        duration: how long to poll before sleeping, in seconds, if the waits were shorter than that on average.
    """

    __slots__ = ("_average", "_duration", "_sleeps", "_wait")

    def __init__(self, wait: Callable[[float | None], _Found], duration: float) -> None:
        self._wait: Final = wait
        self._duration: Final = duration
        #: The average wait. Each wait counts at most twice the duration, so the next few waits decide.
        self._average = 2 * duration
        #: The number of waits that sleep at once.
        self._sleeps = 0

    def __call__(self, timeout: float | None) -> _Found:
        """Return the result of waiting for at most *timeout* seconds; None waits for any time."""
        if timeout is not None and timeout <= 0:
            return self._wait(timeout)
        began_at = perf_counter()
        found = self._poll(began_at, timeout) if self._is_polling() else None
        if not found:
            # Other programs may have used the processor for longer than the time-out, and `poll` waits for ever then.
            found = self._wait(None if timeout is None else max(timeout - (perf_counter() - began_at), 0))
        waited = min(perf_counter() - began_at, 2 * self._duration)
        self._average += _WEIGHT * (waited - self._average)
        return found

    def _is_polling(self) -> bool:
        if self._sleeps:
            self._sleeps -= 1
            return False
        return self._average < self._duration

    def _poll(self, began_at: float, timeout: float | None) -> _Found:
        end = began_at + (self._duration if timeout is None else min(timeout, self._duration))
        while True:
            found = self._wait(0)
            now = perf_counter()
            if found or now >= end:
                if now > end + self._duration:
                    self._sleeps = _WAITS_OF_BUSY_PROCESSORS
                return found
            _give_way()


@final
class ActiveSelector(DefaultSelector):
    """The selector of the platform, with active waiting.

    Args:
        duration: how long it polls for events before it sleeps, in seconds, if it has waited for less on average.
    """

    def __init__(self, duration: float) -> None:
        super().__init__()
        self._active_wait: Final[ActiveWait[list[tuple[SelectorKey, int]]]] = ActiveWait(super().select, duration)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return the events that are ready, after at most *timeout* seconds; None waits for the first one."""
        return self._active_wait(timeout)


def run_with_active_wait(main: Coroutine[Any, Any, None], duration: float) -> None:
    """Run a coroutine like `asyncio.run`, in a loop that waits actively; with a duration of 0, in a usual loop."""
    if not duration:
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(ActiveSelector(duration))) as runner:
        runner.run(main)


def require_duration(active_wait: object) -> None:
    """Raise a RequestError if the duration of active waits is not a number or is out of its range."""
    is_valid = isinstance(active_wait, int | float) and type(active_wait) is not bool and 0 <= active_wait <= _LONGEST
    if not is_valid:
        raise RequestError("active_wait", active_wait, f"expected 0 to {_LONGEST} seconds")

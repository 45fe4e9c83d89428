"""Who is answered when: one at a time, and what is asked twice is answered once."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event

import pytest

from ugm.server.dispatch import RequestCoalescer
from ugm.server.errors import ApiError


async def started(turns: RequestCoalescer[int], gate: Event) -> asyncio.Task[int]:
    """Return a question that is being answered until the gate opens."""
    begun = Event()

    def wait() -> int:
        begun.set()
        gate.wait()
        return 0

    task = asyncio.create_task(turns.run("first", wait))
    await asyncio.to_thread(begun.wait)
    return task


def test_what_waits_for_the_same_shares_an_answer() -> None:
    """Equal questions that wait are answered together, once; one that comes while an answer is made is not."""

    async def ask() -> tuple[list[int], list[str]]:
        turns, gate, made = RequestCoalescer[int](9), Event(), []

        def make(name: str) -> int:
            made.append(name)
            return len(made)

        first = await started(turns, gate)
        waiting = [asyncio.create_task(turns.run(key, partial(make, key))) for key in ("first", "b", "b")]
        await asyncio.sleep(0)
        gate.set()
        return [await first, *[await task for task in waiting]], made

    assert asyncio.run(ask()) == ([0, 1, 2, 2], ["first", "b"])


def test_too_many() -> None:
    """No more than the allowed number of different questions wait."""

    async def ask() -> None:
        turns, gate = RequestCoalescer[int](1), Event()
        first = await started(turns, gate)
        second = asyncio.create_task(turns.run("second", lambda: 2))
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="too many requests are waiting"):
            await turns.run("third", lambda: 3)
        gate.set()
        assert (await first, await second) == (0, 2)

    asyncio.run(ask())


def test_who_goes_away_takes_nothing_from_others() -> None:
    """If one of those who share an answer goes away, the others get it."""

    async def ask() -> int:
        turns, gate = RequestCoalescer[int](9), Event()
        first = await started(turns, gate)
        one, other = (asyncio.create_task(turns.run("shared", lambda: 5)) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        gate.set()
        await first
        return await other

    assert asyncio.run(ask()) == 5


def test_a_failure_reaches_everybody() -> None:
    """What an answer raises reaches those who asked, and the next question is answered."""

    async def ask() -> int:
        turns = RequestCoalescer[int](9)
        with pytest.raises(ZeroDivisionError):
            await turns.run("broken", lambda: 1 // 0)
        return await turns.run("broken", lambda: 1)

    assert asyncio.run(ask()) == 1

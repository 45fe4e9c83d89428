"""The queues of requests: one request runs at a time, and identical requests share a response."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event

import pytest

from ugm.server.dispatch import RequestCoalescer
from ugm.server.payloads import ApiError


async def started(turns: RequestCoalescer[int], gate: Event) -> asyncio.Task[int]:
    """Return a request that runs until the gate opens."""
    begun = Event()

    def wait() -> int:
        begun.set()
        gate.wait()
        return 0

    task = asyncio.create_task(turns.run("first", wait))
    await asyncio.to_thread(begun.wait)
    return task


def test_what_waits_for_the_same_shares_an_answer() -> None:
    """Equal requests that wait share one result; a request that arrives while the result is created does not."""

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
    """No more than the allowed number of distinct requests wait."""

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
    """If one of several clients of a shared result disconnects, the others receive it."""

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
    """An exception reaches all clients of the request, and the next request is answered."""

    async def ask() -> int:
        turns = RequestCoalescer[int](9)
        with pytest.raises(ZeroDivisionError):
            await turns.run("broken", lambda: 1 // 0)
        return await turns.run("broken", lambda: 1)

    assert asyncio.run(ask()) == 1

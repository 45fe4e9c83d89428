"""Exceptions from outside in the connection of an asyncio client: all of its calls end, and it can be used again."""

from __future__ import annotations

import asyncio
import dis
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Final, cast

import pytest

from support.injection import InterruptedTestError
from support.interruption_points import Interruption, Point
from support.partition_fixtures import SUE, memory
from support.service_fixtures import eventually, running
from ugm import Decision
from ugm.service import DeadlineError, UnavailableError, connect_async
from ugm.service.async_connection import AsyncClientConnection, _Call, _Channel
from ugm.service.calls import OpenCalls
from ugm.service.client import AsyncConnectedPartition

#: The functions that the loop calls while it sends calls and receives their answers.
_CALLBACKS: Final = cast(
    "list[FunctionType]",
    [
        AsyncClientConnection._flush,
        AsyncClientConnection.receive,
        _Channel.data_received,
        _Channel._handle,
        _Call.complete,
        OpenCalls.take,
        OpenCalls.answered,
        OpenCalls.discard,
    ],
)


@pytest.fixture(name="address")
def _address(quick_folder: Path) -> Iterator[str]:
    with running(quick_folder):
        yield f"unix:{quick_folder}/s"


async def _opened(address: str, deadline: float = 5) -> AsyncConnectedPartition:
    """Connect without a report of the exceptions that the loop gets, because they are expected."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    partition = await connect_async(address, deadline=deadline)
    await partition.submit("app", SUE, "root.a")
    return partition


async def _is_answered(partition: AsyncConnectedPartition) -> bool:
    return (await partition.check("app", memory(1))).allowed


def _points(functions: list[FunctionType]) -> list[Point]:
    codes = [function.__code__ for function in functions]
    return [Point(code, "opcode", one.offset, 1) for code in codes for one in dis.get_instructions(code)]


def _fail_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, error: BaseException) -> None:
    """Let the next call of a method raise an error."""
    method: Callable[..., Any] = getattr(owner, name)

    def fail(*_: object) -> None:
        monkeypatch.setattr(owner, name, method)
        raise error

    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize("distance", [7, pytest.param(1, marks=pytest.mark.ci)])
def test_interrupted_callbacks(address: str, distance: int) -> None:
    """All calls of a message are answered, also after an interruption between two of them."""
    arrived = 0
    for point in _points(_CALLBACKS)[::distance]:
        interruption = Interruption(point, InterruptedTestError)
        with asyncio.Runner() as runner:
            partition = runner.run(_opened(address))
            assert _are_answered(runner, partition, interruption), point
            runner.run(partition.connection.close())
        arrived += interruption.has_raised
    assert arrived > 100 // distance


def _are_answered(runner: asyncio.Runner, partition: AsyncConnectedPartition, interruption: Interruption) -> bool:
    """Return whether some calls are answered at once although one of their callbacks is interrupted."""
    answers: list[Decision] = []

    async def check() -> None:
        async with asyncio.timeout(4):
            answers.extend(await asyncio.gather(*(partition.check("app", memory(one)) for one in range(3))))

    interruption.run(lambda: runner.run(check()))
    return len(answers) == 3 and all(answer.allowed for answer in answers)


@pytest.mark.parametrize("method", ["_check", "_expire", "_try_connect"])
def test_interrupted_task(
    address: str, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the task that keeps the connection fails, another one begins."""

    async def work() -> None:
        partition = await _opened(address)
        connection = partition.connection
        _fail_once(monkeypatch, AsyncClientConnection, method, MemoryError())
        first = connection._work
        if connection._channel is not None:
            connection._channel.fail(ConnectionResetError())
        assert await _is_answered(partition)
        await asyncio.to_thread(eventually, lambda: connection._work is not first)
        assert await _is_answered(partition)
        await connection.close()

    asyncio.run(work())
    assert "MemoryError" in caplog.text


def test_interrupted_expiry(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls end at their deadline although an earlier look at the deadlines was interrupted."""

    async def work() -> None:
        partition = await _opened(address, deadline=0.1)
        expiry = partition.connection._expiry
        assert expiry is not None
        # The timer is gone, as if its function was interrupted at its first instruction.
        expiry.cancel()
        monkeypatch.setattr(_Channel, "send", lambda *_: None)
        async with asyncio.timeout(4):
            with pytest.raises(DeadlineError):
                await partition.check("app", memory(1))
        await partition.connection.close()

    asyncio.run(work())


def test_interrupted_timer(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is sent although the function that sends was interrupted at its first instruction."""

    async def work() -> None:
        partition = await _opened(address)
        _fail_once(monkeypatch, AsyncClientConnection, "_flush", MemoryError())
        assert await _is_answered(partition)
        assert await _is_answered(partition)
        await partition.connection.close()

    asyncio.run(work())


def test_cancelled_close(address: str) -> None:
    """Closing passes the cancellation of its caller on. The connection is closed nevertheless."""

    async def work() -> None:
        partition = await _opened(address)
        answer = partition.check("app", memory(1))
        closing = asyncio.create_task(partition.connection.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(UnavailableError):
            await answer
        with pytest.raises(UnavailableError):
            await partition.check("app", memory(1))

    asyncio.run(work())


def test_task_that_is_cancelled(address: str) -> None:
    """A connection whose task is cancelled, as at the end of a loop, is closed. Each call gets an error of its own."""

    async def work() -> None:
        partition = await _opened(address)
        calls = [partition.check("app", memory(1)) for _ in range(2)]
        assert partition.connection._work is not None
        partition.connection._work.cancel()
        one, other = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(one, UnavailableError)
        assert isinstance(other, UnavailableError)
        assert one is not other
        with pytest.raises(UnavailableError):
            await partition.check("app", memory(1))

    asyncio.run(work())

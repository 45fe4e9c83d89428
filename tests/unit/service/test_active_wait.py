"""Services and clients look for messages before they sleep, as long as messages arrive quickly."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from selectors import DefaultSelector, SelectorKey
from typing import Any

import pytest

from support.service_fixtures import running, started
from ugm import RequestError, Resource
from ugm.service import ServiceSettings, connect
from ugm.service.active_wait import ActiveSelector, run_with_active_wait

#: The duration of the active waits of these tests, and of one look, in seconds.
DURATION = 1.0
LOOK = 0.125

EVENTS = [(SelectorKey(0, 0, 1, None), 1)]


class Events:
    """Events that become ready at certain times of a clock, for the selector of the platform."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ready_at = inf
        #: The time-outs with which the system was called.
        self.calls: list[float | None] = []
        #: The time that other programs take between two looks.
        self.taken = 0.0

    def give_way(self) -> None:
        """Let other programs run."""
        self.now += self.taken

    def select(self, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        """Wait until there are events, or the time is over."""
        self.calls.append(timeout)
        end = inf if timeout is None else self.now + max(timeout, LOOK)
        self.now = min(end, max(self.now + LOOK, self.ready_at))
        return EVENTS if self.ready_at <= self.now else []

    def wait(self, selector: ActiveSelector, seconds: float, timeout: float | None = None) -> list[float | None]:
        """Wait for events that are ready after some seconds, and return the time-outs of the calls."""
        self.calls.clear()
        self.ready_at = self.now + seconds
        found = selector.select(timeout)
        assert bool(found) is (timeout is None or seconds <= timeout)
        return self.calls


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    """Replace the system and its clock."""
    found = Events()
    monkeypatch.setattr(DefaultSelector, "select", lambda _, timeout: found.select(timeout))
    monkeypatch.setattr("ugm.service.active_wait.perf_counter", lambda: found.now)
    monkeypatch.setattr("ugm.service.active_wait._give_way", found.give_way)
    return found


def test_it_sleeps_at_once_first(events: Events) -> None:
    """A new selector does not know how quickly messages arrive."""
    assert events.wait(ActiveSelector(DURATION), 0.5) == [None]


def test_it_looks_while_messages_arrive_quickly(events: Events) -> None:
    """After some quick messages, it finds the next one without sleeping, and sleeps if there is none in time."""
    selector = ActiveSelector(DURATION)
    for _ in range(12):
        events.wait(selector, 0.25)

    assert events.wait(selector, 0.25) == [0, 0]
    assert events.wait(selector, 0.25, timeout=5) == [0, 0]
    assert events.wait(selector, 3) == [0] * 8 + [None]
    assert events.wait(selector, 9, timeout=3) == [0] * 8 + [2.0]


def test_it_sleeps_at_once_after_long_waits(events: Events) -> None:
    """A few long waits are enough, however long, and a few quick ones after them."""
    selector = ActiveSelector(DURATION)
    for seconds, expected in ((0.25, [0, 0]), (1_000_000, [None]), (0.25, [0, 0])):
        for _ in range(12):
            events.wait(selector, seconds)
        assert events.wait(selector, seconds) == expected


def test_it_sleeps_at_once_while_other_programs_need_the_processors(events: Events) -> None:
    """If a look takes much longer than it should, the next 1,000 waits sleep, and then it looks again."""
    selector = ActiveSelector(DURATION)
    for _ in range(12):
        events.wait(selector, 0.25)

    events.taken = 5 * DURATION
    assert events.wait(selector, 0.25) == [0, 0]
    events.taken = 0.0
    assert [events.wait(selector, 0.25) for _ in range(1000)] == [[None]] * 1000
    assert events.wait(selector, 0.25) == [0, 0]


def test_other_programs_take_longer_than_the_timeout(events: Events) -> None:
    """The system is never asked to wait for a negative time, which `poll` takes for any time."""
    selector = ActiveSelector(DURATION)
    for _ in range(12):
        events.wait(selector, 0.25)

    events.taken = 5 * DURATION
    assert events.wait(selector, 9, timeout=0.5) == [0, 0, 0]


def test_it_respects_timeouts(events: Events) -> None:
    """It never looks for longer than it may wait, and looks once if it may not wait."""
    selector = ActiveSelector(DURATION)
    for _ in range(12):
        events.wait(selector, 0.25)

    before = events.now
    assert events.wait(selector, 9, timeout=0.5) == [0, 0, 0, 0, 0]
    assert events.now - before == 0.625
    assert events.wait(selector, 9, timeout=0) == [0]
    assert events.wait(selector, 9, timeout=-1) == [-1]


@pytest.mark.parametrize("duration", [0, 0.001])
def test_a_loop_with_and_without_active_waits(duration: float) -> None:
    """Both loops run timers, sockets and calls of other threads, and raise what the coroutine raises."""
    found: list[Any] = []

    async def main() -> None:
        one, other = await asyncio.start_server(_echo, "127.0.0.1", 0), asyncio.get_running_loop()
        async with one:
            reader, writer = await asyncio.open_connection(*one.sockets[0].getsockname())
            for _ in range(100):
                writer.write(b"a")
                found.append(await reader.readexactly(1))
            writer.close()
        await asyncio.sleep(0.01)
        found.append(await other.run_in_executor(None, lambda: b"b"))
        raise KeyError(1)

    with pytest.raises(KeyError):
        run_with_active_wait(main(), duration)
    assert found == [b"a"] * 100 + [b"b"]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1):
        writer.write(data)
    writer.close()


@pytest.mark.parametrize("duration", [-0.001, 0.011, inf, nan, 10**400, None, "x", 1j, False, Decimal("0.001")])
def test_durations_out_of_range(duration: Any) -> None:  # noqa: ANN401 - invalid on purpose
    """Active waits are short."""
    with pytest.raises(RequestError, match=r"expected 0 to 0\.01 seconds"):
        ServiceSettings(active_wait=duration)
    with pytest.raises(RequestError, match=r"expected 0 to 0\.01 seconds"):
        connect("unix:/tmp/nobody", active_wait=duration)


@pytest.mark.parametrize("duration", [0, 0.01])
def test_clients_with_and_without_active_waits(tmp_path: Path, duration: float) -> None:
    """Calls of one thread and of several get their own answers."""
    usage = Resource(vcore=1)
    with running(tmp_path) as service, started(service, active_wait=duration) as partition:
        for number in range(200):
            assert partition.allocate(f"{number}", "app", usage).allowed
        assert not partition.allocate("large", "app", Resource(memory=1001)).allowed
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(partition.release, map(str, range(200))))
        assert not partition.release("0")

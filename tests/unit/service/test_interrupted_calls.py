"""Exceptions from outside in a call of a client: the connection can be used again at once."""

from __future__ import annotations

import dis
from pathlib import Path
from threading import current_thread
from typing import Final

import pytest

from support.interruption_points import Interruption, Point
from support.partition_fixtures import SUE, memory
from support.service_fixtures import running
from ugm import ReentrantCallError
from ugm.service import connect
from ugm.service.connection import ClientConnection

_METHODS: Final = ("call", "_exchange", "_start", "_await", "_read_until", "_end_reading", "_flush", "_send_next")


_ANSWERS: Final = ("_read", "_handle", "_note_done", "_discard", "_wake_readers")


def _points(names: tuple[str, ...] = _METHODS) -> list[Point]:
    """Return every instruction of the methods that make a call."""
    codes = [getattr(ClientConnection, name).__code__ for name in names]
    return [Point(code, "opcode", one.offset, 1) for code in codes for one in dis.get_instructions(code)]


@pytest.mark.parametrize("distance", [5, pytest.param(1, marks=pytest.mark.ci)])
def test_interrupted_calls(quick_folder: Path, distance: int) -> None:
    """The next call gets its answer, whether the interrupted one has taken effect or not."""
    arrived = 0
    with running(quick_folder), connect(f"unix:{quick_folder}/s", client="c", deadline=5) as partition:
        partition.submit("app", SUE, "root.a")
        for number, point in enumerate(_points()[::distance]):
            interruption = Interruption(point, KeyboardInterrupt)
            interruption.run(lambda name=str(number): partition.allocate(name, "app", memory(1)))  # type: ignore[misc]
            arrived += interruption.has_arrived
            assert partition.allocate(str(number), "app", memory(1)), point
            assert partition.release(str(number)), point
    assert arrived > 20 // distance


@pytest.mark.parametrize("distance", [5, pytest.param(1, marks=pytest.mark.ci)])
def test_promised_calls(quick_folder: Path, distance: int) -> None:
    """An interrupted call that reads the answers to promised ones loses none of them."""
    arrived = 0
    with running(quick_folder), connect(f"unix:{quick_folder}/s", client="c", deadline=5) as partition:
        # No other thread reads.
        partition.connection._thread = current_thread()
        partition.submit("app", SUE, "root.a")
        for point in _points(_METHODS + _ANSWERS)[::distance]:
            futures = [partition.promise(partition.allocate, name, "app", memory(1)) for name in "ab"]
            interruption = Interruption(point, KeyboardInterrupt)
            interruption.run(lambda: partition.check("app", memory(1)))
            arrived += interruption.has_arrived
            assert not partition.release("c"), point
            assert all(future.result(timeout=0) for future in futures), point
            assert partition.release("a"), point
            assert partition.release("b"), point
    assert arrived > 40 // distance


def test_call_in_a_call(quick_folder: Path) -> None:
    """A signal handler that calls the partition in the middle of another call gets an error."""
    with running(quick_folder), connect(f"unix:{quick_folder}/s", client="c", deadline=5) as partition:
        partition.submit("app", SUE, "root.a")
        with partition.connection._reading, pytest.raises(ReentrantCallError):
            partition.allocate("one", "app", memory(1))
        assert partition.allocate("one", "app", memory(1))

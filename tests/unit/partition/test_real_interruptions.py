"""Exceptions from outside as they come in real life: signals, a watchdog thread, no stack, no memory."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Final

import pytest

from support.examples import graded
from support.injection import InterruptedTestError
from support.interrupted_partitions import BUSY, SCENES, states_of
from support.interrupted_process import Worker
from support.locks import is_locked
from support.places import environment
from unit.partition.test_interruptions import CASES, OPERATIONS, SOME_CASES

#: The most seconds until an interruption arrives, unless the closing of a generator has swallowed it.
PATIENCE: Final = 0.05


@pytest.fixture
def _quiet() -> Iterator[None]:
    """Say nothing about what was raised while a generator was closed."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    yield
    sys.unraisablehook = hook


@contextmanager
def alarms(draw: random.Random) -> Iterator[Callable[[], None]]:
    """Yield what lets a signal raise an exception some microseconds later."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise InterruptedTestError

    def arm() -> None:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(20, 100) / 1e6)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        yield arm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(worker: Worker, arm: Callable[[], None], is_over: Callable[[], bool]) -> bool:
    """Let a worker work until something arrives from outside, and return whether it has."""
    try:
        # A function of its own: CPython 3.13 protects some jumps of a loop that stands in the statement by no handler.
        _work(worker, arm, is_over)
    except InterruptedTestError:
        return True
    return False


def _work(worker: Worker, arm: Callable[[], None], is_over: Callable[[], bool]) -> None:
    arm()
    while not is_over():
        worker.work()
    for _ in range(100):
        time.monotonic()


def after_a_while() -> Callable[[], bool]:
    """Return what says whether enough time has passed."""
    end = time.monotonic() + PATIENCE
    return lambda: time.monotonic() > end


def endure(kind: str, count: int, folder: Path, arm: Callable[[], None]) -> int:
    """Work under a number of interruptions, and return how many arrived."""
    scene = SCENES[kind](folder, BUSY)
    scene.build()
    worker, arrived = Worker(scene.partition, random.Random(count)), 0
    for _ in range(count):
        arrived += interrupted(worker, arm, after_a_while())
        worker.require_sound()
        if kind == "models":
            scene.require_sound()
    scene.require_sound()
    scene.close()
    return arrived


COUNTS: Final = [
    *[(kind, 150) for kind in ("memory", "subscribers", "models")],
    ("journal", 100),
    *[pytest.param(kind, 400, marks=pytest.mark.ci) for kind in ("memory", "subscribers", "models")],
    pytest.param("journal", 300, marks=pytest.mark.ci),
    *[pytest.param(kind, 9_000, marks=pytest.mark.deep) for kind in ("memory", "subscribers", "models")],
    pytest.param("journal", 3_000, marks=pytest.mark.deep),
]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(("kind", "count"), COUNTS)
def test_signals(kind: str, count: int, quick_folder: Path) -> None:
    """Whenever a handler raises, nothing is lost, nothing happens twice, and everything goes on."""
    with alarms(random.Random(kind)) as arm:
        assert endure(kind, count, quick_folder, arm) > count * 9 // 10


@pytest.mark.ci
@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(("kind", "count"), COUNTS)
def test_watchdog(kind: str, count: int, quick_folder: Path) -> None:
    """A thread that raises in another one does no harm to what that one works on."""
    orders: SimpleQueue[int | None] = SimpleQueue()
    raised: SimpleQueue[None] = SimpleQueue()
    draw, raising = random.Random(kind), ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        for ident in iter(orders.get, None):
            time.sleep(draw.uniform(20, 100) / 1e6)
            raising(ctypes.c_ulong(ident), ctypes.py_object(InterruptedTestError))
            raised.put(None)

    def arm() -> None:
        orders.put(threading.get_ident())

    watchdog = threading.Thread(target=watch)
    watchdog.start()
    try:
        scene = SCENES[kind](quick_folder, BUSY)
        scene.build()
        worker, arrived = Worker(scene.partition, draw), 0
        for _ in range(count):
            arrived += interrupted(worker, arm, lambda: not raised.empty())
            raised.get()
            worker.require_sound()
        scene.require_sound()
        scene.close()
    finally:
        orders.put(None)
        watchdog.join()
    assert arrived > count * 9 // 10


def depth() -> int:
    """Return how many frames there are."""
    frame: FrameType | None = sys._getframe()
    found = 0
    while frame is not None:
        frame, found = frame.f_back, found + 1
    return found


def starve_of_stack(kind: str, name: str, folder: Path, rooms: Iterable[int]) -> int:
    """Make an operation with little room on the stack, and return how often it was too little."""
    scene, operation = SCENES[kind](folder, BUSY), OPERATIONS[name]
    states, limit, failed = states_of(scene, operation), sys.getrecursionlimit(), 0
    for room in rooms:
        scene.build()
        partition, here = scene.partition, depth()
        try:
            sys.setrecursionlimit(here + room)
            operation(partition)
        except RecursionError:
            failed += 1
        finally:
            sys.setrecursionlimit(limit)
        assert not is_locked(scene.partition._lock), room
        assert scene.state() in states, room
        scene.require_sound()
        scene.close()
    return failed


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(("name", "kind", "step"), graded(SOME_CASES, 12, CASES, 6))
def test_some_small_stacks(name: str, kind: str, step: int, quick_folder: Path) -> None:
    """Wherever the stack ends, the operation has happened or it has not, and everything goes on."""
    step *= 2 if kind == "journal" else 1
    assert starve_of_stack(kind, name, quick_folder, [1, *range(2 + len(name) % 3, 40, step)]) > 0


@pytest.mark.deep
@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("kind", SCENES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_small_stack(name: str, kind: str, quick_folder: Path) -> None:
    """Wherever the stack ends, the operation has happened or it has not, and everything goes on."""
    assert starve_of_stack(kind, name, quick_folder, range(1, 200)) > 0


@pytest.mark.ci
@pytest.mark.skipif(
    importlib.util.find_spec("_testcapi") is None, reason="this Python cannot simulate a lack of memory"
)
@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("kind", SCENES)
def test_allocations_of_memory_that_fail(kind: str, step: int, quick_folder: Path) -> None:
    """Wherever memory ends, the operation has happened or it has not, and everything goes on."""
    ordinary = [sys.executable, "-m", "support.without_memory", "generators"]
    alone = subprocess.run(ordinary, capture_output=True, env=environment(), check=False)  # noqa: S603 - of this repository
    if alone.returncode < 0:
        pytest.skip(
            "this Python crashes without memory for a generator, also where ugm is not used: `without_memory.py`"
        )
    command = [sys.executable, "-m", "support.interrupted_process", kind, str(step), str(quick_folder), *OPERATIONS]
    run = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)  # noqa: S603 - of this repository
    assert run.returncode == 0, (run.returncode, run.stdout[-300:], run.stderr[-3000:])

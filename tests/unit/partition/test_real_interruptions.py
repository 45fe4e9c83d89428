"""Signals that raise an exception while a thread works on a partition."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from support.interrupted_partitions import BUSY, SCENES
from support.interruption_points import InterruptedTestError
from support.locks import is_locked
from support.partition_fixtures import BOB, memory
from ugm import Partition, RequestError, Resource

#: The most seconds until an interruption arrives, unless the closing of a generator has swallowed it.
PATIENCE: Final = 0.05

Held = dict[str, Resource]


class Worker:
    """Works on a partition, and knows what it holds.

    Attributes:
        options: what may be held now: one of these two.
    """

    def __init__(self, partition: Partition, draw: random.Random) -> None:
        self.partition, self.draw = partition, draw
        self.options: tuple[Held, Held] = (self.held(), self.held())

    def held(self) -> Held:
        """Return what the partition holds."""
        return {allocation.allocation_id: allocation.usage for allocation in self.partition.allocations()}

    def work(self) -> None:
        """Make some calls of every kind, in any order."""
        for _ in range(50):
            self._make_a_call(f"n{self.draw.randrange(10)}", self.draw.randint(1, 6))

    def _make_a_call(self, name: str, amount: int) -> None:
        partition, some, licences = self.partition, memory(amount), Resource(memory=1, licence=amount)
        calls: list[tuple[Callable[[], object], Held, tuple[str, ...]]] = [
            (lambda: partition.allocate(name, "one", memory(1)), {name: memory(1)}, ()),
            (lambda: partition.resize("two", some), {"two": some}, ()),
            (lambda: partition.release(name), {}, (name,)),
            (lambda: partition.allocate(f"x{name}", "two", licences, priority=2), {f"x{name}": licences}, ()),
            (lambda: partition.release(f"x{name}"), {}, (f"x{name}",)),
            (lambda: partition.submit(name, BOB, "root.p.y"), {}, ()),
            (lambda: partition.allocate(f"y{name}", name, some), {f"y{name}": some}, ()),
            (lambda: partition.allocate_all([(f"z{name}", name, some)]), {f"z{name}": some}, ()),
            (lambda: partition.remove(name), {}, (f"y{name}", f"z{name}")),
        ]
        self._call(*self.draw.choice(calls))

    def _call(self, call: Callable[[], object], added: Held, removed: tuple[str, ...]) -> None:
        before = self.options[0]
        after = {name: usage for name, usage in (before | added).items() if name not in removed}
        self.options = (before, after)
        has_changed = False
        with suppress(RequestError):
            has_changed = bool(call())
        self.options = (after, after) if has_changed else (before, before)

    def require_sound(self) -> None:
        """Compare what is held with what may be, after an interruption."""
        assert not is_locked(self.partition._lock)
        self.partition.verify()
        held = self.held()
        assert held in self.options
        self.options = (held, held)


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
    ("store", 100),
    *[pytest.param(kind, 400, marks=pytest.mark.ci) for kind in ("memory", "subscribers", "models")],
    pytest.param("store", 300, marks=pytest.mark.ci),
    *[pytest.param(kind, 9_000, marks=pytest.mark.deep) for kind in ("memory", "subscribers", "models")],
    pytest.param("store", 3_000, marks=pytest.mark.deep),
]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(("kind", "count"), COUNTS)
def test_signals(kind: str, count: int, quick_folder: Path) -> None:
    """Whenever a handler raises, nothing is lost, nothing happens twice, and everything goes on."""
    with alarms(random.Random(kind)) as arm:
        assert endure(kind, count, quick_folder, arm) > count * 9 // 10

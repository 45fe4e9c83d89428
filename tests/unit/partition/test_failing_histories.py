"""Long random histories of a partition with failing models, denials, interruptions by signal handlers, and threads.

Nothing is admitted above a limit, lost, or charged twice; every model follows from the ledger, and a
replay of the events leads to the same partition.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Final

import pytest

from support.event_follower import EventFollower
from support.examples import seeds
from support.failing_models import Failing, ResettableFailing, ResettableStarting, Starting, ledger_of
from support.locks import is_locked
from support.partition_fixtures import SUE, BrokenError, partition_of, shown
from support.random_changes import CONFIGS, Actor, state_of
from ugm import Partition, ReentrantCallError, RequestError, Resource
from ugm.events import Event
from ugm.store import open_partition

GPUS: Final = 9


class History:
    """A partition, models that fail at random, and a follower of the events."""

    def __init__(self, seed: int, path: Path | None) -> None:
        self.random = Random(seed)
        self.actor = Actor(seed)
        self.follower = EventFollower()
        self.path = path
        self.last = 0
        #: How often models raise, in percent.
        self.odds = 0
        self.seen: Counter[str] = Counter()
        self.models = [self._model() for _ in range(3)]
        options = {"models": self.models, "subscribers": [self._follow, self._fail]}
        self.partition = (
            Partition(CONFIGS[0], **options) if path is None else open_partition(path, CONFIGS[0], **options)  # type: ignore[arg-type]
        )

    def _model(self) -> Failing:
        kind = self.random.choice([Failing, ResettableFailing, Starting, ResettableStarting])
        model = kind(GPUS, resource="gpu")
        model.trap = self._trap
        return model

    def _replace(self, position: int) -> None:
        new = self._model()
        self.partition.replace_model(self.models[position], new)
        self.models[position] = new

    def _trap(self, call: str, is_after: bool) -> None:  # noqa: FBT001 - as it is called
        draw = self.random.randrange(1000)
        if draw < self.odds * 10:
            self.seen["raised"] += 1
            if draw % 5 == 0:
                # It calls back, and hands on what that raises.
                self.partition.queue()
            raise BrokenError(call, is_after)

    def _follow(self, first: int, events: tuple[Event, ...]) -> None:
        assert first == self.last + 1
        self.last += len(events)
        self.follower.follow(events)

    def _fail(self, _first: int, _events: tuple[Event, ...]) -> None:
        if self.random.random() < 0.01:
            self.seen["subscribers failed"] += 1
            raise BrokenError

    def step(self) -> None:
        """Make one change, or one attempt at it, and compare everything."""
        # A suspended model leaves no headroom.
        before = shown(self.partition)[:-1]
        used = [model.used for model in self.models]
        self.odds = self.random.choice([0, 0, 3, 10])
        try:
            is_checked = self._change()
        except (BrokenError, ReentrantCallError):
            self.odds = 0
            self.seen["failed"] += 1
            assert shown(self.partition)[:-1] == before
        else:
            self.odds = 0
            self._require_no_excess(used, is_checked=is_checked)
        self._require_sound()

    def _change(self) -> bool:
        """Change something, and return whether all models have agreed to what grows."""
        draw = self.random.random()
        if draw < 0.05:
            self._replace(self.random.randrange(3))
            return False
        if draw < 0.2:
            return self._evict()
        adopted = len([event for event in self.models[0].calls if event == "check"])
        self.actor.step(self.partition)
        return len([event for event in self.models[0].calls if event == "check"]) > adopted

    def _evict(self) -> bool:
        names = [
            allocation.allocation_id for allocation in self.partition.allocations() if allocation.state != "pending"
        ]
        self.random.shuffle(names)
        applications = self.partition.applications()
        if not applications:
            return True
        for model in self.models:
            model.gives_up = tuple(names[: self.random.randrange(4)])
        with suppress(RequestError):
            decision = self.partition.allocate_evicting(
                f"evicting {self.random.random()}",
                self.random.choice(applications).application_id,
                Resource(gpu=self.random.randrange(4), memory=self.random.randrange(8)),
            )
            self.seen["evicted"] += bool(decision.evictions) and decision.allowed
        return True

    def _require_no_excess(self, used: list[int], *, is_checked: bool) -> None:
        for model, before in zip(self.models, used, strict=False):
            if is_checked and model.used > before:
                assert model.used <= GPUS

    def _require_sound(self) -> None:
        expected = ledger_of(self.partition)
        suspended = self._suspended()
        for model in self.models:
            model.calls.clear()
            if not suspended:
                assert model.state() == expected
        self.seen["suspended"] += suspended
        if suspended and self.random.random() < 0.3:
            for position in range(3):
                self._replace(position)
            assert not self._suspended()
        assert not is_locked(self.partition._lock)

    def _suspended(self) -> bool:
        return bool(self.partition._models._suspended)

    def end(self) -> None:
        """Compare the copy, and the store."""
        self.partition.configure(CONFIGS[1])
        state = contents_of(self.partition)
        self.follower.require_same(self.partition)
        if self.path is not None:
            self.partition.close()
            with open_partition(self.path, models=()) as again:
                assert contents_of(again) == state


def contents_of(partition: Partition) -> object:
    """Return the state of a partition without the order of the ledger, which a failed `reconcile` may change."""
    rows, *rest = state_of(partition)
    return {name: sorted(table, key=lambda item: item[0]) for name, table in rows.items()}, rest


def play(seed: int, steps: int, path: Path | None = None) -> Counter[str]:
    """Play a history, and return what it had."""
    history = History(seed, path)
    for number in range(steps):
        history.step()
        if number % 50 == 0:
            assert state_of(history.partition)
    history.end()
    return history.seen


@pytest.mark.parametrize("kind", ["memory", "store"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_random_histories(seed: int, kind: str, tmp_path: Path) -> None:
    """Some histories."""
    seen = play(seed, 250, tmp_path / "store" if kind == "store" else None)
    assert min(seen[name] for name in ("raised", "failed", "suspended")) > 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 130))
def test_long_random_histories(seed: int, tmp_path: Path) -> None:
    """Longer ones."""
    play(seed, 1500, tmp_path / "store" if seed % 3 == 0 else None)


# Threads and subscribers


class Crowd:
    """A partition that several threads and a subscriber change, with a model that fails now and then."""

    def __init__(self) -> None:
        self.follower = EventFollower()
        self.numbers: list[int] = []
        self.model = ResettableFailing(GPUS, resource="gpu")
        self.random = Random(1)
        self.partition = partition_of(models=[self.model], subscribers=[self._follow, self._act])

    def trap(self, _call: str, _is_after: bool) -> None:  # noqa: FBT001 - as it is called
        """Fail now and then."""
        if self.random.random() < 0.01:
            raise BrokenError

    def _follow(self, first: int, events: tuple[Event, ...]) -> None:
        self.numbers.extend(range(first, first + len(events)))
        self.follower.follow(events)

    def _act(self, first: int, _events: tuple[Event, ...]) -> None:
        if first % 5 == 0:
            self.use(f"by the subscriber {first}", "0", 1)
        if first % 7 == 0:
            time.sleep(0.001)
            raise BrokenError

    def use(self, allocation_id: str, application_id: str, gpus: int) -> None:
        """Take something, and give it back."""
        with suppress(BrokenError):
            self.partition.allocate(allocation_id, application_id, Resource(gpu=gpus))
        with suppress(BrokenError):
            self.partition.release(allocation_id)

    def work(self, name: str) -> None:
        """Do what one thread does."""
        for number in range(60):
            self.use(f"{name}-{number}", name, 3)


def test_threads_with_subscribers() -> None:
    """Whatever eight threads and a subscriber of its own do, all numbers come once to each subscriber, in order."""
    crowd = Crowd()
    names = [str(number) for number in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for name in names:
            assert crowd.partition.submit(name, SUE, "root.a")
        crowd.model.trap = crowd.trap
        threads = [Thread(target=crowd.work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    crowd.model.trap = None
    # It may have failed again while it was charged with the ledger.
    crowd.partition.replace_model(crowd.model, crowd.model)
    crowd.partition.add_node("n", Resource(gpu=9))
    assert crowd.numbers == list(range(1, len(crowd.numbers) + 1))
    crowd.follower.require_same(crowd.partition)
    assert crowd.model.state() == ledger_of(crowd.partition)

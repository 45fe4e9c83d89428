"""Quota models that raise at any of their calls, before or after its effect, in every operation of a partition.

A failing model changes neither the partition nor another model. If a call that changes it has raised, it is reset and
charged with the ledger, or suspended until it is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

import pytest

from support.examples import pairs
from support.failing_models import CHANGES, Failing, Fuse, ResettableFailing, ledger_of
from support.locks import is_locked
from support.partition_fixtures import SUE, BrokenError, config, memory, partition_of, shown
from ugm import AllocationRequest, Decision, Partition, ReentrantCallError, Resource, Violation
from ugm.decision import SUSPENDED
from ugm.events import Event

CONFIG: Final = config(
    "{name: a, resources: {max: {memory: 50}}}", limits="{groups: [dev], maxresources: {licence: 12}}"
)


def licences(amount: int) -> Resource:
    """Return some licences."""
    return Resource(licence=amount)


OPERATIONS: Final[dict[str, Callable[[Partition], object]]] = {
    "request": lambda p: p.request("n", "app", licences(1)),
    "check": lambda p: p.check("app", licences(1)),
    "allocate": lambda p: p.allocate("n", "fresh", licences(1)),
    "allocate what is pending": lambda p: p.allocate("waits", "app", licences(1)),
    "adopt": lambda p: p.adopt("n", "app", licences(99)),
    "resize": lambda p: p.resize("1", licences(2)),
    "repair": lambda p: p.reconcile(p.audit([("1", "app", licences(3)), ("n", "fresh", licences(1))])),
    "release": lambda p: p.release("1"),
    "allocate with evictions": lambda p: p.allocate_evicting("n", "app", licences(5)),
    "gang": lambda p: p.allocate_all(
        [AllocationRequest("waits", "app", licences(1)), AllocationRequest("n", "fresh", licences(1))]
    ),
    "replace by too much for a model": lambda p: p.replace("room", "n", licences(9)),
    "remove": lambda p: p.remove("app"),
}


class Scene:
    """A partition in which something of every kind goes on, with three models, one of which is going to fail."""

    def __init__(self, position: int, *, resettable: bool) -> None:
        kinds = Failing, ResettableFailing
        self.models: list[Failing] = [
            kinds[number != position or resettable](9, gives_up=("1", "last", "goes")) for number in range(3)
        ]
        self.events: list[tuple[int, Event]] = []
        self.failing = self.models[position]
        self.partition = Partition(CONFIG, models=self.models, subscribers=[self._note], clock=lambda: 1000)
        self._fill(self.partition)

    def _note(self, first: int, events: tuple[Event, ...]) -> None:
        self.events += enumerate(events, first)

    @staticmethod
    def _fill(partition: Partition) -> None:
        for name in ("app", "fresh", "gang", "other", "failing"):
            assert partition.submit(name, SUE, "root.a", gang_style="hard" if name == "gang" else "soft")
        assert partition.allocate("1", "app", licences(1))
        assert partition.allocate("2", "app", memory(3), priority=3)
        assert partition.allocate("room", "app", licences(1), placeholder=True)
        assert partition.allocate("late", "app", memory(1), duration=60)
        assert partition.allocate("last", "other", licences(2))
        assert partition.allocate("goes", "failing", licences(1))
        assert partition.allocate("member", "gang", licences(1), placeholder=True)
        partition.request("missing", "gang", licences(1), placeholder=True)
        partition.request("waits", "app", licences(1))
        partition.request("big", "app", licences(6))
        partition.fail("failing")

    def verify(self, *, failing: bool) -> None:
        """Compare all models with the ledger, the failing one only on request, and all counters."""
        expected = ledger_of(self.partition)
        for model in self.models:
            if failing or model is not self.failing:
                assert model.state() == expected
        self.partition.verify()


def is_suspended(scene: Scene) -> None:
    """Make sure that the failing model is suspended, and replace it."""
    partition, failing = scene.partition, scene.failing
    name = type(failing).__name__
    expected = (Violation(SUSPENDED, name, "", "", None, 0, 0, 0),)
    before = failing.state()
    assert partition.check("other", Resource()) == Decision(expected)
    assert not Decision(expected).can_wait  # No release ends the suspension.
    assert partition.allocate("more", "other", Resource()).violations == expected
    assert partition.allocate_evicting("more", "other", Resource()).violations == expected
    assert partition.allocate_all([("more", "other", Resource())]).violations == expected
    assert partition.resize("last", licences(3)).violations == expected
    assert name in str(partition.explain("other", Resource()))
    assert partition.release("last")
    assert partition.resize("room", Resource())
    partition.request("more", "app", licences(1))
    scene.verify(failing=False)
    assert failing.state() == before
    new = ResettableFailing(9)
    partition.replace_model(failing, new)
    scene.models[scene.models.index(failing)] = scene.failing = new


# While a failed operation or a denial is undone


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_model_that_raises(name: str) -> None:
    """Whichever model raises in whatever call, before or after its effect, all counters of all models are as before."""
    raised = 0
    calls = product(["check", "evictions", *CHANGES], [(0, 2), (1, 1), (2, 1)], (False, True))
    for call, (position, time), is_after in calls:
        scene = Scene(position, resettable=True)
        before = shown(scene.partition)
        scene.failing.arm(Fuse(call, time, is_after))
        try:
            OPERATIONS[name](scene.partition)
        except BrokenError:
            raised += 1
            scene.failing.arm(None)
            assert shown(scene.partition) == before
        scene.failing.arm(None)
        scene.verify(failing=True)
        assert all("reset" not in model.calls for model in scene.models if model is not scene.failing)
    assert raised


def test_reset_that_fails() -> None:
    """A model that cannot be reset is suspended, and the error of the call goes to the caller."""
    scene = Scene(1, resettable=True)

    def trap(call: str, _: bool) -> None:  # noqa: FBT001 - as it is called
        if call in ("charge", "reset"):
            raise BrokenError(call)

    scene.failing.trap = trap
    with pytest.raises(BrokenError, match="charge"):
        scene.partition.allocate("n", "app", licences(1))
    scene.failing.trap = None
    assert [violation.kind for violation in scene.partition.allocate("n", "app", licences(1)).violations] == [SUSPENDED]
    scene.partition.replace_model(scene.failing, scene.failing)
    scene.verify(failing=True)
    assert scene.partition.allocate("n", "app", licences(1))


def test_a_query_that_fails_suspends_nothing() -> None:
    """A model without a reset stays in use if it raises in a query, which does not change it."""
    partition = partition_of(models=[model := Failing(1)])
    partition.submit("app", SUE, "root.a")
    model.arm(Fuse("evictions", 1, is_after=False))
    with pytest.raises(BrokenError):
        partition.allocate_evicting("1", "app", licences(2))

    assert partition.allocate("1", "app", licences(1))


@pytest.mark.parametrize("again", [False, True])
def test_a_replacement_that_fails_halfway(*, again: bool) -> None:
    """A model, new or the same, that has failed while it was charged is charged once by the next attempt."""
    new = ResettableFailing()
    old = new if again else ResettableFailing()
    partition = partition_of(models=[old])
    partition.submit("app", SUE, "root.a")
    for name in "123":
        assert partition.allocate(name, "app", licences(1))
    new.arm(Fuse("charge", 3, is_after=False))
    with pytest.raises(BrokenError, match="charge"):
        partition.replace_model(old, new)
    new.arm(None)
    assert old.used == 3
    partition.replace_model(old, new)
    partition.verify()
    assert new.used == 3


# Models that call the partition


@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize(
    ("call", "back"),
    pairs(
        [*CHANGES, "check", "evictions"],
        [
            lambda p: p.allocate("b", "app", licences(1)),
            lambda p: p.check("app", licences(1)),
            lambda p: p.release("1"),
            lambda p: p.queue(),
            lambda p: p.terminate(confirm=True),
        ],
    ),
)
def test_model_that_calls_back(call: str, back: Callable[[Partition], object], *, caught: bool) -> None:
    """A model that calls the partition gets an error; if it catches that, nothing has happened."""
    raised = 0
    for name in ("allocate with evictions", "gang", "request", "remove", "replace by too much for a model"):
        scene = Scene(1, resettable=False)
        before, found = shown(scene.partition)[:-1], list[str]()

        def trap(here: str, _: bool, scene: Scene = scene, found: list[str] = found) -> None:  # noqa: FBT001
            if here == call and not found:
                found.append(here)
                with pytest.raises(ReentrantCallError):
                    back(scene.partition)
                if not caught:
                    back(scene.partition)

        scene.failing.trap = trap
        try:
            OPERATIONS[name](scene.partition)
        except ReentrantCallError:
            raised += 1
            assert not caught
            assert shown(scene.partition)[:-1] == before
            if call in CHANGES:
                is_suspended(scene)
        assert not is_locked(scene.partition._lock)
        scene.verify(failing=True)
    assert caught or raised

"""Exceptions from outside at every point of every operation of a `ugm.Manager`.

After each of them no lock is held, everything that can be seen is as before or after the operation, all counters follow
from what the applications hold, and the operations that come next give the same answers as without the interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from support.interruption_points import Interruption, Point, points_in
from support.locks import is_locked
from support.partition_fixtures import config
from ugm import Manager, Request, Resource, UgmError, UserGroup
from ugm.engine_lock import EngineLock
from ugm.tracking.trackers import GroupTracker, UserTracker

SUE: Final = UserGroup("sue", ("dev", "ops"))
BOB: Final = UserGroup("bob", ("guests",))
NEW: Final = UserGroup("new", ("dev",))

#: More than a signed 64-bit integer holds, and more than the number that stands for unlimited.
HUGE: Final = 2**70

CONFIG: Final = config(
    "{name: a, limits: [{users: [sue], maxresources: {memory: 50, gpu: 9}, maxapplications: 6}, "
    "{users: ['*'], maxresources: {memory: 40}, maxapplications: 5}], queues: [{name: b}, {name: c}]}, {name: d}",
    limits="{groups: [dev], maxresources: {memory: 60, licence: 30}, maxapplications: 9}, "
    "{groups: ['*'], maxresources: {memory: 45}}",
)
OTHER: Final = config(
    "{name: a, limits: [{users: [sue], maxresources: {memory: 3, fpga: 7}}]}",
    limits="{groups: [ops], maxresources: {memory: 60}}, {groups: ['*'], maxresources: {vcore: 30}}",
)

B: Final = "root.a.b"
C: Final = "root.a.c"
ALIKE: Final = Resource(memory=1)
GPU: Final = Resource(memory=1, gpu=2)


class Scene:
    """A manager with usage of every kind, and trackers that a program has fetched from it."""

    def __init__(self, *, user_limits_win: bool) -> None:
        self.user_limits_win = user_limits_win

    @property
    def lock(self) -> EngineLock:
        """The lock of the manager."""
        return self.manager._lock

    def build(self) -> None:
        """Start applications of every kind: in one queue, in several, with other resources, with huge amounts."""
        mode = "unless-user-limited" if self.user_limits_win else "always"
        self.manager = manager = Manager(CONFIG, group_limits=mode)  # type: ignore[arg-type] # one of the two
        for path, application_id, usage, user in [
            (B, "one", Resource(memory=4), SUE),
            (B, "many", Resource(memory=2), SUE),
            (C, "many", Resource(memory=3, gpu=1), SUE),
            ("root.d", "many", Resource(vcore=1), SUE),
            (B, "bob", Resource(memory=5), BOB),
            ("root.d", "huge", Resource(storage=HUGE), BOB),
            (B, "idle", Resource(), SUE),
            (B, "warm", ALIKE, SUE),
        ]:
            assert manager.increase(path, application_id, usage, user)
        sue, bob = manager.get_user_tracker("sue"), manager.get_user_tracker("bob")
        dev, guests = manager.get_group_tracker("dev"), manager.get_group_tracker("*")
        assert sue
        assert bob
        assert dev
        assert guests
        self.sue, self.bob, self.dev, self.guests = sue, bob, dev, guests
        self.sue.set_group_for_app("chosen", self.guests)
        self.bob.set_max_resources(Resource(memory=30, licence=4), B)

    def state(self) -> object:
        """Return the state of the manager and the trackers."""
        manager = self.manager
        manager.verify()
        trackers: list[UserTracker | GroupTracker] = [self.sue, self.bob, self.dev, self.guests]
        names = ("one", "many", "bob", "huge", "idle", "chosen", "new")
        requested = [(B, name, {"bob": BOB, "huge": BOB, "new": NEW}.get(name, SUE)) for name in names]
        return (
            manager.get_users_resources(),
            manager.get_groups_resources(),
            manager.exceeded_limits(),
            [(manager.headroom(*each), manager.can_run_app(*each), manager.group_for(*each)) for each in requested],
            [manager.effective_limits(user, path, name) for path, name, user in requested],
            [(tracker.usage, tracker.applications) for tracker in trackers],
            [
                (tracker.has_group_for_app(name), tracker.group_name_for_app(name))
                for tracker in (self.sue, self.bob)
                for name in names
            ],
            [manager.get_user_tracker(user.name) in (None, self.sue, self.bob) for user in (SUE, BOB)],
        )

    def go_on(self) -> object:
        """Grant, deny, release and set limits by hand."""
        manager, sue = self.manager, self.sue
        return [
            _answer(call)
            for call in (
                lambda: manager.increase(B, "warm", ALIKE, SUE),
                lambda: manager.decrease_tracked_resource(B, "warm", ALIKE, remove_app=False, user=SUE),
                lambda: manager.increase(C, "chosen", Resource(memory=2), SUE),
                lambda: manager.increase(B, "warm", Resource(memory=1000, gpu=1), SUE),
                lambda: manager.decrease_tracked_resource(C, "chosen", Resource(memory=2), remove_app=True, user=SUE),
                lambda: sue.set_max_applications(1, "root.a"),
                lambda: manager.increase(B, "another", ALIKE, SUE),
                lambda: manager.update_config(CONFIG),
                lambda: manager.increase(B, "another", ALIKE, SUE),
            )
        ]


def _answer(call: Callable[[], object]) -> object:
    """Return the result or the error of a call."""
    try:
        return call()
    except UgmError as error:
        return repr(error)


GANG: Final = [
    Request(B, "one", ALIKE, SUE),
    Request(C, "one", GPU, SUE),
    Request(B, "new", ALIKE, NEW),
    Request(B, "chosen", Resource(memory=1, fpga=2), SUE),
]

MANAGER: Final[dict[str, Callable[[Scene], object]]] = {
    "increase": lambda s: s.manager.increase(B, "warm", ALIKE, SUE),
    "increase in another queue": lambda s: s.manager.increase(C, "one", GPU, SUE),
    "increase the first": lambda s: s.manager.increase(B, "new", GPU, NEW),
    "increase the chosen": lambda s: s.manager.increase(B, "chosen", GPU, SUE),
    "increase too much": lambda s: s.manager.increase(B, "one", Resource(memory=1000), SUE),
    "increase_all": lambda s: s.manager.increase_all(GANG),
    "increase_all too much": lambda s: s.manager.increase_all([*GANG, Request(B, "x", Resource(memory=99), NEW)]),
    "increase_all misused": lambda s: _answer(lambda: s.manager.increase_all([*GANG, Request(B, "one", ALIKE, BOB)])),
    "adopt the first": lambda s: s.manager.adopt(B, "new", Resource(memory=1000, fpga=HUGE), NEW),
    "replace": lambda s: s.manager.replace(C, "many", Resource(memory=3), Resource(memory=1, gpu=2), SUE),
    "decrease": lambda s: s.manager.decrease_tracked_resource(B, "warm", ALIKE, remove_app=False, user=SUE),
    "end": lambda s: s.manager.decrease_tracked_resource(B, "one", Resource(memory=4), remove_app=True, user=SUE),
    "end in the second queue": lambda s: s.manager.decrease_tracked_resource(
        C, "many", Resource(memory=3, gpu=1), remove_app=True, user=SUE
    ),
    "update_config": lambda s: s.manager.update_config(OTHER),
    "check": lambda s: s.manager.check(B, "new", GPU, NEW),
    "get_users_resources": lambda s: s.manager.get_users_resources(),
    "set_max_resources": lambda s: s.sue.set_max_resources(Resource(memory=20, fpga=1), B),
    "set_group_for_app": lambda s: s.sue.set_group_for_app("new", s.guests),
}

SCENES: Final[dict[str, Callable[[], Scene]]] = {
    "always": lambda: Scene(user_limits_win=False),
    "unless-user-limited": lambda: Scene(user_limits_win=True),
}

#: The distance of the points of an operation that are interrupted; the deep run interrupts all.
DISTANCE: Final = 509


Operation = Callable[[Scene], object]


@contextmanager
def prepared(scene: Scene, operation: Operation) -> Iterator[Callable[[], object]]:
    """Yield an operation on a scene that has just been made."""
    scene.build()
    yield lambda: operation(scene)


def witness(scene: Scene, *, looks_first: bool) -> object:
    """Return everything observable of a scene: its state, if it is looked at first, and its further answers."""
    seen = scene.state() if looks_first else None
    return seen, scene.go_on(), scene.state()


def witness_after(scene: Scene, operation: Operation, *, looks_first: bool) -> object:
    """Return everything observable of a scene after an operation."""
    with prepared(scene, operation) as call:
        call()
    return witness(scene, looks_first=looks_first)


def interrupt_at(scene: Scene, operation: Operation, points: Iterable[Point]) -> int:
    """Interrupt an operation at some of its points, one at a time, and return how many interruptions there were."""
    expected = [
        [witness_after(scene, each, looks_first=looks_first) for each in (bool, operation)]
        for looks_first in (False, True)
    ]
    done = 0
    for point in points:
        interruption = Interruption(point)
        with prepared(scene, operation) as call:
            interruption.run(call)
        assert interruption.has_raised, point
        # What is raised while a generator is closed, CPython reports, and goes on.
        assert interruption.has_arrived != interruption.was_swallowed, point
        assert not is_locked(scene.lock), point
        assert witness(scene, looks_first=bool(done % 2)) in expected[done % 2], point
        assert not is_locked(scene.lock), point
        done += 1
    return done


@pytest.mark.parametrize("is_complete", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["some", "every"])
@pytest.mark.parametrize("kind", ["always", pytest.param("unless-user-limited", marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", MANAGER)
def test_interrupted(kind: str, name: str, *, is_complete: bool) -> None:
    """Whatever the line or the instruction, the operation has happened or it has not, and the scene still works."""
    scene, operation = SCENES[kind](), MANAGER[name]
    points = points_in(lambda: prepared(scene, operation))
    # A tracer that sees nothing would interrupt nothing.
    assert len(points) > 30
    first, step = sum(map(ord, name + kind)) % DISTANCE % len(points), DISTANCE * max(1, len(points) // 1000)
    chosen = points if is_complete else points[first::step]
    assert interrupt_at(scene, operation, chosen) == len(chosen) > 0

"""Exceptions from outside at every point of every operation of a partition: in memory, with models, with a journal.

After each of them no lock is held, the partition is as before or after the operation, all counters and all quota models
follow from the ledger, subscribers learn of every change, and a journal says the same when it is opened again.

To build a scene of some kinds takes longer than all the rest. Such a scene is used again as long as interruptions leave
it as it was before; so it survives many of them in a row.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from support.examples import graded
from support.interruption_points import Interruption, Point, points_in
from support.locks import is_locked
from support.partition_fixtures import BOB, SUE, Waiting, config, memory, shown
from support.quotatree_fixtures import document
from ugm import AllocationRequest, Partition, Resource, UserGroup
from ugm.budgets import BudgetChange
from ugm.configuration import BudgetConfig, Extensions, PartitionConfig
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic import verify as verify_elastic
from ugm.elastic.model import GROUP_TAG
from ugm.journal import open_partition
from ugm.partition import RunningAllocation
from ugm.partition.events import AllocationRequested, ConfigurationChanged, Denied, Event, RequestWithdrawn
from ugm.quotatree import Mode, QuotaManager, TreeModel

Operation = Callable[[Partition], object]

_LIMIT: Final = "{users: ['*'], maxresources: {memory: 50, licence: 20}, maxapplications: 9}"
CONFIG: Final = config(
    f"{{name: a, limits: [{_LIMIT}], resources: {{max: {{memory: 55}}}}}}, "
    "{name: p, parent: true, childtemplate: {resources: {max: {memory: 30}}}}",
    rules="{name: provided, create: true}",
    limits="{groups: [dev], maxresources: {memory: 60, licence: 30}}",
)
OTHER: Final = config(
    "{name: a, resources: {max: {memory: 10, gpu: 3}}}, {name: q}", limits="{users: [sue], maxresources: {memory: 6}}"
)

OPERATIONS: Final[dict[str, Operation]] = {
    "allocate": lambda p: p.allocate("n", "one", memory(1)),
    "allocate the first": lambda p: p.allocate("n", "new", memory(1)),
    "allocate another size": lambda p: p.allocate("n", "one", Resource(memory=1, vcore=3)),
    "allocate another resource": lambda p: p.allocate("n", "one", Resource(memory=1, licence=3)),
    "allocate too much": lambda p: p.allocate("n", "one", memory(100)),
    "allocate what is pending": lambda p: p.allocate("waits", "one", memory(2)),
    "allocate with priority": lambda p: p.allocate("n", "one", memory(1), priority=5),
    "allocate_all": lambda p: p.allocate_all(
        [
            AllocationRequest("g1", "one", memory(1)),
            AllocationRequest("g2", "new", memory(2)),
            AllocationRequest("waits", "one", memory(2)),
        ]
    ),
    "allocate_all too much": lambda p: p.allocate_all(
        [AllocationRequest("g1", "one", memory(1)), AllocationRequest("g2", "new", memory(200))]
    ),
    "replace": lambda p: p.replace("room", "real", memory(2)),
    "resize": lambda p: p.resize("two", memory(6)),
    "resize to less": lambda p: p.resize("two", memory(1)),
    "resize to too much": lambda p: p.resize("two", memory(100)),
    "preempt": lambda p: p.preempt("one"),
    "renew": lambda p: p.renew("one", 60),
    "expire": lambda p: p.expire(now=2**40),
    "release_overdue": lambda p: p.release_overdue(now=2**40),
    "overdue": lambda p: p.overdue(now=2**40),
    "release": lambda p: p.release("one"),
    "release the last": lambda p: p.release("dynamic"),
    "release what is pending": lambda p: p.release("waits"),
    "release of a failing application": lambda p: p.release("failing"),
    "adopt": lambda p: p.adopt("n", "new", Resource(memory=100, fpga=1)),
    "request": lambda p: p.request("n", "two", memory(1)),
    "submit": lambda p: p.submit("n", BOB, "root.a"),
    "submit to a new queue": lambda p: p.submit("n", BOB, "root.p.y", quota=memory(5)),
    "adopt_application": lambda p: p.adopt_application("n", BOB, "root.p.k.l", quota=Resource(memory=5, gpu=1)),
    "complete": lambda p: p.complete("idle"),
    "fail": lambda p: p.fail("one"),
    "remove": lambda p: p.remove("one"),
    "remove with its queue": lambda p: p.remove("dynamic"),
    "time_out_gang": lambda p: p.time_out_gang("one"),
    "close": lambda p: p.close(),
    "set_queue_quota": lambda p: p.set_queue_quota("root.p.x", Resource(memory=9, gpu=1)),
    "add_node": lambda p: p.add_node("n", Resource(memory=100, fpga=1)),
    "configure": lambda p: p.configure(OTHER),
    "apply": lambda p: p.apply(p.plan(OTHER), confirm=True),
    "reconcile": lambda p: p.reconcile(
        p.audit([RunningAllocation("one", "one", memory(5)), RunningAllocation("n", "two", memory(1))])
    ),
    "check": lambda p: p.check("one", memory(1)),
    "explain": lambda p: p.explain("one", memory(100)),
    "queue": lambda p: p.queue(),
    "users": lambda p: p.users(),
    "exceeded_limits": lambda p: p.exceeded_limits(),
    "order": lambda p: p.order(),
    "wake": lambda p: p.wake(),
}

#: The distance of the points of an operation that are interrupted by default, and with the marker ``ci``; the deep run
#: interrupts all.
DISTANCE: Final = 797
CI_DISTANCE: Final = 199

#: The number of interruptions after which a scene that is used again is rebuilt.
_USES: Final = 50


def fill(partition: Partition) -> None:
    """Let something of every kind go on."""

    def submit(name: str, queue: str = "root.a", user: UserGroup = BOB, gang_style: str = "soft") -> None:
        assert partition.submit(name, user, queue, tags={GROUP_TAG: "ml"}, gang_style=gang_style)

    def start(name: str, amount: int, queue: str = "root.a", user: UserGroup = BOB) -> None:
        submit(name, queue, user)
        assert partition.allocate(name, name, memory(amount))

    start("one", 3, user=SUE)
    start("two", 4, user=SUE)
    assert partition.allocate("room", "one", memory(1), placeholder=True)
    assert partition.allocate("first", "one", memory(2), priority=3)
    partition.request("waits", "one", memory(2))
    partition.request("room for two", "two", memory(2), placeholder=True)
    submit("new", user=SUE, gang_style="hard")
    start("dynamic", 1, "root.p.x")
    assert partition.allocate("late", "dynamic", Resource(), duration=60)
    submit("asking")
    partition.request("asked", "asking", memory(1))
    # Runs on with nothing, because something is pending.
    start("resting", 1)
    partition.request("next", "resting", memory(1))
    partition.release("resting")
    submit("idle", "root.p.z")
    start("failing", 1)
    partition.fail("failing")


def fill_waiting(partition: Partition) -> None:
    """Let one application run, one request wait that fits, and two that do not."""
    for name, user in (("one", SUE), ("asking", BOB)):
        assert partition.submit(name, user, "root.a", tags={GROUP_TAG: "ml"})
    assert partition.allocate("one", "one", memory(3))
    for name, owner, amount in (("waits", "one", 2), ("large", "one", 48), ("asked", "asking", 54)):
        partition.request(name, owner, memory(amount))


#: The operations that have a scene of their own, because their instructions grow with the scene.
SMALL_SCENES: Final = {"wake": fill_waiting}


class Scene:
    """A partition of one kind, which can be made repeatedly.

    Attributes:
        uses: how many interruptions it may live through.
        fill: fills the partition.
    """

    partition: Partition
    uses: int = 1
    fill: Callable[[Partition], None] = staticmethod(fill)

    @classmethod
    def of(cls, kind: str, folder: Path, operation: str) -> Scene:
        """Return a scene of a kind for an operation."""
        scene = SCENES[kind](folder)
        scene.fill = SMALL_SCENES.get(operation, fill)
        return scene

    def build(self) -> None:
        """Make the partition."""
        self.partition = Partition(CONFIG, clock=lambda: 1000)
        self.fill(self.partition)

    def state(self) -> object:
        """Return everything that can be seen, after everything has been verified."""
        self.partition.verify()
        return shown(self.partition)

    def require_sound(self) -> None:
        """Verify the state outside the partition, after `state`."""

    def require_unchanged(self) -> None:
        """Verify the same where nothing has changed, and leave the scene as it was."""
        self.require_sound()

    def close(self) -> None:
        """Let go of the partition."""


class Followed(Scene):
    """A partition with two subscribers."""

    uses = _USES

    def __init__(self) -> None:
        #: Lists of events, and what a partition shows that has repeated them.
        self._replayed: list[tuple[list[object], object]] = []

    def build(self) -> None:
        """Make the partition."""
        self.batches: list[list[tuple[int, Event]]] = [[], []]
        self.partition = Partition(
            CONFIG, subscribers=[self._follow(batch) for batch in self.batches], clock=lambda: 1000
        )
        self.fill(self.partition)
        self._seen = len(self.batches[0])

    def _follow(self, result: list[tuple[int, Event]]) -> Callable[[int, tuple[Event, ...]], None]:
        return lambda first, events: result.extend(enumerate(events, first))

    def require_sound(self) -> None:
        """Verify that each subscriber knows all events, in order, and none that did not happen."""
        self.partition.configure(None)
        for batch in self.batches:
            known = dict(batch)
            assert list(known) == list(range(1, len(known) + 1))
            assert all(event == known[number] for number, event in batch)
            assert self._after(list(known.values())) == shown(self.partition)

    def require_unchanged(self) -> None:
        """Make sure that subscribers learn of the next changes, and of nothing that did not happen."""
        self.partition.request("probe", "one", memory(1))
        self.partition.release("probe")
        for batch in self.batches:
            known = dict(batch)
            assert list(known) == list(range(1, len(known) + 1))
            assert all(event == known[number] for number, event in batch)
            *models, requested, withdrawn = list(known.values())[self._seen :]
            assert all(isinstance(event, Denied) for event in models)
            assert (type(requested), type(withdrawn)) == (AllocationRequested, RequestWithdrawn)
        self._seen = len(known)

    def _after(self, events: list[Event]) -> object:
        events_found = [_comparable(event) for event in events]
        for replayed, state in self._replayed:
            if replayed == events_found:
                return state
        twin = Partition(CONFIG, clock=lambda: 1000)
        _replay(twin, events)
        self._replayed.append((events_found, shown(twin)))
        # The operation has happened or has not, after some uses of the scene.
        assert len(self._replayed) < 3 * _USES
        return self._replayed[-1][1]


def _comparable(event: Event) -> object:
    """Return an event, with configurations as values."""
    return (event.before.config, event.after.config) if isinstance(event, ConfigurationChanged) else event


def _replay(partition: Partition, events: list[Event]) -> None:
    from ugm.partition.replay import replay_events  # noqa: PLC0415 - a helper of this scene alone

    replay_events(partition._state, events)
    partition._lock.mark_consistent()


class Modelled(Scene):
    """A partition with three other quota models."""

    uses = _USES

    def build(self) -> None:
        """Make the partition."""
        groups = [ElasticGroup("ml", max=Resource(memory=500, licence=50))]
        self.elastic = ElasticQuota(ElasticTree(memory(1000), groups))
        manager = QuotaManager()
        manager.set_mode(Mode.NORMAL)
        manager.add_tree_from_struct(document({"R": ("nil", 900), "a": ("R", 900)}, "T"))
        self.waiting, self.tree = Waiting(1000), TreeModel(manager, "T", lambda _: "a")
        self.partition = Partition(
            CONFIG, models=[self.waiting, ElasticModel(self.elastic), self.tree], clock=lambda: 1000
        )
        self.fill(self.partition)

    def require_sound(self) -> None:
        """Compare what each model counts with the ledger."""
        allocations = {
            allocation.allocation_id: allocation.state.value == "pending" for allocation in self.partition.allocations()
        }
        held = {name for name, is_pending in allocations.items() if not is_pending}
        assert (set(self.waiting.charged), set(self.waiting.waiting)) == (held, allocations.keys() - held)
        pods = {pod.name: self.elastic.is_running(pod.name) for pod in self.elastic.pods_in("ml")}
        assert pods == {name: name in held for name in allocations}
        verify_elastic(self.elastic.tree)
        assert set(self.tree._charged) == held


class Journaled(Scene):
    """A partition with a journal, which is opened again after the interruption."""

    uses = _USES

    #: Opens a journal at the time of the other scenes: a promised end depends on the second of its change.
    open = staticmethod(partial(open_partition, clock=lambda: 1_000_000))

    def __init__(self, folder: Path) -> None:
        self._paths: Iterator[Path] = (folder / str(number) for number in itertools.count())
        self._start = b""
        self._probe: list[bytes] = []

    def build(self) -> None:
        """Make the partition from a file that is written once."""
        if not self._start:
            path = next(self._paths)
            with self.open(path, CONFIG) as partition:
                self.fill(partition)
            self._start = path.read_bytes()
        self.path = next(self._paths)
        self.path.write_bytes(self._start)
        self.partition = self.journaled = self.open(self.path)
        self._seen = self.journaled.journal.number

    def require_sound(self) -> None:
        """Compare the journal with the partition."""
        self.partition.configure(None)
        state = self.state()
        self.journaled.journal.close()
        with self.open(self.path) as again:
            again.verify()
            assert shown(again) == state

    def require_unchanged(self) -> None:
        """Make sure that the journal has nothing of the interrupted change once the next changes are acknowledged."""
        self.partition.request("probe", "one", memory(1))
        self.partition.release("probe")
        with closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute("SELECT data FROM changes WHERE number > ?", (self._seen,)).fetchall()
        self._seen += len(rows)
        changes = [data for (data,) in rows]
        self._probe = self._probe or changes
        assert changes == self._probe
        assert len(changes) == 2

    def close(self) -> None:
        """Close the journal, and remove its files."""
        self.journaled.journal.close()
        for path in self.path.parent.glob(f"{self.path.name}*"):
            path.unlink()


class Budgeted(Scene):
    """A partition with declared budgets, some time after its allocations began."""

    def build(self) -> None:
        """Make the partition."""
        self.now = 1000
        self.partition = Partition(BUDGETED, clock=lambda: self.now)
        self.fill(self.partition)
        self.now = 4600

    def state(self) -> object:
        """Return everything that can be seen, with the accounts now and later."""
        self.now = 4600
        shown_now = super().state(), self.partition.budget_accounts()
        self.now = 9000
        later = self.partition.budget_accounts()
        self.now = 4600
        return *shown_now, later


SCENES: Final[dict[str, Callable[[Path], Scene]]] = {
    "memory": lambda _: Scene(),
    "subscribers": lambda _: Followed(),
    "models": lambda _: Modelled(),
    "journal": Journaled,
}


def _budgets(*hours: int) -> PartitionConfig:
    each = BudgetConfig("each", user="*", amounts=memory(hours[0]), unit="hour", mode="admit", period="day")
    rest = [BudgetConfig(f"all {one}", amounts=memory(one), mode="admit", unit="hour") for one in hours[1:]]
    return replace(CONFIG, ugm=Extensions(budgets=(each, *rest)))


BUDGETED: Final = _budgets(100, 200)
#: Operations on a partition with budgets.
BUDGET_OPERATIONS: Final[dict[str, Operation]] = {
    "refill": lambda p: p.change_budget(BudgetChange.refill("each", memory(5), owner="eve", change_id="1")),
    "set": lambda p: p.change_budget(BudgetChange.set("all 200", memory(5))),
    "transfer": lambda p: p.change_budget(BudgetChange.transfer("all 200", "each", memory(5), recipient_owner="sue")),
    "configure": lambda p: p.configure(_budgets(50, 200, 70)),
    "allocate": lambda p: p.allocate("n", "one", memory(1)),
    "resize": lambda p: p.resize("two", memory(6)),
    "release": lambda p: p.release("one"),
    "accounts": lambda p: p.budget_accounts(),
}


@contextmanager
def prepared(scene: Scene, operation: Operation) -> Iterator[Callable[[], object]]:
    """Yield an operation on a scene that has just been made."""
    scene.build()
    yield lambda: operation(scene.partition)
    scene.close()


def states_of(scene: Scene, operation: Operation) -> tuple[object, object]:
    """Return what a scene shows before an operation, and after it."""
    with prepared(scene, operation) as call:
        before = scene.state()
        scene.close()
        scene.build()
        call()
        return before, scene.state()


def interrupt(scene: Scene, operation: Operation, points: Iterable[Point]) -> int:
    """Interrupt an operation at some of its points, one at a time, and return how many interruptions there were."""
    before, after = states_of(scene, operation)
    done = left = 0
    for point in points:
        if not left:
            scene.build()
        interruption = Interruption(point)
        interruption.run(lambda: operation(scene.partition))
        if left and not interruption.has_raised:
            # An operation that was interrupted before may take another way.
            scene.close()
            scene.build()
            left = 0
            interruption = Interruption(point)
            interruption.run(lambda: operation(scene.partition))
        assert interruption.has_raised, point
        # What is raised while a generator is closed, CPython reports, and goes on.
        assert interruption.has_arrived != interruption.was_swallowed, point
        assert not is_locked(scene.partition._lock), point
        state = scene.state()
        assert state in (before, after), point
        left = (left or scene.uses) - 1
        if state != before:
            left = 0
        if left:
            scene.require_unchanged()
        else:
            scene.require_sound()
        assert not is_locked(scene.partition._lock), point
        if not left:
            scene.close()
        done += 1
    if left:
        scene.close()
    return done


#: Every operation on every scene.
CASES: Final = list(itertools.product(OPERATIONS, SCENES))
#: Every operation on one scene, for the default run.
SOME_CASES: Final = [
    (name, kind)
    for number, name in enumerate(OPERATIONS)
    for other, kind in enumerate(SCENES)
    if (number + other) % len(SCENES) == 0
]


@pytest.mark.parametrize(("name", "kind", "distance"), graded(SOME_CASES, DISTANCE, CASES, CI_DISTANCE))
def test_interrupted_at_some_points(name: str, kind: str, distance: int, quick_folder: Path) -> None:
    """Whatever the instruction, the operation has happened or it has not, and everything goes on."""
    scene, operation = Scene.of(kind, quick_folder, name), OPERATIONS[name]
    points = points_in(lambda: prepared(scene, operation))
    # A tracer that sees nothing would interrupt nothing.
    assert len(points) > 100
    chosen = points[sum(map(ord, name + kind)) % distance % len(points) :: distance * max(1, len(points) // 4000)]
    assert interrupt(scene, operation, chosen) == len(chosen) > 0


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "refill" else pytest.mark.ci) for name in BUDGET_OPERATIONS]
)
def test_interrupted_budgets(name: str) -> None:
    """Whatever the instruction, all accounts are as before or after the operation, now and later."""
    scene, operation = Budgeted(), BUDGET_OPERATIONS[name]
    points = points_in(lambda: prepared(scene, operation))
    chosen = points[sum(map(ord, name)) % CI_DISTANCE % len(points) :: CI_DISTANCE]
    assert interrupt(scene, operation, chosen) == len(chosen) > 0


@pytest.mark.deep
@pytest.mark.parametrize("name", BUDGET_OPERATIONS)
def test_budgets_interrupted_at_every_point(name: str) -> None:
    """The same at every point."""
    scene, operation = Budgeted(), BUDGET_OPERATIONS[name]
    points = points_in(lambda: prepared(scene, operation))
    assert interrupt(scene, operation, points) == len(points) > 100


@pytest.mark.deep
@pytest.mark.parametrize("kind", SCENES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_interrupted_at_every_point(name: str, kind: str, quick_folder: Path) -> None:
    """Whatever the line or the instruction, the operation has happened or it has not, and everything goes on."""
    scene, operation = Scene.of(kind, quick_folder, name), OPERATIONS[name]
    points = points_in(lambda: prepared(scene, operation))
    assert interrupt(scene, operation, points) == len(points) > 100

"""Partitions whose operations are interrupted at some point: in memory, with subscribers, with models, with a store.

After each interruption no lock is held, the partition is as before or after the operation, all counters and all quota
models follow from the ledger, subscribers learn of every change, and a store says the same when it is opened again.

To build a scene may take longer than all the rest. So a scene is used again as long as interruptions leave it as it was
before, and survives many of them in a row.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from support.event_follower import EventFollower
from support.failing_models import ResettableFailing
from support.interruption_points import Interruption, Point
from support.locks import is_locked
from support.partition_fixtures import BOB, SUE, config, memory, shown
from support.quotatree_fixtures import document, tree_model
from ugm import Partition, Resource, UserGroup
from ugm.configuration import PartitionConfig
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic import verify as verify_elastic
from ugm.elastic.model import GROUP_TAG
from ugm.engine_lock import OwnedLock
from ugm.partition.events import AllocationRequested, Denied, Event, RequestWithdrawn
from ugm.store import StoreReader, open_partition
from ugm.store.store import Appended

Operation = Callable[[Partition], object]

_LIMIT: Final = "{users: ['*'], maxresources: {memory: 50, licence: 20}, maxapplications: 9}"
CONFIG: Final = config(
    f"{{name: a, limits: [{_LIMIT}], resources: {{max: {{memory: 55}}}}}}, "
    "{name: p, parent: true, childtemplate: {resources: {max: {memory: 30}}}}",
    rules="{name: provided, create: true}",
    limits="{groups: [dev], maxresources: {memory: 60, licence: 30}}",
)


@dataclass(frozen=True)
class Setup:
    """What a partition begins with."""

    config: PartitionConfig
    fill: Callable[[Partition], None]
    #: Returns everything that can be seen.
    shown: Callable[[Partition], object] = shown


#: The number of interruptions after which a scene is rebuilt.
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
    partition.request("waits longer", "one", memory(1))
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


BUSY: Final = Setup(CONFIG, fill)


class Scene:
    """A partition of one kind, which can be made repeatedly.

    Attributes:
        uses: how many interruptions it may live through.
    """

    partition: Partition
    uses: int = _USES

    def __init__(self, setup: Setup = BUSY) -> None:
        self._setup: Final = setup

    def build(self) -> None:
        """Make the partition."""
        self.partition = Partition(self._setup.config, clock=lambda: 1000)
        self._setup.fill(self.partition)

    def state(self) -> object:
        """Return everything that can be seen, after everything has been verified."""
        self.partition.verify()
        return self._setup.shown(self.partition)

    def require_sound(self) -> None:
        """Verify the state outside the partition, after `state`."""

    def require_unchanged(self) -> None:
        """Verify the same where nothing has changed, and leave the scene as it was."""
        self.require_sound()

    def locks(self) -> tuple[OwnedLock, ...]:
        """Return the locks that no thread may hold after an operation."""
        return (self.partition._lock,)

    def close(self) -> None:
        """Let go of the partition."""


class Followed(Scene):
    """A partition with two subscribers."""

    def build(self) -> None:
        """Make the partition."""
        self.batches: list[list[tuple[int, Event]]] = [[], []]
        self.partition = Partition(
            self._setup.config, subscribers=[self._follow(batch) for batch in self.batches], clock=lambda: 1000
        )
        self._setup.fill(self.partition)
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
            follower = EventFollower()
            follower.follow(known.values())
            follower.require_same(self.partition)

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


class Modelled(Scene):
    """A partition with three other quota models."""

    def build(self) -> None:
        """Make the partition."""
        groups = [ElasticGroup("ml", max=Resource(memory=500, licence=50))]
        self.elastic = ElasticQuota(ElasticTree(memory(1000), groups))
        nodes = {"R": ("nil", 900), "a": ("R", 900)}
        self.waiting, self.tree = ResettableFailing(1000), tree_model(document(nodes), lambda _: "a")
        self.partition = Partition(
            self._setup.config, models=[self.waiting, ElasticModel(self.elastic), self.tree], clock=lambda: 1000
        )
        self._setup.fill(self.partition)

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


class Stored(Scene):
    """A partition with a store, which is opened again after the interruption."""

    #: Opens a store at the time of the other scenes: a promised end depends on the second of its change.
    open = staticmethod(partial(open_partition, clock=lambda: 1000))

    def __init__(self, folder: Path, setup: Setup = BUSY) -> None:
        super().__init__(setup)
        self._paths: Iterator[Path] = (folder / str(number) for number in itertools.count())
        self._start = b""

    def build(self) -> None:
        """Make the partition from a file that is written once."""
        if not self._start:
            path = next(self._paths)
            with self.open(path, self._setup.config) as partition:
                self._setup.fill(partition)
            self._start = path.read_bytes()
        self.path = next(self._paths)
        self.path.write_bytes(self._start)
        self.partition = self.stored = self.open(self.path)
        self._seen = self.stored.store.number
        store, commit = self.stored.store, self.stored.store._commit

        def commit_for_somebody(batch: Sequence[Appended]) -> None:
            """Commit when an operation waits for it, or was interrupted before; so the same call always waits."""
            end = time.monotonic() + 0.05
            while not store._callbacks and time.monotonic() < end:
                time.sleep(0.0002)
            commit(batch)

        store._commit = commit_for_somebody  # type: ignore[method-assign]

    def require_sound(self) -> None:
        """Compare the store with the partition."""
        self.partition.configure(None)
        state = self.state()
        self.stored.close()
        with self.open(self.path) as again:
            again.verify()
            assert self._setup.shown(again) == state

    def require_unchanged(self) -> None:
        """Make sure that the store has nothing of the interrupted change once the next changes are acknowledged."""
        self.partition.request("probe", "one", memory(1))
        self.partition.release("probe")
        with StoreReader(self.path) as reader:
            found = reader.changes(self._seen)
        assert found is not None
        self._seen = found[-1].number
        assert [{change.key for change in one.changes} for one in found] == [{"probe"}, {"probe"}]

    def locks(self) -> tuple[OwnedLock, ...]:
        """Return the locks of the partition and of its store."""
        return (*super().locks(), self.stored.store._guard)

    def close(self) -> None:
        """Close the store, and remove its files."""
        self.stored.close()
        for path in self.path.parent.glob(f"{self.path.name}*"):
            path.unlink()


SCENES: Final[dict[str, Callable[[Path, Setup], Scene]]] = {
    "memory": lambda _, setup: Scene(setup),
    "subscribers": lambda _, setup: Followed(setup),
    "models": lambda _, setup: Modelled(setup),
    "store": Stored,
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


def _interrupted(scene: Scene, operation: Operation, point: Point) -> tuple[Interruption, object]:
    """Interrupt an operation at a point, and return what the scene shows then."""
    interruption = Interruption(point)
    interruption.run(lambda: operation(scene.partition))
    assert not any(map(is_locked, scene.locks())), point
    return interruption, scene.state()


def interrupt(scene: Scene, operation: Operation, points: Iterable[Point]) -> int:
    """Interrupt an operation at some of its points, one at a time, and return how many interruptions there were."""
    before, after = states_of(scene, operation)
    done = left = 0
    for point in points:
        if not left:
            scene.build()
        interruption, state = _interrupted(scene, operation, point)
        if left and not (interruption.has_raised and state in (before, after)):
            # After an interruption, the allocations that were put back are the youngest, so others may be evicted.
            scene.close()
            scene.build()
            left = 0
            interruption, state = _interrupted(scene, operation, point)
        assert interruption.has_raised, point
        # What is raised while a generator is closed, CPython reports, and goes on.
        assert interruption.has_arrived != interruption.was_swallowed, point
        assert state in (before, after), point
        left = (left or scene.uses) - 1
        if state != before:
            left = 0
        if left:
            scene.require_unchanged()
        else:
            scene.require_sound()
        assert not any(map(is_locked, scene.locks())), point
        if not left:
            scene.close()
        done += 1
    if left:
        scene.close()
    return done

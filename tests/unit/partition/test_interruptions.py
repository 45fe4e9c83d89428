"""Exceptions from outside at every point of the operations that change or show usage."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

import pytest

from support.examples import graded
from support.interrupted_partitions import BUSY, CONFIG, SCENES, Operation, Setup, interrupt, prepared
from support.interruption_points import points_in
from support.partition_fixtures import BOB, SUE, config, memory
from ugm import AllocationRequest, Partition, Resource
from ugm.elastic.model import GROUP_TAG
from ugm.partition import RunningAllocation

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
    "terminate": lambda p: p.terminate(confirm=True),
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


def fill_waiting(partition: Partition) -> None:
    """Let one application run, one request wait that fits, and two that do not."""
    for name, user in (("one", SUE), ("asking", BOB)):
        assert partition.submit(name, user, "root.a", tags={GROUP_TAG: "ml"})
    assert partition.allocate("one", "one", memory(3))
    for name, owner, amount in (("waits", "one", 2), ("large", "one", 48), ("asked", "asking", 54)):
        partition.request(name, owner, memory(amount))


#: The operations that have a small setup of their own, because their instructions grow with it.
SMALL: Final = {"wake": Setup(CONFIG, fill_waiting)}


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
    scene, operation = SCENES[kind](quick_folder, SMALL.get(name, BUSY)), OPERATIONS[name]
    points = points_in(lambda: prepared(scene, operation))
    # A tracer that sees nothing would interrupt nothing.
    assert len(points) > 100
    chosen = points[sum(map(ord, name + kind)) % distance % len(points) :: distance * max(1, len(points) // 4000)]
    assert interrupt(scene, operation, chosen) == len(chosen) > 0


@pytest.mark.deep
@pytest.mark.parametrize("kind", SCENES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_interrupted_at_every_point(name: str, kind: str, quick_folder: Path) -> None:
    """Whatever the line or the instruction, the operation has happened or it has not, and everything goes on."""
    scene, operation = SCENES[kind](quick_folder, SMALL.get(name, BUSY)), OPERATIONS[name]
    points = points_in(lambda: prepared(scene, operation))
    assert interrupt(scene, operation, points) == len(points) > 100

"""Exceptions from outside at every point of the operations that change a partition, and of a query of each kind.

The plain operations change or show usage. The others have a configuration that declares every kind of extension:
elastic groups, a quota tree, a budget, a limit that changes with the time, guarantees of queues, and a queue that is
reduced. Where models deny a request there are no reservations, so these have a configuration without models.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from support.interrupted_partitions import BUSY, CONFIG, SCENES, Operation, Setup, interrupt, prepared
from support.interruption_points import points_in
from support.partition_fixtures import BOB, SUE, config, memory, shown
from ugm import AllocationRequest, Partition, RequestError, Resource, parse_config
from ugm.budgets import BudgetChange
from ugm.configuration import Extensions, PartitionConfig
from ugm.elastic.model import GROUP_TAG
from ugm.partition import RunningAllocation

OTHER: Final = config(
    "{name: a, resources: {max: {memory: 10, gpu: 3}}}, {name: q}", limits="{users: [sue], maxresources: {memory: 6}}"
)

PLAIN: Final[dict[str, Operation]] = {
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
    "order": lambda p: p.order(),
    "wake": lambda p: p.wake(),
}


def fill_waiting(partition: Partition) -> None:
    """Let one application run, one request wait that fits, and two that do not."""
    for name, user in (("one", SUE), ("asking", BOB)):
        assert partition.submit(name, user, "root.a", tags={GROUP_TAG: "ml"})
    assert partition.allocate("one", "one", memory(3))
    for name, owner, amount in (("waits", "one", 2), ("large", "one", 48), ("asked", "asking", 54)):
        partition.request(name, owner, memory(amount))


#: The operations that have a small setup of their own, because their instructions grow with it.
SMALL: Final = {"wake": Setup(CONFIG, fill_waiting)}


_TEXT: Final = """
partitions:
- name: default
  preemption: {quotapreemptionenabled: true}
  queues:
  - name: root
    properties: {ugm.reservation: enabled}
    queues:
    - name: a
      resources: {guaranteed: {memory: 12}}
      limits:
      - users: ["*"]
        maxresources: {memory: 30}
        ugm: {schedule: [{hours: "00:00-01:00", maxapplications: 1}]}
    - name: b
      resources: {guaranteed: {memory: 4}}
    - name: c
      resources: {max: {memory: 6}}
      properties: {quota.preemption.delay: 60s}
  ugm:
    elastic:
      total: {memory: 28}
      groupby: [{source: queue}]
      groups:
      - {name: a, min: {memory: 12}, max: {memory: 28}}
      - {name: b, min: {memory: 4}, max: {memory: 28}}
      - {name: c, min: {memory: 4}, max: {memory: 28}}
    quotatrees:
    - groupby: [{source: queue}]
      tree:
        kind: QuotaTree
        metadata: {name: t}
        spec:
          resourceNames: [memory]
          nodes:
            all: {parent: nil, hard: "true", quota: {memory: "28"}}
            a: {parent: all, hard: "false", quota: {memory: "12"}}
            b: {parent: all, hard: "false", quota: {memory: "4"}}
            c: {parent: all, hard: "false", quota: {memory: "12"}}
    budgets:
    - {name: each, user: "*", mode: admit, amounts: {memory: 1000}, unit: hour, period: day}
"""


def _config(text: str = _TEXT) -> PartitionConfig:
    return parse_config(text).partition()


def _fill(partition: Partition) -> None:
    """Let queue ``b`` borrow, and ``c`` be above its maximum, so that a request of ``a`` has to wait."""
    partition.add_node("n1", memory(20))
    partition.add_node("n2", memory(8))
    for name, user, queue in (("one", SUE, "root.a"), ("rich", BOB, "root.b"), ("over", BOB, "root.c")):
        assert partition.submit(name, user, queue, tags={GROUP_TAG: "ml"})
    for number, (priority, duration) in enumerate([(0, 600), (1, 600), (0, None), (1, None)]):
        assert partition.allocate(f"rich-{number}", "rich", memory(4), priority=priority, duration=duration)
    for number in range(2):
        partition.adopt(f"over-{number}", "over", memory(4))
    assert partition.allocate("one-0", "one", memory(1), placeholder=True, duration=600)
    partition.request(*_REQUEST[:3])
    partition.request("rich-4", "rich", memory(2), duration=100)
    partition.request("rich-5", "rich", memory(2), duration=1000)


def _shown(partition: Partition) -> object:
    """Return what a partition shows, also of its models.

    Which allocations of a quota tree are borrowed depends on the order in which they were charged. After an
    interruption that is their order in the ledger.
    """
    everything = shown(partition)
    reports = [report for report in partition.model_reports() if report.model != "TreeModel"]
    return *_without_models(partition, everything), *everything[7:], partition.budget_accounts(), reports


def _without_models(partition: Partition, everything: tuple[object, ...]) -> tuple[object, ...]:
    status = partition.preemption_status()
    return (*everything[:7], partition.reservations(), status.terminating, status.placed, status.timers)


_REQUEST: Final = AllocationRequest("one-1", "one", memory(6))
FULL: Final = Setup(_config(), _fill, _shown)
RESERVING: Final = Setup(replace(FULL.config, ugm=Extensions()), _fill, _shown)
LOWER: Final = _config(
    _TEXT.replace("max: {memory: 6}", "max: {memory: 2}")
    .replace("min: {memory: 4}, max: {memory: 28}}", "min: {memory: 4}, max: {memory: 9}}")
    .replace('c: {parent: all, hard: "false"', 'c: {parent: b, hard: "true"')
    .replace("name: each", "name: every")
)


def _preempt(partition: Partition) -> None:
    assert partition.carry_out(partition.plan_preemption(_REQUEST, since=0, now=10_000))


def _reduce(partition: Partition) -> None:
    assert partition.carry_out(partition.plan_reductions(now=10_000))


def _refused(call: Callable[[], object]) -> None:
    with suppress(RequestError):
        call()


def _reclaim(partition: Partition) -> None:
    assert partition.reclaim(partition.plan_reclaim("one", memory(6)))


#: Operations with the configuration that declares models.
EXTENDED: Final[dict[str, Operation]] = {
    "allocate": lambda p: p.allocate("n", "one", memory(1), duration=60),
    "allocate too much": lambda p: p.allocate("n", "rich", memory(9)),
    "allocate_all": lambda p: p.allocate_all(
        [AllocationRequest("n", "one", memory(1), duration=9), ("m", "one", memory(0))]
    ),
    "allocate_evicting": lambda p: p.allocate_evicting("n", "one", memory(7), priority=3),
    "adopt": lambda p: p.adopt("n", "over", memory(100)),
    "release": lambda p: p.release("rich-0"),
    "resize": lambda p: p.resize("over-0", memory(1)),
    "replace": lambda p: p.replace("one-0", "n", memory(1)),
    "preempt": lambda p: p.preempt("rich-0"),
    "request": lambda p: p.request("n", "one", memory(3), duration=60),
    "submit": lambda p: p.submit("n", SUE, "root.b"),
    "remove": lambda p: p.remove("rich"),
    "plan and reclaim": _reclaim,
    "plan and preempt": _preempt,
    "plan and reduce": _reduce,
    "configure": lambda p: p.configure(LOWER),
    "plan": lambda p: p.plan(LOWER),
    "update_node": lambda p: p.update_node("n2", memory(2)),
    "remove_node": lambda p: p.remove_node("n2"),
    "change_budget": lambda p: p.change_budget(BudgetChange.refill("each", memory(5), owner="bob", change_id="1")),
    "audit and reconcile": lambda p: p.reconcile(p.audit([RunningAllocation("rich-0", "rich", memory(5))])),
    "order": lambda p: p.order(tree="elastic groups"),
    "explain": lambda p: p.explain("one", memory(9)),
    "headroom": lambda p: p.headroom("one", duration=60),
    "snapshot": lambda p: p.snapshot(),
    "refused change": lambda p: _refused(lambda: p.release(7)),  # type: ignore[arg-type] # it is refused
}
#: Operations with the configuration without models.
RESERVATIONS: Final[dict[str, Operation]] = {
    "wake with reservations": lambda p: p.wake(),
    "schedule": lambda p: [head.allocate() for head in itertools.islice(p.scheduling_pass(), 1)],
    "allocate": lambda p: p.allocate(_REQUEST),
    "reservations": lambda p: (p.allocate(_REQUEST), p.reservations()),
}


class Table(NamedTuple):
    """Operations with one setup."""

    operations: dict[str, Operation]
    setup: Setup
    #: The distance of the points of an operation that are interrupted; the deep run interrupts all.
    distance: int

    def setup_of(self, name: str) -> Setup:
        """Return the setup of an operation."""
        return SMALL[name] if self.operations is PLAIN and name in SMALL else self.setup


TABLES: Final = {
    "plain": Table(PLAIN, BUSY, 797),
    "extended": Table(EXTENDED, FULL, 1597),
    "reserving": Table(RESERVATIONS, RESERVING, 1597),
}
#: The operations that change nothing.
QUERIES: Final = ("check", "explain", "order", "plan", "headroom", "snapshot")
#: Every change on every scene, and each query on one. By default, each operation is interrupted on one scene.
CASES: Final = [
    pytest.param(key, name, kind, marks=() if position == number % len(SCENES) else pytest.mark.ci)
    for key, table in TABLES.items()
    for number, name in enumerate(table.operations)
    for position, kind in enumerate(SCENES)
    if name not in QUERIES or position == number % len(SCENES)
]


@pytest.mark.parametrize("is_complete", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["some", "every"])
@pytest.mark.parametrize(("table", "name", "kind"), CASES)
def test_interrupted(table: str, name: str, kind: str, tmp_path: Path, *, is_complete: bool) -> None:
    """Whatever the line or the instruction, the operation has happened or it has not, and everything goes on."""
    operation, distance = TABLES[table].operations[name], TABLES[table].distance
    scene = SCENES[kind](tmp_path, TABLES[table].setup_of(name))
    points = points_in(lambda: prepared(scene, operation))
    # A tracer that sees nothing would interrupt nothing.
    assert len(points) > 40
    first, step = sum(map(ord, name + kind)) % distance % len(points), distance * max(1, len(points) // 4000)
    chosen = points if is_complete else points[first::step]
    assert interrupt(scene, operation, chosen) == len(chosen) > 0

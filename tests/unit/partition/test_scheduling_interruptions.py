"""Exceptions from outside at every point of preemption, reclaiming, reductions, reservations and queries.

The configuration declares every kind of extension: elastic groups, a quota tree, a budget, a limit that changes with
the time, guarantees of queues, and a queue that is reduced. Where models deny a request there are no reservations, so
these have a configuration without models.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from support.examples import graded
from support.interrupted_partitions import SCENES, Operation, Setup, interrupt, prepared
from support.interruption_points import points_in
from support.partition_fixtures import BOB, SUE, memory, shown
from ugm import AllocationRequest, Partition, RequestError, parse_config
from ugm.budgets import BudgetChange
from ugm.configuration import Extensions, PartitionConfig
from ugm.elastic.model import GROUP_TAG
from ugm.partition import RunningAllocation

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
OTHER: Final = _config(
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
OPERATIONS: Final[dict[str, Operation]] = {
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
    "configure": lambda p: p.configure(OTHER),
    "plan": lambda p: p.plan(OTHER),
    "update_node": lambda p: p.update_node("n2", memory(2)),
    "remove_node": lambda p: p.remove_node("n2"),
    "change_budget": lambda p: p.change_budget(BudgetChange.refill("each", memory(5), owner="bob", change_id="1")),
    "audit and reconcile": lambda p: p.reconcile(p.audit([RunningAllocation("rich-0", "rich", memory(5))])),
    "order": lambda p: p.order(tree="elastic groups"),
    "explain": lambda p: p.explain("one", memory(9)),
    "explain_submission": lambda p: p.explain_submission(SUE, "root.b", memory(9)),
    "place": lambda p: p.place(BOB, "root.c"),
    "headroom": lambda p: p.headroom("one", duration=60),
    "pending_headroom": lambda p: p.pending_headroom("one"),
    "queue_headroom": lambda p: p.queue_headroom("root.b"),
    "limits": lambda p: p.limits("one"),
    "user_utilization": lambda p: p.user_utilization("bob"),
    "model_utilization": lambda p: p.model_utilization(),
    "model_reports": lambda p: p.model_reports(),
    "application_report": lambda p: p.application_report("one"),
    "snapshot": lambda p: p.snapshot(),
    "scheduled_changes": lambda p: p.scheduled_changes(),
    "preemption_status": lambda p: p.preemption_status(),
    "verify": lambda p: p.verify(),
    "refused query": lambda p: _refused(lambda: p.check("nobody", memory(1))),
    "refused change": lambda p: _refused(lambda: p.release(7)),  # type: ignore[arg-type] # it is refused
}
#: Operations with the configuration without models.
RESERVATIONS: Final[dict[str, Operation]] = {
    "wake with reservations": lambda p: p.wake(),
    "schedule": lambda p: [head.allocate() for head in itertools.islice(p.scheduling_pass(), 1)],
    "allocate": lambda p: p.allocate(_REQUEST),
    "reservations": lambda p: (p.allocate(_REQUEST), p.reservations()),
}
SETUPS: Final = {**dict.fromkeys(OPERATIONS, FULL), **dict.fromkeys(RESERVATIONS, RESERVING)}
ALL: Final = OPERATIONS | RESERVATIONS

CASES: Final = list(itertools.product(ALL, SCENES))
#: Every operation on one scene, for the default run.
SOME_CASES: Final = [(name, list(SCENES)[number % len(SCENES)]) for number, name in enumerate(ALL)]


@pytest.mark.parametrize(("name", "kind", "distance"), graded(SOME_CASES, 1597, CASES, 397))
def test_interrupted_at_some_points(name: str, kind: str, distance: int, quick_folder: Path) -> None:
    """Whatever the instruction, the operation has happened or it has not, and everything goes on."""
    scene, operation = SCENES[kind](quick_folder, SETUPS[name]), ALL[name]
    points = points_in(lambda: prepared(scene, operation))
    chosen = points[sum(map(ord, name + kind)) % distance % len(points) :: distance * max(1, len(points) // 4000)]
    assert interrupt(scene, operation, chosen) == len(chosen) > 0


@pytest.mark.deep
@pytest.mark.parametrize("kind", SCENES)
@pytest.mark.parametrize("name", ALL)
def test_interrupted_at_every_point(name: str, kind: str, quick_folder: Path) -> None:
    """Whatever the line or the instruction, the operation has happened or it has not, and everything goes on."""
    scene, operation = SCENES[kind](quick_folder, SETUPS[name]), ALL[name]
    points = points_in(lambda: prepared(scene, operation))
    assert interrupt(scene, operation, points) == len(points) > 40

"""Thresholds: each crossing of a share of a limit is reported once, with hysteresis."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import pytest

from support.partition_fixtures import SUE, config, memory
from ugm import Partition, RequestError, Resource, parse_config
from ugm.configuration import Extensions, PartitionConfig, ThresholdConfig
from ugm.partition import ThresholdCrossed, ThresholdWatch

QUEUES = "{name: a, resources: {max: {memory: 100}}}, {name: b}"
LIMITS = "{users: [sue], maxresources: {memory: 200}, maxapplications: 2}, {groups: [dev], maxresources: {gpu: 4}}"
GROUPS = """
partitions:
- queues: [{name: a}]
  ugm:
    thresholds: {shares: [80]}
    elastic:
      total: {gpu: 10}
      groups: [{name: a, min: {gpu: 4}, max: {gpu: 9}}, {name: b, min: {gpu: 1}, max: {gpu: 9}}]
      groupby: [{source: queue}]
    quotatrees:
    - tree:
        kind: QuotaTree
        metadata: {name: t}
        spec:
          resourceNames: [gpu]
          nodes:
            top: {parent: nil, hard: "true", quota: {gpu: 10}}
            x: {parent: top, hard: "false", quota: {gpu: 5}}
      groupby: [{source: tag, tag: team}]
"""
SHARES = ThresholdConfig(shares=(95, 80))


def declared(thresholds: ThresholdConfig = SHARES, queues: str = QUEUES, limits: str = "") -> PartitionConfig:
    """Return a configuration with thresholds."""
    return replace(config(queues, limits=limits), ugm=Extensions(thresholds=thresholds))


def using(amount: int, settings: PartitionConfig) -> Partition:
    """Return a partition with one allocation of memory in a queue."""
    partition = Partition(settings)
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("x", "app", memory(amount))
    return partition


def crossings(events: Iterable[ThresholdCrossed]) -> list[tuple[str, str, str | None, int, bool]]:
    """Return the events without their amounts."""
    return [(one.kind, one.name, one.resource, one.threshold, one.rising) for one in events]


def steps(watch: ThresholdWatch, partition: Partition, amounts: Iterable[int]) -> list[list[int]]:
    """Return for each usage the thresholds that are crossed, those that are left as negative numbers."""
    found = []
    for amount in amounts:
        assert partition.resize("x", memory(amount))
        found.append([one.threshold if one.rising else -one.threshold for one in watch.update()])
    return found


def test_off_by_default() -> None:
    """Without declared thresholds nothing is reported, and no snapshot is taken."""

    class Unread(Partition):
        def snapshot(self, *_: object) -> object:  # type: ignore[override] # never returns
            raise AssertionError

    partition = Unread(config(QUEUES))
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("x", "app", memory(100))
    watch = ThresholdWatch(partition)

    assert (watch.update(), watch.crossed, watch.shares) == ((), (), ())


@pytest.mark.parametrize(
    ("shares", "hysteresis", "amounts", "expected"),
    [
        (
            (95, 80),
            5,
            [79, 80, 94, 95, 100, 90, 89, 75, 74, 75, 80],
            [[], [80], [], [95], [], [], [-95], [], [-80], [], [80]],
        ),
        ((95, 80), 5, [1, 100, 1], [[], [80, 95], [-95, -80]]),
        ((80,), 0, [80, 79, 80], [[80], [-80], [80]]),
    ],
)
def test_crossings(shares: tuple[int, ...], hysteresis: int, amounts: list[int], expected: list[list[int]]) -> None:
    """A threshold is reached at exactly its share, and left below its share minus the hysteresis."""
    partition = using(1, declared(ThresholdConfig(shares=shares, hysteresis=hysteresis)))
    watch = ThresholdWatch(partition)

    assert steps(watch, partition, amounts) == expected
    assert watch.shares == tuple(sorted(shares))


def test_limits_of_all_kinds() -> None:
    """Limits of users, groups and queues, on resources and on applications, have their own crossings."""
    partition = Partition(declared(ThresholdConfig(shares=(80,)), limits=LIMITS))
    watch = ThresholdWatch(partition)
    for name, amount in (("one", 90), ("two", 1)):
        assert partition.submit(name, SUE, "root.a")
        assert partition.allocate(name, name, Resource(memory=amount, gpu=2))

    assert crossings(watch.update()) == [
        ("group", "dev", "gpu", 80, True),
        ("queue", "root.a", "memory", 80, True),
        ("user", "sue", None, 80, True),
    ]
    assert crossings(watch.crossed) == [
        ("group", "dev", "gpu", 80, True),
        ("queue", "root.a", "memory", 80, True),
        ("user", "sue", None, 80, True),
    ]
    for name in ("one", "two"):
        partition.release(name)
        partition.complete(name)
    assert {one.rising for one in watch.update()} == {False}
    assert watch.crossed == ()


def test_elastic_groups_and_quota_nodes() -> None:
    """The maximum of an elastic group and the quota of a quota node are limits; a borrower counts in the node above."""
    partition = Partition(parse_config(GROUPS).partition())
    assert partition.submit("app", SUE, "root.a", tags={"team": "x"})
    for name in ("1", "2"):
        assert partition.allocate(name, "app", Resource(gpu=4))
    watch = ThresholdWatch(partition)

    assert list(map(str, watch.update())) == [
        "elastic group 'a': 8 of 9 gpu, at or above 80 %",
        "quota node 'top' in t: 8 of 10 gpu, at or above 80 %",
        "quota node 'x' in t: 4 of 5 gpu, at or above 80 %",
    ]
    for name in ("1", "2"):
        partition.release(name)
    assert {one.rising for one in watch.update()} == {False}


def test_values() -> None:
    """A crossing can be pickled, shown as JSON and printed."""
    (event,) = ThresholdWatch(using(80, declared())).update()
    budget = ThresholdCrossed("budget", "sue", "monthly", "memory", 95, rising=False, used=Fraction(7, 2), limit=10)

    assert pickle.loads(pickle.dumps(event)) == event  # noqa: S301 - of the test
    assert event.to_dict() == {
        "kind": "queue",
        "name": "root.a",
        "place": "root.a",
        "resource": "memory",
        "threshold": 80,
        "rising": True,
        "used": 80,
        "limit": 100,
        "share": 0.8,
    }
    assert budget.to_dict()["used"] == "7/2"
    assert budget._replace(used=Fraction(7)).to_dict()["used"] == 7
    assert str(budget) == "budget 'monthly' of 'sue': 3.5 of 10 memory-seconds, below 95 %"


@pytest.mark.parametrize(
    ("thresholds", "reason"),
    [
        (ThresholdConfig(shares=(0,)), "the threshold is 0 %"),
        (ThresholdConfig(shares=(80, 101)), "the threshold is 101 %"),
        (ThresholdConfig(shares=(80, 80)), "the threshold 80 % occurs twice"),
        (ThresholdConfig(shares=(95, 5)), "the hysteresis is 5 %"),
    ],
)
def test_invalid_thresholds_of_programs(thresholds: ThresholdConfig, reason: str) -> None:
    """A partition refuses invalid thresholds that no file has checked."""
    with pytest.raises(RequestError, match=reason):
        Partition(declared(thresholds))

"""Thresholds: each crossing of a share of a limit is reported once, with hysteresis."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import pytest

from support.interruption_points import Interruption, is_last, points_in
from support.partition_fixtures import SUE, config, memory
from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.budgets import Budget, BudgetMode, Budgets
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


def test_interrupted_updates() -> None:
    """The next update reports the crossings that an interrupted one has not returned."""
    settings = declared()
    watch = ThresholdWatch(using(90, settings))

    @contextmanager
    def updating() -> Iterator[Callable[[], object]]:
        nonlocal watch
        watch = ThresholdWatch(using(90, settings))
        yield watch.update

    expected = watch.update()
    assert expected
    points = [point for point in points_in(updating) if "thresholds.py" in point.code.co_filename]
    for point in points:
        with updating() as update:
            interruption = Interruption(point)
            interruption.run(update)
        if interruption.has_arrived and not is_last(point, ThresholdWatch.update):
            assert (watch.update(), watch.update()) == (expected, ()), point
    assert len(points) > 100


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


def test_crossings_up_and_down() -> None:
    """A threshold is reached at exactly its share, and left below its share minus the hysteresis."""
    partition = using(79, declared())
    watch = ThresholdWatch(partition)

    assert steps(watch, partition, [79, 80, 94, 95, 100]) == [[], [80], [], [95], []]
    assert steps(watch, partition, [90, 89, 75, 74, 75, 79, 80]) == [[], [-95], [], [-80], [], [], [80]]
    assert watch.shares == (80, 95)


def test_several_thresholds_at_once() -> None:
    """Usage that passes several thresholds reports each, in the order in which it meets them."""
    partition = using(1, declared())
    watch = ThresholdWatch(partition)

    assert steps(watch, partition, [1, 100, 1]) == [[], [80, 95], [-95, -80]]


def test_without_hysteresis() -> None:
    """With a hysteresis of 0, usage just below a threshold has left it."""
    partition = using(80, declared(ThresholdConfig(shares=(80,), hysteresis=0)))
    watch = ThresholdWatch(partition)

    assert steps(watch, partition, [80, 79, 80]) == [[80], [-80], [80]]


def test_between_updates() -> None:
    """A crossing that was reverted before the next update is not reported."""
    partition = using(1, declared())
    watch = ThresholdWatch(partition)
    assert watch.update() == ()

    assert partition.resize("x", memory(100))
    assert partition.resize("x", memory(1))

    assert watch.update() == ()


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


def test_each_user_of_a_wildcard() -> None:
    """The limit of a wildcard is that of each user, and each has crossings of its own."""
    limits = "{users: ['*'], maxresources: {memory: 10}}"
    partition = Partition(declared(ThresholdConfig(shares=(80,)), limits=limits))
    watch = ThresholdWatch(partition)
    for name, amount in (("ana", 8), ("ben", 7)):
        assert partition.submit(name, UserGroup(name), "root.b")
        assert partition.allocate(name, name, memory(amount))

    assert crossings(watch.update()) == [("user", "ana", "memory", 80, True)]


def test_cluster() -> None:
    """The sum of the nodes is the limit of the root queue."""
    partition = using(90, declared(ThresholdConfig(shares=(90,)), queues="{name: a}"))
    watch = ThresholdWatch(partition)
    assert watch.update() == ()

    partition.add_node("node", memory(100))

    assert crossings(watch.update()) == [("queue", "root", "memory", 90, True)]


def test_accounts_of_budgets() -> None:
    """The used part of an account is what is settled or promised."""
    model = Budgets([Budget("monthly", user="*", amounts=memory(100), mode=BudgetMode.SAFE)])
    partition = Partition(declared(queues="{name: a}"), models=[model])
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("x", "app", memory(8), duration=10)
    watch = ThresholdWatch(partition)

    (event,) = watch.update()

    assert (event.kind, event.name, event.place, event.resource) == ("budget", "sue", "monthly", "memory")
    assert (event.used, event.limit, event.share) == (80, 100, Fraction(4, 5))


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


def test_changed_limits() -> None:
    """A lowered limit can be crossed without a change of usage; a removed one is left."""
    partition = using(70, declared())
    watch = ThresholdWatch(partition)
    assert watch.update() == ()

    partition.configure(declared(queues=QUEUES.replace("100", "80")))
    assert crossings(watch.update()) == [("queue", "root.a", "memory", 80, True)]

    partition.configure(declared(queues="{name: a}, {name: b}"))
    (left,) = watch.update()
    assert (left.rising, left.used, left.limit) == (False, 0, 80)


def test_changed_thresholds() -> None:
    """A new threshold is crossed at once, and one that is removed is left, with the usage that there is."""
    partition = using(80, declared())
    watch = ThresholdWatch(partition)
    assert crossings(watch.update()) == [("queue", "root.a", "memory", 80, True)]

    partition.configure(declared(ThresholdConfig(shares=(50,))))
    assert [(one.threshold, one.rising, one.used) for one in watch.update()] == [(80, False, 80), (50, True, 80)]

    partition.configure(declared(ThresholdConfig()))
    assert [(one.threshold, one.rising, one.used) for one in watch.update()] == [(50, False, 80)]
    assert (watch.update(), watch.shares) == ((), ())


def test_limit_of_zero() -> None:
    """Any usage under a limit of 0 counts as all of it, and no usage as nothing."""
    partition = using(3, declared())
    watch = ThresholdWatch(partition)
    assert watch.update() == ()

    partition.configure(declared(queues="{name: a, resources: {max: {memory: 0, gpu: 0, vcore: 5}}}"))

    assert crossings(watch.update()) == [
        ("queue", "root.a", "memory", 80, True),
        ("queue", "root.a", "memory", 95, True),
    ]


def test_failed_update() -> None:
    """An update that fails loses no crossing."""
    partition = using(80, declared())
    watch = ThresholdWatch(partition)

    def failing(_: object) -> Iterable[object]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch.update(failing)  # type: ignore[arg-type] # raises

    assert crossings(watch.update()) == [("queue", "root.a", "memory", 80, True)]


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

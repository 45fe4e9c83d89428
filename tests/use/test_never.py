"""Whether waiting can help: no, exactly if an empty partition denies the request at every time."""

import pickle

import pytest

from ugm import AllocationRequest, Decision, Partition, Resource, UserGroup, UserInQueue, parse_config

#: A Tuesday, 12:00 UTC.
NOON = 1_795_521_600
ANA = UserGroup("ana", ("lab",))
ELASTIC = """{name: q}], ugm: {elastic: {total: {gpu: 9}, groupby: [{source: queue}],
    groups: [{name: q, max: {gpu: 9}}, {name: other, min: {gpu: 4}, max: {gpu: 9}, allowlent: false}]}}"""
TREE = """{name: q}], ugm: {quotatrees: [{groupby: [{source: queue}], tree: {
    kind: QuotaTree, metadata: {name: t}, spec: {resourceNames: [gpu], nodes: {
    all: {parent: nil, quota: {gpu: "5"}}, q: {parent: all, quota: {gpu: "3"}}}}}}]}"""
BUDGET = "{name: q}], ugm: {budgets: [{name: b, group: lab, amounts: {gpu: 5}, unit: hour, period: month}]}"
#: Each allows 5 GPUs.
LIMITS = {
    "queue": "{name: q, resources: {max: {gpu: 5}}}]",
    "user": "{name: q, limits: [{users: ['*'], maxresources: {gpu: 5}}]}]",
    "group": "{name: q, limits: [{groups: [lab], maxresources: {gpu: 5}}]}]",
    "cluster": "{name: q}]",
    "elastic group": ELASTIC,
    "quota tree": TREE,
    "budget": BUDGET,
}


def partition_with(queues: str, cluster: Resource | None = None) -> Partition:
    """Return a partition with two applications of Ana in the queue ``q``, at noon."""
    config = parse_config("partitions: [{queues: [" + queues + "}]").partition()
    partition = Partition(config, cluster=cluster, clock=lambda: NOON)
    for name in ("one", "two"):
        partition.submit(name, ANA, "root.q")
    return partition


def gang(*amounts: int) -> list[AllocationRequest]:
    """Return requests for some GPUs for an hour, of both applications in turn."""
    names = ("one", "two") * len(amounts)
    return [
        AllocationRequest(f"{number}", name, Resource(gpu=amount), duration=3600)
        for number, (name, amount) in enumerate(zip(names, amounts, strict=False))
    ]


@pytest.mark.parametrize("kind", LIMITS)
def test_gang_that_never_fits(kind: str) -> None:
    """A gang that exceeds a limit even in an empty partition is denied with its sum, and waiting cannot help."""
    partition = partition_with(LIMITS[kind], Resource(gpu=5) if kind == "cluster" else None)
    decision = partition.allocate_all(gang(2, 2, 2))
    unit = 3600 if kind == "budget" else 1
    assert not decision.can_wait
    assert [(one.limit, one.used, one.requested) for one in decision.violations if not one.can_wait] == [
        (5 * unit, 0, 6 * unit)
    ]
    partition.verify()


@pytest.mark.parametrize("kind", LIMITS)
def test_gang_that_fits_later(kind: str) -> None:
    """A gang that fits an empty partition can wait, whatever runs."""
    partition = partition_with(LIMITS[kind], Resource(gpu=5) if kind == "cluster" else None)
    assert partition.allocate("running", "two", Resource(gpu=1), duration=3600)
    decision = partition.allocate_all(gang(2, 2, 1))
    assert decision.can_wait
    assert "waiting can help" in str(decision)
    partition.release("running")
    assert kind == "budget" or partition.allocate_all(gang(2, 2, 1))


def test_summary_of_a_gang() -> None:
    """The summary of a denial that waiting cannot help names a limit for which this is true."""
    summary = partition_with(TREE).allocate_all(gang(2, 2, 2)).summary
    assert summary.startswith("denied, waiting cannot help: quota node 'all' of tree 't': 6 gpu requested, never more")


def test_applications_of_a_gang() -> None:
    """A gang whose applications may not run together never fits, although one of them runs already."""
    partition = partition_with("{name: q, maxapplications: 1}]")
    assert partition.allocate("running", "one", Resource())
    assert not partition.allocate_all(gang(1, 1)).can_wait
    assert partition.allocate("next", "two", Resource()).can_wait


def test_group_that_does_not_lend() -> None:
    """What a sibling never lends is out of reach, although nothing runs."""
    partition = partition_with(ELASTIC)
    assert partition.check("one", Resource(gpu=5))
    decision = partition.check("one", Resource(gpu=6))
    assert str(decision) == (
        "denied, waiting cannot help:\n  elastic group 'q': 6 gpu requested, never more than 5 allowed"
    )
    partition.allocate("running", "two", Resource(gpu=1))
    assert partition.check("one", Resource(gpu=5)).can_wait


NIGHT, EVENING = "22:00-06:00", "18:00-23:00"
SCHEDULES = """{name: q, resources: {max: {gpu: 2}}, ugm: {schedule: [{hours: '%s', maxresources: {gpu: 8}}]},
    limits: [{users: [ana], maxresources: {gpu: 2}, ugm: {schedule: [{hours: '%s', maxresources: {gpu: 8}}]}}]}]"""


@pytest.mark.parametrize(("second", "can_wait"), [(EVENING, True), ("08:00-22:00", False)])
def test_two_schedules(second: str, can_wait: bool) -> None:  # noqa: FBT001 - a parameter
    """Waiting can help if there is a time at which all limits together allow a request, and only then."""
    partition = partition_with(SCHEDULES % (NIGHT, second))
    answers: list[Decision] = [
        partition.check("one", Resource(gpu=6)),
        partition.explain("one", Resource(gpu=6)).decision,
        partition.check(UserInQueue(ANA, "root.q"), Resource(gpu=6)),
        partition.allocate("x", "one", Resource(gpu=6)),
        partition.allocate_all(gang(3, 3)),
    ]
    for decision in answers:
        copy = pickle.loads(pickle.dumps(decision))  # noqa: S301 - our own pickle
        texts = {str(decision).splitlines()[0], str(copy).splitlines()[0]}
        assert texts == {f"denied, waiting {'can' if can_wait else 'cannot'} help:"}
        assert decision.can_wait is copy.can_wait is decision.to_dict()["can_wait"] is can_wait


def test_schedule_of_applications() -> None:
    """A gang of more applications than may run now waits for a schedule that allows them."""
    schedule = "ugm: {schedule: [{hours: '22:00-06:00', maxapplications: 2}]}"
    partition = partition_with(f"{{name: q, maxapplications: 1, {schedule}}}]")
    decision = partition.allocate_all(gang(1, 1))
    assert decision.can_wait
    assert "2 more applications requested, at most 1 allowed until 2026-11-24 22:00 UTC, then 2" in str(decision)

"""Whether waiting can help: no, exactly if an empty partition denies the request at every time."""

import pytest

from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config

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


def test_summary_of_a_gang() -> None:
    """The summary of a denial that waiting cannot help names a limit for which this is true."""
    summary = partition_with(TREE).allocate_all(gang(2, 2, 2)).summary
    assert summary.startswith("denied, waiting cannot help: quota node 'all' of tree 't': 6 gpu requested, never more")

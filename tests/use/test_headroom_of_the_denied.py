"""The headroom of an application that a quota model denies wholly."""

import pytest

from ugm import Partition, Resource, UserGroup, parse_config

MODELS = {
    "quota tree": """
    quotatrees: [{tree: {kind: QuotaTree, metadata: {name: t}, spec: {resourceNames: [vcore, gpu], nodes: {
      all: {parent: nil, quota: {vcore: "4", gpu: "2"}}, p: {parent: all, quota: {vcore: "4", gpu: "2"}}}}},
      groupby: [{source: queue, names: {root.p: p}}]}]""",
    "elastic groups": """
    elastic: {total: {vcore: 4, gpu: 2}, groups: [{name: p, max: {vcore: 4, gpu: 2}}],
      groupby: [{source: queue, names: {root.p: p}}]}""",
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_headroom_without_a_group(model: str) -> None:
    """Without a group, nothing of any limited resource may be requested."""
    config = parse_config("partitions: [{queues: [{name: p}, {name: q}], ugm: {%s}}]" % model)  # noqa: UP031 - braces
    partition = Partition(config.partition())
    partition.submit("grouped", UserGroup("ana"), "root.p")
    partition.submit("without", UserGroup("ana"), "root.q")

    assert partition.headroom("grouped") == Resource(vcore=4000, gpu=2)
    headroom = partition.headroom("without")
    assert headroom is not None
    assert headroom.without_zeros() == Resource()
    assert {"gpu", "vcore"} <= headroom.keys()
    assert not Resource(gpu=1).fits_in(headroom)

"""Elastic quotas in a partition: charged together with users, groups and queues, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.partition_fixtures import BOB, SUE, config
from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree, verify
from ugm.elastic.model import GROUP_TAG, NAMESPACE_TAG
from ugm.partition import AbstractPartition

QUEUES = "{name: a, resources: {max: {gpu: 12}}}"
LIMITS = "{users: [sue], maxresources: {gpu: 9}}, {groups: [dev], maxresources: {gpu: 14}}"


def gpu(amount: int) -> Resource:
    """Return some GPUs."""
    return Resource(gpu=amount)


class Scene:
    """A partition of sixteen GPUs with two elastic groups; everything is verified after every call."""

    def __init__(self, new_partition: Callable[..., AbstractPartition]) -> None:
        groups = [
            ElasticGroup("all", "", gpu(16), gpu(16), is_parent=True),
            ElasticGroup("ml", "all", gpu(6), gpu(16)),
            ElasticGroup("web", "all", gpu(10), gpu(16), namespaces=("site",)),
        ]
        self.quota = ElasticQuota(ElasticTree(gpu(16), groups))
        self.partition = new_partition(config(QUEUES, limits=LIMITS), models=[ElasticModel(self.quota)])
        self.partition.submit("ml", SUE, "root.a", tags={GROUP_TAG: "ml"})
        self.partition.submit("web", BOB, "root.a", tags={NAMESPACE_TAG: "site"}, gang_style="hard")

    def do(self, call: Callable[[AbstractPartition], object]) -> str:
        """Return the result of a call, after checking that both count the same."""
        answer = str(call(self.partition))
        self.partition.verify()
        verify(self.quota.tree)
        running = {one.allocation_id: one.usage for one in self.partition.allocations() if one.state != "pending"}
        pods = [pod for name in self.quota.tree.nodes for pod in self.quota.pods_in(name)]
        assert {pod.name: pod.usage for pod in pods if self.quota.is_running(pod.name)} == running
        assert len(pods) == len(self.partition.allocations())
        return answer

    def status(self, group: str) -> tuple[int, int, int]:
        """Return the request, usage and runtime of a group."""
        tree = self.quota.tree
        request, used, runtime = (read(group).get("gpu", 0) for read in (tree.request, tree.used, tree.runtime))
        return request, used, runtime


@pytest.fixture(name="scene")
def _scene(new_partition: Callable[..., AbstractPartition]) -> Scene:
    return Scene(new_partition)


def test_all_limits_hold_together(scene: Scene) -> None:
    """A denial names the limits of user, group, queue and elastic group, and nothing is charged."""
    scene.do(lambda one: one.allocate("web-1", "web", gpu(6)))

    assert scene.do(lambda one: one.allocate("ml-1", "ml", gpu(11))).splitlines() == [
        "denied, waiting cannot help:",
        "  user 'sue' in root: 11 gpu requested, never more than 9 allowed (limit for 'sue')",
        "  group 'dev' in root: 11 gpu requested, 6 of 14 used, 3 too much (limit for 'dev')",
        "  queue root.a: 11 gpu requested, 6 of 12 used, 5 too much",
        "  elastic group 'ml': 11 gpu requested, 0 of 10 used, 1 too much",
        "  elastic group 'all': 11 gpu requested, 6 of 16 used, 1 too much",
    ]
    assert scene.status("ml") == (0, 0, 0)

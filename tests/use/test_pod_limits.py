"""Pods and pod templates whose resources are named only under ``limits``."""

from __future__ import annotations

import pytest

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.kubernetes import pod_usage, read_pod

GPU = {"nvidia.com/gpu": 1}


def test_gpu_under_limits_counts_for_a_quota() -> None:
    """A quota of four GPUs admits four pods that name one GPU only under limits."""
    text = "partitions: [{queues: [{name: ml, resources: {max: {nvidia.com/gpu: 4}}}]}]"
    partition = Partition(parse_config(text).partition())
    partition.submit("job", UserGroup("ana"), "root.ml")
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": 4}, "limits": GPU}}]}}
    granted = [bool(partition.allocate(f"w{number}", "job", read_pod(template).usage)) for number in range(6)]
    assert granted == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("container", "usage"), [({}, Resource(vcore=3000)), ({"requests": {"cpu": 1}}, Resource(vcore=1000))]
)
def test_limit_of_a_whole_pod(container: dict[str, object], usage: Resource) -> None:
    """A limit of the whole pod counts if neither the pod nor a container requests the resource."""
    spec = {"containers": [{"resources": container}], "resources": {"limits": {"cpu": 3}}}
    assert pod_usage({"spec": spec}) == usage

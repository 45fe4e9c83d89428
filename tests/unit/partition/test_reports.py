"""Questions to a partition a piece at a time, and of those who have no application in it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from support.partition_fixtures import partition_of, started
from ugm import Resource

LIMITS = '{groups: [dev], maxresources: {memory: 8}}, {users: ["*"], maxresources: {memory: 10}, maxapplications: 4}'
QUEUES = "{name: a, resources: {max: {memory: 9}}}, {name: b}"


@pytest.mark.parametrize(
    ("limits", "count", "gpu", "share", "resource"),
    [
        (LIMITS, 1, 0, Fraction(3, 10), "memory"),
        (LIMITS, 3, 0, Fraction(3, 4), None),
        ("", 1, 0, Fraction(0), None),
        ("{users: [sue], maxresources: {memory: 10, gpu: 0}}", 1, 2, Fraction(3), "gpu"),
    ],
)
def test_utilization(limits: str, count: int, gpu: int, share: Fraction, resource: str | None) -> None:
    """The nearest limit is the one of which the largest part is used; a limit of 0 counts as fully used."""
    partition = partition_of(QUEUES, limits=limits)
    for number in range(count):
        started(partition, f"app-{number}", 3 if count == 1 else 1)
    partition.adopt("gpus", "app-0", Resource(gpu=gpu))
    found = partition.user_utilization("sue")

    assert found is not None
    assert (found.share, found.resource, found.running_applications) == (share, resource, count)
    assert found.to_dict()["share"] == float(share)
    assert partition.user_utilization("ann") is partition.group_utilization("ops") is None

"""Granting, giving back and asking: the ledger of a partition, and every answer that it gives."""

from __future__ import annotations

import pytest

from support.partition_fixtures import changing_nothing, memory, partition_of, started
from ugm import Partition

#: A queue below another, with a limit of every kind on every level.
EVERYTHING = (
    "{name: a, resources: {max: {memory: 8}}, limits: [{users: [sue], maxresources: {memory: 6}},"
    " {groups: [dev], maxresources: {memory: 7}}], queues: [{name: b, resources: {max: {memory: 7}}}]}"
)
AT_THE_ROOT = "{users: ['*'], maxresources: {memory: 9}}"
IN_B = "root.a.b"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of(EVERYTHING, limits=AT_THE_ROOT, cluster=memory(10))
    started(partition, "app", 5, IN_B)
    return partition


def test_denial_names_every_limit(partition: Partition) -> None:
    """A denial names the limits of the user, of the group and of the queues, each leaf to root."""
    with changing_nothing(partition):
        decision = partition.allocate("more", "app", memory(6))

    assert str(decision) == (
        "denied, waiting can help:\n"
        "  user 'sue' in root.a: 6 memory requested, 5 of 6 used, 5 too much (limit for 'sue')\n"
        "  user 'sue' in root: 6 memory requested, 5 of 9 used, 2 too much (limit for '*')\n"
        "  group 'dev' in root.a: 6 memory requested, 5 of 7 used, 4 too much (limit for 'dev')\n"
        "  queue root.a.b: 6 memory requested, 5 of 7 used, 4 too much\n"
        "  queue root.a: 6 memory requested, 5 of 8 used, 3 too much\n"
        "  queue root: 6 memory requested, 5 of 10 used, 1 too much"
    )


# Counting what exists


def test_adopt_tells_what_is_exceeded(partition: Partition) -> None:
    """What exists is counted above the limits, and every limit that is exceeded then is told."""
    exceeded = partition.adopt("ghost", "app", memory(4))

    assert list(map(str, exceeded)) == [
        "user 'sue' in root.a: 9 of 6 memory used, 3 too much (limit for 'sue')",
        "group 'dev' in root.a: 9 of 7 memory used, 2 too much (limit for 'dev')",
        "queue root.a.b: 9 of 7 memory used, 2 too much",
        "queue root.a: 9 of 8 memory used, 1 too much",
    ]
    assert partition.exceeded_limits() == exceeded
    assert partition.adopt("ghost", "app", memory(4)) == exceeded, "it is counted once"

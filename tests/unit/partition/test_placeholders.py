"""A real allocation in the place of a placeholder."""

from __future__ import annotations

import pytest

from support.partition_fixtures import BOB, SUE, OneNode, changing_nothing, memory, partition_of, refused, started
from ugm import Partition

QUEUES = (
    "{name: p, resources: {max: {memory: 10}}, queues: [{name: a, maxapplications: 2}, {name: b, resources: {max:"
    " {memory: 6}}}]}"
)
A, B = "root.p.a", "root.p.b"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of(QUEUES, limits="{users: ['*'], maxresources: {memory: 9}}")
    for name, queue, user in [("one", A, SUE), ("two", A, SUE), ("three", A, SUE), ("other", B, BOB)]:
        assert partition.submit(name, user, queue)
    return partition


def placeholder(partition: Partition, amount: int) -> None:
    """Let application one hold a placeholder."""
    assert partition.allocate("p", "one", memory(amount), placeholder=True, priority=3, preemptible=False)


def test_replace_by_more(partition: Partition) -> None:
    """Only what grows is checked; the denial asks the whole and counts the placeholder as gone."""
    placeholder(partition, 5)
    partition.allocate("other", "other", memory(4))

    with changing_nothing(partition):
        decision = partition.replace("p", "r", memory(7))
    assert str(decision) == "denied, waiting can help:\n  queue root.p: 7 memory requested, 4 of 10 used, 1 too much"
    assert partition.replace("p", "r", memory(6))


def test_replace_what_is_no_placeholder(partition: Partition) -> None:
    """Only placeholders that are held can be replaced, by what is not held yet."""
    started(partition, "two", 1, A)
    placeholder(partition, 1)
    partition.request("q", "one", memory(1), placeholder=True)
    partition.allocate("r", "one", memory(1), priority=3, preemptible=False)

    for name, new, text in [
        ("two", "new", "placeholder_id 'two': the allocation is not a placeholder"),
        ("no", "new", "placeholder_id 'no': there is no such allocation"),
        ("q", "new", "placeholder_id 'q': it is pending, and holds nothing"),
        ("p", "two", "allocation_id 'two': the id is in use with another "),
        ("p", "r", "allocation_id 'r': an allocation with this id already exists"),
        ("p", "p", "allocation_id 'p': the id is in use with another "),
    ]:
        with refused(partition, text):
            partition.replace(name, new, memory(1))


def test_replace_on_another_node() -> None:
    """Models check a replacement of the same size that runs on another node."""
    partition = partition_of(models=[OneNode()])
    started(partition, "a", 1)
    assert partition.allocate("room", "a", memory(1), placeholder=True, node="n1")
    assert not partition.replace("room", "real", memory(1), node="n2")
    assert partition.replace("room", "real", memory(1))

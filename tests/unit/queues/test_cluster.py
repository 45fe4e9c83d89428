"""The size of a cluster: the sum of its nodes, and what the root allows by it."""

from __future__ import annotations

import pytest

from support.partition_fixtures import memory, partition_of, refused, started
from ugm import Partition

# In a partition


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of()
    started(partition, "app", 5)
    return partition


def test_refused_nodes(partition: Partition) -> None:
    """What a node cannot be is refused, and the size stays as it is."""
    partition.add_node("n", memory(6))
    for name, offers, text in [
        ("n", memory(7), "node 'n': a node of that name is registered with other resources"),
        ("", memory(7), "node '': a name is a text of 1 to 256 characters"),
        ("m", memory(-1), "offers Resource(memory=-1): the amount of memory is negative"),
        ("m", None, "offers None: expected a Resource"),
        ("m", {"memory": 1}, "offers {'memory': 1}: expected a Resource"),
        (
            "m",
            memory(2**63),
            f"offers Resource(memory={2**63}): the amount of memory is above what a signed 64-bit integer holds",
        ),
    ]:
        with refused(partition, text):
            partition.add_node(name, offers)  # type: ignore[arg-type]  # misuse
    with refused(partition, "node 'm': there is no such node"):
        partition.update_node("m", memory(1))

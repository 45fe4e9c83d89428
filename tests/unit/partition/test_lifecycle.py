"""The life of applications: every state, and every way in and out of it."""

from __future__ import annotations

import pytest

from support.partition_fixtures import BOB, SUE, memory, partition_of, refused, started
from ugm import Partition


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of("{name: a, maxapplications: 1}, {name: b}")
    partition.submit("app", SUE, "root.a")
    return partition


# Removal of the partition


def test_close(partition: Partition) -> None:
    """A partition that is removed lets all applications fail, and says what has to be stopped."""
    partition.submit("new", SUE, "root.b")
    for name in "21":
        partition.allocate(name, "app", memory(1))
    started(partition, "other", 1, "root.b", BOB)

    assert partition.terminate(confirm=True) == ("2", "1", "other")
    assert [application.state.value for application in partition.applications()] == ["failing", "failing"]
    for name in ["1", "2", "other"]:
        partition.release(name)
    assert (partition.applications(), partition.users()) == ((), ())
    assert partition.terminate(confirm=True) == ()


# Recovery, and quotas that change


def test_a_quota_for_a_queue_of_the_configuration(partition: Partition) -> None:
    """The quota of a configured queue can only be changed in the configuration."""
    with refused(partition, "queue_path 'root.a': the configuration sets the quota of this queue"):
        partition.set_queue_quota("root.a", memory(4))
    with refused(partition, "queue_path 'root.x': there is no such queue"):
        partition.set_queue_quota("root.x", memory(4))
    with refused(partition, "quota None: expected a Resource that names at least one resource"):
        partition.set_queue_quota("root.a", None)  # type: ignore[arg-type] # the mistake that is tested

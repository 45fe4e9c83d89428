"""`admit` grants an application with its allocations or changes nothing; `end` is its counterpart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.partition_fixtures import changing_nothing
from support.partition_kinds import of_each_kind
from ugm import AllocationRequest, RequestError, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition, AllocationSpec
from ugm.store import open_partition

CONFIG = parse_config(
    """
partitions:
- placementrules: [{name: tag, value: namespace, create: true, parent: {name: fixed, value: p}}, {name: provided}]
  queues:
  - {name: p, parent: true}
  - {name: q, maxapplications: 2, submitacl: "ana,ben", resources: {max: {vcore: 2}}}
"""
).partition()
ANA, ONE = UserGroup("ana", ("lab",)), Resource(vcore=1000)


_partition = of_each_kind(CONFIG)


def test_a_grant_has_everything(partition: AbstractPartition) -> None:
    """One call submits the application and charges its allocations; one call ends it."""
    admission = partition.admit("a", ANA, "root.q", [("a.0", ONE), AllocationSpec("a.1", ONE, priority=3)])

    assert admission
    assert (admission.queue_path, [one.priority for one in admission.allocations]) == ("root.q", [0, 3])
    assert partition.allocation_ids() == ("a.0", "a.1")
    assert (partition.end("a"), partition.end("a")) == (True, False)
    assert (partition.application_ids(), partition.allocation_ids()) == ((), ())


@pytest.mark.parametrize(
    ("user", "queue", "tags", "sizes"),
    [
        ("ana", "root.q", None, [3000]),
        ("ana", "root.q", None, [1000, 1000, 1000]),
        ("eve", "root.q", None, [1000]),
        ("ana", "root.none", None, [1000]),
        ("ana", "", {"namespace": "n"}, [1000]),
    ],
)
def test_a_denial_leaves_nothing(
    partition: AbstractPartition, user: str, queue: str, tags: dict[str, str] | None, sizes: list[int]
) -> None:
    """After a denial there is no application, no user, no queue and no usage that was not there before."""
    partition.add_node("n", Resource(vcore=2000))
    partition.admit("big", UserGroup("ben"), "root.q", [("big.0", Resource(vcore=1500))])
    with changing_nothing(partition):
        specs = [(f"a.{number}", Resource(vcore=size)) for number, size in enumerate(sizes)]
        admission = partition.admit("a", UserGroup(user), queue, specs, tags=tags)

    assert not admission
    assert admission.allocations == ()
    assert partition.queue("root.p.n") is None
    assert partition.user(user) is None
    partition.verify()


def test_a_denial_restores_the_quota(partition: AbstractPartition) -> None:
    """After a denial the maximum of the queue is that of the application before."""
    tags, quota = {"namespace": "n"}, Resource(vcore=3000)
    assert partition.admit("a", ANA, "", [("a.0", ONE)], tags=tags, quota=quota)
    with changing_nothing(partition):
        assert not partition.admit("b", ANA, "", [("b.0", quota)], tags=tags, quota=Resource(vcore=2000))

    assert partition.allocate("a.1", "a", Resource(vcore=2000))
    assert not partition.allocate("a.2", "a", Resource(vcore=1))
    partition.verify()


@pytest.mark.parametrize(
    ("call", "difference"),
    [
        (lambda p: p.admit("a", UserGroup("ben"), "root.q", [("a.0", ONE)]), "another user"),
        (lambda p: p.admit("a", ANA, "root.q", [("a.0", Resource(vcore=1))]), "another usage"),
        (lambda p: p.admit("a", ANA, "root.q", [("a.0", ONE), ("a.1", ONE)]), "'a.1' is not held"),
        (lambda p: p.admit("b", ANA, "root.q", [("a.0", ONE)]), "another application_id"),
        (lambda p: p.admit("b", ANA, "root.q", [("b.0", ONE), ("b.0", ONE)]), "occurs twice"),
        (lambda p: p.admit("b", ANA, "root.q", [AllocationRequest("b.0", "b", ONE)]), "expected an AllocationSpec"),
    ],
)
def test_other_content_is_an_error(
    partition: AbstractPartition, call: Callable[[AbstractPartition], object], difference: str
) -> None:
    """The error of an id in use names the difference, and nothing changes."""
    partition.admit("a", ANA, "root.q", [("a.0", ONE)])
    with changing_nothing(partition), pytest.raises(RequestError) as caught:
        call(partition)

    if "expected" not in difference:
        assert difference in str(caught.value)


def test_a_store_has_no_trace_of_a_denial(tmp_path: Path) -> None:
    """A restart finds what was admitted, and nothing of what was denied or ended."""
    with open_partition(tmp_path / "store", CONFIG) as partition:
        assert partition.admit("kept", ANA, "root.q", [("k", ONE)])
        assert partition.admit("gone", ANA, "root.q", [("g", ONE)])
        partition.end("gone")
        assert not partition.admit("denied", ANA, "root.q", [("d", Resource(vcore=5000))])
    with open_partition(tmp_path / "store") as partition:
        assert (partition.application_ids(), partition.allocation_ids()) == (("kept",), ("k",))

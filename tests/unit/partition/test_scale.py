"""What one operation of a partition costs does not grow with what is live: its lines are counted, at two sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from support.line_counts import lines_run_by
from support.partition_fixtures import config
from ugm import Partition, Resource, UserGroup

ONE: Final = Resource(memory=1)

#: Every operation on the way of an allocation; the first application of every partition is called ``app-0``.
OPERATIONS: Final[dict[str, Callable[[Partition], object]]] = {
    "allocate": lambda partition: partition.allocate("new", "app-0", ONE),
    "allocate-first": lambda partition: partition.allocate("new", "idle", ONE),
    "denied": lambda partition: partition.allocate("new", "app-0", Resource(memory=10**10)),
    "check": lambda partition: partition.check("app-0", ONE),
    "headroom": lambda partition: partition.headroom("app-0"),
    "resize": lambda partition: partition.resize("app-0-0", Resource(memory=2)),
    "preempt": lambda partition: partition.preempt("app-0-0"),
    "release": lambda partition: partition.release("app-0-0"),
    "adopt": lambda partition: partition.adopt("new", "app-0", ONE),
    "request": lambda partition: partition.request("new", "app-0", ONE),
    "submit": lambda partition: partition.submit("new", UserGroup("new"), "root.a"),
    "add_node": lambda partition: partition.add_node("more", ONE),
}


def filled(applications: int) -> Partition:
    """Return a partition with ten allocations for each of many applications, and an idle one."""
    partition = Partition(
        config("{name: a, resources: {max: {memory: 1G}}, maxapplications: 1000000}"), cluster=Resource(memory=10**9)
    )
    partition.submit("idle", UserGroup("idle"), "root.a")
    for number in range(applications):
        partition.submit(f"app-{number}", UserGroup(f"user-{number % 50}"), "root.a")
        for allocation in range(10):
            partition.adopt(f"app-{number}-{allocation}", f"app-{number}", ONE)
    return partition


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_no_growth_with_what_is_live(name: str) -> None:
    """An operation runs as many lines with a hundred allocations as with two thousand."""
    few, many = filled(10), filled(200)

    assert lines_run_by(lambda: OPERATIONS[name](few)) == lines_run_by(lambda: OPERATIONS[name](many))


def test_resources_of_removed_nodes() -> None:
    """The resources of removed nodes are no longer counted, except those that a limit or an application names."""
    queue, limits = "{name: a, resources: {max: {r2: 5}}}", "{users: [sue], maxresources: {r3: 5}}"
    partition = Partition(config(queue, limits=limits))
    partition.add_node("all", Resource({f"r{number}": 9 for number in range(60)}))
    partition.submit("app", UserGroup("sue"), "root.a")
    assert partition.allocate("1", "app", Resource(r1=1))
    partition.remove_node("all")
    for name in ("new", "newer"):
        partition.add_node(name, Resource({name: 1}))

    assert {*partition._state.active_limits.epoch.layout.names} == {"r1", "r2", "r3", "new", "newer"}
    partition.verify()

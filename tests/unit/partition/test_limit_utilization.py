"""Those closest to a limit, found by a part of the name and seen a page at a time."""

from __future__ import annotations

import pytest

from support.server_fixtures import PREFIX, client
from ugm import Partition, Resource, UserGroup, parse_config

NAMES = ("ann", "Hannah", "bob", "eve")


@pytest.fixture(name="partition")
def _partition() -> Partition:
    limits = "limits: [{users: ['*'], maxresources: {vcore: 9m}}]"
    partition = Partition(parse_config(f"partitions: [{{queues: [{{name: a, {limits}}}]}}]").partition())
    for amount, name in enumerate(NAMES, 1):
        partition.submit(name, UserGroup(name), "root.a")
        partition.allocate(name, name, Resource(vcore=amount))
    partition.submit("more", UserGroup("Hannah"), "root.a")
    partition.allocate("more", "more", Resource(vcore=0, memory=1))
    partition.request("waits", "bob", Resource(vcore=1))
    return partition


@pytest.mark.parametrize(
    ("query", "total", "names"),
    [
        ("", 4, ["eve", "bob", "Hannah", "ann"]),
        ("?search=ANN", 2, ["Hannah", "ann"]),
        ("?offset=1&limit=2", 4, ["bob", "Hannah"]),
        ("?offset=1&search=ann", 2, ["ann"]),
        ("?offset=9", 4, []),
        ("?search=nobody", 0, []),
        ("?sort=share", 4, ["eve", "bob", "Hannah", "ann"]),
        ("?sort=name", 4, ["ann", "bob", "eve", "Hannah"]),
        ("?sort=usage&resource=vcore&limit=2", 4, ["eve", "bob"]),
        ("?sort=usage&resource=gpu", 4, ["ann", "bob", "eve", "Hannah"]),
        ("?sort=applications", 4, ["Hannah", "ann", "bob", "eve"]),
        ("?sort=pending", 4, ["bob", "ann", "eve", "Hannah"]),
    ],
)
def test_standings_are_found_and_paged(partition: Partition, query: str, total: int, names: list[str]) -> None:
    """The total counts all that match, whichever of them are on the page."""
    body = client(partition).get(f"{PREFIX}/utilization/users{query}").json()
    assert (body["total"], [one["name"] for one in body["utilizations"]]) == (total, names)

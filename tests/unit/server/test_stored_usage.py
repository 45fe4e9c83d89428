"""Usage over time: the averages in the steps of a range, read from the store of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.server_fixtures import CONFIG, PREFIX, SUE, busy, client
from ugm import Resource, parse_config
from ugm.server import create_app
from ugm.store import StoredPartition, delete_usage, open_partition

#: A full hour.
HOUR = 1_800_000_000 // 3600 * 3600


class World:
    """A partition with a store behind a server, and a clock that the test sets."""

    def __init__(self, path: Path, text: str = CONFIG) -> None:
        self.now = float(HOUR)
        self.path = path
        self.partition: StoredPartition = open_partition(path, parse_config(text).partition(), clock=self.clock)
        app = create_app({"default": self.partition}, stores={"default": path}, clock=self.clock)
        self.client = TestClient(app)

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def at(self, seconds: float) -> StoredPartition:
        """Let some seconds after the full hour be the time."""
        self.now = HOUR + seconds
        return self.partition

    def get(self, path: str = "usage_history", **query: Any) -> Any:  # noqa: ANN401 - parsed JSON
        """Return an answer."""
        answer = self.client.get(f"{PREFIX}/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> Iterator[World]:
    """Sue holds 6 from second 30 to 120, and 2 from second 150 on; it is second 180."""
    world = World(tmp_path / "quota.db")
    with world.partition:
        world.at(0).submit("app", SUE, "root.a")
        world.at(30).allocate("first", "app", Resource(memory=6))
        world.at(120).release("first")
        world.at(150).allocate("second", "app", Resource(memory=2))
        world.at(180)
        yield world


@pytest.mark.parametrize(
    ("kind", "name", "limit"),
    [("queue", "root.A", 9), ("user", "sue", 10), ("group", "dev", 8), ("queue", "root", None)],
)
def test_every_kind_of_subject(world: World, kind: str, name: str, limit: int | None) -> None:
    """A series has the average of every minute, and the present limit that counts all usage of the subject."""
    found = world.get(kind=kind, name=name)

    assert (found["step"], found["as_of"], found["times"][-3:]) == (60, HOUR + 180, [HOUR, HOUR + 60, HOUR + 120])
    assert found["usage"] == {"memory": [0] * 57 + [3, 6, 1]}
    assert found["limits"] == ({} if limit is None else {"memory": limit})


def test_unknown_usage(world: World) -> None:
    """A step is unknown if usage before its end was deleted."""
    # A day has steps of 15 minutes, and a week of two hours; the last step is an average until now.
    day, week = (world.get(kind="user", name="sue", range=name) for name in ("day", "week"))
    assert (day["step"], len(day["times"]), day["usage"]["memory"][-1]) == (900, 97, (6 * 90 + 2 * 30) // 180)
    assert (week["step"], len(week["times"])) == (7200, 85)
    delete_usage(world.path, (HOUR + 60) * 1000, clock=lambda: HOUR + 180)

    assert world.get(kind="user", name="sue")["usage"]["memory"] == [None] * 58 + [6, 1]


def test_partition_without_a_store() -> None:
    """Without a store there is no usage over time."""
    missing = client(busy()).get(f"{PREFIX}/usage_history", params={"kind": "user", "name": "sue"})
    assert (missing.status_code, missing.json()["code"]) == (404, "store-missing")


def test_nodes_of_trees(tmp_path: Path) -> None:
    """Nodes of declared trees include those below; a tree without the node has no usage."""
    text = """
partitions:
- name: default
  queues: [{name: a}]
  ugm:
    elastic: {groups: [{name: dev, max: {memory: 9}}]}
"""
    world = World(tmp_path / "quota.db", text)
    with world.partition:
        world.at(0).submit("app", SUE, "root.a", tags={"quota.scheduling.koordinator.sh/name": "dev"})
        assert world.at(0).allocate("first", "app", Resource(memory=6))
        world.at(60)
        found = world.get(kind="tree_node", tree="elastic", name="dev")

    assert found["usage"] == {"memory": [0] * 59 + [6]}
    assert found["limits"] == {"memory": 9}


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"kind": "tree_node", "name": "a"}, 400, "query-invalid"),
        ({"kind": "node", "name": "a"}, 400, "query-invalid"),
        ({"kind": "user"}, 400, "query-invalid"),
        ({"kind": "user", "name": "a", "range": "year"}, 400, "query-invalid"),
        ({"kind": "queue", "name": "root..a"}, 404, "queue-unknown"),
    ],
)
def test_wrong_queries(world: World, query: dict[str, str], status: int, code: str) -> None:
    """A wrong query has a code."""
    answer = world.client.get(f"{PREFIX}/usage_history", params=query)

    assert (answer.status_code, answer.json()["code"]) == (status, code)

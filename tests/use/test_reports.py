"""Tests of reports for operators: they filter by queue, and name their units."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.commands import run
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.server import create_app
from ugm.store import open_partition, usage_of

BUDGET = "{name: monthly, user: '*', amounts: {vcore: 4, gpu: 16}, unit: hour}"
QUEUES = "[{name: x, queues: [{name: a}, {name: b}]}, {name: y}]"
CONFIG = parse_config(f"partitions: [{{queues: {QUEUES}, ugm: {{budgets: [{BUDGET}]}}}}]").partition()
PREFIX = "/api/v1/partition/default"
#: The queue, the user and the number of GPUs of each application.
WORK = {
    "1": ("root.x.a", "ana", 1),
    "2": ("root.x.b", "ana", 2),
    "3": ("root.y", "ana", 8),
    "4": ("root.x.a", "ben", 4),
}


def fill(partition: Any) -> None:  # noqa: ANN401 - any partition
    """Run the work of two users in three queues."""
    for name, (queue, user, gpus) in WORK.items():
        partition.submit(name, UserGroup(user, ("team",)), queue)
        partition.allocate(f"{name}.0", name, Resource(gpu=gpus), duration=60)


@pytest.fixture(name="client")
def _client() -> TestClient:
    partition = Partition(CONFIG)
    fill(partition)
    partition.request("4.1", "4", Resource(gpu=1), duration=60)
    return TestClient(create_app({"default": partition}))


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("root.x", {"ben": 4, "ana": 3}),
        ("root.X.b", {"ana": 2}),
        ("root.y", {"ana": 8}),
        ("root", {"ana": 11, "ben": 4}),
    ],
)
def test_users_of_a_queue(client: TestClient, queue: str, expected: dict[str, int]) -> None:
    """Users are listed with their usage in and below a queue, those with most of a resource first."""
    query = {"queue": queue, "sort": "usage", "resource": "gpu"}
    found = client.get(f"{PREFIX}/utilization/users", params=query).json()
    assert [(one["name"], one["usage"]["gpu"]) for one in found["utilizations"]] == list(expected.items())
    assert found["total"] == len(expected)


def test_pending_requests_and_groups_of_a_queue(client: TestClient) -> None:
    """Pending requests and groups are filtered in the same way; an unknown queue is an error."""
    users = client.get(f"{PREFIX}/utilization/users", params={"queue": "root.y"}).json()["utilizations"]
    assert [(one["running_applications"], one["pending_allocations"]) for one in users] == [(1, 0)]
    assert client.get(f"{PREFIX}/utilization/groups", params={"queue": "root.y"}).json()["total"] == 0
    assert client.get(f"{PREFIX}/utilization/users", params={"queue": "root.z"}).status_code == 404


def test_usage_over_time_of_a_queue(tmp_path: Path) -> None:
    """The command and the function count usage in and below a queue."""
    now = 1_795_435_200
    with open_partition(tmp_path / "store", CONFIG, clock=lambda: now) as partition:
        fill(partition)
        now += 3600
        rows = usage_of(tmp_path / "store", "user", queue="root.x", clock=lambda: now)
    assert {row.name: row.amounts["gpu"] // 3_600_000 for row in rows} == {"ana": 3, "ben": 4}
    options = ["--by", "user", "--queue", "root.y", "--until", "2026-11-23T13:00", "--csv"]
    printed = run("usage", tmp_path / "store", *options).stdout
    assert [row["name"] for row in csv.DictReader(StringIO(printed))] == ["ana"]

"""Tests of reports for operators: they filter by queue, and name their units."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.cli.commands import ugm
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
    printed = CliRunner().invoke(ugm, ["usage", str(tmp_path / "store"), *options]).stdout
    assert [row["name"] for row in csv.DictReader(StringIO(printed))] == ["ana"]


def test_columns_of_csv_do_not_depend_on_the_data(tmp_path: Path, client: TestClient) -> None:
    """CSV has the same columns for every subject, and each row names its unit."""
    heads = {
        client.get(f"{PREFIX}/usage_history.csv", params={"kind": kind, "name": name}).text.splitlines()[0]
        for kind, name in (("user", "ana"), ("user", "nobody"), ("queue", "root"), ("group", "team"))
    }
    assert len(heads) == 1
    with open_partition(tmp_path / "store", CONFIG) as partition:
        partition.submit("app", UserGroup("ana"), "root.y")
        partition.allocate("app.0", "app", Resource(vcore=1500, memory=7, gpu=1), duration=60)
    for by in ("user", "queue"):
        printed = CliRunner().invoke(ugm, ["usage", str(tmp_path / "store"), "--by", by, "--csv"]).stdout
        assert printed.splitlines()[0] == "from,until,kind,name,resource,amount,unit"
        units = {row["resource"]: row["unit"] for row in csv.DictReader(StringIO(printed))}
        assert units == {"gpu": "gpu-seconds", "memory": "byte-seconds", "vcore": "core-seconds"}


def test_denials_of_budgets_are_in_hours() -> None:
    """People read cores and hours, also of large amounts."""
    partition = Partition(CONFIG)
    partition.submit("app", UserGroup("ana"), "root.y")
    assert partition.allocate("app.0", "app", Resource(vcore=2000), duration=5400)
    text = str(partition.allocate("app.1", "app", Resource(vcore=1000), duration=10**6))
    assert "277.778 vcore-hours requested, 3 of 4 used or promised" in text
    text = str(partition.allocate("app.2", "app", Resource(gpu=1), duration=60_000))
    assert "16.67 gpu-hours requested, 0 of 16 used or promised" in text


def test_usage_of_groups_that_no_limit_names(tmp_path: Path) -> None:
    """Usage that is charged to no group is reported for the first group of the user."""
    now = 1000
    with open_partition(tmp_path / "store", CONFIG, clock=lambda: now) as partition:
        partition.submit("app", UserGroup("ana", ("vision", "all")), "root.y")
        partition.submit("own", UserGroup("ben"), "root.y")
        for name in ("app", "own"):
            partition.allocate(f"{name}.0", name, Resource(gpu=8), duration=60)
        now += 10
        expected = {"vision": 80_000, None: 80_000}
        found = usage_of(tmp_path / "store", "group", clock=lambda: now)
        assert {row.name: row.amounts["gpu"] for row in found} == expected


@pytest.mark.parametrize("source", ["http://localhost:8080", "https://quota.example/x", "localhost:8080"])
@pytest.mark.parametrize("command", [["usage", "--by", "user"], ["store", "info"]])
def test_a_server_is_no_store(command: list[str], source: str) -> None:
    """A command that reads a store says so if it gets the address of a server."""
    result = CliRunner().invoke(ugm, [*command, source])
    assert result.exit_code == 2
    assert f"{source} is a server; this command needs its store" in " ".join(result.stderr.split())

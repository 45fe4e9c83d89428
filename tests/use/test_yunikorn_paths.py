"""Tests of the paths of Apache YuniKorn that its clients use besides queues, applications and usage."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.server import create_app
from ugm.server.metrics.collector import PartitionCollector, exposition

CONFIG = parse_config("""
partitions:
- statedumpfilepath: /var/state.json
  placementrules:
  - {name: tag, value: namespace, create: true, filter: {type: deny, users: [eve]},
     parent: {name: fixed, value: root.a}}
  - name: provided
  queues: [{name: a, parent: true, queues: [{name: b}]}]
""").partition()


@pytest.fixture(name="client")
def _client() -> TestClient:
    partition = Partition(CONFIG)
    partition.submit("app", UserGroup("ana"), "root.a.b")
    partition.allocate("app.0", "app", Resource(gpu=1))
    metrics = exposition(PartitionCollector({"default": partition}))
    app = create_app({"default": partition}, metrics=metrics, clock=lambda: 60)
    app.state.server.count_applications()
    return TestClient(app, base_url="http://localhost")


def get(client: TestClient, path: str) -> Any:  # noqa: ANN401 - as JSON
    """Return a response."""
    found = client.get(f"/ws/v1/{path}")
    assert found.status_code == 200, found.text
    return found.json()


def test_placement_rules(client: TestClient) -> None:
    """Rules have their parameters, their filter and the rule of their parent."""
    rules = get(client, "partition/default/placementrules")
    assert rules[0] == {
        "name": "tag",
        "parameters": {"create": "true", "tagName": "namespace"},
        "filter": {"type": "deny", "userList": ["eve"]},
        "parentRule": {"name": "fixed", "parameters": {"create": "false", "queue": "root.a"}},
    }
    assert rules[1] == {"name": "provided", "parameters": {"create": "false"}}


def test_the_history_of_applications(client: TestClient) -> None:
    """Each sample has the number of running applications."""
    assert get(client, "history/apps") == [{"timestamp": 60_000_000_000, "totalApplications": "1"}]


def test_a_dump_of_everything(client: TestClient) -> None:
    """The dump has the parts that the other paths return."""
    dump = get(client, "fullstatedump")
    assert dump["partitions"] == get(client, "partitions")
    assert dump["queues"] == [get(client, "partition/default/queues")]
    assert dump["applications"] == get(client, "partition/default/applications")
    assert dump["placementRules"][0]["rules"] == get(client, "partition/default/placementrules")


def test_metrics(client: TestClient) -> None:
    """The metrics are at the path of YuniKorn, too."""
    assert "ugm_queue_usage" in client.get("/ws/v1/metrics").text

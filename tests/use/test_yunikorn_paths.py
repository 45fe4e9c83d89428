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


def test_a_dump_of_everything(client: TestClient) -> None:
    """The dump has the parts that the other paths return."""
    dump = get(client, "fullstatedump")
    assert dump["partitions"] == get(client, "partitions")
    assert dump["queues"] == [get(client, "partition/default/queues")]
    assert dump["applications"] == get(client, "partition/default/applications")
    assert dump["placementRules"][0]["rules"] == get(client, "partition/default/placementrules")

"""Tests of the usage history of a server: values from before its start are right or unknown, never a false 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.service_fixtures import eventually
from ugm import Resource, UserGroup, parse_config
from ugm.elastic import ROOT_GROUP
from ugm.journal import open_partition
from ugm.server import create_app

ELASTIC = "elastic: {total: {gpu: 16}, groupby: [{source: queue}], groups: [{name: ml, min: {gpu: 8}, max: {gpu: 16}}]}"
CONFIG = parse_config(f"partitions: [{{queues: [{{name: ml}}], ugm: {{{ELASTIC}}}}}]").partition()
PREFIX = "/api/v1/partition/default"


@pytest.fixture(name="history")
def _history(tmp_path: Path) -> Any:  # noqa: ANN401 - a function
    """Read the history of a partition that used 8 GPUs for half an hour before the server has started."""
    now, path = 0.0, tmp_path / "journal"
    partition = open_partition(path, CONFIG, clock=lambda: now)
    partition.submit("app", UserGroup("ana"), "root.ml")
    partition.allocate("app.0", "app", Resource(gpu=8))
    now = 1800.0
    app = create_app({"default": partition}, journals={"default": path}, clock=lambda: now)
    with TestClient(app) as client:
        # The journal is read in another thread.
        eventually(
            lambda: client.get(f"{PREFIX}/usage_history", params={"kind": "queue", "name": "root"}).json()["amounts"]
        )
        yield lambda **query: client.get(f"{PREFIX}/usage_history", params=query).json()
    partition.close()


def test_the_root_of_elastic_groups(history: Any) -> None:  # noqa: ANN401 - a function
    """The root has the sum of its groups, before the start as well as after it."""
    for name in ("ml", ROOT_GROUP):
        found = history(kind="tree_node", tree="elastic", name=name)["amounts"]["usage"]["gpu"]
        assert set(found) == {8}, name
        assert history(kind="tree_node", tree="elastic", name=name)["counts"] == {}


def test_amounts_that_were_not_recorded(history: Any) -> None:  # noqa: ANN401 - a function
    """Amounts that the journal does not contain are unknown before the start."""
    found = history(kind="tree_node", tree="elastic", name="ml")["amounts"]
    assert len(found["request"]["gpu"]) > 10
    assert set(found["request"]["gpu"][:-1]) == {None}
    assert found["request"]["gpu"][-1] == 8


def test_usage_is_known(history: Any) -> None:  # noqa: ANN401 - a function
    """Usage and running applications are known from the journal."""
    found = history(kind="queue", name="root")
    assert set(found["amounts"]["usage"]["gpu"]) == {8}
    assert set(found["counts"]["running_applications"]) == {1}

"""Thresholds of a server: evaluated regularly, logged, listed, and counted in metrics."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

import pytest
from starlette.testclient import TestClient

from support.partition_fixtures import memory
from support.server_fixtures import CONFIG, PREFIX, SUE, create_partition
from ugm import parse_config
from ugm.configuration import Extensions, ThresholdConfig
from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.server import PartitionCollector, create_app
from ugm.server.metrics.collector import exposition
from ugm.server.views.models import log_crossings

#: Every test runs with partitions in memory and with clients of a service.
pytestmark = pytest.mark.usefixtures("service")


def nearly_full() -> AbstractPartition:
    """Return a partition with thresholds and a queue of 9 bytes, of which 8 are in use."""
    settings = parse_config(CONFIG).partition()
    thresholds = ThresholdConfig(shares=(80, 95))
    partition = create_partition(replace(settings, ugm=Extensions(names=settings.ugm.names, thresholds=thresholds)))
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("x", "app", memory(8))
    return partition


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """Each crossing is one line of the log, and usage that stays above a threshold is none."""
    partition = nearly_full()
    update = partial(log_crossings, "default", ThresholdWatch(partition))
    caplog.set_level(logging.INFO, "ugm.server.views.models")

    update()
    update()
    partition.release("x")
    update()

    found = [(one.levelname, one.getMessage()) for one in caplog.records if "queue root.a" in one.getMessage()]
    assert found == [
        ("WARNING", "partition default: queue root.a: 8 of 9 memory, at or above 80 %"),
        ("INFO", "partition default: queue root.a: 0 of 9 memory, below 80 %"),
    ]


def test_endpoint() -> None:
    """The response lists the thresholds that usage is above."""
    partition = nearly_full()
    watch = ThresholdWatch(partition)
    rest = TestClient(create_app({"default": partition}, thresholds={"default": watch}), base_url="http://localhost")
    kinds = ["budget", "elastic group", "group", "queue", "quota node", "user"]
    assert rest.get(f"{PREFIX}/thresholds").json() == {"shares": [], "total": 0, "crossed": [], "kinds": kinds}

    watch.update()

    answer = rest.get(f"{PREFIX}/thresholds?kind=queue&search=root.a").json()
    assert (answer["shares"], answer["total"]) == ([80, 95], 1)
    assert answer["crossed"] == [one.to_dict() for one in watch.crossed if one.name == "root.a"]
    assert rest.get(f"{PREFIX}/thresholds?kind=group&search=none").json()["total"] == 0
    assert rest.get(f"{PREFIX}/thresholds?offset=100").json()["crossed"] == []
    assert rest.get(f"{PREFIX}/thresholds?kind=node").status_code == 400


def test_metrics() -> None:
    """The number of limits above a threshold has a sample for each kind and threshold, also if it is 0."""
    partition = nearly_full()
    watch = ThresholdWatch(partition)
    collector = PartitionCollector({"default": partition}, thresholds={"default": watch})
    assert 'threshold="80"' not in exposition(collector)()[0].decode()

    watch.update()

    text = exposition(collector)()[0].decode()
    assert 'ugm_threshold_crossed_limits{kind="queue",partition="default",threshold="80"} 1.0' in text
    assert 'ugm_threshold_crossed_limits{kind="queue",partition="default",threshold="95"} 0.0' in text
    assert 'ugm_threshold_crossed_limits{kind="budget",partition="default",threshold="80"} 0.0' in text

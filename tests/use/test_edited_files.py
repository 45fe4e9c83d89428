"""Tests of limits that were edited while a server was down: the difference is visible, and one option applies it."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from support.service_fixtures import eventually
from ugm import Resource, parse_config
from ugm.server import create_app
from ugm.server.metrics.collector import PartitionCollector, exposition
from ugm.store import open_partition

TEXT = "partitions: [{queues: [{name: q, resources: {max: {gpu: LIMIT}}}]}]"


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    """A configuration file whose limit of 8 is in a store, and which says 4 now."""
    with open_partition(tmp_path / "quota.db", parse_config(TEXT.replace("LIMIT", "8")).partition()):
        pass
    file = tmp_path / "limits.yaml"
    file.write_text(TEXT.replace("LIMIT", "4"), encoding="utf-8")
    return file


@pytest.fixture(name="client")
def _client(file: Path) -> Iterator[TestClient]:
    store = file.with_name("quota.db")
    with open_partition(store) as partition:
        metrics = exposition(PartitionCollector({"default": partition}))
        app = create_app({"default": partition}, stores={"default": store}, config_path=file, metrics=metrics)
        with TestClient(app, base_url="http://localhost") as client:
            yield client


def test_the_difference_is_visible(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """The log, health and a metric state that the file is not in force."""
    caplog.set_level(logging.WARNING)
    eventually(lambda: client.get("/api/v1/health").json()["configuration"]["unapplied"])
    health = client.get("/api/v1/health").json()
    assert health["status"] == "degraded"
    assert health["reason"].startswith("the configuration file is not in force: default: ")
    assert "gpu 8 -> 4" in " ".join(health["configuration"]["unapplied"])
    assert "\nugm_configuration_unapplied 1\n" in client.get("/metrics").text


def test_a_reload_puts_the_file_in_force(client: TestClient) -> None:
    """A reload applies the file, and the difference is gone."""
    eventually(lambda: client.get("/api/v1/health").json()["configuration"]["unapplied"])
    client.app.state.configurations.reload()  # type: ignore[attr-defined]  # the state of the application
    health = client.get("/api/v1/health").json()
    assert (health["status"], health["configuration"]["unapplied"]) == ("ok", [])
    assert "\nugm_configuration_unapplied 0\n" in client.get("/metrics").text
    assert "gpu: '4'" in client.get("/api/v1/config").text


@pytest.mark.ci
@pytest.mark.parametrize(("options", "limit"), [([], 8), (["--apply"], 4)])
def test_the_command(file: Path, options: list[str], limit: int) -> None:
    """``ugm serve`` keeps the stored limit, unless an option applies the file."""
    store, socket = file.with_name("quota.db"), file.with_name("socket")
    open_partition(store, parse_config(TEXT.replace("LIMIT", "8")).partition()).close()
    command = [sys.executable, "-m", "ugm", "serve", str(file), "--port", "0", *options]
    command += ["--listen", f"unix:{socket}", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        assert options or "is not in force" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    with open_partition(store) as partition:
        assert partition.queue_maximum("root.q") == Resource(gpu=limit)

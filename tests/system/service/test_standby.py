"""A leader and a standby, each a process of ``ugm serve``: queries at the standby, status, metrics, and a takeover."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from support.partition_fixtures import SUE
from support.postgres import server_here
from support.server_fixtures import CONFIG
from support.service_fixtures import eventually
from ugm import Resource
from ugm.service import connect

pytestmark = pytest.mark.ci

SERVE: Final = ("-c", "from ugm.cli import main; main()", "serve")
UNIT: Final = Resource(memory=1)
#: The maximum time that a process on a busy machine takes for anything, in seconds.
PATIENCE: Final = 30


class Server(NamedTuple):
    """A process of ``ugm serve``."""

    process: subprocess.Popen[str]
    url: str
    address: str

    def get(self, path: str) -> bytes:
        """Return the answer to a request."""
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as response:  # noqa: S310 - our own server
            data: bytes = response.read()
            return data

    def status(self) -> Any:  # noqa: ANN401 - of any fields
        """Return the status of the service."""
        return json.loads(self.get("/api/v1/partition/default/service"))

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the service."""
        lines = [line.rsplit(" ", 1) for line in self.get("/metrics").decode().splitlines() if "ugm_service" in line]
        return {name: float(value) for name, value in lines if not name.startswith("#")}


@contextmanager
def serving(folder: Path, name: str, location: str) -> Iterator[Server]:
    """Run ``ugm serve`` with a service."""
    file, address = folder / "queues.yaml", f"unix:{folder / name}"
    file.write_text(CONFIG)
    options = ["--store", location, "--listen", address, "--port", "0", "--json", "--metrics"]
    arguments = [sys.executable, *SERVE, str(file), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        try:
            yield Server(process, json.loads(process.stdout.readline())["url"], address)
        finally:
            process.kill()


@pytest.fixture(params=["file", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The location of a log."""
    if request.param == "file":
        yield str(tmp_path / "store")
        return
    with server_here() as server:
        yield f"postgresql://ugm@127.0.0.1:{server.port}/postgres"


def test_standby(tmp_path: Path, location: str) -> None:
    """A standby answers queries and states the status of the leader, and leads after the leader is killed."""
    with (
        serving(tmp_path, "one", location) as leader,
        serving(tmp_path, "two", location) as standby,
        connect(f"{leader.address},{standby.address}", deadline=PATIENCE) as partition,
        connect(standby.address, read_only=True, deadline=PATIENCE) as reader,
    ):
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("a", "app", UNIT)
        eventually(lambda: reader.allocation("a"), PATIENCE)
        staleness = reader.connection.staleness
        assert staleness is not None

        eventually(lambda: leader.status()["standbys"] and standby.status()["sessions"] >= 1, PATIENCE)
        eventually(lambda: leader.status()["standbys"][0]["lag"] == 0, PATIENCE)
        first, second = leader.status(), standby.status()
        assert (first["is_leading"], second["is_leading"]) == (True, False)
        assert second["leader"] == first["name"] == first["leader"]
        assert first["term"] == second["term"] == 1
        assert first["standbys"][0]["address"] == standby.address
        assert first["change"] >= staleness.change
        assert first["commits"]["p99"] > 0
        assert leader.metrics()['ugm_service_leading{partition="default"}'] == 1
        assert standby.metrics()['ugm_service_leading{partition="default"}'] == 0

        leader.process.kill()
        eventually(lambda: standby.status()["is_leading"], PATIENCE)
        assert standby.status()["term"] == 2
        assert partition.allocate("b", "app", UNIT)
        assert reader.allocation_ids() == ("a", "b")

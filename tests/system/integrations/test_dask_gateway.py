"""A real gateway of Dask with quotas: embedded with a store, and over a service."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from support.dask_gateway import DaskGateway
from support.hosts import QuotaService, free_ports, processes, retry
from support.places import DOCS, EXAMPLES
from ugm import parse_config
from ugm.partition import AbstractPartition
from ugm.store import open_partition
from ugm.testing import check_running

pytestmark = pytest.mark.hosts

EXAMPLE: Final = EXAMPLES / "dask_gateway"
GROUPS: Final = {"ana": ("lab",), "ben": ("lab",)}
CONFIG: Final = """
partitions:
- name: default
  placementrules: [{name: fixed, value: dask}]
  queues:
  - name: dask
    resources: {max: {vcore: 12}}
    limits:
    - {users: ["*"], maxresources: {vcore: 4, clusters: 2}}
    - {groups: [lab], maxresources: {vcore: 6}}

"""


class Host(NamedTuple):
    """A gateway with its quotas."""

    gateway: DaskGateway
    folder: Path
    #: None if the partition is embedded.
    service: QuotaService | None

    @contextmanager
    def ledger(self) -> Iterator[AbstractPartition]:
        """Yield the partition. An embedded one can be opened only when the gateway has ended."""
        if self.service is not None:
            with self.service.partition() as partition:
                yield partition
            return
        self.gateway.process.stop()
        with open_partition(self.folder / "quota.db", parse_config(CONFIG).partition()) as partition:
            yield partition

    def wait_until(self, predicate: Callable[[], object], what: str) -> None:
        """Wait until a predicate is true."""
        self.gateway.process.wait_until(predicate, what)

    def has_workers(self, cluster: str, number: int) -> None:
        """Wait until a cluster has a number of workers."""
        self.wait_until(lambda: len(self.gateway.workers_of(cluster)) == number, f"{number} workers of {cluster}")

    def check_ledger(self) -> None:
        """Check within a minute that the ledger has what runs, and nothing else, within the limits."""
        with self.ledger() as partition:

            def check() -> None:
                check_running(partition, self.gateway.running_work(), within_limits=True)

            retry(check)
            partition.verify()


@contextmanager
def host(kind: str, folder: Path) -> Iterator[Host]:
    """Yield a gateway that runs, with an embedded partition or a service."""
    with processes() as owner:
        service = None
        source = '"quota.yaml", store="quota.db"'
        if kind == "service":
            service = QuotaService(owner, folder, CONFIG)
            service.start()
            source = f'service="{service.address}", token_file="{service.token_file}", deadline=3'
        (folder / "quota.yaml").write_text(CONFIG)
        gateway = DaskGateway(owner, folder, source, GROUPS)
        gateway.start()
        yield Host(gateway, folder, service)


@pytest.mark.parametrize("kind", [pytest.param("embedded", marks=pytest.mark.deep), "service"])
def test_life_of_clusters(kind: str, tmp_path: Path) -> None:
    """Limits hold, denials have texts, workers that wait start after a release, and kills leave nothing wrong."""
    with host(kind, tmp_path) as one:
        gateway = one.gateway
        ana = gateway.running_cluster("ana")
        assert gateway.scale(ana, "ana", 3) is None
        one.has_workers(ana, 3)
        assert gateway.start_cluster("ana") == (
            "!Your limit allows 4 cores (in use: 4 cores), and the request is for 1 core. "
            "Try again when other work has ended."
        )

        # Another user of the group gets one worker, and the others after a release.
        ben = gateway.running_cluster("ben")
        warning = gateway.adapt(ben, "ben", 3, 3)
        assert warning is not None
        assert warning.startswith("Not all of the 3 workers can start now; the others start as soon as they fit. The ")
        one.has_workers(ben, 1)
        one.wait_until(lambda: f"worker of cluster {ben} of ben waits" in gateway.process.output(), "a worker waits")
        gateway.scale(ana, "ana", 1)
        one.has_workers(ben, 3)
        os.kill(gateway.workers_of(ben)[0].process_id, signal.SIGKILL)
        one.wait_until(lambda: len(gateway.workers_of(ben)) < 3, "the worker has ended")
        one.has_workers(ben, 3)

        # The gateway is killed, perhaps before it has recorded all starts, and a worker while it does not run.
        gateway.process.kill()
        os.kill(gateway.workers_of(ben)[0].process_id, signal.SIGKILL)
        gateway.start()
        one.has_workers(ben, 3)
        if one.service is not None:
            check_outages(one, one.service)

        # The ledger agrees, with work and without.
        one.check_ledger()
        if kind == "embedded":
            gateway.start()
        for name, user in ((ana, "ana"), (ben, "ben")):
            gateway.stop_cluster(name, user)
        one.wait_until(lambda: not gateway.running(), "the clusters end")
        one.wait_until(lambda: gateway.status(ana, "ana") == gateway.status(ben, "ben") == "STOPPED", "it is known")
        one.check_ledger()


def cluster_of(gateway: DaskGateway, user: str) -> str:
    """Return a cluster of a user that runs."""
    return next((one.cluster for one in gateway.running() if one.user == user), "")


def check_outages(one: Host, service: QuotaService) -> None:
    """Check that a service which is killed, or which does not answer, denies, and that the gateway stays up."""
    gateway = one.gateway
    service.process.kill()
    assert "not available" in gateway.start_cluster("dan")
    gateway.process.kill()
    gateway.start()
    assert "not ready" in gateway.start_cluster("dan")
    service.start()
    one.wait_until(lambda: not (started := gateway.start_cluster("dan")).startswith("!") and started, "it starts again")
    service.process.suspend()
    started = time.monotonic()
    assert "not available" in gateway.start_cluster("dan")
    assert time.monotonic() - started < 20
    assert gateway.call("GET", "/api/health")[0] == 200
    service.process.resume()
    gateway.stop_cluster(gateway.call("GET", "/api/v1/clusters/", user="dan")[1].popitem()[0], "dan")
    one.wait_until(lambda: not cluster_of(gateway, "dan"), "the cluster ends")


def test_the_example(tmp_path: Path) -> None:
    """The client of the example prints what the page shows: a warning, a result, and a denial."""
    private, public = free_ports(2)
    with processes() as owner:
        for name in ("quota.yaml", "dask_gateway_config.py"):
            shutil.copy(EXAMPLE / name, tmp_path)
        command: list[str | Path] = [
            Path(sys.executable).parent / "dask-gateway-server",
            "-f",
            "dask_gateway_config.py",
        ]
        options = [f"--DaskGateway.address=127.0.0.1:{private}", f"--Proxy.address=127.0.0.1:{public}"]
        key = {"DASK_GATEWAY_ENCRYPT_KEYS": "A" * 43 + "="}
        process = owner.start([*command, *options], tmp_path / "gateway.log", environment=key)
        process.wait_until(lambda: "200 GET /api/v1/routes" in process.output(), "the proxy has its routes")
        address = f"http://127.0.0.1:{public}"
        client = owner.start([sys.executable, EXAMPLE / "client.py", address, "ben"], tmp_path / "client.log")
        assert client.process.wait(100) == 0, client.output()
        printed = client.output()
    picture = (DOCS / "images" / "dask-gateway-denied.svg").read_text("utf-8")
    assert "GatewayWarning: Not all of the 5 workers can start now; the others start as soon as they fit." in printed
    assert "Not&#160;all&#160;of&#160;the&#160;5&#160;workers&#160;can&#160;start&#160;now;" in picture
    assert printed.splitlines()[-2] == "45"
    assert printed.splitlines()[-1].startswith("denied: Your limit allows 4 cores (in use: 4 cores), and the request")

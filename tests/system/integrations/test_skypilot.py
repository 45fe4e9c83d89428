"""SkyPilot itself asks the policy: its server with its commands.

SkyPilot pins older versions of packages that other hosts need, so it has an environment of its own: the one of
`UGM_SKYPILOT_PYTHON`, or one that is made for these tests.
"""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.hosts import MARK, HostProcess, Processes, free_ports, processes
from ugm import load_config
from ugm.store import open_partition

pytestmark = pytest.mark.hosts

VERSION: Final = "0.14.1"
CONFIG: Final = """
partitions:
- name: default
  queues:
  - name: skypilot
    resources: {max: {gpu: 12}}
    limits:
    - {users: ["*"], maxresources: {gpu: 8, vcore: 100}}
    - {groups: [physics], maxresources: {gpu: 9}}
  ugm:
    budgets:
    - {name: GPU hours, user: "*", amounts: {gpu: 1000}, unit: hour, period: week, mode: admit}
"""
#: Records a cluster as a launch does, or removes it: name, cores.
CLUSTER: Final = dedent("""
    import sys
    import sky
    from sky import backends, clouds, global_user_state

    name, cores = sys.argv[1], int(sys.argv[2])
    if cores:
        made = sky.Resources(cloud=clouds.Kubernetes(), instance_type=f"{cores}CPU--32GB")
        handle = backends.CloudVmRayResourceHandle(
            cluster_name=name, cluster_name_on_cloud=name, cluster_yaml=None, launched_nodes=1, launched_resources=made
        )
        global_user_state.add_or_update_cluster(name, handle, requested_resources={made}, ready=True)
    else:
        global_user_state.remove_cluster(name, terminate=True)
""")


@pytest.fixture(name="skypilot", scope="module")
def _skypilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with SkyPilot."""
    if given := os.environ.get("UGM_SKYPILOT_PYTHON"):
        return Path(given)
    folder = tmp_path_factory.mktemp("skypilot")
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)  # noqa: S603 - of the test
    # Most modules are never imported, so none is compiled before.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, f"skypilot=={VERSION}"], check=True)  # noqa: S603 - as above
    return python


@pytest.fixture(name="started")
def _started() -> Iterator[Processes]:
    with processes() as started:
        yield started


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    """Return an empty home for SkyPilot."""
    (tmp_path / "home" / ".sky").mkdir(parents=True)
    return tmp_path / "home"


class Policy:
    """A policy as a process.

    Attributes:
        url: its address.
        process: the process that was started last.
    """

    def __init__(self, started: Processes, folder: Path, options: list[str | Path], status: str) -> None:
        [self._port] = free_ports(1)
        self.url: Final = f"http://127.0.0.1:{self._port}/skypilot/policy"
        self._command: Final = [
            *(sys.executable, "-m", "ugm.integrations.skypilot", "serve", *options),
            *("--port", str(self._port), "--status", status, "--every", "3"),
        ]
        self._started: Final = started
        self._log: Final = folder / "policy.log"
        self.process: HostProcess

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the policy, also after it was killed, and wait until it listens."""
        seen = self._log.read_text("utf-8").count("Uvicorn running") if self._log.exists() else 0
        self.process = self._started.start(self._command, self._log, environment=environment)
        self.process.wait_until(lambda: self.process.output().count("Uvicorn running") > seen, "the policy listens")

    def reason(self, user: str, cores: int) -> str:
        """Return the reason why a cluster of a user could not start now; empty if it could."""
        body = {
            "task": f"{{resources: {{cpus: {cores}}}}}",
            "skypilot_config": "{}",
            "request_name": "validate",
            "request_options": {"cluster_name": "other", "dryrun": False},
            "at_client_side": False,
            "user": f"{{id: '1', name: {user}}}",
        }
        try:
            urlopen(self.url, json.dumps(json.dumps(body)).encode(), timeout=30).close()  # noqa: S310 - of the test
        except HTTPError as error:
            with error:
                return error.read().decode()
        return ""


def test_server_of_skypilot(started: Processes, skypilot: Path, home: Path, tmp_path: Path) -> None:
    """Users of the commands see why a cluster is rejected; the policy knows the clusters, and fails closed."""
    (tmp_path / "limits.yaml").write_text(CONFIG, "utf-8")
    sky, [port] = skypilot.with_name("sky"), free_ports(1)
    environment = {"HOME": str(home), "SKYPILOT_API_SERVER_LOCAL_PORT": str(port), "PYTHONPATH": ""}
    given = {**os.environ, **environment, MARK: started.mark}

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=given, check=False)  # noqa: S603 - SkyPilot

    def launch(name: str, cores: int) -> str:
        # Cores, because SkyPilot reads the names of accelerators from the network.
        result = run(sky, "launch", "--yes", "--cluster", name, "--cpus", str(cores), "hostname")
        assert result.returncode != 0  # no cloud is set up
        return result.stdout + result.stderr

    list_clusters = f"env HOME={home} PYTHONPATH= SKYPILOT_API_SERVER_LOCAL_PORT={port} SKYPILOT_DEBUG=1 {sky} status"
    options: list[str | Path] = [tmp_path / "limits.yaml", "--store", tmp_path / "quotas"]
    policy = Policy(started, tmp_path, options, f"{list_clusters} --all-users --output json")
    (home / ".sky" / "config.yaml").write_text(f"admin_policy: {policy.url}\n", "utf-8")
    server = started.start([sky, "api", "start", "--foreground"], tmp_path / "server.log", environment=environment)
    # Commands would start another server while this one does not answer.
    server.wait_until(lambda: urlopen(f"http://127.0.0.1:{port}/api/health").close() is None, "SkyPilot answers")
    policy.start()

    user = getpass.getuser()
    server.wait_until(lambda: not policy.reason(user, 1), "the policy is ready")
    assert "Your limit allows 100 cores at most, and the request is for 200 cores." in launch("big", 200)
    assert run(skypilot, "-c", CLUSTER, "c1", "96").returncode == 0
    in_use = "Your limit allows 100 cores (in use: 96 cores)"
    server.wait_until(lambda: in_use in policy.reason(user, 8), "the cluster counts")

    policy.process.kill()
    assert "Failed to call admin policy" in launch("c2", 8)
    policy.start()
    server.wait_until(lambda: in_use in policy.reason(user, 8), "the policy knows the cluster again")

    assert run(skypilot, "-c", CLUSTER, "c1", "0").returncode == 0
    server.wait_until(lambda: not policy.reason(user, 8), "the end of the cluster is known")
    assert "Cloud access is not set up" in launch("c2", 8)
    assert server.is_alive
    policy.process.stop()
    with open_partition(tmp_path / "quotas", load_config(tmp_path / "limits.yaml").partition()) as partition:
        assert [one.allocation_id for one in partition.allocations()] == ["skypilot/c2"]
        partition.verify()

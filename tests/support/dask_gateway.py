"""A real gateway of Dask on the loopback interface, and what runs for it."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, NamedTuple

from support.hosts import MARK, HostProcess, Processes, free_ports
from ugm import Resource, UserGroup
from ugm.partition import RunningApplication

_CONFIG: Final = """
from dask_gateway_server.auth import SimpleAuthenticator
from dask_gateway_server.backends.local import UnsafeLocalBackend

from ugm.integrations.dask_gateway import limited, quota_source

GROUPS = {groups!r}

class Authenticator(SimpleAuthenticator):
    async def authenticate(self, request):
        user = await super().authenticate(request)
        user.groups = set(GROUPS.get(user.name, ()))
        return user


c.DaskGateway.backend_class = limited(UnsafeLocalBackend, quota_source({source}), poll=2)
c.DaskGateway.authenticator_class = Authenticator

c.DaskGateway.address = "127.0.0.1:{private}"
c.Proxy.address = "127.0.0.1:{public}"
c.Proxy.tcp_address = "127.0.0.1:{schedulers}"
c.Backend.db_url = "sqlite:///gateway.sqlite"
c.Backend.db_encrypt_keys = ["{key}"]
c.Backend.stop_clusters_on_shutdown = False
c.Backend.cluster_heartbeat_period = 1
c.Backend.worker_status_period = c.Backend.cluster_status_period = 2
c.Backend.cluster_heartbeat_timeout = 120
c.Backend.cluster_start_timeout = c.Backend.worker_start_timeout = 120
c.UnsafeLocalBackend.inherited_environment = ["PATH", "PYTHONPATH", "{mark}"]
c.UnsafeLocalBackend.sigint_timeout = 2
c.ClusterConfig.scheduler_cmd = ["dask", "scheduler"]
c.ClusterConfig.worker_cmd = ["dask", "worker", "--no-nanny"]
c.ClusterConfig.adaptive_period = 0.5
"""


class GatewayProcess(NamedTuple):
    """A scheduler or worker that runs."""

    process_id: int
    user: str
    cluster: str
    #: The name of the worker; None for a scheduler.
    worker: str | None


class DaskGateway:
    """A gateway with its database in a folder, which can be killed and started again.

    Attributes:
        process: the process that was started last.
        address: the address for clients.

    """

    process: HostProcess

    def __init__(self, owner: Processes, folder: Path, source: str, groups: Mapping[str, tuple[str, ...]]) -> None:
        private, public, schedulers = free_ports(3)
        self._owner: Final = owner
        self._folder: Final = folder
        self._public: Final = public
        self.address: Final = f"http://127.0.0.1:{public}"

        #: Without setproctitle, the command line of a process stays readable.
        self._plain: Final = folder / "plain"
        self._plain.mkdir(exist_ok=True)
        (self._plain / "setproctitle.py").write_text("raise ImportError\n")
        (folder / "dask_gateway_config.py").write_text(
            _CONFIG.format(
                source=source,
                groups=dict(groups),
                mark=MARK,
                key="A" * 43 + "=",
                private=private,
                public=public,
                schedulers=schedulers,
            )
        )

    def start(self) -> None:
        """Start the gateway, also after it was killed, and wait until it answers through its proxy."""
        command = Path(sys.executable).parent / "dask-gateway-server"
        log = self._folder / "gateway.log"
        modules = os.pathsep.join([str(self._plain), *filter(None, sys.path)])
        self.process = self._owner.start(
            [command, "-f", "dask_gateway_config.py"], log, environment={"PYTHONPATH": modules}
        )
        self.process.wait_until(lambda: self.call("GET", "/api/health")[0] == 200, "the gateway answers")

    def call(self, method: str, path: str, body: object = None, user: str = "ana") -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        connection = HTTPConnection("127.0.0.1", self._public, timeout=60)
        name = base64.b64encode(f"{user}:x".encode()).decode()
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"Authorization": f"Basic {name}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text.startswith(b"{") else None

    def start_cluster(self, user: str) -> str:
        """Start a cluster and return its name, or the text of the denial after a ``!``."""
        status, answer = self.call("POST", "/api/v1/clusters/", {"cluster_options": {}}, user)
        assert status in {201, 422}, (status, answer)
        return str(answer["name"]) if status == 201 else f"!{answer['error']}"

    def running_cluster(self, user: str) -> str:
        """Start a cluster and wait until it runs; a denial may be that of work which has just ended."""
        name = self.process.wait_until(
            lambda: "" if (one := self.start_cluster(user)).startswith("!") else one, f"a cluster of {user} is granted"
        )
        self.process.wait_until(lambda: self.status(name, user) == "RUNNING", f"the cluster of {user} runs")
        return name

    def status(self, cluster: str, user: str) -> str:
        """Return the status of a cluster."""
        return str(self.call("GET", f"/api/v1/clusters/{cluster}", user=user)[1]["status"])

    def scale(self, cluster: str, user: str, count: int) -> str | None:
        """Wish for a number of workers, and return the warning."""
        return self._wish(f"{cluster}/scale", user, {"count": count})

    def adapt(self, cluster: str, user: str, minimum: int, maximum: int) -> str | None:
        """Let the scheduler wish for workers, and return the warning."""
        return self._wish(f"{cluster}/adapt", user, {"minimum": minimum, "maximum": maximum, "active": True})

    def _wish(self, path: str, user: str, body: object) -> str | None:
        status, answer = self.call("POST", f"/api/v1/clusters/{path}", body, user)
        assert status == 200, answer
        return str(answer["msg"]) if answer["msg"] else None

    def stop_cluster(self, cluster: str, user: str) -> None:
        """Stop a cluster."""
        assert self.call("DELETE", f"/api/v1/clusters/{cluster}", user=user)[0] == 204

    def running(self) -> list[GatewayProcess]:
        """Return the schedulers and workers that run."""
        return [one for path in Path("/proc").glob("[0-9]*") if (one := self._read(path)) is not None]

    def _read(self, path: Path) -> GatewayProcess | None:
        with suppress(OSError, ProcessLookupError):
            environment = dict(
                part.split("=", 1) for part in (path / "environ").read_text("utf-8").split("\0") if "=" in part
            )
            arguments = (path / "cmdline").read_text("utf-8").split("\0")
            ours = environment.get(MARK) == self._owner.mark and "DASK_GATEWAY_CLUSTER_NAME" in environment
            if ours and os.getsid(int(path.name)) == int(path.name) and len(arguments) > 1:
                worker = arguments[arguments.index("--name") + 1] if "--name" in arguments else None
                cluster = environment["DASK_GATEWAY_CLUSTER_NAME"]
                return GatewayProcess(int(path.name), environment["USER"], cluster, worker)
        return None

    def workers_of(self, cluster: str) -> list[GatewayProcess]:
        """Return the workers of a cluster that run."""
        return [one for one in self.running() if one.cluster == cluster and one.worker]

    def running_work(self) -> list[RunningApplication]:
        """Return what runs, in the terms of the ledger."""
        allocations: dict[tuple[str, str], list[tuple[str, Resource]]] = {}
        memory = 2 * 1024**3
        for one in self.running():
            usage = Resource(vcore=1000, memory=memory, **{"workers" if one.worker else "clusters": 1})
            name = f"dask-gateway/{one.cluster}/{one.worker or 'scheduler'}"
            allocations.setdefault((one.cluster, one.user), []).append((name, usage))
        return [
            RunningApplication(f"dask-gateway/{cluster}", UserGroup(user), "root.dask", specs)
            for (cluster, user), specs in allocations.items()
        ]

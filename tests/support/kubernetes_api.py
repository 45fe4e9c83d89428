"""A process that serves the objects of a cluster like an API server: ``python -m support.kubernetes_api PORT PODS``.

PODS is a file with the pods at the start.
It has no admission: a test asks the webhook, and creates an allowed pod here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import kmock
from aiohttp import web

from support.hosts import HostProcess, Processes, free_ports

_PODS: Final = "/api/v1/namespaces/{}/pods"


class ClusterProcess:
    """An API server in another process.

    Attributes:
        kubeconfig: the file with its address.
        process: the process.
    """

    def __init__(self, owner: Processes, folder: Path, pods: Sequence[dict[str, Any]] = ()) -> None:
        [self._port] = free_ports(1)
        self.kubeconfig: Final = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(f"http://127.0.0.1:{self._port}")), "utf-8")
        file = folder / "pods.json"
        file.write_text(json.dumps(pods), "utf-8")
        command = (sys.executable, "-m", "support.kubernetes_api", str(self._port), str(file))
        self.process: Final[HostProcess] = owner.start(command, folder / "api.log")
        self.process.wait_until(lambda: self._call("GET", "/api/v1"), "the API server answers")

    def create(self, manifest: dict[str, Any]) -> None:
        """Store a pod."""
        self._call("POST", _PODS.format(manifest["metadata"]["namespace"]), manifest)

    def set_phase(self, manifest: dict[str, Any], phase: str) -> None:
        """Let a pod start or finish."""
        self._call("PATCH", self._path(manifest), {"status": {"phase": phase}})

    def delete(self, manifest: dict[str, Any]) -> None:
        """Remove a pod."""
        self._call("DELETE", self._path(manifest))

    @staticmethod
    def _path(manifest: dict[str, Any]) -> str:
        return f"{_PODS.format(manifest['metadata']['namespace'])}/{manifest['metadata']['name']}"

    def _call(self, method: str, path: str, body: object = None) -> object:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"http://127.0.0.1:{self._port}{path}", data, headers, method=method)
        with urlopen(request, timeout=30) as answer:  # noqa: S310 - the server of the test
            return json.load(answer)


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {}}],
    }


async def _serve(port: int, pods: Sequence[dict[str, Any]]) -> None:
    async with kmock.KubernetesEmulator() as cluster:
        cluster.resources.load_bundled()
        for one in pods:
            cluster.objects["v1/pods", one["metadata"]["namespace"], one["metadata"]["name"]] = one

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/api/v1/namespaces":  # kmock cannot read this path
                return web.json_response({"metadata": {}, "items": [{"metadata": {"name": "dev"}}]})
            return await cluster(request)

        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text("utf-8"))))

"""A policy for SkyPilot, which grants or rejects the clusters of its users.

::

    python -m ugm.integrations.skypilot serve limits.yaml --store quotas.db --port 8090
    python -m ugm.integrations.skypilot reconcile --service unix:/run/ugm.sock < status.json

The API server of SkyPilot posts each request of a user to the address in its configuration:
``admin_policy: http://127.0.0.1:8090/skypilot/policy``. A status of 400 with a text rejects the request, and 200 with
the request accepts it. Any other answer rejects it as well.

An application is a cluster, also that of a managed job or of a replica. It has one allocation with the same id: the
resources of the task on all nodes. The owner is the user of the request, in the group of the active workspace. A grant
is tentative until SkyPilot lists the cluster. Other requests only learn early that they would be rejected.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, Final, NamedTuple

import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ugm.errors import RequestError, UgmError
from ugm.identity import UserGroup
from ugm.integrations import GrantDeniedError, Grants, Work, quota_source
from ugm.partition import OwnedAllocation, RunningApplication
from ugm.resources import Resource

_HOST: Final = "skypilot"
#: The requests that start a cluster, and those that come before one.
_STARTS: Final = frozenset({"launch", "jobs.launch_cluster", "serve.launch_replica"})
_EARLY: Final = frozenset({"validate", "optimize", "jobs.launch", "jobs.pool_apply", "serve.up"})
#: The names of the clusters that SkyPilot needs itself begin so.
_CONTROLLERS: Final = ("sky-jobs-controller", "sky-serve-controller")
#: Lists all clusters, with those of managed jobs, which SkyPilot only shows with this variable.
_STATUS: Final = "env SKYPILOT_DEBUG=1 sky status --all-users --output json"
#: The seconds in which SkyPilot has to list its clusters.
_DEADLINE: Final = 300
#: The seconds in which it lists a cluster that it starts.
_TENTATIVE: Final = 600


class _PolicyRequest(NamedTuple):
    """A request of a user, as SkyPilot posts it."""

    #: The operation; empty if it is a dry run, or if a client asks, whose user cannot be trusted.
    name: str
    #: The name of the cluster; empty if SkyPilot chooses it later.
    cluster: str
    #: The id of the application and of its allocation in the partition.
    key: str
    user: UserGroup
    #: For placement rules.
    tags: dict[str, str]
    usage: Resource

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> _PolicyRequest:
        """Return the request in a body."""
        options = body.get("request_options") or {}
        name = "" if body["at_client_side"] or options.get("dryrun") else body["request_name"]
        user, config, task = (yaml.safe_load(body[name]) or {} for name in ("user", "skypilot_config", "task"))
        workspace, cluster = config.get("active_workspace", "default"), options.get("cluster_name") or ""
        owner = UserGroup(user.get("name") or user.get("id", "unknown"), (workspace,))
        return cls(name, cluster, f"{_HOST}/{cluster}", owner, {"workspace": workspace}, task_usage(task))


class Clusters(NamedTuple):
    """The clusters of SkyPilot, and the grants for them."""

    grants: Grants
    #: The queue of all clusters, unless placement rules choose another one.
    queue: str = "root.skypilot"

    async def answer(self, request: Request) -> Response:
        """Answer a request of SkyPilot, whose body is a text with JSON, encoded as JSON."""
        body = json.loads(await request.json())
        posted = _PolicyRequest.of(body)
        try:
            if posted.name in _STARTS and posted.cluster:
                await self._grant(posted)
            elif posted.name in _EARLY:
                await self._check(posted)
        except (UgmError, OSError) as error:
            return PlainTextResponse(str(error), 400)
        return JSONResponse(json.dumps({name: body[name] for name in ("task", "skypilot_config")}))

    async def _grant(self, request: _PolicyRequest) -> None:
        allocations = [(request.cluster, request.usage)]
        try:
            await self.grants.grant(request.cluster, request.user, self.queue, allocations, tags=request.tags)
        except RequestError as error:
            if error.code != "id-in-use":
                raise
            await self._grow(request)
        # A cluster that has just ended may be in the ledger, and is about to start again.
        await self.grants.run(lambda partition: partition.renew(request.key, _TENTATIVE))

    async def _grow(self, request: _PolicyRequest) -> None:
        """Let an existing cluster have what the request needs. A smaller request uses a part of the cluster."""
        held = await self.grants.run(lambda partition: partition.allocation(request.key))
        if held is not None and request.usage.fits_in(held.usage, closed=True):
            return
        decision = await self.grants.run(lambda partition: partition.resize(request.key, request.usage))
        if not decision:
            raise GrantDeniedError.of(decision)

    async def _check(self, request: _PolicyRequest) -> None:
        """Reject a request early: a cluster that cannot start now, or a job that never can. Jobs may wait."""
        held = await self.grants.run(lambda partition: partition.allocation(request.key))
        subject = request.user, self.queue, request.usage, request.tags
        report = await self.grants.run(lambda partition: partition.explain_submission(*subject))
        decision = report.explanation.decision
        if held is None and report.placement and not decision and (request.cluster or not decision.can_wait):
            raise GrantDeniedError.of(decision)

    def work(self, records: Iterable[Mapping[str, Any]], held: Mapping[str, OwnedAllocation]) -> Work:
        """Return the clusters that have machines, from what ``sky status`` prints."""
        found = [one for one in records if one["status"] != "STOPPED" and not one["name"].startswith(_CONTROLLERS)]
        return Work([self._running(one, held.get(one["name"])) for one in found])

    def _running(self, record: Mapping[str, Any], held: OwnedAllocation | None) -> RunningApplication:
        """Return a cluster. Its size is that of its machines, or of the grant while they are not known."""
        name, workspace = record["name"], record["workspace"]
        owner = UserGroup(record["user_name"] if held is None else held.user, (workspace,))
        usage = task_usage({"num_nodes": record["nodes"], "resources": record})
        if held is not None and record["cpus"] is None:
            usage = held.allocation.usage
        return RunningApplication(name, owner, self.queue, [(name, usage)], {"workspace": workspace})


# Amounts


def task_usage(task: Mapping[str, Any]) -> Resource:
    """Return what a task of SkyPilot takes on all nodes; of several alternatives, the largest amounts.

    >>> task_usage({"num_nodes": 2, "resources": {"cpus": "4+", "memory": "16", "accelerators": {"A100": 8}}})
    Resource(A100=16, clusters=1, gpu=16, memory=34359738368, nodes=2, vcore=8000)
    """
    declared = dict(task.get("resources") or {})
    nodes, largest = int(task.get("num_nodes") or 1), dict[str, int]()
    for choice in declared.pop("any_of", None) or declared.pop("ordered", None) or [{}]:
        for name, amount in _node_usage({**declared, **choice}).items():
            largest[name] = max(largest.get(name, 0), amount)
    return Resource({"clusters": 1, "nodes": nodes, **{name: nodes * amount for name, amount in largest.items()}})


def _node_usage(resources: Mapping[str, Any]) -> dict[str, int]:
    # A task has a mapping; the status has its text.
    accelerators = yaml.safe_load(str(resources.get("accelerators") or {}))
    usage = {name: ceil(Fraction(amount)) for name, amount in accelerators.items()}
    gpus = sum(amount for name, amount in usage.items() if not name.startswith("tpu"))
    cpus, memory = (str(resources.get(name) or "0").rstrip("+") for name in ("cpus", "memory"))
    gigabytes = Fraction(memory.rstrip("x")) * (Fraction(cpus) if memory.endswith("x") else 1)
    return usage | {"gpu": gpus, "vcore": ceil(1000 * Fraction(cpus)), "memory": ceil(2**30 * gigabytes)}


# Processes


def create_app(clusters: Clusters) -> Starlette:
    """Return the application with the policy."""
    return Starlette(routes=[Route("/skypilot/policy", clusters.answer, methods=["POST"])])


def _records(text: str) -> Any:  # noqa: ANN401 - JSON
    """Return the list in an output, which may have lines of a log before and after it."""
    output = f"\n{text}"
    return json.JSONDecoder().raw_decode(output, output.index("\n[") + 1)[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the policy, or make the partition agree with SkyPilot once."""
    options = _parser().parse_args(arguments)
    try:
        source = quota_source(
            options.config, store=options.store, service=options.service, token_file=options.token_file
        )
        clusters = Clusters(Grants(source, _HOST, tentative=_TENTATIVE), options.queue)
        asyncio.run(_serve(clusters, options) if options.command == "serve" else _reconcile(clusters))
    except (UgmError, OSError) as error:
        sys.exit(f"{error}")


async def _reconcile(clusters: Clusters) -> None:
    records = _records(sys.stdin.read())
    print(await clusters.grants.reconcile(lambda held: clusters.work(records, held)))  # noqa: T201 - a command


async def _serve(clusters: Clusters, options: argparse.Namespace) -> None:
    command = shlex.split(options.status)

    async def listed(held: Mapping[str, OwnedAllocation]) -> Work:
        output = await asyncio.to_thread(subprocess.check_output, command, timeout=_DEADLINE)
        return clusters.work(_records(output.decode()), held)

    task = asyncio.ensure_future(clusters.grants.keep_reconciled(listed, every=options.every))
    await uvicorn.Server(uvicorn.Config(create_app(clusters), options.host, options.port)).serve()
    task.cancel()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("ugm.integrations.skypilot", description="Quotas for the clusters of SkyPilot.")
    add = parser.add_argument
    add("command", choices=("serve", "reconcile"), help="serve the policy, or read clusters from the standard input")
    add("config", nargs="?", help="the configuration with the limits, instead of a service")
    add("--store", metavar="FILE", help="keeps grants and used budgets")
    add("--service", metavar="ADDRESSES", help="the quota service, as for ugm.connect")
    add("--token-file", metavar="FILE", help="has the token of the service")
    add("--queue", default="root.skypilot", help="the queue of the clusters")
    add("--host", default="127.0.0.1", help="the address to listen on")
    add("--port", type=int, default=8090, help="the port to listen on")
    add("--status", default=_STATUS, metavar="COMMAND", help=f"lists the clusters; the default is: {_STATUS}")
    add("--every", type=float, default=60.0, metavar="SECONDS", help="the time between two lists")
    return parser


if __name__ == "__main__":
    main()

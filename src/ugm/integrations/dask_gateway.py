"""Quotas for Dask Gateway: limits on the clusters and workers of users and groups.

Three lines in ``dask_gateway_config.py`` limit any backend that keeps its state in the database of the gateway::

    from dask_gateway_server.backends.local import UnsafeLocalBackend
    from ugm.integrations.dask_gateway import limited, quota_source
    c.DaskGateway.backend_class = limited(UnsafeLocalBackend, quota_source("quota.yaml", store="quota.db"))

A cluster is an application, and its scheduler and each of its workers are allocations. The gateway records a cluster
or worker before it starts it, and the adapter asks for a grant between the two. A cluster that is denied fails at once,
with sentences for its user. A worker that is denied stays recorded, and becomes a pending request. The adapter asks
again when it fits, so it does not count as a failed start. A cluster has at most one such worker, however many it
wishes for.

The database of the gateway says what runs, also after a crash between any two steps. The groups of the user are in the
recorded configuration of the cluster, because the gateway itself stores none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from importlib import import_module
from math import ceil
from types import new_class
from typing import Any, Final, NamedTuple, TypeAlias

from ugm.errors import RequestError
from ugm.identity import UserGroup
from ugm.integrations.grants import GrantDeniedError, Grants, Remedy, Work
from ugm.integrations.sources import PartitionSource, quota_source
from ugm.partition import OwnedAllocation, RunningApplication
from ugm.resources import Resource

__all__ = ["UsageOf", "limited", "quota_source", "scheduler_usage", "worker_usage"]

#: The groups of the user, in the recorded configuration of a cluster.
_GROUPS: Final = "ugm_groups"
#: The requests after which a user is warned that workers have to wait.
_SCALING: Final = ("/scale", "/adapt")


# The gateway has no types. These names tell which of its objects a function takes.

#: A user, with a ``name`` and ``groups``.
_User: TypeAlias = Any
#: The `ClusterConfig` of a cluster.
_Config: TypeAlias = Any
#: A cluster or a worker in the database of the gateway.
_Cluster: TypeAlias = Any
_Worker: TypeAlias = Any
_Record: TypeAlias = Any

#: The backend that is extended, a subclass of `DBBackendBase`.
_Backend: Any = object

#: Returns the resources of a scheduler or worker, from the `ClusterConfig` of its cluster.
UsageOf: TypeAlias = Callable[[Any], Resource]


def scheduler_usage(config: _Config) -> Resource:
    """Return the usage of a scheduler: its cores and memory, and one of the resource ``clusters``."""
    return Resource(clusters=1, vcore=ceil(1000 * config.scheduler_cores), memory=config.scheduler_memory)


def worker_usage(config: _Config) -> Resource:
    """Return the usage of a worker: its cores and memory, and one of the resource ``workers``."""
    return Resource(workers=1, vcore=ceil(1000 * config.worker_cores), memory=config.worker_memory)


def limited(
    backend: type[Any],
    source: PartitionSource,
    *,
    queue: str = "",
    host: str = "dask-gateway",
    scheduler: UsageOf = scheduler_usage,
    worker: UsageOf = worker_usage,
    poll: float = 30.0,
) -> type[Any]:
    """Return a backend class whose clusters and workers start only within the quotas.

    Args:
        backend: a backend that keeps its state in the database of the gateway.
        source: the quotas, as `ugm.integrations.quota_source` returns them.
        queue: the queue of all clusters; empty if placement rules choose it.
        host: the name of the gateway. Gateways that share a service need different names.
        scheduler: returns the usage of a scheduler.
        worker: returns the usage of a worker.
        poll: the seconds after which workers that were denied are asked for again. A release that lets one of them fit
            does so at once.

    Raises:
        RequestError: the backend keeps its state elsewhere, or starts clusters in its own way.
    """
    database = import_module("dask_gateway_server.backends.db_base")
    if not issubclass(backend, database.DBBackendBase):
        reason = "it does not keep its clusters in the database of the gateway (allowed: subclasses of DBBackendBase); "
        advice = "for the Kubernetes backend, limit the pods with the admission webhook"
        raise RequestError("backend", backend.__name__, reason + advice)
    if backend.start_cluster is not database.DBBackendBase.start_cluster:
        reason = "its own start_cluster would not be called; derive the class from limited(...) instead"
        raise RequestError("backend", backend.__name__, reason)
    public_error = import_module("dask_gateway_server.backends.base").PublicException
    terms = _Terms(source, queue, host, scheduler, worker, poll, database.JobStatus, public_error)
    body = {"_terms": terms, "__module__": __name__, "__doc__": backend.__doc__}
    return new_class(f"Limited{backend.__name__}", (_LimitedBackend, backend), exec_body=lambda own: own.update(body))


class _Terms(NamedTuple):
    """The arguments of `limited`, and two classes of the gateway."""

    source: PartitionSource
    queue: str
    host: str
    scheduler: UsageOf
    worker: UsageOf
    poll: float
    status: Any
    public_error: type[Exception]


class _LimitedBackend(_Backend):  # type: ignore[misc] # it has no types
    """Asks for a grant between the record of a cluster or worker and its start."""

    _terms: _Terms
    _grants: Grants

    async def setup(self, app: Any) -> None:  # noqa: ANN401 - the web application
        """Start the backend; nothing is granted before the ledger agrees with the database."""
        self._grants = Grants(self._terms.source, self._terms.host)
        #: The clusters that wait for an answer, and the workers that have one and are about to start.
        self._starting: set[str] = set()
        #: The clusters of an earlier process that have sent no heartbeat yet.
        self._silent: set[str] = set()
        #: The text of the last denial of each cluster, so that it is logged once.
        self._denials: dict[str, str] = {}
        app.middlewares.append(self._scale_warnings())
        await super().setup(app)
        self._silent.update(one.name for one in self.db.active_clusters() if one.status == self._terms.status.RUNNING)
        self.task_pool.spawn(self._grants.keep_reconciled(self._work))
        self.task_pool.spawn(self._ask_again())

    # Clusters

    async def start_cluster(self, user: _User, cluster_options: object) -> str:
        """Record and start a cluster, or raise an error for its user."""
        options, config = await self.process_cluster_options(user, cluster_options)
        cluster = self.db.create_cluster(user.name, options, {**config.to_dict(), _GROUPS: sorted(user.groups)})
        self._starting.add(cluster.name)
        try:
            await self._grant(cluster)
        except BaseException as error:
            self._drop(cluster)
            if isinstance(error, GrantDeniedError):
                raise self._terms.public_error(str(error)) from None
            raise
        finally:
            self._starting.discard(cluster.name)
        if cluster.target != self._terms.status.RUNNING:
            await self._grants.end(cluster.name)  # the user has stopped it before it was granted
        self.log.info("Created cluster %s for user %s", cluster.name, user.name)
        self.queue.put(cluster)
        return str(cluster.name)

    async def _grant(self, cluster: _Cluster) -> None:
        usage = self._terms.scheduler(cluster.config)
        await self._grants.grant(cluster.name, _owner(cluster), self._terms.queue, [(_scheduler_id(cluster), usage)])

    def _drop(self, cluster: _Cluster) -> None:
        """Record that a cluster has failed, so long ago that the gateway soon removes the record."""
        failed = self._terms.status.FAILED
        self.db.update_cluster(cluster, status=failed, target=failed, stop_time=0)
        cluster.ready.set()
        cluster.shutdown.set()

    async def _cluster_to_submitted(self, cluster: _Cluster) -> None:
        """Start a cluster. The grant is repeated, because the gateway may have been killed before it."""
        try:
            await self._grant(cluster)
        except GrantDeniedError as denial:
            self._log_denial(cluster, "scheduler", denial)
            if denial.remedy is not Remedy.SERVICE:
                self._drop(cluster)
        else:
            await super()._cluster_to_submitted(cluster)

    async def _cluster_to_stopped(self, cluster: _Cluster) -> None:
        await super()._cluster_to_stopped(cluster)
        self._denials.pop(cluster.name, None)
        await self._grants.end(cluster.name)

    # Workers

    async def _check_cluster_scale(self, cluster: _Cluster) -> None:
        """Record the next worker that a cluster wishes for, unless one of them is not granted yet."""
        active = cluster.active_workers()
        has_failed = cluster.worker_start_failure_count >= self.worker_start_failure_limit
        if has_failed or cluster.count <= len(active):
            await super()._check_cluster_scale(cluster)
        elif not any(map(self._is_undecided, active)):
            self.queue.put(self.db.create_worker(cluster))

    async def _worker_to_submitted(self, worker: _Worker) -> None:
        """Start a worker, or leave it as it is until it is granted."""
        cluster = worker.cluster
        if cluster.name in self._silent:
            return  # the worker may run: an earlier process may have been killed before it recorded the start
        usage = self._terms.worker(cluster.config)
        try:
            await self._grants.extend(cluster.name, [(_worker_id(worker), usage)], waits=True)
        except GrantDeniedError as denial:
            self._log_denial(cluster, "worker", denial)
            return
        if worker.target != self._terms.status.RUNNING:
            return  # the cluster has withdrawn its wish, so the worker is in the queue again
        self._denials.pop(cluster.name, None)
        self._starting.add(worker.name)
        # The gateway measures the time of a start from here.
        self.db.update_worker(worker, start_time=int(time.time() * 1000))
        self.queue.put(cluster)
        try:
            await super()._worker_to_submitted(worker)
        finally:
            self._starting.discard(worker.name)

    async def on_cluster_heartbeat(self, cluster_name: str, msg: object) -> None:
        """Record the workers that run."""
        await super().on_cluster_heartbeat(cluster_name, msg)
        cluster = self.db.get_cluster(cluster_name)
        if cluster is not None and cluster_name in self._silent:
            # Only now it is known which workers run, and whether the cluster needs another one.
            self.queue.put(cluster)
        self._silent.discard(cluster_name)

    async def _worker_to_stopped(self, worker: _Worker) -> None:
        await super()._worker_to_stopped(worker)
        await self._grants.release(_worker_id(worker))

    def _is_undecided(self, one: _Record) -> bool:
        """Return whether a cluster or worker is recorded, and neither granted nor withdrawn."""
        status = self._terms.status
        return one.status == status.CREATED and one.target == status.RUNNING and one.name not in self._starting

    async def _ask_again(self) -> None:
        """Put denied clusters and workers into the queue of the gateway again, the oldest first."""
        while True:
            await self._grants.wait(self._terms.poll)
            records = [one for each in self.db.active_clusters() for one in (each, *each.active_workers())]
            for one in sorted(filter(self._is_undecided, records), key=lambda one: one.start_time):
                self.queue.put(one)

    def _log_denial(self, cluster: _Cluster, kind: str, denial: GrantDeniedError) -> None:
        if self._denials.get(cluster.name) != denial.text:
            self._denials[cluster.name] = denial.text
            self.log.info("The next %s of cluster %s of %s waits: %s", kind, cluster.name, cluster.username, denial)

    # Warnings

    def _scale_warnings(self) -> object:
        """Return a middleware that lets the client of the gateway warn its user about workers that have to wait."""
        web = import_module("aiohttp.web")

        async def warn(request: Any, handler: Callable[[object], Awaitable[Any]]) -> object:  # noqa: ANN401 - no types
            response = await handler(request)
            if response.status != HTTPStatus.OK or not request.path.endswith(_SCALING):
                return response
            wish, answer = await request.json(), json.loads(response.body)
            count = wish.get("count", wish.get("minimum")) or 0
            text = answer["msg"] or await self._shortage(request.match_info["cluster_name"], count)
            return web.json_response({"ok": not text, "msg": text})

        return web.middleware(warn)

    async def _shortage(self, cluster_name: str, count: int) -> str | None:
        """Return why not all of the workers that a user wishes for can start now, in one line; None if they can."""
        cluster: _Cluster = self.db.get_cluster(cluster_name)
        missing = count - sum(not self._is_undecided(one) for one in cluster.active_workers())
        if missing <= 0:
            return None
        name, usage = self._grants.ledger_id(cluster_name), self._terms.worker(cluster.config)
        try:
            decision = await self._grants.run(lambda partition: partition.check(name, usage * missing))
        except Exception as error:  # noqa: BLE001 - the wish itself is accepted
            self.log.info("The user of cluster %s is not warned: %s", cluster_name, error)
            return None
        if decision:
            return None
        when = " now; the others start as soon as they fit" if decision.can_wait else ""
        return " ".join(f"Not all of the {count} workers can start{when}. {decision.for_people()}".split())

    # Comparison

    def _work(self, held: Mapping[str, OwnedAllocation]) -> Work:
        """Return the clusters and workers that are recorded and started, or granted."""
        clusters: Iterable[_Cluster] = self.db.name_to_cluster.values()
        return Work([self._running(one, held) for one in clusters if self._has_grant(one, _scheduler_id(one), held)])

    def _running(self, cluster: _Cluster, held: Mapping[str, OwnedAllocation]) -> RunningApplication:
        name = _scheduler_id(cluster)
        allocations = [(name, self._size(cluster, self._terms.scheduler, scheduler_usage, held.get(name)))]
        allocations += [
            (name, self._size(cluster, self._terms.worker, worker_usage, held.get(name)))
            for one in cluster.workers.values()
            if self._has_grant(one, name := _worker_id(one), held)
        ]
        return RunningApplication(cluster.name, _owner(cluster), self._terms.queue, allocations)

    def _size(self, cluster: _Cluster, usage: UsageOf, default: UsageOf, held: OwnedAllocation | None) -> Resource:
        """Return the size of what runs; the function of the operator may not know older configurations."""
        try:
            return usage(cluster.config)
        except Exception as error:  # noqa: BLE001 - nothing could start if the comparison failed
            self.log.warning("The usage of cluster %s is unknown: %r", cluster.name, error)
            return held.allocation.usage if held else default(cluster.config)

    def _has_grant(self, one: _Record, allocation_id: str, held: Mapping[str, OwnedAllocation]) -> bool:
        status = self._terms.status
        return one.status < status.STOPPED and (one.status > status.CREATED or allocation_id in held)


def _scheduler_id(cluster: _Cluster) -> str:
    return f"{cluster.name}/scheduler"


def _worker_id(worker: _Worker) -> str:
    return f"{worker.cluster.name}/{worker.name}"


def _owner(cluster: _Cluster) -> UserGroup:
    return UserGroup(cluster.username, cluster.config.get(_GROUPS, ()))

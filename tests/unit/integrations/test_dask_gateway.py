"""The backends of Dask Gateway with quotas: the gateway's own state machine, without processes and without a proxy.

`tests/system/integrations` has denials, warnings and outages with the gateway itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web  # type: ignore[import-not-found, unused-ignore]
from dask_gateway_server import models  # type: ignore[import-not-found, import-untyped, unused-ignore]
from dask_gateway_server.backends import base, db_base  # type: ignore[import-not-found, import-untyped, unused-ignore]
from traitlets.config import Config  # type: ignore[import-not-found, unused-ignore]

from support.places import EXAMPLES
from support.service_fixtures import running
from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.integrations.dask_gateway import limited
from ugm.integrations.sources import PartitionSource, quota_source
from ugm.partition import AbstractPartition, AllocationState
from ugm.service import connect
from ugm.store import open_partition
from ugm.testing import check_never_above

pytestmark = pytest.mark.ci

CONFIG: Final = """
partitions:
- name: default
  queues:
  - name: dask
    resources: {max: {vcore: 8}}
    limits:
    - {users: ["*"], maxresources: {vcore: 5, clusters: 3}}
    - {groups: [lab], maxresources: {vcore: 7}}
"""
PARTITION: Final = parse_config(CONFIG).partition()
ANA, BEN = (models.User(name, groups={"lab"}) for name in ("ana", "ben"))
DAN = models.User("dan")


class World:
    """What runs outside of the gateway: schedulers with their wishes, and workers. It survives the gateway.

    Attributes:
        wishes: the number of workers that each running scheduler wishes for.
        workers: the cluster of each worker that runs.
        owners: the user of each cluster.
        most: the largest number of processes of each user, and of all, at a time.
    """

    def __init__(self) -> None:
        self.wishes: Final[dict[str, int]] = {}
        self.workers: Final[dict[str, str]] = {}
        self.closed: Final[set[str]] = set()
        self.owners: Final[dict[str, str]] = {}
        self.most: Final[Counter[str]] = Counter()

    def count(self) -> None:
        """Note the processes of each user, and of all together."""
        for user, number in [*self.processes().items(), ("all", self.processes().total())]:
            self.most[user] = max(self.most[user], number)

    def processes(self) -> Counter[str]:
        """Return the number of processes of each user."""
        return Counter(self.owners[name] for name in [*self.wishes, *self.workers.values()])

    def workers_of(self, cluster: str) -> list[str]:
        """Return the workers of a cluster."""
        return [name for name, owner in self.workers.items() if owner == cluster]


class Simulated(db_base.DBBackendBase):  # type: ignore[misc]
    """A backend that starts no processes."""

    world: World

    async def do_start_cluster(self, cluster: Any) -> AsyncIterator[dict[str, str]]:  # noqa: ANN401 - no types
        """Start a scheduler."""
        self.world.owners[cluster.name] = cluster.username
        self.world.wishes.setdefault(cluster.name, 0)
        self.world.count()
        yield {}

    async def do_start_worker(self, worker: Any) -> AsyncIterator[dict[str, str]]:  # noqa: ANN401 - no types
        """Start a worker."""
        if worker.name in self.world.workers:
            raise FileExistsError(worker.name)
        self.world.workers[worker.name] = worker.cluster.name
        self.world.count()
        yield {"pid": worker.name}

    async def do_stop_cluster(self, cluster: Any) -> None:  # noqa: ANN401 - no types
        """Stop a scheduler with its workers."""
        self.world.wishes.pop(cluster.name, None)
        for name in self.world.workers_of(cluster.name):
            del self.world.workers[name]

    async def do_stop_worker(self, worker: Any) -> None:  # noqa: ANN401 - no types
        """Stop a worker, if its start was recorded."""
        if worker.state:
            self.world.workers.pop(worker.name, None)

    async def do_check_workers(self, workers: list[Any]) -> list[bool]:
        """Return which workers run."""
        return [one.name in self.world.workers for one in workers]

    async def do_check_clusters(self, clusters: list[Any]) -> list[bool]:
        """Return which schedulers run."""
        return [one.name in self.world.wishes for one in clusters]

    async def beat(self) -> None:
        """Let every scheduler send its heartbeat, and stop the workers that are too many."""
        for name, count in list(self.world.wishes.items()):
            active = self.world.workers_of(name)
            closing, active = active[count:], active[:count]
            await self.on_cluster_heartbeat(
                name,
                {
                    **dict.fromkeys(("api_address", "scheduler_address", "dashboard_address"), "x"),
                    "count": count,
                    "active_workers": active,
                    "closing_workers": closing,
                    "closed_workers": list(self.world.closed),
                },
            )
            for worker in closing:
                del self.world.workers[worker]
                self.world.closed.add(worker)

    async def until(self, predicate: Callable[[], Any], what: str) -> None:
        """Send heartbeats until a predicate is true."""
        for _ in range(300):
            if predicate():
                return
            await self.beat()
            await asyncio.sleep(0.01)
        raise AssertionError(what)


@pytest.fixture(autouse=True)
def _fast_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no keys, which takes most of the time of a start."""
    monkeypatch.setattr(db_base, "new_keypair", lambda _: (b"certificate", b"key"))


@pytest.fixture(name="world")
def _world() -> World:
    return World()


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    return tmp_path


def source_of(partition: AbstractPartition) -> PartitionSource:
    """Return a source of a partition."""

    async def source() -> AbstractPartition:
        return partition

    return source


@asynccontextmanager
async def gateway(world: World, source: PartitionSource, folder: Path, **options: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - any option
    """Run a gateway, and end it like a kill, without any cleanup."""
    config = Config()
    config.Proxy.externally_managed = True
    config.Proxy.address = "127.0.0.1:1"
    config.Backend.db_url = f"sqlite:///{folder / 'gateway.sqlite'}"
    config.Backend.db_encrypt_keys = ["A" * 43 + "="]
    config.Backend.worker_start_timeout = 3600
    config.Backend.backoff_base_delay = 0.01
    config.ClusterConfig.scheduler_memory = config.ClusterConfig.worker_memory = "1 M"
    backend_class = limited(Simulated, source, queue="root.dask", **{"poll": 0.05, **options})
    backend = backend_class(config=config, gateway_address="127.0.0.1:1", api_url="http://127.0.0.1:1")
    backend.world = world
    app = web.Application()
    await backend.setup(app)
    backend.app = app
    try:
        yield backend
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await backend.session.close()
        backend.db.db.dispose()


async def ready(backend: Any) -> None:  # noqa: ANN401 - no types
    """Wait until the ledger has been compared."""
    await backend.until(lambda: backend._grants.is_ready, "the ledger is compared")


async def started(backend: Any, user: Any = ANA, count: int = 0) -> str:  # noqa: ANN401 - no types
    """Return a new cluster that runs, with a wish for workers."""
    name = str(await backend.start_cluster(user, {}))
    await backend.until(lambda: backend.db.get_cluster(name).status == db_base.JobStatus.RUNNING, "the cluster runs")
    backend.world.wishes[name] = count
    return name


def waiting(backend: Any, name: str) -> list[Any]:  # noqa: ANN401 - no types
    """Return the workers of a cluster that are recorded and not started."""
    found = backend.db.get_cluster(name).active_workers()
    return [one for one in found if one.status == db_base.JobStatus.CREATED]


def held(partition: AbstractPartition) -> Counter[str]:
    """Return the number of granted allocations of each user."""
    owners = {one.application_id: one.user.name for one in partition.applications()}
    granted = [one for one in partition.allocations() if one.state is not AllocationState.PENDING]
    return Counter(owners[one.application_id] for one in granted)


def check_agreement(partition: AbstractPartition, world: World) -> None:
    """Check that the ledger has what runs, and nothing else."""
    assert held(partition) == world.processes()
    assert {one.application_id for one in partition.applications()} == {f"dask-gateway/{name}" for name in world.wishes}
    partition.verify()


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine function."""

    async def main() -> None:
        await work()

    asyncio.run(main())


def test_a_release_of_another_host_wakes(world: World, folder: Path) -> None:
    """In a service, the release of another host starts a worker that waits at once; the ledger has no request then."""
    with running(folder, given=PARTITION) as service, connect(str(service.addresses[0])) as other:
        other.submit("other", UserGroup("ana", ("lab",)), "root.dask")
        assert other.allocate("other", "other", Resource(vcore=5000))

        async def work() -> None:
            source = quota_source(service=str(service.addresses[0]))
            async with gateway(world, source, folder, poll=3600) as backend:
                await ready(backend)
                ben = await started(backend, BEN, 4)
                await backend.until(lambda: waiting(backend, ben) and other.pending("root.dask")[0], "a worker waits")
                other.release("other")
                await backend.until(lambda: len(world.workers_of(ben)) == 4, "the workers start")
                assert other.pending("root.dask")[0] == 0

        run(work)


#: The times of kills, in milliseconds after the beginning of a scenario that takes about 200.
TIMES: Final = [
    *range(0, 240, 48),
    *(pytest.param(time, marks=pytest.mark.deep) for time in range(24, 240, 48)),
]


@pytest.mark.parametrize("time", TIMES)
def test_killed_at_some_time(world: World, folder: Path, time: int) -> None:
    """After a kill at any time, the limits hold, nothing is lost, and everything ends without a leak."""

    async def scenario(backend: Any) -> None:  # noqa: ANN401 - no types
        name = await started(backend, ANA, 2)
        await backend.until(lambda: len(world.workers) == 2, "the workers run")
        other = await started(backend, BEN, 9)
        await backend.until(lambda: len(world.workers_of(other)) == 3, "the workers that fit run")
        world.wishes[name] = 1
        await backend.until(lambda: len(world.workers_of(other)) == 4, "one more runs")
        await backend.stop_cluster(name)
        await backend.until(lambda: name not in world.wishes, "the cluster ends")

    async def first(partition: AbstractPartition) -> None:
        async with gateway(world, source_of(partition), folder) as backend:
            await ready(backend)
            await asyncio.wait([asyncio.create_task(scenario(backend))], timeout=time / 1000)

    async def second(partition: AbstractPartition) -> None:
        async with gateway(world, source_of(partition), folder) as backend:
            await asyncio.sleep(0.15)  # several comparisons and requests, before the first heartbeat
            await ready(backend)
            check_never_above(partition)
            for name in world.wishes:
                world.wishes[name] = 2
            await backend.until(lambda: held(partition) == world.processes(), "the ledger has what runs")
            extra = await started(backend, DAN, 0)
            await backend.until(lambda: not any(waiting(backend, name) for name in world.wishes), "all workers run")
            await backend.until(lambda: held(partition) == world.processes(), "the ledger has what runs, too")
            check_agreement(partition, world)
            assert not any(one.worker_start_failure_count for one in backend.db.name_to_cluster.values())
            for name in list(backend.db.name_to_cluster):
                await backend.stop_cluster(name)
            await backend.until(lambda: not world.wishes, "all clusters end")
            await backend.until(lambda: not partition.applications(), "the ledger is empty")
            assert extra not in world.wishes

    with open_partition(folder / "ledger", PARTITION) as partition:
        run(lambda: first(partition))
    with open_partition(folder / "ledger", PARTITION) as partition:
        run(lambda: second(partition))
    assert world.most.pop("all") <= 8
    assert all(number <= 5 for number in world.most.values())


# Arguments


def test_backends_without_a_database() -> None:
    """A backend that keeps its state in Kubernetes is refused: there, the webhook limits it."""

    class KubeBackend(base.Backend):  # type: ignore[misc]
        pass

    with pytest.raises(RequestError, match="admission webhook"):
        limited(KubeBackend, source_of(Partition(PARTITION)))


@pytest.mark.parametrize("name", ["minimal", "shared"])
def test_the_lines_of_the_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the examples limit a backend."""
    monkeypatch.chdir(EXAMPLES / "dask_gateway")
    config = Config()
    exec((EXAMPLES / "dask_gateway" / f"{name}.py").read_text("utf-8"), {"c": config})  # noqa: S102 - as the gateway does
    assert issubclass(config.DaskGateway.backend_class, db_base.DBBackendBase)

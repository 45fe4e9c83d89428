"""The grants of a host: over a partition in memory, with a store, and of a service; for asyncio and for threads."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.hosts import free_ports
from support.partition_kinds import of_each_kind
from support.service_fixtures import eventually, running
from ugm import Partition, RequestError, Resource, UserGroup, UserInQueue, parse_config
from ugm.integrations import BlockingGrants, GrantDeniedError, Grants, Remedy, Work, quota_source
from ugm.partition import AbstractPartition, OwnedAllocation, RunningApplication
from ugm.service import Security
from ugm.store import StoredPartition

ANA, BEN = UserGroup("ana", ("lab",)), UserGroup("ben", ("lab",))
CONFIG: Final = """
partitions:
- name: default
  queues:
  - name: hub
    resources: {max: {gpu: 4}}
    limits:
    - {users: ["*"], maxresources: {gpu: 2}}
  ugm:
    budgets:
    - {name: gpu hours, user: "*", amounts: {gpu: 10}, unit: hour, period: week, mode: admit}
"""
PARTITION: Final = parse_config(CONFIG).partition()


def gpus(number: int) -> Resource:
    """Return a number of GPUs."""
    return Resource(gpu=number)


def nothing(_: Mapping[str, OwnedAllocation]) -> Work:
    """Return the work of an idle host."""
    return Work()


def work_of(*names: str, starting: tuple[str, ...] = (), user: UserGroup = ANA) -> Callable[[Any], Work]:
    """Return a function that lists some applications with one GPU each."""
    running = [RunningApplication(name, user, "", [(name, gpus(1))]) for name in names]
    return lambda _: Work(running, starting)


_partition = of_each_kind(PARTITION)


@pytest.fixture(name="grants")
def _grants(partition: AbstractPartition) -> BlockingGrants:
    """Return the grants of a host that has been compared."""
    grants = BlockingGrants(partition, "host")
    grants.reconcile(nothing)
    return grants


# Grants


def test_grants_and_denials(partition: AbstractPartition, grants: BlockingGrants) -> None:
    """A grant is charged once, and a denial says in words what can help and changes nothing.

    A new object denies until it knows what runs.
    """
    new = BlockingGrants(partition, "host")
    with pytest.raises(GrantDeniedError, match="not ready") as early:
        new.grant("a", ANA, "root.hub", [("a", gpus(1))])
    assert (new.is_ready, early.value.remedy) == (False, Remedy.SERVICE)
    for _ in range(2):
        grants.grant("a", ANA, "root.hub", [("a", gpus(2))], tags={"x": "y"})
    with pytest.raises(GrantDeniedError, match="Your limit allows 2 GPUs") as caught:
        grants.grant("b", ANA, "root.hub", [("b", gpus(1))])
    assert caught.value.remedy is Remedy.RELEASE
    assert caught.value.decision is not None
    assert "\n" not in str(caught.value)
    with pytest.raises(GrantDeniedError) as never:
        grants.grant("b", BEN, "root.hub", [("b", gpus(3))])
    assert never.value.remedy is Remedy.NOTHING
    assert partition.application_ids() == ("host/a",)
    assert [one.allocation_id for one in partition.allocations()] == ["host/a"]


def test_extensions(partition: AbstractPartition, grants: BlockingGrants) -> None:
    """Further allocations are granted together, and each can be released."""
    grants.grant("a", ANA, "root.hub", [("a", Resource())])
    with pytest.raises(GrantDeniedError, match="2 GPUs"):
        grants.extend("a", [("a.1", gpus(1)), ("a.2", gpus(2))])
    grants.extend("a", [("a.1", gpus(1)), ("a.2", gpus(1))])
    grants.release("a.1")
    grants.release("unknown")
    assert [one.allocation_id for one in partition.allocations("host/a")] == ["host/a", "host/a.2"]
    grants.end("a")
    grants.end("a")
    assert not partition.applications()


# Comparison


def test_work_that_starts_while_it_is_listed(partition: AbstractPartition, grants: BlockingGrants) -> None:
    """Work that starts or ends after the host has begun to list its work is neither ended nor kept."""
    grants.grant("old", ANA, "root.hub", [("old", gpus(1))])

    def listed(_: object) -> Work:
        found = work_of("old", "lost")(None)
        grants.grant("new", BEN, "root.hub", [("new", gpus(1))])
        grants.end("lost")
        grants.release("old")
        return found

    grants.reconcile(listed)
    assert partition.application_ids() == ("host/new", "host/old")
    assert [one.allocation_id for one in partition.allocations()] == ["host/new"]


def test_tentative_grants() -> None:
    """A grant that nobody sees ends after its time; one that is seen, or confirmed, lasts."""
    now = [1_000_000]
    partition = Partition(PARTITION, clock=lambda: now[0])
    grants = Grants(partition, "host", tentative=100, clock=lambda: now[0])

    async def work() -> None:
        await grants.reconcile(nothing)
        await grants.grant("unseen", ANA, "root.hub", [("unseen", gpus(1))])
        await grants.grant("seen", ANA, "root.hub", [("seen", gpus(1))])
        await grants.grant("confirmed", BEN, "root.hub", [("confirmed", gpus(1))])
        await grants.grant("timed", BEN, "root.hub", [("timed", gpus(1))], duration=5000)
        assert not await grants.reconcile(work_of("seen", starting=("confirmed",)))
        for name in ("confirmed", "timed", "unknown"):
            await grants.confirm(name)
        ends = {one.application_id: one.until for one in partition.allocations()}
        assert ends == {"host/confirmed": None, "host/seen": None, "host/timed": 1_005_000, "host/unseen": 1_000_100}
        now[0] += 100
        report = await grants.reconcile(work_of("seen", starting=("confirmed",)))
        assert report.ended == ("host/timed", "host/unseen")

    asyncio.run(work())
    assert partition.application_ids() == ("host/confirmed", "host/seen")


# asyncio


@asynccontextmanager
async def _sources(kind: str, folder: Path) -> AsyncIterator[Any]:
    """Yield a source of each kind."""
    (folder / "quota.yaml").write_text(CONFIG)
    (folder / "token").write_text("a token of about 30 characters\n")
    with ExitStack() as stack:
        if kind == "service":
            stack.enter_context(running(folder, given=PARTITION, security=Security("a token of about 30 characters")))
            yield quota_source(service=f"unix:{folder / 's'}", token_file=folder / "token")
        else:
            source = quota_source(folder / "quota.yaml", store=folder / "store" if kind == "store" else None)
            partition = await source()
            yield source
            if isinstance(partition, StoredPartition):
                partition.close()


@pytest.mark.parametrize("kind", ["memory", "store", "service"])
def test_many_tasks(kind: str, tmp_path: Path) -> None:
    """Many concurrent grants never exceed a limit, and a release wakes the task that waits."""

    async def attempt(grants: Grants, number: int) -> int:
        user = (ANA, BEN)[number % 2]
        try:
            await grants.grant(f"{number}", user, "root.hub", [(f"{number}", gpus(1))])
        except GrantDeniedError:
            return 0
        return 1

    async def work() -> None:
        async with AsyncExitStack() as stack:
            grants = Grants(await stack.enter_async_context(_sources(kind, tmp_path)), "host")
            await grants.reconcile(nothing)
            assert sum(await asyncio.gather(*(attempt(grants, number) for number in range(50)))) == 4
            held = await grants.run(lambda partition: partition.allocations())
            assert len(held) == 4
            assert not await grants.wait(0.01)
            waiting = asyncio.create_task(grants.wait(60))
            await grants.end(held[0].application_id.removeprefix("host/"))
            assert await waiting
            assert await grants.run(lambda p: p.headroom(UserInQueue(UserGroup("cid"), "root.hub"))) == gpus(1)
            text = await grants.remaining_text(UserGroup("cid"), "root.hub")
            assert text.startswith("You can still start: 1 GPU. You can still use until ")
            assert text.endswith(": 10 GPU hours.")
            await grants.run(lambda partition: partition.verify())

    asyncio.run(work())


class Outage:
    """A source that can be switched off."""

    def __init__(self, partition: AbstractPartition) -> None:
        self.partition: Final = partition
        self.is_off = True

    async def __call__(self) -> AbstractPartition:
        """Return the partition, unless it is off."""
        if self.is_off:
            raise OSError("no route to the service")
        return self.partition


def test_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    """Without an answer everything is denied; ends are remembered; one loop repairs the ledger afterwards."""
    partition = Partition(PARTITION)
    source = Outage(partition)
    grants = Grants(source, "host")
    lists = [work_of("a"), nothing]

    def listed(held: Mapping[str, OwnedAllocation]) -> Work:
        return (lists.pop(0) if len(lists) > 1 else lists[0])(held)

    async def work() -> None:
        loop = asyncio.create_task(grants.keep_reconciled(listed, every=3600))
        await asyncio.sleep(0.01)
        with pytest.raises(GrantDeniedError, match="not ready"):
            await grants.grant("b", ANA, "root.hub", [("b", gpus(1))])
        source.is_off = False
        await asyncio.to_thread(eventually, lambda: grants.is_ready)
        source.is_off = True
        with pytest.raises(GrantDeniedError, match="not available") as caught:
            await grants.grant("b", ANA, "root.hub", [("b", gpus(1))])
        assert caught.value.remedy is Remedy.SERVICE
        assert "not available" in await grants.remaining_text(ANA, "root.hub")
        await grants.end("a")
        source.is_off = False
        await asyncio.to_thread(eventually, lambda: not partition.applications())
        loop.cancel()

    asyncio.run(work())
    assert "an end is not recorded yet: no route to the service" in caplog.text
    # A host may start work without an answer; it is adopted later.
    source.is_off = True
    grants = Grants(source, "host", fails_open=True)
    asyncio.run(_async(grants.grant("a", ANA, "root.hub", [("a", gpus(9))])))
    source.is_off = False
    report = asyncio.run(_async(grants.reconcile(work_of("a"))))
    assert report.adopted_applications == ("host/a",)


def test_waiting_requests() -> None:
    """A denied allocation becomes pending, and counts as none. An end that was not recorded withdraws it later."""
    partition = Partition(PARTITION)
    source = Outage(partition)
    source.is_off = False
    grants = Grants(source, "host")

    async def work() -> None:
        await grants.reconcile(nothing)
        await grants.grant("a", ANA, "root.hub", [("a", gpus(2))])
        for name in ("b", "c"):
            with pytest.raises(GrantDeniedError):
                await grants.extend("a", [(name, gpus(1))], waits=True)
        assert partition.pending("root.hub")[0] == 2
        assert not await grants.wait(0)
        source.is_off = True
        await grants.release("c")
        assert await grants.wait(0)
        source.is_off = False
        assert partition.resize("host/a", gpus(1))
        assert await grants.wait(10)
        await grants.extend("a", [("b", gpus(1))], waits=True)
        held: list[str] = []

        def listed(found: Mapping[str, OwnedAllocation]) -> Work:
            held.extend(found)
            return Work([RunningApplication("a", ANA, "", [("a", gpus(1)), ("b", gpus(1))])])

        assert not await grants.reconcile(listed)
        assert held == ["a", "b"]
        assert partition.pending("root.hub")[0] == 0

    asyncio.run(work())


async def _async(awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401 - any result
    return await awaitable


# Sources


def test_arguments_of_sources(tmp_path: Path) -> None:
    """A source is a configuration or a service, each with its own options."""
    file = tmp_path / "quota.yaml"
    file.write_text(CONFIG)
    for config, options in (
        (None, {}),
        (file, {"service": "unix:/x"}),
        (file, {"token_file": file}),
        (None, {"service": "unix:/x", "store": file}),
        (None, {"service": "unix:/x", "page": 1}),
    ):
        with pytest.raises(RequestError):
            quota_source(config, **options)


def test_a_page(tmp_path: Path) -> None:
    """A host without a service can show the page of its partition."""
    (tmp_path / "quota.yaml").write_text(CONFIG)
    [port] = free_ports(1)
    asyncio.run(_async(quota_source(tmp_path / "quota.yaml", page=port)()))
    address = f"http://127.0.0.1:{port}/api/v1/partition/default"
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert json.load(answer)["name"] == "default"

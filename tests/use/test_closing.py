"""Tests of the end of an object: a partition and its work outlive the objects that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.service import Service, connect, connect_async, join
from ugm.store import open_partition

CONFIG = parse_config("partitions: [{queues: [{name: q}]}]").partition()
EVE = UserGroup("eve")
ONE = Resource(gpu=1)


@pytest.fixture(name="service")
def _service(tmp_path: Path) -> object:
    """A service with an application that holds an allocation."""
    service = Service(None, f"unix:{tmp_path}/s", config=CONFIG)
    service.start()
    service.partition.submit("app", EVE, "root.q")
    service.partition.allocate("app.0", "app", ONE)
    yield service
    service.stop()


def _disconnect(address: str) -> None:
    connect(address).close()


def _disconnect_async(address: str) -> None:
    async def work() -> None:
        partition = await connect_async(address)
        await partition.close()

    asyncio.run(work())


@pytest.mark.parametrize("disconnect", [_disconnect, _disconnect_async])
def test_a_client_that_closes(service: Service, disconnect: Callable[[str], None]) -> None:
    """A client that closes its connection ends no application, and the others continue."""
    disconnect(str(service.addresses[0]))
    with connect(str(service.addresses[0])) as other:
        assert other.allocation("app.0") is not None
        assert other.submit("next", EVE, "root.q")
    service.partition.close()
    assert service.partition.submit("last", EVE, "root.q")


def test_a_member_that_closes(tmp_path: Path) -> None:
    """A member that closes leaves, and the partition can be used again."""
    member = join(tmp_path / "store", config=CONFIG)
    member.submit("app", EVE, "root.q")
    member.close()
    with open_partition(tmp_path / "store") as partition:
        assert partition.application_ids() == ("app",)


def _in_memory(_: Path) -> AbstractPartition:
    return Partition(CONFIG)


def _with_store(folder: Path) -> AbstractPartition:
    return open_partition(folder / "store", CONFIG)


@pytest.mark.parametrize("opened", [_in_memory, _with_store])
def test_terminating_a_partition(tmp_path: Path, opened: Callable[[Path], AbstractPartition]) -> None:
    """A partition ends for good only if this is confirmed."""
    partition = opened(tmp_path)
    partition.submit("app", EVE, "root.q")
    partition.allocate("app.0", "app", ONE)
    with pytest.raises(RequestError, match="pass confirm=True") as caught:
        partition.terminate()
    assert caught.value.code == "unconfirmed"
    assert partition.allocate("app.1", "app", ONE)
    assert partition.terminate(confirm=True) == ("app.0", "app.1")
    with pytest.raises(RequestError, match="the partition is closed"):
        partition.submit("next", EVE, "root.q")
    partition.close()

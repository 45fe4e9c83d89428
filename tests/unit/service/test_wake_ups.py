"""Pending requests that wait in a service: the leader wakes them at the clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import pytest

from support.partition_fixtures import SUE
from support.service_fixtures import RawClient, eventually, running, started
from ugm import AllocationRequest, Resource
from ugm.service import ConnectedPartition, UnavailableError, connect, connect_async

HALF = Resource(memory=500)
ALL = Resource(memory=1000)
PATIENCE = 30


def ids(woken: Iterable[AllocationRequest]) -> list[str]:
    """Return the ids of requests."""
    return [one.allocation_id for one in woken]


def take(partition: ConnectedPartition) -> list[str]:
    """Wait for requests, allocate them, and return their ids."""
    woken = partition.waiting_list().wait(PATIENCE)
    assert all(partition.allocate(one) for one in woken)
    return ids(woken)


def test_a_release_wakes_the_request_of_another_client(tmp_path: Path) -> None:
    """The leader tells a client that waits what fits after the release of another client, in scheduling order."""
    with running(tmp_path) as service, started(service) as one, connect(str(service.addresses[0])) as two:
        for name in ("a", "b", "c"):
            assert two.request(name, "app", HALF)
        assert take(two) == ["a", "b"]
        assert two.waiting_list().wait(0.1) == ()
        assert one.release("a")
        assert take(two) == ["c"]
        assert two.allocation_ids() == ("b", "c")


def test_a_request_wakes_once_until_something_is_released(tmp_path: Path) -> None:
    """A declined request leaves its room to the next one, and wakes again after a release."""
    with running(tmp_path) as service, started(service) as partition:
        waiting = partition.waiting_list()
        assert partition.allocate("held", "app", HALF)
        for name in ("a", "b"):
            assert partition.request(name, "app", HALF)
        assert [ids(waiting.wait(PATIENCE)), ids(waiting.wait(PATIENCE))] == [["a"], ["b"]]
        assert waiting.wait(0.1) == ()
        partition.release("held")
        assert ids(waiting.wait(PATIENCE)) == ["a", "b"]


def test_a_request_is_for_its_owner(tmp_path: Path) -> None:
    """The client that has recorded a request gets it; the others get those whose owner does not wait."""
    with running(tmp_path) as service, started(service) as one, connect(str(service.addresses[0])) as two:
        assert one.allocate("held", "app", ALL)
        assert one.request("a", "app", HALF)
        assert two.request("b", "app", HALF)
        assert [client.waiting_list().wait(0.1) for client in (one, two)] == [(), ()]
        one.release("held")
        assert take(one) == ["a"]
        assert take(two) == ["b"]
        two.connection.close()
        eventually(lambda: not one.sessions.sessions()[1].is_connected)
        assert service.partition.request("c", "app", ALL)
        one.release("a")
        one.release("b")
        assert take(one) == ["c"]


def test_tasks_wait(tmp_path: Path) -> None:
    """Tasks share what arrives; a cancelled one loses nothing; all end when the connection is closed."""

    async def work(address: str) -> None:
        partition = await connect_async(address)
        waiting = partition.waiting_list()
        await partition.allocate("held", "app", ALL)
        await partition.request("a", "app", HALF)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting.woken(), 0.1)
        tasks = [asyncio.create_task(waiting.woken()) for _ in range(2)]
        await partition.release("held")
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert ids(done.pop().result()) == ["a"]
        await partition.close()
        with pytest.raises(UnavailableError, match="was closed"):
            await left.pop()

    with running(tmp_path) as service, started(service):
        asyncio.run(work(str(service.addresses[0])))


def test_the_next_leader_wakes_again(tmp_path: Path) -> None:
    """A client that waits when its leader ends gets what fits at the next leader."""
    addresses = f"unix:{tmp_path}/s,unix:{tmp_path}/t"
    with (
        running(tmp_path, store="store") as leader,
        running(tmp_path, "t", store="store") as standby,
        connect(addresses) as one,
        connect(addresses) as two,
    ):
        assert one.submit("app", SUE, "root.a")
        assert one.allocate("held", "app", ALL)
        assert two.request("a", "app", HALF)
        woken: list[str] = []
        thread = Thread(target=lambda: woken.extend(take(two)))
        thread.start()
        leader.stop()
        eventually(lambda: standby.term == 2)
        assert not woken
        assert one.release("held")
        thread.join(PATIENCE)
        assert woken == ["a"]


def test_a_lost_connection_loses_no_request(tmp_path: Path) -> None:
    """A woken request that is still pending is sent to the next connection of its session, without a release."""
    with running(tmp_path) as service, started(service):
        with RawClient(service) as client:
            session = client.greet()[2]
            client.send(["wait"])
            client.call(1, "request", allocation_id="a", application_id="app", usage={"memory": 1})
            assert client.answers(1) == {1: ("result", [[], [], None])}
            assert client.receive()[:1] == ["woken"]
        with RawClient(service) as client:
            assert client.greet(session)[2] == session
            client.send(["wait"])
            woken = ["a", "app", {"memory": 1}, False, 0, True, None, None, None, None, []]
            assert client.receive() == ["woken", [woken]]
            client.send(["wait"])
            client.call(2, "release", allocation_id="a")
            assert client.answers(1) == {2: ("result", True)}

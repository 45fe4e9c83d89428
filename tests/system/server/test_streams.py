"""Streams of live changes: clients get the complete state, then every change, and slow clients are dropped."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.server_fixtures import PREFIX, busy, client, running, served
from ugm import Partition, Resource, UserGroup
from ugm.server.http.live import LiveFeed

pytestmark = pytest.mark.ci


@contextmanager
def stream(port: int, query: str = "") -> Iterator[Iterator[tuple[str, Any]]]:
    """Yield the events of a stream."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, connection.makefile("rb") as file:
        head = f"GET {PREFIX}/stream{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(head.encode())
        status = file.readline()
        assert b" 200 " in status, status + file.read(500)
        headers = {}
        while (line := file.readline().strip()) != b"":
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        yield events(chunks(file))


def chunks(file: Any) -> Iterator[bytes]:  # noqa: ANN401 - a file
    """Yield the parts of a chunked body."""
    while size := int(file.readline(), 16):
        yield file.read(size)
        file.readline()


def events(parts: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the names and the data of events."""
    text = b""
    for part in parts:
        text += part
        while b"\n\n" in text:
            event, text = text.split(b"\n\n", 1)
            if event.startswith(b"event: "):
                name, data = event.split(b"\n")
                yield name.removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))


def flat(queue: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a tree of queues."""
    yield queue["queue_path"], {name: value for name, value in queue.items() if name != "children"}
    for child in queue["children"]:
        yield from flat(child)


def test_state_and_changes() -> None:
    """The state has the rows of the queue tree, and applying the changes gives those of the tree after them.

    A queue that is gone is sent as null. A client that listens to users gets their number, and no queues.
    """
    partition = busy()
    with running(served(partition)) as port, stream(port) as found, stream(port, "?topic=users") as users:
        name, state = next(found)
        _, users_state = next(users)
        before = dict(flat(client(partition).get(f"{PREFIX}/queues").json()))
        partition.submit("new", UserGroup("ana"), "root.fresh")
        partition.allocate("more", "app", Resource(memory=1))
        _, change = next(event for event in found if event[0] == "change" and "root.fresh" in event[1]["queues"])
        after = dict(flat(client(partition).get(f"{PREFIX}/queues").json()))
        _, changed = next(event for event in users if event[0] == "change" and event[1].get("users"))
        partition.remove("new")
        _, removal = next(event for event in found if event[0] == "change" and "root.fresh" in event[1]["queues"])

    assert (name, state["queues"]) == ("state", before)
    assert change["version"] > state["version"]
    assert {**state["queues"], **change["queues"]} == after
    assert removal["queues"]["root.fresh"] is None
    assert users_state.keys() == {"version", "at"}
    assert changed["users"] == {"changed": 1}
    assert "queues" not in changed


def test_an_idle_stream_says_so() -> None:
    """A stream without changes sends its version and time every few seconds: less than 50 kB in a minute."""
    with running(served(busy())) as port, stream(port) as found:
        _, state = next(found)
        name, idle = next(found)

    assert (name, idle["version"]) == ("idle", state["version"])
    assert len(json.dumps(idle)) < 100


def test_the_head_of_a_stream() -> None:
    """A response to HEAD has the headers of a stream and ends at once, so the connection can be used again."""
    request = f"HEAD {PREFIX}/stream HTTP/1.1\r\nHost: localhost\r\n"
    with running(served(busy())) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(f"{request}\r\n{request}Connection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))

    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert answer.count(b"text/event-stream") == 2
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{PREFIX}/stream?topic=cats", 400, "query-invalid"),
        (f"{PREFIX}/stream?topics=users", 400, "query-invalid"),
        ("/api/v1/partition/other/stream", 404, "partition-unknown"),
    ],
)
def test_invalid_requests(path: str, status: int, code: str) -> None:
    """An unknown partition or topic is refused like in other requests."""
    answer = client(busy()).get(path)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_slow_clients() -> None:
    """A client that reads slowly gets all changes since its last message at once; the end of the feed ends streams."""
    partition = busy()

    async def read() -> list[bytes]:
        feed = LiveFeed(partition, lambda: 7)
        slow, quick = feed.stream(frozenset(("queues",))), feed.stream(frozenset(("queues",)))
        found = [await anext(slow), await anext(slow)]
        assert (await anext(quick), await anext(quick)) == tuple(found)
        for name in ("first", "second"):
            partition.submit(name, UserGroup("ana"), f"root.{name}")
            assert f"root.{name}".encode() in await anext(quick)
        found.append(await anext(slow))
        feed.close()
        assert [message async for message in quick] == []
        return found

    hello, state, change = asyncio.run(read())
    assert (hello, state.split(b"\n")[0]) == (b":\n\n", b"event: state")
    assert all(name in change for name in (b"root.first", b"root.second"))


def test_outages(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the partition cannot be read, clients get the reason, and then the changes since."""
    partition = busy()

    async def read() -> list[str]:
        messages = LiveFeed(partition, lambda: 7).stream(frozenset(("queues",)))
        await anext(messages)
        found = [await anext(messages)]
        with monkeypatch.context() as broken:
            broken.setattr(Partition, "snapshot", lambda _: 1 // 0)
            found.append(await anext(messages))
        partition.submit("new", UserGroup("ana"), "root.new")
        return [part.decode().split("\n")[0] for part in (*found, await anext(messages))]

    assert asyncio.run(read()) == ["event: state", "event: outage", "event: change"]

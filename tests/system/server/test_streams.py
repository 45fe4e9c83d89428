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
from ugm import Resource, UserGroup
from ugm.partition import AbstractPartition
from ugm.server.http.live import LiveSubscription

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
    """The state has the rows of the queue tree, and applying the changes gives those of the tree after them."""
    partition = busy()
    with running(served(partition)) as port, stream(port) as found:
        name, state = next(found)
        before = dict(flat(client(partition).get(f"{PREFIX}/queues").json()))
        partition.submit("new", UserGroup("ana"), "root.fresh")
        partition.allocate("more", "app", Resource(memory=1))
        _, change = next(event for event in found if event[0] == "change" and "root.fresh" in event[1]["queues"])
        after = dict(flat(client(partition).get(f"{PREFIX}/queues").json()))

    assert (name, state["queues"]) == ("state", before)
    assert change["version"] > state["version"]
    assert {**state["queues"], **change["queues"]} == after


def test_only_requested_topics() -> None:
    """A client that listens to users gets the names of changed users, and no queues."""
    partition = busy()
    with running(served(partition)) as port, stream(port, "?topic=users") as found:
        _, state = next(found)
        partition.allocate("more", "app", Resource(memory=1))
        _, change = next(event for event in found if event[0] == "change")

    assert state.keys() == {"version", "at"}
    assert change["users"] == {"changed": 1, "names": ["sue"]}
    assert "queues" not in change


def test_a_removed_queue_is_null() -> None:
    """A queue that is gone is sent as null."""
    partition = busy()
    partition.submit("new", UserGroup("ana"), "root.fresh")
    with running(served(partition)) as port, stream(port) as found:
        next(found)
        partition.remove("new")
        _, change = next(event for event in found if event[0] == "change" and "root.fresh" in event[1]["queues"])

    assert change["queues"]["root.fresh"] is None


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


def test_a_slow_reader_is_dropped() -> None:
    """A client that leaves too many messages unread gets none of them, and its stream ends."""

    async def read() -> list[bytes]:
        subscription = LiveSubscription(frozenset(("queues",)))
        for number in range(20):
            subscription.put(str(number).encode())
        return [message async for message in subscription.messages()]

    assert asyncio.run(read()) == []


def test_a_closed_subscription_ends() -> None:
    """A client gets the messages from before the server stops, and then its stream ends."""

    async def read() -> list[bytes]:
        subscription = LiveSubscription(frozenset(("queues",)))
        subscription.put(b"last")
        subscription.close()
        return [message async for message in subscription.messages()]

    assert asyncio.run(read()) == [b"last"]


def test_trees_over_a_limit_never_occur() -> None:
    """While a scheduler never pauses, no state or change shows usage above a hard maximum."""
    partition: AbstractPartition = busy()
    with running(served(partition)) as port, stream(port, "?topic=queues") as found:
        _, state = next(found)
        for number in range(2000):
            partition.allocate(f"x{number % 7}", "app", Resource(memory=1))
            partition.release(f"x{number % 5}")
        _, change = next(event for event in found if event[0] == "change")
    rows = [row for one in (state, change) for row in one["queues"].values() if row]

    assert all(row["usage"].get("memory", 0) <= (row["max_resources"] or {"memory": 10**9})["memory"] for row in rows)

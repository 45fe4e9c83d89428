"""Time decisions of a scheduler that never pauses next to clients that read without a pause and listen to changes.

Usage: python tests/benchmarks/live.py [SECONDS [QUEUES [USERS]]]

16 connections read the queue tree, each the next request as soon as it has its response; 200 connections listen to the
stream of live changes. The clients are in another process. One thread allocates and releases, and times each of both.

Prints one JSON object: decisions in a second and their 99th percentile with and without the clients, the responses, how
many of them are inconsistent (a parent without the sum of its children, or usage above a hard maximum), the messages of
the streams, and the seconds from a change to the message that contains it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# The shared code is in the package of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.server_fixtures import running
from support.server_load import SIZE, decide, is_consistent
from ugm import Partition, UserGroup, parse_config
from ugm.server import create_app

READERS = 16
STREAMS = 200
ROUNDS = 3
PREFIX = "/api/v1/partition/default"


def populated(queues: int, users: int) -> Partition:
    """Return a partition with an application for each user."""
    leaves = ", ".join(f"{{name: q{n}, resources: {{max: {{memory: 1Pi}}}}}}" for n in range(queues))
    limits = 'limits: [{users: ["*"], maxresources: {memory: 1Pi, vcore: 1M}}]'
    root = f"{{name: root, {limits}, queues: [{{name: top, resources: {{max: {{vcore: 1G}}}}, queues: [{leaves}]}}]}}"
    partition = Partition(parse_config(f"partitions: [{{name: default, queues: [{root}]}}]").partition())
    for number in range(users):
        partition.submit(f"app-{number}", UserGroup(f"user-{number}"), f"root.top.q{number % queues}")
        partition.allocate(f"first-{number}", f"app-{number}", SIZE)
    return partition


def figures(partition: Partition, seconds: float, users: int) -> dict[str, float]:
    """Make decisions without a pause, and return their rate and percentiles."""
    thread, process = time.thread_time(), time.process_time()
    times = decide(partition, seconds, users)
    return {
        "per_second": round(len(times) / seconds),
        # On a busy machine, the ratio of rates also depends on other programs; this share does not.
        "share_of_process": round((time.thread_time() - thread) / (time.process_time() - process), 2),
        "p99_us": times[int(len(times) * 0.99)] / 1000,
        "p99.9_us": times[int(len(times) * 0.999)] / 1000,
    }


def measured(partition: Partition, port: int, seconds: float, users: int) -> dict[str, Any]:
    """Return the figures of one round: half alone, with clients, half alone."""
    before = figures(partition, seconds / 2, users)
    arguments = [sys.executable, __file__, "client", str(port), str(seconds + 1)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as clients:  # noqa: S603 - this program
        assert clients.stdout is not None
        clients.stdout.readline()
        during = figures(partition, seconds, users)
        found = json.loads(clients.stdout.readline())
    after = figures(partition, seconds / 2, users)
    alone = {name: (before[name] + after[name]) / 2 for name in before}
    return {
        "alone": alone,
        "with_clients": during,
        "rate_ratio": round(during["per_second"] / alone["per_second"], 2),
        "p99_ratio": round(during["p99_us"] / alone["p99_us"], 2),
        **found,
    }


async def client(port: int, seconds: float) -> None:
    """Read and listen for some seconds, and print what arrived."""
    streams = [await asyncio.open_connection("127.0.0.1", port, limit=1 << 24) for _ in range(STREAMS)]
    for _, writer in streams:
        writer.write(request(f"{PREFIX}/stream?topic=queues"))
    readers = [await asyncio.open_connection("127.0.0.1", port, limit=1 << 24) for _ in range(READERS)]
    print(flush=True)  # noqa: T201 - says that the load begins
    end = time.monotonic() + seconds
    listening = [asyncio.create_task(listen_to(reader)) for reader, _ in streams]
    counts = await asyncio.gather(*(read(*one, end) for one in readers))
    for task in listening:
        task.cancel()
    received = await asyncio.gather(*listening, return_exceptions=False)
    result = {
        "responses_per_second": round(sum(count for count, _ in counts) / seconds, 1),
        "responses": sum(count for count, _ in counts),
        "inconsistent": sum(bad for _, bad in counts),
        "stream_messages": sum(received),
        "streams_without_message": sum(1 for count in received if not count),
    }
    print(json.dumps(result), flush=True)  # noqa: T201 - the figures are the output


def request(path: str) -> bytes:
    """Return a request that accepts compressed responses."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n".encode()


async def listen_to(reader: asyncio.StreamReader) -> int:
    """Return the number of parts of a stream until the task is cancelled."""
    count = -1
    try:
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
            count += 1
    except asyncio.CancelledError:
        pass
    return max(count, 0)


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: float) -> tuple[int, int]:
    """Return the numbers of responses, and of inconsistent ones, over one connection."""
    count = bad = 0
    last = b""
    while time.monotonic() < end:
        writer.write(request(f"{PREFIX}/queues"))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        body = await reader.readexactly(int(length.split(b":")[1]))
        if not head.startswith(b"http/1.1 200 "):
            raise RuntimeError(head.decode())
        count += 1
        if body != last:
            last = body
            bad += not is_consistent(json.loads(gzip.decompress(body) if b"gzip" in head else body))
    writer.close()
    return count, bad


def main() -> None:
    """Run all rounds and print the figures."""
    arguments = [float(one) for one in sys.argv[1:]]
    defaults = [5.0, 100.0, 2000.0]
    seconds, queues, users = arguments + defaults[len(arguments) :]
    partition = populated(int(queues), int(users))
    with running(create_app({"default": partition})) as port:
        rounds = [measured(partition, port, seconds, int(users)) for _ in range(ROUNDS)]
    partition.verify()
    rounds.sort(key=lambda found: float(found["rate_ratio"]))
    result = {"queues": queues, "users": users, "rounds": rounds}
    print(json.dumps(result, indent=1))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        asyncio.run(client(int(sys.argv[2]), float(sys.argv[3])))
    else:
        main()

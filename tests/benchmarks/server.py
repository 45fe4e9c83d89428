"""Time decisions of a scheduler thread while clients read usage from a server in the same process.

Usage: python tests/benchmarks/server.py [SECONDS]

The partition has 200 users in 40 groups with 2,000 applications in 100 queues, under limits of users, groups and
queues. One thread allocates and releases, and times each of both; clients in a process of their own read over 16
connections, each the next request as soon as it has its answer. Every load is measured between two runs without it.

Prints one JSON object. For a scheduler that never pauses, and for one that makes 10 decisions and then sleeps for a
millisecond, and for each kind of read: requests answered in a second, decisions made in a second with the load and
without, and their percentiles in microseconds. The ratio is that of the 99th percentile with the load to without; of
five rounds the one with the median ratio is reported.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# The shared code is in the package of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.server_fixtures import running
from support.server_load import SIZE, decide
from ugm import Partition, UserGroup, parse_config
from ugm.server import create_app

CONNECTIONS = 16
ROUNDS = 5
PREFIX = "/api/v1/partition/default"
YUNIKORN = "/ws/v1/partition/default"
READS = {
    "one user": f"{YUNIKORN}/usage/user/user-7",
    "all users": f"{YUNIKORN}/usage/users",
    "closest users": f"{PREFIX}/utilization/users?limit=20",
    "queues": f"{PREFIX}/queues",
}


def populated() -> Partition:
    """Return the partition."""
    leaves = ", ".join(f"{{name: q{n}, resources: {{max: {{memory: 1Pi}}}}}}" for n in range(100))
    limits = '{groups: ["*"], maxresources: {memory: 4Pi}}, {users: ["*"], maxresources: {memory: 1Pi, vcore: 1M}}'
    named = "{groups: [group-1], maxresources: {memory: 1Pi}}"
    queues = f"{{name: root, limits: [{named}, {limits}], queues: [{leaves}]}}"
    partition = Partition(parse_config(f"partitions: [{{name: default, queues: [{queues}]}}]").partition())
    for number in range(2000):
        user = UserGroup(f"user-{number % 200}", (f"group-{number % 40}",))
        partition.submit(f"app-{number}", user, f"root.q{number % 100}")
        partition.allocate(f"first-{number}", f"app-{number}", SIZE)
    return partition


def figures(times: list[int], seconds: float) -> dict[str, float]:
    """Return what is told of the times of decisions."""
    at = {name: times[min(int(len(times) * share), len(times) - 1)] / 1000 for name, share in SHARES.items()}
    return {"per_second": round(len(times) / seconds), **{name: round(value, 1) for name, value in at.items()}}


SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def loaded(partition: Partition, port: int, path: str, seconds: float, *, pauses: bool) -> dict[str, Any]:
    """Return the figures of decisions under the load of one kind of read, between two runs without it."""
    before = decide(partition, seconds / 2, 2000, pauses=pauses)
    arguments = [sys.executable, __file__, "client", str(port), path, str(seconds + 1)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as clients:  # noqa: S603 - this program
        assert clients.stdout is not None
        # The clients say when all of them are connected.
        clients.stdout.readline()
        during = decide(partition, seconds, 2000, pauses=pauses)
        requests = json.loads(clients.stdout.readline())
    after = decide(partition, seconds / 2, 2000, pauses=pauses)
    alone = figures(sorted(before + after), seconds)
    result = figures(during, seconds)
    return {
        "requests_per_second": round(requests / (seconds + 1)),
        "alone": alone,
        "under_load": result,
        "p99_ratio": round(result["p99"] / alone["p99"], 2),
    }


def rounds(partition: Partition, port: int, path: str, seconds: float, *, pauses: bool) -> dict[str, Any]:
    """Return the round with the median ratio, and the ratios of all."""
    found = [loaded(partition, port, path, seconds, pauses=pauses) for _ in range(ROUNDS)]
    found.sort(key=lambda result: float(result["p99_ratio"]))
    return {**found[ROUNDS // 2], "p99_ratios": [item["p99_ratio"] for item in found]}


async def client(port: int, path: str, seconds: float) -> None:
    """Read as fast as the server answers, over several connections, and print how many answers there were."""
    streams = [await asyncio.open_connection("127.0.0.1", port, limit=1 << 24) for _ in range(CONNECTIONS)]
    print(flush=True)  # noqa: T201 - says that the load begins
    end = time.monotonic() + seconds
    counts = await asyncio.gather(*(read(*stream, path, end) for stream in streams))
    print(sum(counts), flush=True)  # noqa: T201 - the figure is the output


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, end: float) -> int:
    """Return how many answers came over one connection."""
    count, request = 0, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    while time.monotonic() < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(head.decode())
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        count += 1
    writer.close()
    return count


def main() -> None:
    """Run everything and print the figures."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    partition = populated()
    result: dict[str, Any] = {"python": sys.version.split()[0], "seconds": seconds, "connections": CONNECTIONS}
    with running(create_app({"default": partition})) as port:
        for pauses in (False, True):
            result["with pauses" if pauses else "without pauses"] = {
                name: rounds(partition, port, path, seconds, pauses=pauses) for name, path in READS.items()
            }
    partition.verify()
    print(json.dumps(result, indent=1))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        asyncio.run(client(int(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
    else:
        main()

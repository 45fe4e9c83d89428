"""Decisions per second of a service for 1, 8 and 40 processes, in memory and with a store, next to those of counters.

Usage: python tests/benchmarks/service.py [--seconds S] [--rounds N] [--postgres URL] [--redis] [--against CHECKOUT]

Every process allocates and releases in turns, with 1 or 32 outstanding decisions; one limit is above all. With
`--against`, another checkout is measured in the same run, and `ratio` is the quotient of the rates. With `--postgres`,
the database is dropped and made again for each round. The round with the highest rate counts.
Prints one line of JSON for each row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import IO, Any, Final, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.counters import Function, Script, empty_database

SHAPES: Final = ((1, 1), (1, 32), (8, 1), (8, 32), (40, 1), (40, 32))
PEERS: Final = ("function", "script always", "script everysec")
HERE: Final = Path(__file__).resolve().parents[2]
CONFIG: Final = "partitions: [{name: default, queues: [{name: a, resources: {max: {memory: 1E}}}]}]"


def serve(place: str, address: str) -> None:
    """Serve a partition until the process is killed."""
    from ugm import parse_config  # noqa: PLC0415 - of the measured checkout
    from ugm.service import Service  # noqa: PLC0415 - as above

    Service(place or None, address, config=parse_config(CONFIG).partition()).run()


async def decide(address: str, outstanding: int, number: int, seconds: float) -> None:
    """Decide for some seconds once a line is read, and print the latencies."""
    from ugm import Resource  # noqa: PLC0415 - of the measured checkout

    usage, latencies = Resource(memory=1, vcore=1), list[float]()
    async with await connected(address, number) as partition:
        print(flush=True)  # noqa: T201 - read by the other process
        await asyncio.to_thread(sys.stdin.readline)
        end = monotonic() + seconds

        async def alternate(task: int) -> None:
            while monotonic() < end:
                for call, rest in ((partition.allocate, (f"app-{number}", usage)), (partition.release, ())):
                    began = perf_counter()
                    await call(f"{number}-{task}", *rest)
                    latencies.append(perf_counter() - began)

        await asyncio.gather(*map(alternate, range(outstanding)))
    print(json.dumps(latencies))  # noqa: T201 - as above


async def connected(address: str, number: int) -> Any:  # noqa: ANN401 - a peer, or of another version
    """Return a service or a peer."""
    kind, _, rest = address.partition(" ")
    if kind == "function":
        return await Function.connect(rest)
    if kind == "script":
        return await Script.connect(rest)
    from ugm import UserGroup  # noqa: PLC0415 - of the measured checkout
    from ugm.service import connect_async  # noqa: PLC0415 - as above

    partition = await connect_async(address, deadline=60)
    await partition.submit(f"app-{number}", UserGroup(f"user-{number}"), "root.a")
    return partition


def server(place: str, url: str, folder: str) -> tuple[list[str], str]:
    """Return the command of a server, and the address for its clients."""
    address = f"unix:{folder}/s"
    if place == "function":
        Function.prepare(url)
        return ["sleep", "infinity"], f"function {url}"
    if place in PEERS:
        return Script.command(place.removeprefix("script "), folder), f"script {folder}/s"
    if place == "postgresql":
        empty_database(url)
    store = {"memory": "", "file": f"{folder}/store", "postgresql": url}[place]
    return [sys.executable, __file__, "--serve", store, address], address


def measure(checkout: Path, place: str, url: str, processes: int, outstanding: int, seconds: float) -> dict[str, float]:
    """Return the rate and the latencies of all processes of one round."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    with TemporaryDirectory() as folder:
        command, address = server(place, url, folder)
        running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
        try:
            sleep(2)
            clients = [
                subprocess.Popen(  # noqa: S603 - our own
                    [sys.executable, __file__, "--decide", address, str(outstanding), str(one), str(seconds)],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for one in range(processes)
            ]
            for client in clients:
                cast("IO[str]", client.stdout).readline()
            for client in clients:
                cast("IO[str]", client.stdin).write("\n")
                cast("IO[str]", client.stdin).flush()
            times = sorted(one for client in clients for one in json.loads(client.communicate()[0]))
        finally:
            running.kill()
            running.wait()
    p50, p99 = (times[int(len(times) * part)] * 1000 for part in (0.5, 0.99))
    return {"rate": len(times) / seconds, "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", default="", help="the URL of a database, which is dropped")
    parser.add_argument("--redis", action="store_true", help="measure a Redis or Valkey server, too")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    checkouts = {"new": HERE, **({"old": given.against} if given.against else {})}
    databases = ("postgresql", "function") if given.postgres else ()
    for place in ("memory", "file", *databases, *(PEERS[1:] if given.redis else ())):
        for processes, outstanding in SHAPES:
            best: dict[str, Any] = {}
            for _ in range(given.rounds):
                for name, checkout in ({"peer": HERE} if place in PEERS else checkouts).items():
                    found = measure(checkout, place, given.postgres, processes, outstanding, given.seconds)
                    best[name] = max(best.get(name, found), found, key=lambda one: one["rate"])
            row = {"place": place, "processes": processes, "outstanding": outstanding, **best}
            if "old" in best:
                row["ratio"] = best["new"]["rate"] / best["old"]["rate"]
            print(json.dumps(row), flush=True)  # noqa: T201 - the outcome


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:4])
    elif sys.argv[1:2] == ["--decide"]:
        asyncio.run(decide(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])))
    else:
        main()

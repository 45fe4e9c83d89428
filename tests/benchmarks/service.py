"""Decisions per second of a service for 1, 8 and 40 processes, in memory and with a store.

Usage: python tests/benchmarks/service.py [--seconds S] [--rounds N] [--postgres URL] [--against CHECKOUT]

Every process allocates and releases in turns, with 1 or 32 outstanding decisions; one limit is above all. With
`--against`, another checkout is measured in the same run, and `ratio` is the quotient of the rates. The round with the
highest rate counts. Prints one line of JSON for each row.
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
from typing import Any, Final

SHAPES: Final = ((1, 1), (1, 32), (8, 1), (8, 32), (40, 1))
HERE: Final = Path(__file__).resolve().parents[2]
CONFIG: Final = "partitions: [{name: default, queues: [{name: a, resources: {max: {memory: 1E}}}]}]"


def serve(place: str, address: str) -> None:
    """Serve a partition until the process is killed."""
    from ugm import parse_config  # noqa: PLC0415 - of the measured checkout
    from ugm.service import Service  # noqa: PLC0415 - as above

    Service(place or None, address, config=parse_config(CONFIG).partition()).run()


async def decide(address: str, outstanding: int, number: int, begin: float, seconds: float) -> None:
    """Decide for some seconds, and print the latencies."""
    from ugm import Resource, UserGroup  # noqa: PLC0415 - of the measured checkout
    from ugm.service import connect_async  # noqa: PLC0415 - as above

    usage, latencies = Resource(memory=1, vcore=1), list[float]()
    async with await connect_async(address, deadline=60) as partition:
        await partition.submit(f"app-{number}", UserGroup(f"user-{number}"), "root.a")
        await asyncio.sleep(max(0.0, begin - monotonic()))
        end = begin + seconds

        async def alternate(task: int) -> None:
            while monotonic() < end:
                for call, rest in ((partition.allocate, (f"app-{number}", usage)), (partition.release, ())):
                    began = perf_counter()
                    await call(f"{number}-{task}", *rest)
                    latencies.append(perf_counter() - began)

        await asyncio.gather(*map(alternate, range(outstanding)))
    print(json.dumps(latencies))  # noqa: T201 - read by the other process


def measure(checkout: Path, place: str, processes: int, outstanding: int, seconds: float) -> dict[str, float]:
    """Return the rate and the latencies of all processes of one round."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    with TemporaryDirectory() as folder:
        address = f"unix:{folder}/s"
        own = place if "://" in place or not place else f"{folder}/{place}"
        server = subprocess.Popen([sys.executable, __file__, "--serve", own, address], env=environment)  # noqa: S603 - our own
        try:
            sleep(3)
            begin = str(monotonic() + 3 + processes / 4)
            arguments = [sys.executable, __file__, "--decide", address, str(outstanding)]
            clients = [
                subprocess.Popen([*arguments, str(one), begin, str(seconds)], env=environment, stdout=subprocess.PIPE)  # noqa: S603 - as above
                for one in range(processes)
            ]
            times = sorted(one for client in clients for one in json.loads(client.communicate()[0]))
        finally:
            server.kill()
            server.wait()
    p50, p99 = (times[int(len(times) * part)] * 1000 for part in (0.5, 0.99))
    return {"rate": len(times) / seconds, "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", help="the URL of an empty database")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    checkouts = {"new": HERE, **({"old": given.against} if given.against else {})}
    for place in ("", "store", *([given.postgres] if given.postgres else [])):
        for processes, outstanding in SHAPES:
            best: dict[str, Any] = {}
            for _ in range(given.rounds):
                for name, checkout in checkouts.items():
                    found = measure(checkout, place, processes, outstanding, given.seconds)
                    best[name] = max(best.get(name, found), found, key=lambda one: one["rate"])
            row = {"place": place or "memory", "processes": processes, "outstanding": outstanding, **best}
            if "old" in best:
                row["ratio"] = best["new"]["rate"] / best["old"]["rate"]
            print(json.dumps(row, default=str), flush=True)  # noqa: T201 - the outcome


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:4])
    elif sys.argv[1:2] == ["--decide"]:
        asyncio.run(decide(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6])))
    else:
        main()

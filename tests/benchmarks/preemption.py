"""Count what a plan of preemption costs over many allocations.

Usage: python tests/benchmarks/preemption.py [--allocations NUMBER]... [--queues NUMBER] [--times]

The cluster is full, and a request of a queue below its guarantee needs one victim (``small``) or several (``large``).
The allocations are all of one size (``equal``), or differ in size, priority and application (``distinct``). In a third
scene (``unprotected``) all of these are candidates, because no queue but that of the request has a guarantee.

Prints one JSON object per plan: its bytecode instructions. With `--times` also the best of five processor times, in
milliseconds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib import import_module
from random import Random
from time import process_time_ns
from typing import Any, Final

from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.resources import sum_of

CHILDREN: Final = 20
MIB: Final = 2**20
RUNS: Final = 5

KINDS: Final = ("equal", "distinct", "unprotected")

#: The sizes of requests, in average allocations.
REQUESTS: Final = {"small": 1, "large": 6}


def scene(allocations: int, queues: int, kind: str) -> Partition:
    """Return a full partition. The first queue is empty, and half of the others exceed their guarantees."""
    random, are_distinct, is_protected = Random(allocations), kind != "equal", kind != "unprotected"
    share = 1500 * allocations // queues
    divisions = []
    for division in range(queues // CHILDREN):
        leaves = [
            {"name": f"team{leaf}", "resources": {"guaranteed": {"vcore": f"{share * (2 + leaf % 2 * 3) // 4}m"}}}
            for leaf in range(CHILDREN)
        ]
        if not is_protected:
            leaves = [{"name": leaf["name"]} for leaf in leaves]
        if division == 0:
            leaves[0]["resources"] = {"guaranteed": {"vcore": "15"}}
        guaranteed = {"vcore": f"{share * CHILDREN * 2}m" if division == 0 else f"{share * CHILDREN * 7 // 8}m"}
        resources = {"guaranteed": guaranteed} if division == 0 or (is_protected and division % 3 == 0) else {}
        divisions.append({"name": f"division{division}", "parent": True, "resources": resources, "queues": leaves})
    text = json.dumps({"partitions": [{"name": "default", "queues": divisions}]})
    usages = [
        Resource(vcore=random.randint(1000, 2000), memory=random.randint(1000, 2000) * MIB)
        if are_distinct
        else Resource(vcore=1500, memory=1500 * MIB)
        for _ in range(allocations)
    ]
    partition = Partition(parse_config(text).partition(), cluster=sum_of(usages))
    paths = [
        f"root.division{division}.team{leaf}" for division in range(queues // CHILDREN) for leaf in range(CHILDREN)
    ]
    partition.submit("new", UserGroup("sue"), paths[0])
    for number, usage in enumerate(usages):
        path = paths[1 + number % (len(paths) - 1)]
        application = f"app-{number if are_distinct else path}"
        if are_distinct or number < len(paths) - 1:
            partition.submit(application, UserGroup("sue"), path)
        partition.allocate(
            f"{application}-{number}", application, usage, priority=random.randrange(3 + is_protected) * are_distinct
        )
    return partition


def planning(partition: Partition, size: int) -> Callable[[], Any]:
    """Return a call that plans."""
    usage = Resource(vcore=1500 * size, memory=1500 * MIB * size)
    request = AllocationRequest("new-0", "new", usage, priority=2)
    return lambda: partition.plan_preemption(request, since=0, now=100)


def milliseconds(call: Callable[[], Any]) -> float:
    """Return the best of several processor times."""
    times = []
    for _ in range(RUNS):
        start = process_time_ns()
        call()
        times.append(process_time_ns() - start)
    return min(times) / 1e6


def main() -> None:
    """Print the figures of every plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allocations", type=int, action="append")
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--times", action="store_true")
    given = parser.parse_args()
    bytecodes: Callable[[Callable[[], Any]], int] = import_module("counting").bytecodes
    for allocations in given.allocations or [10_000, 100_000]:
        for kind in KINDS:
            partition = scene(allocations, given.queues, kind)
            for name, size in REQUESTS.items():
                plan = planning(partition, size)
                made = plan()
                found = {
                    "allocations": allocations,
                    "usages": kind,
                    "request": name,
                    "victims": len(made.victims),
                    "is_optimal": made.is_optimal,
                    "plan": bytecodes(plan),
                }
                if given.times:
                    found["plan_ms"] = milliseconds(plan)
                print(json.dumps(found), flush=True)  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

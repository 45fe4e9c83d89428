"""Show what an import, a configuration swap and a user cost.

Usage: python tests/benchmarks/scale.py

Prints one JSON object a line.
"""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from statistics import median
from time import perf_counter

from ugm import Manager, Request, Resource, UserGroup
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig

USAGE = Resource(vcore=100, memory=1 << 20)
PLENTY = Resource(vcore=10**9, memory=1 << 60)


def limit(*, users: tuple[str, ...] = (), groups: tuple[str, ...] = (), most: Resource) -> LimitConfig:
    """Return an entry in the limits of a queue."""
    return LimitConfig(users, groups, most, 1_000_000)


def partition(leaves: int, limits: int, resources: Resource = PLENTY) -> PartitionConfig:
    """Return queues of depth 4 with *limits* named entries, and a wildcard, for users and for groups at all four."""
    users = [limit(users=(f"user-{n}",), most=resources) for n in range(limits)]
    groups = [limit(groups=(f"group-{n}",), most=resources) for n in range(limits)]
    every = (*users, limit(users=("*",), most=resources), *groups, limit(groups=("*",), most=resources))
    teams = [
        QueueConfig(
            f"t{team}", limits=every, queues=tuple(QueueConfig(f"q{n}", limits=every) for n in range(leaves // 10))
        )
        for team in range(10)
    ]
    division = QueueConfig("d", limits=every, queues=tuple(teams))
    return PartitionConfig(queues=(QueueConfig("root", limits=every, queues=(division,)),))


def requests(users: int, leaves: int, limits: int) -> Iterator[Request]:
    """Yield one request of an application of its own for each user."""
    draw = random.Random(1)
    for number in range(users):
        queue = f"root.d.t{draw.randrange(10)}.q{draw.randrange(leaves // 10)}"
        user = UserGroup(f"user-{number}", (f"group-{draw.randrange(limits)}",))
        yield Request(queue, f"app-{number}", USAGE, user)


def swap(users: int) -> None:
    """Print what swapping a configuration takes while *users* hold one application in each of three queues."""
    manager = Manager(partition(100, 10))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    names = 0
    for run in range(3):
        for queue, application, usage, user in requests(users, 100, 10):
            identity = UserGroup(user.name, user.groups)
            manager.adopt(f"{queue[:-1]}{run}", f"{application}-{run}", usage, identity)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] - before - names
    tracemalloc.stop()
    times = {}
    for name, config in {
        "same": partition(100, 10),
        "other amounts": partition(100, 10, Resource(vcore=7, memory=7)),
        "other resources": partition(100, 10, Resource(gpu=7)),
        "no limits": None,
    }.items():
        runs = []
        for _ in range(3):
            start = perf_counter()
            manager.update_config(config)
            runs.append((perf_counter() - start) * 1000)
        times[name] = round(median(runs), 2)
    manager.verify()
    show("swap", users=users, milliseconds=times, bytes_per_user_with_names=size // users)


def imports() -> None:
    """Print what importing ugm takes in a fresh interpreter that may keep compiled modules, as installed ones are."""
    code = "import time; t = time.perf_counter(); import ugm; print((time.perf_counter() - t) * 1000)"
    command = [sys.executable, "-c", code]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = [
        float(subprocess.run(command, capture_output=True, check=True, env=env).stdout)  # noqa: S603 - our own code
        for _ in range(9)
    ]
    show("import", milliseconds={"best": round(min(runs), 1), "median": round(median(runs), 1)})


def show(what: str, **figures: object) -> None:
    """Print one line."""
    print(json.dumps({"what": what, **figures}), flush=True)  # noqa: T201 - the figures are the output


def main() -> None:
    """Run everything."""
    imports()
    swap(100_000)


if __name__ == "__main__":
    main()

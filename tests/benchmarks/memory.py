"""Memory of live allocations and of users, in bytes; see `main`.

Usage: python tests/benchmarks/memory.py
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable

from ugm import Manager, Partition, Resource, UserGroup, parse_config

ALLOCATIONS, USERS = 100_000, 20_000
LIMITS = "limits: [{users: ['*'], maxresources: {vcore: 1000000}}]"
QUEUES = ", ".join(f"{{name: {name}, {LIMITS}}}" for name in "abc")
CONFIG = f"partitions: [{{name: default, queues: [{{name: root, queues: [{QUEUES}]}}]}}]"
USAGE = Resource(vcore=1, memory=1)


def bytes_of(make: Callable[[], object]) -> int:
    """Return the memory of what a function makes or fills."""
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del made
    return found


def main() -> None:
    """Print the bytes of an allocation with its id, and of a user with an application in each of three queues."""
    config = parse_config(CONFIG).partition()
    partition = Partition(config)
    partition.submit("app", UserGroup("ana"), "root.a")

    def allocate() -> None:
        for number in range(ALLOCATIONS):
            partition.allocate(f"request-{number}", "app", USAGE)

    def track() -> Manager:
        manager = Manager(config)
        for number in range(USERS):
            user = UserGroup(f"user-{number}")
            for queue in "abc":
                manager.increase(f"root.{queue}", f"{queue}-{number}", USAGE, user)
        return manager

    found = {"allocation": bytes_of(allocate) / ALLOCATIONS, "user": bytes_of(track) / USERS}
    print(json.dumps(found))  # noqa: T201 - the outcome


if __name__ == "__main__":
    main()

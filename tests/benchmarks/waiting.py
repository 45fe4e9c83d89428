"""Count the instructions of scheduling passes and wake-ups with many pending requests.

Usage: python tests/benchmarks/waiting.py [--pending 100000] [--queues 3000] [--users 10000] [--releases 100] [CASE ...]

Each case fills a partition until nothing fits. Then each of some random releases is followed by a wake-up, and the
woken requests are allocated. Printed are bytecode instructions,
except for `first`:

- `head`: one head of a scheduling pass that is skipped;
- `first`: the processor time of the first wake-up and the allocations, in seconds;
- `wake`: a release with its wake-up, without the allocation of the woken requests; the mean and the largest one;
- `tests`: the requests that were compared with all limits, for each woken one.

The cases differ in the limits that block most requests: those of queues, users, groups or the cluster, or all of them;
`priorities` adds requests of several priorities, and `reservations` a reservation for the first blocked request.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from runpy import run_path
from statistics import mean
from time import process_time
from typing import Final, NamedTuple

from ugm import AllocationRequest, Partition, Resource, UserGroup
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig, QueueResources

FOLDER: Final = Path(__file__).parent
bytecodes: Final[Callable[..., int]] = run_path(str(FOLDER / "counting.py"))["bytecodes"]

#: The sizes of requests.
SIZES: Final = (Resource(vcore=1000, memory=2 << 30), Resource(vcore=2000, memory=4 << 30), Resource(vcore=4000))
PARENTS: Final = 30
GROUPS: Final = 100
#: The number of releases before the measured ones.
_WARM_UP: Final = 300


class Case(NamedTuple):
    """What blocks the requests."""

    #: The maximum of each leaf queue, the limit of each user and group, and the cluster, in cores; None for no limit.
    queue: int | None = None
    user: int | None = None
    group: int | None = None
    cluster: int | None = None
    priorities: tuple[int, ...] = (0,)
    reserves: bool = False

    def config(self, queues: int) -> PartitionConfig:
        """Return the queues and limits."""
        limits = []
        if self.user is not None:
            limits.append(LimitConfig(users=("*",), max_resources=_cores(self.user)))
        if self.group is not None:
            limits.append(
                LimitConfig(groups=tuple(f"g{number}" for number in range(GROUPS)), max_resources=_cores(self.group))
            )
        leaf = QueueResources(max=None if self.queue is None else _cores(self.queue))
        parents = tuple(
            QueueConfig(
                f"p{parent}",
                queues=tuple(QueueConfig(f"q{number}", resources=leaf) for number in range(queues // PARENTS)),
            )
            for parent in range(PARENTS)
        )
        properties = {"ugm.reservation": "enabled"} if self.reserves else {}
        return PartitionConfig(
            queues=(QueueConfig("root", limits=tuple(limits), queues=parents, properties=properties),)
        )


CASES: Final = {
    "queues": Case(queue=4),
    "users": Case(user=4),
    "groups": Case(group=100),
    "cluster": Case(cluster=10_000),
    "all": Case(queue=6, user=5, group=150, cluster=8_000),
    "priorities": Case(queue=6, user=5, group=150, cluster=8_000, priorities=(0, 1, 5)),
    "reservations": Case(queue=6, user=5, group=150, cluster=8_000, reserves=True),
}


def _cores(count: int) -> Resource:
    return Resource(vcore=1000 * count)


def filled(case: Case, pending: int, queues: int, users: int) -> Partition:
    """Return a partition with pending requests, five in an application."""
    rng = Random(1)
    cluster = None if case.cluster is None else Resource(vcore=1000 * case.cluster, memory=1 << 50)
    partition = Partition(case.config(queues), cluster=cluster)
    owners = [UserGroup(f"u{number}", (f"g{number % GROUPS}",)) for number in range(users)]
    for number in range(pending // 5):
        path = f"root.p{rng.randrange(PARENTS)}.q{rng.randrange(queues // PARENTS)}"
        partition.submit(f"a{number}", rng.choice(owners), path)
        size, priority = rng.choice(SIZES), rng.choice(case.priorities)
        for each in range(5):
            partition.request(
                f"a{number}.{each}", f"a{number}", size, priority=priority, duration=rng.randint(600, 7200)
            )
    return partition


def granted(partition: Partition, woken: tuple[AllocationRequest, ...]) -> Iterator[str]:
    """Allocate requests, and yield their ids."""
    for one in woken:
        assert partition.allocate(**one._asdict())
        yield one.allocation_id


def measure(case: Case, pending: int, queues: int, users: int, releases: int) -> dict[str, float]:
    """Return the figures of a case."""
    driver, rng = (FOLDER,), Random(2)
    partition = filled(case, pending, queues, users)
    waiting = partition.waiting_list()
    woken: list[tuple[AllocationRequest, ...]] = []
    began = process_time()
    running = list(granted(partition, partition.wake()))
    first = process_time() - began
    started = len(running)
    while more := partition.wake():
        running += granted(partition, more)
    costs, total, before = [], 0, 0
    # The first releases also move requests that the first wake-up has not looked at.
    for number in range(_WARM_UP + releases):
        if number == _WARM_UP:
            before, total = waiting.tests, 0
        index = rng.randrange(len(running))
        running[index], running[-1] = running[-1], running[index]
        name = running.pop()

        def release(name: str = name) -> None:
            partition.release(name)
            woken.append(partition.wake())

        if number < _WARM_UP:
            release()
        else:
            costs.append(bytecodes(release, driver=driver))
        total += len(woken[-1])
        running += granted(partition, woken.pop())
    tests = waiting.tests - before
    heads = partition.scheduling_pass()
    next(heads)
    head = bytecodes(lambda: [next(heads) for _ in range(20)], driver=driver) / 20
    return {
        "granted": started,
        "first": round(first, 1),
        "wake": round(mean(costs)),
        "largest": max(costs),
        "woken": total,
        "tests": round(tests / max(1, total), 2),
        "head": round(head),
    }


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    for name, default in (("pending", 100_000), ("queues", 3000), ("users", 10_000), ("releases", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    for name in given.cases:
        found = measure(CASES[name], given.pending, given.queues, given.users, given.releases)
        print(json.dumps({"case": name, **found}), flush=True)  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

"""A scheduler with nodes of its own, in threads and in asyncio.

The partition decides who may start and in which order; the scheduler chooses the node. A wake-up reports that a pending
request can fit again, and a scheduling pass then offers the requests. The queue keeps capacity for the first request
that is blocked, so that small jobs pass a large one only if they end before it can start.
Run it from a clone with: python examples/node_scheduler.py threads, or asyncio
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from threading import Lock, Thread, Timer
from typing import NamedTuple

from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config

CONFIG = """
partitions:
- queues:
  - name: jobs
    properties: {application.sort.policy: share, ugm.reservation: enabled}
  ugm: {fairshare: {defaultshares: 1}}
"""
#: A core and a second of the schedule, which the example shortens.
CORE, SECOND = Resource(vcore=1000), 0.02


class Job(NamedTuple):
    """A job of the day."""

    name: str
    user: str
    cores: int
    seconds: int


#: The wide job needs a whole node. The long one would delay it, and the short one would not.
DAY = (Job("first", "ana", 2, 4), Job("wide", "ben", 4, 5), Job("long", "ana", 2, 30), Job("short", "eva", 1, 2))


class Nodes:
    """The free resources of each node."""

    def __init__(self, **cores: int) -> None:
        self.free = {name: Resource(vcore=1000 * count) for name, count in cores.items()}

    def find(self, usage: Resource) -> str | None:
        """Return the fullest node on which a request fits; None if there is none."""
        fitting = [name for name, free in self.free.items() if all(free[each] >= usage[each] for each in usage)]
        return min(fitting, key=lambda name: self.free[name]["vcore"], default=None)


class Scheduler:
    """Places the requests that the partition grants on nodes; one thread or task at a time calls it."""

    def __init__(self, nodes: Nodes, start: Callable[[Job, str], None]) -> None:
        self.nodes = nodes
        self.start = start
        self.partition = Partition(parse_config(CONFIG).partition())
        for name, free in nodes.free.items():
            self.partition.add_node(name, free)
        self.waiting = self.partition.waiting_list()
        #: The jobs that wait or run, and the nodes of those that run.
        self.jobs: dict[str, Job] = {}
        self.places: dict[str, str] = {}

    def submit(self, job: Job) -> None:
        """Let a job wait until it is granted."""
        self.jobs[job.name] = job
        self.partition.submit(job.name, UserGroup(job.user), "root.jobs")
        usage = Resource(vcore=1000 * job.cores)
        self.partition.request(job.name, job.name, usage, duration=job.seconds)

    def schedule(self) -> None:
        """Offer all pending requests once, in their order, and start those that are granted and have a node."""
        for head in self.partition.scheduling_pass():
            request: AllocationRequest = head.request
            node = self.nodes.find(request.usage)
            if node is None and self.partition.check(request.application_id, request.usage):
                # Only the nodes are too small. A request that the partition denies may get the reservation.
                head.skip()
            elif head.allocate() and node is not None:
                self.nodes.free[node] -= request.usage
                self.places[request.allocation_id] = node
                print(f"{request.allocation_id} starts on {node}")
                self.start(self.jobs[request.allocation_id], node)

    def end(self, job: Job) -> None:
        """Release a job. The waiting list then wakes the scheduler if a request can fit."""
        node = self.places.pop(job.name)
        self.nodes.free[node] += Resource(vcore=1000 * job.cores)
        del self.jobs[job.name]
        print(f"{job.name} ends")
        self.partition.remove(job.name)


def run_in_threads() -> Scheduler:
    """Run the day with one thread that schedules, and timers for the ends of jobs."""
    # The partition needs no lock, but the nodes do.
    lock = Lock()

    def end(job: Job) -> None:
        with lock:
            scheduler.end(job)

    scheduler = Scheduler(Nodes(one=4, two=1), lambda job, _node: Timer(job.seconds * SECOND, end, [job]).start())

    def loop() -> None:
        while scheduler.jobs:
            # Without the timeout, the thread would not notice that the last job has ended.
            if scheduler.waiting.wait(timeout=SECOND):
                with lock:
                    scheduler.schedule()

    for job in DAY:
        scheduler.submit(job)
    thread = Thread(target=loop)
    thread.start()
    thread.join()
    return scheduler


def run_in_asyncio() -> Scheduler:
    """Run the day in one event loop."""
    return asyncio.run(_day())


async def _day() -> Scheduler:
    async def run(job: Job) -> None:
        await asyncio.sleep(job.seconds * SECOND)
        scheduler.end(job)
        if not scheduler.jobs:
            ended.set()

    async def loop() -> None:
        while True:
            await scheduler.waiting.woken()
            scheduler.schedule()

    ended = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running: list[asyncio.Task[None]] = []
        scheduler = Scheduler(Nodes(one=4, two=1), lambda job, _node: running.append(tasks.create_task(run(job))))
        for job in DAY:
            scheduler.submit(job)
        forever = tasks.create_task(loop())
        await ended.wait()
        forever.cancel()
    return scheduler


def main(way: str) -> None:
    """Run the day in threads or in asyncio."""
    scheduler = run_in_threads() if way == "threads" else run_in_asyncio()
    scheduler.partition.verify()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "threads")

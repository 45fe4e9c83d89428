"""A scheduler with nodes of its own, in threads and in asyncio.

The partition decides who may start and in which order; the scheduler chooses the node. A wake-up returns the pending
requests that can fit now. The root keeps capacity for the first request that is blocked, so that small jobs pass a
large one only if they end before it can start.

One queue is guaranteed four cores. If a job waits there for longer than the delay, a plan of preemption names the jobs
to stop, all of them on one node. They wait again afterwards, and the root and the node keep their room for the job.
Run it from a clone with: python examples/node_scheduler.py threads, or asyncio
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import Task
from collections.abc import Callable, Iterable, Mapping
from threading import Lock, Thread, Timer
from time import monotonic
from typing import NamedTuple

from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config

CONFIG = """
partitions:
- queues:
  - name: root
    properties: {ugm.reservation: enabled}
    queues:
    - name: jobs
      properties: {application.sort.policy: share}
    - name: urgent
      resources: {guaranteed: {vcore: 4}}
      properties: {preemption.delay: 3s}
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
    queue: str = "root.jobs"


#: The wide job needs a whole node. The long one would delay it, and the short one would not.
DAY = (Job("first", "ana", 2, 4), Job("wide", "ben", 4, 5), Job("long", "ana", 2, 30), Job("short", "eva", 1, 2))
#: It arrives when the long job has started, and needs its node.
LATE = Job("late", "eva", 4, 2, "root.urgent")


class Nodes:
    """The free resources of each node."""

    def __init__(self, **cores: int) -> None:
        self.free = {name: Resource(vcore=1000 * count) for name, count in cores.items()}

    def find(self, request: AllocationRequest, kept: Mapping[str | None, Resource]) -> str | None:
        """Return the node that a plan has chosen, or the fullest one with room; None if there is none.

        Args:
            request: the request.
            kept: the resources of each node that are kept for other requests.
        """
        room = {name: free - kept.get(name, Resource()) for name, free in self.free.items()}
        fitting = [
            name for name, free in room.items() if all(free[each] >= request.usage[each] for each in request.usage)
        ]
        if request.node in fitting:
            return request.node
        return min(fitting, key=lambda name: room[name]["vcore"], default=None)


class Scheduler:
    """Places the requests that the partition grants on nodes; one thread or task at a time calls it."""

    def __init__(self, nodes: Nodes, start: Callable[[Job], None], stop: Callable[[Job], None]) -> None:
        self.nodes = nodes
        self.start = start
        self.stop = stop
        self.began = monotonic()
        self.late = [LATE]
        self.partition = Partition(parse_config(CONFIG).partition())
        for name, free in nodes.free.items():
            self.partition.add_node(name, free)
        self.waiting = self.partition.waiting_list()
        #: The jobs that wait or run, and the nodes of those that run.
        self.jobs: dict[str, Job] = {}
        self.places: dict[str, str] = {}
        #: The requests of the jobs that wait, with the second since which they do.
        self.requests: dict[str, tuple[AllocationRequest, int]] = {}

    def submit(self, job: Job) -> None:
        """Let a job wait until it is granted."""
        self.jobs[job.name] = job
        self.partition.submit(job.name, UserGroup(job.user), job.queue)
        self.request(job)

    def request(self, job: Job) -> None:
        """Request the cores of a job, which may have been stopped."""
        usage = Resource(vcore=1000 * job.cores)
        self.requests[job.name] = AllocationRequest(job.name, job.name, usage, duration=job.seconds), self.now()
        self.partition.request(job.name, job.name, usage, duration=job.seconds)

    def now(self) -> int:
        """Return the second of the schedule."""
        return int((monotonic() - self.began) / SECOND)

    def schedule(self, woken: Iterable[AllocationRequest]) -> None:
        """Start the requests that have a node and that the partition grants. The others wake again after a release."""
        for request in woken:
            node = self.nodes.find(request, self.kept_for_others(request.allocation_id))
            if node is not None and self.partition.allocate(request._replace(node=node)):
                self.nodes.free[node] -= request.usage
                name = request.allocation_id
                self.places[name] = node
                del self.requests[name]
                print(f"{name} starts on {node}")
                self.start(self.jobs[name])
                if name == "long" and self.late:
                    self.submit(self.late.pop())

    def kept_for_others(self, name: str) -> dict[str | None, Resource]:
        """Return the resources of each node that plans have freed for other requests."""
        kept: dict[str | None, Resource] = {}
        for one in self.partition.preemption_status().placed:
            if one.allocation.allocation_id != name:
                kept[one.allocation.node] = kept.get(one.allocation.node, Resource()) + one.allocation.usage
        return kept

    def preempt(self) -> None:
        """Plan preemption for waiting requests, and stop the victims. Without a permitted plan nothing happens."""
        for name, (request, since) in self.requests.items():
            plan = self.partition.plan_preemption(request, since=since, now=self.now(), nodes=self.nodes.free)
            try:
                victims = self.partition.carry_out(plan) if plan else ()
            except RequestError:
                # Another thread has changed the partition. The next call makes another plan.
                continue
            for victim in victims:
                print(f"{victim} has to stop for {name}")
                self.stop(self.jobs[victim])

    def end(self, job: Job) -> None:
        """Release a job. The waiting list then wakes the scheduler if a request can fit."""
        self.leave(job)
        del self.jobs[job.name]
        print(f"{job.name} ends")
        self.partition.remove(job.name)

    def stopped(self, job: Job) -> None:
        """Release a victim that has stopped, and let it wait again. It may have ended instead."""
        if job.name in self.places:
            self.leave(job)
            print(f"{job.name} has stopped")
            self.partition.release(job.name)
            self.request(job)

    def leave(self, job: Job) -> None:
        """Free the node of a job."""
        self.nodes.free[self.places.pop(job.name)] += Resource(vcore=1000 * job.cores)


def run_in_threads() -> Scheduler:
    """Run the day with one thread that schedules, and timers for the ends of jobs."""
    # The partition needs no lock, but the nodes do.
    lock = Lock()
    timers: dict[str, Timer] = {}

    def end(job: Job) -> None:
        with lock:
            scheduler.end(job)

    def stopped(job: Job) -> None:
        with lock:
            scheduler.stopped(job)

    def start(job: Job) -> None:
        timers[job.name] = Timer(job.seconds * SECOND, end, [job])
        timers[job.name].start()

    def stop(job: Job) -> None:
        timers[job.name].cancel()
        Timer(SECOND, stopped, [job]).start()

    scheduler = Scheduler(Nodes(one=4, two=1), start, stop)

    def loop() -> None:
        while scheduler.jobs:
            # The timeout is for delays of preemption, and for the end of the last job.
            woken = scheduler.waiting.wait(timeout=SECOND)
            with lock:
                scheduler.schedule(woken)
                scheduler.preempt()

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
    running: dict[str, Task[None]] = {}

    async def after(seconds: float, then: Callable[[Job], None], job: Job) -> None:
        await asyncio.sleep(seconds * SECOND)
        then(job)

    def start(job: Job) -> None:
        running[job.name] = tasks.create_task(after(job.seconds, scheduler.end, job))

    def stop(job: Job) -> None:
        running[job.name].cancel()
        running[job.name] = tasks.create_task(after(1, scheduler.stopped, job))

    async with asyncio.TaskGroup() as tasks:
        scheduler = Scheduler(Nodes(one=4, two=1), start, stop)
        for job in DAY:
            scheduler.submit(job)
        while scheduler.jobs:
            try:
                # The timeout is for delays of preemption, and for the end of the last job.
                async with asyncio.timeout(SECOND):
                    woken = await scheduler.waiting.woken()
                scheduler.schedule(woken)
            except TimeoutError:
                pass
            scheduler.preempt()
    return scheduler


def main(way: str) -> None:
    """Run the day in threads or in asyncio."""
    scheduler = run_in_threads() if way == "threads" else run_in_asyncio()
    scheduler.partition.verify()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "threads")

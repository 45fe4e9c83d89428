"""Three schedulers that share a partition and elect a leader among themselves, without an extra process.

Each scheduler is a process of its own and joins the same store. The first one leads; when it is killed, another one
leads. Then a third one releases the allocations of the process that was killed.
Run it from a clone with: python examples/schedulers.py
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import ugm
from ugm import Resource, UserGroup, parse_config

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CONFIG = """
partitions:
- queues:
  - name: batch
    resources: {max: {vcore: 8}}
"""
THREE = Resource(vcore=3000)


def schedule(store: str, name: str, orders: Connection) -> None:
    """Run a scheduler: join the partition, and start a job for each order."""
    with ugm.join(store, config=parse_config(CONFIG).partition(), client=name) as partition:
        partition.submit(name, UserGroup("ana"), "root.batch")
        orders.send(f"{name} has joined")
        while job := orders.recv():
            decision = partition.allocate(job, name, THREE)
            role = "leads" if partition.service and partition.service.term else "is a client"
            orders.send(f"{name} {role}: {job} {'started' if decision else decision}")


def release_lost_jobs(store: str) -> None:
    """Release the allocations of processes that have vanished."""
    with ugm.join(store, client="operator") as partition:
        for report in partition.sessions.sessions():
            if report.allocations and not report.is_connected:
                released = partition.sessions.release_of(report.session)
                print(f"{report.client} has vanished: released {', '.join(released)}")


def main(store: str) -> None:
    """Start three schedulers, and kill the one that leads."""
    context = multiprocessing.get_context("spawn")
    schedulers = {}
    for name in ("one", "two", "three"):
        here, there = context.Pipe()
        process = context.Process(target=schedule, args=(store, name, there))
        process.start()
        schedulers[name] = process, here
        print(here.recv())

    def order(name: str, job: str) -> None:
        schedulers[name][1].send(job)
        print(schedulers[name][1].recv())

    order("one", "job-1")
    order("two", "job-2")
    order("three", "job-3")
    leader, _ = schedulers.pop("one")
    leader.kill()
    leader.join()
    print("one was killed")
    order("two", "job-4")
    release_lost_jobs(store)
    order("three", "job-5")
    for process, orders in schedulers.values():
        orders.send("")
        process.join()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(str(Path(folder) / "quota.db"))

"""Replay a recorded stream of arrivals and departures on one quota tree, and time it.

Usage: python tests/benchmarks/quotatree.py WORKLOAD.jsonl.gz

The first line of a workload is an object: ``name``, ``tree`` (a tree document), ``warmup_ops`` (operations that are not
timed) and ``ops`` (lines that follow). Each further line is an operation: ``["a", id, group, cpu, memory, priority]``
arrives and is allocated once, in normal mode; ``["d", id]`` is deallocated, which has no effect if it was rejected or
preempted before.

Consumers are built before the clock starts; an arrival is `add_consumer` and `allocate`, a departure `deallocate`.
Prints one JSON object: nanoseconds per operation (best and median of the runs), percentiles of
single operations (with about 60 ns for reading the clock), how many arrivals were rejected, how many consumers were
preempted, and how many were held at the end.
"""

from __future__ import annotations

import gc
import gzip
import json
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple

from ugm import Resource
from ugm.quotatree import ConsumerInfo, QuotaManager, TreeRequest

RUNS = 5


class Workload(NamedTuple):
    """What a file holds, ready to be replayed."""

    tree: dict[str, Any]
    warmup: int
    #: The id, and for an arrival what arrives.
    operations: list[tuple[str, tuple[str, Resource, int] | None]]

    @property
    def tree_name(self) -> str:
        """The name of the tree."""
        return str(self.tree["metadata"]["name"])


def read(path: str) -> Workload:
    """Read a workload."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        head = json.loads(file.readline())
        lines = [json.loads(line) for line in file]
    operations: list[tuple[str, tuple[str, Resource, int] | None]] = [
        (line[1], (line[2], Resource(cpu=line[3], memory=line[4]), line[5]) if line[0] == "a" else None)
        for line in lines
    ]
    return Workload(head["tree"], head["warmup_ops"], operations)


class Tally:
    """What came of the operations."""

    def __init__(self, workload: Workload) -> None:
        self.manager = QuotaManager()
        self.tree_name = self.manager.add_tree_from_struct(workload.tree)
        self.manager.set_mode("normal")
        self.operations = [
            (consumer_id, ConsumerInfo(consumer_id, [TreeRequest(self.tree_name, *requested)]) if requested else None)
            for consumer_id, requested in workload.operations
        ]
        self.rejected = self.preempted = 0
        # The workload is none of the manager's memory, and not to be gone through by each garbage collection.
        gc.collect()
        gc.freeze()

    def run(self, start: int, end: int | None) -> None:
        """Do some of the operations."""
        tree_name, manager = self.tree_name, self.manager
        add, allocate, deallocate = manager.add_consumer, manager.allocate, manager.deallocate
        for consumer_id, info in self.operations[start:end]:
            if info is None:
                deallocate(tree_name, consumer_id)
            else:
                add(info)
                answer = allocate(tree_name, consumer_id)
                if not answer.allocated:
                    self.rejected += 1
                elif answer.preempted:
                    self.preempted += len(answer.preempted)


def replay(workload: Workload) -> tuple[float, Tally]:
    """Return the nanoseconds per timed operation, and what came of them."""
    tally = Tally(workload)
    tally.run(0, workload.warmup)
    tally.rejected = tally.preempted = 0
    start = perf_counter_ns()
    tally.run(workload.warmup, None)
    elapsed = perf_counter_ns() - start
    return elapsed / (len(workload.operations) - workload.warmup), tally


def latencies(workload: Workload) -> list[int]:
    """Return the sorted nanoseconds of every single timed operation."""
    tally = Tally(workload)
    tally.run(0, workload.warmup)
    times = []
    for number in range(workload.warmup, len(workload.operations)):
        start = perf_counter_ns()
        tally.run(number, number + 1)
        times.append(perf_counter_ns() - start)
    return sorted(times)


def main() -> None:
    """Run everything and print the figures."""
    path = sys.argv[1]
    workload = read(path)
    runs = [replay(workload) for _ in range(RUNS)]
    per_operation = sorted(elapsed for elapsed, _ in runs)
    tally = runs[0][1]
    tally.manager.verify()
    times = latencies(workload)
    figures = {
        "ns_per_step": round(per_operation[0]),
        "median": round(per_operation[RUNS // 2]),
        "rejected": tally.rejected,
        "preempted": tally.preempted,
        "held": len(tally.manager.view(tally.tree_name).consumers),
        "p50": times[len(times) // 2],
        "p99": times[len(times) * 99 // 100],
        "p99.9": times[len(times) * 999 // 1000],
        "python": sys.version.split()[0],
        "trace": Path(path).name,
    }
    print(json.dumps(figures))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

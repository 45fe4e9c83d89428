"""Replay a recorded stream of increases and decreases through a `Manager`, and time it.

Usage: python tests/benchmarks/users_groups.py TRACE.jsonl.gz

The trace is one JSON object: ``queues`` (the root queue with its limits, named as in a configuration file) and
``steps`` (``op``, ``queue``, ``app``, ``user``, ``groups``, ``usage``; ``allowed`` of an increase and ``remove_app`` of
a decrease). Of other steps only ``configure`` counts: its ``queues`` come into force, off the clock.

Requests are built before the clock starts. Prints one JSON object: nanoseconds per step (best and median of the runs),
denied increases, answers that differ from the trace, percentiles of single steps (with about 60 ns for reading the
clock), and bytes for each user with one application in each of three queues under the first limits of the trace.
"""

from __future__ import annotations

import gc
import gzip
import json
import random
import sys
import tracemalloc
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from ugm import Manager, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig

#: (whether it grows, queue path, application, usage, user, what the trace says: the answer, or whether the app ends)
Step = tuple[bool, str, str, Resource, UserGroup, bool]

RUNS = 7
MEMORY_USERS = 20_000


#: What happens under one configuration.
Segment = tuple[PartitionConfig, list[Step]]


def read(path: str) -> list[Segment]:
    """Read a trace, with one object for each queue, application, user and usage, as a scheduler keeps them."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trace = json.loads(file.readline())
    users: dict[str, UserGroup] = {}
    usages: dict[str, Resource] = {}

    def step(fields: dict[str, Any]) -> Step:
        grows = fields["op"] == "increase"
        user = users.setdefault(
            f"{fields['user']} {fields['groups']}", UserGroup(fields["user"], tuple(fields["groups"]))
        )
        usage = usages.setdefault(str(fields["usage"]), Resource(fields["usage"]))
        queue, application = sys.intern(fields["queue"]), sys.intern(fields["app"])
        return grows, queue, application, usage, user, fields["allowed" if grows else "remove_app"]

    segments: list[Segment] = [(partition(trace["queues"]), [])]
    for step_found in trace["steps"]:
        if step_found["op"] == "configure":
            segments.append((partition(step_found["queues"]), []))
        elif step_found["op"] in ("increase", "decrease"):
            segments[-1][1].append(step(step_found))
    return segments


def partition(queues: dict[str, Any]) -> PartitionConfig:
    """Return the configuration of a trace."""
    return parse_config(json.dumps({"partitions": [{"name": "default", "queues": [queues]}]})).partition()


def replay(segments: list[Segment]) -> tuple[int, int, int]:
    """Return the nanoseconds, the denied increases and the wrong answers of one run."""
    manager = Manager()
    increase, decrease = manager.increase_tracked_resource, manager.decrease_tracked_resource
    elapsed = denied = wrong = 0
    for config, steps in segments:
        manager.update_config(config)
        start = perf_counter_ns()
        for grows, queue, app, usage, user, step in steps:
            if grows:
                allowed = increase(queue, app, usage, user)
                denied += not allowed
                wrong += allowed is not step
            else:
                decrease(queue, app, usage, remove_app=step, user=user)
        elapsed += perf_counter_ns() - start
    manager.verify()
    return elapsed, denied, wrong


def latencies(segments: list[Segment]) -> list[int]:
    """Return the sorted nanoseconds of every single step."""
    manager = Manager()
    times = []
    for config, steps in segments:
        manager.update_config(config)
        for grows, queue, app, usage, user, step in steps:
            start = perf_counter_ns()
            if grows:
                manager.increase_tracked_resource(queue, app, usage, user)
            else:
                manager.decrease_tracked_resource(queue, app, usage, remove_app=step, user=user)
            times.append(perf_counter_ns() - start)
    return sorted(times)


def bytes_per_user(config: PartitionConfig, queues: list[str]) -> int:
    """Return what a user with one application in each of three of *queues* takes, without its names."""
    draw = random.Random(1)
    usage = Resource(vcore=100, memory=1 << 20)
    requests = [
        (queue, f"app-{number}-{queue}", usage, UserGroup(f"user-{number}", (f"group{number % 40:02}",)))
        for number in range(MEMORY_USERS)
        for queue in draw.sample(queues, min(3, len(queues)))
    ]
    gc.collect()
    tracemalloc.start()
    manager = Manager(config)
    for request in requests:
        manager.adopt(*request)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size // MEMORY_USERS


def main() -> None:
    """Run everything and print the figures."""
    trace = sys.argv[1]
    segments = read(trace)
    count = sum(len(steps) for _, steps in segments)
    runs = [replay(segments) for _ in range(RUNS)]
    per_step = sorted(elapsed / count for elapsed, _, _ in runs)
    times = latencies(segments)
    paths = sorted({queue for _, steps in segments for _, queue, *_ in steps})
    figures = {
        "ns_per_step": round(per_step[0]),
        "median": round(per_step[RUNS // 2]),
        "denied": runs[0][1],
        "wrong": runs[0][2],
        "p50": times[len(times) // 2],
        "p99": times[len(times) * 99 // 100],
        "p99.9": times[len(times) * 999 // 1000],
        "bytes_per_user": bytes_per_user(segments[0][0], paths),
        "python": sys.version.split()[0],
        "trace": Path(trace).name,
    }
    print(json.dumps(figures))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

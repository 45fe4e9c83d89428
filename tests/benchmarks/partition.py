"""Replay a stream of increases and decreases through a `Manager` and through a `Partition`, and compare.

Usage: python tests/benchmarks/partition.py TRACE.jsonl.gz

The trace is that of ``users_groups.py``. For the partition every increase is an allocation, every decrease the release
of one. An id that was released is used again, as by a scheduler that names its slots; one that makes new ids has
them at hand, too. There is a quota on every queue and a cluster above them, wide enough
to deny nothing, so that both give the same answers. Applications are submitted before the clock starts.

Prints one JSON object: nanoseconds per step of both and their ratio (the median over pairs of runs in alternation),
and bytes for each live allocation.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import users_groups as users  # type: ignore[import-not-found] # the script in the same folder
import yaml

from ugm import Partition, Resource, UserGroup
from ugm.config import PartitionConfig, SchedulerConfig, dump_config

RUNS = 7
WIDE = {"vcore": "1000000", "memory": "10Pi"}
CLUSTER = Resource.parse(WIDE)
SIZE = Resource(vcore=100, memory=1 << 20)

#: (allocation id, application, usage, what the trace says) of an allocation; (allocation id, None, ...) of a release.
Step = tuple[str, str | None, Resource, bool]


def with_quotas(queues: dict[str, Any]) -> dict[str, Any]:
    """Return the queues of a trace with a maximum on each."""
    below = [with_quotas(child) for child in queues.get("queues", ())]
    quota = {} if queues["name"] == "root" else {"resources": {"max": WIDE}}
    return {**queues, **quota, "submitacl": "*", **({"queues": below} if below else {})}


def with_wide_limits(queues: dict[str, Any]) -> dict[str, Any]:
    """Return queues with a limit for every user on each, which denies nothing either."""
    below = [with_wide_limits(child) for child in queues.get("queues", ())]
    limits = [{"limit": "wide", "users": ["*"], "maxresources": WIDE}]
    return {**queues, "limits": limits, **({"queues": below} if below else {})}


def root_of(config: PartitionConfig) -> dict[str, Any]:
    """Return the queues of a configuration as in a file."""
    text = dump_config(SchedulerConfig(partitions=(PartitionConfig(queues=(config.root,)),)))
    root: dict[str, Any] = yaml.safe_load(text)["partitions"][0]["queues"][0]
    return root


def read(path: str) -> tuple[PartitionConfig, list[Step], list[tuple[str, UserGroup, str]]]:
    """Return the configuration with quotas, the steps with allocation ids, and what has to be submitted for them."""
    config, steps = users.read(path)[0]
    live: dict[tuple[str, Resource], list[str]] = {}
    ours: list[Step] = []
    submissions: dict[str, tuple[str, UserGroup, str]] = {}
    free: list[str] = []
    for number, (grows, queue, app, usage, user, step) in enumerate(steps):
        if grows:
            submissions.setdefault(app, (app, user, queue))
            allocation_id = free.pop() if free else f"allocation-{number}"
            ours.append((allocation_id, app, usage, step))
            if step:
                live.setdefault((app, usage), []).append(allocation_id)
            else:
                free.append(allocation_id)
        else:
            free.append(live[app, usage].pop())
            ours.append((free[-1], None, usage, True))
    return users.partition(with_quotas(root_of(config))), ours, list(submissions.values())


def prepared(config: PartitionConfig, submissions: list[tuple[str, UserGroup, str]]) -> Partition:
    """Return a partition with everything submitted."""
    partition = Partition(config, cluster=CLUSTER)
    for submission in submissions:
        partition.submit(*submission)
    return partition


def replay(partition: Partition, steps: list[Step]) -> tuple[int, int]:
    """Return the nanoseconds and the wrong answers of one run."""
    allocate, release = partition.allocate, partition.release
    wrong = 0
    start = perf_counter_ns()
    for allocation_id, application_id, usage, step in steps:
        if application_id is None:
            release(allocation_id)
        else:
            wrong += bool(allocate(allocation_id, application_id, usage).violations) is step
    elapsed = perf_counter_ns() - start
    partition.verify()
    return elapsed, wrong


def bytes_per_allocation(config: PartitionConfig, queue: str) -> int:
    """Return what a live allocation takes, with its id, without its application."""
    partition = Partition(config, cluster=CLUSTER)
    count = 200_000
    for number in range(count // 100):
        partition.submit(f"app-{number}", UserGroup(f"user-{number}"), queue)
        partition.adopt(f"first-{number}", f"app-{number}", SIZE)
    gc.collect()
    tracemalloc.start()
    for number in range(count):
        partition.adopt(f"allocation-{number}", f"app-{number // 100}", SIZE)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size // count


def main() -> None:
    """Run everything and print the figures."""
    trace = sys.argv[1]
    segments = users.read(trace)
    config, steps, submissions = read(trace)
    pairs = []
    for _ in range(RUNS):
        manager = users.replay(segments)[0] / len(steps)
        elapsed, wrong = replay(prepared(config, submissions), steps)
        pairs.append((elapsed / len(steps), manager, elapsed / len(steps) / manager, wrong))
    config = users.partition(with_wide_limits(root_of(config)))
    figures = {
        "ns_per_step": round(min(pair[0] for pair in pairs)),
        "manager_ns_per_step": round(min(pair[1] for pair in pairs)),
        "ratio": round(median(pair[2] for pair in pairs), 2),
        "wrong": pairs[0][3],
        "bytes_per_allocation": bytes_per_allocation(config, submissions[0][2]),
        "python": sys.version.split()[0],
        "trace": Path(trace).name,
    }
    print(json.dumps(figures))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

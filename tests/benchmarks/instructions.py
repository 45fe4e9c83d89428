"""Count the bytecode instructions that the benchmark workloads execute.

Usage: python tests/benchmarks/instructions.py [--steps NUMBER] [--workload NAME]... [--time]

`workloads.py` describes the recorded workloads. Instructions in Python functions count, without those of the benchmark
itself. A comparison of two versions is a run in each of their checkouts. Prints one JSON object: for each workload the
number of instructions, or with ``--time`` the nanoseconds for each step, the best of five runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time_ns
from types import MappingProxyType
from typing import Any, Final

import workloads  # type: ignore[import-not-found] # a script in this folder
from counting import bytecodes  # type: ignore[import-not-found] # a script in this folder

from ugm import Manager, Partition, Resource, UserGroup, parse_config

HERE: Final = Path(__file__).resolve().parent
#: How many steps of a trace are replayed before those that are counted.
WARM: Final = 4000

CONFIG: Final = """
partitions:
- name: default
  queues:
  - name: root
    limits: &limits
    - {limit: users, users: ["*"], maxresources: {vcore: 1000, memory: 1Ti}}
    - {limit: groups, groups: [dev], maxresources: {vcore: 1000, memory: 1Ti}}
    queues:
    - name: division
      limits: *limits
      resources: {max: {vcore: 1000, memory: 1Ti}}
      queues:
      - name: team
        limits: *limits
        resources: {max: {vcore: 1000, memory: 1Ti}}
        queues: [{name: batch, limits: *limits, resources: {max: {vcore: 1000, memory: 1Ti}}}]
"""

#: What is counted.
Run = Callable[[], object]


def manager(steps: int) -> Run:
    """Prepare increases and decreases of a recorded trace on a manager."""
    config, trace = workloads.users_and_groups()
    made = Manager()
    made.update_config(config)

    def replay(part: list[Any]) -> None:
        increase, decrease = made.increase_tracked_resource, made.decrease_tracked_resource
        for grows, queue, application, usage, user, line in part:
            if grows:
                increase(queue, application, usage, user)
            else:
                decrease(queue, application, usage, remove_app=line, user=user)

    replay(trace[:WARM])
    return partial(replay, trace[WARM : WARM + steps])


def partition(steps: int) -> Run:
    """Prepare allocations and releases of the same trace on a partition."""
    made, trace = workloads.partition_and_calls()

    def replay(part: list[Any]) -> None:
        allocate, release = made.allocate, made.release
        for allocation_id, application_id, usage in part:
            if application_id is None:
                release(allocation_id)
            else:
                allocate(allocation_id, application_id, usage)

    replay(trace[:WARM])
    return partial(replay, trace[WARM : WARM + steps])


def _one_application(**options: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - of either version
    cluster = Resource.parse({"vcore": "999", "memory": "1Ti"})
    made = Partition(parse_config(CONFIG).partition(), cluster=cluster, **options)
    made.submit("app", UserGroup("sue", ("dev",)), "root.division.team.batch")
    usage, too_much = Resource(vcore=100, memory=1 << 20), Resource(vcore=10**9)
    made.allocate("first", "app", usage)
    return made, usage, too_much


def pair(steps: int, **options: Any) -> Run:  # noqa: ANN401 - as above
    """Prepare pairs of an allocation and its release in a queue at depth 4."""
    made, usage, _ = _one_application(**options)

    def replay() -> None:
        for _ in range(steps):
            made.allocate("more", "app", usage)
            made.release("more")

    return replay


def check(steps: int) -> Run:
    """Prepare checks that are allowed."""
    made, usage, _ = _one_application()

    def replay() -> None:
        for _ in range(steps):
            made.check("app", usage)

    return replay


def denied(steps: int) -> Run:
    """Prepare allocations that every limit denies."""
    made, _, too_much = _one_application()

    def replay() -> None:
        for _ in range(steps):
            made.allocate("more", "app", too_much)

    return replay


def tree(kind: str, steps: int) -> Run:
    """Prepare arrivals and departures on a quota tree."""
    workload = workloads.quota_tree(kind)
    replay = workloads.TreeReplay(workload)
    replay.run(0, workload.warmup)
    return partial(replay.run, workload.warmup, workload.warmup + steps)


def elastic(steps: int) -> Run:
    """Prepare changes of requests among elastic groups, each followed by a read of that group."""
    workload = workloads.elastic_groups()
    made = workload.tree()
    for name, request in workload.initial:
        made.change_request(name, request)
    for name, _ in workload.initial:
        made.runtime(name)

    def replay() -> None:
        for name, delta in workload.steps[:steps]:
            made.change_request(name, delta)
            made.runtime(name)

    return replay


WORKLOADS: Final[Mapping[str, Callable[[int], Run]]] = MappingProxyType({
    "manager": manager,
    "partition": partition,
    "pair": pair,
    "check": check,
    "denied": denied,
    "subscribed": partial(pair, subscribers=[lambda _number, _events: None]),
    "quotatree-steady": partial(tree, "steady"),
    "quotatree-borrow": partial(tree, "borrow"),
    "elastic": elastic,
})  # fmt: skip


def nanoseconds(prepare: Callable[[int], Run], steps: int) -> int:
    """Return the processor time of a step, the best of five runs."""
    times = []
    for _ in range(5):
        run = prepare(steps)
        start = process_time_ns()
        run()
        times.append((process_time_ns() - start) // steps)
    return min(times)


def main() -> None:
    """Count the chosen workloads, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="how many steps of each workload are counted")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), default=[], help="run only this one")
    parser.add_argument("--time", action="store_true", help="measure the processor time of a step instead")
    options = parser.parse_args()
    chosen = {name: WORKLOADS[name] for name in options.workload or WORKLOADS}
    if options.time:
        counts = {name: nanoseconds(prepare, options.steps) for name, prepare in chosen.items()}
    else:
        counts = {name: bytecodes(prepare(options.steps), driver=(HERE,)) for name, prepare in chosen.items()}
    print(json.dumps(counts, indent=1))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

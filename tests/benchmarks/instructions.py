"""Count the bytecode instructions that the benchmark workloads execute.

Usage: python tests/benchmarks/instructions.py [--steps NUMBER] [--workload NAME]...

``traces`` here has the first 1,000 steps of each recorded workload; `users_groups.py`, `quotatree.py` and `elastic.py`
describe the formats. Instructions in Python functions count, without those of the benchmark itself. A comparison of two
versions is a run in each of their checkouts. Prints one JSON object: for each workload the number of instructions.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from counting import bytecodes  # type: ignore[import-not-found] # a script in this folder

from ugm import Manager, Partition, Resource, UserGroup, parse_config

HERE: Final = Path(__file__).resolve().parent
TRACES: Final = HERE / "traces"
#: How many steps of a trace are replayed before those that are counted.
WARM: Final = 4000

USERS_GROUPS: Final = "users_groups.jsonl.gz"
ELASTIC: Final = "elastic.jsonl.gz"

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
    scripts = import_module("users_groups")
    config, trace = scripts.read(str(TRACES / USERS_GROUPS))[0]
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
    scripts = import_module("partition")
    config, trace, submissions = scripts.read(str(TRACES / USERS_GROUPS))
    made = scripts.prepared(config, submissions)

    def replay(part: list[Any]) -> None:
        allocate, release = made.allocate, made.release
        for allocation_id, application_id, usage, _ in part:
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


def tree(name: str, steps: int) -> Run:
    """Prepare arrivals and departures on a quota tree."""
    scripts = import_module("quotatree")
    workload = scripts.read(str(TRACES / name))
    tally = scripts.Tally(workload)
    tally.run(0, workload.warmup)
    return partial(tally.run, workload.warmup, workload.warmup + steps)


def elastic(steps: int) -> Run:
    """Prepare changes of requests among elastic groups, each followed by a read of that group."""
    scripts = import_module("elastic")
    with gzip.open(TRACES / ELASTIC, "rt", encoding="utf-8") as lines:
        workload = json.loads(lines.readline())
    groups = [scripts.read_group(quota) for quota in workload["quotas"]]
    initial, changes = (scripts.read_steps(workload[name]) for name in ("initial_requests", "steps"))
    made = scripts.prepared(workload, groups, initial)

    def replay() -> None:
        for name, delta in changes[:steps]:
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
    "quotatree-steady": partial(tree, "quotatree_steady_2000.jsonl.gz"),
    "quotatree-borrow": partial(tree, "quotatree_borrow_2000.jsonl.gz"),
    "elastic": elastic,
})  # fmt: skip


def main() -> None:
    """Count the chosen workloads, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="how many steps of each workload are counted")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), default=[], help="run only this one")
    options = parser.parse_args()
    names = options.workload or list(WORKLOADS)
    counts = {name: bytecodes(WORKLOADS[name](options.steps), driver=(HERE,)) for name in names}
    print(json.dumps(counts, indent=1))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

"""Replay recorded changes of requests among elastic groups, read after every change, and time it.

Usage: python tests/benchmarks/elastic.py WORKLOADS.jsonl.gz

A workload is one JSON object a line: ``name``, ``total``, ``scale_min``, ``quotas`` (parents first; the words are in
`tests/vectors/elastic/README.md`), ``initial_requests`` and ``steps``, both as ``[group, cpu, memory]``. The groups are
created one by one, the initial requests are made and read, and then each step changes a request and reads the runtime
of that group. Vectors are built before the clock starts. At the end every runtime is compared with a recomputed one.

Prints one JSON object a line, all in processor time: nanoseconds per step (best and median of the runs), percentiles of
single steps (with what reading the clock takes, some hundred nanoseconds), and seconds for creating the groups, one by
one, with and without the rules. A last line has 2,000 leaves of the last workload below one parent.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from time import process_time_ns
from typing import Any

from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticQuota, ElasticTree, verify

RUNS = 5
SIBLINGS = 2000

#: A group, and how much more it asks for.
Step = tuple[str, Resource]


def read_group(fields: dict[str, Any]) -> ElasticGroup:
    """Return a group of a workload."""
    weight = fields["shared_weight"]
    least, most = Resource(fields["min"]), Resource(fields["max"])
    given = None if weight is None else Resource(weight)
    return ElasticGroup(
        fields["name"],
        fields["parent"],
        least,
        most,
        given,
        allow_lent=fields["allow_lent"],
        is_parent=fields["is_parent"],
    )


def read_steps(result: list[tuple[str, int, int]]) -> list[Step]:
    """Return the steps of a workload, with the objects that a scheduler would keep."""
    return [(sys.intern(name), Resource(cpu=cpu, memory=memory)) for name, cpu, memory in result]


def prepared(workload: dict[str, Any], groups: list[ElasticGroup], initial: list[Step]) -> ElasticTree:
    """Return the tree of a workload after its initial requests, each of them read once."""
    tree = ElasticTree(Resource(workload["total"]), groups, scale_min=workload["scale_min"])
    for name, request in initial:
        tree.change_request(name, request)
    for name, _ in initial:
        tree.runtime(name)
    return tree


def replay(tree: ElasticTree, steps: list[Step]) -> float:
    """Return the nanoseconds per step of one run."""
    change, read = tree.change_request, tree.runtime
    start = process_time_ns()
    for name, delta in steps:
        change(name, delta)
        read(name)
    return (process_time_ns() - start) / len(steps)


def latencies(tree: ElasticTree, steps: list[Step]) -> list[int]:
    """Return the sorted nanoseconds of every single step."""
    times = []
    for name, delta in steps:
        start = process_time_ns()
        tree.change_request(name, delta)
        tree.runtime(name)
        times.append(process_time_ns() - start)
    return sorted(times)


def creating(groups: list[ElasticGroup], *, judged: bool) -> float:
    """Return the seconds for creating all groups one by one."""
    tree = ElasticTree()
    quota = ElasticQuota(tree)
    create = quota.create if judged else tree.put
    start = process_time_ns()
    for group in groups:
        create(group)
    return (process_time_ns() - start) / 1e9


def measure(workload: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one workload."""
    groups = [read_group(quota) for quota in workload["quotas"]]
    initial, steps = read_steps(workload["initial_requests"]), read_steps(workload["steps"])
    runs = sorted(replay(prepared(workload, groups, initial), steps) for _ in range(RUNS))
    tree = prepared(workload, groups, initial)
    times = latencies(tree, steps)
    verify(tree)
    return {
        "workload": workload["name"],
        "ns_per_step": round(runs[0]),
        "median": round(runs[RUNS // 2]),
        "p50": times[len(times) // 2],
        "p99": times[len(times) * 99 // 100],
        "p99.9": times[len(times) * 999 // 1000],
        "groups": len(groups),
        "seconds_to_put": round(min(creating(groups, judged=False) for _ in range(3)), 3),
        "seconds_to_create": round(min(creating(groups, judged=True) for _ in range(3)), 3),
        "python": sys.version.split()[0],
    }


def one_parent(workload: dict[str, Any]) -> dict[str, Any]:
    """Return a workload with 2,000 of its leaves below one parent, and a cluster as large as their parents had."""
    leaves = [quota for quota in workload["quotas"] if quota["parent"]][:SIBLINGS]
    parents, kept = {leaf["parent"] for leaf in leaves}, {leaf["name"] for leaf in leaves}
    total = {name: amount * len(parents) // _parents(workload) for name, amount in workload["total"].items()}
    least = {name: sum(leaf["min"].get(name, 0) for leaf in leaves) for name in total}
    most = {name: sum(leaf["max"].get(name, 0) for leaf in leaves) for name in total}
    above = {"name": "all", "parent": "", "is_parent": True, "min": least, "max": most, "shared_weight": None}
    return {
        **workload,
        "name": f"{len(leaves)} leaves under one parent",
        "total": total,
        "quotas": [{**above, "allow_lent": True}, *({**leaf, "parent": "all"} for leaf in leaves)],
        "initial_requests": [step for step in workload["initial_requests"] if step[0] in kept],
        "steps": [step for step in workload["steps"] if step[0] in kept],
    }


def _parents(workload: dict[str, Any]) -> int:
    return sum(1 for quota in workload["quotas"] if not quota["parent"])


def workloads(path: str) -> Iterator[dict[str, Any]]:
    """Yield the workloads of a file, and 2,000 leaves of the last one below one parent."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            workload = json.loads(line)
            yield workload
    yield one_parent(workload)


def main() -> None:
    """Run everything and print the figures."""
    for workload in workloads(sys.argv[1]):
        print(json.dumps(measure(workload)))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

"""Recorded workloads, ready to be replayed.

``traces`` has the first steps of each. All objects are made before the replay, as a scheduler keeps them.

- ``users_groups``: one JSON object with ``queues`` (the root queue with its limits, named as in a configuration file)
  and ``steps`` (``op``, ``queue``, ``app``, ``user``, ``groups``, ``usage``; ``allowed`` of an increase and
  ``remove_app`` of a decrease).
- ``elastic``: one JSON object with ``total``, ``scale_min``, ``quotas`` (parents first; the words are in
  `tests/vectors/elastic/README.md`), ``initial_requests`` and ``steps``, both as ``[group, cpu, memory]``.
- ``quotatree``: first an object with ``tree`` (a tree document) and ``warmup_ops`` (operations before the others). Each
  further line is an operation: ``["a", id, group, cpu, memory, priority]`` arrives and is allocated once, in normal
  mode; ``["d", id]`` is deallocated, which has no effect if it was rejected or preempted before.
"""

from __future__ import annotations

import gc
import gzip
import json
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.elastic import ElasticGroup, ElasticTree
from ugm.quotatree import ConsumerInfo, QuotaManager, TreeRequest

TRACES: Final = Path(__file__).resolve().parent / "traces"
WIDE: Final = {"vcore": "1000000", "memory": "10Pi"}

#: (whether it grows, queue path, application, usage, user, what the trace says: the answer, or whether the app ends)
Step = tuple[bool, str, str, Resource, UserGroup, bool]
#: (allocation id, application, usage) of an allocation; (allocation id, None, usage) of a release.
Call = tuple[str, str | None, Resource]


def lines_of(name: str) -> list[Any]:
    """Return the JSON values of a trace."""
    with gzip.open(TRACES / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# Users and groups


def users_and_groups() -> tuple[PartitionConfig, list[Step]]:
    """Return the configuration and the steps of the trace."""
    [trace] = lines_of("users_groups.jsonl.gz")
    users: dict[str, UserGroup] = {}
    usages: dict[str, Resource] = {}

    def step(fields: dict[str, Any]) -> Step:
        grows = fields["op"] == "increase"
        user = UserGroup(fields["user"], tuple(fields["groups"]))
        usage = usages.setdefault(str(fields["usage"]), Resource(fields["usage"]))
        queue, application = sys.intern(fields["queue"]), sys.intern(fields["app"])
        same = users.setdefault(f"{fields['user']} {fields['groups']}", user)
        return grows, queue, application, usage, same, fields["allowed" if grows else "remove_app"]

    return _config(trace["queues"]), [step(one) for one in trace["steps"] if one["op"] in ("increase", "decrease")]


def _config(queues: dict[str, Any]) -> PartitionConfig:
    return parse_config(json.dumps({"partitions": [{"name": "default", "queues": [queues]}]})).partition()


def _with_quotas(queues: dict[str, Any]) -> dict[str, Any]:
    """Return queues with a maximum on each that denies nothing."""
    below = [_with_quotas(child) for child in queues.get("queues", ())]
    quota = {} if queues["name"] == "root" else {"resources": {"max": WIDE}}
    return {**queues, **quota, "submitacl": "*", **({"queues": below} if below else {})}


def partition_and_calls() -> tuple[Partition, list[Call]]:
    """Return a partition with all applications of the trace, and its steps as allocations and releases.

    An id that was released is used again, as by a scheduler that names its slots. There is a quota on every queue and a
    cluster above them, wide enough to deny nothing.
    """
    [trace] = lines_of("users_groups.jsonl.gz")
    partition = Partition(_config(_with_quotas(trace["queues"])), cluster=Resource.parse(WIDE))
    live: dict[tuple[str, Resource], list[str]] = {}
    calls: list[Call] = []
    free: list[str] = []
    for number, (grows, queue, app, usage, user, is_allowed) in enumerate(users_and_groups()[1]):
        if not grows:
            free.append(live[app, usage].pop())
            calls.append((free[-1], None, usage))
            continue
        partition.submit(app, user, queue)
        allocation_id = free.pop() if free else f"allocation-{number}"
        calls.append((allocation_id, app, usage))
        if is_allowed:
            live.setdefault((app, usage), []).append(allocation_id)
        else:
            free.append(allocation_id)
    return partition, calls


# Elastic groups


class ElasticWorkload(NamedTuple):
    """Changes of requests of groups, each followed by a read."""

    total: Resource
    groups: list[ElasticGroup]
    scale_min: bool
    initial: list[tuple[str, Resource]]
    steps: list[tuple[str, Resource]]

    def tree(self) -> ElasticTree:
        """Return a tree without requests."""
        return ElasticTree(self.total, self.groups, scale_min=self.scale_min)


def elastic_groups() -> ElasticWorkload:
    """Return 1,000 groups under 50 parents."""
    workload = lines_of("elastic.jsonl.gz")[0]

    def group(fields: dict[str, Any]) -> ElasticGroup:
        weight = fields["shared_weight"]
        least, most = Resource(fields["min"]), Resource(fields["max"])
        shared = None if weight is None else Resource(weight)
        flags = {name: fields[name] for name in ("allow_lent", "is_parent")}
        return ElasticGroup(fields["name"], fields["parent"], least, most, shared, **flags)

    initial, steps = (
        [(sys.intern(name), Resource(cpu=cpu, memory=memory)) for name, cpu, memory in workload[key]]
        for key in ("initial_requests", "steps")
    )
    groups = [group(quota) for quota in workload["quotas"]]
    return ElasticWorkload(Resource(workload["total"]), groups, workload["scale_min"], initial, steps)


# Quota trees


class TreeWorkload(NamedTuple):
    """Arrivals and departures."""

    tree: dict[str, Any]
    warmup: int
    #: The id, and for an arrival its group, usage and priority.
    operations: list[tuple[str, tuple[str, Resource, int] | None]]


def quota_tree(kind: str) -> TreeWorkload:
    """Return the operations of 2,000 consumers, most of them in their own group (``steady``) or above (``borrow``)."""
    head, *lines = lines_of(f"quotatree_{kind}_2000.jsonl.gz")
    operations: list[tuple[str, tuple[str, Resource, int] | None]] = [
        (line[1], (line[2], Resource(cpu=line[3], memory=line[4]), line[5]) if line[0] == "a" else None)
        for line in lines
    ]
    return TreeWorkload(head["tree"], head["warmup_ops"], operations)


class TreeReplay:
    """A manager with the tree of a workload."""

    def __init__(self, workload: TreeWorkload) -> None:
        self.manager = QuotaManager()
        self.name = self.manager.add_tree_from_struct(workload.tree)
        self.manager.set_mode("normal")
        self.operations = [
            (consumer_id, ConsumerInfo(consumer_id, [TreeRequest(self.name, *requested)]) if requested else None)
            for consumer_id, requested in workload.operations
        ]
        # A garbage collection would pass over all operations.
        gc.collect()
        gc.freeze()

    def run(self, start: int, end: int | None) -> None:
        """Execute some of the operations."""
        name, manager = self.name, self.manager
        add, allocate, deallocate = manager.add_consumer, manager.allocate, manager.deallocate
        for consumer_id, info in self.operations[start:end]:
            if info is None:
                deallocate(name, consumer_id)
            else:
                add(info)
                allocate(name, consumer_id)

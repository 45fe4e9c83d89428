"""Count what quota models add to the allocations and releases of a partition.

Usage: python tests/benchmarks/models.py [--steps NUMBER] [--workload NAME]

Each workload runs twice: in a partition with a quota model, and in one without. The partition without gets only the
calls that the model allows. The difference is what the model adds. It is counted in bytecode instructions, which do not
depend on the load of the machine, and divided by the number of calls.

- ``allowing``: allocations and releases with a model that always allows.
- ``elastic``: the recorded changes of requests of 1,000 elastic groups under 50 parents. An increase is an allocation
  of that size. A decrease releases the oldest allocation of the group.
- ``tree-steady``, ``tree-borrow``: the recorded arrivals and departures of 2,000 consumers of a quota tree, with their
  priorities.

Prints one JSON object: for each workload the instructions that the model adds to a call, the same in steps of the plain
loop, the calls, and the number of those that the model denied.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import workloads  # type: ignore[import-not-found] # a script in this folder
from counting import bytecodes  # type: ignore[import-not-found] # a script in this folder

from ugm import Claim, Partition, QuotaModel, Resource, UserGroup, parse_config
from ugm.elastic import ElasticModel, ElasticQuota
from ugm.quotatree import Mode, QuotaManager, TreeModel

#: The instructions of one step of the plain loop over users and groups.
STEP: Final = 620

CONFIG: Final = parse_config("partitions: [{queues: [{name: batch, resources: {max: {vcore: 1000000000}}}]}]")
HERE: Final = Path(__file__).parent
TAG: Final = "group"

#: An allocation: its id, its group, its usage and its priority. Without a group it is a release.
Call: TypeAlias = tuple[str, str, Resource, int]


class Workload(NamedTuple):
    """Calls of a partition with a model."""

    make_model: Callable[[], QuotaModel]
    groups: list[str]
    #: The groups whose application runs before the first call.
    running: list[str]
    #: The calls before the count begins.
    warmup: list[Call]
    calls: list[Call]


class Allowing:
    """A model that always allows."""

    def check(self, _claim: Claim) -> tuple[()]:
        """Allow."""
        return ()

    def charge(self, _claim: Claim) -> None:
        """Count nothing."""

    def refund(self, _claim: Claim) -> None:
        """Count nothing."""


def allowing(steps: int) -> Workload:
    """Return pairs of an allocation and its release."""
    size = Resource(vcore=100)
    pair = [("more", "a", size, 0), ("more", "", size, 0)]
    return Workload(Allowing, ["a"], ["a"], [], pair * (steps // 2))


def elastic_groups(steps: int) -> Workload:
    """Return allocations and releases that follow the changes of requests of elastic groups."""
    recorded = workloads.elastic_groups()
    held: defaultdict[str, deque[str]] = defaultdict(deque)
    calls: list[Call] = []
    for number, (name, delta) in enumerate([*recorded.initial, *recorded.steps]):
        if min(delta.amounts.values()) > 0:
            held[name].append(f"pod-{number}")
            calls.append((held[name][-1], name, delta, 0))
        elif held[name]:
            calls.append((held[name].popleft(), "", delta, 0))
    start = len(recorded.initial)
    return Workload(
        lambda: ElasticModel(ElasticQuota(recorded.tree()), group_tag=TAG),
        [group.name for group in recorded.groups],
        [group.name for group in recorded.groups if not group.is_parent],
        calls[:start],
        calls[start : start + steps],
    )


def quota_tree(kind: str, steps: int) -> Workload:
    """Return arrivals and departures on a quota tree."""
    recorded = workloads.quota_tree(kind)

    def make() -> TreeModel:
        manager = QuotaManager()
        name = manager.add_tree_from_struct(recorded.tree)
        manager.set_mode(Mode.NORMAL)
        return TreeModel(manager, name, lambda claim: claim.tags[TAG])

    calls = [(one, *(requested or ("", Resource(), 0))) for one, requested in recorded.operations]
    groups = sorted({group for _, group, _, _ in calls if group})
    return Workload(make, groups, [], calls[: recorded.warmup], calls[recorded.warmup : recorded.warmup + steps])


WORKLOADS: Final[dict[str, Callable[[int], Workload]]] = {
    "allowing": allowing,
    "elastic": elastic_groups,
    "tree-steady": partial(quota_tree, "steady"),
    "tree-borrow": partial(quota_tree, "borrow"),
}


def prepared(workload: Workload, *models: QuotaModel) -> Partition:
    """Return a partition with one application for each group."""
    partition = Partition(CONFIG.partition(), models=models)
    for group in workload.groups:
        partition.submit(group, UserGroup("sue"), "root.batch", tags={TAG: group})
    for group in workload.running:
        # No model limits this resource.
        partition.allocate(f"first of {group}", group, Resource(vcore=1))
    return partition


def replay(partition: Partition, calls: list[Call], denied: set[str]) -> None:
    """Execute calls, and note the allocations that are denied."""
    allocate, release = partition.allocate, partition.release
    for allocation_id, group, usage, priority in calls:
        if not group:
            release(allocation_id)
        elif not allocate(allocation_id, group, usage, priority=priority):
            denied.add(allocation_id)


def granted(calls: list[Call], denied: set[str]) -> list[Call]:
    """Return the calls without those for denied allocations."""
    return [call for call in calls if call[0] not in denied]


def measure(prepare: Callable[[int], Workload], steps: int) -> dict[str, Any]:
    """Return the figures of one workload."""
    workload = prepare(steps)
    denied: set[str] = set()
    with_model = prepared(workload, workload.make_model())
    replay(with_model, workload.warmup, denied)
    denied_before = len(denied)
    more = bytecodes(lambda: replay(with_model, workload.calls, denied), driver=(HERE,))
    with_model.verify()
    without = prepared(workload)
    replay(without, granted(workload.warmup, denied), set())
    calls = granted(workload.calls, denied)
    plain = bytecodes(lambda: replay(without, calls, set()), driver=(HERE,))
    added = (more - plain) / len(workload.calls)
    return {
        "added_instructions": round(added),
        "added_steps": round(added / STEP, 2),
        "calls": len(workload.calls),
        "denied": len(denied) - denied_before,
    }


def main() -> None:
    """Read the command line, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="how many calls of each workload are counted")
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), default=[], help="run only this one")
    options = parser.parse_args()
    names = options.workload or list(WORKLOADS)
    print(json.dumps({name: measure(WORKLOADS[name], options.steps) for name in names}, indent=1))  # noqa: T201 - the figures are the output


if __name__ == "__main__":
    main()

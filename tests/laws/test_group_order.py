"""Passes that traverse the groups of a quota model: every head equals the result of sorting everything naively."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import Head

CONFIG = """
partitions:
- queues: [{name: a}, {name: b}, {name: c}, {name: d}]
  ugm:
    elastic:
      total: {gpu: 12, vcore: 6}
      groups:
      - {name: team, isparent: true, min: {gpu: 6, vcore: 2}, max: {gpu: 12, vcore: 6}}
      - {name: a, parent: team, min: {gpu: 4, vcore: 1}, max: {gpu: 12, vcore: 6}}
      - {name: b, parent: team, min: {gpu: 2, vcore: 1}, max: {gpu: 12, vcore: 6}}
      - {name: c, min: {gpu: 3, vcore: 1}, max: {gpu: 8, vcore: 6}}
      groupby: [{source: queue}]
      unrestricted: true
    quotatrees:
    - tree:
        kind: QuotaTree
        metadata: {name: company}
        spec:
          resourceNames: [gpu, vcore]
          nodes:
            company: {parent: nil, hard: "true", quota: {gpu: "12", vcore: "6"}}
            lab: {parent: company, hard: "false", quota: {gpu: "5", vcore: "3"}}
            a: {parent: lab, hard: "false", quota: {gpu: "3", vcore: "2"}}
            b: {parent: lab, hard: "false", quota: {gpu: "0", vcore: "1"}}
            c: {parent: company, hard: "false", quota: {gpu: "4", vcore: "2"}}
      groupby: [{source: queue, names: {root.a: a, root.b: b, root.c: c}}]
      unrestricted: true
"""

STEPS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.dictionaries(st.sampled_from(["gpu", "vcore"]), st.integers(1, 4), min_size=1).map(Resource),
        st.integers(0, 2),
    ),
    max_size=10,
)
#: What to do with a head: grant it, skip it, request more, or release something.
ACTIONS = st.lists(st.sampled_from(["grant", "skip", "request", "release"]), min_size=12, max_size=12)


class Group:
    """A group with what it uses, and the requests that wait in and below it, each with its application."""

    def __init__(self, name: str, parent: str, available: Mapping[str, int]) -> None:
        self.name, self.parent, self.available = name, parent, available
        self.used: Counter[str] = Counter()
        self.waiting: list[tuple[int, str]] = []

    def key(self) -> tuple[Fraction, int, str]:
        """Return the ratio, the first submission and the name."""
        parts = [
            Fraction(amount, self.available[name]) if self.available[name] else Fraction(1)
            for name, amount in self.used.items()
            if amount and name in self.available
        ]
        return max(parts, default=Fraction(0)), min(self.waiting)[0], self.name


def groups_of(partition: Any, tree: str, out: set[str]) -> list[Group]:  # noqa: ANN401 - reads the model
    """Return the groups of a tree with the usage and the requests of their applications."""
    [model] = [one for one in partition._models.all if tree in one.order_trees()]
    groups = {node.name: Group(*node) for node in model.order_nodes(tree)}
    # The queue "d" has no group.
    groups["(no group)"] = Group("(no group)", "", {})
    for number, application in enumerate(partition.applications()):
        name = application.queue_path.rpartition(".")[2]
        name = name if name in groups else "(no group)"
        while name:
            for one in partition.allocations(application.application_id):
                if one.state != "pending":
                    groups[name].used.update(one.usage)
                elif one.allocation_id not in out:
                    groups[name].waiting.append((number, one.allocation_id))
            name = groups[name].parent
    return list(groups.values())


def naive_first(partition: Partition, tree: str, out: set[str]) -> str | None:
    """Return the request that comes first, by sorting the groups of each level."""
    path = naive_path(groups_of(partition, tree, out))
    return min(path[-1].waiting)[1] if path else None


def naive_path(groups: list[Group]) -> list[Group]:
    """Return the groups above the request that comes first, from the top down."""
    path: list[Group] = []
    while children := [one for one in groups if one.waiting and one.parent == (path[-1].name if path else "")]:
        path.append(min(children, key=Group.key))
    return path


def ask(partition: Partition, number: int, step: tuple[str, Resource, int]) -> None:
    """Submit an application with a request, or another request of an earlier one."""
    queue, usage, _ = step
    name = f"app-{number:03}"
    partition.submit(name, UserGroup("ana"), f"root.{queue}")
    partition.request(f"{name}.0", name, usage)


@pytest.mark.parametrize("tree", ["elastic groups", "company"])
@given(steps=STEPS, later=STEPS, actions=ACTIONS)
def test_equals_sorting_everything(
    tree: str, steps: list[tuple[str, Resource, int]], later: list[tuple[str, Resource, int]], actions: list[str]
) -> None:
    """Every head is the first one of a naive sort, also after grants, releases and new requests."""
    partition, out, more = Partition(parse_config(CONFIG).partition()), set[str](), list(later)
    for number, step in enumerate(steps):
        ask(partition, number, step)
    offered = partition.scheduling_pass(tree=tree)
    for action in actions:
        if action == "request" and more:
            ask(partition, 900 - len(more), more.pop())
        held = [one for one in partition.allocations() if one.state != "pending"]
        if action == "release" and held:
            partition.release(held[0].allocation_id)
        expected = naive_first(partition, tree, out)
        head = next(offered, None)
        assert (head and head.request.allocation_id) == expected
        if head is None:
            return
        out.add(head.request.allocation_id)
        _use(head, action)
    partition.verify()


def _use(head: Head, action: str) -> None:
    if action == "skip":
        head.skip()
    else:
        head.allocate()


def test_reasons_name_the_groups() -> None:
    """The comparisons of a head name the groups, with the part of what is available that they use."""
    partition = Partition(parse_config(CONFIG).partition())
    for number, queue in enumerate("ac"):
        ask(partition, number, (queue, Resource(gpu=2), 0))
        partition.request(f"app-{number:03}.1", f"app-{number:03}", Resource(gpu=1))
    heads = partition.scheduling_pass(tree="company")
    assert next(heads).allocate()
    head = next(heads)

    assert (head.queue_path, head.request.allocation_id) == ("root.company.c", "app-001.0")
    assert str(head.keys[1]) == (
        "root.company.c comes before root.company.lab by the ratio of its usage: 0 against 2/5"
    )


def test_unknown_tree() -> None:
    """A tree that no quota model has is refused, with the names of those that exist."""
    partition = Partition(parse_config(CONFIG).partition())
    with pytest.raises(RequestError, match=r"existing: 'elastic groups', 'company'"):
        partition.scheduling_pass(tree="other")
    with pytest.raises(RequestError, match=r"existing: 'elastic groups', 'company'"):
        partition.order(tree="other")

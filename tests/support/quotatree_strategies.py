"""Small trees and requests, so that quotas bite and the same nodes meet again."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.quotatree_reference import PlainConsumer
from ugm import Resource
from ugm.quotatree import ConsumerInfo, TreeRequest

TREE = "T"
RESOURCES = ("cpu", "memory")

quotas = st.fixed_dictionaries({name: st.integers(0, 6).map(str) for name in RESOURCES})
hardness = st.sampled_from(["false", "false", "true"])


@st.composite
def documents(draw: st.DrawFn, name: str = TREE) -> dict[str, Any]:
    """Draw the document of a tree of two to nine nodes, each below one that came before it."""
    nodes: dict[str, Any] = {}
    for number in range(draw(st.integers(2, 9))):
        parent = f"n{draw(st.integers(0, number - 1))}" if number else "nil"
        quota = {key: str(int(value) + 4 * (number == 0)) for key, value in draw(quotas).items()}
        nodes[f"n{number}"] = {"parent": parent, "hard": draw(hardness), "quota": quota}
    spec = {"resourceNames": list(RESOURCES), "nodes": nodes}
    return {"kind": "QuotaTree", "metadata": {"name": name}, "spec": spec}


@st.composite
def newcomers(draw: st.DrawFn, consumer_id: str, groups: tuple[str, ...]) -> PlainConsumer:
    """Draw a consumer with its request."""
    request = {name: draw(st.integers(0, 4)) for name in RESOURCES}
    priority, of_type = draw(st.integers(0, 3)), draw(st.sampled_from([0, 0, 0, 1]))
    group, unpreemptable = draw(st.sampled_from(groups)), draw(st.integers(0, 5)) == 0
    return PlainConsumer(consumer_id, group, request, priority, of_type, unpreemptable)


def info_of(consumer: PlainConsumer, *tree_names: str) -> ConsumerInfo:
    """Return a consumer with the same request on some trees, by default on `TREE`."""
    consumer_id, group, request, priority, of_type, unpreemptable = consumer
    rest = (Resource(request), priority, of_type, unpreemptable)
    return ConsumerInfo(consumer_id, [TreeRequest(name, group, *rest) for name in tree_names or (TREE,)])

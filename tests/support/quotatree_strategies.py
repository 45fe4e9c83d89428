"""Small trees and requests, so that quotas bite and the same nodes meet again."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.quotatree_reference import Asked
from ugm import Resource
from ugm.quotatree import ConsumerInfo, TreeRequest

__all__ = ["RESOURCES", "TREE", "documents", "info_of", "requests"]

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
def requests(draw: st.DrawFn, consumer_id: str, groups: tuple[str, ...]) -> Asked:
    """Draw what a consumer asks for."""
    request = {name: draw(st.integers(0, 4)) for name in RESOURCES}
    priority, of_type = draw(st.integers(0, 3)), draw(st.sampled_from([0, 0, 0, 1]))
    return Asked(consumer_id, draw(st.sampled_from(groups)), request, priority, of_type, draw(st.integers(0, 5)) == 0)


def info_of(asked: Asked, *tree_names: str) -> ConsumerInfo:
    """Return a consumer that asks the same of some trees, or of the usual one."""
    _, group, request, priority, of_type, unpreemptable = asked
    rest = (Resource(request), priority, of_type, unpreemptable)
    return ConsumerInfo(asked.id, [TreeRequest(name, group, *rest) for name in tree_names or (TREE,)])

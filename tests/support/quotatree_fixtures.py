"""Small trees for tests, written as ``{node: (parent, quota)}`` with a ``!`` after the name of a hard node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ugm import Claim, Resource
from ugm.quotatree import AllocationResponse, ConsumerInfo, Mode, QuotaManager, TreeModel, TreeRequest

#: A root of 4 with two leaves of 2.
PAIR = {"R": ("nil", 4), "A": ("R", 2), "B": ("R", 2)}

Nodes = Mapping[str, tuple[str, int]]


def document(nodes: Nodes, name: str = "T", resource: str = "cpu") -> dict[str, Any]:
    """Return a tree document."""
    specs = {
        key.rstrip("!"): {"parent": parent, "hard": str(key.endswith("!")).lower(), "quota": {resource: str(quota)}}
        for key, (parent, quota) in nodes.items()
    }
    return {"kind": "QuotaTree", "metadata": {"name": name}, "spec": {"resourceNames": [resource], "nodes": specs}}


def manager_of(*documents: Mapping[str, Any], forest: str = "", **options: Any) -> QuotaManager:  # noqa: ANN401 - of a manager
    """Return a manager in normal mode with some trees, in one forest if it has a name."""
    manager = QuotaManager(**options)
    manager.set_mode(Mode.NORMAL)
    if forest:
        manager.add_forest(forest)
    for one in documents:
        name = manager.add_tree_from_struct(one)
        if forest:
            manager.add_tree_to_forest(forest, name)
    return manager


def tree_model(one: Mapping[str, Any], group_of: Callable[[Claim], str | None]) -> TreeModel:
    """Return a model of a tree in normal mode."""
    return TreeModel(manager_of(one), one["metadata"]["name"], group_of)


class Scene:
    """A manager in normal mode with one tree, or several."""

    def __init__(self, *trees: Nodes, forest: str = "") -> None:
        self.trees = [f"T{number}" if number else "T" for number in range(len(trees))]
        documents = (document(nodes, name) for name, nodes in zip(self.trees, trees, strict=True))
        self.manager = manager_of(*documents, forest=forest)

    def know(self, consumer_id: str, group: str, cpu: int = 1, **rank: Any) -> None:  # noqa: ANN401 - of a TreeRequest
        """Register a consumer with the same request on all trees."""
        entries = [TreeRequest(name, group, Resource(cpu=cpu), **rank) for name in self.trees]
        self.manager.add_consumer(ConsumerInfo(consumer_id, entries))

    def ask(self, consumer_id: str, group: str, cpu: int = 1, **rank: Any) -> AllocationResponse:  # noqa: ANN401 - as above
        """Register a consumer and allocate it on the first tree."""
        self.know(consumer_id, group, cpu, **rank)
        return self.manager.allocate("T", consumer_id)

    def held(self, tree: str = "T") -> dict[str, list[str]]:
        """Return the consumers of each node that holds any, in order."""
        nodes = self.manager.view(tree).nodes
        return {node.name: [c.consumer_id for c in node.consumers] for node in nodes if node.consumers}

    def used(self, tree: str = "T") -> dict[str, int]:
        """Return the allocated amount of every node."""
        return {node.name: node.allocated["cpu"] for node in self.manager.view(tree).nodes}

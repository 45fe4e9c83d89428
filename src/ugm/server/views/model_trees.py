"""The trees of quota models: elastic groups, and nodes of quota trees, in one form for the page and the metrics.

A tree is read from the state that a model reports as plain data; see `ugm.model.ReportingModel.state`. States of other
kinds have no tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import Final, NamedTuple, TypeAlias

from ugm._json_values import JsonMapping
from ugm.families import SEPARATOR
from ugm.partition import ModelReport
from ugm.partition.answers.thresholds import used_share
from ugm.resources import as_float

_Amounts: TypeAlias = Mapping[str, int]

#: The amounts of each node by the kind of tree.
MEASURES: Final[Mapping[str, tuple[str, ...]]] = {
    "elastic": ("used", "min", "runtime", "request", "max", "borrowed", "lent"),
    "quota": ("used", "quota", "borrowed", "lent"),
}
#: The amounts that limit the usage; the first that a node has counts. The root of elastic groups has no maximum.
_LIMITING: Final[Mapping[str, tuple[str, ...]]] = {"elastic": ("max", "runtime"), "quota": ("quota",)}
#: The prefix of the names of the system and default groups, which every tree has.
_BUILT_IN: Final = "koordinator-"


class TreeItem(NamedTuple):
    """An elastic group, or a node of a quota tree."""

    name: str
    #: Empty for the root.
    parent: str
    #: Whether consumers may not borrow above the node.
    is_hard: bool
    #: The amounts by measure; see `MEASURES`.
    amounts: Mapping[str, _Amounts]


class BorrowingConsumer(NamedTuple):
    """A consumer that a node above its own node holds."""

    consumer_id: str
    #: Its own node.
    group: str
    #: The node that holds it.
    node: str
    request: _Amounts
    priority: int
    unpreemptable: bool


@dataclass(frozen=True)
class ModelTree:
    """The tree of a quota model at one moment."""

    #: Unique in its partition.
    name: str
    #: ``elastic`` or ``quota``.
    kind: str
    #: The mode of the manager of a quota tree; empty for elastic groups.
    mode: str
    #: All nodes by name, every parent before its children.
    nodes: Mapping[str, TreeItem]
    #: The consumers that a node above their own node holds, by node.
    borrowers: tuple[BorrowingConsumer, ...] = ()

    @cached_property
    def children(self) -> Mapping[str, list[TreeItem]]:
        """The nodes directly below each node; those without a parent are below the empty name."""
        found: dict[str, list[TreeItem]] = {"": []}
        for node in self.nodes.values():
            found.setdefault(node.parent if node.parent in self.nodes else "", []).append(node)
        return found

    @cached_property
    def held_for_others(self) -> Mapping[str, int]:
        """The number of borrowers by the node that holds them."""
        return Counter(borrower.node for borrower in self.borrowers)

    # Resources and shares

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The resources that the tree limits: variants such as ``gpu:a100`` last, then by the used share of a root."""
        shares = {
            name: self.share(root, name)
            for root in self.children[""]
            for measure in _LIMITING[self.kind]
            for name in root.amounts[measure]
        }
        return tuple(sorted(shares, key=lambda name: (SEPARATOR in name, -shares[name], name)))

    def share(self, node: TreeItem, resource: str) -> float:
        """Return the used share of the amount that limits a node; 0 if it is not limited."""
        limits = (node.amounts[measure] for measure in _LIMITING[self.kind])
        most = next((amounts[resource] for amounts in limits if resource in amounts), None)
        return 0.0 if most is None else as_float(used_share(node.amounts["used"].get(resource, 0), most))

    def limited(self, node: TreeItem) -> Iterable[str]:
        """Return the resources that a node limits."""
        return dict.fromkeys(name for measure in _LIMITING[self.kind] for name in node.amounts[measure])

    def shares(self) -> dict[str, float]:
        """Return the largest used share of every node; that of a root is above all others."""
        return {
            name: max((self.share(node, resource) for resource in self.resources), default=0.0)
            if node.parent
            else float("inf")
            for name, node in self.nodes.items()
        }

    def path(self, name: str) -> tuple[str, ...]:
        """Return the names of a node and all nodes above it, the root first."""
        found: list[str] = []
        while name in self.nodes:
            found.append(name)
            name = self.nodes[name].parent
        return tuple(reversed(found))


# Reading


def trees_of(reports: Iterable[ModelReport]) -> list[ModelTree]:
    """Return the trees of all models, each with a name of its own."""
    found: dict[str, ModelTree] = {}
    for report in reports:
        read = _READERS.get(report.state.get("kind", ""))
        for tree in () if read is None else read(report.state):
            names = chain([tree.name], (f"{tree.name}-{number}" for number in count(2)))
            unique = next(name for name in names if name not in found)
            found[unique] = replace(tree, name=unique)
    return list(found.values())


def _elastic(state: JsonMapping) -> Iterator[ModelTree]:
    measures = MEASURES["elastic"]
    nodes = {
        group["group"]: TreeItem(
            group["group"], group["parent"], is_hard=False, amounts={one: group[one] for one in measures}
        )
        for group in state["groups"]
        # A group that is built in, and neither configured nor used, is left out.
        if not (group["parent"] and group["group"].startswith(_BUILT_IN)) or any(group[one] for one in measures)
    }
    yield ModelTree("elastic", "elastic", "", nodes)


def _quota(state: JsonMapping) -> Iterator[ModelTree]:
    for tree in state["trees"]:
        borrowers = tuple(
            BorrowingConsumer(**{field: consumer[field] for field in BorrowingConsumer._fields})
            for node in tree["nodes"]
            for consumer in node["consumers"]
            if consumer["group"] != node["name"]
        )
        nodes = {}
        for node in tree["nodes"]:
            amounts = {"used": node["allocated"], **{one: node[one] for one in ("quota", "borrowed", "lent")}}
            nodes[node["name"]] = TreeItem(node["name"], node["parent"], node["hard"], amounts)
        yield ModelTree(tree["name"], "quota", state["mode"], nodes, borrowers)


#: The readers of the states of models, by their kind.
_READERS: Final = {"elastic": _elastic, "quota trees": _quota}

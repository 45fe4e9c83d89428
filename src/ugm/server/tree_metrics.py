"""Metrics of the trees of quota models: elastic groups, and nodes of quota trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ugm.server.gauges import Gauges
from ugm.server.trees import MEASURES, ModelTree

__all__ = ["add_tree"]

#: The prefix of the metrics, and the label of a node, by kind of tree.
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "elastic": ("ugm_elastic_group", "group"),
    "quota": ("ugm_quota_node", "node"),
}
#: The name and the description of each measure; that of the usage follows from the rule for names of metrics.
_SENTENCES: Final[Mapping[str, tuple[str, str]]] = {
    "used": ("usage", "Usage in and below it"),
    "runtime": ("runtime", "Amounts that the group may use now"),
    "min": ("min", "Guaranteed minimum"),
    "request": ("request", "Running and pending requests in and below it"),
    "max": ("max", "Maximum"),
    "quota": ("quota", "Quota of the node"),
    "borrowed": ("borrowed", "Borrowed amounts"),
    "lent": ("lent", "Lent amounts"),
}


def add_tree(gauges: Gauges, partition: str, tree: ModelTree, names: Iterable[str]) -> None:
    """Add the samples of some nodes of a tree.

    Clients choose the names of resources that they request, so only resources that a node limits have samples.
    """
    prefix, label = _NAMES[tree.kind]
    for node in map(tree.nodes.__getitem__, names):
        labels = {"partition": partition, "tree": tree.name, label: node.name}
        for measure in MEASURES[tree.kind]:
            metric, sentence = _SENTENCES[measure]
            amounts = node.amounts[measure]
            # A missing maximum is not 0.
            has_zeros = measure != "max"
            known = {name: amounts.get(name, 0) for name in tree.limited(node) if has_zeros or name in amounts}
            gauges.add_amounts(f"{prefix}_{metric}", sentence, known, labels)
        if tree.kind == "quota":
            held = tree.held_for_others.get(node.name, 0)
            gauges.add(f"{prefix}_borrowers", "Consumers of nodes below that the node holds.", held, labels)

"""The self-check of a tree: every counter and every list recomputed from the consumers.

Any difference is a bug in ugm. The check reads only.
"""

from __future__ import annotations

from collections.abc import Iterator

from ugm.quotatree.consumer import Consumer
from ugm.quotatree.node import TreeNode
from ugm.quotatree.tree import QuotaTree

__all__ = ["findings"]


def findings(tree: QuotaTree) -> Iterator[str]:
    """Yield a sentence for each thing that is not as it has to be."""
    consumers = tree.consumers.values()
    for consumer in consumers:
        if consumer.node is None or consumer not in consumer.node.consumers():
            yield f"{consumer.id!r} is allocated on tree {tree.name!r} and held nowhere"
    for node in tree.nodes.values():
        where = f"node {node.name!r} of tree {tree.name!r}"
        yield from _counters(where, node, [c for c in consumers if c.node and node in c.node.path], tree.resources)
        yield from _lists(where, node, [c for c in consumers if c.node is node])
        above = [c for c in consumers if node.parent and c.node is node.parent and c.leaf and node in c.leaf.path]
        yield from _waiting(where, node, above)


def _counters(where: str, node: TreeNode, below: list[Consumer], resources: tuple[str, ...]) -> Iterator[str]:
    for name, counted in zip(resources, node.allocated(), strict=True):
        due = sum(consumer.entry.request.get(name, 0) for consumer in below)
        if counted != due:
            yield f"{where} counts {counted} {name}, but its consumers hold {due}"


def _lists(where: str, node: TreeNode, here: list[Consumer]) -> Iterator[str]:
    listed = list(node.consumers())
    if [c.id for c in listed] != [c.id for c in sorted(here, key=lambda c: c.sequence)]:
        yield f"{where} does not list those whom it holds in the order of their arrival"
    for rank in {*node.totals, *(consumer.rank for consumer in here)}:
        asked = [consumer.entry.request for consumer in here if consumer.rank is rank]
        due = (
            tuple(sum(max(0, request.get(name, 0)) for request in asked) for name in node.packing.resources),
            len(asked),
        )
        counted = node.packing.summed(node.totals.get(rank, 0))
        if counted != due:
            yield f"{where} counts {counted[1]} of {rank} who give back {counted[0]}, but {due[1]} give back {due[0]}"
    yield from (f"{where} {told}" for told in node.findings())


def _waiting(where: str, node: TreeNode, above: list[Consumer]) -> Iterator[str]:
    listed = list(node.waiting)
    if listed != sorted(above, key=lambda consumer: consumer.sequence):
        yield f"{where} does not know who waits above it"
    if any(consumer.waiting is not node.waiting for consumer in above):
        yield f"{where} is not known by somebody who waits above it"
    yield from (f"{where}: {told}" for told in node.waiting.findings())

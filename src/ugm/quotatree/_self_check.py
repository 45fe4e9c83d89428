"""The self-check of a tree: every counter and every list is recomputed from the consumers.

Any difference is a bug in ugm.
"""

from __future__ import annotations

from collections.abc import Iterator

from ugm.quotatree._node import Consumer, TreeNode
from ugm.quotatree._tree import QuotaTree

__all__ = ["violations"]


def violations(tree: QuotaTree) -> Iterator[str]:
    """Yield a message for each violated invariant."""
    consumers = tree.consumers.values()
    for consumer in consumers:
        if consumer.node is None or consumer not in consumer.node.consumers():
            yield f"{consumer.id!r} is allocated on tree {tree.name!r}, but no node holds it"
    for node in tree.nodes.values():
        where = f"node {node.name!r} of tree {tree.name!r}"
        yield from _charged(where, node, [c for c in consumers if c.node and node in c.node.path], tree.resources)
        yield from _listed(where, node, [c for c in consumers if c.node is node])
        above = [c for c in consumers if node.parent and c.node is node.parent and c.leaf and node in c.leaf.path]
        yield from _borrowing(where, node, above)


def _charged(where: str, node: TreeNode, below: list[Consumer], resources: tuple[str, ...]) -> Iterator[str]:
    for name, counted in zip(resources, node.allocated(), strict=True):
        expected = sum(consumer.entry.request.get(name, 0) for consumer in below)
        if counted != expected:
            yield f"{where} counts {counted} {name}, but its consumers hold {expected}"


def _listed(where: str, node: TreeNode, here: list[Consumer]) -> Iterator[str]:
    listed = list(node.consumers())
    if [c.id for c in listed] != [c.id for c in sorted(here, key=lambda c: c.sequence)]:
        yield f"{where} does not list its consumers in order of arrival"
    for rank in {*node.totals, *(consumer.rank for consumer in here)}:
        requests = [consumer.entry.request for consumer in here if consumer.rank is rank]
        names = node.packing.resources
        expected = (tuple(sum(max(0, request.get(name, 0)) for request in requests) for name in names), len(requests))
        counted = node.packing.unpack_total(node.totals.get(rank, 0))
        if counted != expected:
            yield f"{where} counts {counted[1]} with {counted[0]} of {rank}, but holds {expected[1]} with {expected[0]}"
    yield from (f"{where} {message}" for message in node.violations())


def _borrowing(where: str, node: TreeNode, above: list[Consumer]) -> Iterator[str]:
    if list(node.borrowers) != sorted(above, key=lambda consumer: consumer.sequence):
        yield f"{where} does not list the consumers that borrow above it in order of arrival"
    if any(consumer.queue is not node.borrowers for consumer in above):
        yield f"{where} lists a consumer that refers to another queue"
    yield from (f"{where}: the queue of borrowers {message}" for message in node.borrowers.violations())

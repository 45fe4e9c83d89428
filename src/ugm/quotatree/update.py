"""A tree after its cache was edited: everybody goes to the new tree, whatever the quotas.

A consumer goes with the new name of its group. It stays on the node that holds it if that is still on the way from its
group to the root, goes to its group if not, and to the root if its group is gone. Nobody is checked, moved up or
preempted; who was above a quota stays so. Those at one node keep their order.
"""

from __future__ import annotations

from collections.abc import Mapping

from ugm.quotatree.consumer import Consumer
from ugm.quotatree.node import TreeNode
from ugm.quotatree.tree import QuotaTree

__all__ = ["move_consumers"]


def move_consumers(old: QuotaTree, new: QuotaTree, renamed: Mapping[str, str]) -> tuple[str, ...]:
    """Allocate the consumers of one tree on another.

    Args:
        old: stays as it is.
        new: has nobody yet.
        renamed: nodes of the old tree that have another name in the new one.

    Returns:
        Those for whom there is no place because the new tree is empty, sorted.
    """
    if new.root is None:
        return tuple(sorted(old.consumers))
    for consumer in sorted(old.consumers.values(), key=lambda consumer: consumer.sequence):
        group = renamed.get(consumer.entry.group, consumer.entry.group)
        moved = new.consumer(consumer.info, consumer.entry._replace(group=group))
        new.place(moved, _node(consumer, moved, new, new.root, renamed))
    return ()


def _node(consumer: Consumer, moved: Consumer, new: QuotaTree, root: TreeNode, renamed: Mapping[str, str]) -> TreeNode:
    name = consumer.node.name if consumer.node else ""
    held_by = new.nodes.get(renamed.get(name, name))
    if moved.leaf is not None and held_by in moved.leaf.path:
        return held_by
    return new.nodes.get(moved.entry.group, root)

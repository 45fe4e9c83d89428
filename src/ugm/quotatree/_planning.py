"""Plans: the changes of a request in one tree, from a search or from the log of a change."""

from __future__ import annotations

from ugm.quotatree._search import Search
from ugm.quotatree._tree import Outcome, QuotaTree, UndoLog
from ugm.quotatree.answers import AllocationPlan, Move, TreePlan
from ugm.quotatree.rejection import Rejection

__all__ = ["logged_plan", "searched_plan"]


def searched_plan(tree_name: str, consumer_id: str, found: Search | Rejection) -> AllocationPlan:
    """Return the plan that a search in one tree has found."""
    if isinstance(found, Rejection):
        return AllocationPlan(consumer_id, rejection=found)
    moves = _moves(found)
    preempted = tuple(move.consumer_id for move in moves if move.target is None)
    home = found.home.name if found.home else None
    return AllocationPlan(consumer_id, (TreePlan(tree_name, home, moves),), preempted)


def _moves(found: Search) -> tuple[Move, ...]:
    moves = {victim.id: Move(victim.id, victim.node.name, None) for victim in found.victims if victim.node}
    for level, slid in found.slid.items():
        node = found.path[level]
        for consumer in slid:
            source = consumer.node.name if consumer.node else node.name
            if node.parent is None:
                # Consumers that leave the tree come last.
                moves.pop(consumer.id, None)
            moves[consumer.id] = Move(consumer.id, source, node.parent.name if node.parent else None)
    return tuple(moves.values())


def logged_plan(consumer_id: str, outcome: Outcome, logs: dict[str, tuple[QuotaTree, UndoLog]]) -> AllocationPlan:
    """Return the plan of a change that has been made, from its logs by the name of the tree."""
    if isinstance(outcome, Rejection):
        return AllocationPlan(consumer_id, rejection=outcome)
    trees = [_tree_plan(name, tree, log, consumer_id) for name, (tree, log) in logs.items()]
    return AllocationPlan(consumer_id, tuple(tree for tree in trees if tree.node or tree.moves), outcome)


def _tree_plan(tree_name: str, tree: QuotaTree, log: UndoLog, consumer_id: str) -> TreePlan:
    newcomer = tree.consumers.get(consumer_id)
    moves = tuple(
        Move(consumer.id, before.name, consumer.node.name if consumer.node else None)
        for consumer, (before, _) in log.before.items()
        if before is not None and before is not consumer.node
    )
    return TreePlan(tree_name, newcomer.node.name if newcomer and newcomer.node else None, moves)

"""What a request would do, in the words of a `AllocationPlan`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ugm.quotatree.answers import AllocationPlan, Move, TreePlan
from ugm.quotatree.consumer import Consumer, ConsumerInfo
from ugm.quotatree.managed import Forest, ManagedTree, Trials, noting
from ugm.quotatree.rejection import Rejection
from ugm.quotatree.search import Search
from ugm.quotatree.tree import Trial
from ugm.quotatree.victims import VictimPolicy

__all__ = ["forced_plan", "forest_plan", "tree_plan"]


def forced_plan(managed: ManagedTree, consumer: Consumer) -> AllocationPlan:
    """Return what a request that is granted whatever the quotas would do on one tree. Reads only."""
    group = consumer.entry.group
    if group not in managed.tree.nodes:
        return AllocationPlan(consumer.id, rejection=managed.tree.homeless(consumer))
    return AllocationPlan(consumer.id, (TreePlan(managed.name, group, ()),))


def tree_plan(
    managed: ManagedTree, consumer: Consumer, without: Iterable[str] = (), policy: VictimPolicy | None = None
) -> AllocationPlan:
    """Return what a request on one tree would do, if some others were gone."""

    def plan(trials: Trials) -> AllocationPlan:
        for consumer_id in without:
            managed.tree.deallocate(consumer_id)
        found = managed.tree.find(consumer, policy)
        if isinstance(found, Rejection):
            plan = AllocationPlan(consumer.id, rejection=found)
        else:
            plan = _plan(managed, consumer, found)
        _take_back(trials)
        return plan

    return noting((managed,), plan)[0]


def _take_back(trials: Trials) -> None:
    for managed, trial in trials:
        managed.tree.take_back(trial)


def _plan(managed: ManagedTree, consumer: Consumer, found: Search) -> AllocationPlan:
    moves = _moves(found)
    preempted = tuple(move.consumer_id for move in moves if move.target is None)
    home = found.home.name if found.home else None
    return AllocationPlan(consumer.id, (TreePlan(managed.name, home, moves),), preempted)


def _moves(found: Search) -> tuple[Move, ...]:
    moves = {victim.id: Move(victim.id, victim.node.name, None) for victim in found.victims if victim.node}
    leaving: dict[str, Move] = {}
    for level, slid in found.slid.items():
        node = found.path[level]
        for consumer in slid:
            source = consumer.node.name if consumer.node else node.name
            if node.parent is None:
                moves.pop(consumer.id, None)
                leaving[consumer.id] = Move(consumer.id, source, None)
            else:
                moves[consumer.id] = Move(consumer.id, source, node.parent.name)
    return (*moves.values(), *leaving.values())


def forest_plan(forest: Forest, info: ConsumerInfo, grant: Callable[[], tuple[str, ...] | Rejection]) -> AllocationPlan:
    """Return what a request on a forest would do: it is granted, looked at, and undone."""

    def plan(trials: Trials) -> AllocationPlan:
        answer = grant()
        if isinstance(answer, Rejection):
            plan = AllocationPlan(info.consumer_id, rejection=answer)
        else:
            trees = [_tree_plan(managed, trial, info.consumer_id) for managed, trial in trials]
            plan = AllocationPlan(info.consumer_id, tuple(tree for tree in trees if tree.node or tree.moves), answer)
        _take_back(trials)
        return plan

    return noting(forest.trees.values(), plan)[0]


def _tree_plan(managed: ManagedTree, trial: Trial, consumer_id: str) -> TreePlan:
    """Return what has been done in one tree since a trial began."""
    newcomer = managed.tree.consumers.get(consumer_id)
    moves = tuple(
        Move(consumer.id, before.name, consumer.node.name if consumer.node else None)
        for consumer, (before, _) in trial.before.items()
        if before is not None and before is not consumer.node
    )
    return TreePlan(managed.name, newcomer.node.name if newcomer and newcomer.node else None, moves)

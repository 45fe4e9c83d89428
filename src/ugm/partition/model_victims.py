"""The victims that quota models propose for a request.

A model has its own reasons for an eviction. So only those rules about single allocations apply that do not depend on
queues: a victim is preemptible, not terminating, of another application, and of no higher priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ugm.partition.world_copy import WorldCopy, facts_of
from ugm.preemption import AllocationFacts, PreemptionRequest, Victim
from ugm.resources import Resource

__all__ = ["evictions_of_nodes", "explained_evictions", "permitted_evictions"]


def evictions_of_nodes(
    world: WorldCopy, names: Iterable[str], nodes: Mapping[str, Resource] | None
) -> Iterator[tuple[list[str], Mapping[str, Resource] | None]]:
    """Yield the proposed victims of each node with the node, and no victims with the other nodes.

    Without nodes, all proposed victims belong together.
    """
    if nodes is None:
        yield list(names), None
        return
    by_node: dict[str, list[str]] = {}
    for facts in _facts(world, names):
        if facts.node in nodes:
            by_node.setdefault(facts.node or "", []).append(facts.allocation_id)
    yield [], {name: free for name, free in nodes.items() if name not in by_node}
    for name, evictions in by_node.items():
        yield evictions, {name: nodes[name]}


def permitted_evictions(world: WorldCopy, request: PreemptionRequest, names: Iterable[str]) -> list[str]:
    """Return the allocations among those with *names* that may be evicted for a request."""
    return [facts.allocation_id for facts in _facts(world, names) if _may_be_evicted(facts, request)]


def _may_be_evicted(facts: AllocationFacts, request: PreemptionRequest) -> bool:
    if facts.is_terminating or not facts.preemptible or facts.application_id == request.application_id:
        return False
    return facts.priority < request.priority + (facts.queue_path != request.queue_path)


def explained_evictions(world: WorldCopy, names: Iterable[str]) -> tuple[Victim, ...]:
    """Return allocations as victims."""
    return tuple(
        Victim(facts.allocation_id, facts.application_id, facts.queue_path, facts.usage, facts.priority)
        for facts in _facts(world, names)
    )


def _facts(world: WorldCopy, names: Iterable[str]) -> Iterator[AllocationFacts]:
    """Yield the facts about granted allocations; those with other names are left out."""
    positions = {name: position for position, name in enumerate(world.names)}
    for name in names:
        position = positions.get(name)
        if position is not None and (stored := world.stored[position]) is not None:
            yield facts_of(name, world.owners[position], stored)

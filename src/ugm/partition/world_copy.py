"""A copy of the queues and allocations of a partition, from which plans of preemption are made without the lock."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final, overload

from ugm.partition.allocation import AllocationState
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.state import PartitionState
from ugm.preemption import AllocationFacts, PlacedRequest, World
from ugm.preemption.settings import PreemptionSettings
from ugm.queues.specs import Quota
from ugm.resources import Resource

__all__ = ["WorldCopy", "facts_of"]

_TERMINATING: Final = AllocationState.TERMINATING


class WorldCopy(NamedTuple):
    """References to the queues and allocations of a partition at one moment."""

    compiled: CompiledConfig
    #: None if it is unlimited, or if its size has no effect.
    cluster: Resource | None
    queues: list[tuple[str, Quota]]
    names: list[str]
    owners: list[Application]
    #: None for a pending allocation.
    stored: list[Resource | LedgerEntry | None]

    @classmethod
    def of(cls, state: PartitionState) -> WorldCopy:
        """Copy a state; the caller holds the lock."""
        owners = state.ledger.owners
        return cls(
            state.compiled,
            state.tree.cluster,
            [(queue.queue_path, queue.quota) for queue in state.tree.queues.values()],
            list(owners),
            list(owners.values()),
            [owner.allocations.get(name) for name, owner in owners.items()],
        )

    def world(
        self,
        settings: PreemptionSettings,
        placed: Sequence[PlacedRequest],
        evicted: Collection[str] = (),
        nodes: Mapping[str, Resource] | None = None,
    ) -> World:
        """Return the queues and allocations for a planner.

        Args:
            settings: the settings of the configuration.
            placed: the requests that count as granted.
            evicted: allocations that count as terminating.
            nodes: the free amounts of the nodes that the request may run on; None if nodes do not matter.
        """
        queues = [
            settings.facts(path, quota, cluster=self.cluster if path == "root" else None) for path, quota in self.queues
        ]
        return World(queues, _CopiedAllocations(self, evicted), placed, nodes)


@final
class _CopiedAllocations(Sequence[AllocationFacts]):
    """The granted allocations of a copy, each made when it is read.

    The garbage collector would visit a list of them again and again, so a plan for many allocations would take more
    than proportional time.

    Args:
        copy: the copy.
        evicted: allocations that count as terminating.
    """

    __slots__ = ("_evicted", "_names", "_owners", "_stored")

    def __init__(self, copy: WorldCopy, evicted: Collection[str]) -> None:
        self._evicted: Final = frozenset(evicted)
        self._names, self._owners, self._stored = copy.names, copy.owners, copy.stored
        if None in copy.stored:
            granted = [index for index, stored in enumerate(copy.stored) if stored is not None]
            self._names = [copy.names[index] for index in granted]
            self._owners = [copy.owners[index] for index in granted]
            self._stored = [copy.stored[index] for index in granted]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[AllocationFacts]:
        facts = _facts(self._names, self._owners, self._stored)
        return facts if not self._evicted else map(self._with_state, facts)

    @overload
    def __getitem__(self, index: int) -> AllocationFacts: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[AllocationFacts]: ...

    def __getitem__(self, index: int | slice) -> AllocationFacts | Sequence[AllocationFacts]:
        if isinstance(index, slice):
            return list(self)[index]
        return self._with_state(facts_of(self._names[index], self._owners[index], self._stored[index]))

    def _with_state(self, facts: AllocationFacts) -> AllocationFacts:
        return facts._replace(is_terminating=True) if facts.allocation_id in self._evicted else facts


def _facts(
    names: Sequence[str], owners: Sequence[Application], stored: Sequence[Resource | LedgerEntry | None]
) -> Iterator[AllocationFacts]:
    """Yield what `facts_of` returns; a plan for many allocations spends a good part of its time here."""
    new = tuple.__new__
    for name, owner, one in zip(names, owners, stored, strict=True):
        application_id, path = owner.submission.application_id, owner.queue.queue_path
        # `AllocationFacts(...)` takes twice as long.
        if type(one) is Resource:
            yield new(AllocationFacts, (name, application_id, path, one, 0, True, False, None))
        elif one is not None:
            _, usage, (state, _, priority, preemptible, _, _, node) = one
            is_terminating = state is _TERMINATING
            values = name, application_id, path, usage, priority, preemptible, is_terminating, node
            yield new(AllocationFacts, values)


def facts_of(name: str, owner: Application, stored: Resource | LedgerEntry | None) -> AllocationFacts:
    """Return what a planner has to know about an allocation."""
    application_id, path = owner.submission.application_id, owner.queue.queue_path
    if type(stored) is Resource:
        return AllocationFacts(name, application_id, path, stored)
    assert stored is not None  # noqa: S101 - the callers pass granted allocations
    _, usage, traits = stored
    is_terminating = traits.state is _TERMINATING
    facts = name, application_id, path, usage, traits.priority, traits.preemptible, is_terminating, traits.node
    return AllocationFacts(*facts)

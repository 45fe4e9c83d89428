"""A tree or a forest as one more quota model of a partition.

Written against `ugm.EvictingModel` alone. An allocation is a consumer whose id is that of the allocation; a function of
the embedding program says in which group of which tree it is. The manager is in normal mode.

A claim that fits without anybody having to leave the tree passes the check, also where others have to slide up for it.
One that does not may be let in by evictions, of allocations of lower priority alone: among those that ask again and
again priorities cannot form a circle, so nobody is evicted for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, final

from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.model import Claim
from ugm.quotatree.answers import AllocationPlan, AllocationResponse
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.rejection import Rejection

__all__ = ["ForestModel", "TreeModel"]

#: In which group of which tree an allocation is, by the name of the tree; nothing if the model has no say in it.
Groups: TypeAlias = Mapping[str, str]


class _Model(ABC):
    """What a tree and a forest have in common as quota models.

    Args:
        manager: in normal mode.
        name: of the tree or forest.
        groups_of: says in which group of which tree an allocation is.
    """

    def __init__(self, manager: QuotaManager, name: str, groups_of: Callable[[Claim], Groups]) -> None:
        self._manager: Final = manager
        self._name: Final = name
        self._groups_of: Final = groups_of
        #: The priority of everybody who is charged, by the id of the allocation.
        self._priorities: Final[dict[str, int]] = {}

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every quota in the way of a claim; none if it fits without anybody having to leave."""
        info = self._info(claim)
        rejection = self._plan(info, preempting=False).rejection if info else None
        return () if rejection is None else rejection.violations or _no_group(rejection, claim)

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return those of lower priority after whose refund a claim passes the check; none if nobody's would do."""
        info = self._info(claim)
        leaving: tuple[str, ...] = ()
        while info is not None:
            plan = self._plan(info, without=leaving)
            if plan.rejection is not None or not all(self._is_below(claim.priority, v) for v in plan.preempted):
                return ()
            if not plan.preempted:
                return leaving
            # With those gone others come down, and may be in the way where they were not before: look again.
            leaving += plan.preempted
        return ()

    def _is_below(self, priority: int, allocation_id: str) -> bool:
        return allocation_id in self._priorities and self._priorities[allocation_id] < priority

    def charge(self, claim: Claim) -> None:
        """Count a claim, whether or not it fits.

        Raises:
            RequestError: it is counted already, or its group is not in the tree.
        """
        info = self._info(claim)
        if info is None:
            return
        self._manager.add_consumer(info)
        fits = self._plan(info, preempting=False)
        answer = self._allocate(info.consumer_id) if fits else self._adopt(info.consumer_id)
        if answer.rejection is not None:
            self._manager.remove_consumer(info.consumer_id)
            raise RequestError("claim", claim.allocation_id, str(answer.rejection))
        self._priorities[info.consumer_id] = claim.priority

    def refund(self, claim: Claim) -> None:
        """Give back what `charge` has counted; others come down to where that makes room."""
        if self._priorities.pop(claim.allocation_id, None) is not None:
            self._deallocate(claim.allocation_id)
            self._manager.remove_consumer(claim.allocation_id)

    def _info(self, claim: Claim) -> ConsumerInfo | None:
        entries = [
            TreeRequest(tree_name, group, claim.usage, claim.priority, unpreemptable=not claim.preemptible)
            for tree_name, group in self._groups_of(claim).items()
        ]
        return ConsumerInfo(claim.allocation_id or self._free_id(), entries) if entries else None

    def _free_id(self) -> str:
        """Return an id for a claim that has none, because somebody only asks."""
        name = "?"
        while name in self._priorities:
            name += "?"
        return name

    @abstractmethod
    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan: ...

    @abstractmethod
    def _allocate(self, consumer_id: str) -> AllocationResponse: ...

    @abstractmethod
    def _adopt(self, consumer_id: str) -> AllocationResponse: ...

    @abstractmethod
    def _deallocate(self, consumer_id: str) -> bool: ...


def _no_group(rejection: Rejection, claim: Claim) -> tuple[Violation, ...]:
    """Return what is in the way where there is no leaf to be charged: a limit of nothing, whatever is asked."""
    asked = claim.usage.without_zeros().amounts.items() or ((None, 1),)
    return tuple(Violation("quota node", rejection.group, "", "", name, 0, 0, amount) for name, amount in asked)


@final
class TreeModel(_Model):
    """A tree of a manager as a quota model."""

    def __init__(self, manager: QuotaManager, tree_name: str, group_of: Callable[[Claim], str | None]) -> None:
        def groups_of(claim: Claim) -> Groups:
            group = group_of(claim)
            return {} if group is None else {tree_name: group}

        super().__init__(manager, tree_name, groups_of)

    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan:
        return self._manager.plan_allocate(self._name, info, without=without, preempting=preempting)

    def _allocate(self, consumer_id: str) -> AllocationResponse:
        return self._manager.allocate(self._name, consumer_id)

    def _adopt(self, consumer_id: str) -> AllocationResponse:
        return self._manager.adopt(self._name, consumer_id)

    def _deallocate(self, consumer_id: str) -> bool:
        return self._manager.deallocate(self._name, consumer_id)


@final
class ForestModel(_Model):
    """A forest of a manager as a quota model: all of its trees that an allocation is in have to agree."""

    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan:
        return self._manager.plan_allocate_forest(self._name, info, without=without, preempting=preempting)

    def _allocate(self, consumer_id: str) -> AllocationResponse:
        return self._manager.allocate_forest(self._name, consumer_id)

    def _adopt(self, consumer_id: str) -> AllocationResponse:
        return self._manager.adopt_forest(self._name, consumer_id)

    def _deallocate(self, consumer_id: str) -> bool:
        return self._manager.deallocate_forest(self._name, consumer_id)

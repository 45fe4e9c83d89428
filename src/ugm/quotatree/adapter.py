"""A tree or a forest as one more quota model of a partition.

Written against `ugm.EvictingModel` alone. An allocation is a consumer whose id is that of the allocation; a function of
the embedding program says in which group of which tree it is. The manager is in normal mode.

A claim that fits without anybody having to leave the tree passes the check, also where others have to slide up for it.
One that does not may be let in by evictions, of allocations of lower priority alone: among those that ask again and
again priorities cannot form a circle, so nobody is evicted for ever.

A partition undoes what it has done in reverse when something objects. So a charge right after the refund of an equal
claim, or a refund right after its charge, restores the tree as it was before, order included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, final

from ugm.decision import Violation
from ugm.model import Claim
from ugm.quotatree.answers import AllocationPlan
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.managed import Attempt
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.rejection import Rejection

__all__ = ["ForestModel", "TreeModel"]

#: In which group of which tree an allocation is, by the name of the tree; nothing if the model has no say in it.
Groups: TypeAlias = Mapping[str, str]


#: So many changes are remembered, to be undone; gangs are smaller.
_MOST_CHANGES: Final = 1_000

#: What stands for an allocation that is only asked about and has no id.
_NAMELESS: Final = "?"


class _Change(NamedTuple):
    """A charge or a refund."""

    claim: Claim
    info: ConsumerInfo
    attempt: Attempt
    is_charge: bool


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
        #: Everybody who is charged, with the priority of the claim, by the id of the allocation.
        self._charged: Final[dict[str, tuple[ConsumerInfo, int]]] = {}
        #: The last changes, each undone exactly by its inverse as long as nothing else has changed the tree.
        self._changes: Final[deque[_Change]] = deque(maxlen=_MOST_CHANGES)

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every quota in the way of a claim; none if it fits without anybody having to leave."""
        if self._changes and claim == self._changes[-1].claim:
            # Somebody asks anew for what was refunded: that is no undoing.
            self._changes.clear()
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
        return allocation_id in self._charged and self._charged[allocation_id][1] < priority

    def charge(self, claim: Claim) -> None:
        """Count a claim, whether or not it fits.

        Raises:
            RequestError: it is counted already, or its group is not in the tree.
        """
        if self._is_undone(claim, is_charge=False):
            return
        info = self._info(claim)
        if info is not None:
            self._note(_Change(claim, info, self._charge(info, self._last), is_charge=True))
            self._charged[claim.allocation_id] = info, claim.priority

    def refund(self, claim: Claim) -> None:
        """Give back what `charge` has counted; others come down to where that makes room."""
        if claim.allocation_id in self._charged and not self._is_undone(claim, is_charge=True):
            info, _ = self._charged.pop(claim.allocation_id)
            self._note(_Change(claim, info, self._refund(info.consumer_id, self._last), is_charge=False))

    @property
    def _last(self) -> Attempt | None:
        return self._changes[-1].attempt if self._changes else None

    def _note(self, change: _Change) -> None:
        if not change.attempt.follows:
            # Somebody else has changed the tree: what was before can no longer be undone.
            self._changes.clear()
        self._changes.append(change)

    def _is_undone(self, claim: Claim, *, is_charge: bool) -> bool:
        """Undo the last change if it was a charge, or a refund, of an equal claim; and say whether it was undone."""
        change = self._changes[-1] if self._changes else None
        if change is None or change.is_charge is not is_charge or change.claim != claim:
            return False
        self._changes.pop()
        if not self._manager.take_back(change.attempt, self._last):
            self._changes.clear()
            return False
        if is_charge:
            del self._charged[claim.allocation_id]
        else:
            self._charged[claim.allocation_id] = change.info, claim.priority
        return True

    def _info(self, claim: Claim) -> ConsumerInfo | None:
        consumer_id = claim.allocation_id
        if not consumer_id:
            consumer_id = _NAMELESS
            while consumer_id in self._charged:
                consumer_id += _NAMELESS
        entries = [
            TreeRequest(tree_name, group, claim.usage, claim.priority, unpreemptable=not claim.preemptible)
            for tree_name, group in self._groups_of(claim).items()
        ]
        return ConsumerInfo(consumer_id, entries) if entries else None

    @abstractmethod
    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan: ...

    @abstractmethod
    def _charge(self, info: ConsumerInfo, before: Attempt | None) -> Attempt: ...

    @abstractmethod
    def _refund(self, consumer_id: str, before: Attempt | None) -> Attempt: ...


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

    def _charge(self, info: ConsumerInfo, before: Attempt | None) -> Attempt:
        return self._manager.charge(self._name, info, before)

    def _refund(self, consumer_id: str, before: Attempt | None) -> Attempt:
        return self._manager.refund(self._name, consumer_id, before)


@final
class ForestModel(_Model):
    """A forest of a manager as a quota model: all of its trees that an allocation is in have to agree."""

    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan:
        return self._manager.plan_allocate_forest(self._name, info, without=without, preempting=preempting)

    def _charge(self, info: ConsumerInfo, before: Attempt | None) -> Attempt:
        return self._manager.charge_forest(self._name, info, before)

    def _refund(self, consumer_id: str, before: Attempt | None) -> Attempt:
        return self._manager.refund_forest(self._name, consumer_id, before)

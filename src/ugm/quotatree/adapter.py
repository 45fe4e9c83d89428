"""A tree or a forest as one more quota model of a partition.

Written against `ugm.EvictingModel` alone. An allocation is a consumer whose id is that of the allocation; a function of
the embedding program says in which group of which tree it is.

No quota is skipped silently. A claim is denied with a `ugm.model.SetupViolation` if the manager is in maintenance mode,
in which it enforces nothing, if the tree or the leaf does not exist, and if the function names no group, unless the
setup gives a default group or says that such claims are unrestricted.

A claim that fits without anybody having to leave the tree passes the check, also where others have to slide up for it.
One that does not may be let in by evictions, of allocations of lower priority alone: among those that ask again and
again priorities cannot form a circle, so nobody is evicted for ever.

A partition undoes what it has done in reverse when something objects. So a charge right after the refund of an equal
claim, or a refund right after its charge, restores the tree as it was before, order included.

Every call either takes effect or changes nothing, also if an exception from outside interrupts it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, final

from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import is_name
from ugm.model import Claim, SetupViolation
from ugm.quotatree.answers import AllocationPlan
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.managed import Attempt
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.tree_manager import Mode

__all__ = [
    "ForestModel",
    "InMaintenance",
    "NoGroup",
    "TreeModel",
    "UnknownForest",
    "UnknownNode",
    "UnknownTree",
]

#: In which group of which tree an allocation is, by the name of the tree; None, or nothing at all, for no group.
Groups: TypeAlias = Mapping[str, str | None]


#: So many changes are remembered, to be undone; gangs are smaller.
_MOST_CHANGES: Final = 1_000

#: What stands for an allocation that is only asked about and has no id.
_NAMELESS: Final = "?"


class InMaintenance(SetupViolation):
    """The manager enforces no quotas now."""

    __slots__ = ()
    reason = "its manager is in maintenance mode, in which no quota is enforced"


class UnknownTree(SetupViolation):
    """The manager has no such tree."""

    __slots__ = ()
    reason = "there is no such tree"


class UnknownForest(SetupViolation):
    """The manager has no such forest."""

    __slots__ = ()
    reason = "there is no such forest"


class UnknownNode(SetupViolation):
    """The group of a claim is no leaf of its tree."""

    __slots__ = ()
    reason = "the tree has no such leaf"


class NoGroup(SetupViolation):
    """A claim has no group."""

    __slots__ = ()
    reason = "the request has no group in it"


class _Change(NamedTuple):
    """A charge or a refund."""

    claim: Claim
    info: ConsumerInfo
    attempt: Attempt
    is_charge: bool


class _Model(ABC):
    """What a tree and a forest have in common as quota models.

    Args:
        manager: of the tree or forest.
        name: of the tree or forest.
        groups_of: says in which group of which tree an allocation is.
        unrestricted: whether claims without a group pass; otherwise they are denied.

    Raises:
        RequestError: an argument is of the wrong kind, or the manager has nothing of that name.
    """

    #: What the name is the name of.
    _kind: str

    def __init__(
        self, manager: QuotaManager, name: str, groups_of: Callable[[Claim], Groups], *, unrestricted: bool
    ) -> None:
        if not isinstance(manager, QuotaManager):
            raise RequestError("manager", manager, "expected a QuotaManager")
        if type(unrestricted) is not bool:
            raise RequestError("unrestricted", unrestricted, "expected True or False")
        self._manager: Final = manager
        self._name: Final = name
        self._groups_of: Final = groups_of
        self._unrestricted: Final = unrestricted
        #: Everybody who is charged, with the priority of the claim, by the id of the allocation.
        self._charged: Final[dict[str, tuple[ConsumerInfo, int]]] = {}
        #: The last changes, each undone exactly by its inverse as long as nothing else has changed the tree.
        self._changes: Final[deque[_Change]] = deque(maxlen=_MOST_CHANGES)
        #: The consumer of the last charge, which may have been interrupted.
        self._latest: ConsumerInfo | None = None
        #: The ids of those who were charged before a reset, and not since.
        self._withdrawn: Final[set[str]] = set()
        self._require_known()

    def reset(self) -> None:
        """Hold no claims any more; the trees, and consumers that are not claims of this model, stay.

        Correct whatever state an interrupted call has left. A partition charges all claims again after it. Then those
        are held at the root whose group has left the tree meanwhile, as after an update of the tree.
        """
        infos = {info for info, _ in self._charged.values()} | {change.info for change in self._changes}
        if self._latest is not None:
            infos.add(self._latest)
        self._withdrawn.update(info.consumer_id for info in infos)
        self._withdraw(infos)
        self._charged.clear()
        self._changes.clear()
        self._latest = None

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every quota in the way of a claim; none if it fits without anybody having to leave."""
        if self._changes and claim == self._changes[-1].claim:
            # Somebody asks anew for what was refunded: that is no undoing.
            self._changes.clear()
        groups = self._groups(claim)
        missing = self._missing(groups)
        if missing is not None:
            return (missing,)
        info = self._info(claim, groups)
        rejection = self._plan(info, preempting=False).rejection if info else None
        if rejection is None:
            return ()
        return rejection.violations or (UnknownNode.of("quota node", rejection.group),)

    def _groups(self, claim: Claim) -> Groups:
        return self._groups_of(claim) or {}

    def _missing(self, groups: Groups) -> SetupViolation | None:
        """Return why the model cannot judge a claim, if it cannot."""
        nowhere = not groups or None in groups.values()
        if nowhere and self._unrestricted and not any(groups.values()):
            return None
        unknown = self._unknown(groups)
        if unknown is not None:
            return unknown
        if nowhere and not self._unrestricted:
            without = next((name for name, group in groups.items() if group is None), "")
            return NoGroup.of("quota tree", without) if without else NoGroup.of(self._kind, self._name)
        if self._manager.get_mode() is not Mode.NORMAL:
            return InMaintenance.of(self._kind, self._name)
        return None

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return those of lower priority after whose refund a claim passes the check; none if nobody's would do."""
        groups = self._groups(claim)
        info = None if self._missing(groups) else self._info(claim, groups)
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
        """Count a claim, whether or not it fits, in any mode. One without a group is counted nowhere.

        Raises:
            RequestError: it is counted already, or its group is not in the tree.
        """
        last = self._changes[-1].info if self._changes else None
        info: ConsumerInfo | None = None
        try:
            if self._is_undone(claim, is_charge=False):
                return
            info = self._latest = self._info(claim, self._groups(claim))
            if info is not None:
                attempt = self._charge(info, self._last, anywhere=claim.allocation_id in self._withdrawn)
                self._charged[claim.allocation_id] = info, claim.priority
                self._note(_Change(claim, info, attempt, is_charge=True))
            self._withdrawn.discard(claim.allocation_id)
        except BaseException:
            self._agree(claim, info, last)
            raise

    def refund(self, claim: Claim) -> None:
        """Give back what `charge` has counted; others come down to where that makes room."""
        held = self._charged.get(claim.allocation_id)
        if held is None:
            return
        info, _ = held
        try:
            if not self._is_undone(claim, is_charge=True):
                attempt = self._refund(info.consumer_id, self._last)
                del self._charged[claim.allocation_id]
                self._note(_Change(claim, info, attempt, is_charge=False))
        except BaseException:
            self._agree(claim, info)
            raise

    def _agree(self, claim: Claim, *infos: ConsumerInfo | None) -> None:
        """Take a claim for charged if one of some consumers is held for it: a call that changes it was interrupted."""
        known = self._charged.get(claim.allocation_id)
        for info in infos:
            if info is not None and info.consumer_id == claim.allocation_id and self._holds(info):
                self._charged[claim.allocation_id] = info, claim.priority
                return
        if known is not None and not self._holds(known[0]):
            del self._charged[claim.allocation_id]

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

    def _info(self, claim: Claim, groups: Groups) -> ConsumerInfo | None:
        consumer_id = claim.allocation_id
        if not consumer_id:
            consumer_id = _NAMELESS
            while consumer_id in self._charged:
                consumer_id += _NAMELESS
        entries = [
            TreeRequest(tree_name, group, claim.usage, claim.priority, unpreemptable=not claim.preemptible)
            for tree_name, group in groups.items()
            if group is not None
        ]
        return ConsumerInfo(consumer_id, entries) if entries else None

    def _require_known(self) -> None:
        """Make sure that the manager has the tree or forest.

        Raises:
            RequestError: it has not.
        """
        if self._unknown({}) is not None:
            raise RequestError(
                f"{self._kind.removeprefix('quota ')}_name", self._name, f"there is no such {self._kind}"
            )

    @abstractmethod
    def _unknown(self, groups: Groups) -> SetupViolation | None:
        """Return what of the tree or forest, or of the trees of some groups, is not there."""

    @abstractmethod
    def _trees(self) -> Collection[str]:
        """Return the names of the trees."""

    @abstractmethod
    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan: ...

    @abstractmethod
    def _charge(self, info: ConsumerInfo, before: Attempt | None, *, anywhere: bool) -> Attempt: ...

    @abstractmethod
    def _refund(self, consumer_id: str, before: Attempt | None) -> Attempt: ...

    @abstractmethod
    def _withdraw(self, infos: Collection[ConsumerInfo]) -> None: ...

    def _holds(self, info: ConsumerInfo) -> bool:
        return self._manager.holds(self._trees(), info)


@final
class TreeModel(_Model):
    """A tree of a manager as a quota model.

    Args:
        manager: of the tree; in normal mode when requests are to be granted.
        tree_name: the tree.
        group_of: returns the leaf that an allocation belongs to, None for none.
        default_group: the leaf for claims that belong to none.
        unrestricted: whether claims that belong to no leaf pass; otherwise, and without a default, they are denied.

    Raises:
        RequestError: the manager has no such tree, or an argument is of the wrong kind.
    """

    _kind = "quota tree"

    def __init__(
        self,
        manager: QuotaManager,
        tree_name: str,
        group_of: Callable[[Claim], str | None],
        *,
        default_group: str | None = None,
        unrestricted: bool = False,
    ) -> None:
        def groups_of(claim: Claim) -> Groups:
            group = group_of(claim)
            chosen = default_group if group is None else group
            return {} if chosen is None else {tree_name: chosen}

        if default_group is not None and not is_name(default_group):
            raise RequestError("default_group", default_group, "expected a text of 1 to 256 characters, or None")
        super().__init__(manager, tree_name, groups_of, unrestricted=unrestricted)

    def _unknown(self, groups: Groups) -> SetupViolation | None:  # noqa: ARG002 - all are of the one tree
        return None if self._manager.has_tree(self._name) else UnknownTree.of(self._kind, self._name)

    def _trees(self) -> Collection[str]:
        return (self._name,)

    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan:
        return self._manager.plan_allocate(self._name, info, without=without, preempting=preempting)

    def _charge(self, info: ConsumerInfo, before: Attempt | None, *, anywhere: bool) -> Attempt:
        return self._manager.charge(self._name, info, before, anywhere=anywhere)

    def _refund(self, consumer_id: str, before: Attempt | None) -> Attempt:
        return self._manager.refund(self._name, consumer_id, before)

    def _withdraw(self, infos: Collection[ConsumerInfo]) -> None:
        self._manager.withdraw(self._trees(), infos)


@final
class ForestModel(_Model):
    """A forest of a manager as a quota model: all of its trees that an allocation is in have to agree.

    Args:
        manager: of the forest; in normal mode when requests are to be granted.
        forest_name: the forest.
        groups_of: returns in which leaf of which tree an allocation is, by the name of the tree. Trees that it does
            not name do not limit the allocation, trees that are not in the forest are left out, and a tree that does
            not exist is denied, and so is None in place of a leaf.
        unrestricted: whether claims pass for which *groups_of* names no tree of the forest, and trees for which it
            names None; otherwise they are denied.

    Raises:
        RequestError: the manager has no such forest, or an argument is of the wrong kind.
    """

    _kind = "quota forest"

    def __init__(
        self,
        manager: QuotaManager,
        forest_name: str,
        groups_of: Callable[[Claim], Groups],
        *,
        unrestricted: bool = False,
    ) -> None:
        super().__init__(manager, forest_name, groups_of, unrestricted=unrestricted)

    def _unknown(self, groups: Groups) -> SetupViolation | None:
        trees = self._manager.trees_of(self._name)
        if trees is None:
            return UnknownForest.of(self._kind, self._name)
        for name in groups:
            if not self._manager.has_tree(name):
                return UnknownTree.of("quota tree", name)
        outside = groups and not self._unrestricted and groups.keys().isdisjoint(trees)
        return NoGroup.of(self._kind, self._name) if outside else None

    def _trees(self) -> Collection[str]:
        return self._manager.trees_of(self._name) or ()

    def _plan(self, info: ConsumerInfo, *, without: Iterable[str] = (), preempting: bool = True) -> AllocationPlan:
        return self._manager.plan_allocate_forest(self._name, info, without=without, preempting=preempting)

    def _charge(self, info: ConsumerInfo, before: Attempt | None, *, anywhere: bool) -> Attempt:
        return self._manager.charge_forest(self._name, info, before, anywhere=anywhere)

    def _refund(self, consumer_id: str, before: Attempt | None) -> Attempt:
        return self._manager.refund_forest(self._name, consumer_id, before)

    def _withdraw(self, infos: Collection[ConsumerInfo]) -> None:
        self._manager.withdraw_forest(self._name, infos)

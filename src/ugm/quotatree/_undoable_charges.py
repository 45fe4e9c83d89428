"""The charges of one quota model on a tree or a forest, which can be undone exactly.

A quota model must be able to undo a charge, and a refund as well, if another model objects. A deallocation is not the
inverse of an allocation, because it moves other consumers down. Therefore every charge and every refund is a *step*
with a `ForestChange`, which can be undone as long as it is the last change of its trees.

A partition checks a claim and then charges it, usually with no other change between. So a check keeps its searches, and
the charge of the same claim carries them out instead of searching again. If a tree has changed, it searches again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar, final

from ugm.errors import RequestError
from ugm.model import Claim
from ugm.operation_lock import OwnedLock, locked
from ugm.quotatree._forest import Forest, ForestCandidate, ForestChange
from ugm.quotatree._registry import Mode, Registry
from ugm.quotatree._tree import UndoLog
from ugm.quotatree.answers import AllocationPlan
from ugm.quotatree.consumer import ConsumerInfo
from ugm.quotatree.rejection import Rejection
from ugm.quotatree.victims import no_victims

__all__ = ["Charging", "Checked", "Step"]

T = TypeVar("T")

#: The maximum number of steps that can be undone exactly; a gang is assumed to be smaller. Older charges are released
#: like any other consumer. Ten times as many steps do not fit the caches of a processor: a replay takes a third longer.
_MAX_STEPS: Final = 100


class Checked(NamedTuple):
    """A claim that was checked, with the searches for its consumer."""

    claim: Claim
    info: ConsumerInfo
    forest: Forest
    candidates: Sequence[ForestCandidate]

    @property
    def is_current(self) -> bool:
        """True if none of the trees has changed since. A tree that other callers change has no last change."""
        for managed, last_change, _, _ in self.candidates:
            if last_change is None or managed.last_change is not last_change:
                return False
        return True


class Step(NamedTuple):
    """A charge or a refund."""

    claim: Claim
    info: ConsumerInfo
    change: ForestChange
    is_charge: bool


@final
class Charging:
    """The charges of one quota model.

    Args:
        registry: the registry of the manager.
        find: a function that returns the tree or forest, or None if it does not exist. Each operation looks it up,
            because it may be deleted or replaced.
        forest: the same, but it raises a RequestError.
    """

    def __init__(self, registry: Registry, find: Callable[[], Forest | None], forest: Callable[[], Forest]) -> None:
        self._registry: Final = registry
        self._lock: OwnedLock = registry.lock
        #: Returns the tree or forest; None if it does not exist.
        self.find: Final = find
        self._forest: Final = forest
        #: The claim that was checked last, if all trees can hold it.
        self.checked: Checked | None = None
        #: The last steps. Each can be undone after the later ones, unless another caller has changed the trees between.
        self.steps: Final = deque[Step]()
        #: Whether all steps are kept, because a search will undo its charges.
        self.keeps_all = False

    @locked
    def read(self, query: Callable[[Forest], Iterable[T]]) -> list[T]:
        """Return the result of a query of the tree or forest; nothing if it does not exist."""
        forest = self.find()
        return [] if forest is None else list(query(forest))

    @locked
    def plan(self, info: ConsumerInfo, without: Iterable[str] = (), *, preempting: bool = True) -> AllocationPlan:
        """Return the effect of an allocation, like `QuotaManager.plan_allocate`."""
        return self._registry.plan(self._forest(), info, without, preempting=preempting)

    def check(self, claim: Claim, info: ConsumerInfo) -> tuple[Rejection, ...]:
        """Return the rejection of every tree that cannot hold a consumer without preemption.

        Args:
            claim: the claim. If no tree rejects it, its next charge uses the result.
            info: its consumer.

        Raises:
            RequestError: the consumer is allocated already, or there is no such tree or forest.
        """
        self.checked = None
        try:
            with self._lock:
                forest = self._forest()
                candidates, all_fit = forest.candidates(info, no_victims)
                if not all_fit:
                    # A group that is not a leaf comes first, because waiting cannot help there.
                    candidates.sort(key=lambda one: one.consumer.leaf is not None)
                    return tuple(found for one in candidates if (found := one.rejection) is not None)
                self.checked = Checked(claim, info, forest, candidates)
                return ()
        except BaseException:
            self._lock.release_if_held()
            raise

    def charge_checked(self, checked: Checked) -> bool:
        """Charge the claim that was checked last, and return whether no tree has changed since then."""
        try:
            with self._lock:
                forest = self.find()
                if forest is not checked.forest or not checked.is_current:
                    return False
                change = forest.execute(checked.info, checked.candidates)
                self._add(Step(checked.claim, checked.info, change, is_charge=True))
                return True
        except BaseException:
            self._lock.release_if_held()
            raise

    @locked
    def charge(self, claim: Claim, info: ConsumerInfo, *, fallback: bool) -> None:
        """Allocate a consumer without preemption, or else at its groups regardless of the quotas.

        Args:
            claim: the claim.
            info: its consumer. The manager need not know it.
            fallback: whether the root holds the consumer if its group is gone, as after an update. If the root is gone
                as well, or the tree or forest, nothing is allocated.

        Raises:
            RequestError: the consumer is allocated already, there is no such tree or forest, or a group does not exist.
        """
        forest = self.find() if fallback else self._forest()
        change = _NO_CHANGE if forest is None else self._allocate(forest, info, fallback=fallback)
        self._add(Step(claim, info, change, is_charge=True))

    def _allocate(self, forest: Forest, info: ConsumerInfo, *, fallback: bool) -> ForestChange:
        forest.require_new(info)
        if self._registry.mode is Mode.NORMAL:
            response, change = forest.allocate(info, no_victims)
            if response:
                return change
            change.undo()
        response, change = forest.force(info, fallback=fallback)
        if not response:
            raise RequestError("claim", info.consumer_id, str(response))
        return change

    def refund(self, claim: Claim, info: ConsumerInfo) -> None:
        """Release the consumer of a claim, if it is allocated; undo its charge if that was the last step."""
        try:
            with self._lock:
                if self._undo(claim, is_charge=True) is None:
                    forest = self.find()
                    change = _NO_CHANGE if forest is None else forest.refund(info.consumer_id)
                    self._add(Step(claim, info, change, is_charge=False))
        except BaseException:
            self._lock.release_if_held()
            raise

    def _add(self, step: Step) -> None:
        if self.steps and not self.steps[-1].change.is_last:
            # Another caller has changed the trees, so the earlier steps can no longer be undone.
            self.steps.clear()
        step.change.set_last()
        self.steps.append(step)
        if len(self.steps) > _MAX_STEPS and not self.keeps_all:
            self.steps.popleft()

    def end_trial(self) -> None:
        """Keep as many steps as usual again."""
        self.keeps_all = False
        while len(self.steps) > _MAX_STEPS:
            self.steps.popleft()

    @locked
    def undo_refund(self, claim: Claim) -> ConsumerInfo | None:
        """Undo the last step, order included, if it was the refund of an equal claim.

        Returns:
            The consumer of the claim; None if the step cannot be undone, or is another one.
        """
        return self._undo(claim, is_charge=False)

    def _undo(self, claim: Claim, *, is_charge: bool) -> ConsumerInfo | None:
        step = self.steps[-1] if self.steps else None
        if step is None or step.is_charge is not is_charge or step.claim != claim:
            return None
        self.steps.pop()
        if not step.change.is_last:
            self.steps.clear()
            return None
        step.change.undo(self.steps[-1].change if self.steps else None)
        return step.info

    @locked
    def homes(self, names: Container[str]) -> dict[str, list[tuple[str, str]]]:
        """Return for each tree some of its consumers in the order of arrival, each with the node that holds it."""
        forest = self.find()
        return {} if forest is None else {name: one.tree.homes(names) for name, one in forest.trees.items()}

    @locked
    def restore(self, homes: Mapping[str, Iterable[tuple[str, str]]], infos: Mapping[str, ConsumerInfo]) -> None:
        """Allocate consumers at the nodes that `homes` has returned.

        Args:
            homes: the nodes.
            infos: the consumers, by id.

        Raises:
            RequestError: there is no such node.
        """
        forest = self._forest()
        for name, managed in forest.trees.items():
            for consumer_id, node in homes.get(name, ()):
                info = infos[consumer_id]
                managed.tree.place_at(managed.tree.make_consumer(info, info.on[name]), node)
        for info in infos.values():
            forest.holders[info.consumer_id] = tuple(one.name for one, _ in forest.requests_of(info))

    @locked
    def holds(self, info: ConsumerInfo) -> bool:
        """Return whether a tree holds this very consumer, and not another one with the same id."""
        forest = self.find()
        held = [managed.tree.consumers.get(info.consumer_id) for managed in forest.trees.values()] if forest else []
        return any(consumer is not None and consumer.info is info for consumer in held)

    @locked
    def withdraw(self, infos: Collection[ConsumerInfo]) -> None:
        """Release some consumers. An interrupted change may have left the trees in any state.

        The last arrival leaves first. Other consumers move down as in any deallocation.
        """
        forest = self.find()
        if forest is None:
            return
        leaving = frozenset(infos)
        for managed in forest.trees.values():
            tree = managed.tree
            managed.last_change = None
            tree.recover(UndoLog() if tree.log is None else tree.log)
            held = [consumer for consumer in tree.consumers.values() if consumer.info in leaving]
            for consumer in sorted(held, key=lambda consumer: consumer.sequence, reverse=True):
                managed.begin().run(partial(tree.deallocate, consumer.id))
        for info in infos:
            if not any(info.consumer_id in managed.tree.consumers for managed in forest.trees.values()):
                forest.holders.pop(info.consumer_id, None)


#: The change of a step for which there is no tree: it is always the last one.
_NO_CHANGE: Final = ForestChange(Forest(""), ())

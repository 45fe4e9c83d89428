"""A tree in the hands of a manager, a forest of such trees, and the last try on them.

A forest grants a request on all of its trees that the consumer names, or on none. Its trees take their turn in the
order in which they joined. Whoever is preempted in one tree leaves all trees of the forest, before the next tree is
asked, so that room is made there, too. Each tree notes what it changes, and if one rejects the request all take their
notes back: nothing has changed then, order included.

If an exception interrupts a change that is noted, the trees are rebuilt as they were before it (`noting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar, final

from ugm.identity import is_name
from ugm.quotatree.cache import TreeCache
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.rejection import Rejection
from ugm.quotatree.tree import QuotaTree, Trial
from ugm.quotatree.victims import VictimPolicy

__all__ = ["Attempt", "Forest", "ManagedTree", "Trials", "noting", "take_back"]

Preempted: TypeAlias = tuple[str, ...]

T = TypeVar("T")


@final
class ManagedTree:
    """A tree as a manager knows it."""

    __slots__ = ("attempt", "cache", "forest", "name", "tree")

    #: What the manager calls it; the tree itself may have got another name from its cache.
    name: str
    tree: QuotaTree
    cache: TreeCache
    #: The forest that it belongs to.
    forest: Forest | None
    #: The last try, as long as nothing has changed here since.
    attempt: Attempt | None

    def __init__(self, name: str, tree: QuotaTree, cache: TreeCache) -> None:
        self.name = name
        self.tree = tree
        self.cache = cache
        self.forest = None
        self.attempt = None


#: What each of some trees has noted.
Trials: TypeAlias = tuple[tuple[ManagedTree, Trial], ...]


class Attempt(NamedTuple):
    """A try that can be taken back."""

    consumer_id: str
    trials: Trials
    #: Of a forest: on which trees everybody was held as one, who has lost or gained it.
    holders: Mapping[str, tuple[str, ...] | None]
    forest: Forest | None = None
    #: Of a quota model: whether the change that it made before was the last until then.
    follows: bool = False

    @property
    def is_last(self) -> bool:
        """Whether nothing has changed since in any of the trees."""
        return all(managed.attempt is self for managed, _ in self.trials)

    def note(self) -> None:
        """Let it be the last that has changed its trees."""
        for managed, _ in self.trials:
            managed.attempt = self

    def noted_after(self, before: Attempt | None) -> Attempt:
        """Return it as a change that a quota model has made after another, and let it be the last."""
        attempt = self._replace(consumer_id="", follows=before is not None and before.is_last)
        attempt.note()
        return attempt

    def take_back(self, before: Attempt | None = None) -> None:
        """Undo the try, order included; the one *before*, if any, is the last then."""
        take_back(self.trials)
        if self.forest is not None:
            self.forest.restore_holders(self.holders)
        for managed, _ in self.trials:
            if managed.attempt is self:
                managed.attempt = before


def noting(trees: Iterable[ManagedTree], change: Callable[[Trials], T]) -> tuple[T, Trials]:
    """Make a change to trees, and return its answer and what it has changed; if it raises, it has changed nothing.

    The change is told what is noted, and may undo that as its last step.
    """
    trials = tuple((managed, Trial()) for managed in trees)
    try:
        for managed, trial in trials:
            managed.tree.trial = trial
        answer = change(trials)
        for managed, _ in trials:
            managed.tree.trial = None
    except BaseException:
        _recover(trials)
        raise
    return answer, trials


def take_back(trials: Trials) -> None:
    """Undo what trees have noted, order included. Takes effect on all of them even if it is interrupted."""
    try:
        for managed, trial in trials:
            managed.tree.take_back(trial)
    except BaseException:
        _recover(trials)
        raise


def _recover(trials: Trials) -> None:
    for managed, trial in trials:
        managed.tree.recover(trial)


@final
class Forest:
    """Trees that grant a request together or not at all."""

    __slots__ = ("holders", "name", "trees")

    name: str
    #: By name, in the order in which they joined.
    trees: dict[str, ManagedTree]
    #: Who was allocated on the forest, and on which of its trees.
    holders: dict[str, tuple[str, ...]]

    def __init__(self, name: str) -> None:
        self.name = name
        self.trees = {}
        self.holders = {}

    def named_by(self, info: ConsumerInfo) -> list[tuple[ManagedTree, TreeRequest]]:
        """Return the trees that a consumer names, with what it is to have there."""
        entries = info.on
        return [(managed, entries[name]) for name, managed in self.trees.items() if name in entries]

    def is_allocated(self, consumer_id: str) -> bool:
        """Return whether a consumer is held on every tree on which it was allocated, or on all there are."""
        names = self.holders.get(consumer_id)
        if names is None:
            return bool(self.trees) and all(consumer_id in m.tree.consumers for m in self.trees.values())
        return all(consumer_id in self.trees[name].tree.consumers for name in names if name in self.trees)

    def holds(self, consumer_id: str) -> bool:
        """Return whether a consumer is noted on the forest, or held on any of its trees."""
        return is_name(consumer_id) and (
            consumer_id in self.holders or any(consumer_id in m.tree.consumers for m in self.trees.values())
        )

    def allocate(
        self, info: ConsumerInfo, *, without: Iterable[str] = (), policy: VictimPolicy | None = None
    ) -> tuple[Preempted | Rejection, Attempt]:
        """Allocate a consumer on all trees that it names, or on none.

        Args:
            info: the consumer.
            without: who leaves all trees before.
            policy: how victims are chosen, if not as the trees do.

        Returns:
            Who was preempted, or why the request is rejected; and how to take back what has changed.
        """
        return self._together(info, lambda: self.grant(info, without, policy))

    def grant(self, info: ConsumerInfo, without: Iterable[str], policy: VictimPolicy | None) -> Preempted | Rejection:
        """Do what `allocate` does, without undoing a rejected request."""
        without = tuple(without)
        for managed in self.trees.values():
            _deallocate(managed, without)
        asking = [(managed, managed.tree.consumer(info, entry)) for managed, entry in self.named_by(info)]
        for managed, consumer in asking:
            if consumer.leaf is None:
                return managed.tree.homeless(consumer)
        gone: dict[str, None] = {}
        for managed, consumer in asking:
            _deallocate(managed, gone)
            answer = managed.tree.allocate(consumer, policy)
            if isinstance(answer, Rejection):
                if managed.tree.requeue_rejected:
                    _roll_back((tree for tree, _ in asking), info.consumer_id, gone)
                return answer
            gone.update(dict.fromkeys(answer))
        for managed in self.trees.values():
            _deallocate(managed, gone)
        return tuple(gone)

    def force(self, info: ConsumerInfo, *, anywhere: bool = False) -> tuple[Preempted | Rejection, Attempt]:
        """Allocate a consumer at its groups, whatever the quotas; if one is no node, on no tree, or *anywhere*."""
        return self._together(info, lambda: self.put(info, anywhere=anywhere))

    def put(self, info: ConsumerInfo, *, anywhere: bool = False) -> Preempted | Rejection:
        """Do what `force` does, without undoing a rejected request."""
        for managed, entry in self.named_by(info):
            answer = managed.tree.force(managed.tree.consumer(info, entry), anywhere=anywhere)
            if isinstance(answer, Rejection):
                return answer
        return ()

    def _together(
        self, info: ConsumerInfo, grant: Callable[[], Preempted | Rejection]
    ) -> tuple[Preempted | Rejection, Attempt]:
        """Grant a request on all trees; if that fails, take everything back."""
        holders: dict[str, tuple[str, ...] | None] = {}

        def change(trials: Trials) -> tuple[Preempted | Rejection, Trials]:
            answer = grant()
            if not isinstance(answer, Rejection):
                self._hold(info, answer, holders)
                return answer, trials
            if all(managed.tree.requeue_rejected and trial.is_undone for managed, trial in trials):
                for _, trial in trials:
                    trial.forget_preemptions()
                return answer, trials
            for managed, trial in trials:
                managed.tree.take_back(trial)
            return answer, tuple((managed, Trial()) for managed, _ in trials)

        (answer, trials), _ = self._noting(change, holders)
        return answer, Attempt(info.consumer_id, trials, holders, self)

    def _noting(self, change: Callable[[Trials], T], holders: Mapping[str, tuple[str, ...] | None]) -> tuple[T, Trials]:
        """Make a change to all trees and to the holders; *holders* are those noted so far."""
        try:
            return noting(self.trees.values(), change)
        except BaseException:
            self.restore_holders(holders)
            raise

    def _hold(self, info: ConsumerInfo, preempted: Preempted, holders: dict[str, tuple[str, ...] | None]) -> None:
        """Note that a consumer is held on the forest and others no longer, and in *holders* what was noted before."""
        holders.update((name, self.holders.get(name)) for name in (info.consumer_id, *preempted))
        self.holders[info.consumer_id] = tuple(managed.name for managed, _ in self.named_by(info))
        for victim in preempted:
            self.holders.pop(victim, None)

    def deallocate(self, consumer_id: str) -> bool:
        """Give back what a consumer holds on any of the trees. Return whether it was allocated on the forest."""
        was_allocated = self.is_allocated(consumer_id)
        self.holders.pop(consumer_id, None)
        for managed in self.trees.values():
            managed.tree.deallocate(consumer_id)
        return was_allocated

    def give_back(self, consumer_id: str) -> Attempt:
        """Do as `deallocate`, and return how to take that back."""
        holders = {consumer_id: self.holders.get(consumer_id)}
        _, trials = self._noting(lambda _: self.deallocate(consumer_id), holders)
        return Attempt("", trials, holders, self)

    def restore_holders(self, holders: Mapping[str, tuple[str, ...] | None]) -> None:
        """Note again what was noted before a try."""
        for consumer_id, names in holders.items():
            if names is None:
                self.holders.pop(consumer_id, None)
            else:
                self.holders[consumer_id] = names


def _deallocate(managed: ManagedTree, consumer_ids: Iterable[str]) -> None:
    for consumer_id in consumer_ids:
        managed.tree.deallocate(consumer_id)


def _roll_back(trees: Iterable[ManagedTree], consumer_id: str, gone: Iterable[str]) -> None:
    """Give back what a consumer got, and allocate again who was preempted for it, as the original does.

    That may be something else than before. It stays if only the order is another.
    """
    for managed in trees:
        tree = managed.tree
        touched = {} if tree.trial is None else {consumer.id: consumer for consumer in tree.trial.before}
        tree.deallocate(consumer_id)
        for victim in gone:
            if victim in touched and victim not in tree.consumers:
                tree.allocate(touched[victim])

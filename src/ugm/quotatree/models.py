"""A tree or a forest as a quota model of a partition.

The models implement `ugm.model.EvictingModel` and use nothing else of a partition. An allocation is a consumer whose id
is that of the allocation. A function of the embedding program determines its group in each tree.

Denials: a claim is denied with a `ugm.model.SetupViolation` if the manager is in maintenance mode, which enforces
nothing, if the tree or the leaf does not exist, or if the claim has no group. The setup may give such claims a default
group or leave them unrestricted.

Evictions: a claim that fits without an eviction passes the check, even if other consumers slide up for it. Only
allocations of lower priority are proposed for eviction. Allocations that request again and again cannot form a cycle of
priorities, so they do not evict each other forever.

Undo: a partition undoes its changes in reverse order if another model objects. Therefore a charge right after the
refund of an equal claim restores the tree as it was, order included, and so does a refund right after its charge.

Interruptions: every call takes effect or changes nothing, even if an exception from outside interrupts it.

Large amounts: a tree counts at most 2^63 - 1 of a resource for one allocation. No quota is larger, so a larger request
is denied, and a larger allocation that runs already fills every node that holds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias, final

from ugm._json_values import JsonMapping
from ugm.decision import EffectiveLimit, Violation
from ugm.errors import RequestError
from ugm.identity import is_name
from ugm.model import Borrower, Claim, OrderNode, ReportingModel, SetupViolation
from ugm.quotatree._forest import Forest
from ugm.quotatree._lending import borrowers
from ugm.quotatree._limits import all_limits, node_names, path_limits, room_below, root_violations
from ugm.quotatree._registry import Mode
from ugm.quotatree._self_check import violations
from ugm.quotatree._tree import QuotaTree
from ugm.quotatree._undoable_charges import Charging, Checked
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.rejection import QuotaNodeViolation, Rejection, SoftQuotaViolation
from ugm.quotatree.setup_violations import InMaintenance, NoGroup, UnknownForest, UnknownNode, UnknownTree
from ugm.quotatree.view import KnownNodes, capture_state
from ugm.resources import MAX_QUANTITY, Resource

__all__ = ["ForestModel", "TreeModel"]

#: The group of an allocation by the name of the tree. None, or no entry, stands for no group.
Groups: TypeAlias = Mapping[str, str | None]

#: Stands for an allocation without an id, in a check.
_NAMELESS: Final = "?"


class _Model(ReportingModel, ABC):
    """The common part of both models.

    Args:
        manager: the manager of the tree or forest.
        name: the name of the tree or forest.
        groups_of: returns the group of an allocation in each tree.
        unrestricted: whether claims without a group pass; otherwise they are denied.

    Raises:
        RequestError: an argument is of the wrong type, or the manager has no tree or forest of that name.
    """

    #: The configuration that declares the model, as plain data; None for a model of the program.
    described: JsonMapping | None = None
    #: Returns an equal model without claims; None for a model of the program.
    make_emptied: Callable[[], TreeModel | ForestModel] | None = None
    #: A model that it has made, for `never`.
    _emptied: TreeModel | ForestModel | None = None

    #: The word for the tree or forest in violations.
    _kind: ClassVar[str]
    #: The denial if it does not exist.
    _unknown_kind: ClassVar[type[SetupViolation]]

    def __init__(
        self, manager: QuotaManager, name: str, groups_of: Callable[[Claim], Groups], *, unrestricted: bool
    ) -> None:
        if not isinstance(manager, QuotaManager):
            raise RequestError("manager", manager, "expected a QuotaManager")
        if type(unrestricted) is not bool:
            raise RequestError("unrestricted", unrestricted, "expected True or False")
        self._name: Final = name
        self._groups_of: Final = groups_of
        self._unrestricted: Final = unrestricted
        self._registry: Final = manager._registry  # noqa: SLF001 - of this package
        self._charging: Final = Charging(self._registry, self._find, self._forest)
        #: The consumers of all charged claims, with the priority of the claim, by the id of the allocation.
        self._charged: Final[dict[str, tuple[ConsumerInfo, int]]] = {}
        #: The consumer of the last charge, which may have been interrupted.
        self._latest: ConsumerInfo | None = None
        #: The ids of the claims that were charged before a reset and not since.
        self._withdrawn: Final[set[str]] = set()
        #: The ids of two claims that are being exchanged.
        self._exchanged: tuple[str, ...] = ()
        #: The consumers of interrupted calls, until the next reset.
        self._doubtful: Final[set[ConsumerInfo]] = set()
        #: The nodes that hold the next claims, by tree in the order of arrival.
        self._homes: Mapping[str, Sequence[tuple[str, str]]] = {}
        #: The next claims that are not charged yet.
        self._expected: set[str] = set()
        #: The last state of each tree.
        self._known: Mapping[str, KnownNodes] = {}
        if self._unknown({}) is not None:
            raise RequestError(
                f"{self._kind.removeprefix('quota ')}_name", name, f"there is no such {self._kind}", "object-unknown"
            )

    def begin_operation(self) -> None:
        """Note that an operation begins: only charges and refunds of the same operation undo each other exactly.

        So the same charges and refunds in the same order lead to the same trees after a restart.
        """
        if not self._charging.keeps_all:
            self._charging.steps.clear()

    def save(self) -> JsonMapping:
        """Return the nodes that hold the consumers of all claims, as plain data for `load`."""
        return {"homes": self._charging.homes(self._charged)}

    def load(self, data: JsonMapping) -> None:
        """Let the claims that are charged next be held by the nodes that `save` has returned.

        They take effect with the last of these claims. The model has no claims yet.
        """
        self._homes = {tree: list(map(tuple, homes)) for tree, homes in data["homes"].items()}
        self._expected = {consumer_id for homes in self._homes.values() for consumer_id, _ in homes}

    def begin_trial(self) -> None:
        """Prepare for charges that are refunded in reverse order: each is undone exactly, however many there are."""
        self._charging.keeps_all = True

    def end_trial(self) -> None:
        """End a trial, whose charges are refunded."""
        self._charging.end_trial()

    def reset(self) -> None:
        """Release all claims. The trees and all other consumers remain.

        This works from any state, also after an interrupted call. A partition charges all claims again after a
        reset. A claim whose group has left the tree meanwhile is then held at the root, as after an update of the tree.
        """
        infos = {info for info, _ in self._charged.values()} | {step.info for step in self._charging.steps}
        infos |= self._doubtful
        if self._latest is not None:
            infos.add(self._latest)
        self._withdrawn.update(info.consumer_id for info in infos)
        self._charging.withdraw(infos)
        self._charged.clear()
        self._charging.steps.clear()
        self._doubtful.clear()
        self._latest = None

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every violated quota, tree by tree; none if a claim fits without an eviction."""
        steps = self._charging.steps
        if steps and claim == steps[-1].claim:
            # A claim that is checked again after its refund is a new request, and not the undo of the refund.
            steps.clear()
        groups = self._groups(claim)
        missing = self._missing(groups)
        if missing is not None:
            return (missing,)
        info = self._info(claim, groups)
        if info is None:
            return ()
        found = _violations(self._charging.check(claim, info))
        return found if _counts_all(info, claim) else self._of_whole_claim(claim, groups, found)

    def never(self, claims: Sequence[Claim]) -> Iterable[Violation]:
        """Return every quota that some claims exceed together in empty trees, each with their sum.

        Nothing for a model of the program, because its trees cannot be made again.
        """
        emptied = self._emptied
        if emptied is None:
            if self.make_emptied is None:
                return ()
            emptied = self.make_emptied()
        # An interrupted call leaves claims in it.
        self._emptied = None
        found: dict[object, Violation] = {}
        charged: list[Claim] = []
        for claim in claims:
            denied = tuple(emptied.check(claim))
            for one in denied:
                if not isinstance(one, SoftQuotaViolation):
                    found[one[:5]] = one._replace(used=0, requested=one.used + one.requested)
            if not any(isinstance(one, SetupViolation) for one in denied):
                emptied.charge(claim)
                charged.append(claim)
        for claim in reversed(charged):
            emptied.refund(claim)
        self._emptied = emptied
        return tuple(found.values())

    def shortage(self, claim: Claim, without: Collection[str]) -> Iterable[Violation]:
        """Return every violated quota; none if a claim would fit without an eviction after some consumers have left."""
        groups = self._groups(claim)
        missing = self._missing(groups)
        return self._shortage(claim, groups, without) if missing is None else (missing,)

    def borrowers(self, claim: Claim, without: Collection[str]) -> Iterable[Borrower]:
        """Return all leaves with allocations except that of *claim*, tree by tree."""
        groups = self._groups(claim)
        if self._missing(groups) is not None:
            return ()
        return self._charging.read(
            lambda forest: (
                borrower
                for name, managed in forest.trees.items()
                for borrower in borrowers(managed.tree, groups.get(name) or "", claim.usage, without)
            )
        )

    def _shortage(self, claim: Claim, groups: Groups, without: Iterable[str]) -> Iterable[Violation]:
        info = self._info(claim, groups)
        if info is None:
            return ()
        rejection = self._charging.plan(info, without, preempting=False).rejection
        found = _violations((rejection,)) if rejection else ()
        return found if _counts_all(info, claim) else self._of_whole_claim(claim, groups, found)

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return the allocations of lower priority whose refund lets a claim pass; none if no evictions suffice."""
        groups = self._groups(claim)
        info = None if self._missing(groups) else self._info(claim, groups)
        if info is not None and not _counts_all(info, claim) and self._beyond_roots(claim, groups):
            return ()
        leaving: tuple[str, ...] = ()
        while info is not None:
            plan = self._charging.plan(info, leaving)
            charged = [self._charged.get(victim) for victim in plan.preempted]
            if plan.rejection or not all(victim and victim[1] < claim.priority for victim in charged):
                return ()
            if not plan.preempted:
                return leaving
            # Without them, other consumers move down and may block a node that was free before: plan again.
            leaving += plan.preempted
        return ()

    def charge(self, claim: Claim) -> None:
        """Charge a claim, even if it does not fit, in any mode. A claim without a group is charged to no tree.

        The group of a claim that replaces another one may have left the tree; see `expect_exchange`.

        Raises:
            RequestError: the claim is charged already, or its group is not in the tree.
        """
        if claim.allocation_id in self._expected:
            self._charge_restored(claim)
            return
        checked, self._charging.checked = self._charging.checked, None
        if checked is not None and checked.claim is claim and self._charge_checked(checked):
            return
        steps, consumer_id = self._charging.steps, claim.allocation_id
        infos = [steps[-1].info] if steps else []
        try:
            info = self._charging.undo_refund(claim)
            if info is None:
                info = self._latest = self._info(claim, self._groups(claim))
                if info is not None:
                    infos.append(info)
                    self._charging.charge(claim, info, fallback=self._is_held_before(claim))
                self._withdrawn.discard(consumer_id)
            self._exchanged = ()
            if info is not None:
                self._charged[consumer_id] = info, claim.priority
        except BaseException:
            self._repair(claim, infos)
            raise

    def _charge_restored(self, claim: Claim) -> None:
        """Charge a claim whose nodes are known. The trees hold all of these claims when the last one is charged."""
        info = self._info(claim, self._groups(claim))
        if info is None:
            raise RequestError("claim", claim.allocation_id, "the claim has no group", "state-conflict")
        self._charged[claim.allocation_id] = info, claim.priority
        self._expected.remove(claim.allocation_id)
        if not self._expected:
            self._charging.restore(self._homes, {name: known for name, (known, _) in self._charged.items()})
            self._homes = {}

    def _is_held_before(self, claim: Claim) -> bool:
        """Return whether the trees have held a claim, or the one that it replaces.

        Its group may have left the tree since then.
        """
        return claim.allocation_id in self._withdrawn or claim.allocation_id in self._exchanged

    def _charge_checked(self, checked: Checked) -> bool:
        """Charge the claim that was checked last, and return whether its check is still valid."""
        claim = checked.claim
        info = self._latest = checked.info
        try:
            if not self._charging.charge_checked(checked):
                return False
            self._withdrawn.discard(claim.allocation_id)
            self._exchanged = ()
            self._charged[claim.allocation_id] = info, claim.priority
        except BaseException:
            self._repair(claim, [info])
            raise
        return True

    def refund(self, claim: Claim) -> None:
        """Release a charged claim. Other consumers move down where they fit then."""
        held = self._charged.get(claim.allocation_id)
        if held is None:
            return
        info, _ = held
        try:
            self._charging.refund(claim, info)
            del self._charged[claim.allocation_id]
        except BaseException:
            self._repair(claim, [info])
            raise

    def _repair(self, claim: Claim, infos: Sequence[ConsumerInfo]) -> None:
        """After an interruption, record a claim as charged exactly if the trees hold its consumer, one of *infos*."""
        # The recovery of a tree may bring a consumer back that it does not hold now.
        self._doubtful.update(infos)
        for info in infos:
            if info.consumer_id == claim.allocation_id and self._charging.holds(info):
                self._charged[claim.allocation_id] = info, claim.priority
                return
        known = self._charged.get(claim.allocation_id)
        if known is not None and not self._charging.holds(known[0]):
            del self._charged[claim.allocation_id]

    # Reports

    def limits(self, claim: Claim) -> Iterable[EffectiveLimit]:
        """Return the limits of all nodes from the leaf of *claim* to the root, in each tree.

        A node from which the group can borrow above has its quota as ``EffectiveLimit.guaranteed``. A claim that is
        denied for its setup has no limits.
        """
        groups = self._groups(claim)
        if self._missing(groups) is not None:
            return ()
        return self._charging.read(
            lambda forest: (
                limit
                for name, managed in forest.trees.items()
                for limit in path_limits(managed.tree, groups.get(name) or "")
            )
        )

    def room(self, kind: str, name: str, resource: str) -> int | None:
        """Return what the root and the hard nodes above a node leave for its leaves; None for another kind of limit.

        Several trees of a forest may have a node of that name; the largest amount counts.
        """
        if kind != "quota node":
            return None
        rooms = self._charging.read(
            lambda forest: (room_below(managed.tree, name, resource) for managed in forest.trees.values())
        )
        return max((room for room in rooms if room is not None), default=None)

    def owners(self, claim: Claim) -> Iterable[tuple[str, str]]:
        """Return the nodes from the leaf of *claim* to the root, in each tree, as ``tree/node``."""
        groups = self._groups(claim)
        names = self._charging.read(
            lambda forest: (
                found
                for name, managed in forest.trees.items()
                for found in node_names(managed.tree, groups.get(name) or "")
            )
        )
        return [("quota node", name) for name in names]

    def all_limits(self) -> Iterable[EffectiveLimit]:
        """Return the quotas of all nodes, tree by tree."""
        return self._charging.read(
            lambda forest: (limit for managed in forest.trees.values() for limit in all_limits(managed.tree))
        )

    def exceeded(self) -> Iterable[Violation]:
        """Return every quota that is exceeded, tree by tree."""
        return [QuotaNodeViolation(*violation) for violation in super().exceeded()]

    def capture_state(self) -> Callable[[], JsonMapping]:
        """Copy the trees; the returned function converts the nodes that have changed to plain data.

        The states share the nodes that have not changed, so they must not be modified.
        """
        known: dict[str, KnownNodes] = {}

        def capture(forest: Forest) -> Iterator[Callable[[], JsonMapping]]:
            for name, managed in forest.trees.items():
                known[name] = self._known.get(name) or KnownNodes()
                yield capture_state(managed.tree, known[name])

        captured, self._known = self._charging.read(capture), known
        mode = self._registry.mode.value
        return lambda: {"kind": "quota trees", "mode": mode, "trees": [state() for state in captured]}

    def state(self) -> JsonMapping:
        """Return the mode of the manager, and all trees with their consumers."""
        return self.capture_state()()

    def definition(self) -> JsonMapping | None:
        """Return the configuration that declares the model, with amounts in base units; None without one."""
        return self.described

    def accept_missing_groups(self, allocation_ids: Iterable[str]) -> None:
        """Let the root hold allocations that are charged next and whose group is not in the tree.

        A configuration may remove a group that still holds allocations.
        """
        self._withdrawn.update(allocation_ids)

    def expect_exchange(self, old_id: str, new_id: str) -> None:
        """Let the root hold the claim that is charged next, if its group has left the tree: it replaces another one.

        Args:
            old_id: the allocation that is refunded next.
            new_id: the allocation that is charged afterwards; the refund may be undone instead.
        """
        self._exchanged = old_id, new_id

    def verify(self, held: Mapping[str, Claim], pending: Mapping[str, Claim]) -> Iterable[str]:  # noqa: ARG002 - not counted
        """Yield a message for each difference between the claims and the ledger, or the counters and the consumers."""
        for name in sorted(self._charged.keys() - held.keys()):
            yield f"allocation {name!r} is charged, but not in the ledger"
        for name, claim in held.items():
            due = self._info(claim, self._groups(claim))
            info, _ = self._charged.get(name, (None, 0))
            requests, expected = ([entry.request for entry in one.trees] if one else [] for one in (info, due))
            if requests != expected:
                yield f"allocation {name!r} is charged with {requests}, expected {expected}"
        yield from self._charging.read(
            lambda forest: (message for managed in forest.trees.values() for message in violations(managed.tree))
        )

    # The scheduling order

    def order_trees(self) -> tuple[str, ...]:
        """Return the names of the trees that a scheduling pass can traverse."""
        return tuple(self._charging.read(lambda forest: iter(forest.trees)))

    def order_nodes(self, tree: str) -> list[OrderNode]:
        """Return the nodes of a tree with their quotas, every parent before its children."""
        return list(self._charging.read(lambda forest: _order_nodes(forest.trees[tree].tree)))

    def order_node(self, tree: str, claim: Claim) -> str | None:
        """Return the leaf of a claim in a tree; None if it has none."""
        return self._groups(claim).get(tree)

    # Claims

    def _groups(self, claim: Claim) -> Groups:
        return self._groups_of(claim) or {}

    def _missing(self, groups: Groups) -> SetupViolation | None:
        """Return the reason why the model cannot judge a claim; None if it can."""
        if self._is_complete(groups):
            return None
        lacks_group = not groups or None in groups.values()
        if lacks_group and self._unrestricted and not any(groups.values()):
            return None
        unknown = self._unknown(groups)
        if unknown is not None:
            return unknown
        if lacks_group and not self._unrestricted:
            without = next((name for name, group in groups.items() if group is None), "")
            return NoGroup.of("quota tree", without) if without else NoGroup.of(self._kind, self._name)
        if self._registry.mode is not Mode.NORMAL:
            return InMaintenance.of(self._kind, self._name)
        return None

    def _is_complete(self, groups: Groups) -> bool:
        """Return whether a claim has a group in known trees, one of them in the forest. Most claims have."""
        if self._registry.mode is not Mode.NORMAL:
            return False
        trees = self._registry.trees
        for name, group in groups.items():
            if group is None or name not in trees:
                return False
        forest = self._charging.find()
        return forest is not None and not groups.keys().isdisjoint(forest.trees)

    def _unknown(self, groups: Groups) -> SetupViolation | None:
        """Return a violation if the tree or forest, or a tree of some groups, does not exist."""
        forest = self._charging.find()
        if forest is None:
            return self._unknown_kind.of(self._kind, self._name)
        for name in groups:
            if self._registry.find_tree(name) is None:
                return UnknownTree.of("quota tree", name)
        outside = groups and not self._unrestricted and groups.keys().isdisjoint(tuple(forest.trees))
        return NoGroup.of(self._kind, self._name) if outside else None

    def _of_whole_claim(self, claim: Claim, groups: Groups, found: tuple[Violation, ...]) -> tuple[Violation, ...]:
        """Return the violations of a claim, given those of the part of it that the trees can count."""
        exact = _with_whole_amounts(found, claim.usage)
        never = {(one.limit_name, one.resource) for one in exact if not one.can_wait}
        more = [one for one in self._beyond_roots(claim, groups) if (one.limit_name, one.resource) not in never]
        if not more:
            return exact
        places = {name: place for place, name in enumerate(self.order_trees())}
        # A group that is not a leaf has no tree here and comes first, as in `Charging.check`.
        return tuple(sorted((*exact, *more), key=lambda one: places.get(one.limit_name, -1)))

    def _beyond_roots(self, claim: Claim, groups: Groups) -> list[Violation]:
        """Return the quotas of roots that a claim exceeds because no tree can count so much, tree by tree."""
        return self._charging.read(
            lambda forest: (
                violation
                for name, managed in forest.trees.items()
                for violation in root_violations(managed.tree, groups.get(name) or "", claim.usage)
            )
        )

    @abstractmethod
    def _find(self) -> Forest | None:
        """Return the tree or forest; None if it does not exist."""

    @abstractmethod
    def _forest(self) -> Forest:
        """Return the tree or forest.

        Raises:
            RequestError: it does not exist.
        """

    def _info(self, claim: Claim, groups: Groups) -> ConsumerInfo | None:
        consumer_id = claim.allocation_id
        if not consumer_id:
            consumer_id = _NAMELESS
            while consumer_id in self._charged:
                consumer_id += _NAMELESS
        usage, priority, unpreemptable = claim.usage, claim.priority, not claim.preemptible
        amounts = usage.amounts.values()
        if amounts and (max(amounts) > MAX_QUANTITY or min(amounts) < -MAX_QUANTITY):
            # A counter has no room for more. No quota is larger, so the node is full in any case.
            usage = Resource({name: max(-MAX_QUANTITY, min(amount, MAX_QUANTITY)) for name, amount in usage.items()})
        entries = [
            TreeRequest(tree_name, group, usage, priority, 0, unpreemptable)
            for tree_name, group in groups.items()
            if group is not None
        ]
        return ConsumerInfo.of_claim(consumer_id, tuple(entries)) if entries else None


def _counts_all(info: ConsumerInfo, claim: Claim) -> bool:
    """Return whether the trees can count all amounts of a claim; see `_Model._info`."""
    return info.trees[0].request is claim.usage


def _with_whole_amounts(violations: Iterable[Violation], usage: Resource) -> tuple[Violation, ...]:
    """Return violations with the requested amounts of which the trees can count only a part."""
    large = {name for name, amount in usage.items() if amount > MAX_QUANTITY}
    return tuple(one._replace(requested=usage[one.resource]) if one.resource in large else one for one in violations)


def _order_nodes(tree: QuotaTree) -> Iterator[OrderNode]:
    for node in tree.root.walk() if tree.root else ():
        above = "" if node.parent is None else node.parent.name
        yield OrderNode(node.name, above, dict(zip(tree.resources, node.quota, strict=True)))


def _violations(rejections: Iterable[Rejection]) -> tuple[Violation, ...]:
    return tuple(
        violation
        for rejection in rejections
        for violation in rejection.violations or (UnknownNode.of("quota node", rejection.group),)
    )


@final
class TreeModel(_Model):
    """A tree of a manager as a quota model.

    Args:
        manager: the manager of the tree. It must be in normal mode to grant requests.
        tree_name: the tree.
        group_of: returns the leaf of an allocation, None for none.
        default_group: the leaf of claims for which *group_of* returns None.
        unrestricted: whether claims without a leaf pass; otherwise, and without a default, they are denied.

    Raises:
        RequestError: the manager has no such tree, or an argument is of the wrong type.
    """

    _kind = "quota tree"
    _unknown_kind: ClassVar[type[SetupViolation]] = UnknownTree

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

    def _find(self) -> Forest | None:
        return self._registry.find_tree(self._name)

    def _forest(self) -> Forest:
        return self._registry.tree(self._name)


@final
class ForestModel(_Model):
    """A forest of a manager as a quota model: every tree of it in which an allocation has a group must agree.

    Args:
        manager: the manager of the forest. It must be in normal mode to grant requests.
        forest_name: the forest.
        groups_of: returns the leaf of an allocation by the name of the tree. A tree without an entry does not limit
            the allocation. Entries for trees outside the forest are ignored. A claim is denied if it has an entry for
            a tree that does not exist, or None instead of a leaf.
        unrestricted: whether claims without an entry for a tree of the forest pass, and trees whose entry is None do
            not limit; otherwise these claims are denied.

    Raises:
        RequestError: the manager has no such forest, or an argument is of the wrong type.
    """

    _kind = "quota forest"
    _unknown_kind: ClassVar[type[SetupViolation]] = UnknownForest

    def __init__(
        self,
        manager: QuotaManager,
        forest_name: str,
        groups_of: Callable[[Claim], Groups],
        *,
        unrestricted: bool = False,
    ) -> None:
        super().__init__(manager, forest_name, groups_of, unrestricted=unrestricted)

    def _find(self) -> Forest | None:
        return self._registry.find_forest(self._name)

    def _forest(self) -> Forest:
        return self._registry.forest(self._name)

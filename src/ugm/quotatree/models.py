"""A tree or a forest as a quota model of a partition.

The models implement `ugm.model.EvictingModel` and use nothing else of a partition. An allocation is a consumer whose id
is that of the allocation. A function of the embedding program determines its group in each tree.

Denials: a claim is denied with a `ugm.model.SetupViolation` if the manager is in maintenance mode, which enforces
nothing, if the tree or the leaf does not exist, or if the claim has no group. The setup may give such claims a default
group or leave them unrestricted.

Evictions: a claim that fits without an eviction passes the check, even if other consumers slide up for it. Only
allocations of lower priority are proposed for eviction.

Undo: a partition undoes its changes in reverse order if another model objects. Therefore a charge right after the
refund of an equal claim restores the tree as it was, order included, and so does a refund right after its charge.

Recovery: if a call does not return, the partition resets the model and charges all claims again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonMapping
from ugm.arguments import require_instance
from ugm.decision import EffectiveLimit, Violation
from ugm.engine_lock import OwnedLock, all_locked
from ugm.errors import RequestError
from ugm.identity import is_name
from ugm.model import Borrower, Claim, OrderNode, ReportingModel, SetupViolation
from ugm.quotatree._forest import Forest, ManagedTree, Mode, UndoableChange
from ugm.quotatree._node import ConsumerInfo, TreeRequest
from ugm.quotatree._tree import QuotaTree
from ugm.quotatree.answers import QuotaNodeViolation, Rejection, SoftQuotaViolation
from ugm.quotatree.manager import QuotaManager

#: The group of an allocation by the name of the tree. None, or no entry, stands for no group.
Groups: TypeAlias = Mapping[str, str | None]

#: The id of the consumer of a query.
_NAMELESS: Final = "\0"
#: The number of charges and refunds that can be undone exactly. Earlier charges are released like any other consumer.
_MAX_STEPS: Final = 10_000


class _InMaintenance(SetupViolation):
    """The denial of a claim because the manager is in maintenance mode."""

    reason = "its manager is in maintenance mode, in which no quota is enforced"


class _UnknownTree(SetupViolation):
    """The denial of a claim because the manager has no such tree."""

    reason = "there is no such tree"


class _UnknownForest(SetupViolation):
    """The denial of a claim because the manager has no such forest."""

    reason = "there is no such forest"


class _UnknownNode(SetupViolation):
    """The denial of a claim because its group is not a leaf of the tree."""

    reason = "the tree has no such leaf"


class _NoGroup(SetupViolation):
    """The denial of a claim because it has no group."""

    reason = "the request has no group in it"


class _Step(NamedTuple):
    """A charge or a refund."""

    claim: Claim
    info: ConsumerInfo
    is_charge: bool
    change: UndoableChange


@all_locked
class _Model(ReportingModel):
    """The common part of both models.

    Args:
        manager: the manager of the tree or forest.
        name: the name of the tree or forest.
        groups_of: returns the group of an allocation in each tree.
        unrestricted: whether claims without a group pass; otherwise they are denied.

    Raises:
        RequestError: an argument is of the wrong type, or the manager has no tree or forest of that name.
    """

    sees_nodes: Final = False

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
        self, manager: QuotaManager, name: str, groups_of: Callable[[Claim], Groups], *, unrestricted: bool = False
    ) -> None:
        if type(unrestricted) is not bool:
            raise RequestError("unrestricted", unrestricted, "expected True or False")
        self._name: Final = name
        self._groups_of: Final = groups_of
        self._unrestricted: Final = unrestricted
        self._registry: Final = require_instance("manager", manager, QuotaManager)._registry  # noqa: SLF001 - of this package
        self._lock: OwnedLock = self._registry.lock
        #: The consumers of all charged claims, with the priority of the claim, by the id of the allocation.
        self._charged: Final[dict[str, tuple[ConsumerInfo, int]]] = {}
        #: The consumer of the last claim that was asked for; an interrupted call may have left it in the trees.
        self._claimant: ConsumerInfo | None = None
        #: The charges and refunds of the current operation.
        self._steps: Final = deque[_Step](maxlen=_MAX_STEPS)
        #: Called at the beginning of each operation: only its own charges and refunds undo each other exactly. So the
        #: same charges and refunds in the same order lead to the same trees after a restart.
        self.begin_operation: Final = self._steps.clear
        #: The nodes that hold the next claims, by tree in the order of arrival.
        self._homes: Mapping[str, Sequence[tuple[str, str]]] = {}
        #: The next claims that are not charged yet.
        self._expected: set[str] = set()
        if self._unknown({}) is not None:
            argument = f"{self._kind.removeprefix('quota ')}_name"
            raise RequestError(argument, name, f"there is no such {self._kind}", "object-unknown")

    def save(self) -> JsonMapping:
        """Return the nodes that hold the consumers of all claims, as plain data for `load`."""
        return {"homes": {managed.name: managed.tree.homes(self._charged) for managed in self._managed()}}

    def load(self, data: JsonMapping) -> None:
        """Let the claims that are charged next be held by the nodes that `save` has returned.

        They take effect with the last of these claims. The model has no claims yet.
        """
        self._homes = {tree: list(map(tuple, homes)) for tree, homes in data["homes"].items()}
        self._expected = {consumer_id for homes in self._homes.values() for consumer_id, _ in homes}

    def reset(self) -> None:
        """Release all claims. The trees and all other consumers remain.

        This works from any state, also after an interrupted call. A partition charges all claims again after a reset.
        """
        leaving = {info for info, _ in self._charged.values()} | ({self._claimant} if self._claimant else set())
        for managed in self._managed():
            managed.tree.recover(leaving)
            managed.tree.version = None
        self._charged.clear()
        self._steps.clear()

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every violated quota, tree by tree; none if a claim fits without an eviction."""

        def judge(forest: Forest, info: ConsumerInfo) -> Iterable[Rejection]:
            # A group that is not a leaf comes first, because waiting cannot help there.
            return sorted(forest.judge(info), key=lambda rejection: bool(rejection.visited))

        return self._violations(claim, judge)

    def _violations(
        self, claim: Claim, judge: Callable[[Forest, ConsumerInfo], Iterable[Rejection]]
    ) -> tuple[Violation, ...]:
        """Return the violations of the rejections of a claim, or why the model cannot judge it."""
        groups = self._groups(claim)
        missing = self._missing(groups)
        if missing is not None:
            return (missing,)
        forest, info = self._find(), self._info(claim, groups)
        rejections = () if forest is None or info is None else judge(forest, info)
        return tuple(
            violation
            for rejection in rejections
            for violation in rejection.violations or (_UnknownNode.of("quota node", rejection.group),)
        )

    def never(self, claims: Sequence[Claim]) -> Iterable[Violation]:
        """Return every quota that some claims exceed together in empty trees, each with their sum.

        Nothing for a model of the program, because its trees cannot be made again.
        """
        if self._emptied is None:
            if self.make_emptied is None:
                return ()
            self._emptied = self.make_emptied()
        emptied = self._emptied
        emptied.reset()
        found: dict[object, Violation] = {}
        for claim in claims:
            denied = tuple(emptied.check(claim))
            for one in denied:
                if not isinstance(one, SoftQuotaViolation):
                    found[one[:5]] = one._replace(used=0, requested=one.used + one.requested)
            if not any(isinstance(one, SetupViolation) for one in denied):
                emptied.charge(claim)
        return tuple(found.values())

    def shortage(self, claim: Claim, without: Collection[str]) -> Iterable[Violation]:
        """Return every violated quota; none if a claim would fit without an eviction after some consumers have left."""

        def judge(forest: Forest, info: ConsumerInfo) -> Iterable[Rejection]:
            rejection = forest.plan(info, without, preempting=False).rejection
            return () if rejection is None else (rejection,)

        return self._violations(claim, judge)

    def borrowers(self, claim: Claim, without: Collection[str]) -> Iterable[Borrower]:
        """Return all leaves with allocations except that of *claim*, tree by tree."""
        return [one for tree, group in self._paths(claim) for one in tree.borrowers(group, claim.usage, without)]

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return the allocations of lower priority whose refund lets a claim pass; none if no evictions suffice."""
        groups = self._groups(claim)
        info, forest = None if self._missing(groups) else self._info(claim, groups), self._find()
        leaving: tuple[str, ...] = ()
        while info is not None and forest is not None:
            plan = forest.plan(info, leaving, preempting=True)
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

        The root holds a claim whose group is not in the tree, for example after an update of the tree.

        Raises:
            RequestError: the claim is charged already.
        """
        consumer_id, forest = claim.allocation_id, self._find()
        if consumer_id in self._expected:
            self._charge_restored(claim)
            return
        if self._undo_last(claim, is_charge=False):
            return
        info = self._info(claim, self._groups(claim))
        if info is None:
            return
        if forest is not None:
            forest.require_new(info)
        # First, because `reset` releases everything that is listed here.
        self._charged[consumer_id] = info, claim.priority
        if forest is not None:
            self._steps.append(_Step(claim, info, is_charge=True, change=self._allocate(forest, info)))

    def _allocate(self, forest: Forest, info: ConsumerInfo) -> UndoableChange:
        if self._registry.mode is Mode.NORMAL:
            response, change = forest.allocate(info, preempting=False)
            if response:
                return change
            change.undo()
        return forest.force(info, fallback=True)[1]

    def _charge_restored(self, claim: Claim) -> None:
        """Charge a claim whose nodes are known. The trees hold all of these claims when the last one is charged."""
        info = self._info(claim, self._groups(claim))
        if info is None:
            raise RequestError("claim", claim.allocation_id, "the claim has no group", "state-conflict")
        self._charged[claim.allocation_id] = info, claim.priority
        self._expected.remove(claim.allocation_id)
        if self._expected:
            return
        for managed in self._managed():
            for consumer_id, node in self._homes.get(managed.name, ()):
                known, _ = self._charged[consumer_id]
                managed.tree.place_at(managed.tree.make_consumer(known, known.on[managed.name]), node)
            managed.tree.log = {}
        self._homes = {}

    def refund(self, claim: Claim) -> None:
        """Release a charged claim. Other consumers move down where they fit then."""
        held = self._charged.get(claim.allocation_id)
        if held is None:
            return
        if not self._undo_last(claim, is_charge=True):
            forest = self._find()
            if forest is not None:
                change = forest.refund(claim.allocation_id)
                self._steps.append(_Step(claim, held[0], is_charge=False, change=change))
        del self._charged[claim.allocation_id]

    def _undo_last(self, claim: Claim, *, is_charge: bool) -> bool:
        """Undo the last step if it was that of an equal claim, and return whether it was."""
        step, forest = self._steps[-1] if self._steps else None, self._find()
        if step is None or step.is_charge is not is_charge or step.claim != claim:
            return False
        self._steps.pop()
        if forest is None or not step.change.is_last_of(forest):
            self._steps.clear()
            return False
        self._charged[claim.allocation_id] = step.info, claim.priority
        step.change.undo()
        return True

    # Reports

    def limits(self, claim: Claim) -> Iterable[EffectiveLimit]:
        """Return the limits of all nodes from the leaf of *claim* to the root, in each tree.

        A node from which the group can borrow above has its quota as ``EffectiveLimit.guaranteed``. A claim that is
        denied for its setup has no limits.
        """
        return [limit for tree, group in self._paths(claim) for limit in tree.path_limits(group)]

    def room(self, kind: str, name: str, resource: str) -> int | None:
        """Return what the root and the hard nodes above a node leave for its leaves; None for another kind of limit.

        Several trees of a forest may have a node of that name; the largest amount counts.
        """
        if kind != "quota node":
            return None
        rooms = [managed.tree.room_below(name, resource) for managed in self._managed()]
        return max((room for room in rooms if room is not None), default=None)

    def owners(self, claim: Claim) -> Iterable[tuple[str, str]]:
        """Return the nodes from the leaf of *claim* to the root, in each tree, as ``tree/node``."""
        groups = self._groups(claim)
        return [one for managed in self._managed() for one in managed.tree.owners(groups.get(managed.name))]

    def all_limits(self) -> Iterable[EffectiveLimit]:
        """Return the quotas of all nodes, tree by tree."""
        return [limit for managed in self._managed() for limit in managed.tree.all_limits()]

    def exceeded(self) -> Iterable[Violation]:
        """Return every quota that is exceeded, tree by tree."""
        return [QuotaNodeViolation(*violation) for violation in super().exceeded()]

    def capture_state(self) -> Callable[[], JsonMapping]:
        """Copy the trees; the returned function converts them to plain data."""
        mode, views = self._registry.mode.value, [managed.tree.view() for managed in self._managed()]
        return lambda: {"kind": "quota trees", "mode": mode, "trees": [view.to_dict() for view in views]}

    def state(self) -> JsonMapping:
        """Return the mode of the manager, and all trees with their consumers."""
        return self.capture_state()()

    def definition(self) -> JsonMapping | None:
        """Return the configuration that declares the model, with amounts in base units; None without one."""
        return self.described

    def verify(self, held: Mapping[str, Claim], pending: Mapping[str, Claim]) -> Iterable[str]:  # noqa: ARG002 - not counted
        """Return a message for each difference between the claims and the ledger, or the counters and the consumers."""
        found = [
            f"allocation {name!r} is charged, but not in the ledger" for name in sorted(self._charged.keys() - held)
        ]
        for name, claim in held.items():
            due = self._info(claim, self._groups(claim))
            info, _ = self._charged.get(name, (None, 0))
            requests, expected = ([entry.request for entry in one.trees] if one else [] for one in (info, due))
            if requests != expected:
                found.append(f"allocation {name!r} is charged with {requests}, expected {expected}")
        return found + [message for managed in self._managed() for message in managed.tree.violations()]

    # The scheduling order

    def order_trees(self) -> tuple[str, ...]:
        """Return the names of the trees that a scheduling pass can traverse."""
        return tuple(managed.name for managed in self._managed())

    def order_nodes(self, tree: str) -> list[OrderNode]:
        """Return the nodes of a tree with their quotas, every parent before its children."""
        return self._registry.tree(tree).tree.order_nodes()

    def order_node(self, tree: str, claim: Claim) -> str | None:
        """Return the leaf of a claim in a tree; None if it has none."""
        return self._groups(claim).get(tree)

    # Claims

    def _managed(self) -> Collection[ManagedTree]:
        """Return the trees; none if the tree or forest does not exist."""
        forest = self._find()
        return () if forest is None else forest.trees.values()

    def _groups(self, claim: Claim) -> Groups:
        return self._groups_of(claim) or {}

    def _paths(self, claim: Claim) -> Iterator[tuple[QuotaTree, str | None]]:
        """Yield each tree with the group of a claim; nothing if the claim is denied for its setup."""
        groups = self._groups(claim)
        if self._missing(groups) is None:
            yield from ((managed.tree, groups.get(managed.name)) for managed in self._managed())

    def _missing(self, groups: Groups) -> SetupViolation | None:
        """Return the reason why the model cannot judge a claim; None if it can."""
        lacks_group = not groups or None in groups.values()
        if lacks_group and self._unrestricted and not any(groups.values()):
            return None
        unknown = self._unknown(groups)
        if unknown is not None:
            return unknown
        if lacks_group and not self._unrestricted:
            without = next((name for name, group in groups.items() if group is None), "")
            return _NoGroup.of("quota tree", without) if without else _NoGroup.of(self._kind, self._name)
        if self._registry.mode is not Mode.NORMAL:
            return _InMaintenance.of(self._kind, self._name)
        return None

    def _unknown(self, groups: Groups) -> SetupViolation | None:
        """Return a violation if the tree or forest, or a tree of some groups, does not exist."""
        forest = self._find()
        if forest is None:
            return self._unknown_kind.of(self._kind, self._name)
        for name in groups:
            if self._registry.find_tree(name) is None:
                return _UnknownTree.of("quota tree", name)
        outside = groups and not self._unrestricted and groups.keys().isdisjoint(forest.trees)
        return _NoGroup.of(self._kind, self._name) if outside else None

    def _find(self) -> Forest | None:
        """Return the tree or forest; None if it does not exist."""
        registry = self._registry
        return registry.find_tree(self._name) if self._kind == "quota tree" else registry.find_forest(self._name)

    def _info(self, claim: Claim, groups: Groups) -> ConsumerInfo | None:
        """Return the consumer of a claim; None if it has no group."""
        entries = [
            TreeRequest(tree_name, group, claim.usage, claim.priority, 0, not claim.preemptible)
            for tree_name, group in groups.items()
            if group is not None
        ]
        self._claimant = ConsumerInfo(claim.allocation_id or _NAMELESS, entries) if entries else None
        return self._claimant


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
    _unknown_kind: ClassVar[type[SetupViolation]] = _UnknownTree

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


@final
class ForestModel(_Model):
    """A forest of a manager as a quota model: every tree of it in which an allocation has a group must agree.

    Args:
        manager: the manager of the forest. It must be in normal mode to grant requests.
        name: the forest.
        groups_of: returns the leaf of an allocation by the name of the tree. A tree without an entry does not limit
            the allocation. Entries for trees outside the forest are ignored. A claim is denied if it has an entry for
            a tree that does not exist, or None instead of a leaf.
        unrestricted: whether claims without an entry for a tree of the forest pass, and trees whose entry is None do
            not limit; otherwise these claims are denied.

    Raises:
        RequestError: the manager has no such forest, or an argument is of the wrong type.
    """

    _kind = "quota forest"
    _unknown_kind: ClassVar[type[SetupViolation]] = _UnknownForest

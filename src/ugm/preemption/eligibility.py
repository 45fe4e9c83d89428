"""The rules that decide which allocations may be evicted for a request, and together with which others.

The problem: a rule about one allocation depends on the queue, the application and the priority. A rule about a set of
victims compares usage with guarantees at every queue between a victim and the request.

The idea: all that depends on the queue of an allocation is computed once per queue, in `Situation`:

- its *level*: the position on the path of the request, counted from the leaf, of the lowest queue that is above both.
- its *side*: the queues from its leaf up to below that queue. Each of them that has a guarantee bounds the amount that
  may be taken below it.

A set of victims is permitted if three kinds of sums over its members stay within limits:

- *needs*: below each queue of the path, at least the missing amounts are freed.
- *claims*: each queue of the path below the level of a victim stays within its guarantee after the plan.
- *bounds*: below each queue with a guarantee outside the path, no more is freed than its usage above its guarantee.

`Situation.problem` turns them into targets and bounds of the search. The waste of a set is the sum of what its victims
use, each resource divided by the kept amount at the root, minus a constant. So each unit of a resource has a weight, an
integer on a common scale.

Source: Apache YuniKorn, preemption; the differences are listed in the documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from math import lcm
from types import MappingProxyType
from typing import Final, NamedTuple, final

from ugm.preemption.queue_usage_tree import (
    DEFAULT_DELAY,
    AllocationClass,
    Candidates,
    Point,
    PreemptionPolicy,
    PreemptionRequest,
    QueueNode,
    QueueUsageTree,
)
from ugm.preemption.victim_search import Sum, VictimProblem


class PreemptionProtection(StrEnum):
    """The first rule that protects an allocation from eviction, in the order of their tests."""

    #: The allocation is already terminating.
    TERMINATING = "terminating"
    #: The allocation does not run on the node of the plan.
    OTHER_NODE = "other_node"
    #: The allocation is not preemptible.
    NOT_PREEMPTIBLE = "not_preemptible"
    #: The policy of its queue is ``disabled``.
    DISABLED = "disabled"
    #: A queue on the path of the request is a fence, and the allocation is outside.
    FENCE = "fence"
    #: The allocation belongs to the application of the request.
    SAME_APPLICATION = "same_application"
    #: The allocation is in the queue of the request, and the plan does not allow that.
    SAME_QUEUE = "same_queue"
    #: The priority of the allocation is too high.
    PRIORITY = "priority"
    #: The allocation frees nothing of what is missing.
    FREES_NOTHING = "frees_nothing"
    #: No guarantee of a queue or group entitles the request to the resources of the allocation.
    NOT_ENTITLED = "not_entitled"
    #: The group of the allocation uses no more than its share; only when a group reclaims.
    WITHIN_SHARE = "within_share"
    #: A queue or group would be left with less than its guarantee.
    GUARANTEE = "guarantee"
    #: No rule protects the allocation, but other victims cost less or no plan exists.
    NOT_NEEDED = "not_needed"


class QueueRole(NamedTuple):
    """The facts that all allocations of a queue share."""

    #: The level of the queue; see the module.
    level: int
    #: The policy that protects all allocations of the queue; None if none does.
    policy: PreemptionProtection | None
    #: The guarantees of its side in missing resources.
    bounds: tuple[Point, ...] = ()


@final
class Situation:
    """The missing amounts of a request, and the amounts that each queue may lose for it.

    Args:
        tree: the usage of all queues.
        request: the request.
        on_node: the amounts that are missing on the node of the plan. Every victim runs there, so the node is a level
            above the root.
    """

    def __init__(
        self, tree: QueueUsageTree, request: PreemptionRequest, on_node: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.tree: Final = tree
        self.request: Final = request
        #: The queues of the request, leaf to root.
        self.path: Final = tuple(tree.nodes[request.queue_path].lineage())
        delays = (node.facts.delay for node in self.path)
        #: The time from which the request may preempt.
        self.due: Final = request.since + next((delay for delay in delays if delay is not None), DEFAULT_DELAY)
        #: A resource requested with 0 does not fit either where the usage exceeds the maximum.
        requested = request.usage.amounts
        #: The missing amounts, per level, and then those on the node.
        self.missing: Final = (*(node.lacking(node.kept, requested) for node in self.path), on_node)
        levels = range(len(self.path))
        #: Per level, the resources that are missing there or above.
        self.helpful: Final[list[list[str]]] = [sorted(set[str]().union(*self.missing[level:])) for level in levels]
        #: The amounts by which queues of the path would exceed their guarantees; negative for queues that would not.
        self.claims: Final[dict[Point, int]] = {
            (node.path, name): node.above_guarantee(name) + requested[name]
            for node, names in zip(self.path, self.helpful[1:], strict=False)
            for name in names
            if name in node.facts.guaranteed
        }
        fences = (level for level in levels if self.path[level].facts.policy is PreemptionPolicy.FENCE)
        self._fence: Final = next(fences, len(self.path))
        #: The amounts that queues outside the path use above their guarantees.
        self.bounds: Final[dict[Point, int]] = {}
        #: By path.
        self.roles: Final[dict[str, QueueRole]] = {}
        top = QueueRole(len(self.path) - 1, None)
        for path, node in tree.nodes.items():
            self.roles[path] = self._role(node, self.roles[node.parent.path] if node.parent else top)
        self._entitlement: Final = cache(self._find_entitlement)

    def _role(self, node: QueueNode, above: QueueRole) -> QueueRole:
        """Return the role of a queue below another one."""
        policy = node.facts.policy
        is_disabled = policy is PreemptionPolicy.DISABLED if policy else above.policy is PreemptionProtection.DISABLED
        is_on_path = node in self.path
        level = self.path.index(node) if is_on_path else above.level
        protection = PreemptionProtection.FENCE if level > self._fence else None
        own = () if is_on_path else [(node.path, name) for name in self.helpful[level] if name in node.facts.guaranteed]
        for path, name in own:
            self.bounds[path, name] = node.above_guarantee(name)
        return QueueRole(level, PreemptionProtection.DISABLED if is_disabled else protection, (*above.bounds, *own))

    # Rules about one allocation

    def protection(self, one: AllocationClass) -> tuple[PreemptionProtection, bool]:
        """Return the first rule that the eviction of an allocation alone would break.

        It is `PreemptionProtection.NOT_NEEDED` if there is none. The flag says whether the allocation may be a victim,
        alone or among several.
        """
        usage, role = one.usage.amounts, self.roles[one.queue_path]
        rule = self._own_rule(one, role)
        if rule is not None:
            return rule, False
        helps = self.helps(role.level, usage)
        rule, is_possible = self._entitlement(role.level, helps)
        broken = (usage[name] > self.bounds[path, name] for path, name in role.bounds if name in helps)
        if is_possible and any(broken):
            return PreemptionProtection.GUARANTEE if rule is PreemptionProtection.NOT_NEEDED else rule, False
        return rule, is_possible

    def _own_rule(self, one: AllocationClass, role: QueueRole) -> PreemptionProtection | None:
        """Return the first rule that protects an allocation for any usage."""
        if one.is_terminating:
            return PreemptionProtection.TERMINATING
        if not one.preemptible:
            return PreemptionProtection.NOT_PREEMPTIBLE
        if role.policy is not None or one.is_of_requester:
            return role.policy or PreemptionProtection.SAME_APPLICATION
        is_in_leaf = one.queue_path == self.request.queue_path
        if is_in_leaf and not self.request.within_queue:
            return PreemptionProtection.SAME_QUEUE
        is_too_high = one.priority > self.request.priority or (is_in_leaf and one.priority == self.request.priority)
        return PreemptionProtection.PRIORITY if is_too_high else None

    def helps(self, level: int, usage: Mapping[str, int]) -> tuple[str, ...]:
        """Return the resources that an allocation at a level helps with."""
        return tuple([name for name in self.helpful[level] if usage.get(name)])

    def claims_to(self, level: int, resources: Iterable[str]) -> list[Point]:
        """Return the guarantees of the request in some resources against allocations at a level."""
        below = self.path[:level]
        return [(node.path, name) for name in resources for node in below if (node.path, name) in self.claims]

    def _find_entitlement(self, level: int, helps: tuple[str, ...]) -> tuple[PreemptionProtection, bool]:
        """Return what `protection` returns, for allocations that only guarantees of the request can protect."""
        if not helps:
            return PreemptionProtection.FREES_NOTHING, False
        claims = self.claims_to(level, helps)
        if level and not claims:
            return PreemptionProtection.NOT_ENTITLED, False
        # Other victims below the level may free what these queues would have above their guarantees.
        is_entitled = all(self.claims[claim] <= 0 for claim in claims)
        return PreemptionProtection.NOT_NEEDED if is_entitled else PreemptionProtection.NOT_ENTITLED, True

    # Rules about all victims

    def problem(self, candidates: Candidates) -> VictimProblem:
        """Return the choice among candidates; there are none if no set of them is permitted."""
        root, resources = self.path[-1], self.helpful[0]
        needs: Counter[Point] = Counter()
        # The victims that count for the node of the plan are all of them, as at the root. Of two amounts, the larger
        # one counts.
        for node, missing in zip((*self.path, root), self.missing, strict=True):
            needs |= Counter({(node.path, name): amount for name, amount in missing.items()})
        claims = {claim: amount for claim, amount in self.claims.items() if amount > 0}
        offered, supply = self.tree.supplies(candidates, resources, self.bounds)
        unmet = {claim for claim, amount in claims.items() if supply[claim] < amount}
        candidates = {one: candidates[one] for one in candidates if unmet.isdisjoint(self._claims_of(one))}
        if any(supply[need] < amount for need, amount in needs.items()):
            return VictimProblem((), (), {}, {}, is_strict=True)
        # The highest queue at which each resource is missing.
        highest = {name: path for path, name in needs}
        scale = lcm(*needs.values(), *claims.values())
        targets = [Sum(*need, amount, scale // amount) for need, amount in needs.items()]
        targets += [Sum(*claim, amount, scale // amount, highest[claim[1]]) for claim, amount in claims.items()]
        # Bounds that all candidates together do not exceed have no effect. Without them, more candidates are alike.
        bounds = [Sum(*point, amount) for point, amount in self.bounds.items() if offered[point] > amount]
        kept = {name: amount for name, amount in root.kept.items() if amount}
        scale = lcm(*kept.values())
        weights = {name: scale // amount for name, amount in kept.items()}
        return VictimProblem(targets, bounds, candidates, weights, is_strict=True)

    def _claims_of(self, one: AllocationClass) -> list[Point]:
        level = self.roles[one.queue_path].level
        return self.claims_to(level, self.helps(level, one.usage))

"""The rules that decide which allocations may be evicted for a request, and together with which others.

The problem: a rule about one allocation depends on the queue, the application and the priority. A rule about a set of
victims compares usage with guarantees at every queue between a victim and the request.

The idea: all that depends on the queue of an allocation is computed once per queue, in `Situation`:

- its *level*: the position on the path of the request, counted from the leaf, of the lowest queue that is above both.
- its *side*: the queues from its leaf up to below that queue. Each of them that has a guarantee bounds the amount that
  may be taken below it.

A set of victims is permitted if three kinds of sums over its members stay within bounds:

- *needs*: below each queue of the path, at least the missing amounts are freed.
- *claims*: each queue of the path below the level of a victim stays within its guarantee after the plan.
- *bounds*: below each queue with a guarantee outside the path, no more is freed than its usage above its guarantee.

Source: Apache YuniKorn, preemption; the differences are listed in the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple, TypeAlias, final

from ugm.preemption.facts import DEFAULT_DELAY, PreemptionPolicy, PreemptionRequest
from ugm.preemption.queue_usage_tree import AllocationGroup, QueueNode, QueueUsageTree

__all__ = ["Point", "PreemptionProtection", "QueueRole", "Situation"]


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
    #: No guarantee entitles the request to the resources of the allocation.
    NOT_ENTITLED = "not_entitled"
    #: A queue would be left with less than its guarantee.
    GUARANTEE = "guarantee"
    #: No rule protects the allocation, but other victims cost less or no plan exists.
    NOT_NEEDED = "not_needed"


_NOTHING: Final[Mapping[str, int]] = {}

#: A level of the path, or the path of a queue outside it, with a resource.
Point: TypeAlias = tuple[int | str, str]


class QueueRole(NamedTuple):
    """The facts that all allocations of a queue share."""

    #: The level of the queue; see the module.
    level: int
    #: Whether the policy of the queue is ``disabled``.
    is_disabled: bool
    #: Per missing resource, the least amount above a guarantee on the side of the queue.
    slack: Mapping[str, int]
    #: The queues of its side with a guarantee in a missing resource.
    guarded: tuple[QueueNode, ...]


@final
class Situation:
    """The missing amounts of a request, and the amounts that each queue may lose for it.

    Args:
        tree: the usage of all queues.
        request: the request.
        within_queue: whether allocations in the queue of the request may be evicted.
        on_node: the amounts that are missing on the node of the plan. Every victim runs there, so the node is a level
            above the root.
    """

    __slots__ = (
        "_fence",
        "_helpful",
        "_within_queue",
        "due",
        "entitled",
        "missing",
        "path",
        "reachable",
        "request",
        "requested",
        "roles",
        "tree",
    )

    #: The queues of the request, leaf to root.
    path: tuple[QueueNode, ...]
    #: The time from which the request may preempt.
    due: int
    #: The requested amounts. A resource requested with 0 does not fit either where the usage exceeds the maximum.
    requested: Mapping[str, int]
    #: The missing amounts, per level, and then those on the node.
    missing: tuple[Mapping[str, int], ...]
    #: The resources that are missing at a level or above.
    reachable: tuple[frozenset[str], ...]
    #: Per level, the resources that are guaranteed below it, with the levels that guarantee them, and the amounts by
    #: which these would exceed their guarantee.
    entitled: tuple[Mapping[str, tuple[tuple[int, int], ...]], ...]
    #: By path.
    roles: dict[str, QueueRole]

    def __init__(
        self,
        tree: QueueUsageTree,
        request: PreemptionRequest,
        *,
        within_queue: bool,
        on_node: Mapping[str, int] = _NOTHING,
    ) -> None:
        self.tree: Final = tree
        self.request: Final = request
        self._within_queue: Final = within_queue
        self.path = tuple(tree.nodes[request.queue_path].lineage())
        delays = (node.facts.delay for node in self.path)
        self.due = request.since + next((delay for delay in delays if delay is not None), DEFAULT_DELAY)
        self.requested = request.usage.amounts
        self.missing = (*(node.lacking(node.kept, self.requested) for node in self.path), on_node)
        levels = range(len(self.path))
        self.reachable = tuple(frozenset().union(*self.missing[level:]) for level in levels)
        self._helpful: Final = tuple(sorted(names) for names in self.reachable)
        self.entitled = tuple(self._entitled(level) for level in levels)
        fences = (level for level in levels if self.path[level].facts.policy is PreemptionPolicy.FENCE)
        self._fence: Final = next(fences, len(self.path))
        self.roles = {}
        self._compare_queues()

    def _entitled(self, level: int) -> dict[str, tuple[tuple[int, int], ...]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for below, node in enumerate(self.path[:level]):
            for name in self.reachable[level]:
                above = node.above_guarantee(name)
                if above is not None:
                    found.setdefault(name, []).append((below, above + self.requested[name]))
        return {name: tuple(points) for name, points in found.items()}

    def _compare_queues(self) -> None:
        on_path = {node.path: level for level, node in enumerate(self.path)}
        roles = self.roles
        for path, node in self.tree.nodes.items():
            policy = node.facts.policy
            above = None if node.parent is None else roles[node.parent.path]
            is_disabled = policy is PreemptionPolicy.DISABLED if policy else above is not None and above.is_disabled
            level = on_path.get(path)
            if above is None or level is not None:
                roles[path] = QueueRole(level or 0, is_disabled, {}, ())
            else:
                roles[path] = self._off_path(node, above, is_disabled=is_disabled)

    def _off_path(self, node: QueueNode, above: QueueRole, *, is_disabled: bool) -> QueueRole:
        """Return the role of a queue that is not on the path."""
        slack = above.slack
        guaranteed = node.facts.guaranteed.amounts
        guarded = self.reachable[above.level].intersection(guaranteed) if guaranteed else ()
        if not guarded:
            return above if above.is_disabled == is_disabled else above._replace(is_disabled=is_disabled)
        kept = node.kept
        own = {name: kept.get(name, 0) - guaranteed[name] for name in guarded}
        slack = {**slack, **{name: min(amount, slack.get(name, amount)) for name, amount in own.items()}}
        return QueueRole(above.level, is_disabled, slack, (*above.guarded, node))

    def policy_protection(self, queue_path: str) -> PreemptionProtection | None:
        """Return the policy that protects all allocations of a queue; None if none does."""
        role = self.roles[queue_path]
        if role.is_disabled:
            return PreemptionProtection.DISABLED
        return PreemptionProtection.FENCE if role.level > self._fence else None

    def _group_protection(self, group: AllocationGroup) -> PreemptionProtection | None:  # noqa: PLR0911 - one for each rule
        """Return the first rule that protects all allocations of a group, for any usage."""
        role = self.roles[group.node.path]
        if group.is_terminating:
            return PreemptionProtection.TERMINATING
        if not group.preemptible:
            return PreemptionProtection.NOT_PREEMPTIBLE
        policy = self.policy_protection(group.node.path)
        if policy is not None:
            return policy
        if group.is_of_requester:
            return PreemptionProtection.SAME_APPLICATION
        is_in_leaf = group.node is self.path[0]
        if is_in_leaf and not self._within_queue:
            return PreemptionProtection.SAME_QUEUE
        if group.priority > self.request.priority or (is_in_leaf and group.priority == self.request.priority):
            return PreemptionProtection.PRIORITY
        return None if self.reachable[role.level] else PreemptionProtection.FREES_NOTHING

    def protections(self, group: AllocationGroup) -> Iterator[tuple[PreemptionProtection, bool, Sequence[int]]]:
        """Yield the first rules that evictions from a group alone would break, with the positions of the allocations.

        The flag says whether the allocations may be among several victims. The rule is
        `PreemptionProtection.NOT_NEEDED` if an eviction alone breaks none.
        """
        rule = self._group_protection(group)
        if rule is not None:
            yield rule, False, group.positions
            return
        role = self.roles[group.node.path]
        names, slack = self._helpful[role.level], role.slack
        # Per resource that helps, a bit, and the largest amount that leaves every guarantee intact.
        tests = [(1 << number, name, slack.get(name, inf)) for number, name in enumerate(names)]
        too_much = 1 << len(names)
        usages = self.tree.usages
        # By the bits of their resources, and the next one for too much.
        found: dict[int, list[int]] = {}
        for position in group.positions:
            usage, bits = usages[position], 0
            for bit, name, most in tests:
                amount = usage.get(name)
                if amount:
                    bits |= bit if amount <= most else bit | too_much
            if bits in found:
                found[bits].append(position)
            else:
                found[bits] = [position]
        for bits, positions in found.items():
            helps = tuple([name for bit, name, _ in tests if bits & bit])
            yield *self._protection(role.level, helps, takes_too_much=bits >= too_much), positions

    def _protection(
        self, level: int, helps: tuple[str, ...], *, takes_too_much: bool
    ) -> tuple[PreemptionProtection, bool]:
        rule, may_be_claimed = self._claim(level, helps)
        if not may_be_claimed or not takes_too_much:
            return rule, may_be_claimed
        return (PreemptionProtection.GUARANTEE if rule is PreemptionProtection.NOT_NEEDED else rule), False

    def helps(self, level: int, usage: Mapping[str, int]) -> tuple[str, ...]:
        """Return the resources that an allocation at a level helps with."""
        return tuple([name for name in self._helpful[level] if name in usage])

    def _claim(self, level: int, helps: tuple[str, ...]) -> tuple[PreemptionProtection, bool]:
        """Return the rule about claims at a level to some resources, and whether other victims may meet the claims."""
        if not helps:
            return PreemptionProtection.FREES_NOTHING, False
        claims = [self.entitled[level][name] for name in helps if name in self.entitled[level]]
        if level and not claims:
            return PreemptionProtection.NOT_ENTITLED, False
        # Other victims below the level may free what these queues would have above their guarantees.
        is_claimed = all(above <= 0 for points in claims for _, above in points)
        return PreemptionProtection.NOT_NEEDED if is_claimed else PreemptionProtection.NOT_ENTITLED, True

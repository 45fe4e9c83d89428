"""The laws that decide which allocations may be evicted for a request, and together with which others.

The problem: a law about one allocation depends on the queue, the application and the priority. A law about a set of
victims compares usage with guarantees at every queue between a victim and the request.

The idea: all that depends on the queue of an allocation is computed once per queue, in `Situation`:

- its *level*: the position on the path of the request, counted from the leaf, of the lowest queue that is above both.
- its *side*: the queues from its leaf up to below that queue. Each of them that has a guarantee bounds the amount that
  may be taken below it.

A set of victims is lawful if three kinds of sums over its members stay within bounds:

- *needs*: below each queue of the path, at least the missing amounts are freed.
- *claims*: below each queue of the path that is lower than the level of a victim, so much is freed that the queue stays
  within its guarantee.
- *bounds*: below each queue with a guarantee outside the path, no more is freed than the queue has above it.

Source: Apache YuniKorn, preemption; the differences are listed in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, final

from ugm.preemption.facts import PreemptionPolicy, PreemptionRequest
from ugm.preemption.usage_tree import AllocationClass, QueueNode, QueueUsageTree

__all__ = ["Law", "Point", "QueueRole", "Situation"]


class Law(StrEnum):
    """The first law that protects an allocation, in the order of their tests."""

    #: The allocation is already terminating. Clients know the state by this name.
    TERMINATING = "going"
    #: The allocation is not preemptible.
    OPTED_OUT = "opted_out"
    #: The policy of its queue is ``disabled``.
    DISABLED = "disabled"
    #: A queue on the path of the request is a fence, and the allocation is outside.
    FENCE = "fence"
    #: The allocation belongs to the application of the request.
    APPLICATION = "application"
    #: The allocation is in the queue of the request, and the plan does not allow that.
    SAME_QUEUE = "same_queue"
    #: The priority of the allocation is too high.
    PRIORITY = "priority"
    #: The allocation frees nothing of what is missing.
    USELESS = "useless"
    #: No guarantee entitles the request to the resources of the allocation.
    UNCLAIMED = "unclaimed"
    #: A queue would be left with less than its guarantee.
    GUARANTEE = "guarantee"
    #: No law protects the allocation, but other victims cost less or no plan exists.
    SPARED = "spared"


#: A level of the path, or the path of a queue outside it, with a resource.
Point: TypeAlias = tuple[int | str, str]


#: The missing resources that an allocation helps with, the law about its claim, and whether other victims may meet it.
_Shape: TypeAlias = tuple[tuple[str, ...], Law, bool]


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
    """

    __slots__ = (
        "_fence",
        "_shapes",
        "_within_queue",
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
    #: The requested amounts, without zeros.
    requested: Mapping[str, int]
    #: The missing amounts, per level.
    missing: tuple[Mapping[str, int], ...]
    #: The resources that are missing at a level or above.
    reachable: tuple[frozenset[str], ...]
    #: Per level, the resources that are guaranteed below it, with the levels that guarantee them, and the amounts by
    #: which these would exceed their guarantee.
    entitled: tuple[Mapping[str, tuple[tuple[int, int], ...]], ...]
    #: By path.
    roles: dict[str, QueueRole]

    def __init__(self, tree: QueueUsageTree, request: PreemptionRequest, *, within_queue: bool) -> None:
        self.tree: Final = tree
        self.request: Final = request
        self._within_queue: Final = within_queue
        self.path = tuple(tree.nodes[request.queue_path].lineage())
        self.requested = {name: amount for name, amount in request.usage.amounts.items() if amount}
        self.missing = tuple(node.lacking(node.kept, self.requested) for node in self.path)
        levels = range(len(self.path))
        self.reachable = tuple(frozenset().union(*self.missing[level:]) for level in levels)
        self.entitled = tuple(self._entitled(level) for level in levels)
        fences = (level for level in levels if self.path[level].facts.policy is PreemptionPolicy.FENCE)
        self._fence: Final = next(fences, len(self.path))
        self.roles = {}
        self._shapes: Final[dict[tuple[int, int], _Shape]] = {}
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

    def protection(self, one: AllocationClass) -> tuple[Law, bool]:
        """Return the first law that an allocation alone would break, and whether it may be one of several victims.

        The law is `Law.SPARED` if the allocation alone breaks none.
        """
        role = self.roles[one.node.path]
        law = self._own_protection(one, role)
        if law is not None:
            return law, False
        key = role.level, one.shape
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = self._shape(role.level, one.usage)
        helps, law, may_be_claimed = found
        if law is not Law.SPARED and not may_be_claimed:
            return law, False
        slack, usage = role.slack, one.usage
        for name in helps if slack else ():
            if name in slack and usage[name] > slack[name]:
                return (Law.GUARANTEE if law is Law.SPARED else law), False
        return law, True

    def _shape(self, level: int, usage: Mapping[str, int]) -> _Shape:
        """Return the answer of the laws about a usage at a level, for every queue."""
        helps = tuple([name for name in usage if name in self.reachable[level]])
        if not helps:
            return helps, Law.USELESS, False
        claims = [self.entitled[level][name] for name in helps if name in self.entitled[level]]
        if level and not claims:
            return helps, Law.UNCLAIMED, False
        # Other victims below the level may free what these queues would have above their guarantees.
        is_claimed = all(above <= 0 for points in claims for _, above in points)
        return helps, Law.SPARED if is_claimed else Law.UNCLAIMED, True

    def _own_protection(self, one: AllocationClass, role: QueueRole) -> Law | None:  # noqa: PLR0911 - one for each law
        """Return the first law that protects an allocation of any usage."""
        if one.is_terminating:
            return Law.TERMINATING
        if not one.preemptible:
            return Law.OPTED_OUT
        if role.is_disabled:
            return Law.DISABLED
        if role.level > self._fence:
            return Law.FENCE
        if one.is_of_requester:
            return Law.APPLICATION
        is_in_leaf = one.node is self.path[0]
        if is_in_leaf and not self._within_queue:
            return Law.SAME_QUEUE
        if one.priority > self.request.priority or (is_in_leaf and one.priority == self.request.priority):
            return Law.PRIORITY
        return None

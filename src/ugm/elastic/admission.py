"""Decisions about pods: the limits that admit them, the pods to evict, and the groups that use more than their share.

A pod is compared with the runtime of its group, the minimum of its group, and the groups above. Only resources
that the pod requests are checked. A resource that exceeds its limit already does not deny a pod that requests none of
it. A resource that the maximum of the group does not name is not counted at all.

A plan of evictions revokes what a group borrowed, or makes room for a pod of the group. It is a value, which the caller
carries out. Only pods of the group itself are chosen, because priorities of different groups cannot be compared.
Non-preemptible pods are never chosen. A plan removes all other pods from the counts, and then keeps each pod that still
fits, the most important first.

A group is guaranteed its minimum, scaled down in a shortage. Its share is its runtime, or its minimum if that is more.
A group that uses more than its share uses what others are guaranteed or entitled to. This decides which allocations a
group has to return. The runtime rises as soon as a group requests more, and usage of other groups does not fall at the
same moment. Therefore the groups together may use more than the cluster has, and `overuse` yields what they have to
release for the request.

Source: Koordinator, multi-hierarchy elastic quota management, "PreFilter", "Min Guarantee and Preemption" and
"PostFilter".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject, attributes
from ugm.arguments import require_instance
from ugm.configuration.scheduler import ElasticGroup
from ugm.decision import Violation
from ugm.elastic.group import BUILT_IN
from ugm.elastic.tree import CountPod, ElasticTree, GroupNode, TrackedPod
from ugm.model import Borrower, Guarantee
from ugm.resources import Resource

#: The kinds of the violations.
GROUP: Final = "elastic group"
MINIMUM: Final = "elastic group minimum"


@final
class RuntimeViolation(Violation):
    """A violation of the runtime of a group. The runtime can increase when other groups request less.

    A request that no increase can help is reported as a plain `ugm.Violation` instead; see `ElasticQuota.never`.
    """

    __slots__ = ()

    @property
    def can_wait(self) -> bool:
        """True: waiting can help."""
        return True


class AdmissionRules(NamedTuple):
    """The rules for admitting pods."""

    #: True: the limit is the runtime of the group. False: the maximum, independent of the usage of other groups.
    by_runtime: bool = True
    #: Whether the groups above limit a pod as well. Koordinator's default is False.
    check_parents: bool = True


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group at one moment."""

    group: str
    #: Empty for the root.
    parent: str
    #: The configured minimum; empty for the root, whose limits have no effect.
    min: Resource
    #: The configured maximum. A resource that it does not name is not counted for the group.
    max: Resource
    #: The requests of its pods, plus the limited requests of its child groups.
    child_request: Resource
    #: The same, but at least the minimum if the group does not lend it.
    request: Resource
    #: The request to the parent group: the request up to the maximum.
    limited_request: Resource
    used: Resource
    #: The amounts that the group may use now. A resource that is not shared with the group is missing.
    runtime: Resource
    #: The minimum, scaled down if the sum of the minimums exceeds the available amount.
    scaled_min: Resource
    #: The part of the runtime beyond the minimum in force, which the group borrows from others.
    borrowed: Resource
    #: The part of the minimum in force beyond the runtime, which others may use.
    lent: Resource

    def to_dict(self) -> JsonObject:
        """Return the status for JSON."""
        return attributes(self, GroupStatus.__slots__)


#: The fields of a status that the tree computes.
_READ: Final = ("child_request", "request", "limited_request", "used", "runtime", "scaled_min")


def status(tree: ElasticTree, group: str) -> GroupStatus:
    """Return the requests, usage and runtime of a group.

    Raises:
        GroupError: the group is unknown.
        RequestError: *tree* is not an ElasticTree.

    >>> from ugm.elastic import ElasticGroup
    >>> tree = ElasticTree(Resource(gpu=8), [ElasticGroup("ml", min=Resource(gpu=2), max=Resource(gpu=4))])
    >>> tree.change_request("ml", Resource(gpu=5))
    >>> found = status(tree, "ml")
    >>> found.request, found.runtime, found.borrowed
    (Resource(gpu=5), Resource(gpu=4), Resource(gpu=2))
    """
    node = require_instance("tree", tree, ElasticTree).node(group)
    # Limits of the root have no effect.
    configured = (node.group if node.parent else None) or ElasticGroup()
    borrowed = {resource: each.borrowed() for resource, each in node.resources.items()}
    return GroupStatus(
        group=group,
        parent=node.parent.name if node.parent else "",
        min=configured.min,
        max=configured.max,
        borrowed=Resource({resource: amount for resource, amount in borrowed.items() if amount > 0}),
        lent=Resource({resource: -amount for resource, amount in borrowed.items() if amount < 0}),
        **{field: getattr(tree, field)(group) for field in _READ},
    )


class RevokePlan(NamedTuple):
    """The pods to evict from a group that uses more than its runtime."""

    group: str
    #: Most important first if the plan suffices; least important first if usage above the runtime remains.
    victims: tuple[str, ...]
    #: The usage above the runtime now.
    excess: Resource
    #: The usage above the runtime afterwards: of non-preemptible pods, or of child groups.
    remaining: Resource


class ElasticPreemptionPlan(NamedTuple):
    """The pods to evict for one pod of the same group."""

    pod: str
    group: str
    #: Least important first; empty if no eviction is necessary, or if none would help.
    victims: tuple[str, ...]
    #: The limits that are exceeded even if all candidates are evicted; empty if the pod fits.
    violations: tuple[Violation, ...]

    def __bool__(self) -> bool:
        return not self.violations


def candidates_of(pods: Iterable[TrackedPod]) -> list[TrackedPod]:
    """Return the pods that may be evicted, least important first.

    Pods are compared by priority, and then by start: the youngest is the least important, and a pod without a start is
    the youngest. Sorting is stable, so equal pods stay in the order of arrival.

    Args:
        pods: pods of one group, in the order of arrival; only running pods are candidates.
    """

    def importance(one: TrackedPod) -> tuple[int, bool, int]:
        return one.pod.priority, one.pod.started is not None, -(one.pod.started or 0)

    return sorted((one for one in pods if one.is_running and one.pod.preemptible), key=importance)


def needed_of(candidates: list[TrackedPod], count: CountPod, suffices: Callable[[], bool]) -> list[TrackedPod] | None:
    """Remove the candidates, and add those again that can stay, the most important first.

    Args:
        candidates: pods, least important first.
        count: removes a pod from the counts (-1) or adds it again (1).
        suffices: returns whether the pods that are removed at that point are enough.

    Returns:
        The removed candidates, most important first; None if the removal of all of them does not suffice.
    """
    for one in candidates:
        count(one, -1)
    if not suffices():
        return None
    needed = []
    for one in reversed(candidates):
        count(one, 1)
        if not suffices():
            count(one, -1)
            needed.append(one)
    return needed


def overuse(tree: ElasticTree, group: str, usage: Resource) -> Iterator[Violation]:
    """Yield each resource of the cluster of which other groups have to release a part for a request.

    Only resources that the group of the request limits are compared. The limit is the total, but at least what the
    group uses with the request: a minimum that is not scaled, or a maximum as the only limit, may exceed the total.
    Then all other usage has to be released, and the request fits if there is none.

    Args:
        tree: the groups.
        group: the group of the request.
        usage: the request.
    """
    resources = tree.node(group).resources
    for name, total in tree.total.amounts.items():
        node, amount = resources.get(name), usage.get(name, 0)
        if amount <= 0 or node is None or not node.is_limited:
            continue
        used, limit = tree.root.resources[name].used, max(total, node.used + amount)
        if used + amount > limit:
            yield Violation(GROUP, tree.root.name, "", "", name, limit, used, amount)


def borrowers(tree: ElasticTree, group: str, usage: Resource, pods: Mapping[str, Sequence[str]]) -> Iterator[Borrower]:
    """Yield all groups with pods that compete with a group, except the group itself.

    Args:
        tree: the groups, in which the request of *usage* counts.
        group: the group of the request.
        usage: the request.
        pods: the names of the running pods of each group.
    """
    claimant = list(tree.node(group).path())
    for name in sorted(pods):
        path = list(tree.node(name).path())
        if name == group or name in BUILT_IN:
            continue
        own = [node for node in path if node not in claimant]
        side = [node for node in claimant if node not in path]
        entitled = tuple(guarantee for node in side for guarantee in _guarantees(node, usage))
        guarantees = tuple(guarantee for node in own for guarantee in _guarantees(node))
        yield Borrower(GROUP, name, entitled, guarantees, tuple(pods[name]))


def _guarantees(group: GroupNode, usage: Resource | None = None) -> Iterator[Guarantee]:
    """Yield the guarantees of a group for each resource that it limits; its usage includes *usage*."""
    place = f"elastic group {group.name!r}"
    for name, node in sorted(group.resources.items()):
        if node.is_limited:
            guaranteed = node.scaled_min()
            used = node.used + (0 if usage is None else usage.get(name, 0))
            yield Guarantee(GROUP, group.name, place, name, guaranteed, max(guaranteed, node.runtime()), used)

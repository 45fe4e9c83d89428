"""The return of borrowed amounts: the pods of a group to evict, and the groups that use more than their share.

A plan revokes what a group borrowed, or makes room for a pod of the group. A plan is a value, which the caller
carries out. Only pods of the group itself are chosen, because priorities of different groups cannot be compared.
Non-preemptible pods are never chosen. A plan removes all other pods from the counts, and then keeps each pod that still
fits, the most important first.

A group is guaranteed its minimum, scaled down in a shortage. Its share is its runtime, or its minimum if that is more.
A group that uses more than its share uses what others are guaranteed or entitled to. This decides which allocations a
group has to return.

The admission of a pod compares its group with the runtime, which rises as soon as the group requests more. Usage of
other groups does not fall at the same moment. Therefore the groups together may use more than the cluster has, and
`overuse` yields what they have to release for the request.

Source: Koordinator, multi-hierarchy elastic quota management, "Min Guarantee and Preemption" and "PostFilter".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ugm.decision import Violation
from ugm.elastic.admission import GROUP
from ugm.elastic.group import BUILT_IN
from ugm.elastic.pods import Pod, TrackedPod
from ugm.elastic.runtime import GroupNode
from ugm.elastic.tree import ElasticTree
from ugm.model import Borrower, Guarantee
from ugm.resources import Resource

__all__ = [
    "ElasticPreemptionPlan",
    "RevokePlan",
    "borrowers",
    "overuse",
    "plan_preemption",
    "plan_revoke",
]


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


def plan_revoke(
    group: str, used: Mapping[str, int], limit: Mapping[str, int], pods: Iterable[TrackedPod]
) -> RevokePlan:
    """Choose pods to evict until *used* is within *limit*. All resources are considered.

    Args:
        group: the group.
        used: the usage of the group, including its child groups.
        limit: the limit of the group; a missing resource is not limited.
        pods: the pods of the group, in the order of arrival; only running pods are candidates.
    """
    over = {name: used.get(name, 0) - amount for name, amount in limit.items()}
    excess = _positive(over)

    def count(one: TrackedPod, sign: int) -> None:
        for name, amount in one.pod.usage.amounts.items():
            if name in over:
                over[name] += sign * amount

    candidates = _candidates(pods)
    needed = _needed(candidates, count, lambda: all(amount <= 0 for amount in over.values()))
    victims = candidates if needed is None else needed
    return RevokePlan(group, tuple(one.pod.name for one in victims), excess, _positive(over))


def _positive(over: Mapping[str, int]) -> Resource:
    return Resource({name: amount for name, amount in over.items() if amount > 0})


def plan_preemption(
    pod: Pod,
    group: str,
    pods: Iterable[TrackedPod],
    count: Callable[[TrackedPod, int], None],
    check: Callable[[], Iterable[Violation]],
) -> ElasticPreemptionPlan:
    """Choose pods of lower priority to evict for a pod: as few as possible, the least important first.

    Args:
        pod: the pod to admit.
        group: the group of the pod.
        pods: the pods of the group with a lower priority; of equal priority, in the order of arrival.
        count: removes a pod from the counts (-1) or adds it again (1). The victims are still removed at the end.
        check: returns the limits that the pod would exceed at that point.
    """
    candidates = _candidates(pods)
    needed = _needed(candidates, count, lambda: not any(True for _ in check()))
    if needed is None:
        return ElasticPreemptionPlan(pod.name, group, (), tuple(check()))
    return ElasticPreemptionPlan(pod.name, group, tuple(one.pod.name for one in reversed(needed)), ())


def _candidates(pods: Iterable[TrackedPod]) -> list[TrackedPod]:
    """Return the pods that may be evicted, least important first.

    Pods are compared by priority, and then by start: the youngest is the least important, and a pod without a start is
    the youngest. Sorting is stable, so equal pods stay in the order of arrival.
    """

    def importance(one: TrackedPod) -> tuple[int, bool, int]:
        return one.pod.priority, one.pod.started is not None, -(one.pod.started or 0)

    return sorted((one for one in pods if one.is_running and one.pod.preemptible), key=importance)


def _needed(
    candidates: list[TrackedPod], count: Callable[[TrackedPod, int], None], suffices: Callable[[], bool]
) -> list[TrackedPod] | None:
    """Remove the candidates, and add those again that can stay, the most important first.

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
    claimant = _sharing_path(tree.node(group))
    for name in sorted(pods):
        path = _sharing_path(tree.node(name))
        if name == group or name in BUILT_IN:
            continue
        own = [node for node in path if node not in claimant]
        side = [node for node in claimant if node not in path]
        entitled = tuple(guarantee for node in side for guarantee in _guarantees(node, usage))
        guarantees = tuple(guarantee for node in own for guarantee in _guarantees(node))
        yield Borrower(GROUP, name, entitled, guarantees, tuple(pods[name]))


def _sharing_path(node: GroupNode) -> list[GroupNode]:
    """Return a group and the groups above it, without the root."""
    return list(node.path())[:-1]


def _guarantees(group: GroupNode, usage: Resource | None = None) -> Iterator[Guarantee]:
    """Yield the guarantees of a group for each resource that it limits; its usage includes *usage*."""
    for name, node in sorted(group.resources.items()):
        if node.is_limited:
            guaranteed = node.scaled_min()
            used = node.used + (0 if usage is None else usage.get(name, 0))
            yield Guarantee(
                GROUP,
                group.name,
                f"elastic group {group.name!r}",
                name,
                guaranteed,
                max(guaranteed, node.runtime()),
                used,
            )

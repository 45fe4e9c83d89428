"""The choice of pods to evict from a group: revoking what it borrowed, and preemption within the group.

A plan is a value, which the caller carries out. Only pods of the group itself are chosen, because priorities of
different groups cannot be compared. Non-preemptible pods are never chosen. A plan removes all other pods from the
counts, and then keeps each pod that still fits, the most important first.

Source: Koordinator, multi-hierarchy elastic quota management, "Min Guarantee and Preemption" and "PostFilter".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ugm.decision import Violation
from ugm.elastic.pods import Pod, TrackedPod
from ugm.resources import Resource

__all__ = ["ElasticPreemptionPlan", "RevokePlan", "plan_preemption", "plan_revoke"]


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

"""The choice of pods to evict from a group: revoking what it borrowed, and preemption within the group.

A plan is a value, which the caller carries out. Only pods of the group itself are chosen, because priorities of
different groups cannot be compared. Non-preemptible pods are never chosen. The least important pods are chosen first.
Then each pod that fits after all is kept, the most important first.

Source: Koordinator, multi-hierarchy elastic quota management, "Min Guarantee and Preemption" and "PostFilter".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, final

from ugm.decision import Violation
from ugm.elastic.pods import Pod, TrackedPod
from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["OveruseClock", "PreemptionPlan", "RevokePlan", "plan_preemption", "plan_revoke"]


class RevokePlan(NamedTuple):
    """The pods to evict from a group that uses more than its runtime."""

    group: str
    #: Most important first if the plan suffices; least important first if usage above the runtime remains.
    victims: tuple[str, ...]
    #: The usage above the runtime now.
    excess: Resource
    #: The usage above the runtime afterwards: of non-preemptible pods, or of child groups.
    remaining: Resource


class PreemptionPlan(NamedTuple):
    """The pods to evict for one pod of the same group."""

    pod: str
    group: str
    #: Least important first; empty if no eviction is necessary, or if none would help.
    victims: tuple[str, ...]
    #: The limits that are exceeded even if all candidates are evicted; empty if the pod fits.
    violations: tuple[Violation, ...]

    def __bool__(self) -> bool:
        return not self.violations


def _importance(pod: Pod) -> tuple[int, bool, int]:
    """Return a sort key, least important first.

    Pods are compared by priority, and then by start: the youngest is the least important, and a pod without a start is
    the youngest. Sorting is stable, so equal pods stay in the order of arrival.
    """
    return pod.priority, pod.started is not None, -(pod.started or 0)


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
    taken: list[Pod] = []
    for pod in sorted((one.pod for one in pods if one.is_running and one.pod.preemptible), key=_importance):
        if not _positive(over):
            break
        _add(over, pod, -1)
        taken.append(pod)
    victims = taken if _positive(over) else _spare(over, taken)
    return RevokePlan(group, tuple(pod.name for pod in victims), excess, _positive(over))


def _spare(over: dict[str, int], taken: list[Pod]) -> list[Pod]:
    """Keep pods that fit after all, the most important first, and return the others."""
    victims = []
    for pod in reversed(taken):
        _add(over, pod, 1)
        if _positive(over):
            _add(over, pod, -1)
            victims.append(pod)
    return victims


def _add(over: dict[str, int], pod: Pod, sign: int) -> None:
    for name, amount in pod.usage.amounts.items():
        if name in over:
            over[name] += sign * amount


def _positive(over: Mapping[str, int]) -> Resource:
    return Resource({name: amount for name, amount in over.items() if amount > 0})


def plan_preemption(
    pod: Pod,
    group: str,
    pods: Iterable[TrackedPod],
    count: Callable[[TrackedPod, int], None],
    check: Callable[[], Iterable[Violation]],
) -> PreemptionPlan:
    """Choose pods of lower priority to evict for a pod: as few as possible, the least important first.

    Args:
        pod: the pod to admit.
        group: the group of the pod.
        pods: the pods of the group, in the order of arrival.
        count: removes a pod from the counts (-1) or adds it again (1). The victims are still removed at the end.
        check: returns the limits that the pod would exceed at that point.
    """
    candidates = [one for one in pods if one.is_running and one.pod.preemptible and one.pod.priority < pod.priority]
    candidates.sort(key=lambda one: _importance(one.pod))
    for one in candidates:
        count(one, -1)
    violations = tuple(check())
    if violations:
        return PreemptionPlan(pod.name, group, (), violations)
    victims = []
    for one in reversed(candidates):
        count(one, 1)
        if any(True for _ in check()):
            count(one, -1)
            victims.append(one.pod.name)
    return PreemptionPlan(pod.name, group, tuple(reversed(victims)), ())


@final
class OveruseClock:
    """Measures how long groups have been using more than their runtime.

    The clock does not read the time; each call passes it. Times are integers in any unit.

    Args:
        delay: how long a group may use more than its runtime before pods are evicted.

    Raises:
        RequestError: the delay is not an int, or negative.

    >>> clock = OveruseClock(delay=120)
    >>> clock.due({"dev"}, now=0), clock.due({"dev"}, now=120), clock.due({"dev"}, now=121)
    ((), (), ('dev',))
    """

    __slots__ = ("_delay", "_now", "_since")

    _delay: int
    #: The time of the last call.
    _now: int | None
    #: For each group above its runtime, the time when this was first reported, or when the group was last due.
    _since: dict[str, int]

    def __init__(self, delay: int = 120) -> None:
        if type(delay) is not int or delay < 0:
            raise RequestError("delay", delay, "expected an int >= 0")
        self._delay = delay
        self._since = {}
        self._now = None

    def due(self, over: Iterable[str], *, now: int) -> tuple[str, ...]:
        """Return the groups that have been over for longer than the delay, sorted. Their delay starts again.

        Args:
            over: all groups that use more than their runtime now.
            now: the time, not earlier than in the last call.

        Raises:
            RequestError: *now* is not an int, or earlier than in the last call.
        """
        if type(now) is not int or (self._now is not None and now < self._now):
            earliest = "" if self._now is None else f" >= {self._now}, the time of the last call"
            raise RequestError("now", now, f"expected an int{earliest}")
        self._now = now
        self._since = {group: self._since.get(group, now) for group in sorted(over)}
        due = tuple(group for group, since in self._since.items() if now - since > self._delay)
        self._since.update(dict.fromkeys(due, now))
        return due

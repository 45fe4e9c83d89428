"""Making room inside one group: pods of lower priority give way to one of higher priority.

Priorities of different groups are not comparable, so that nobody else's pods are touched; what another group borrows is
taken back when it is over its runtime (`ugm.elastic.revoke`).

A plan is a value. It is held against the limits as they are; the pods that would go are still asking.

Source: Koordinator, multi-hierarchy elastic quota management, "Min Guarantee and Preemption" and "PostFilter".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ugm.decision import Violation
from ugm.elastic.pods import Held, Pod
from ugm.elastic.revoke import importance

__all__ = ["PreemptionPlan", "plan_preemption"]


class PreemptionPlan(NamedTuple):
    """Who gives way to a pod."""

    pod: str
    group: str
    #: Least important first; empty if nobody has to, or if it would not help.
    victims: tuple[str, ...]
    #: What stands in the way even if everybody who may gives way; empty if the pod gets in.
    violations: tuple[Violation, ...]

    def __bool__(self) -> bool:
        return not self.violations


def plan_preemption(
    pod: Pod, group: str, held: Iterable[Held], check: Callable[[dict[str, int]], Iterable[Violation]]
) -> PreemptionPlan:
    """Choose who gives way to a pod: as few as it takes, and rather the less important.

    Everybody who may give way is taken out first; then the most important are put back as long as the pod still fits.

    Args:
        pod: the one that wants in.
        group: where it belongs.
        held: the pods of the group, in the order of their arrival.
        check: returns what stands in the way of the pod when so much of each resource is freed.
    """
    lower = [one.pod for one in held if one.is_running and one.pod.preemptible and one.pod.priority < pod.priority]
    lower.sort(key=importance)
    freed: dict[str, int] = {}
    for one in lower:
        _add(freed, one, 1)
    in_the_way = tuple(check(freed))
    if in_the_way:
        return PreemptionPlan(pod.name, group, (), in_the_way)
    victims = []
    for one in reversed(lower):
        _add(freed, one, -1)
        if any(True for _ in check(freed)):
            _add(freed, one, 1)
            victims.append(one.name)
    return PreemptionPlan(pod.name, group, tuple(reversed(victims)), ())


def _add(freed: dict[str, int], pod: Pod, sign: int) -> None:
    for name, amount in pod.usage.amounts.items():
        freed[name] = freed.get(name, 0) + sign * amount

"""Making room inside one group: pods of lower priority give way to one of higher priority.

Priorities of different groups are not comparable, so that nobody else's pods are touched; what another group borrows is
taken back when it is over its runtime (`ugm.elastic.revoke`).

A plan is a value. Whether those who give way go on asking, and so keep their part in the runtime of their group, is for
the caller to say.

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
    pod: Pod,
    group: str,
    held: Iterable[Held],
    count: Callable[[Held, int], None],
    check: Callable[[], Iterable[Violation]],
) -> PreemptionPlan:
    """Choose who gives way to a pod: as few as it takes, and rather the less important.

    Everybody who may give way is taken out first; then the most important are put back as long as the pod still fits.

    Args:
        pod: the one that wants in.
        group: where it belongs.
        held: the pods of the group, in the order of their arrival.
        count: takes one of them out (-1), or puts it back (1); whoever goes is still out at the end.
        check: returns what stands in the way of the pod then.
    """
    lower = [one for one in held if one.is_running and one.pod.preemptible and one.pod.priority < pod.priority]
    lower.sort(key=lambda one: importance(one.pod))
    for one in lower:
        count(one, -1)
    in_the_way = tuple(check())
    if in_the_way:
        return PreemptionPlan(pod.name, group, (), in_the_way)
    victims = []
    for one in reversed(lower):
        count(one, 1)
        if any(True for _ in check()):
            count(one, -1)
            victims.append(one.pod.name)
    return PreemptionPlan(pod.name, group, tuple(reversed(victims)), ())

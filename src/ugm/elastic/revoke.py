"""Taking back: which pods of a group have to go when it uses more than its runtime.

A plan is a value; nothing happens until somebody carries it out. Only pods of the group itself are taken, the least
important first, and none that must not be taken back. Whoever would fit in after all stays, the most important first.
All resources are looked at, whether a single pod asks for them or not.

Source: Koordinator, multi-hierarchy elastic quota management, "Min Guarantee and Preemption".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, final

from ugm.elastic.pods import Held, Pod
from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["OveruseClock", "RevokePlan", "importance", "plan_revoke"]


class RevokePlan(NamedTuple):
    """What to take back from one group."""

    group: str
    #: The pods to end, in this order.
    victims: tuple[str, ...]
    #: What is used above the runtime now, of each resource that is.
    excess: Resource
    #: What would still be used above it afterwards: held by pods that must not be taken back, or in groups below.
    remaining: Resource


def importance(pod: Pod) -> tuple[int, bool, int]:
    """Return a key that sorts pods from the least to the most important.

    By priority; of equal ones the youngest comes first, and a pod whose start is not known is the youngest. Pods equal
    in both stay in the order of their arrival, as every sort by this key is stable.
    """
    return pod.priority, pod.started is not None, -(pod.started or 0)


def plan_revoke(group: str, used: Mapping[str, int], limit: Mapping[str, int], held: Iterable[Held]) -> RevokePlan:
    """Choose who has to go so that *used* gets within *limit*.

    Args:
        group: whose pods they are.
        used: what the group uses, the groups below it included.
        limit: what it may use; a missing name is not limited.
        held: the pods of the group, in the order of their arrival; those that do not run are passed over.
    """
    over = {name: used.get(name, 0) - most for name, most in limit.items()}
    excess = _above(over)
    taken: list[Pod] = []
    for pod in sorted((one.pod for one in held if one.is_running and one.pod.preemptible), key=importance):
        if not _above(over):
            break
        _add(over, pod, -1)
        taken.append(pod)
    victims = taken if _above(over) else _spare(over, taken)
    return RevokePlan(group, tuple(pod.name for pod in victims), excess, _above(over))


def _spare(over: dict[str, int], taken: list[Pod]) -> list[Pod]:
    """Give back to the most important ones what fits, and return the others."""
    victims = []
    for pod in reversed(taken):
        _add(over, pod, 1)
        if _above(over):
            _add(over, pod, -1)
            victims.append(pod)
    return victims


def _add(over: dict[str, int], pod: Pod, sign: int) -> None:
    for name, amount in pod.usage.amounts.items():
        if name in over:
            over[name] += sign * amount


def _above(over: Mapping[str, int]) -> Resource:
    return Resource({name: amount for name, amount in over.items() if amount > 0})


@final
class OveruseClock:
    """How long groups have been using more than their runtime.

    The clock reads no time; it is told. Times are whole numbers of any unit.

    Args:
        delay: how long a group may be above its runtime before something is taken back.

    Raises:
        RequestError: the delay is no whole number, or negative.

    >>> clock = OveruseClock(delay=120)
    >>> clock.due({"dev"}, now=0), clock.due({"dev"}, now=120), clock.due({"dev"}, now=121)
    ((), (), ('dev',))
    """

    __slots__ = ("_delay", "_now", "_since")

    _delay: int
    #: When the clock was told the time last.
    _now: int | None
    #: When each group that is above its runtime was first seen so, or last due.
    _since: dict[str, int]

    def __init__(self, delay: int = 120) -> None:
        if type(delay) is not int or delay < 0:
            raise RequestError("delay", delay, "expected a whole number, not less than nothing")
        self._delay = delay
        self._since = {}
        self._now = None

    def due(self, over: Iterable[str], *, now: int) -> tuple[str, ...]:
        """Return the groups that have been over for longer than the delay, sorted; for them it starts anew.

        Args:
            over: every group that is over now; all others are not.
            now: never less than in the call before.

        Raises:
            RequestError: *now* is no whole number, or less than before.
        """
        if type(now) is not int or (self._now is not None and now < self._now):
            raise RequestError("now", now, f"expected a whole number, not less than before: {self._now}")
        self._now = now
        self._since = {group: self._since.get(group, now) for group in sorted(over)}
        due = tuple(group for group, since in self._since.items() if now - since > self._delay)
        self._since.update(dict.fromkeys(due, now))
        return due

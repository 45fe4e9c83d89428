"""Risks of a configuration: limits that fall below the usage, or by more than 10 %.

A mistake in a number, such as a missing digit, often lowers a limit considerably. So a plan with such a change has
to be confirmed. An added or removed limit is not a risk, unless the usage is above a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ugm._json_values import JsonObject
from ugm.decision import Violation
from ugm.errors import fields_text
from ugm.identity import TrackingType
from ugm.partition.config_changes import Changes, LimitValue
from ugm.resources import Resource, format_amount

__all__ = ["LimitRisk", "below_usage", "lowered_limits"]

#: Amounts by resource; the key of the number of applications or requests is None.
_Amounts: TypeAlias = Mapping[str | None, int]


class LimitRisk(NamedTuple):
    """A limit that falls below the usage, or by more than 10 %."""

    #: The kind of the owner, as in a `ugm.Violation`.
    kind: str
    #: The user, group or queue; the name in the configuration for a limit that falls by more than 10 %.
    name: str
    #: Empty if the limit does not belong to a queue.
    queue_path: str
    #: None for a number of applications or requests.
    resource: str | None
    #: The limit before; None if it is not known, because the risk is the usage.
    before: int | None
    after: int
    #: The usage above the limit; None if the limit only falls by more than 10 %.
    used: int | None

    def __repr__(self) -> str:
        return fields_text(self, self._asdict())

    def to_dict(self) -> JsonObject:
        """Return the risk for JSON, with the names of its attributes."""
        return {**self._asdict(), "kind": str(self.kind)}

    def __str__(self) -> str:
        owner = f"{self.kind} {self.name}" if self.name == self.queue_path else f"{self.kind} {self.name!r}"
        place = f" in {self.queue_path}" if self.queue_path not in ("", self.name) else ""
        after, before, used = (self._text(amount) for amount in (self.after, self.before, self.used))
        reason = f"{after} instead of {before}" if self.used is None else f"{after}, below the usage of {used}"
        return f"{owner}{place}: {reason}"

    def _text(self, amount: int | None) -> str:
        if amount is None:
            return ""
        if self.resource is None:
            return str(amount)
        return f"{format_amount(self.resource, amount)} {self.resource}"


def below_usage(violation: Violation) -> LimitRisk:
    """Return the risk of a limit that a plan leaves below the usage."""
    kind, name, queue_path, _, resource, limit, used, _ = violation
    return LimitRisk(kind, name, queue_path, resource, None, limit, used)


def lowered_limits(changes: Changes) -> Iterator[LimitRisk]:
    """Yield the limits of users, groups and queues that fall by more than 10 %."""
    for limit in changes.limits:
        if limit.before is not None and limit.after is not None:
            for prefix, before, after in _parts(limit.before, limit.after):
                owner = f"{prefix}{limit.kind}", limit.name, limit.queue_path
                yield from _lowered(owner, before, after)
    for queue in changes.queues:
        if queue.before is not None and queue.after is not None:
            owner = str(TrackingType.QUEUE), queue.queue_path, queue.queue_path
            sides = [
                _amounts(one.quota.max_resources, one.quota.max_applications) for one in (queue.before, queue.after)
            ]
            yield from _lowered(owner, *sides)


def _parts(before: LimitValue, after: LimitValue) -> Iterator[tuple[str, _Amounts, _Amounts]]:
    """Yield the amounts of running work, of pending requests and of submitted applications."""
    yield "", _amounts(*before[:2]), _amounts(*after[:2])
    sides = [_amounts(side.max_pending_resources, side.max_pending) for side in (before, after)]
    yield "pending ", sides[0], sides[1]
    yield "submitted ", _amounts(None, before.max_submitted), _amounts(None, after.max_submitted)


def _amounts(resources: Resource | None, count: int) -> _Amounts:
    """Return the amounts that are limited."""
    found: dict[str | None, int] = dict((resources or {}).items())
    return found | ({None: count} if count else {})


def _lowered(owner: tuple[str, str, str], before: _Amounts, after: _Amounts) -> Iterator[LimitRisk]:
    for resource, old in before.items():
        new = after.get(resource, old)
        # Without division, so the comparison is exact.
        if 10 * (old - new) > old:
            yield LimitRisk(*owner, resource, old, new, None)

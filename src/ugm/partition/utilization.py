"""The utilization of limits: which limit of a user or group is used most, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter

from ugm.decision import EffectiveLimit
from ugm.errors import fields_text
from ugm.resources import Resource, as_float

__all__ = ["LimitUtilization", "utilization_of"]


@dataclass(frozen=True, slots=True, repr=False)
class LimitUtilization:
    """The utilization of the most used limit of a user or group."""

    name: str
    #: The usage in all queues together, without zeros.
    usage: Resource
    running_applications: int
    #: The limit with the largest share in use; None if there is no limit on any queue in use.
    limit: EffectiveLimit | None = None
    #: The resource of that limit; None for the number of applications, or if there is no limit.
    resource: str | None = None
    #: The share of that limit that is in use: 1 is all of it. A limit of 0 counts as fully used.
    share: Fraction = Fraction(0)

    def __repr__(self) -> str:
        return fields_text(self, {name: getattr(self, name) for name in self.__slots__})

    def to_dict(self) -> dict[str, object]:
        """Return the utilization for JSON, with the share as a decimal number."""
        return {
            "name": self.name,
            "usage": dict(self.usage),
            "running_applications": self.running_applications,
            "limit": None if self.limit is None else self.limit.to_dict(),
            "resource": self.resource,
            "share": as_float(self.share),
        }


def utilization_of(name: str, usage: Resource, running: int, limits: Iterable[EffectiveLimit]) -> LimitUtilization:
    """Return the utilization of a user or group with these limits; the first of equally used limits counts."""
    shares = (found for limit in limits for found in _shares(limit))
    limit, resource, share = max(shares, key=itemgetter(2), default=(None, None, Fraction(0)))
    return LimitUtilization(name, usage, running, limit, resource, share)


def _shares(limit: EffectiveLimit) -> Iterator[tuple[EffectiveLimit, str | None, Fraction]]:
    for name, maximum in (limit.max_resources or {}).items():
        yield limit, name, _share(limit.usage.get(name, 0), maximum)
    if limit.max_applications:
        yield limit, None, _share(limit.running_applications, limit.max_applications)


def _share(used: int, maximum: int) -> Fraction:
    # A limit of 0 counts as fully used.
    return Fraction(used, maximum) if maximum else Fraction(1 + used)

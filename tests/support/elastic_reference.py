"""A naive model of elastic groups: runtimes computed slowly from the configuration and the requests.

It shares no code with `ugm.elastic`. With `defects` it reproduces the intended differences from Koordinator, so
that recordings of these can be distinguished from mistakes of `ugm`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from ugm import Resource
from ugm.elastic import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, ElasticGroup

#: Minimums are scaled below a parent that gets little because its requests are small.
IDLE_SCALING: Final = "idle scaling"
#: A resource that the cluster does not have is granted up to the minimum.
NO_TOTAL: Final = "no total"
#: A resource goes on being counted when the maximum names it no more, and earlier requests for it are lost.
STALE_NAMES: Final = "stale names"

#: More than any group asks for.
BOUNDLESS: Final = 1 << 200

_SERVED: Final = (SYSTEM_GROUP, DEFAULT_GROUP)


class Naive:
    """Groups with requests and usage, and everything that follows from them."""

    def __init__(self, groups: Iterable[ElasticGroup], total: Resource, scale: bool, defects: Iterable[str]) -> None:  # noqa: FBT001 - a helper of few callers
        self.groups = {group.name: group for group in groups}
        self.total = total
        #: Every resource that the cluster ever had: Koordinator remembers a total that falls to nothing.
        self.ever = set(total)
        self.scale = scale
        self.defects = frozenset(defects)
        self.requested: dict[str, dict[str, int]] = {}
        self.used: dict[str, dict[str, int]] = {}

    def change(self, counts: dict[str, dict[str, int]], name: str, delta: Mapping[str, int]) -> None:
        """Count a change of the request or usage of a group."""
        own = counts.setdefault(name, {})
        for resource, amount in delta.items():
            if STALE_NAMES not in self.defects or self.names(name, resource):
                own[resource] = own.get(resource, 0) + amount

    def set_total(self, total: Resource) -> None:
        """Set the total of the cluster."""
        self.total = total
        self.ever |= set(total)

    def drop(self, name: str) -> None:
        """Remove a group with its counts."""
        for known in (self.groups, self.requested, self.used):
            known.pop(name, None)

    def names(self, name: str, resource: str) -> bool:
        """Return whether a resource is counted and shared in a group."""
        return name == ROOT_GROUP or (name in _SERVED and name not in self.groups) or resource in self.groups[name].max

    def _own(self, counts: dict[str, dict[str, int]], name: str, resource: str) -> int:
        counted = STALE_NAMES in self.defects or self.names(name, resource)
        return counts.get(name, {}).get(resource, 0) if counted else 0

    def _children(self, name: str) -> list[ElasticGroup]:
        below = [group for group in self.groups.values() if group.parent == name and group.name not in _SERVED]
        return sorted(below, key=lambda group: group.name)

    def child_request(self, name: str, resource: str) -> int:
        """Return the requests of the pods in a group and of its child groups."""
        below = sum(self.limited(group.name, resource) for group in self._children(name))
        served = sum(self.limited(each, resource) for each in _SERVED) if name == ROOT_GROUP else 0
        return self._own(self.requested, name, resource) + below + served

    def request(self, name: str, resource: str) -> int:
        """Return the same, or the minimum of a group that does not lend."""
        requested = self.child_request(name, resource)
        group = self.groups.get(name)
        return requested if group is None or group.allow_lent else max(requested, group.min.get(resource, 0))

    def limited(self, name: str, resource: str) -> int:
        """Return the request up to the maximum."""
        request, group = self.request(name, resource), self.groups.get(name)
        return request if group is None else min(request, group.max.get(resource, request))

    def all_used(self, name: str, resource: str) -> int:
        """Return the usage in and below a group."""
        below = sum(self.all_used(group.name, resource) for group in self._children(name))
        served = sum(self.all_used(each, resource) for each in _SERVED) if name == ROOT_GROUP else 0
        return self._own(self.used, name, resource) + below + served

    def runtime(self, name: str, resource: str) -> int | None:
        """Return the runtime of a group; None if nothing limits it."""
        if name == ROOT_GROUP:
            return self.total.get(resource, 0) - sum(self.all_used(each, resource) for each in _SERVED)
        group = self.groups.get(name)
        if group is None or name in _SERVED or not self.names(group.parent, resource):
            return None if group is None else group.max.get(resource)
        return self._share(group.parent, resource)[name][1]

    def scaled_min(self, name: str, resource: str) -> int:
        """Return the minimum of a group, scaled."""
        group = self.groups.get(name)
        if group is None or name in _SERVED:
            return 0
        return self._share(group.parent, resource)[name][0]

    def _share(self, parent: str, resource: str) -> dict[str, tuple[int, int]]:
        """Return the scaled minimum and the runtime of every group below one."""
        gets_itself = self.runtime(parent, resource)
        available = BOUNDLESS if gets_itself is None else gets_itself
        below = self._children(parent)
        wanted = {group.name: self.limited(group.name, resource) for group in below}
        mins = {group.name: group.min.get(resource, 0) for group in below}
        scaled = dict(mins)
        known = NO_TOTAL not in self.defects or parent != ROOT_GROUP or resource in self.ever
        if self.scale and known and 0 < sum(mins.values()) > available:
            share = Fraction(max(available, 0), sum(mins.values()))
            scaled = {name: int(least * share) for name, least in mins.items()}
        weights = {g.name: g.weight.get(resource, 0) for g in below}
        # Without weight nothing beyond the minimum can be had, so nothing beyond it counts.
        met = {g.name: wanted[g.name] if weights[g.name] > 0 else min(wanted[g.name], mins[g.name]) for g in below}
        met.update((g.name, max(met[g.name], mins[g.name])) for g in below if not g.allow_lent)
        plenty = available >= sum(met.values()) and IDLE_SCALING not in self.defects
        least = mins if plenty else scaled
        gets = {g.name: min(wanted[g.name], least[g.name]) if g.allow_lent else least[g.name] for g in below}
        self._deal(available - sum(gets.values()), gets, wanted, weights)
        if not plenty and IDLE_SCALING not in self.defects:
            without = {name: mins[name] for name, weight in weights.items() if weight <= 0}
            self._deal(available - sum(gets.values()), gets, met, without)
        return {name: (scaled[name], gets[name]) for name in gets}

    def _deal(self, left: int, gets: dict[str, int], wanted: dict[str, int], weights: dict[str, int]) -> None:
        hungry = [name for name in gets if wanted[name] > gets[name] and weights.get(name, 0) > 0]
        while left > 0 and hungry:
            exact = {name: Fraction(left * weights[name], sum(weights[each] for each in hungry)) for name in hungry}
            parts = {name: int(part) for name, part in exact.items()}
            by_remainder = sorted(hungry, key=lambda name: (parts[name] - exact[name], name))
            for name in by_remainder[: left - sum(parts.values())]:
                parts[name] += 1
            for name in hungry:
                gets[name] += parts[name]
            left = sum(max(gets[name] - wanted[name], 0) for name in hungry)
            for name in hungry:
                gets[name] = min(gets[name], wanted[name])
            hungry = [name for name in hungry if gets[name] < wanted[name]]

"""The rules of limits: their names, their amounts, and their relation to the queue and to the limits above."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ugm._documents.places import Path
from ugm.config.findings import KINDS, Finding, LimitChain, LocatedQueue, NamedLimit
from ugm.config.names import invalid_name_reason
from ugm.configuration import LimitConfig, LimitExtensions
from ugm.errors import cut, quote
from ugm.identity import WILDCARD
from ugm.resources import format_amount

__all__ = ["LIMIT_RULES"]


def limit_has_names(located: LocatedQueue) -> Iterator[Finding]:
    """A limit names at least one user or group.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for index, limit in enumerate(located.queue.limits):
        if not limit.users and not limit.groups:
            path = (*located.limits_path, index)
            sources = ((*path, "users"), (*path, "groups"))
            yield Finding(path, "limit-names-nobody", "the limit names no user and no group", sources)


def limit_names_are_valid(located: LocatedQueue) -> Iterator[Finding]:
    """The names in a limit are valid names of users and groups, or the wildcard; see the setting ``names``.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for kind, name, place in _names(located):
        if name != WILDCARD and (reason := invalid_name_reason(kind, name, located.names)):
            yield Finding((*located.limits_path, *place), f"limit-{kind}-name-invalid", reason)


def limit_names_are_unique(located: LocatedQueue) -> Iterator[Finding]:
    """No user or group, nor the wildcard, is in the limits of a queue twice: only the first entry would count.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    first: dict[tuple[str, str], int] = {}
    for kind, name, place in _names(located):
        if (kind, name) in first:
            earlier = f"limits[{first[kind, name]}]"
            message = f"{kind} {quote(name)} already has a limit in {located.queue_path} ({earlier})"
            yield Finding((*located.limits_path, *place), f"limit-{kind}-duplicate", message)
        first.setdefault((kind, name), place[0])


def limit_wildcard_is_last(located: LocatedQueue) -> Iterator[Finding]:
    """The wildcard is the last name of its kind in the limits of a queue.

    It may end a list of names. Names after the wildcard would never count, because the search for a match stops there.

    Source: Apache YuniKorn, user based quota enforcement, "Wildcard interpretation".
    """
    wildcards: dict[str, int] = {}
    for kind, name, place in _names(located):
        if name == WILDCARD:
            wildcards[kind] = place[0]
        elif kind in wildcards:
            message = f"{kind} {quote(name)} follows the {kind} wildcard (limits[{wildcards[kind]}]) and has no effect"
            yield Finding((*located.limits_path, *place), f"limit-{kind}-after-wildcard", message)


def limit_group_wildcard_follows_a_group(located: LocatedQueue) -> Iterator[Finding]:
    """A named group precedes a group wildcard: alone, the wildcard would only be another maximum of the queue.

    Source: Apache YuniKorn, user based quota enforcement, "Group" under "Wildcard interpretation".
    """
    first = next(((name, place) for kind, name, place in _names(located) if kind == "group"), None)
    if first and first[0] == WILDCARD:
        place = first[1]
        message = f"no named group precedes the group wildcard in the limits of {located.queue_path}"
        sources = tuple((*located.limits_path, earlier, "groups") for earlier in range(place[0] + 1))
        yield Finding((*located.limits_path, *place), "limit-group-wildcard-alone", message, sources)


def limit_sets_something(located: LocatedQueue) -> Iterator[Finding]:
    """A limit sets a maximum of resources, of applications or of pending work, or a schedule.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for index, limit in enumerate(located.queue.limits):
        if not limit.max_applications and not limit.max_resources and limit.ugm == LimitExtensions():
            message = "the limit sets no maximum (required: maxresources, maxapplications or ugm)"
            path = (*located.limits_path, index)
            sources = ((*path, "maxresources"), (*path, "maxapplications"), (*path, "ugm"))
            yield Finding(path, "limit-sets-nothing", message, sources)


def limit_resources_are_not_all_zero(located: LocatedQueue) -> Iterator[Finding]:
    """At least one resource of a limit is above 0; otherwise its users could run nothing.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for index, limit in enumerate(located.queue.limits):
        if limit.max_resources and not any(limit.max_resources.values()):
            path = (*located.limits_path, index, "maxresources")
            message = "every resource of the limit is 0 (allowed: at least one above 0)"
            yield Finding(path, "limit-resources-zero", message)


def limit_resources_fit_queue(located: LocatedQueue) -> Iterator[Finding]:
    """No resource of a limit exceeds the maximum of the queue.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    most = located.queue.max_resources
    if not most:
        return
    for index, limit in enumerate(located.queue.limits):
        for name, amount in (limit.max_resources or {}).items():
            if amount > most.get(name, amount):
                path = (*located.limits_path, index, "maxresources", name)
                allows, above = (format_amount(name, value) for value in (amount, most[name]))
                message = f"the limit allows {cut(name)} {allows}, but {located.queue_path} only {above}"
                yield Finding(path, "limit-resources-above-queue", message)


def limit_applications_fit_queue(located: LocatedQueue) -> Iterator[Finding]:
    """No limit allows more applications than the queue.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    most = located.queue.max_applications
    for index, limit in enumerate(located.queue.limits):
        if most and limit.max_applications > most:
            path = (*located.limits_path, index, "maxapplications")
            message = f"the limit allows {limit.max_applications} applications, but {located.queue_path} only {most}"
            yield Finding(path, "limit-applications-above-queue", message)


def limit_resources_fit_ancestors(located: LocatedQueue) -> Iterator[Finding]:
    """No resource of a limit exceeds the limit above that applies to the same user or group; see `_name_sets`.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    exceeded: dict[tuple[int, int], bool] = {}
    for named in _name_sets(located):
        # If no limit above is exceeded, it does not matter which of them comes first.
        if not any(_exceeds(named, above, exceeded) for above in named.above):
            continue
        for resource, amount, most, above in named.excesses():
            requested, allowed = format_amount(resource, amount), format_amount(resource, most)
            text = f"may use {cut(resource)} {requested} here, but only {allowed} in {above}"
            path, sources = (*located.limits_path, named.position, "maxresources", resource), _limits_above(located)
            kind = named.kind
            for name in named.names:
                yield Finding(path, f"limit-{kind}-above-{above.relation}", f"{kind} {quote(name)} {text}", sources)


def limit_applications_fit_ancestors(located: LocatedQueue) -> Iterator[Finding]:
    """If an ancestor limits the applications of a user or group, each limit for it here sets at most that number.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    for named in _name_sets(located):
        kind, count = named.kind, named.limit.max_applications
        above = next((above for above in named.above if above.max_applications), None)
        if above is None or 0 < count <= above.max_applications:
            continue
        path, where = (*located.limits_path, named.position), f"here, but only {above.max_applications} in {above}"
        sources = ((*path, "maxapplications"), *_limits_above(located))
        for name in named.names:
            subject = f"{kind} {quote(name)} may run"
            if not count:
                message = f"{subject} any number of applications {where}"
                yield Finding(path, f"limit-{kind}-applications-missing", message, sources)
            else:
                code = f"limit-{kind}-applications-above-{above.relation}"
                message = f"{subject} {count} applications {where}"
                yield Finding((*path, "maxapplications"), code, message, sources)


def _exceeds(named: _NameSet, above: _LimitAbove, known: dict[tuple[int, int], bool]) -> bool:
    """Return whether a limit has more of any resource than one above; compare each two limits once."""
    key = (named.position, id(above.named))
    if key not in known:
        most = above.max_resources
        known[key] = any(amount > most.get(name, amount) for name, amount in _amounts(named.limit).items())
    return known[key]


class _LimitAbove(NamedTuple):
    """A limit of a queue above that applies to names of a limit below."""

    located: LocatedQueue
    named: NamedLimit
    #: ``ancestor`` if it contains the names, ``wildcard`` if it applies through the wildcard; a part of error codes.
    relation: str

    @property
    def max_resources(self) -> Mapping[str, int]:
        return _amounts(self.named.limit)

    @property
    def max_applications(self) -> int:
        return self.named.limit.max_applications

    def __str__(self) -> str:
        wildcard = "the wildcard of " if self.relation == "wildcard" else ""
        return f"{wildcard}{self.located.queue_path} (limits[{self.named.position}])"


def _amounts(limit: LimitConfig) -> Mapping[str, int]:
    return limit.max_resources.amounts if limit.max_resources else {}


class _NameSet(NamedTuple):
    """The names of one limit to which the same limits above apply."""

    kind: str
    position: int
    limit: LimitConfig
    names: Sequence[str]
    #: The nearest first. For each resource, the first that names the resource counts.
    above: Sequence[_LimitAbove]

    def excesses(self) -> Iterator[tuple[str, int, int, _LimitAbove]]:
        """Yield each resource of which the limit allows more than one above: both amounts, and the limit above."""
        pending = dict(_amounts(self.limit))
        for above in self.above:
            for resource in pending.keys() & above.max_resources.keys():
                amount, most = pending.pop(resource), above.max_resources[resource]
                if amount > most:
                    yield resource, amount, most, above


def _name_sets(located: LocatedQueue) -> Iterator[_NameSet]:
    """Yield the names of the limits of a queue that limits above apply to.

    The limits above that contain a name apply to it; only if no queue above names it at all, the wildcards do. So a
    limit that does not set an amount exempts the limits below it from the comparison with wildcards above it. Apache
    YuniKorn does the same. The wildcards still apply at run time.

    Names of a limit to which the same limits apply come together, so that their amounts are compared once; a limit may
    have thousands of names.
    """
    for kind, field in KINDS if located.parent else ():
        wildcards = [
            _LimitAbove(above, above.named_limits[field][WILDCARD], "wildcard")
            for above in located.ancestors()
            if WILDCARD in above.named_limits[field]
        ]
        for index, limit in enumerate(located.queue.limits):
            groups: dict[int, tuple[LimitChain | None, list[str]]] = {}
            for name in limit.users if field == "users" else limit.groups:
                chain = located.chains[field][name].above
                groups.setdefault(id(chain), (chain, []))[1].append(name)
            for chain, names in groups.values():
                above = [_LimitAbove(*link[:2], "ancestor") for link in chain.upward()] if chain else wildcards
                if above:
                    yield _NameSet(kind, index, limit, names, above)


def _limits_above(located: LocatedQueue) -> tuple[Path, ...]:
    """Return the paths of the limits of the queues above: if one cannot be read, another limit would apply."""
    return tuple(above.limits_path for above in located.ancestors())


def _names(located: LocatedQueue) -> Iterator[tuple[str, str, tuple[int, str, int]]]:
    """Yield the users and groups in the limits of a queue: kind, name, and place (limit, field, position)."""
    for index, limit in enumerate(located.queue.limits):
        for kind, field, names in (("user", "users", limit.users), ("group", "groups", limit.groups)):
            for position, name in enumerate(names):
                yield kind, name, (index, field, position)


LIMIT_RULES: Final[tuple[Callable[[LocatedQueue], Iterator[Finding]], ...]] = (
    limit_has_names,
    limit_names_are_valid,
    limit_names_are_unique,
    limit_wildcard_is_last,
    limit_group_wildcard_follows_a_group,
    limit_sets_something,
    limit_resources_are_not_all_zero,
    limit_resources_fit_queue,
    limit_applications_fit_queue,
    limit_resources_fit_ancestors,
    limit_applications_fit_ancestors,
)

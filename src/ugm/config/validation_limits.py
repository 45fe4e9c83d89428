"""The rules of limits: whom they name, what they set, and how they fit the queue and the queues above."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ugm.config.findings import KINDS, Chain, Entry, Finding, QueueSpot
from ugm.config.names import why_no_name
from ugm.config.places import Path, cut
from ugm.config.scalars import quote
from ugm.configuration import LimitConfig
from ugm.identity import WILDCARD
from ugm.resources import format_amount

__all__ = ["LIMIT_RULES"]


def limit_names_somebody(spot: QueueSpot) -> Iterator[Finding]:
    """A limit names at least one user or group.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for index, limit in enumerate(spot.queue.limits):
        if not limit.users and not limit.groups:
            path = (*spot.limits_path, index)
            sources = ((*path, "users"), (*path, "groups"))
            yield Finding(path, "limit-names-nobody", "the limit names no user and no group", sources)


def limit_names_are_valid(spot: QueueSpot) -> Iterator[Finding]:
    """The names in a limit are valid names of users and groups, or the wildcard; the setting ``names`` says which are.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for kind, field in KINDS:
        for index, position, name in _names(spot, field):
            if name != WILDCARD and (reason := why_no_name(kind, name, spot.names)):
                path = (*spot.limits_path, index, field, position)
                yield Finding(path, f"limit-{kind}-name-invalid", reason)


def limit_names_are_given_once(spot: QueueSpot) -> Iterator[Finding]:
    """No name of a kind, nor the wildcard, is in the limits of a queue twice: the first entry alone would count.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for kind, field in KINDS:
        first: dict[str, int] = {}
        for index, position, name in _names(spot, field):
            if name in first:
                path = (*spot.limits_path, index, field, position)
                message = f"{kind} {quote(name)} has a limit in {spot.queue_path} already (limits[{first[name]}])"
                yield Finding(path, f"limit-{kind}-duplicate", message)
            first.setdefault(name, index)


def limit_wildcard_is_last(spot: QueueSpot) -> Iterator[Finding]:
    """The wildcard is the last name of its kind in the limits of a queue.

    It may end a list of names. What follows it is not searched for a match, and would never count.

    Source: Apache YuniKorn, user based quota enforcement, "Wildcard interpretation".
    """
    for kind, field in KINDS:
        wildcard: int | None = None
        for index, position, name in _names(spot, field):
            if name == WILDCARD:
                wildcard = index
            elif wildcard is not None:
                path = (*spot.limits_path, index, field, position)
                message = f"{kind} {quote(name)} stands after the {kind} wildcard (limits[{wildcard}])"
                yield Finding(path, f"limit-{kind}-after-wildcard", message)


def limit_group_wildcard_has_company(spot: QueueSpot) -> Iterator[Finding]:
    """A group wildcard needs a named group before it: alone it would be a maximum of the queue under another name.

    Source: Apache YuniKorn, user based quota enforcement, "Group" under "Wildcard interpretation".
    """
    for index, position, name in _names(spot, "groups"):
        if name == WILDCARD:
            message = f"no named group precedes the group wildcard in the limits of {spot.queue_path}"
            path = (*spot.limits_path, index, "groups", position)
            sources = tuple((*spot.limits_path, earlier, "groups") for earlier in range(index + 1))
            yield Finding(path, "limit-group-wildcard-alone", message, sources)
        return


def limit_sets_something(spot: QueueSpot) -> Iterator[Finding]:
    """A limit sets a maximum of resources or of applications.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for index, limit in enumerate(spot.queue.limits):
        if not limit.max_applications and not limit.max_resources:
            message = "the limit sets no resources and no applications"
            path = (*spot.limits_path, index)
            sources = ((*path, "maxresources"), (*path, "maxapplications"))
            yield Finding(path, "limit-sets-nothing", message, sources)


def limit_resources_are_not_all_zero(spot: QueueSpot) -> Iterator[Finding]:
    """The resources of a limit are not all 0, which would lock its users out.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for index, limit in enumerate(spot.queue.limits):
        if limit.max_resources and not any(limit.max_resources.values()):
            path = (*spot.limits_path, index, "maxresources")
            yield Finding(path, "limit-resources-zero", "every resource of the limit is 0")


def limit_resources_fit_queue(spot: QueueSpot) -> Iterator[Finding]:
    """No resource of a limit is above the queue's own maximum.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    most = spot.queue.max_resources
    if not most:
        return
    for index, limit in enumerate(spot.queue.limits):
        for name, amount in (limit.max_resources or {}).items():
            if amount > most.get(name, amount):
                path = (*spot.limits_path, index, "maxresources", name)
                allowed = format_amount(name, most[name])
                message = (
                    f"the limit allows {cut(name)} {format_amount(name, amount)}, but {spot.queue_path} only {allowed}"
                )
                yield Finding(path, "limit-resources-above-queue", message)


def limit_applications_fit_queue(spot: QueueSpot) -> Iterator[Finding]:
    """No limit allows more applications than the queue.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    most = spot.queue.max_applications
    for index, limit in enumerate(spot.queue.limits):
        if most and limit.max_applications > most:
            path = (*spot.limits_path, index, "maxapplications")
            message = f"the limit allows {limit.max_applications} applications, but {spot.queue_path} only {most}"
            yield Finding(path, "limit-applications-above-queue", message)


def limit_resources_fit_ancestors(spot: QueueSpot) -> Iterator[Finding]:
    """For each resource, an entry is within the one that holds the same user or group above; see `_held`.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    for kind, field in KINDS:
        exceeded: dict[tuple[int, int], bool] = {}
        for held in _held(spot, field):
            # Where no limit above is exceeded, which of them comes first makes no difference.
            if not any(_exceeds(held, above, exceeded) for above in held.above):
                continue
            for resource, amount, most, above in held.resources_above():
                asked, allowed = format_amount(resource, amount), format_amount(resource, most)
                text = f"may use {cut(resource)} {asked} here, but only {allowed} in {above}"
                path, sources = (*spot.limits_path, held.at, "maxresources", resource), _limits_above(spot)
                for name in held.names:
                    yield Finding(path, f"limit-{kind}-above-{above.relation}", f"{kind} {quote(name)} {text}", sources)


def limit_applications_fit_ancestors(spot: QueueSpot) -> Iterator[Finding]:
    """An entry sets a maximum of applications if the one that holds the same user or group above does, and within it.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    for kind, field in KINDS:
        for held in _held(spot, field):
            count = held.limit.max_applications
            above = next((above for above in held.above if above.max_applications), None)
            if above is None or 0 < count <= above.max_applications:
                continue
            path, where = (*spot.limits_path, held.at), f"here, but only {above.max_applications} in {above}"
            sources = ((*path, "maxapplications"), *_limits_above(spot))
            for name in held.names:
                who = f"{kind} {quote(name)} may run"
                if not count:
                    message = f"{who} any number of applications {where}"
                    yield Finding(path, f"limit-{kind}-applications-missing", message, sources)
                else:
                    code = f"limit-{kind}-applications-above-{above.relation}"
                    message = f"{who} {count} applications {where}"
                    yield Finding((*path, "maxapplications"), code, message, sources)


def _exceeds(held: _Held, above: _Above, known: dict[tuple[int, int], bool]) -> bool:
    """Tell whether a limit has more of anything than one above, once for each two."""
    key = (held.at, id(above))
    if key not in known:
        most = above.max_resources
        known[key] = any(amount > most.get(name, amount) for name, amount in _amounts(held.limit).items())
    return known[key]


class _Above(NamedTuple):
    """A limit of a queue above."""

    spot: QueueSpot
    at: int
    max_resources: Mapping[str, int]
    max_applications: int
    relation: str

    def __str__(self) -> str:
        wildcard = "the wildcard of " if self.relation == "wildcard" else ""
        return f"{wildcard}{self.spot.queue_path} (limits[{self.at}])"


def _above(spot: QueueSpot, entry: Entry, relation: str) -> _Above:
    return _Above(spot, entry.at, _amounts(entry.limit), entry.limit.max_applications, relation)


def _amounts(limit: LimitConfig) -> Mapping[str, int]:
    return limit.max_resources.amounts if limit.max_resources else {}


class _Held(NamedTuple):
    """Names of one limit that the same limits above hold."""

    at: int
    limit: LimitConfig
    names: Sequence[str]
    #: Those above, the nearest first; for each amount the first that sets it holds.
    above: Sequence[_Above]

    def resources_above(self) -> Iterator[tuple[str, int, int, _Above]]:
        """Yield the resources of which the limit has more than what holds its names: both amounts, and what holds."""
        pending = dict(_amounts(self.limit))
        for above in self.above:
            for resource in pending.keys() & above.max_resources.keys():
                amount, most = pending.pop(resource), above.max_resources[resource]
                if amount > most:
                    yield resource, amount, most, above


def _held(spot: QueueSpot, field: str) -> Iterator[_Held]:
    """Yield the names of the limits of a queue with what holds them above, if anything does.

    A name is held by the entries with that name; only if no queue above names it at all, by the wildcards. So an entry
    that leaves an amount open frees the entries below it from comparison with wildcards above it, as in the peer; at
    run time the wildcards hold all the same.

    Names of a limit that the same entries hold come together: one comparison of the amounts, of which there may be as
    many as names, serves them all.
    """
    chains = spot.chains[field]
    if not chains or spot.parent is None:
        return
    wildcards = [
        _above(above, above.entries[field][WILDCARD], "wildcard")
        for above in spot.ancestors()
        if WILDCARD in above.entries[field]
    ]
    for index, limit in enumerate(spot.queue.limits):
        groups: dict[int, tuple[Chain | None, list[str]]] = {}
        for name in limit.users if field == "users" else limit.groups:
            chain = chains[name].above
            groups.setdefault(id(chain), (chain, []))[1].append(name)
        for chain, together in groups.values():
            held_by = [_known(link, field) for link in chain.upward()] if chain else wildcards
            if held_by:
                yield _Held(index, limit, together, held_by)


def _known(chain: Chain, field: str) -> _Above:
    """Return the limit of an entry above: one object, however many entries below are compared with it."""
    known, key = chain.spot.seen_from_below, (field, chain.entry.at)
    if key not in known:
        known[key] = _above(chain.spot, chain.entry, "ancestor")
    return known[key]  # type: ignore[no-any-return]


def _limits_above(spot: QueueSpot) -> tuple[Path, ...]:
    """Return where the limits of the queues above are: with a name that cannot be read, another entry would hold."""
    return tuple(above.limits_path for above in spot.ancestors())


def _names(spot: QueueSpot, field: str) -> Iterator[tuple[int, int, str]]:
    """Yield the names of a kind in the limits of a queue: index of the limit, position in its list, name."""
    for index, limit in enumerate(spot.queue.limits):
        for position, name in enumerate(limit.users if field == "users" else limit.groups):
            yield index, position, name


LIMIT_RULES: Final[tuple[Callable[[QueueSpot], Iterator[Finding]], ...]] = (
    limit_names_somebody,
    limit_names_are_valid,
    limit_names_are_given_once,
    limit_wildcard_is_last,
    limit_group_wildcard_has_company,
    limit_sets_something,
    limit_resources_are_not_all_zero,
    limit_resources_fit_queue,
    limit_applications_fit_queue,
    limit_resources_fit_ancestors,
    limit_applications_fit_ancestors,
)

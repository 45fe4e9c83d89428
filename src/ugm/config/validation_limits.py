"""The rules of limits: whom they name, what they set, and how they fit the queue and the queues above."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ugm.config.findings import KINDS, Entry, Finding, QueueSpot
from ugm.config.places import Path
from ugm.config.scalars import quote
from ugm.config.schema import LimitConfig
from ugm.identity import WILDCARD
from ugm.resources import format_amount

__all__ = ["GROUP_NAME", "LIMIT_RULES", "USER_NAME"]

#: What a user may be called; a ``$`` at the end is a machine's account.
USER_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*\$?")
#: What a group may be called.
GROUP_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
_NAMES: Final = {"users": USER_NAME, "groups": GROUP_NAME}


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
    """The names in a limit are names of users and groups, or the wildcard.

    Source: Apache YuniKorn, partition and queue configuration, "Limits".
    """
    for kind, field in KINDS:
        for index, position, name in _names(spot, field):
            if name != WILDCARD and not _NAMES[field].fullmatch(name):
                path = (*spot.limits_path, index, field, position)
                yield Finding(path, f"limit-{kind}-name-invalid", f"{quote(name)} is no name of a {kind}")


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
                message = f"the limit allows {name} {format_amount(name, amount)}, but {spot.queue_path} only {allowed}"
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
    """For each resource, an entry is within the one that holds the same user or group above; see `_above`.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    if not spot.parent:
        return
    for kind, field in KINDS:
        for index, _, name in _names(spot, field):
            for resource, amount in (spot.queue.limits[index].max_resources or {}).items():
                above = _above(spot, field, name, resource)
                if above and amount > above.most:
                    path = (*spot.limits_path, index, "maxresources", resource)
                    asked, most = format_amount(resource, amount), format_amount(resource, above.most)
                    message = f"{kind} {quote(name)} may use {resource} {asked} here, but only {most} in {above}"
                    yield Finding(path, f"limit-{kind}-above-{above.relation}", message, _limits_above(spot))


def limit_applications_fit_ancestors(spot: QueueSpot) -> Iterator[Finding]:
    """An entry sets a maximum of applications if the one that holds the same user or group above does, and within it.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    if not spot.parent:
        return
    for kind, field in KINDS:
        for index, _, name in _names(spot, field):
            above = _above(spot, field, name, None)
            if above is None:
                continue
            count = spot.queue.limits[index].max_applications
            path = (*spot.limits_path, index)
            sources = ((*path, "maxapplications"), *_limits_above(spot))
            if not count:
                message = (
                    f"{kind} {quote(name)} may run any number of applications here, but only {above.most} in {above}"
                )
                yield Finding(path, f"limit-{kind}-applications-missing", message, sources)
            elif count > above.most:
                message = f"{kind} {quote(name)} may run {count} applications here, but only {above.most} in {above}"
                code = f"limit-{kind}-applications-above-{above.relation}"
                yield Finding((*path, "maxapplications"), code, message, sources)


class _Above(NamedTuple):
    """What holds a user or group in a queue above."""

    spot: QueueSpot
    entry: Entry
    most: int
    relation: str

    def __str__(self) -> str:
        wildcard = "the wildcard of " if self.relation == "wildcard" else ""
        return f"{wildcard}{self.spot.queue_path} (limits[{self.entry.at}])"


def _above(spot: QueueSpot, field: str, name: str, resource: str | None) -> _Above | None:
    """Find what holds a name above a queue, for one resource, or for applications with None.

    It is the nearest entry with that name that sets the amount; only if no queue above names it at all, the nearest
    wildcard that sets the amount. So an entry that leaves an amount open frees the entries below it from comparison
    with wildcards above it, as in the peer; at run time the wildcards hold all the same.
    """
    wildcard: _Above | None = None
    named = False
    for above in spot.ancestors():
        entries = above.entries[field]
        if entry := entries.get(name):
            named = True
            if (most := _amount(entry.limit, resource)) is not None:
                return _Above(above, entry, most, "ancestor")
        elif wildcard is None and (entry := entries.get(WILDCARD)):
            most = _amount(entry.limit, resource)
            wildcard = None if most is None else _Above(above, entry, most, "wildcard")
    return None if named else wildcard


def _limits_above(spot: QueueSpot) -> tuple[Path, ...]:
    """Return where the limits of the queues above are: with a name that cannot be read, another entry would hold."""
    return tuple(above.limits_path for above in spot.ancestors())


def _amount(limit: LimitConfig, resource: str | None) -> int | None:
    if resource is None:
        return limit.max_applications or None
    return limit.max_resources.get(resource) if limit.max_resources else None


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

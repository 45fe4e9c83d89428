"""The rules of queues, limits and schedules.

Each rule is one function; its docstring states the rule and its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from ugm.config.located import KINDS, LocatedQueue, NamedLimit, invalid_name_reason
from ugm.configuration import LimitConfig, LimitExtensions, ScheduledLimit
from ugm.configuration.scheduler import Finding, Path
from ugm.errors import RequestError, cut, quote
from ugm.identity import ROOT, WILDCARD
from ugm.queues.placement import QUEUE_NAMES, Acl
from ugm.resources import Resource, format_amount


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
    """No resource of a limit exceeds the limit above that applies to the same user or group; see `_limits_above`.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    for kind, name, index, limits in _limits_above(located):
        pending = dict(located.queue.limits[index].max_resources or {})
        for above in limits:
            most: Mapping[str, int] = above.limit.max_resources or {}
            for resource in pending.keys() & most.keys():
                amount = pending.pop(resource)
                if amount > most[resource]:
                    allowed, path = (
                        format_amount(resource, most[resource]),
                        (*located.limits_path, index, "maxresources"),
                    )
                    text = f"may use {_text(resource, amount)} here, but only {allowed} in {above}"
                    code, message = f"limit-{kind}-above-{above.relation}", f"{kind} {quote(name)} {text}"
                    yield Finding((*path, resource), code, message, _paths_above(located))


def limit_applications_fit_ancestors(located: LocatedQueue) -> Iterator[Finding]:
    """If an ancestor limits the applications of a user or group, each limit for it here sets at most that number.

    Source: Apache YuniKorn, user based quota enforcement, "Quota checks".
    """
    for kind, name, index, limits in _limits_above(located):
        count = located.queue.limits[index].max_applications
        above = next((above for above in limits if above.limit.max_applications), None)
        if above is None or 0 < count <= above.limit.max_applications:
            continue
        path, number = (*located.limits_path, index), str(count) if count else "any number of"
        text = f"may run {number} applications here, but only {above.limit.max_applications} in {above}"
        message = f"{kind} {quote(name)} {text}"
        sources = ((*path, "maxapplications"), *_paths_above(located))
        if count:
            yield Finding(sources[0], f"limit-{kind}-applications-above-{above.relation}", message, sources)
        else:
            yield Finding(path, f"limit-{kind}-applications-missing", message, sources)


class _LimitAbove(NamedTuple):
    """A limit of a queue above that applies to a name."""

    located: LocatedQueue
    position: int
    limit: LimitConfig
    #: ``ancestor`` if it contains the name, ``wildcard`` if it applies through the wildcard; a part of error codes.
    relation: str

    def __str__(self) -> str:
        wildcard = "the wildcard of " if self.relation == "wildcard" else ""
        return f"{wildcard}{self.located.queue_path} (limits[{self.position}])"


def _limits_above(located: LocatedQueue) -> Iterator[tuple[str, str, int, list[_LimitAbove]]]:
    """Yield the names of the limits of a queue, each with the limits above that apply to it, the nearest first.

    The limits above that contain a name apply to it; only if no queue above names it at all, the wildcards do. So a
    limit that does not set an amount exempts the limits below it from the comparison with wildcards above it. Apache
    YuniKorn does the same. The wildcards still apply at run time.
    """
    for kind, field in KINDS:
        levels = [(above, above.named_limits[field]) for above in located.ancestors() if above.named_limits[field]]

        wildcards = _applying(levels, WILDCARD, "wildcard")
        for index, limit in enumerate(located.queue.limits if levels else ()):
            for name in limit.users if field == "users" else limit.groups:
                if found := _applying(levels, name, "ancestor") or wildcards:
                    yield kind, name, index, found


def _applying(
    levels: Iterable[tuple[LocatedQueue, Mapping[str, NamedLimit]]], name: str, relation: str
) -> list[_LimitAbove]:
    return [_LimitAbove(above, *named[name], relation) for above, named in levels if name in named]


def _paths_above(located: LocatedQueue) -> tuple[Path, ...]:
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
_QUEUE_NAME: Final = re.compile(r"[a-z0-9_:#/@-]{1,64}")
#: The nearest maximum of each resource, and its queue.
_Most: TypeAlias = dict[str, tuple[LocatedQueue, int]]


def queue_name_is_valid(located: LocatedQueue) -> Iterator[Finding]:
    """A queue name has 1 to 64 letters, digits or characters of ``_:#/@-``; no dots, which separate names in a path.

    Source: Apache YuniKorn, partition and queue configuration, "Queues".
    """
    if located.parent and not _QUEUE_NAME.fullmatch(located.queue.name):
        message = f"{quote(located.queue.name)} is not a valid queue name ({QUEUE_NAMES})"
        yield Finding((*located.path, "name"), "queue-name-invalid", message)


def queue_name_is_not_root(located: LocatedQueue) -> Iterator[Finding]:
    """Only the root queue has the name ``root``; Apache YuniKorn accepts it for others, and then confuses the queues.

    Source: Apache YuniKorn, partition and queue configuration, "Queues".
    """
    if located.parent and located.queue.name == ROOT:
        message = f"a queue below {located.parent.queue_path} has the name 'root', which only the root queue may have"
        yield Finding((*located.path, "name"), "queue-name-reserved", message)


def child_names_differ(located: LocatedQueue) -> Iterator[Finding]:
    """No two child queues of a queue have the same name (case-insensitive).

    Source: Apache YuniKorn, partition and queue configuration, "Queues".
    """
    first: dict[str, int] = {}
    for index, child in enumerate(located.children):
        earlier = first.setdefault(child.queue.name, index)
        if earlier != index:
            path = (*child.path, "name")
            sources = (path, (*child.path[:-1], earlier, "name"))
            message = f"the queue {child.queue_path} already exists (queues[{earlier}])"
            yield Finding(path, "queue-name-duplicate", message, sources)


def acls_have_two_parts(located: LocatedQueue) -> Iterator[Finding]:
    """An access control list has users and, after one space, groups; names are separated by commas alone.

    Source: Apache YuniKorn, access control lists, "Syntax".
    """
    for field, acl in (("adminacl", located.queue.admin_acl), ("submitacl", located.queue.submit_acl)):
        try:
            Acl.parse(acl)
        except RequestError as error:
            yield Finding((*located.path, field), "acl-too-many-parts", f"{quote(acl)}: {error.reason}")


def max_fits_above(located: LocatedQueue) -> Iterator[Finding]:
    """The maximum of a queue does not exceed that of the nearest queue above that sets one, for each resource.

    Source: Apache YuniKorn, resource quota management, on quotas in a hierarchy.
    """
    for name, amount in located.maxima.items():
        above = _nearest_max(located.parent, name)
        if above and amount > above[1]:
            message = f"{located.queue_path} may use up to {_text(name, amount)}, but {_owner(above, name)}"
            yield Finding((*located.path, "resources", "max", name), "queue-max-above-parent", message)


def guaranteed_fits_max(located: LocatedQueue) -> Iterator[Finding]:
    """The guarantee of a queue does not exceed its maximum.

    Source: Apache YuniKorn, partition and queue configuration, "Resources".
    """
    for name, text in _guaranteed_above(located.queue.guaranteed, located.queue.max_resources):
        path = (*located.path, "resources")
        message = f"{located.queue_path} {text}"
        yield Finding((*path, "guaranteed", name), "queue-guaranteed-above-max", message, ((*path, "max"),))


def _guaranteed_above(guaranteed: Resource | None, most: Resource | None) -> Iterator[tuple[str, str]]:
    """Yield the resources whose guarantee exceeds the maximum, and the end of a message about each."""
    for name, amount in (guaranteed or {}).items():
        if most and amount > most.get(name, amount):
            yield name, f"is guaranteed {_text(name, amount)}, but may use only {format_amount(name, most[name])}"


def guaranteed_fits_above(located: LocatedQueue, most: _Most | None = None) -> Generator[Finding, None, dict[str, int]]:
    """The sum of the guarantees of child queues exceeds neither the guarantee nor the maximum of their parent.

    A queue without a guarantee counts with the sum of the guarantees below it. Sums are exact.

    Source: Apache YuniKorn, resource quota management, on quotas in a hierarchy.

    Args:
        located: the queue, with everything below it.
        most: the nearest maximum of each resource above; modified during the call and restored at the end.

    Returns:
        The guarantee with which the queue counts in its parent.
    """
    most = {} if most is None else most
    own = located.maxima
    hidden = {name: most[name] for name in own if name in most}
    most.update((name, (located, amount)) for name, amount in own.items())
    claimed: dict[str, int] = {}
    for child in located.children:
        claim = yield from guaranteed_fits_above(child, most)
        # Add the smaller sum to the larger one, because sums are passed up through many queues.
        claimed, claim = (claimed, claim) if len(claimed) >= len(claim) else (claim, claimed)
        for name, amount in claim.items():
            claimed[name] = claimed.get(name, 0) + amount
    yield from _claimed_fits(located, claimed, most)
    for name in own:
        del most[name]
    most.update(hidden)
    guaranteed = located.queue.guaranteed
    return dict(guaranteed) if guaranteed and any(guaranteed.values()) else claimed


def _claimed_fits(located: LocatedQueue, claimed: Mapping[str, int], most: _Most) -> Iterator[Finding]:
    guaranteed = located.queue.guaranteed or Resource()
    for name in claimed.keys() & guaranteed.keys():
        if claimed[name] > guaranteed[name]:
            message = f"{_together(located, name, claimed)}, but {located.queue_path} only "
            path, sources = (*located.path, "resources", "guaranteed", name), ((*located.path, "queues"),)
            code = "queue-guaranteed-sum-above-guaranteed"
            yield Finding(path, code, message + format_amount(name, guaranteed[name]), sources)
    for name in claimed.keys() & most.keys():
        if claimed[name] > most[name][1]:
            message = f"{_together(located, name, claimed)}, but {_owner(most[name], name)}"
            path, sources = (*located.path, "resources", "max", name), ((*located.path, "queues"),)
            yield Finding(path, "queue-guaranteed-sum-above-max", message, sources)


def _together(located: LocatedQueue, name: str, claimed: Mapping[str, int]) -> str:
    return f"the queues below {located.queue_path} are guaranteed {_text(name, claimed[name])} together"


def applications_fit_above(located: LocatedQueue) -> Iterator[Finding]:
    """Each child of a queue with a maximum of applications has a maximum, too, which is not larger.

    Source: Apache YuniKorn, partition and queue configuration, "Queues".
    """
    if not located.parent or not located.parent.queue.max_applications:
        return
    count, most = located.queue.max_applications, located.parent.queue.max_applications
    if not count:
        message = (
            f"{located.queue_path} has no maximum of applications, but {located.parent.queue_path} has one of {most}"
        )
        sources = ((*located.path, "maxapplications"),)
        yield Finding(located.path, "queue-applications-missing", message, sources)
    elif count > most:
        message = f"{located.queue_path} may run {count} applications, but {located.parent.queue_path} only {most}"
        yield Finding((*located.path, "maxapplications"), "queue-applications-above-parent", message)


def template_fits_queue(located: LocatedQueue) -> Iterator[Finding]:
    """A queue created from a template must satisfy the rules of queues; Apache YuniKorn does not check templates.

    The guarantee of the template does not exceed its maximum, and neither exceeds the maximum of its queue.

    Source: Apache YuniKorn, partition and queue configuration, "Child Template".
    """
    template = located.queue.child_template
    if template is None:
        return
    path, owner = (*located.path, "childtemplate"), f"the child template of {located.queue_path}"
    guaranteed, most = template.resources.guaranteed, template.resources.max
    resources = (*path, "resources")
    for name, text in _guaranteed_above(guaranteed, most):
        at, sources = (*resources, "guaranteed", name), ((*resources, "max"),)
        yield Finding(at, "template-guaranteed-above-max", f"{owner} {text}", sources)
    for field, amounts, gives in (("guaranteed", guaranteed, "guarantees"), ("max", most, "allows")):
        for name, amount in (amounts or {}).items():
            above = _nearest_max(located, name)
            if above and amount > above[1]:
                message = f"{owner} {gives} {_text(name, amount)}, but {_owner(above, name)}"
                yield Finding((*resources, field, name), "template-above-queue", message)
    count, applications = template.max_applications, located.queue.max_applications
    if applications and count > applications:
        message = f"{owner} allows {count} applications, but {located.queue_path} may run only {applications}"
        yield Finding((*path, "maxapplications"), "template-above-queue", message)


def _nearest_max(located: LocatedQueue | None, name: str) -> tuple[LocatedQueue, int] | None:
    """Find the nearest maximum of a resource, from a queue upward."""
    while located is not None:
        if name in located.maxima:
            return located, located.maxima[name]
        located = located.parent
    return None


def _owner(above: tuple[LocatedQueue, int], name: str) -> str:
    located, most = above
    return f"{located.queue_path} only {format_amount(name, most)}"


def _text(name: str, amount: int) -> str:
    return f"{cut(name)} {format_amount(name, amount)}"


QUEUE_RULES: Final[tuple[Callable[[LocatedQueue], Iterator[Finding]], ...]] = (
    queue_name_is_valid,
    queue_name_is_not_root,
    child_names_differ,
    acls_have_two_parts,
    max_fits_above,
    guaranteed_fits_max,
    applications_fit_above,
    template_fits_queue,
)
#: The keys of attributes that are called differently in a file.
_KEYS: Final = {"start": "from"}


def schedule_entries_have_times(located: LocatedQueue) -> Iterator[Finding]:
    """Every entry of a schedule has valid days, hours, dates and a known time zone, and ends after its beginning."""
    for path, entry in _entries(located):
        # Imported late: most configurations have no schedules.
        from ugm.configuration.schedules import parse_entry  # noqa: PLC0415 - as above

        try:
            parse_entry(entry)
        except RequestError as error:
            key = _KEYS.get(error.argument, error.argument)
            sources = tuple((*path, name) for name in ("from", "until")) if key == "until" else ()
            yield Finding((*path, key), "schedule-time-invalid", f"{quote(str(error.value))}: {error.reason}", sources)


def schedule_entries_set_something(located: LocatedQueue) -> Iterator[Finding]:
    """Every entry of a schedule sets a maximum of resources or of applications."""
    for path, entry in _entries(located):
        if not entry.max_resources and not entry.max_applications:
            sources = ((*path, "maxresources"), (*path, "maxapplications"))
            message = "the entry sets no maximum (required: maxresources or maxapplications)"
            yield Finding(path, "schedule-sets-nothing", message, sources)
        elif entry.max_resources and not any(entry.max_resources.values()):
            message = "every resource of the entry is 0 (allowed: at least one above 0)"
            yield Finding((*path, "maxresources"), "schedule-resources-zero", message)


def _entries(located: LocatedQueue) -> Iterator[tuple[Path, ScheduledLimit]]:
    """Yield the entries of all schedules of a queue with their paths."""
    places = [((*located.path, "ugm"), located.queue.ugm)]
    places += [((*located.limits_path, index, "ugm"), limit.ugm) for index, limit in enumerate(located.queue.limits)]
    for path, extensions in places:
        for index, entry in enumerate(extensions.schedule):
            yield (*path, "schedule", index), entry


SCHEDULE_RULES: Final[tuple[Callable[[LocatedQueue], Iterator[Finding]], ...]] = (
    schedule_entries_have_times,
    schedule_entries_set_something,
)

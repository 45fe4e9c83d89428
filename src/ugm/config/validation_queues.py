"""The rules of queues: names, access control lists, maxima and guarantees."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final, TypeAlias

from ugm.config.findings import Finding, LocatedQueue
from ugm.errors import RequestError, cut, quote
from ugm.identity import ROOT
from ugm.queues.acl import Acl
from ugm.queues.placement_rules import QUEUE_NAMES
from ugm.resources import Resource, format_amount

__all__ = ["QUEUE_RULES", "guaranteed_fits_above"]

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

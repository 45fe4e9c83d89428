"""Allocations as values: the request, the properties, and the current state of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, cast

from ugm.arguments import require_exact_name, require_resource
from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = [
    "DEFAULT_PRIORITY",
    "MAX_DURATION",
    "NO_USAGE",
    "PLAIN",
    "Allocation",
    "AllocationRequest",
    "AllocationSpec",
    "AllocationState",
    "Traits",
    "request_of",
    "require_duration",
    "require_specs",
    "shared_traits",
    "traits_of",
]

#: Priorities are signed 32-bit integers, as in Kubernetes: below this number, and not below its negative.
_PRIORITY_BOUND: Final = 2**31
_EXPECTED_SPEC: Final = "expected an AllocationSpec, or a tuple of its first fields: the id and the usage"

#: The longest promised duration, in seconds: about 3,000 years.
MAX_DURATION: Final = 10**11

#: The fast path compares priorities with this object by identity, because a test of the type costs each allocation 9 ns
#: more. A value that is only equal takes the slow path, which rejects other types.
DEFAULT_PRIORITY: Final = 0


class AllocationState(StrEnum):
    """The state of an allocation."""

    #: Requested, and not counted.
    PENDING = "pending"
    #: Granted, and counted.
    HELD = "held"
    #: Marked to stop, and counted until its release.
    TERMINATING = "terminating"


class AllocationRequest(NamedTuple):
    """The request for an allocation, for example one of several that are granted together."""

    allocation_id: str
    application_id: str
    usage: Resource
    #: Whether the allocation only reserves resources for a real allocation, which replaces it.
    placeholder: bool = False
    priority: int = 0
    preemptible: bool = True
    #: The promised number of seconds from the grant to the release; None if nothing is promised.
    duration: int | None = None
    #: The node that the allocation runs on; None if it is unknown or chosen later. Limits do not depend on it.
    node: str | None = None


#: The usage that a call leaves out because it passes an `AllocationRequest`; no method accepts it as a usage.
NO_USAGE: Final = cast("Resource", None)
#: The properties of a request that names none.
_NO_PROPERTIES: Final = (False, 0, True, None, None)


def request_of(
    allocation_id: str | AllocationRequest,
    application_id: str,
    usage: Resource,
    properties: tuple[bool, int, bool, int | None, str | None],
) -> AllocationRequest:
    """Return the request of a call, which may pass it as a whole.

    Raises:
        RequestError: the call passes a request and other arguments.
    """
    if not isinstance(allocation_id, AllocationRequest):
        return AllocationRequest(allocation_id, application_id, usage, *properties)
    if (application_id, usage, properties) != ("", NO_USAGE, _NO_PROPERTIES):
        raise RequestError("request", allocation_id, "it has all properties; expected no other arguments")
    return allocation_id


class Traits(NamedTuple):
    """The properties of an allocation besides its usage and its application; equal traits are one object."""

    state: AllocationState
    placeholder: bool
    priority: int
    preemptible: bool
    #: The promised end; None if the allocation is pending or nothing is promised.
    until: int | None = None
    #: The promised number of seconds from the grant, or from the last renewal, to the end.
    duration: int | None = None
    node: str | None = None


#: Returns one object for equal traits, because a few combinations serve millions of allocations. The bound is for
#: priorities that all differ.
shared_traits: Final = lru_cache(maxsize=4096)(Traits)


#: The traits of nearly every allocation.
PLAIN: Final = shared_traits(AllocationState.HELD, False, 0, True)  # noqa: FBT003 - the cache takes positions only


def traits_of(state: AllocationState, request: AllocationRequest, now: int = 0) -> Traits:
    """Return the traits of a requested allocation.

    Args:
        state: the state of the allocation.
        request: the request.
        now: the time; needed if a duration is promised and the allocation is not pending.

    Raises:
        RequestError: a property has a wrong type or value.
    """
    _, _, _, placeholder, priority, preemptible, duration, node = request
    if type(placeholder) is not bool:
        raise RequestError("placeholder", placeholder, "expected True or False")
    if type(priority) is not int or not -_PRIORITY_BOUND <= priority < _PRIORITY_BOUND:
        raise RequestError("priority", priority, "expected an int from -2**31 to 2**31 - 1")
    if type(preemptible) is not bool:
        raise RequestError("preemptible", preemptible, "expected True or False")
    if node is not None:
        require_exact_name("node", node)
    if duration is None:
        return shared_traits(state, placeholder, priority, preemptible, None, None, node)
    require_duration(duration)
    until = None if state is AllocationState.PENDING else now + duration
    return shared_traits(state, placeholder, priority, preemptible, until, duration, node)


def require_duration(duration: object) -> None:
    """Check a promised duration.

    Raises:
        RequestError: it has a wrong type or value.
    """
    if type(duration) is not int or not 0 < duration <= MAX_DURATION:
        raise RequestError("duration", duration, f"expected whole seconds, from 1 to {MAX_DURATION}")


class Allocation(NamedTuple):
    """An allocation at one moment."""

    allocation_id: str
    application_id: str
    usage: Resource
    state: AllocationState
    placeholder: bool
    priority: int
    preemptible: bool
    #: The second since 1970 at which its release is promised; None if nothing is promised, or it is pending.
    until: int | None = None
    #: The promised number of seconds from the grant, or from the last renewal, to the end; None if nothing is promised.
    duration: int | None = None
    #: The node that it runs on, or that a plan of preemption has chosen for it while it is pending.
    node: str | None = None

    @classmethod
    def of(cls, allocation_id: str, application_id: str, usage: Resource, traits: Traits) -> Allocation:
        """Return the allocation of an entry in the ledger."""
        return cls(allocation_id, application_id, usage, *traits)

    @property
    def traits(self) -> Traits:
        """The properties besides the ids and the usage."""
        return shared_traits(*self[3:])

    def to_dict(self) -> Mapping[str, object]:
        """Return the allocation for JSON, with the names of its attributes."""
        return {**self._asdict(), "usage": dict(self.usage), "state": self.state.value}


class AllocationSpec(NamedTuple):
    """An allocation of an application that is named with it; a tuple of the first fields is enough."""

    allocation_id: str
    usage: Resource
    placeholder: bool = False
    priority: int = 0
    preemptible: bool = True
    #: The promised number of seconds from now to the release; None if nothing is promised.
    duration: int | None = None
    node: str | None = None

    def request(self, application_id: str) -> AllocationRequest:
        """Return the request of an application for this allocation."""
        return AllocationRequest(self.allocation_id, application_id, *self[1:])


def require_specs(allocations: object) -> tuple[AllocationSpec, ...]:
    """Return the allocations of an application. The iterable is foreign code, so it is read before the lock is taken.

    Raises:
        RequestError: an item is not an allocation, or an id occurs twice.
    """
    if not isinstance(allocations, Iterable):
        raise RequestError("allocations", allocations, "expected an iterable of allocations")
    by_id: dict[str, AllocationSpec] = {}
    for item in allocations:
        if isinstance(item, AllocationRequest) or not isinstance(item, Iterable):
            raise RequestError("allocations", item, _EXPECTED_SPEC)
        try:
            spec = AllocationSpec(*item)
        except TypeError as error:
            raise RequestError("allocations", item, _EXPECTED_SPEC) from error
        require_exact_name("allocation_id", spec.allocation_id)
        require_resource("usage", spec.usage)
        traits_of(AllocationState.PENDING, spec.request(""))
        if by_id.setdefault(spec.allocation_id, spec) is not spec:
            raise RequestError("allocations", spec.allocation_id, "the allocation occurs twice")
    return tuple(by_id.values())

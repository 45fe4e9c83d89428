"""Allocations as values: the request, the properties, and the current state of one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = [
    "DEFAULT_PRIORITY",
    "PLAIN",
    "Allocation",
    "AllocationRequest",
    "AllocationState",
    "Traits",
    "shared_traits",
    "traits_of",
]

#: Priorities are signed 32-bit integers, as in Kubernetes: below this number, and not below its negative.
_PRIORITY_BOUND: Final = 2**31

#: The fast path compares priorities with this object by identity, because a test of the type costs each allocation 9 ns
#: more. A value that is only equal takes the slow path, which rejects other types.
DEFAULT_PRIORITY: Final = 0


class AllocationState(StrEnum):
    """The state of an allocation."""

    #: Requested, and not counted.
    PENDING = "pending"
    #: Granted, and counted.
    HELD = "held"
    #: Marked to stop, and counted until its release. Journals and clients know the state as ``going``.
    TERMINATING = "going"


class AllocationRequest(NamedTuple):
    """The request for an allocation, for example one of several that are granted together."""

    allocation_id: str
    application_id: str
    usage: Resource
    #: Whether the allocation only reserves resources for a real allocation, which replaces it.
    placeholder: bool = False
    priority: int = 0
    preemptible: bool = True


class Traits(NamedTuple):
    """The properties of an allocation besides its usage and its application; equal traits are one object."""

    state: AllocationState
    placeholder: bool
    priority: int
    preemptible: bool


#: Returns one object for equal traits, because a few combinations serve millions of allocations. The bound is for
#: priorities that all differ.
shared_traits: Final = lru_cache(maxsize=4096)(Traits)


#: The traits of nearly every allocation.
PLAIN: Final = shared_traits(AllocationState.HELD, False, 0, True)  # noqa: FBT003 - the cache takes positions only


def traits_of(state: AllocationState, request: AllocationRequest) -> Traits:
    """Return the traits of a requested allocation.

    Raises:
        RequestError: a property has a wrong type or value.
    """
    _, _, _, placeholder, priority, preemptible = request
    if type(placeholder) is not bool:
        raise RequestError("placeholder", placeholder, "expected True or False")
    if type(priority) is not int or not -_PRIORITY_BOUND <= priority < _PRIORITY_BOUND:
        raise RequestError("priority", priority, "expected a number of 32 bits")
    if type(preemptible) is not bool:
        raise RequestError("preemptible", preemptible, "expected True or False")
    return shared_traits(state, placeholder, priority, preemptible)


class Allocation(NamedTuple):
    """An allocation at one moment."""

    allocation_id: str
    application_id: str
    usage: Resource
    state: AllocationState
    placeholder: bool
    priority: int
    preemptible: bool

    def to_dict(self) -> Mapping[str, object]:
        """Return the allocation for JSON, with the names of its attributes."""
        return {**self._asdict(), "usage": dict(self.usage), "state": self.state.value}

"""The lines of the ledger: one for every allocation that is held, or asked for and pending."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ugm.errors import RequestError
from ugm.model import Claim
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.partition.application import Application

__all__ = [
    "DEFAULT_PRIORITY",
    "PLAIN",
    "Allocation",
    "AllocationRequest",
    "AllocationState",
    "LedgerEntry",
    "Traits",
    "shared_traits",
    "traits_of",
]

#: Priorities are those of a signed 32-bit integer, as in Kubernetes: all below this, and its negative.
_BOUND: Final = 2**31

#: The priority of nearly every allocation. Compared by identity, what only equals it takes the long way, and is refused
#: there; to ask for its type costs each allocation 9 ns more.
DEFAULT_PRIORITY: Final = 0


class AllocationState(StrEnum):
    """How far an allocation has come."""

    #: Asked for, and not counted.
    PENDING = "pending"
    #: Counted.
    HELD = "held"
    #: Told to go, and counted until its release is confirmed.
    TERMINATING = "going"


class AllocationRequest(NamedTuple):
    """One of several allocations that are granted together or not at all."""

    allocation_id: str
    application_id: str
    usage: Resource
    #: Whether it only keeps room for a real allocation, which will replace it.
    placeholder: bool = False
    priority: int = 0
    preemptible: bool = True


class Traits(NamedTuple):
    """All of an allocation but what it takes and for whom; equal traits are one object."""

    state: AllocationState
    placeholder: bool
    priority: int
    preemptible: bool


#: Traits by their parts: a few combinations serve millions of allocations. The bound is for priorities that all differ.
shared_traits: Final = lru_cache(maxsize=4096)(Traits)


#: What nearly every allocation is.
PLAIN: Final = shared_traits(AllocationState.HELD, False, 0, True)  # noqa: FBT003 - the cache takes positions only


def traits_of(state: AllocationState, request: AllocationRequest) -> Traits:
    """Return the traits of what is asked.

    Raises:
        RequestError: one of them is of the wrong kind.
    """
    _, _, _, placeholder, priority, preemptible = request
    if type(placeholder) is not bool:
        raise RequestError("placeholder", placeholder, "expected True or False")
    if type(priority) is not int or not -_BOUND <= priority < _BOUND:
        raise RequestError("priority", priority, "expected a number of 32 bits")
    if type(preemptible) is not bool:
        raise RequestError("preemptible", preemptible, "expected True or False")
    return shared_traits(state, placeholder, priority, preemptible)


class LedgerEntry(NamedTuple):
    """One line of the ledger. It is replaced, never changed."""

    application: Application
    usage: Resource
    traits: Traits

    def in_state(self, state: AllocationState) -> LedgerEntry:
        """Return the entry in another state."""
        return self._replace(traits=shared_traits(state, *self.traits[1:]))

    def is_same(self, other: LedgerEntry) -> bool:
        """Return whether both are for the same, whatever their state: the call that made one may be a retry."""
        return (
            self.application is other.application and self.usage == other.usage and self.traits[1:] == other.traits[1:]
        )

    def claim(self, allocation_id: str) -> Claim:
        """Return the entry as the question that a quota model is asked."""
        application, usage, (_, _, priority, preemptible) = self
        return Claim(
            allocation_id,
            application.application_id,
            usage,
            application.queue.queue_path,
            application.submission.user,
            application.submission.tags,
            priority,
            preemptible,
        )

    def shown(self, allocation_id: str) -> Allocation:
        """Return the entry for somebody outside."""
        application, usage, traits = self
        return Allocation(allocation_id, application.application_id, usage, *traits)


class Allocation(NamedTuple):
    """An allocation at one moment."""

    allocation_id: str
    application_id: str
    usage: Resource
    state: AllocationState
    placeholder: bool
    priority: int
    preemptible: bool

    def to_dict(self) -> Mapping[str, Any]:
        """Return the allocation for JSON, in the same words as its attributes."""
        return {**self._asdict(), "usage": dict(self.usage), "state": self.state.value}

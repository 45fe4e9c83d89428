"""The claims of a log: its events as calls of a quota model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, final

from ugm.identity import UserGroup
from ugm.model import Claim
from ugm.partition.allocation import Allocation, AllocationState
from ugm.partition.checkpoint import ApplicationRecord
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationSubmitted,
    Event,
    Released,
    Renewed,
    RequestWithdrawn,
    Resized,
)
from ugm.partition.model_calls import Call, pending_claim
from ugm.resources import Resource

__all__ = ["ClaimHistory", "ClaimOwner"]


class ClaimOwner(NamedTuple):
    """The part of a claim that its application determines."""

    queue_path: str
    user: UserGroup
    tags: Mapping[str, str]


@final
class ClaimHistory:
    """Turns events into calls of a model.

    Args:
        applications: the applications before the first event.
    """

    __slots__ = ("_owners", "_pending")

    def __init__(self, applications: Iterable[ApplicationRecord]) -> None:
        self._owners: Final[dict[str, ClaimOwner]] = {}
        #: The ids of the pending allocations.
        self._pending: Final[set[str]] = set()
        for application in applications:
            application_id, user, _, tags = application.submission
            self._owners[application_id] = ClaimOwner(application.queue_path, user, tags)

    def owner(self, application_id: str) -> ClaimOwner | None:
        """Return the owner of the claims of an application, if it is known."""
        return self._owners.get(application_id)

    def claim(self, one: Allocation, usage: Resource | None = None) -> Claim:
        """Return the claim of an allocation, with its usage or another one."""
        owner = self._owners[one.application_id]
        amounts = one.usage if usage is None else usage
        return Claim(one.allocation_id, one.application_id, amounts, *owner, one.priority, one.preemptible, one.until)

    def start(self, one: Allocation) -> list[Call]:
        """Return the calls for an allocation that is new, or was pending."""
        if one.state is AllocationState.PENDING:
            self._pending.add(one.allocation_id)
            return [("add_pending", self.claim(one))]
        claim = self.claim(one)
        calls: list[Call] = [("charge", claim)]
        if one.allocation_id in self._pending:
            self._pending.remove(one.allocation_id)
            calls.insert(0, ("remove_pending", pending_claim(claim)))
        return calls

    def calls(self, events: Iterable[Event]) -> Iterator[Call]:
        """Yield the calls for the events of one change."""
        for event in events:
            match event:
                case ApplicationSubmitted():
                    self._owners[event.application_id] = ClaimOwner(event.queue_path, event.user, event.tags)
                case ApplicationEnded():
                    self._owners.pop(event.application_id, None)
                case Allocated(one) | AllocationRequested(one):
                    yield from self.start(one)
                case Released(one):
                    yield "refund", self.claim(one)
                case RequestWithdrawn(one):
                    self._pending.discard(one.allocation_id)
                    yield "remove_pending", self.claim(one)
                case Resized(one, before):
                    yield "refund", self.claim(one, before)
                    yield "charge", self.claim(one)
                case Renewed(one, until):
                    yield "refund", self.claim(one)._replace(until=until)
                    yield "charge", self.claim(one)

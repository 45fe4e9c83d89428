"""The past of a partition as calls of quota models, for models whose limits depend on past usage.

A journal has the instant of every change, so a model that is called with all changes in their order, each at its time,
is in the state in which the partition has left it. Instants are rounded down to seconds, as in the partition.

For the time before the last compaction, a journal has the usage of applications, without the allocations. The model
then gets a claim for each interval. If the application has ended since, its user has only the group that the usage was
charged to, and its tags are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, final

from ugm.identity import UserGroup
from ugm.journal.contents import JournalContents
from ugm.journal.log import Log
from ugm.journal.usage_intervals import decode_intervals
from ugm.model import Claim
from ugm.partition.allocation import Allocation, AllocationState
from ugm.partition.event_codec import decode_user
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationSubmitted,
    Event,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.partition.model_set import Call, PastCall, charging
from ugm.resources import Resource

__all__ = ["past_calls"]


class _Owner(NamedTuple):
    """The part of a claim that its application determines."""

    queue_path: str
    user: UserGroup
    tags: Mapping[str, str]


@final
class _Claims:
    """Turns events into calls of a model."""

    __slots__ = ("_owners", "_pending")

    def __init__(self) -> None:
        self._owners: Final[dict[str, _Owner]] = {}
        #: The ids of the pending allocations.
        self._pending: Final[set[str]] = set()

    def add_application(self, application_id: str, owner: _Owner) -> None:
        """Note the owner of the claims of an application."""
        self._owners[application_id] = owner

    def owner(self, application_id: str) -> _Owner | None:
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
        calls = charging(self.claim(one), pending=one.allocation_id in self._pending)
        self._pending.discard(one.allocation_id)
        return calls

    def calls(self, events: Iterable[Event]) -> Iterator[Call]:
        """Yield the calls for the events of one change."""
        for event in events:
            match event:
                case ApplicationSubmitted():
                    self.add_application(event.application_id, _Owner(event.queue_path, event.user, event.tags))
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


def past_calls(log: Log) -> Iterator[PastCall]:
    """Yield all calls of a model since the beginning of a log, each with its second, in their order."""
    with log.open_contents() as contents:
        start, claims = contents.start, _Claims()
        for application in start.checkpoint.applications:
            application_id, user, _, tags = application.submission
            claims.add_application(application_id, _Owner(application.queue_path, user, tags))
        yield from _of_history(contents, claims)
        for allocation in start.checkpoint.allocations:
            yield from ((start.at // 1000, call) for call in claims.start(allocation))
        for entry in contents.changes():
            second = entry.at // 1000
            yield from ((second, call) for call in claims.calls(entry.events))


def _of_history(contents: JournalContents, claims: _Claims) -> Iterator[PastCall]:
    """Yield the calls for the usage before the last compaction."""
    found: list[PastCall] = []
    for record in contents.history():
        for one in decode_intervals(record):
            usage, owner = Resource(one.usage), claims.owner(one.application_id)
            if owner is None or (owner.user.name, owner.queue_path) != (one.user, one.queue_path):
                user = decode_user(one.user, () if one.group is None else (one.group,))
                owner = _Owner(one.queue_path, user, {})
            claim = Claim("", one.application_id, usage, *owner)
            found += [(one.begin // 1000, ("charge", claim)), (one.end // 1000, ("refund", claim))]
    # A charge comes before a refund of the same second.
    return iter(sorted(found, key=lambda call: (call[0], call[1][0])))

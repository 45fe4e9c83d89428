"""The past of a partition as calls of quota models, for models whose limits depend on past usage.

A journal has the instant of every change. A model that receives all changes in their order, each at its time, reaches
the same state as the model of the partition. Instants are rounded down to seconds, as in the partition.

For the time before the last compaction, a journal has the usage of applications, without the allocations. The model
then gets a claim for each interval. If the application has ended since, its user has only the group that the usage was
charged to, and its tags are not known. Declared models have their own past; see `ugm.journal.declared_past`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from heapq import merge
from itertools import count
from operator import itemgetter

from ugm.identity import UserGroup
from ugm.journal.claim_history import ClaimHistory, ClaimOwner
from ugm.journal.contents import JournalContents
from ugm.journal.usage_intervals import decode_intervals
from ugm.model import Claim
from ugm.partition.event_codec import decode_rows
from ugm.partition.events import BudgetChanged, Event
from ugm.partition.model_calls import Call, PastCall
from ugm.resources import Resource

__all__ = ["calls_before", "past_calls"]


def past_calls(open_contents: Callable[[], AbstractContextManager[JournalContents]]) -> Iterator[PastCall]:
    """Yield all calls of a model since the beginning of a log, each with its second, in their order.

    Args:
        open_contents: opens the log.
    """
    with open_contents() as contents, contents.decoding():
        start, claims = contents.start, ClaimHistory(contents.start.checkpoint.applications)
        yield from calls_before(contents, claims)
        for allocation in start.checkpoint.allocations:
            yield start.at // 1000, claims.start(allocation)
        for entry in contents.changes():
            for operation in entry.operations:
                yield from _operation_calls(entry.at // 1000, operation.events, claims)


def _operation_calls(second: int, events: tuple[Event, ...], claims: ClaimHistory) -> Iterator[PastCall]:
    yield second, [*claims.calls(events)]
    yield from ((second, event.change) for event in events if isinstance(event, BudgetChanged))


def calls_before(contents: JournalContents, claims: ClaimHistory) -> Iterator[PastCall]:
    """Yield the calls for the usage before the last compaction."""
    found: list[tuple[int, Call]] = []
    numbers = count()
    changes: list[PastCall] = []
    for record in contents.history():
        if record[0] == "budget":
            _, _, at, row = record
            [event] = decode_rows([row], contents.start.compiled)
            if not isinstance(event, BudgetChanged):
                raise TypeError("expected a change of a budget")
            changes.append((at // 1000, event.change))
        for one in decode_intervals(record):
            usage, owner = Resource(one.usage), claims.owner(one.application_id)
            if owner is None or (owner.user.name, owner.queue_path) != (one.user, one.queue_path):
                owner = ClaimOwner(one.queue_path, UserGroup.charged(one.user, one.group), {})
            # Intervals of several applications overlap, and a model may find its claims by their ids.
            claim = Claim(f"{one.application_id}:{next(numbers)}", one.application_id, usage, *owner)
            found += [(one.begin // 1000, ("charge", claim)), (one.end // 1000, ("refund", claim))]
    # A charge comes before a refund of the same second.
    found.sort(key=lambda call: (call[0], call[1][0]))
    ordered: list[PastCall] = [(second, [call]) for second, call in found]
    return merge(ordered, changes, key=itemgetter(0))

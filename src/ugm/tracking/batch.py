"""Several requests as one: charged together, looked at together, and taken back together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

from ugm.decision import Violation, exceeded, over
from ugm.hierarchy import Node, RequestVector
from ugm.identity import TrackingType
from ugm.resources import Resource
from ugm.tracking.holding import DETACHED, Counted, Holding
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.queue_tracker import QueueTracker
from ugm.tracking.user_tracker import UserTracker

__all__ = ["Demand"]

#: In which order limits are named.
_ORDER: Final = (TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE)


@final
class Demand:
    """What several requests ask together of every limit that holds for them.

    Everything is charged first and looked at afterwards, under the one lock of the partition, so that nobody sees it;
    what does not fit is taken back in reverse order, which leaves no trace. That way the second request of a batch
    meets the applications, groups and counts that the first has made.
    """

    __slots__ = ("_asked", "_charged", "_chosen", "_index", "_short")

    #: Tracker and queue path to what is asked there, by resource name; None counts the applications.
    _asked: dict[tuple[Counted, str], dict[str | None, int]]
    #: What has been charged, and whether that started the application in its queue.
    _charged: list[tuple[Holding, RequestVector, bool]]
    #: The groups that were chosen for applications of a user before one of them was started.
    _chosen: list[tuple[UserTracker, Mapping[str, QueueTracker | None] | None]]
    #: Which limits did not leave what a request asked, when its turn came: all but the figures of a violation.
    _short: set[tuple[str, str, str, str | None]]

    def __init__(self, index: HoldingIndex) -> None:
        self._index: Final = index
        self._asked = {}
        self._charged = []
        self._chosen = []
        self._short = set()

    def charge(self, holding: Holding, usage: Resource, vector: RequestVector) -> None:
        """Charge one more request as if all before it had been granted, and note what it asks and who is short."""
        is_new = holding.epoch is DETACHED
        self._short.update(_limit_of(violation) for violation in holding.violations(vector))
        chain = holding.chain()
        starting = holding.newly_counted(chain) if is_new else ()
        for node in chain:
            asked = self._asked.setdefault((node.owner, node.queue_path), {})
            for name, amount in usage.amounts.items():
                asked[name] = asked.get(name, 0) + amount
            if node in starting:
                asked[None] = asked.get(None, 0) + 1
        self._note_undo(holding, is_new=is_new)
        user = self._index.users.get(holding.owner.name)
        if is_new and user is not None:
            self._chosen.append((user, user.choices))
        self._index.charge(holding, vector)
        self._charged.append((holding, vector, is_new))

    def _note_undo(self, holding: Holding, *, is_new: bool) -> None:
        undo = holding.owner.in_force.lock.undo
        undo.append((holding.restore_amounts, (holding.amounts,)))
        if is_new:
            undo.append((self._index.undo_add, (holding,)))

    def exceeded(self) -> tuple[Violation, ...]:
        """Return every limit that was short, with what all requests together ask of it."""
        return tuple(
            violation
            for (tracker, path), asked in self._in_order()
            for violation in _together(tracker.nodes[path], asked)
            if _limit_of(violation) in self._short
        )

    def _in_order(self) -> list[tuple[tuple[Counted, str], dict[str | None, int]]]:
        """Return what is asked of users, then of groups, then of queues, as they came, each leaf to root."""
        # A user or group has counters in many queues; of a queue there is one, and the deepest of all come first.
        order = {
            tracker: 0 if tracker.kind is TrackingType.QUEUE else position
            for position, (tracker, _) in enumerate(self._asked)
        }
        return sorted(
            self._asked.items(),
            key=lambda item: (_ORDER.index(item[0][0].kind), order[item[0][0]], -item[0][1].count(".")),
        )

    def take_back(self) -> None:
        """Undo everything that was charged."""
        for holding, vector, is_new in reversed(self._charged):
            holding.try_refund(vector)
            if is_new:
                self._index.end(holding)
        for user, choices in reversed(self._chosen):
            user.restore_choices(choices)


def _together(node: Node[Counted], asked: Mapping[str | None, int]) -> Iterator[Violation]:
    """Yield the limits of a node that are exceeded, with what is asked of them, now that all of it is charged."""
    for violation in over(node):
        more = asked.get(violation.resource, 0)
        yield violation._replace(used=violation.used - more, requested=more)
    if node.limit.closed:
        counted = node.limited_resources()
        nowhere = {name: amount for name, amount in asked.items() if name is not None and name not in counted}
        # What nobody has is not counted, and so is not over anything.
        yield from exceeded((node,), node.layout.vector(Resource(nowhere)))


def _limit_of(violation: Violation) -> tuple[str, str, str, str | None]:
    return violation.kind, violation.name, violation.queue_path, violation.resource

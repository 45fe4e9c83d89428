"""What several requests ask together, limit by limit."""

from __future__ import annotations

from typing import final

from ugm.decision import Violation, over
from ugm.resources import Resource
from ugm.tracking.holding import Holding
from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["Demand"]


@final
class Demand:
    """The sum of requests at every limit that holds for them.

    Each request is added before it is charged, so that an application counts as new only where it is.
    """

    __slots__ = ("_asked",)

    #: Tracker and queue path to what is asked there, by resource name; None counts the applications.
    _asked: dict[tuple[QueueTracker, str], dict[str | None, int]]

    def __init__(self) -> None:
        self._asked = {}

    def add(self, holding: Holding, usage: Resource) -> None:
        """Add one request."""
        chain = holding.chain()
        starting = [] if holding.epoch is not None else holding.starting(chain)
        for node in holding.held_to(chain):
            asked = self._asked.setdefault((node.owner, node.queue_path), {})
            for name, amount in usage.amounts.items():
                asked[name] = asked.get(name, 0) + amount
            if node in starting:
                asked[None] = asked.get(None, 0) + 1

    def exceeded(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded now that all of it is charged, with what was asked of it in all."""
        found = []
        for (tracker, path), asked in self._asked.items():
            for violation in over(tracker.nodes[path]):
                if requested := asked.get(violation.resource, 0):
                    found.append(violation._replace(used=violation.used - requested, requested=requested))
        return tuple(found)

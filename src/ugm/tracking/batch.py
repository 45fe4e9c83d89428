"""What several requests ask together, limit by limit."""

from __future__ import annotations

from typing import final

from ugm.decision import Violation
from ugm.resources import Resource
from ugm.tracking.holding import Holding, Link
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
        links = holding.links()
        starting = [] if holding.epoch is not None else holding.starting(links)
        for link in holding.held_to(links):
            asked = self._asked.setdefault((link.tracker, link.queue_path), {})
            for name, amount in usage.amounts.items():
                asked[name] = asked.get(name, 0) + amount
            if link in starting:
                asked[None] = asked.get(None, 0) + 1

    def exceeded(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded now that all of it is charged, with what was asked of it in all."""
        found = []
        for (tracker, path), asked in self._asked.items():
            for over in Link(tracker, path, tracker.nodes[path]).over():
                if requested := asked.get(over.resource, 0):
                    found.append(over._replace(used=over.used - requested, requested=requested))
        return tuple(found)

"""The limits on pending work in the naive partition model, computed from its lists.

Nothing is counted: every answer looks at all applications and all pending requests, and shares no code with
`ugm.partition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from ugm.configuration import LimitConfig, LimitExtensions, PartitionConfig, QueueConfig
from ugm.decision import Violation
from ugm.identity import WILDCARD, TrackingType, UserGroup
from ugm.partition.config.compiled import PendingViolation
from ugm.resources import Resource
from ugm.testing.tracker_model import Place, charged_places

__all__ = ["CountedApplication", "PendingWork"]

#: A place with the name in the configuration and the settings that are in force there.
_Limited: TypeAlias = tuple[Place, str, LimitExtensions]
_FIELDS: Final = {TrackingType.USER: "users", TrackingType.GROUP: "groups"}


class CountedApplication(NamedTuple):
    """An application with its pending requests."""

    queue_path: str
    user: str
    group: str | None
    requests: tuple[Resource, ...]


class PendingWork(NamedTuple):
    """The pending work of one partition, and its limits."""

    config: PartitionConfig | None
    applications: tuple[CountedApplication, ...]

    def of_request(self, one: CountedApplication, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit that one more request of an application would exceed."""
        return self._collect(self._places(one), lambda at: self._requests(at, usage, 1))

    def of_submission(self, queue_path: str, user: UserGroup, group: str | None) -> tuple[Violation, ...]:
        """Return every limit that one more application would exceed."""
        places = self._places(CountedApplication(queue_path, user.name, group, ()))
        return self._collect(places, lambda at: self._submissions(at, 1))

    def exceeded(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded."""
        places = dict.fromkeys(place for one in self.applications for place in self._places(one))
        requests = self._collect(list(places), lambda at: self._requests(at, Resource(), 0))
        return requests + self._collect(list(places), lambda at: self._submissions(at, 0))

    @staticmethod
    def _places(one: CountedApplication) -> list[Place]:
        return charged_places(one.queue_path, one.user, one.group)

    def _collect(self, places: list[Place], found: Callable[[_Limited], Iterator[Violation]]) -> tuple[Violation, ...]:
        return tuple(violation for place in places for violation in found((place, *self._settings(place))))

    def _settings(self, place: Place) -> tuple[str, LimitExtensions]:
        """Return the settings in force at a place, with the name in the configuration."""
        queues = {} if self.config is None else dict(self.config.root.walk())
        queue = queues.get(place.queue_path, QueueConfig("none"))
        if place.kind == TrackingType.QUEUE:
            return "", queue.ugm
        # An application that a group wildcard has selected is charged to the group `*`.
        names = (place.name, WILDCARD) if place.kind == TrackingType.USER else (place.name,)
        for name in names:
            for entry in queue.limits:
                if name in _names(entry, place.kind):
                    return name, entry.ugm
        return "", LimitExtensions()

    def _counted(self, place: Place) -> list[CountedApplication]:
        return [one for one in self.applications if place in self._places(one)]

    def _requests(self, at: _Limited, usage: Resource, number: int) -> Iterator[Violation]:
        place, name, limit = at
        requests = [request for one in self._counted(place) for request in one.requests]
        where = f"pending {place.kind}", place.name, place.queue_path, name
        if limit.max_pending and len(requests) + number > limit.max_pending:
            yield PendingViolation(*where, None, limit.max_pending, len(requests), number)
        for resource, most in (limit.max_pending_resources or {}).items():
            used, amount = sum(request.get(resource, 0) for request in requests), usage.get(resource, 0)
            if used + amount > most and (amount or not number):
                yield PendingViolation(*where, resource, most, used, amount)

    def _submissions(self, at: _Limited, number: int) -> Iterator[Violation]:
        place, name, limit = at
        count = len(self._counted(place))
        if limit.max_submitted and count + number > limit.max_submitted:
            where = f"submitted {place.kind}", place.name, place.queue_path, name
            yield PendingViolation(*where, None, limit.max_submitted, count, number)


def _names(entry: LimitConfig, kind: str) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(entry, _FIELDS[TrackingType(kind)])
    return names

"""A naive model of users, groups and limits: a list of grants, from which every query is computed.

The model caches and counts nothing, and shares no code with the trackers of ugm. It finds limits by walking through the
configuration from the root. Therefore it is slow, but easy to verify by reading.

The model expects valid arguments. It raises the same errors as a tracker for operations that a tracker refuses.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.decision import Violation
from ugm.errors import NotTrackedError, ReleaseError, RequestError
from ugm.identity import WILDCARD, TrackingType, UserGroup
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.tracking.tracker import Request

__all__ = ["Grant", "LimitInForce", "Place", "TrackerModel"]


class Grant(NamedTuple):
    """One change of usage: a granted amount, or a negative amount for a refund."""

    queue_path: str
    application_id: str
    usage: Resource
    user_name: str
    #: The group that the application is charged to, or None.
    group_name: str | None


class Place(NamedTuple):
    """A user or group in one queue, or the queue itself."""

    kind: str
    name: str
    queue_path: str


class LimitInForce(NamedTuple):
    """The limit in force at a place, and its name in the configuration."""

    limit_name: str
    resources: Resource
    applications: int


_NO_LIMIT = LimitInForce("", Resource(), 0)


@final
@dataclass
class TrackerModel:
    """The users and groups of one partition.

    Attributes:
        config: the limits in force; None for none.
        group_limits: as for `ugm.Manager`.
        grants: the changes of all running applications, in order.
        manual_limits: limits that were set manually since the last configuration.

    >>> model = TrackerModel()
    >>> model.increase("root.prod", "app-1", Resource(memory=4), UserGroup("sue"))
    ()
    >>> model.usage(Place(TrackingType.USER, "sue", "root"))
    Resource(memory=4)
    """

    config: PartitionConfig | None = None
    group_limits: Literal["always", "unless-user-limited"] = "always"
    grants: list[Grant] = field(default_factory=list)
    manual_limits: dict[Place, LimitInForce] = field(default_factory=dict)

    # Queries of the grants.

    def grants_at(self, place: Place) -> list[Grant]:
        """Return the grants to a user or group in and below a queue."""
        return [grant for grant in self.grants if place in _places(grant)]

    def usage(self, place: Place) -> Resource:
        """Return the usage of a user or group in and below a queue, without zeros."""
        return _total(grant.usage for grant in self.grants_at(place))

    def applications(self, place: Place) -> set[str]:
        """Return the applications of a user or group that run in or below a queue."""
        return {grant.application_id for grant in self.grants_at(place)}

    def held(self, application_id: str, queue_path: str) -> Resource:
        """Return the usage of an application in one queue, without zeros."""
        return _total(grant.usage for grant in self.grants if grant[:2] == (queue_path.lower(), application_id))

    def running(self) -> list[tuple[str, str, str]]:
        """Return the queue, id and user of all running applications, sorted."""
        return sorted({(grant.queue_path, grant.application_id, grant.user_name) for grant in self.grants})

    def owner(self, application_id: str) -> str | None:
        """Return the user of a running application."""
        return next((grant.user_name for grant in self.grants if grant.application_id == application_id), None)

    # Queries of the configuration.

    def group_for(self, queue_path: str, application_id: str, user: UserGroup) -> str | None:
        """Return the group of an application, which is assigned with its first usage."""
        for grant in self.grants:
            if (grant.application_id, grant.user_name) == (application_id, user.name):
                return grant.group_name
        for path in _upward(queue_path.lower()):
            named = [group for entry in self._entries(path) for group in entry.groups]
            for group in named:
                if group in user.groups:
                    return group
            if user.groups and WILDCARD in named:
                return WILDCARD
        return None

    def limit(self, place: Place) -> LimitInForce:
        """Return the limit in force for a user or group at one queue."""
        if place in self.manual_limits:
            return self.manual_limits[place]
        is_user = place.kind is TrackingType.USER
        for wanted in (place.name, WILDCARD) if is_user else (place.name,):
            for entry in self._entries(place.queue_path):
                if wanted in (entry.users if is_user else entry.groups):
                    return LimitInForce(wanted, entry.max_resources or Resource(), entry.max_applications)
        return _NO_LIMIT

    def _entries(self, queue_path: str) -> Sequence[LimitConfig]:
        queue: QueueConfig | None = None if self.config is None else self.config.root
        for name in queue_path.split(".")[1:]:
            queue = next((child for child in queue.queues if child.name.lower() == name), None) if queue else None
        return queue.limits if queue else ()

    def _limited_places(self, queue_path: str, application_id: str, user: UserGroup) -> list[Place]:
        """Return the places with limits for a request: of the user, then of the group, each from leaf to root."""
        path, group = queue_path.lower(), self.group_for(queue_path, application_id, user)
        users = [Place(TrackingType.USER, user.name, above) for above in _upward(path)]
        groups = [Place(TrackingType.GROUP, group, above) for above in _upward(path) if group is not None]
        user_limited = any(self.limit(place).limit_name == user.name for place in users)
        return users if user_limited and self.group_limits == "unless-user-limited" else users + groups

    # Decisions.

    def check(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Return every limit that an increase would exceed."""
        self._require_own(application_id, user)
        return self._exceeded(self._limited_places(queue_path, application_id, user), application_id, usage)

    def _require_own(self, application_id: str, user: UserGroup) -> None:
        owner = self.owner(application_id)
        if owner not in (None, user.name):
            raise RequestError("user", user.name, f"application {application_id!r} belongs to user {owner!r}")

    def _exceeded(self, places: list[Place], application_id: str, usage: Resource) -> tuple[Violation, ...]:
        found: list[Violation] = []
        for place in places:
            running = self.applications(place)
            starting = 0 if application_id in running else 1
            found += self._over(place, self.usage(place), usage, len(running), starting)
        return tuple(found)

    def _over(
        self, place: Place, used: Resource, requested: Resource, running: int, starting: int
    ) -> Iterator[Violation]:
        """Yield the limits at a place that *requested* and *starting* applications would exceed."""
        most = self.limit(place)
        for name, amount in most.resources.items():
            now, more = used.get(name, 0), requested.get(name, 0)
            if more > 0 and now + more > amount:
                yield Violation(*place, most.limit_name, name, amount, now, more)
        if most.applications and starting and running + starting > most.applications:
            yield Violation(*place, most.limit_name, None, most.applications, running, starting)

    def headroom(self, queue_path: str, application_id: str, user: UserGroup) -> Resource | None:
        """Return the smallest free amount of each limited resource; None if no limit applies."""
        headroom: dict[str, int] = {}
        for place in self._limited_places(queue_path, application_id, user):
            used = self.usage(place)
            for name, most in self.limit(place).resources.items():
                free = most - used.get(name, 0)
                headroom[name] = min(free, headroom.get(name, free))
        return Resource(headroom) if headroom else None

    def can_run_app(self, queue_path: str, application_id: str, user: UserGroup) -> bool:
        """Return whether an application runs in a queue or may start there."""
        places = self._limited_places(queue_path, application_id, user)
        return not self._exceeded(places, application_id, Resource())

    def over_limit(self) -> set[tuple[Place, str | None, int, int]]:
        """Return every exceeded limit: the place, the resource, the limit and the usage."""
        found: set[tuple[Place, str | None, int, int]] = set()
        for place in {place for grant in self.grants for place in _places(grant)}:
            most, used, running = self.limit(place), self.usage(place), len(self.applications(place))
            for name, amount in most.resources.items():
                if used.get(name, 0) > amount:
                    found.add((place, name, amount, used[name]))
            if 0 < most.applications < running:
                found.add((place, None, most.applications, running))
        return found

    # Changes.

    def increase(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Grant *usage* if it fits; otherwise return the exceeded limits."""
        violations = self.check(queue_path, application_id, usage, user)
        if not violations:
            self.adopt(queue_path, application_id, usage, user)
        return violations

    def adopt(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> None:
        """Grant *usage* even if it exceeds limits."""
        self._require_own(application_id, user)
        group = self.group_for(queue_path, application_id, user)
        self.grants.append(Grant(queue_path.lower(), application_id, usage, user.name, group))

    def increase_all(self, requests: Iterable[Request]) -> tuple[Violation, ...]:
        """Grant several increases or none of them, and return the exceeded limits.

        Each increase is checked after those before it. A violation contains the sum of all requests for the limit.
        """
        before = list(self.grants)
        requested: dict[Place, Resource] = {}
        starting: dict[Place, int] = {}
        short: set[tuple[object, ...]] = set()
        try:
            for path, application_id, usage, user in requests:
                short |= {
                    (*violation[:3], violation.resource) for violation in self.check(path, application_id, usage, user)
                }
                running = {
                    place for grant in self.grants if grant.application_id == application_id for place in _places(grant)
                }
                self.adopt(path, application_id, usage, user)
                for place in _places(self.grants[-1]):
                    requested[place] = requested.get(place, Resource()) + usage
                    starting[place] = starting.get(place, 0) + (place not in running)
        except RequestError:
            self.grants = before
            raise
        found: list[Violation] = []
        for place, more in requested.items():
            count = len(self.applications(place)) - starting[place]
            over = self._over(place, self.usage(place) - more, more, count, starting[place])
            found += [violation for violation in over if (*place, violation.resource) in short]
        if found:
            self.grants = before
        return tuple(found)

    def decrease(
        self, queue_path: str, application_id: str, usage: Resource, user: UserGroup, *, remove_app: bool = False
    ) -> None:
        """Refund *usage*."""
        self._require_holding(queue_path, application_id, usage, user, everything=remove_app)
        path = queue_path.lower()
        back = Resource({name: -amount for name, amount in usage.items()})
        group = self.group_for(queue_path, application_id, user)
        self.grants.append(Grant(path, application_id, back, user.name, group))
        if remove_app:
            self.grants = [grant for grant in self.grants if grant[:2] != (path, application_id)]
            tracked = {place[:2] for grant in self.grants for place in _places(grant)}
            self.manual_limits = {place: most for place, most in self.manual_limits.items() if place[:2] in tracked}

    def _require_holding(
        self, queue_path: str, application_id: str, usage: Resource, user: UserGroup, *, everything: bool = False
    ) -> None:
        self._require_own(application_id, user)
        path = queue_path.lower()
        if (path, application_id, user.name) not in self.running():
            raise NotTrackedError(application_id, path, user.name, "it does not run there")
        held = self.held(application_id, path)
        for name in {**held, **usage}:
            had, back = held.get(name, 0), usage.get(name, 0)
            if back > had or (everything and back < had):
                raise ReleaseError(application_id, path, name, had, back)

    def replace(
        self, queue_path: str, application_id: str, placeholder: Resource, real: Resource, user: UserGroup
    ) -> tuple[Violation, ...]:
        """Replace *placeholder* by *real* if the growth fits; otherwise return the exceeded limits."""
        self._require_holding(queue_path, application_id, placeholder, user)
        growth = Resource({name: more for name, more in (real - placeholder).items() if more > 0})
        violations = self.check(queue_path, application_id, growth, user)
        if not violations:
            self.decrease(queue_path, application_id, placeholder, user)
            self.adopt(queue_path, application_id, real, user)
        back = {violation.resource: placeholder.get(violation.resource or "", 0) for violation in violations}
        return tuple(
            violation._replace(
                used=violation.used - back[violation.resource], requested=violation.requested + back[violation.resource]
            )
            for violation in violations
        )

    def update_config(self, config: PartitionConfig | None) -> None:
        """Replace the configuration, and remove manual limits."""
        self.config, self.manual_limits = config, {}

    def set_limit(self, place: Place, *, resources: Resource | None = None, applications: int | None = None) -> None:
        """Set a part of a limit at a place with running applications; an empty vector or a 0 removes it.

        The name of an existing limit does not change. Without running applications, the call has no effect.
        """
        if not self.grants_at(place):
            return
        now = self.limit(place)
        self.manual_limits[place] = LimitInForce(
            now.limit_name or place.name,
            now.resources if resources is None else resources,
            now.applications if applications is None else applications,
        )
        if not self.manual_limits[place].resources and not self.manual_limits[place].applications:
            self.manual_limits[place] = _NO_LIMIT

    # The visible state.

    def exposed(self) -> dict[str, dict[str, Any]]:
        """Return the visible state in the form of `ugm.testing.exposed`."""
        shown: dict[str, dict[str, Any]] = {"users": {}, "groups": {}}
        for name in sorted({grant.user_name for grant in self.grants}):
            mine = [grant for grant in self.grants if grant.user_name == name]
            groups = {grant.application_id: grant.group_name for grant in mine if grant.group_name is not None}
            shown["users"][name] = {"groups": groups, "queues": self._queues(TrackingType.USER, name, mine)}
        for group in sorted({grant.group_name for grant in self.grants if grant.group_name is not None}):
            mine = [grant for grant in self.grants if grant.group_name == group]
            shown["groups"][group] = {
                "users": sorted({grant.user_name for grant in mine}),
                "applications": sorted({grant.application_id for grant in mine}),
                "queues": self._queues(TrackingType.GROUP, group, mine),
            }
        return shown

    def _queues(self, tracker: TrackingType, name: str, grants: list[Grant]) -> dict[str, Any]:
        paths = sorted({path for grant in grants for path in _upward(grant.queue_path)})
        return {path: self._queue(Place(tracker, name, path)) for path in paths}

    def _queue(self, place: Place) -> dict[str, Any]:
        most = self.limit(place)
        return {
            "usage": dict(self.usage(place)),
            "running_applications": sorted(self.applications(place)),
            "max_resources": dict(most.resources) or None,
            "max_applications": most.applications,
        }


def _upward(queue_path: str) -> list[str]:
    """Return a path and all above it, leaf to root."""
    names = queue_path.split(".")
    return [".".join(names[:count]) for count in range(len(names), 0, -1)]


def _places(grant: Grant) -> list[Place]:
    """Return every place to which a grant is charged."""
    places = [Place(TrackingType.USER, grant.user_name, path) for path in _upward(grant.queue_path)]
    if grant.group_name is not None:
        places += [Place(TrackingType.GROUP, grant.group_name, path) for path in _upward(grant.queue_path)]
    return places


def _total(usages: Iterable[Resource]) -> Resource:
    return sum(usages, Resource()).without_zeros()

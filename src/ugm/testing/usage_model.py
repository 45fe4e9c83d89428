"""A naive model of users, groups and limits: a list of grants, from which every query is computed.

The model caches and counts nothing, and shares no code with the trackers of ugm. It finds limits by walking through the
configuration from the root. Therefore it is slow, but easy to verify by reading. It expects valid arguments.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ugm._json_values import JsonObject
from ugm.configuration import LimitConfig, PartitionConfig
from ugm.decision import Violation
from ugm.identity import ROOT, WILDCARD, TrackingType, UserGroup
from ugm.resources import Resource
from ugm.testing.queue_model import QueueAllowance, QueueModel, upward

if TYPE_CHECKING:
    from ugm.tracking.manager import Request

__all__ = ["Grant", "LimitInForce", "Place", "UsageModel", "charged_places", "grant_places"]


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


@dataclass
class UsageModel:
    """The users and groups of one partition.

    Attributes:
        config: the limits in force; None for none.
        group_limits: as for `ugm.Manager`.
        grants: the changes of all running applications, in order.
        queues: the queues with their quotas; None if queues have no quotas.
        groups: assigned groups by application; the group of any other application is assigned by its first grant.

    >>> model = UsageModel()
    >>> model.adopt("root.prod", "app-1", Resource(memory=4), UserGroup("sue"))
    ()
    >>> model.usage(Place(TrackingType.USER, "sue", "root"))
    Resource(memory=4)
    """

    config: PartitionConfig | None = None
    group_limits: Literal["always", "unless-user-limited"] = "always"
    grants: list[Grant] = field(default_factory=list)
    queues: QueueModel | None = None
    groups: Mapping[str, str | None] = field(default_factory=dict)

    # Queries of the grants.

    def grants_at(self, place: Place) -> list[Grant]:
        """Return the grants at a place and below it."""
        return [grant for grant in self.grants if place in grant_places(grant)]

    def usage(self, place: Place) -> Resource:
        """Return the usage at a place, without zeros."""
        return sum((grant.usage for grant in self.grants_at(place)), Resource()).without_zeros()

    def applications(self, place: Place) -> set[str]:
        """Return the applications that run at a place."""
        return {grant.application_id for grant in self.grants_at(place)}

    # Queries of the configuration.

    def group_for(self, queue_path: str, application_id: str, user: UserGroup) -> str | None:
        """Return the group of an application, which is assigned with its first usage."""
        if application_id in self.groups:
            return self.groups[application_id]
        for grant in self.grants:
            if (grant.application_id, grant.user_name) == (application_id, user.name):
                return grant.group_name
        for path in upward(queue_path.lower()):
            named = [group for entry in self._entries(path) for group in entry.groups]
            for group in named:
                if group in user.groups:
                    return group
            if user.groups and WILDCARD in named:
                return WILDCARD
        return None

    def limit(self, place: Place) -> LimitInForce:
        """Return the limit in force at a place."""
        if place.kind is TrackingType.QUEUE:
            allowed = QueueAllowance() if self.queues is None else self.queues.allowed(place.queue_path)
            return LimitInForce("", allowed.resources or Resource(), allowed.applications)
        name, entry = self.entry(place)
        return LimitInForce(name, entry.max_resources or Resource(), entry.max_applications) if entry else _NO_LIMIT

    def entry(self, place: Place) -> tuple[str, LimitConfig | None]:
        """Return the name in the configuration and the limit that apply to a user or group at a place."""
        is_user = place.kind == TrackingType.USER
        for wanted in (place.name, WILDCARD) if is_user else (place.name,):
            for entry in self._entries(place.queue_path):
                if wanted in (entry.users if is_user else entry.groups):
                    return wanted, entry
        return "", None

    def _entries(self, queue_path: str) -> Sequence[LimitConfig]:
        queue = None if self.config is None else dict(self.config.root.walk()).get(queue_path)
        return queue.limits if queue else ()

    def limited_places(self, queue_path: str, application_id: str, user: UserGroup) -> list[Place]:
        """Return the places with limits for a request: of the user, the group and the queues, each leaf to root."""
        group = self.group_for(queue_path, application_id, user)
        places = charged_places(queue_path.lower(), user.name, group)
        exempt = self.group_limits == "unless-user-limited" and any(
            self.limit(place).limit_name == user.name for place in places if place.kind is TrackingType.USER
        )
        return [place for place in places if not exempt or place.kind is not TrackingType.GROUP]

    # Decisions.

    def check(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Return every limit that an increase would exceed."""
        return self._exceeded(self.limited_places(queue_path, application_id, user), application_id, usage)

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
        """Yield the limits at a place that *requested* and *starting* applications would exceed.

        A quota is compared for every resource of the request, a limit of a user or group only for amounts above 0.
        """
        limit = self.limit(place)
        for name, more in requested.items():
            most, now = self._most(place, name), used.get(name, 0)
            is_compared = more or place.kind is TrackingType.QUEUE
            if is_compared and most is not None and now + more > most:
                yield Violation(*place, limit.limit_name, name, most, now, more)
        if limit.applications and starting and running + starting > limit.applications:
            yield Violation(*place, limit.limit_name, None, limit.applications, running, starting)

    def _most(self, place: Place, name: str) -> int | None:
        """Return the limit on a resource at a place; None for no limit."""
        if place.kind is TrackingType.QUEUE and self.queues is not None:
            return self.queues.most(place.queue_path, name)
        return self.limit(place).resources.get(name)

    def headroom(self, queue_path: str, application_id: str, user: UserGroup) -> Resource | None:
        """Return the smallest free amount of each limited resource; None if no limit applies."""
        return self.headroom_at(self.limited_places(queue_path, application_id, user))

    def headroom_at(self, places: Iterable[Place]) -> Resource | None:
        """Return the smallest free amount of each resource that is limited at some places; None without limits."""
        headroom: dict[str, int] = {}
        places = tuple(places)
        names = {name for place in places for name in self.limit(place).resources}
        for place in places:
            used = self.usage(place)
            # Nothing else than the resources of the nodes is available.
            unavailable = dict.fromkeys(names, 0) if self._is_cluster(place) else {}
            for name, most in {**unavailable, **self.limit(place).resources}.items():
                free = most - used.get(name, 0)
                headroom[name] = min(free, headroom.get(name, free))
        return Resource(headroom) if headroom else None

    def _is_cluster(self, place: Place) -> bool:
        """Return whether the limit at a place is the sum of the nodes."""
        is_root = place.kind is TrackingType.QUEUE and place.queue_path == ROOT
        return is_root and self.queues is not None and self.queues.allowed(ROOT).resources is not None

    def exceeded_limits(self) -> list[Violation]:
        """Return every exceeded limit, sorted by place."""
        return list(self.exceeded_at(sorted({place for grant in self.grants for place in grant_places(grant)})))

    def exceeded_at(self, places: Iterable[Place]) -> Iterator[Violation]:
        """Yield every exceeded limit of some places."""
        for place in places:
            limit, running = self.limit(place), len(self.applications(place))
            for name, used in self.usage(place).items():
                most = self._most(place, name)
                if most is not None and used > most:
                    yield Violation(*place, limit.limit_name, name, most, used, 0)
            if 0 < limit.applications < running:
                yield Violation(*place, limit.limit_name, None, limit.applications, running, 0)

    # Changes.

    def adopt(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Grant *usage* even if it exceeds limits, and return the limits that are exceeded now."""
        group = self.group_for(queue_path, application_id, user)
        self.grants.append(Grant(queue_path.lower(), application_id, usage, user.name, group))
        return tuple(self.exceeded_at(grant_places(self.grants[-1])))

    def increase_all(self, requests: Iterable[Request]) -> tuple[Violation, ...]:
        """Grant several increases or none of them, and return the exceeded limits.

        Each increase is checked after those before it. A violation contains the sum of all requests for the limit.
        """
        after = replace(self, grants=list(self.grants))
        short: set[tuple[object, ...]] = set()
        for request in requests:
            short |= {(*violation[:3], violation.resource) for violation in after.check(*request)}
            after.adopt(*request)
        new = after.grants[len(self.grants) :]
        found: list[Violation] = []
        for place in dict.fromkeys(place for grant in new for place in grant_places(grant)):
            requested = sum((grant.usage for grant in new if place in grant_places(grant)), Resource())
            running = len(self.applications(place))
            starting = len(after.applications(place)) - running
            together = len({(grant.user_name, grant.application_id) for grant in new if place in grant_places(grant)})
            if 0 < self.limit(place).applications < together:
                # The limit never allows them together, so those that run already count as requested.
                running, starting = running + starting - together, together
            over = self._over(place, self.usage(place), requested, running, starting)
            found += [violation for violation in over if (*place, violation.resource) in short]
        if not found:
            self.grants = after.grants
        return tuple(found)

    def check_exchange(
        self, queue_path: str, application_id: str, old: Resource, new: Resource, user: UserGroup
    ) -> tuple[Violation, ...]:
        """Return every limit that the growth from *old* to *new* would exceed, with the usage without *old*."""
        growth = Resource({name: more for name, more in (new - old).items() if more > 0})
        return tuple(
            each._replace(used=each.used - back, requested=each.requested + back)
            for each in self.check(queue_path, application_id, growth, user)
            for back in [old.get(each.resource or "", 0)]
        )

    # The visible state.

    def exposed(self) -> dict[str, JsonObject]:
        """Return the visible state in the form of `ugm.testing.exposed`."""
        shown: dict[str, JsonObject] = {"users": {}, "groups": {}}
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

    def _queues(self, tracker: TrackingType, name: str, grants: list[Grant]) -> JsonObject:
        paths = sorted({path for grant in grants for path in upward(grant.queue_path)})
        return {path: self._queue(Place(tracker, name, path)) for path in paths}

    def _queue(self, place: Place) -> JsonObject:
        most = self.limit(place)
        return {
            "usage": dict(self.usage(place)),
            "running_applications": sorted(self.applications(place)),
            "max_resources": dict(most.resources) or None,
            "max_applications": most.applications,
        }


def grant_places(grant: Grant) -> list[Place]:
    """Return the places that a grant is charged to."""
    return charged_places(grant.queue_path, grant.user_name, grant.group_name)


def charged_places(queue_path: str, user: str, group: str | None) -> list[Place]:
    """Return the places of a user, a group and the queues that usage in a queue is charged to, each leaf to root."""
    paths = upward(queue_path)
    users = [Place(TrackingType.USER, user, path) for path in paths]
    groups = [Place(TrackingType.GROUP, group, path) for path in paths if group is not None]
    return users + groups + [Place(TrackingType.QUEUE, path, path) for path in paths]

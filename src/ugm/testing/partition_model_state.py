"""The state of a naive partition model: lists of applications and allocations, and every query computed from them.

Users and groups come from `ugm.testing.TrackerModel`, queues from `ugm.testing.QueueModel`. For each query, other quota
models are created and charged with all allocations. Nothing is counted or cached, and no code is shared with the
partition. `ugm.testing.PartitionModel` adds the operations that change the lists.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement; resource quota management.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from ugm.decision import Violation
from ugm.identity import TrackingType, UserGroup
from ugm.model import Claim, DemandModel, QuotaModel
from ugm.partition import Allocation, AllocationState, ApplicationInfo, ApplicationState
from ugm.resources import Resource
from ugm.testing.queue_model import QueueModel, upward
from ugm.testing.tracker_model import Grant, Place, TrackerModel

__all__ = ["UNASSIGNED", "PartitionModelState", "SubmittedApplication"]

_PENDING: Final = AllocationState.PENDING
#: The group of an application that has not run yet.
UNASSIGNED: Final = ""


class SubmittedApplication(NamedTuple):
    """An application that has been submitted and has not ended."""

    application_id: str
    user: UserGroup
    #: The requested queue, as it was written.
    queue: str
    tags: Mapping[str, str]
    gang_style: str
    #: The queue of the application.
    queue_path: str
    #: The group that is charged, None for none; ``UNASSIGNED`` before the application runs for the first time.
    group: str | None = UNASSIGNED
    has_run: bool = False
    running: bool = False
    failing: bool = False
    #: Whether a placeholder of the application has been replaced by a real allocation.
    has_replaced: bool = False
    #: Whether the application was adopted, so that the requested queue is unknown.
    is_adopted: bool = False


@dataclass
class PartitionModelState:
    """The state of one partition, and the queries of it."""

    #: The queues, the nodes and the configuration.
    queues: QueueModel = field(default_factory=QueueModel)
    #: As for `ugm.Partition`.
    group_limits: Literal["always", "unless-user-limited"] = "always"
    #: Creates further quota models without charges.
    make_models: Callable[[], Sequence[QuotaModel]] = tuple
    #: By id.
    applications: dict[str, SubmittedApplication] = field(default_factory=dict)
    #: Every allocation, pending ones included, by id.
    held: dict[str, Allocation] = field(default_factory=dict)
    #: Whether the partition is closed.
    closed: bool = False

    def restore(self, applications: dict[str, SubmittedApplication], held: dict[str, Allocation]) -> None:
        """Replace all applications and allocations by earlier copies."""
        self.applications, self.held = applications, held

    def keep_allocations(self, is_kept: Callable[[Allocation], bool]) -> None:
        """Remove all other allocations."""
        self.held = {name: one for name, one in self.held.items() if is_kept(one)}

    # Queries of the lists

    def entries(self, application_id: str | None = None, *, pending: bool = False) -> list[Allocation]:
        """Return the charged or the pending allocations: all, or those of one application."""
        return [
            one
            for one in self.held.values()
            if (one.state is _PENDING) is pending and application_id in (None, one.application_id)
        ]

    def total(self, application_id: str) -> Resource:
        """Return the usage of an application, without zeros."""
        return sum((one.usage for one in self.entries(application_id)), Resource()).without_zeros()

    def running(self) -> list[SubmittedApplication]:
        """Return the running applications."""
        return [application for application in self.applications.values() if application.running]

    @property
    def limits(self) -> TrackerModel:
        """The limits of users and groups, without their usage."""
        return TrackerModel(self.queues.config, self.group_limits)

    def below(self, place: Place) -> set[str]:
        """Return the running applications that are charged to a place."""
        is_user = place.kind is TrackingType.USER
        return {
            app.application_id
            for app in self.running()
            if place.queue_path in upward(app.queue_path)
            and (place.kind is TrackingType.QUEUE or place.name == (app.user.name if is_user else app.group))
        }

    def usage(self, place: Place) -> Resource:
        """Return the usage at a place, without zeros."""
        return sum((self.total(application_id) for application_id in self.below(place)), Resource()).without_zeros()

    def most(self, place: Place, name: str) -> int | None:
        """Return the limit on a resource at a place; None for no limit."""
        if place.kind is TrackingType.QUEUE:
            return self.queues.most(place.queue_path, name)
        return self.limits.limit(place).resources.get(name)

    def most_applications(self, place: Place) -> int:
        """Return the limit on applications at a place; 0 for no limit."""
        if place.kind is TrackingType.QUEUE:
            return self.queues.allowed(place.queue_path).applications
        return self.limits.limit(place).applications

    def state(self, application: SubmittedApplication) -> ApplicationState:
        """Return the state of an application."""
        if application.failing:
            return ApplicationState.FAILING
        if application.running:
            return ApplicationState.RUNNING
        if self.entries(application.application_id, pending=True):
            return ApplicationState.ACCEPTED
        return ApplicationState.COMPLETING if application.has_run else ApplicationState.NEW

    def group_of(self, application: SubmittedApplication) -> str | None:
        """Return the group of an application, assigned or not yet."""
        if application.group != UNASSIGNED:
            return application.group
        return self.limits.group_for(application.queue_path, application.application_id, application.user)

    def places(self, application: SubmittedApplication) -> list[Place]:
        """Return the places of the user, the group and the queues of an application, from leaf to root."""
        paths, group = upward(application.queue_path), self.group_of(application)
        users = [Place(TrackingType.USER, application.user.name, path) for path in paths]
        groups = [Place(TrackingType.GROUP, group, path) for path in paths if group is not None]
        return users + groups + [Place(TrackingType.QUEUE, path, path) for path in paths]

    def limited_places(self, application: SubmittedApplication) -> list[Place]:
        """Return the places whose limits apply to an application."""
        places, limits = self.places(application), self.limits
        users = [place for place in places if place.kind is TrackingType.USER]
        named = any(limits.limit(place).limit_name == application.user.name for place in users)
        if not named or self.group_limits == "always":
            return places
        return [place for place in places if place.kind is not TrackingType.GROUP]

    def exceeded(self, application: SubmittedApplication, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit of users, groups and queues that an additional *usage* would exceed.

        Queue quotas are compared for every resource of the request, limits of users and groups only for amounts > 0.
        """
        found = []
        for place in self.limited_places(application):
            used, count = self.usage(place), len(self.below(place))
            for name, amount in usage.items():
                most = self.most(place, name)
                is_compared = amount or place.kind is TrackingType.QUEUE
                if is_compared and most is not None and used.get(name, 0) + amount > most:
                    found.append(self.violation(place, name, most, used.get(name, 0), amount))
            if not application.running and 0 < self.most_applications(place) <= count:
                found.append(self.violation(place, None, self.most_applications(place), count, 1))
        return tuple(found)

    def violation(self, place: Place, name: str | None, most: int, used: int, requested: int) -> Violation:
        """Return a violation at a place."""
        is_queue = place.kind is TrackingType.QUEUE
        return Violation(*place, "" if is_queue else self.limits.limit(place).limit_name, name, most, used, requested)

    def over(self, places: Iterable[Place]) -> Iterator[Violation]:
        """Yield every exceeded limit of some places."""
        for place in places:
            for name, used in self.usage(place).items():
                most = self.most(place, name)
                if most is not None and used > most:
                    yield self.violation(place, name, most, used, 0)
            if 0 < self.most_applications(place) < len(self.below(place)):
                yield self.violation(place, None, self.most_applications(place), len(self.below(place)), 0)

    def over_limit(self) -> tuple[Violation, ...]:
        """Return every exceeded limit."""
        places = {place for app in self.running() for place in self.places(app)}
        return tuple(self.over(sorted(places)))

    def headroom(self, application_id: str) -> Resource | None:
        """Return the smallest free amount of each limited resource; None if no limit applies."""
        return self.headroom_at(self.limited_places(self.applications[application_id]))

    def headroom_at(self, places: Iterable[Place]) -> Resource | None:
        """Return the smallest free amounts of some places."""
        headroom: dict[str, int] = {}
        for place in places:
            queue = self.queues.allowed(place.queue_path).resources
            limit = queue if place.kind is TrackingType.QUEUE else self.limits.limit(place).resources
            for name, most in (limit or Resource()).items():
                free = most - self.usage(place).get(name, 0)
                headroom[name] = min(free, headroom.get(name, free))
        return Resource(headroom) if headroom else None

    def exposed(self) -> dict[str, Any]:
        """Return the visible state in the form of `ugm.testing.exposed_partition`."""
        grants = [Grant(app.queue_path, app[0], self.total(app[0]), app.user.name, app.group) for app in self.running()]
        return {
            **TrackerModel(self.queues.config, self.group_limits, grants).exposed(),
            "queues": [self._queue(path) for path in self.queues.paths()],
            "applications": [self._shown(self.applications[name]) for name in sorted(self.applications)],
            "allocations": [self.held[name] for name in sorted(self.held)],
            "nodes": dict(sorted(self.queues.nodes.items())),
            "over": sorted(self.over_limit(), key=repr),
        }

    def _queue(self, path: str) -> dict[str, Any]:
        place, allowed = Place(TrackingType.QUEUE, path, path), self.queues.allowed(path)
        return {
            "queue_path": path,
            "is_leaf": self.queues.is_leaf(path),
            "is_managed": path not in self.queues.made,
            "is_draining": self.queues.is_draining(path),
            "max_resources": allowed.resources,
            "max_applications": allowed.applications,
            "guaranteed": allowed.guaranteed,
            "usage": self.usage(place),
            "running_applications": len(self.below(place)),
            "applications": tuple(sorted(app[0] for app in self.applications.values() if app.queue_path == path)),
            "children": len(self.queues.children(path)),
        }

    def _shown(self, app: SubmittedApplication) -> ApplicationInfo:
        held = self.entries(app.application_id)
        return ApplicationInfo(
            *(app.application_id, app.user, app.queue_path, self.state(app), app.group or None),
            *(self.total(app.application_id), len(held)),
            terminating=sum(one.state is AllocationState.TERMINATING for one in held),
            placeholders=sum(one.placeholder for one in held),
            pending=len(self.entries(app.application_id, pending=True)),
            tags=app.tags,
        )

    # Further quota models

    def charged_models(self, leaving: Iterable[str] = (), coming: Iterable[Allocation] = ()) -> Sequence[QuotaModel]:
        """Return new quota models, charged with all allocations but *leaving*, and with *coming*."""
        models, coming = self.make_models(), tuple(coming)
        gone = {*leaving, *(one.allocation_id for one in coming)}
        for model in models:
            for one in (*self.held.values(), *coming):
                if one.allocation_id in gone and one not in coming:
                    continue
                if one.state is not _PENDING:
                    model.charge(self.claim(one))
                elif isinstance(model, DemandModel):
                    model.expect(self.claim(one))
        return models

    def claim(self, one: Allocation) -> Claim:
        """Return an allocation in the form that quota models take."""
        application = self.applications[one.application_id]
        path, user, tags = application.queue_path, application.user, application.tags
        return Claim(*one[:3], path, user, tags, one.priority, one.preemptible)

    def denied_by_models(
        self, one: Allocation, leaving: Iterable[str] = (), coming: Iterable[Allocation] = ()
    ) -> tuple[Violation, ...]:
        """Return every limit of further quota models that denies an allocation."""
        models = self.charged_models(leaving, coming)
        return tuple(violation for model in models for violation in model.check(self.claim(one)))

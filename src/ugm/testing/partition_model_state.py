"""The state of a naive partition model: lists of applications and allocations, and every query computed from them.

A `UsageModel` compares usage with limits and quotas, and a `QueueModel` has the queues. For each query, other quota
models are created and charged with all allocations. Nothing is counted or cached, and no code is shared with the
partition. `ugm.testing.PartitionModel` adds the operations that change the lists.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement; resource quota management.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ugm._json_values import JsonObject
from ugm.configuration import LimitExtensions
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import TrackingType, UserGroup
from ugm.model import Claim, PendingModel, QuotaModel, ReportingModel
from ugm.partition import Allocation, AllocationState, ApplicationInfo, ApplicationState
from ugm.partition.config.compiled import PendingViolation
from ugm.resources import Resource
from ugm.testing.usage_model import Grant, Place, QueueModel, UsageModel, charged_places

__all__ = ["UNASSIGNED", "PartitionModelState", "SubmittedApplication"]

_PENDING: Final = AllocationState.PENDING
#: The group of an application that has not run yet.
UNASSIGNED: Final = ""
_NOTHING: Final = Resource()


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
    #: The time, in seconds.
    now: int = 0

    def keep_allocations(self, is_kept: Callable[[Allocation], bool]) -> None:
        """Remove all other allocations."""
        self.held = {name: one for name, one in self.held.items() if is_kept(one)}

    # Queries of the lists

    def application(self, application_id: str) -> SubmittedApplication:
        """Return an application.

        Raises:
            RequestError: there is no such application.
        """
        if application_id not in self.applications:
            raise RequestError("application_id", application_id, "there is no such application", "application-unknown")
        return self.applications[application_id]

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
    def tracked(self) -> UsageModel:
        """The usage and the limits of users, groups and queues, with a grant for each running application."""
        grants = [Grant(app.queue_path, app[0], self.total(app[0]), app.user.name, app.group) for app in self.running()]
        groups = {app[0]: app.group for app in self.applications.values() if app.group != UNASSIGNED}
        return UsageModel(self.queues.config, self.group_limits, grants, queues=self.queues, groups=groups)

    def usage(self, place: Place) -> Resource:
        """Return the usage at a place, without zeros."""
        return self.tracked.usage(place)

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
        return self.tracked.group_for(application.queue_path, application.application_id, application.user)

    def places(self, application: SubmittedApplication) -> list[Place]:
        """Return the places of the user, the group and the queues of an application, each from leaf to root."""
        return charged_places(application.queue_path, application.user.name, self.group_of(application))

    def exceeded(self, application: SubmittedApplication, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit of users, groups and queues that an additional *usage* would exceed."""
        return self.tracked.check(application.queue_path, application.application_id, usage, application.user)

    def exceeded_limits(self) -> tuple[Violation, ...]:
        """Return every exceeded limit, those of further quota models last."""
        models = (model for model in self.charged_models() if isinstance(model, ReportingModel))
        own = (*self.tracked.exceeded_limits(), *self.over_pending(), *self.over_submitted())
        return (*own, *(found for model in models for found in model.exceeded()))

    # Pending work

    def over_pending(
        self, one: SubmittedApplication | None = None, usage: Resource = _NOTHING
    ) -> tuple[Violation, ...]:
        """Return every limit on pending requests that one more of an application would exceed; or is exceeded."""
        found = list[Violation]()
        for place, applications in self._submitted(one).items():
            name, limit = self._extensions(place)
            where = f"pending {place.kind}", place.name, place.queue_path, name
            pending = [each for app in applications for each in self.entries(app.application_id, pending=True)]
            number = 0 if one is None else 1
            if limit.max_pending and len(pending) + number > limit.max_pending:
                found.append(PendingViolation(*where, None, limit.max_pending, len(pending), number))
            for resource, most in (limit.max_pending_resources or {}).items():
                used, amount = sum(each.usage.get(resource, 0) for each in pending), usage.get(resource, 0)
                if used + amount > most and (amount or not number):
                    found.append(PendingViolation(*where, resource, most, used, amount))
        return tuple(found)

    def over_submitted(self, one: SubmittedApplication | None = None) -> tuple[Violation, ...]:
        """Return every limit on submitted applications that one more would exceed, or that is exceeded."""
        number = 0 if one is None else 1
        found = list[Violation]()
        for place, known in self._submitted(one).items():
            name, limit = self._extensions(place)
            if limit.max_submitted and len(known) + number > limit.max_submitted:
                where = f"submitted {place.kind}", place.name, place.queue_path, name
                found.append(PendingViolation(*where, None, limit.max_submitted, len(known), number))
        return tuple(found)

    def _submitted(self, one: SubmittedApplication | None) -> dict[Place, list[SubmittedApplication]]:
        """Return the applications that count at each place of an application, or of all applications."""
        places = {app.application_id: self.places(app) for app in self.applications.values()}
        wanted = [place for known in places.values() for place in known] if one is None else self.places(one)
        return {
            place: [app for app in self.applications.values() if place in places[app.application_id]]
            for place in wanted
        }

    def _extensions(self, place: Place) -> tuple[str, LimitExtensions]:
        """Return the limits on pending work at a place, with their name in the configuration."""
        if place.kind is TrackingType.QUEUE:
            queue = self.queues.configured(place.queue_path)
            return "", LimitExtensions() if queue is None else queue.ugm
        # An application that a group wildcard has selected is charged to the group `*`.
        name, entry = self.tracked.entry(place)
        return name, LimitExtensions() if entry is None else entry.ugm

    def headroom(self, application_id: str) -> Resource | None:
        """Return the smallest free amount of each limited resource; None if no limit applies."""
        application = self.application(application_id)
        return self.tracked.headroom(application.queue_path, application_id, application.user)

    def exposed(self) -> JsonObject:
        """Return the visible state in the form of `ugm.testing.exposed_partition`."""
        return {
            **self.tracked.exposed(),
            "queues": [self._queue(path) for path in self.queues.paths()],
            "applications": [self._shown(self.applications[name]) for name in sorted(self.applications)],
            "allocations": [self.held[name] for name in sorted(self.held)],
            "nodes": dict(sorted(self.queues.nodes.items())),
            "over": sorted(self.exceeded_limits(), key=tuple.__repr__),
        }

    def _queue(self, path: str) -> JsonObject:
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
            "running_applications": len(self.tracked.applications(place)),
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
                elif isinstance(model, PendingModel):
                    model.add_pending(self.claim(one))
        return models

    def claim(self, one: Allocation) -> Claim:
        """Return an allocation in the form that quota models take."""
        application = self.applications[one.application_id]
        path, user, tags = application.queue_path, application.user, application.tags
        return Claim(*one[:3], path, user, tags, one.priority, one.preemptible, one.until)

    def denied_by_models(
        self, one: Allocation, leaving: Iterable[str] = (), coming: Iterable[Allocation] = ()
    ) -> tuple[Violation, ...]:
        """Return every limit of further quota models that denies an allocation."""
        models = self.charged_models(leaving, coming)
        return tuple(violation for model in models for violation in model.check(self.claim(one)))

"""The state of a naive partition model: lists of applications and allocations, and every query computed from them.

A `QueueModel` has the queues, and limits are found by walking through the configuration. For each query, other quota
models are created and charged with all allocations. Nothing is counted or cached, and no code but that of
placement is shared with the partition. `ugm.testing.PartitionModel` adds the operations that change the lists.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement; resource quota management.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, Self

from ugm._json_values import JsonObject
from ugm.configuration import LimitConfig, LimitExtensions
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, WILDCARD, TrackingType, UserGroup
from ugm.model import Claim, PendingModel, QuotaModel, ReportingModel
from ugm.partition import Allocation, AllocationState, ApplicationInfo, ApplicationState
from ugm.queues import QueueState
from ugm.resources import Resource, smallest_amounts, sum_of
from ugm.testing.queue_model import QueueModel, upward
from ugm.tracking import GroupUsage, QueueUsage, UserUsage

_PENDING: Final = AllocationState.PENDING
#: The group of an application that has not run yet.
UNASSIGNED: Final = ""
_NOTHING: Final = Resource()


class Place(NamedTuple):
    """A user or group in one queue, or the queue itself."""

    kind: str
    name: str
    queue_path: str


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

    def copied(self) -> Self:
        """Return a model with lists of its own."""
        return replace(self, applications=dict(self.applications), held=dict(self.held))

    def keep_allocations(self, is_kept: Callable[[Allocation], bool]) -> None:
        """Remove all other allocations."""
        self.held = {name: one for name, one in self.held.items() if is_kept(one)}

    def grant(self, one: Allocation) -> None:
        """Charge an allocation; the first one assigns the group of its application."""
        application = self.applications[one.application_id]
        self.applications[one.application_id] = application._replace(
            group=self.group_of(application), has_run=True, running=True
        )
        self.held[one.allocation_id] = one

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
        return sum_of(one.usage for one in self.entries(application_id))

    def state(self, application: SubmittedApplication) -> ApplicationState:
        """Return the state of an application."""
        if application.failing:
            return ApplicationState.FAILING
        if application.running:
            return ApplicationState.RUNNING
        if self.entries(application.application_id, pending=True):
            return ApplicationState.ACCEPTED
        return ApplicationState.COMPLETING if application.has_run else ApplicationState.NEW

    # Users, groups and queues

    def group_of(self, application: SubmittedApplication) -> str | None:
        """Return the group of an application, assigned or not yet."""
        if application.group != UNASSIGNED:
            return application.group
        groups = application.user.groups
        for path in upward(application.queue_path):
            named = [group for entry in self._entries(path) for group in entry.groups]
            for group in named:
                if group in groups:
                    return group
            if groups and WILDCARD in named:
                return WILDCARD
        return None

    def places(self, application: SubmittedApplication) -> list[Place]:
        """Return the places of the user, the group and the queues of an application, each from leaf to root."""
        user, group, paths = application.user.name, self.group_of(application), upward(application.queue_path)
        users = [Place(TrackingType.USER, user, path) for path in paths]
        groups = [Place(TrackingType.GROUP, group, path) for path in paths if group is not None]
        return users + groups + [Place(TrackingType.QUEUE, path, path) for path in paths]

    def limited_places(self, application: SubmittedApplication) -> list[Place]:
        """Return the places whose limits apply to an application."""
        places, name = self.places(application), application.user.name
        exempt = self.group_limits == "unless-user-limited" and any(
            place.kind is TrackingType.USER and self.limit(place)[0] == name for place in places
        )
        return [place for place in places if not exempt or place.kind is not TrackingType.GROUP]

    def charged(self, place: Place) -> list[tuple[str, SubmittedApplication]]:
        """Return the running applications that are charged at a place."""
        return [(name, app) for name, app in self.applications.items() if app.running and place in self.places(app)]

    def running(self, place: Place) -> set[str]:
        """Return the ids of the applications that run at a place."""
        return {application.application_id for _, application in self.charged(place)}

    def usage(self, place: Place) -> Resource:
        """Return the usage at a place, without zeros."""
        return sum_of(one.usage for name, _ in self.charged(place) for one in self.entries(name))

    def limit(self, place: Place) -> tuple[str, LimitConfig]:
        """Return the name in the configuration and the limit that apply at a place."""
        if place.kind is TrackingType.QUEUE:
            queue, settings = self.queues.configured.get(place.queue_path), self.queues.settings(place.queue_path)
            extensions = LimitExtensions() if queue is None else queue.ugm
            most = self.queues.quota(place.queue_path).max
            return "", LimitConfig((), (), most, settings.max_applications, ugm=extensions)
        is_user = place.kind is TrackingType.USER
        for wanted in (place.name, WILDCARD) if is_user else (place.name,):
            for entry in self._entries(place.queue_path):
                if wanted in (entry.users if is_user else entry.groups):
                    return wanted, entry
        return "", LimitConfig()

    def _entries(self, queue_path: str) -> Sequence[LimitConfig]:
        queue = self.queues.configured.get(queue_path)
        return () if queue is None else queue.limits

    def most(self, place: Place, resource: str) -> int | None:
        """Return the limit on a resource at a place; None for no limit."""
        resources = self.limit(place)[1].max_resources
        # Nothing else than the resources of the nodes is available.
        is_cluster = place.kind is TrackingType.QUEUE and place.queue_path == ROOT
        return None if resources is None else resources.get(resource, 0 if is_cluster else None)

    def exceeded(self, application: SubmittedApplication, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit of users, groups and queues that an additional *usage* would exceed."""
        found: list[Violation] = []
        for place in self.limited_places(application):
            running = self.running(place)
            starting = 0 if application.application_id in running else 1
            found += self._over(place, len(running), usage, starting)
        return tuple(found)

    def exceeded_by_growth(
        self, application: SubmittedApplication, old: Resource, new: Resource
    ) -> tuple[Violation, ...]:
        """Return every limit that the growth from *old* to *new* would exceed, with the usage without *old*."""
        growth = Resource({name: more for name, more in (new - old).items() if more > 0})
        return tuple(
            each._replace(used=each.used - back, requested=each.requested + back)
            for each in self.exceeded(application, growth)
            for back in [old.get(each.resource or "", 0)]
        )

    def exceeded_together(self, coming: Iterable[Allocation]) -> tuple[Violation, ...]:
        """Return the limits that several allocations would exceed, each checked after those before it."""
        after = self.copied()
        found: list[Violation] = []
        for one in coming:
            found += after.exceeded(after.applications[one.application_id], one.usage)
            after.grant(one)
        return tuple(found)

    def exceeded_at(self, places: Iterable[Place]) -> Iterator[Violation]:
        """Yield every exceeded limit of some places."""
        for place in places:
            yield from self._over(place, len(self.running(place)))

    def _over(
        self, place: Place, running: int, requested: Resource | None = None, starting: int = 0
    ) -> Iterator[Violation]:
        """Yield the limits that *requested* and *starting* applications would exceed; without a request, exceeded ones.

        A quota is compared for every resource of the request, a limit of a user or group only for amounts above 0.
        """
        (name, limit), used = self.limit(place), self.usage(place)
        for resource in used if requested is None else requested:
            more, now = 0 if requested is None else requested[resource], used.get(resource, 0)
            most = self.most(place, resource)
            is_compared = requested is None or more or place.kind is TrackingType.QUEUE
            if is_compared and most is not None and now + more > most:
                yield Violation(*place, name, resource, most, now, more)
        if (requested is None or starting) and 0 < limit.max_applications < running + starting:
            yield Violation(*place, name, None, limit.max_applications, running, starting)

    def exceeded_limits(self) -> tuple[Violation, ...]:
        """Return every exceeded limit, those of further quota models last."""
        places = {place for app in self.applications.values() if app.running for place in self.places(app)}
        models = (model for model in self.charged_models() if isinstance(model, ReportingModel))
        own = (*self.exceeded_at(sorted(places)), *self.over_pending(), *self.over_submitted())
        return (*own, *(found for model in models for found in model.exceeded()))

    def headroom_at(self, places: Sequence[Place]) -> Resource | None:
        """Return the smallest free amount of each resource that is limited at some places; None without limits."""
        names = {name for place in places for name in self.limit(place)[1].max_resources or ()}
        return smallest_amounts(
            (name, most - used.get(name, 0))
            for place, used in [(place, self.usage(place)) for place in places]
            for name in names
            if (most := self.most(place, name)) is not None
        )

    # Pending work

    def over_pending(self, one: SubmittedApplication | None = None, usage: Resource = _NOTHING) -> list[Violation]:
        """Return every limit on pending requests that one more of an application would exceed, or that is exceeded."""
        found, number = list[Violation](), 0 if one is None else 1
        for place, applications in self._submitted(one).items():
            (name, limit), where = self.limit(place), (f"pending {place.kind}", place.name, place.queue_path)
            pending = [each for app in applications for each in self.entries(app.application_id, pending=True)]
            if 0 < limit.ugm.max_pending < len(pending) + number:
                found.append(Violation(*where, name, None, limit.ugm.max_pending, len(pending), number))
            for resource, most in (limit.ugm.max_pending_resources or {}).items():
                used, amount = sum(each.usage.get(resource, 0) for each in pending), usage.get(resource, 0)
                if used + amount > most and (amount or not number):
                    found.append(Violation(*where, name, resource, most, used, amount))
        return found

    def over_submitted(self, one: SubmittedApplication | None = None) -> list[Violation]:
        """Return every limit on submitted applications that one more would exceed, or that is exceeded."""
        found, number = list[Violation](), 0 if one is None else 1
        for place, known in self._submitted(one).items():
            (name, limit), where = self.limit(place), (f"submitted {place.kind}", place.name, place.queue_path)
            if 0 < limit.ugm.max_submitted < len(known) + number:
                found.append(Violation(*where, name, None, limit.ugm.max_submitted, len(known), number))
        return found

    def _submitted(self, one: SubmittedApplication | None) -> dict[Place, list[SubmittedApplication]]:
        """Return the applications that count at each place of an application, or of all applications."""
        counted: dict[Place, list[SubmittedApplication]] = {} if one is None else {at: [] for at in self.places(one)}
        for application in self.applications.values():
            for place in self.places(application):
                if one is None or place in counted:
                    counted.setdefault(place, []).append(application)
        return counted

    # The visible state

    def exposed(self) -> JsonObject:
        """Return the visible state in the form of `ugm.testing.exposed_partition`."""
        return {
            **self.exposed_usage(),
            "queues": self._queue(ROOT),
            "applications": tuple(self._shown(self.applications[name]) for name in sorted(self.applications)),
            "allocations": tuple(self.held[name] for name in sorted(self.held)),
            "nodes": dict(sorted(self.queues.nodes.items())),
            "over": sorted(self.exceeded_limits(), key=tuple.__repr__),
        }

    def exposed_usage(self) -> JsonObject:
        """Return the users and groups in the form of `ugm.testing.exposed`."""
        running = [app for app in self.applications.values() if app.running]
        users = sorted({app.user.name for app in running})
        groups = sorted({app.group for app in running if app.group is not None})
        return {
            "users": tuple(self._user(name, [app for app in running if app.user.name == name]) for name in users),
            "groups": tuple(self._group(name, [app for app in running if app.group == name]) for name in groups),
        }

    def _user(self, name: str, mine: Sequence[SubmittedApplication]) -> UserUsage:
        groups = {app.application_id: app.group for app in mine if app.group is not None}
        return UserUsage(name, groups, self._usage(Place(TrackingType.USER, name, ROOT), mine))

    def _group(self, name: str, mine: Sequence[SubmittedApplication]) -> GroupUsage:
        members, ids = ({app.user.name for app in mine}, {app.application_id for app in mine})
        root = self._usage(Place(TrackingType.GROUP, name, ROOT), mine)
        return GroupUsage(name, tuple(sorted(members)), tuple(sorted(ids)), root)

    def _usage(self, place: Place, mine: Sequence[SubmittedApplication]) -> QueueUsage:
        path, (_, limit) = place.queue_path, self.limit(place)
        paths = {above for app in mine for above in upward(app.queue_path) if above.rpartition(".")[0] == path}
        return QueueUsage(
            path,
            self.usage(place),
            tuple(sorted(self.running(place))),
            limit.max_resources or None,
            limit.max_applications,
            tuple(self._usage(place._replace(queue_path=below), mine) for below in sorted(paths)),
        )

    def _queue(self, path: str) -> QueueState:
        place, quota = Place(TrackingType.QUEUE, path, path), self.queues.quota(path)
        return QueueState(
            path,
            is_leaf=self.queues.is_leaf(path),
            is_managed=path not in self.queues.made,
            is_draining=self.queues.is_draining(path),
            max_resources=quota.max,
            max_applications=self.queues.settings(path).max_applications,
            guaranteed=quota.guaranteed,
            usage=self.usage(place),
            running_applications=len(self.running(place)),
            applications=tuple(sorted(name for name, app in self.applications.items() if app.queue_path == path)),
            children=tuple(map(self._queue, self.queues.children(path))),
        )

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
        app, node = self.applications[one.application_id], None if one.state is _PENDING else one.node
        return Claim(*one[:3], app.queue_path, app.user, app.tags, one.priority, one.preemptible, one.until, node)

    def denied_by_models(
        self, one: Allocation, leaving: Iterable[str] = (), coming: Iterable[Allocation] = ()
    ) -> tuple[Violation, ...]:
        """Return every limit of further quota models that denies an allocation."""
        models = self.charged_models(leaving, coming)
        return tuple(violation for model in models for violation in model.check(self.claim(one)))

"""A naive model of a whole partition: lists of applications and allocations, from which every answer is worked out.

Users and groups are those of `ugm.testing.Model`, queues those of `ugm.testing.queue_model`; other quota models are
made anew for each question, and charged with all that is held. Nothing is counted, cached or undone step by step, and
no code is shared with the partition. The operations have the names and arguments of those of a `ugm.Partition`; they
expect arguments of the right kind, and refuse what they refuse with `ugm.RequestError`.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement; resource quota management.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, TrackingType, UserGroup
from ugm.model import Claim, DemandModel, QuotaModel
from ugm.partition import Allocation, AllocationState, ApplicationInfo, ApplicationState, Ask, Difference, Running
from ugm.resources import Resource
from ugm.testing.model import Grant, Model, Place
from ugm.testing.queue_model import QueueModel, upward

if TYPE_CHECKING:
    from ugm.partition import PartitionSettings

__all__ = ["PartitionModel", "Submitted"]

_PENDING = AllocationState.PENDING
#: The group of an application that has not run yet.
_UNCHOSEN = ""


class Submitted(NamedTuple):
    """An application that was submitted and has not ended."""

    application_id: str
    user: UserGroup
    #: What was asked for, as it was written.
    queue: str
    tags: Mapping[str, str]
    gang_style: str
    #: Where it was placed.
    queue_path: str
    #: The group that it is charged to, None for none; empty until it runs for the first time.
    group: str | None = _UNCHOSEN
    has_run: bool = False
    running: bool = False
    failing: bool = False
    #: Whether a placeholder of it has ever made way for a real allocation.
    has_replaced: bool = False


@final
@dataclass
class PartitionModel:
    """One partition, by the book.

    Attributes:
        queues: the queues, the nodes, and the configuration in force.
        group_limits: as for `ugm.Partition`.
        make_models: returns new other quota models, of which nothing is charged.
        applications: by id.
        held: every allocation, pending ones included, by id.
        closed: whether the partition takes nothing more.

    >>> model = PartitionModel()
    >>> model.adopt_application("app-1", UserGroup("sue"), "root.prod")
    >>> model.allocate("x-1", "app-1", Resource(memory=4))
    ()
    >>> model.usage(Place(TrackingType.QUEUE, "root", "root"))
    Resource(memory=4)
    """

    queues: QueueModel = field(default_factory=QueueModel)
    group_limits: Literal["always", "unless-user-limited"] = "always"
    make_models: Callable[[], Sequence[QuotaModel]] = tuple
    applications: dict[str, Submitted] = field(default_factory=dict)
    held: dict[str, Allocation] = field(default_factory=dict)
    closed: bool = False

    # What follows from the lists

    def entries(self, application_id: str | None = None, *, pending: bool = False) -> list[Allocation]:
        """Return the allocations that count, or those that are pending: all, or those of one application."""
        return [
            one
            for one in self.held.values()
            if (one.state is _PENDING) is pending and application_id in (None, one.application_id)
        ]

    def total(self, application_id: str) -> Resource:
        """Return what an application holds, without zeros."""
        return sum((one.usage for one in self.entries(application_id)), Resource()).without_zeros()

    def running(self) -> list[Submitted]:
        """Return the applications that run."""
        return [application for application in self.applications.values() if application.running]

    @property
    def limits(self) -> Model:
        """The limits of users and groups; what they use is not in it."""
        return Model(self.queues.config, self.group_limits)

    def below(self, place: Place) -> set[str]:
        """Return the running applications that count at a place."""
        is_user = place.kind is TrackingType.USER
        return {
            app.application_id
            for app in self.running()
            if place.queue_path in upward(app.queue_path)
            and (place.kind is TrackingType.QUEUE or place.name == (app.user.name if is_user else app.group))
        }

    def usage(self, place: Place) -> Resource:
        """Return what is used at a place, without zeros."""
        return sum((self.total(application_id) for application_id in self.below(place)), Resource()).without_zeros()

    def most(self, place: Place, name: str) -> int | None:
        """Return how much of a resource may be used at a place; None for no limit."""
        if place.kind is TrackingType.QUEUE:
            return self.queues.most(place.queue_path, name)
        return self.limits.limit(place).resources.get(name)

    def most_applications(self, place: Place) -> int:
        """Return how many applications may run at a place; 0 for no limit."""
        if place.kind is TrackingType.QUEUE:
            return self.queues.allowed(place.queue_path).applications
        return self.limits.limit(place).applications

    def state(self, application: Submitted) -> ApplicationState:
        """Return how far an application has come."""
        if application.failing:
            return ApplicationState.FAILING
        if application.running:
            return ApplicationState.RUNNING
        if self.entries(application.application_id, pending=True):
            return ApplicationState.ACCEPTED
        return ApplicationState.COMPLETING if application.has_run else ApplicationState.NEW

    def group_of(self, application: Submitted) -> str | None:
        """Return the group that an application is charged to, or would be."""
        if application.group != _UNCHOSEN:
            return application.group
        return self.limits.group_for(application.queue_path, application.application_id, application.user)

    def places(self, application: Submitted) -> list[Place]:
        """Return where an application counts: at its user, its group and its queues, each leaf to root."""
        paths, group = upward(application.queue_path), self.group_of(application)
        users = [Place(TrackingType.USER, application.user.name, path) for path in paths]
        groups = [Place(TrackingType.GROUP, group, path) for path in paths if group is not None]
        return users + groups + [Place(TrackingType.QUEUE, path, path) for path in paths]

    def held_to(self, application: Submitted) -> list[Place]:
        """Return the places whose limits hold for an application."""
        places, limits = self.places(application), self.limits
        users = [place for place in places if place.kind is TrackingType.USER]
        named = any(limits.limit(place).limit_name == application.user.name for place in users)
        if not named or self.group_limits == "always":
            return places
        return [place for place in places if place.kind is not TrackingType.GROUP]

    def short(self, application: Submitted, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit of users, groups and queues that *usage* more would exceed.

        Queues compare every resource that is named, users and groups only those of which something is asked.
        """
        found = []
        for place in self.held_to(application):
            used, count = self.usage(place), len(self.below(place))
            for name, amount in usage.items():
                most = self.most(place, name)
                asked = amount or place.kind is TrackingType.QUEUE
                if asked and most is not None and used.get(name, 0) + amount > most:
                    found.append(self._violation(place, name, most, used.get(name, 0), amount))
            if not application.running and 0 < self.most_applications(place) <= count:
                found.append(self._violation(place, None, self.most_applications(place), count, 1))
        return tuple(found)

    def _violation(self, place: Place, name: str | None, most: int, used: int, asked: int) -> Violation:
        is_queue = place.kind is TrackingType.QUEUE
        return Violation(*place, "" if is_queue else self.limits.limit(place).limit_name, name, most, used, asked)

    def over(self, places: Iterable[Place]) -> Iterator[Violation]:
        """Yield every limit that is exceeded at some places."""
        for place in places:
            for name, used in self.usage(place).items():
                most = self.most(place, name)
                if most is not None and used > most:
                    yield self._violation(place, name, most, used, 0)
            if 0 < self.most_applications(place) < len(self.below(place)):
                yield self._violation(place, None, self.most_applications(place), len(self.below(place)), 0)

    def over_limit(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded."""
        places = {place for app in self.running() for place in self.places(app)}
        return tuple(self.over(sorted(places)))

    def headroom(self, application_id: str) -> Resource | None:
        """Return the least that any limit leaves of each limited resource; None where nothing limits resources."""
        return self.room(self.held_to(self.applications[application_id]))

    def room(self, places: Iterable[Place]) -> Resource | None:
        """Return the least that the limits of some places leave."""
        room: dict[str, int] = {}
        for place in places:
            queue = self.queues.allowed(place.queue_path).resources
            limit = queue if place.kind is TrackingType.QUEUE else self.limits.limit(place).resources
            for name, most in (limit or Resource()).items():
                free = most - self.usage(place).get(name, 0)
                room[name] = min(free, room.get(name, free))
        return Resource(room) if room else None

    def exposed(self) -> dict[str, Any]:
        """Return all that is known in the form of `ugm.testing.exposed_partition`."""
        grants = [Grant(app.queue_path, app[0], self.total(app[0]), app.user.name, app.group) for app in self.running()]
        return {
            **Model(self.queues.config, self.group_limits, grants).exposed(),
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

    def _shown(self, app: Submitted) -> ApplicationInfo:
        held = self.entries(app.application_id)
        return ApplicationInfo(
            *(app.application_id, app.user, app.queue_path, self.state(app), app.group or None),
            *(self.total(app.application_id), len(held)),
            going=sum(one.state is AllocationState.GOING for one in held),
            placeholders=sum(one.placeholder for one in held),
            pending=len(self.entries(app.application_id, pending=True)),
            tags=app.tags,
        )

    # Other quota models

    def charged_models(self, leaving: Iterable[str] = (), coming: Iterable[Allocation] = ()) -> Sequence[QuotaModel]:
        """Return other quota models that were told of all that is held, without some of it and with something more."""
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
        """Return an allocation as the question that other quota models are asked."""
        application = self.applications[one.application_id]
        path, user, tags = application.queue_path, application.user, application.tags
        return Claim(*one[:3], path, user, tags, one.priority, one.preemptible)

    def _denied_beside(
        self, one: Allocation, leaving: Iterable[str] = (), coming: Iterable[Allocation] = ()
    ) -> tuple[Violation, ...]:
        models = self.charged_models(leaving, coming)
        return tuple(violation for model in models for violation in model.check(self.claim(one)))

    # The life of applications

    def submit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
    ) -> tuple[str | None, bool]:
        """Place an application, and return its queue, None for none, and whether that was made."""
        new = Submitted(application_id, user, queue, tags or {}, gang_style, "")
        if self._is_known(new):
            return self.applications[application_id].queue_path, False
        path = self.queues.place(user, queue, new.tags)
        if path is None:
            return None, False
        creates = path not in self.queues.paths()
        self.queues.create(path)
        self.queues.annotate(path, quota)
        self.applications[application_id] = new._replace(queue_path=path)
        return path, creates

    def adopt_application(
        self,
        application_id: str,
        user: UserGroup,
        queue_path: str,
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
        group: str | None = _UNCHOSEN,
    ) -> None:
        """List an application where it was."""
        path = queue_path.lower()
        if path == ROOT:
            raise RequestError("queue_path", queue_path, "the root takes no applications")
        new = Submitted(application_id, user, path, tags or {}, gang_style, path, group)
        if self._is_known(new):
            return
        self.queues.create(path)
        self.queues.annotate(path, quota)
        self.applications[application_id] = new

    def _is_known(self, new: Submitted) -> bool:
        known = self.applications.get(new.application_id)
        if known is not None and known[:5] != new[:5]:
            raise RequestError("application_id", new.application_id, "submitted otherwise")
        if known is None and self.closed:
            raise RequestError("submission", "refused", "the partition is being removed")
        return known is not None

    def _application(self, application_id: str) -> Submitted:
        if application_id not in self.applications:
            raise RequestError("application_id", application_id, "there is no such application")
        return self.applications[application_id]

    def _change(self, application_id: str, **changes: Any) -> None:  # noqa: ANN401 - whatever fields there are
        self.applications[application_id] = self.applications[application_id]._replace(**changes)

    def _settle(self, application_id: str) -> None:
        """Stop an application that holds nothing and has nothing pending, and forget it if it has failed."""
        pending, failing = self.entries(application_id, pending=True), self.applications[application_id].failing
        if self.entries(application_id) or (pending and not failing):
            return
        self._change(application_id, running=False)
        if failing:
            self._forget(application_id)

    def _forget(self, application_id: str) -> None:
        del self.applications[application_id]
        self.held = {name: one for name, one in self.held.items() if one.application_id != application_id}
        self.queues.prune({app.queue_path for app in self.applications.values()})

    def complete(self, application_id: str) -> ApplicationState:
        """Forget an application that has nothing."""
        self._application(application_id)
        if self.entries(application_id) or self.entries(application_id, pending=True):
            raise RequestError("application_id", application_id, "the application has something")
        self._forget(application_id)
        return ApplicationState.COMPLETED

    def fail(self, application_id: str) -> list[str]:
        """Let an application fail, and return what has to go, sorted."""
        self._application(application_id)
        self._change(application_id, failing=True)
        self.held = {
            name: one
            for name, one in self.held.items()
            if one.application_id != application_id or one.state is not _PENDING
        }
        told = self._tell_to_go(self.entries(application_id))
        self._settle(application_id)
        return told

    def _tell_to_go(self, going: Iterable[Allocation]) -> list[str]:
        for one in going:
            self.held[one.allocation_id] = one._replace(state=AllocationState.GOING)
        return sorted(one.allocation_id for one in going)

    def remove(self, application_id: str) -> list[str]:
        """Forget an application with all that it holds, and return that, sorted."""
        self._application(application_id)
        held = self.entries(application_id)
        self._forget(application_id)
        return sorted(one.allocation_id for one in held)

    def time_out_gang(self, application_id: str) -> list[str]:
        """Wait no longer for a gang, and return what has to go, sorted."""
        application, held = self._application(application_id), self.entries(application_id)
        pending = [one for one in self.entries(application_id, pending=True) if one.placeholder]
        placeholders = [one for one in held if one.placeholder]
        unused = placeholders == held and not application.has_replaced
        if (pending or placeholders) and application.gang_style == "hard" and unused:
            return self.fail(application_id)
        for one in pending:
            self.release(one.allocation_id)
        return self._tell_to_go(placeholders)

    def close(self) -> list[str]:
        """Let everything fail, and return what has to go, sorted."""
        self.closed = True
        return sorted(name for application_id in list(self.applications) for name in self.fail(application_id))

    # Allocations

    def _entry(self, ask: Ask, state: AllocationState = AllocationState.HELD) -> Allocation:
        self._application(ask.application_id)
        if any(amount < 0 for amount in ask.usage.values()):
            raise RequestError("usage", ask.usage, "an amount is negative")
        return Allocation(*ask[:3], state, *ask[3:])

    def _is_repeated(self, one: Allocation, *, known: Allocation | None = None) -> bool:
        known = known or self.held.get(one.allocation_id)
        if known is not None and known != one._replace(state=known.state):
            raise RequestError("allocation_id", one.allocation_id, "the id stands for another allocation")
        return known is not None and known.state is not _PENDING

    def _require_welcome(self, application_id: str) -> Submitted:
        if self.applications[application_id].failing:
            raise RequestError("application_id", application_id, "the application is failing")
        return self.applications[application_id]

    def ask(self, *ask: Any) -> None:  # noqa: ANN401 - the parts of an Ask
        """Count an allocation as pending."""
        one = self._entry(Ask(*ask), _PENDING)
        self._is_repeated(one)
        if one.allocation_id not in self.held:
            self._require_welcome(one.application_id)
            self.held[one.allocation_id] = one

    def allocate(self, *ask: Any) -> tuple[Violation, ...]:  # noqa: ANN401 - the parts of an Ask
        """Grant an allocation if it fits everywhere, and return what is in the way if not."""
        one = self._entry(Ask(*ask))
        if self._is_repeated(one):
            return ()
        application = self._require_welcome(one.application_id)
        violations = self.short(application, one.usage) + self._denied_beside(one)
        if not violations:
            self._grant(one)
        return violations

    def check(self, application_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Return what one more allocation would be told."""
        one = self._entry(Ask("?", application_id, usage))
        return self.short(self._require_welcome(application_id), usage) + self._denied_beside(one)

    def _grant(self, one: Allocation) -> None:
        group = self.group_of(self.applications[one.application_id])
        self._change(one.application_id, group=group, has_run=True, running=True)
        self.held[one.allocation_id] = one

    def allocate_all(self, asks: Iterable[Ask]) -> tuple[Violation, ...]:
        """Grant several allocations, or none, and return what is in the way: with what all of them ask together."""
        wanted: dict[str, Allocation] = {}
        for one in map(self._entry, asks):
            if not self._is_repeated(one):
                self._require_welcome(one.application_id)
                self._is_repeated(one, known=wanted.setdefault(one.allocation_id, one))
        denied = next((told for at, one in enumerate(wanted.values()) if (told := self._beside(wanted, at, one))), ())
        before = dict(self.applications), dict(self.held)
        found = self._grant_together(wanted.values())
        if found or denied:
            self.applications, self.held = before
        return found + denied

    def _beside(self, wanted: Mapping[str, Allocation], at: int, one: Allocation) -> tuple[Violation, ...]:
        return self._denied_beside(one, coming=list(wanted.values())[:at])

    def _grant_together(self, wanted: Iterable[Allocation]) -> tuple[Violation, ...]:
        """Grant one after the other, and return every limit that was short at some point."""
        asked: dict[Place, dict[str | None, int]] = {}
        short: set[tuple[Place, str | None]] = set()
        for one in wanted:
            application = self.applications[one.application_id]
            short |= {(Place(*told[:3]), told.resource) for told in self.short(application, one.usage)}
            for place in self.places(application):
                sums = asked.setdefault(place, {})
                for name, amount in (*one.usage.items(), (None, 0 if application.running else 1)):
                    sums[name] = sums.get(name, 0) + amount
            self._grant(one)
        return tuple(
            self._together(place, name, amount)
            for place, sums in asked.items()
            for name, amount in sums.items()
            if (place, name) in short
        )

    def _together(self, place: Place, name: str | None, asked: int) -> Violation:
        if name is None:
            return self._violation(place, None, self.most_applications(place), len(self.below(place)) - asked, asked)
        return self._violation(place, name, self.most(place, name) or 0, self.usage(place).get(name, 0) - asked, asked)

    def _counted(self, argument: str, allocation_id: str) -> Allocation:
        known = self.held.get(allocation_id)
        if known is None or known.state is _PENDING:
            raise RequestError(argument, allocation_id, "there is no such allocation")
        return known

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Put a real allocation in the place of a placeholder, and return what is in the way if that cannot be."""
        known = self.held.get(allocation_id)
        if known is not None and known.state is not _PENDING and placeholder_id not in self.held:
            self._is_repeated(known._replace(usage=usage))
            return ()
        old = self._counted("placeholder_id", placeholder_id)
        if not old.placeholder:
            raise RequestError("placeholder_id", placeholder_id, "the allocation is no placeholder")
        as_asked = known or old
        new = Allocation(allocation_id, old.application_id, usage, old.state, False, *as_asked[5:])  # noqa: FBT003 - a field by position
        new = self._entry(Ask(*new[:3], *new[4:]))
        if self._is_repeated(new):
            raise RequestError("allocation_id", allocation_id, "the allocation is held beside the placeholder")
        self._require_welcome(old.application_id)
        violations = self._exchange(old, new)
        if not violations:
            self._change(old.application_id, has_replaced=True)
        return violations

    def resize(self, allocation_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Let an allocation take something else, and return what is in the way if that cannot be."""
        old = self._counted("allocation_id", allocation_id)
        self._entry(Ask(allocation_id, old.application_id, usage))
        if old.usage == usage:
            return ()
        if any(more > 0 for more in (usage - old.usage).values()):
            self._require_welcome(old.application_id)
        return self._exchange(old, old._replace(usage=usage))

    def _exchange(self, old: Allocation, new: Allocation) -> tuple[Violation, ...]:
        """Swap two allocations if what grows fits, and if other models take the new one without the old one."""
        growth = Resource({name: more for name, more in (new.usage - old.usage).items() if more > 0})
        violations = tuple(
            told._replace(used=told.used - back, requested=told.requested + back)
            for told in self.short(self.applications[old.application_id], growth)
            for back in [old.usage.get(told.resource or "", 0)]
        ) + self._denied_beside(new, leaving=[old.allocation_id])
        if not violations:
            del self.held[old.allocation_id]
            self._grant(new)
        return violations

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as going, and say whether there is one."""
        return bool(self._tell_to_go([one for one in self.entries() if one.allocation_id == allocation_id]))

    def release(self, allocation_id: str) -> bool:
        """Give an allocation back, or withdraw it, and say whether there was one."""
        gone = self.held.pop(allocation_id, None)
        if gone is not None:
            self._settle(gone.application_id)
        return gone is not None

    def adopt(self, *ask: Any) -> tuple[Violation, ...]:  # noqa: ANN401 - the parts of an Ask
        """Count what exists, and return what is exceeded where it counts."""
        one = self._entry(Ask(*ask))
        if not self._is_repeated(one):
            self._grant(one)
        return tuple(self.over(self.places(self.applications[one.application_id])))

    # The configuration and the truth

    def configure(self, config: PartitionSettings | None) -> None:
        """Put another configuration in force."""
        self.queues.configure(config)
        self.queues.prune({app.queue_path for app in self.applications.values()})

    def leaving(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return every queue that has applications and takes none any more, with these."""
        told: dict[str, list[str]] = {}
        for application_id, application in sorted(self.applications.items()):
            told.setdefault(application.queue_path, []).append(application_id)
        leaving = [path for path in sorted(told) if self.queues.is_draining(path) or not self.queues.is_leaf(path)]
        return [(path, tuple(told[path])) for path in leaving]

    def _running(self, allocation_id: str) -> Running | None:
        one = self.held.get(allocation_id)
        return None if one is None or one.state is _PENDING else Running(*one[:3])

    def audit(self, running: Iterable[Running]) -> tuple[Difference, ...]:
        """Return how the ledger differs from what runs."""
        truth = {one.allocation_id: one for one in running}
        ledger = {one.allocation_id: Running(*one[:3]) for one in self.entries()}
        return tuple(
            Difference(ledger.get(name), truth.get(name), name not in truth or truth[name][1] in self.applications)
            for name in sorted({*ledger, *truth})
            if _plain(ledger.get(name)) != _plain(truth.get(name))
        )

    def reconcile(self, differences: Iterable[Difference]) -> tuple[Difference, ...]:
        """Repair what is still so, and return that."""
        return tuple(told for told in differences if self._is_repaired(told))

    def _is_repaired(self, told: Difference) -> bool:
        name, truth = told.allocation_id, told.truth
        if self._running(name) != told.ledger or (truth is not None and truth[1] not in self.applications):
            return False
        known = self.held.get(name)
        if truth is not None and told.ledger is not None and known is not None and known[1] == truth[1]:
            self.held[name] = known._replace(usage=truth.usage)
            return True
        self.release(name)
        if truth is not None:
            self.adopt(*truth, *(known[4:] if known is not None else ()))
        return True


def _plain(running: Running | None) -> Running | None:
    return None if running is None else running._replace(usage=running.usage.without_zeros())

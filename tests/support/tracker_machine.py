"""A state machine that compares a manager with a naive model after every step.

The visible state of the manager must equal that of the model, and `ugm.testing.verify_all` must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ugm import Manager, Request, RequestError, Resource, TrackingType, UgmError, UserGroup, Violation
from ugm.configuration import PartitionConfig
from ugm.errors import NotTrackedError, ReleaseError
from ugm.identity import ROOT, WILDCARD
from ugm.testing.invariants import exposed, verify_all
from ugm.testing.partition_machine import agree, by_place, unordered
from ugm.testing.strategies import (
    GROUPS,
    USERS,
    partitions,
    request_streams,
    requests,
    resource_names,
    resources,
    users,
)
from ugm.testing.usage_model import Grant, LimitInForce, Place, UsageModel, grant_places

__all__ = ["TrackerMachine"]

#: The placeholder for an earlier request, before the first.
_FIRST = Request(ROOT, f"{USERS[0]}-1", Resource(), UserGroup(USERS[0]))

#: `st.runner` draws the machine itself, so that requests fit its configuration. Half of the requests repeat an earlier
#: one with the same objects, as schedulers do, because trackers have special code for that.
_REQUESTS = st.runner().flatmap(lambda machine: requests(machine.config) | st.sampled_from(machine.made or [_FIRST]))
_GANGS = st.runner().flatmap(lambda machine: request_streams(machine.config, longest=4))
_RUNNING = st.runner().flatmap(lambda machine: st.sampled_from(machine.model.running()))

_TRACKERS = st.sampled_from(
    [(TrackingType.USER, name) for name in USERS] + [(TrackingType.GROUP, name) for name in (*GROUPS, WILDCARD)]
)
#: Without amounts, or with the count 0, a limit is removed.
_MANUAL_LIMITS: st.SearchStrategy[tuple[str, Any]] = st.tuples(
    st.just("resources"),
    st.builds(lambda name, most: Resource({name: most} if most else {}), resource_names(), st.integers(0, 20)),
) | st.tuples(st.just("applications"), st.integers(0, 2))
_PATHS = ("", "root", "root.a", "root.b", "root.a.b")


def _something_runs(machine: TrackerMachine) -> bool:
    return bool(machine.model.grants)


@final
@dataclass
class TrackerModel(UsageModel):
    """The users and groups of one tracker. It raises the same errors as a tracker."""

    #: The limits that were set manually since the last configuration.
    manual_limits: dict[Place, LimitInForce] = field(default_factory=dict)

    # Queries

    def total(self, kind: TrackingType, name: str) -> Resource | None:
        """Return the usage of a user or group; None if nothing of it runs."""
        place = Place(kind, name, ROOT)
        return self.usage(place) if self.grants_at(place) else None

    def held(self, application_id: str, queue_path: str) -> Resource:
        """Return the usage of an application in one queue, without zeros."""
        return sum(
            (grant.usage for grant in self.grants if grant[:2] == (queue_path.lower(), application_id)), Resource()
        ).without_zeros()

    def running(self) -> list[tuple[str, str, str]]:
        """Return the queue, id and user of all running applications, sorted."""
        return sorted({(grant.queue_path, grant.application_id, grant.user_name) for grant in self.grants})

    def owner(self, application_id: str) -> str | None:
        """Return the user of a running application."""
        return next((grant.user_name for grant in self.grants if grant.application_id == application_id), None)

    def _require_own(self, application_id: str, user: UserGroup) -> None:
        owner = self.owner(application_id)
        if owner not in (None, user.name):
            raise RequestError(
                "user", user.name, f"application {application_id!r} belongs to user {owner!r}", "id-in-use"
            )

    def can_run_app(self, queue_path: str, application_id: str, user: UserGroup) -> bool:
        """Return whether an application runs in a queue or may start there."""
        places = self.limited_places(queue_path, application_id, user)
        return not self._exceeded(places, application_id, Resource())

    def limit(self, place: Place) -> LimitInForce:
        """Return the limit in force at a place."""
        return self.manual_limits.get(place) or super().limit(place)

    def check(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Return every limit that an increase would exceed."""
        self._require_own(application_id, user)
        return super().check(queue_path, application_id, usage, user)

    # Changes

    def adopt(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Grant *usage* even if it exceeds limits, and return the limits that are exceeded now."""
        self._require_own(application_id, user)
        return super().adopt(queue_path, application_id, usage, user)

    def increase(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Grant *usage* if it fits; otherwise return the exceeded limits."""
        violations = self.check(queue_path, application_id, usage, user)
        if not violations:
            self.adopt(queue_path, application_id, usage, user)
        return violations

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
            tracked = {place[:2] for grant in self.grants for place in grant_places(grant)}
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
        violations = self.check_exchange(queue_path, application_id, placeholder, real, user)
        if not violations:
            self.decrease(queue_path, application_id, placeholder, user)
            self.adopt(queue_path, application_id, real, user)
        return violations

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
            self.manual_limits[place] = LimitInForce("", Resource(), 0)


@contextmanager
def _raises(kind: type[UgmError], what: object) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what!r} should have raised {kind.__name__}")


class TrackerMachine(RuleBasedStateMachine):
    """Compares a manager with the naive model.

    Attributes:
        group_limits: the treatment of users with limits of their own; see `ugm.Manager`.
        strict: whether a refund of resources that are not held raises; otherwise it must not change the state.
        tracker: the tested manager.
        model: the naive model.
        config: the configuration in force.
        made: the earlier requests.
    """

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "always"
    strict: ClassVar[bool] = True
    tracker: Manager
    model: TrackerModel
    config: PartitionConfig
    made: list[Request]

    @initialize(config=partitions())
    def start(self, config: PartitionConfig) -> None:
        """Start with a configuration and no applications."""
        self.config, self.made = config, []
        self.model = TrackerModel(config, self.group_limits)
        self.tracker = Manager(config, group_limits=self.group_limits, strict=self.strict)

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Expect that the block does not change the visible state of the tracker."""
        before = exposed(self.tracker)
        yield
        agree(exposed(self.tracker), before, "after a call that must not change the state")

    @rule(request=_REQUESTS)
    def increase_tracked_resource(self, request: Request) -> None:
        """An increase is allowed if and only if it fits all limits."""
        self.made.append(request)
        allowed = self.tracker.increase_tracked_resource(*request)
        agree(allowed, not self.model.increase(*request), "increase_tracked_resource")

    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), remove_app=st.booleans())
    def decrease_tracked_resource(
        self, running: tuple[str, str, str], data: st.DataObject, *, remove_app: bool
    ) -> None:
        """Any part of the resources of an application can be refunded, and all of them when it ends."""
        path, application_id, name = running
        held = self.model.held(application_id, path)
        back = {name: most if remove_app else data.draw(st.integers(0, most)) for name, most in held.items()}
        request = Request(path, application_id, Resource(back), UserGroup(name))
        self.model.decrease(*request, remove_app=remove_app)
        self._decrease(request, remove_app=remove_app)

    @rule(request=_REQUESTS, remove_app=st.booleans())
    def decrease_of_anything(self, request: Request, *, remove_app: bool) -> None:
        """Resources that are not held cannot be refunded."""
        try:
            self.model.decrease(*request, remove_app=remove_app)
        except UgmError as expected:
            with self.nothing_changes(), _raises(type(expected), request) if self.strict else nullcontext():
                self._decrease(request, remove_app=remove_app)
        else:
            self._decrease(request, remove_app=remove_app)

    def _decrease(self, request: Request, *, remove_app: bool) -> None:
        path, application_id, usage, user = request
        self.tracker.decrease_tracked_resource(path, application_id, usage, remove_app, user)

    @precondition(_something_runs)
    @rule(running=_RUNNING, usage=resources(), user=users())
    def second_user(self, running: tuple[str, str, str], usage: Resource, user: UserGroup) -> None:
        """An application belongs to one user."""
        path, application_id, name = running
        if user.name != name:
            with self.nothing_changes(), _raises(RequestError, user):
                self.tracker.increase_tracked_resource(path, application_id, usage, user)

    def both(
        self, operation: str, *arguments: object, compared: Callable[[Any], object] = lambda answer: answer
    ) -> None:
        """Call an operation of the tracker and of the model, and compare the results."""
        found, expected = (getattr(each, operation)(*arguments) for each in (self.tracker, self.model))
        agree(compared(found), compared(expected), operation)

    @rule(request=_REQUESTS)
    def increase(self, request: Request) -> None:
        """A denial names the exceeded limits of the user, then those of the group, from leaf to root."""
        self.made.append(request)
        self.both("increase", *request, compared=by_place)

    @rule(request=_REQUESTS)
    def check(self, request: Request) -> None:
        """A check returns the decision on an increase, and does not change the state."""
        with self.nothing_changes():
            self.both("check", *request, compared=by_place)

    @rule(request=_REQUESTS, query=st.sampled_from(["headroom", "can_run_app", "group_for"]))
    def query(self, request: Request, query: str) -> None:
        """The headroom, the permission to run and the group of an application do not depend on the requested amount."""
        with self.nothing_changes():
            self.both(query, request.queue_path, request.application_id, request.user)

    @rule(request=_REQUESTS)
    def adopt(self, request: Request) -> None:
        """An adopted allocation is charged even if it exceeds limits."""
        self.both("adopt", *request, compared=by_place)

    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), real=resources())
    def replace(self, running: tuple[str, str, str], data: st.DataObject, real: Resource) -> None:
        """A replacement only checks the growth."""
        path, application_id, name = running
        held = self.model.held(application_id, path)
        placeholder = Resource({name: data.draw(st.integers(0, most)) for name, most in held.items()})
        self.both("replace", path, application_id, placeholder, real, UserGroup(name), compared=by_place)

    @rule(gang=_GANGS)
    def increase_all(self, gang: list[Request]) -> None:
        """Several requests are granted together or not at all; a denial contains the sum of the requests."""
        self.both("increase_all", gang, compared=unordered)

    @rule(config=partitions())
    def update_config(self, config: PartitionConfig) -> None:
        """A new configuration changes limits, but not usage."""
        self.config = config
        self.both("update_config", config)

    @rule(subject=_TRACKERS, path=st.sampled_from(_PATHS), limit=_MANUAL_LIMITS)
    def set_limit(self, subject: tuple[TrackingType, str], path: str, limit: tuple[str, Any]) -> None:
        """A manual limit applies while applications run there, until the next configuration; "" is the root."""
        (kind, name), (what, value) = subject, limit
        tracker, place = getattr(self.tracker, f"get_{kind}_tracker")(name), Place(kind, name, path or ROOT)
        if tracker is None:
            return
        refused = False
        try:
            getattr(tracker, f"set_max_{what}")(value, path)
        except RequestError:
            refused = True
        agree(refused, not self.model.grants_at(place), "refusal of a manual limit")
        self.model.set_limit(place, **{what: value})

    # Invariants

    @invariant()
    def agrees_with_the_model(self) -> None:
        """Usage, applications, groups and limits equal those of the model."""
        agree(exposed(self.tracker), self.model.exposed(), "visible state")
        for name in USERS:
            total = self.tracker.get_user_resources(UserGroup(name))
            agree(total, self.model.total(TrackingType.USER, name), "get_user_resources")
        for name in (*GROUPS, WILDCARD):
            total = self.tracker.get_group_resources(name)
            agree(total, self.model.total(TrackingType.GROUP, name), "get_group_resources")

    @invariant()
    def adds_up(self) -> None:
        """All counters are consistent with the allocations."""
        verify_all(self.tracker)

    @invariant()
    def reports_exceeded_limits(self) -> None:
        """`exceeded_limits` reports every exceeded limit with the usage."""
        self.both("exceeded_limits", compared=unordered)

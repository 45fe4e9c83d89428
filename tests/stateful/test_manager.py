"""The manager against the naive model, step by step.

The visible state of the manager must equal that of the model, and `ugm.testing.verify_all` must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.examples import examples
from ugm import Manager, Request, RequestError, Resource, TrackingType, UgmError, UserGroup, Violation
from ugm.configuration import LimitConfig, PartitionConfig
from ugm.errors import NotTrackedError, ReleaseError
from ugm.identity import ROOT, WILDCARD
from ugm.partition import Allocation, AllocationState
from ugm.resources import is_resource_name
from ugm.testing.invariants import exposed, verify_all
from ugm.testing.partition_machine import agree, comparable, exceeded_by
from ugm.testing.partition_model_state import UNASSIGNED, PartitionModelState, Place, SubmittedApplication
from ugm.testing.queue_model import QueueModel
from ugm.testing.strategies import (
    GROUPS,
    RESOURCES,
    USERS,
    partitions,
    requests,
    resources,
    users,
)

#: The placeholder for an earlier request, before the first.
_FIRST = Request(ROOT, f"{USERS[0]}-1", Resource(), UserGroup(USERS[0]))

#: `st.runner` draws the machine itself, so that requests fit its configuration. Half of the requests repeat an earlier
#: one with the same objects, as schedulers do, because trackers have special code for that.
_REQUESTS = st.runner().flatmap(lambda machine: requests(machine.config) | st.sampled_from(machine.made or [_FIRST]))
_GANGS = st.runner().flatmap(lambda machine: st.lists(requests(machine.config), max_size=4))
_RUNNING = st.runner().flatmap(lambda machine: st.sampled_from(list(machine.model.applications.values())))

_TRACKERS = st.sampled_from(
    [(TrackingType.USER, name) for name in USERS] + [(TrackingType.GROUP, name) for name in (*GROUPS, WILDCARD)]
)
#: Names that a configuration may have, of which the model makes the limits.
_NAMES = st.sampled_from(RESOURCES) | st.text(min_size=1, max_size=8).filter(is_resource_name)
#: Without amounts, or with the count 0, a limit is removed.
_MANUAL_LIMITS: st.SearchStrategy[tuple[str, Any]] = st.tuples(
    st.just("resources"),
    st.builds(
        lambda name, most: Resource({name: most} if most else {}),
        _NAMES,
        st.integers(0, 20),
    ),
) | st.tuples(st.just("applications"), st.integers(0, 2))
_PATHS = ("", "root", "root.a", "root.b", "root.a.b")


def _something_runs(machine: TrackerMachine) -> bool:
    return bool(machine.model.applications)


@final
@dataclass
class TrackerModel(PartitionModelState):
    """The users and groups of one tracker. It raises the same errors as a tracker.

    An application can run in several queues. The lists have an application for each, with one allocation.
    """

    #: The limits that were set manually since the last configuration, with their names.
    manual_limits: dict[Place, tuple[str, LimitConfig]] = field(default_factory=dict)

    # Queries

    def tracked(self, kind: TrackingType, name: str) -> Resource | None:
        """Return the usage of a user or group; None if nothing of it runs."""
        place = Place(kind, name, ROOT)
        return self.usage(place) if self.charged(place) else None

    def limit(self, place: Place) -> tuple[str, LimitConfig]:
        """Return the name in the configuration and the limit that apply at a place."""
        return self.manual_limits.get(place) or super().limit(place)

    def in_queue(self, queue_path: str, application_id: str, user: UserGroup) -> SubmittedApplication:
        """Return an application in one queue, possibly one that does not run."""
        path = queue_path.lower()
        others = [app for app in self.applications.values() if (app[0], app.user.name) == (application_id, user.name)]
        group = others[0].group if others else UNASSIGNED
        new = SubmittedApplication(application_id, user, path, {}, "soft", path, group)
        return self.applications.get(_key(new), new)

    def held_by(self, application: SubmittedApplication) -> Resource:
        """Return the usage of an application in its queue, without zeros."""
        return self.total(_key(application))

    def _require_own(self, application_id: str, user: UserGroup) -> None:
        owners = {app.user.name for app in self.applications.values() if app.application_id == application_id}
        if not owners <= {user.name}:
            raise RequestError("user", user.name, f"the application belongs to {owners}", "id-in-use")

    def can_run_app(self, queue_path: str, application_id: str, user: UserGroup) -> bool:
        """Return whether an application runs in a queue or may start there."""
        return not self.exceeded(self.in_queue(queue_path, application_id, user), Resource())

    def group_for(self, queue_path: str, application_id: str, user: UserGroup) -> str | None:
        """Return the group that an application is, or would be, charged to."""
        return self.group_of(self.in_queue(queue_path, application_id, user))

    def headroom(self, queue_path: str, application_id: str, user: UserGroup) -> Resource | None:
        """Return the smallest free amount of each limited resource; None if no limit applies."""
        return self.headroom_at(self.limited_places(self.in_queue(queue_path, application_id, user)))

    def check(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Return every limit that an increase would exceed."""
        self._require_own(application_id, user)
        return self.exceeded(self.in_queue(queue_path, application_id, user), usage)

    # Changes

    def adopt(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Grant *usage* even if it exceeds limits, and return the limits that are exceeded now."""
        self._require_own(application_id, user)
        application = self.in_queue(queue_path, application_id, user)
        key = _key(application)
        self.applications.setdefault(key, application)
        self.grant(
            Allocation(
                key, key, self.total(key) + usage, AllocationState.HELD, placeholder=False, priority=0, preemptible=True
            )
        )
        return tuple(self.exceeded_at(self.places(self.applications[key])))

    def increase(self, *request: Any) -> tuple[Violation, ...]:  # noqa: ANN401 - a `Request`
        """Grant a request if it fits; otherwise return the exceeded limits."""
        violations = self.check(*request)
        if not violations:
            self.adopt(*request)
        return violations

    def increase_all(self, requests: Iterable[Request]) -> tuple[Violation, ...]:
        """Grant several requests or none, and return the exceeded limits; a limit may occur more than once."""
        after, violations = self.copied(), list[Violation]()
        for request in requests:
            violations += after.check(*request)
            after.adopt(*request)
        if not violations:
            self.applications, self.held = after.applications, after.held
        return tuple(violations)

    def decrease(
        self, queue_path: str, application_id: str, usage: Resource, user: UserGroup, *, remove_app: bool = False
    ) -> None:
        """Refund *usage*."""
        key = self._require_holding(queue_path, application_id, usage, user, everything=remove_app)
        self.held[key] = self.held[key]._replace(usage=self.held[key].usage - usage)
        if remove_app:
            del self.held[key], self.applications[key]
            tracked = {place[:2] for app in self.applications.values() for place in self.places(app)}
            self.manual_limits = {place: most for place, most in self.manual_limits.items() if place[:2] in tracked}

    def _require_holding(
        self, queue_path: str, application_id: str, usage: Resource, user: UserGroup, *, everything: bool = False
    ) -> str:
        self._require_own(application_id, user)
        key = _key(self.in_queue(queue_path, application_id, user))
        if key not in self.applications:
            raise NotTrackedError(application_id, queue_path, user.name, "it does not run there")
        for name in {**self.held[key].usage, **usage}:
            had, back = self.held[key].usage.get(name, 0), usage.get(name, 0)
            if back > had or (everything and back < had):
                raise ReleaseError(application_id, queue_path, name, had, back)
        return key

    def replace(
        self, queue_path: str, application_id: str, placeholder: Resource, real: Resource, user: UserGroup
    ) -> tuple[Violation, ...]:
        """Replace *placeholder* by *real* if the growth fits; otherwise return the exceeded limits."""
        key = self._require_holding(queue_path, application_id, placeholder, user)
        violations = self.exceeded_by_growth(self.applications[key], placeholder, real)
        if not violations:
            self.decrease(queue_path, application_id, placeholder, user)
            self.adopt(queue_path, application_id, real, user)
        return violations

    def update_config(self, config: PartitionConfig | None) -> None:
        """Replace the configuration, and remove manual limits."""
        self.queues, self.manual_limits = QueueModel(config), {}

    def set_limit(self, place: Place, **changed: Any) -> None:  # noqa: ANN401 - a part of a limit
        """Set a part of a limit at a place with running applications; an empty vector or a 0 removes it.

        The name of an existing limit does not change. Without running applications, the call has no effect.
        """
        if self.charged(place):
            name, limit = self.limit(place)
            limit = replace(limit, **changed)
            is_set = limit.max_resources or limit.max_applications
            self.manual_limits[place] = (name or place.name, limit) if is_set else ("", LimitConfig())


def _key(application: SubmittedApplication) -> str:
    return f"{application.application_id} in {application.queue_path}"


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
        self.model = TrackerModel(QueueModel(config), self.group_limits)
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
        self, running: SubmittedApplication, data: st.DataObject, *, remove_app: bool
    ) -> None:
        """Any part of the resources of an application can be refunded, and all of them when it ends."""
        held = self.model.held_by(running)
        back = {name: most if remove_app else data.draw(st.integers(0, most)) for name, most in held.items()}
        request = Request(running.queue_path, running.application_id, Resource(back), UserGroup(running.user.name))
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
    def second_user(self, running: SubmittedApplication, usage: Resource, user: UserGroup) -> None:
        """An application belongs to one user."""
        if user.name != running.user.name:
            with self.nothing_changes(), _raises(RequestError, user):
                self.tracker.increase_tracked_resource(running.queue_path, running.application_id, usage, user)

    def both(self, operation: str, *arguments: object, compared: Callable[[Any], object] = comparable) -> None:
        """Call an operation of the tracker and of the model, and compare the results."""
        found, expected = (getattr(each, operation)(*arguments) for each in (self.tracker, self.model))
        agree(compared(found), compared(expected), operation)

    @rule(request=_REQUESTS)
    def increase(self, request: Request) -> None:
        """A denial names the exceeded limits of the user, then those of the group, from leaf to root."""
        self.made.append(request)
        self.both("increase", *request)

    @rule(request=_REQUESTS)
    def check(self, request: Request) -> None:
        """A check returns the decision on an increase, and does not change the state."""
        with self.nothing_changes():
            self.both("check", *request)

    @rule(request=_REQUESTS, query=st.sampled_from(["headroom", "can_run_app", "group_for"]))
    def query(self, request: Request, query: str) -> None:
        """The headroom, the permission to run and the group of an application do not depend on the requested amount."""
        with self.nothing_changes():
            self.both(query, request.queue_path, request.application_id, request.user)

    @rule(request=_REQUESTS)
    def adopt(self, request: Request) -> None:
        """An adopted allocation is charged even if it exceeds limits."""
        self.both("adopt", *request)

    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), real=resources())
    def replace(self, running: SubmittedApplication, data: st.DataObject, real: Resource) -> None:
        """A replacement only checks the growth."""
        held = self.model.held_by(running)
        placeholder = Resource({name: data.draw(st.integers(0, most)) for name, most in held.items()})
        user = UserGroup(running.user.name)
        self.both("replace", running.queue_path, running.application_id, placeholder, real, user)

    @rule(gang=_GANGS)
    def increase_all(self, gang: list[Request]) -> None:
        """Several requests are granted together or not at all; a denial names the exceeded limits."""
        self.both("increase_all", gang, compared=exceeded_by)

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
        agree(refused, not self.model.charged(place), "refusal of a manual limit")
        self.model.set_limit(place, **{f"max_{what}": value})

    # Invariants

    @invariant()
    def agrees_with_the_model(self) -> None:
        """Usage, applications, groups and limits equal those of the model."""
        agree(exposed(self.tracker), self.model.exposed_usage(), "visible state")
        for name in USERS:
            total = self.tracker.get_user_resources(UserGroup(name))
            agree(total, self.model.tracked(TrackingType.USER, name), "get_user_resources")
        for name in (*GROUPS, WILDCARD):
            total = self.tracker.get_group_resources(name)
            agree(total, self.model.tracked(TrackingType.GROUP, name), "get_group_resources")

    @invariant()
    def adds_up(self) -> None:
        """All counters are consistent with the allocations."""
        verify_all(self.tracker)

    @invariant()
    def reports_exceeded_limits(self) -> None:
        """`exceeded_limits` reports every exceeded limit with the usage."""
        self.both("exceeded_limits")


SMALL = settings(max_examples=max(8, examples(30)), stateful_step_count=30)


class LenientMachine(TrackerMachine):
    """Users with named limits are exempt from group limits; misuse is logged."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"
    strict = False


TestManager = TrackerMachine.TestCase
TestManager.settings = SMALL
TestLenientManager = LenientMachine.TestCase
TestLenientManager.settings = SMALL

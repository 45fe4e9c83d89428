"""A state machine that compares a tracker with the naive model after every step.

To test another tracker, or a wrapper around `ugm.Manager`, override `TrackerMachine.make_tracker`, and let pytest
collect the test case::

    class MyMachine(TrackerMachine):
        def make_tracker(self, config):
            return MyTracker(config)

    TestMyTracker = MyMachine.TestCase

Every object with the methods of `ugm.tracking.Tracker` can be tested. Operations that only `ugm.Manager` has, such as
``check``, ``headroom``, ``adopt`` or ``update_config``, are tested if the object has them. After every step, the
visible state of the tracker must equal that of the model, and `ugm.testing.verify_all` must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import groupby
from typing import Any, ClassVar, Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ugm import Manager, Request, RequestError, Resource, TrackingType, UgmError, UserGroup, Violation
from ugm.configuration import PartitionConfig
from ugm.identity import ROOT, WILDCARD
from ugm.testing.invariants import exposed, verify_all
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
from ugm.testing.tracker_model import Place, TrackerModel
from ugm.tracking import GroupTracker, Tracker, UserTracker

__all__ = ["TrackerMachine", "by_place"]

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
_PATHS = ("", "root", "root.a", "root.b", "root.a.b")

_INVALID_REQUESTS: tuple[Request, ...] = (
    Request("", "app", Resource(), UserGroup("ana")),
    Request("elsewhere", "app", Resource(), UserGroup("ana")),
    Request("root..a", "app", Resource(), UserGroup("ana")),
    Request("root", "", Resource(), UserGroup("ana")),
    Request("root", "app", Resource(memory=-1), UserGroup("ana")),
)


def _has(name: str) -> Callable[[TrackerMachine], bool]:
    return lambda machine: hasattr(machine.tracker, name)


def _something_runs(machine: TrackerMachine) -> bool:
    return bool(machine.model.grants)


def by_place(violations: tuple[Violation, ...]) -> list[tuple[Place, list[Violation]]]:
    """Return violations grouped by place; those of one place are sorted, because their order is undefined."""
    places = groupby(violations, key=lambda violation: Place(violation.kind, violation.name, violation.queue_path))
    return [(place, sorted(group, key=repr)) for place, group in places]


def _agree(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: the tracker says {found!r}, the model {expected!r}")


@contextmanager
def _raises(kind: type[UgmError], what: object) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what!r} should have raised {kind.__name__}")


class TrackerMachine(RuleBasedStateMachine):
    """Compares a tracker with the naive model.

    Attributes:
        group_limits: the treatment of users with limits of their own; see `ugm.Manager`.
        strict: whether a refund of resources that are not held raises; otherwise it must not change the state.
        tracker: the tested tracker.
        model: the naive model.
        config: the configuration in force.
        made: the earlier requests.
    """

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "always"
    strict: ClassVar[bool] = True
    tracker: Tracker
    model: TrackerModel
    config: PartitionConfig
    made: list[Request]

    def make_tracker(self, config: PartitionConfig) -> Tracker:
        """Return the tracker to be tested, without applications and with the limits of *config*."""
        return Manager(config, group_limits=self.group_limits, strict=self.strict)

    @property
    def more(self) -> Any:  # noqa: ANN401 - the preconditions check that the operations exist
        """The tracker, for optional operations."""
        return self.tracker

    @initialize(config=partitions())
    def start(self, config: PartitionConfig) -> None:
        """Start with a configuration and no applications."""
        self.config, self.made = config, []
        self.model = TrackerModel(config, self.group_limits)
        self.tracker = self.make_tracker(config)

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Expect that the block does not change the visible state of the tracker."""
        before = exposed(self.tracker)
        yield
        _agree(exposed(self.tracker), before, "after a call that must not change the state")

    # Operations of every tracker

    @rule(request=_REQUESTS)
    def increase_tracked_resource(self, request: Request) -> None:
        """An increase is allowed if and only if it fits all limits."""
        self.made.append(request)
        allowed = self.tracker.increase_tracked_resource(*request)
        _agree(allowed, not self.model.increase(*request), "increase_tracked_resource")

    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), remove_app=st.booleans())
    def decrease_tracked_resource(
        self, running: tuple[str, str, str], data: st.DataObject, *, remove_app: bool
    ) -> None:
        """Any part of the resources of an application can be refunded, and all of them when it ends."""
        path, application_id, name = running
        held = self.model.held(application_id, path)
        back = {name: most if remove_app else data.draw(st.integers(0, most)) for name, most in held.items()}
        request = (path, application_id, Resource(back), UserGroup(name))
        self.model.decrease(*request, remove_app=remove_app)
        self.tracker.decrease_tracked_resource(*request, remove_app)

    @rule(request=_REQUESTS, remove_app=st.booleans())
    def decrease_of_anything(self, request: Request, *, remove_app: bool) -> None:
        """Resources that are not held cannot be refunded."""
        try:
            self.model.decrease(*request, remove_app=remove_app)
        except UgmError as expected:
            with self.nothing_changes(), _raises(type(expected), request) if self.strict else nullcontext():
                self.tracker.decrease_tracked_resource(*request, remove_app)
        else:
            self.tracker.decrease_tracked_resource(*request, remove_app)

    @rule(request=st.sampled_from(_INVALID_REQUESTS))
    def misuse(self, request: Request) -> None:
        """An invalid request raises an error and does not change the state."""
        with self.nothing_changes():
            for call in (self.tracker.increase_tracked_resource, self.tracker.decrease_tracked_resource):
                with _raises(RequestError, request):
                    call(*request)

    @precondition(_something_runs)
    @rule(running=_RUNNING, usage=resources(), user=users())
    def second_user(self, running: tuple[str, str, str], usage: Resource, user: UserGroup) -> None:
        """An application belongs to one user."""
        path, application_id, name = running
        if user.name != name:
            with self.nothing_changes(), _raises(RequestError, user):
                self.tracker.increase_tracked_resource(path, application_id, usage, user)

    # Optional operations

    @precondition(_has("increase"))
    @rule(request=_REQUESTS)
    def increase(self, request: Request) -> None:
        """A denial names the exceeded limits of the user, then those of the group, from leaf to root."""
        self.made.append(request)
        decision = self.more.increase(*request)
        _agree(by_place(decision.violations), by_place(self.model.increase(*request)), "increase")

    @precondition(_has("check"))
    @rule(request=_REQUESTS)
    def check(self, request: Request) -> None:
        """A check returns the decision on an increase, and does not change the state."""
        with self.nothing_changes():
            decision = self.more.check(*request)
        _agree(by_place(decision.violations), by_place(self.model.check(*request)), "check")

    @precondition(_has("headroom"))
    @rule(request=_REQUESTS)
    def headroom(self, request: Request) -> None:
        """The headroom is the smallest free amount of all limits."""
        subject = (request.queue_path, request.application_id, request.user)
        with self.nothing_changes():
            _agree(self.more.headroom(*subject), self.model.headroom(*subject), "headroom")

    @precondition(_has("can_run_app"))
    @rule(request=_REQUESTS)
    def can_run_app(self, request: Request) -> None:
        """The permission to run depends only on the number of applications."""
        subject = (request.queue_path, request.application_id, request.user)
        with self.nothing_changes():
            _agree(self.more.can_run_app(*subject), self.model.can_run_app(*subject), "can_run_app")

    @precondition(_has("group_for"))
    @rule(request=_REQUESTS)
    def group_for(self, request: Request) -> None:
        """The group of an application is the assigned one, or the one that would be assigned."""
        subject = (request.queue_path, request.application_id, request.user)
        with self.nothing_changes():
            _agree(self.more.group_for(*subject), self.model.group_for(*subject), "group_for")

    @precondition(_has("adopt"))
    @rule(request=_REQUESTS)
    def adopt(self, request: Request) -> None:
        """An adopted allocation is charged even if it exceeds limits."""
        self.more.adopt(*request)
        self.model.adopt(*request)

    @precondition(_has("replace"))
    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), real=resources())
    def replace(self, running: tuple[str, str, str], data: st.DataObject, real: Resource) -> None:
        """A replacement only checks the growth."""
        path, application_id, name = running
        held = self.model.held(application_id, path)
        placeholder = Resource({name: data.draw(st.integers(0, most)) for name, most in held.items()})
        request = (path, application_id, placeholder, real, UserGroup(name))
        decision = self.more.replace(*request)
        _agree(by_place(decision.violations), by_place(self.model.replace(*request)), "replace")

    @precondition(_has("increase_all"))
    @rule(gang=_GANGS)
    def increase_all(self, gang: list[Request]) -> None:
        """Several requests are granted together or not at all; a denial contains the sum of the requests."""
        found, expected = self.more.increase_all(gang).violations, self.model.increase_all(gang)
        _agree(sorted(found, key=repr), sorted(expected, key=repr), "increase_all")

    @precondition(_has("update_config"))
    @rule(config=partitions())
    def update_config(self, config: PartitionConfig) -> None:
        """A new configuration changes limits, but not usage."""
        self.config = config
        self.more.update_config(config)
        self.model.update_config(config)

    @precondition(_has("get_user_tracker"))
    @precondition(_has("get_group_tracker"))
    @rule(subject=_TRACKERS, path=st.sampled_from(_PATHS), count=st.integers(0, 2))
    def set_max_applications(self, subject: tuple[TrackingType, str], path: str, count: int) -> None:
        """A manual limit applies while applications run there, until the next configuration."""
        tracker = self._live(subject)
        if tracker is not None:
            with self._raising_without(Place(*subject, path or ROOT)):
                tracker.set_max_applications(count, path)
            self.model.set_limit(Place(*subject, path or ROOT), applications=count)

    @precondition(_has("get_user_tracker"))
    @precondition(_has("get_group_tracker"))
    @rule(subject=_TRACKERS, path=st.sampled_from(_PATHS), name=resource_names(), most=st.integers(0, 20))
    def set_max_resources(self, subject: tuple[TrackingType, str], path: str, name: str, most: int) -> None:
        """The same for resources; an empty path is the root, and an empty vector removes the limit."""
        tracker, limit = self._live(subject), Resource({name: most} if most else {})
        if tracker is not None:
            with self._raising_without(Place(*subject, path or ROOT)):
                tracker.set_max_resources(limit, path)
            self.model.set_limit(Place(*subject, path or ROOT), resources=limit)

    @contextmanager
    def _raising_without(self, place: Place) -> Iterator[None]:
        """Expect that a setter raises if and only if no application runs there."""
        refused = False
        try:
            yield
        except RequestError:
            refused = True
        _agree(refused, not self.model.grants_at(place), "refusal of a manual limit")

    def _live(self, subject: tuple[TrackingType, str]) -> UserTracker | GroupTracker | None:
        kind, name = subject
        is_user = kind is TrackingType.USER
        found: UserTracker | GroupTracker | None = (
            self.more.get_user_tracker(name) if is_user else self.more.get_group_tracker(name)
        )
        return found

    # Invariants

    @invariant()
    def agrees_with_the_model(self) -> None:
        """Usage, applications, groups and limits equal those of the model."""
        _agree(exposed(self.tracker), self.model.exposed(), "visible state")

    @invariant()
    def adds_up(self) -> None:
        """All counters are consistent with the allocations."""
        verify_all(self.tracker)

    @precondition(_has("over_limit"))
    @invariant()
    def reports_exceeded_limits(self) -> None:
        """`over_limit` reports every exceeded limit with the usage."""
        found = {(Place(*each[:3]), each.resource, each.limit, each.used) for each in self.more.over_limit()}
        _agree(found, self.model.over_limit(), "over_limit")

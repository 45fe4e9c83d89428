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

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import groupby
from typing import Any, ClassVar, Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ugm import Decision, Manager, Request, RequestError, Resource, TrackingType, UgmError, UserGroup, Violation
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
from ugm.tracking import Tracker

__all__ = ["TrackerMachine", "agree", "by_place", "unordered"]

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


def _has(name: str) -> Callable[[TrackerMachine], bool]:
    return lambda machine: hasattr(machine.tracker, name)


def _something_runs(machine: TrackerMachine) -> bool:
    return bool(machine.model.grants)


def by_place(answer: Decision | Iterable[Violation]) -> list[tuple[Place, list[Violation]]]:
    """Return violations grouped by place; those of one place are sorted, because their order is undefined."""
    places = groupby(_violations(answer), key=lambda violation: Place(*violation[:3]))
    return [(place, sorted(group, key=repr)) for place, group in places]


def unordered(answer: Decision | Iterable[Violation]) -> list[Violation]:
    """Return violations sorted."""
    return sorted(_violations(answer), key=repr)


def _violations(answer: Decision | Iterable[Violation]) -> Iterable[Violation]:
    return answer.violations if isinstance(answer, Decision) else answer


def agree(found: object, expected: object, what: object) -> None:
    """Expect an answer of the model.

    Raises:
        AssertionError: the answer is another one.
    """
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, but the model says {expected!r}")


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
        agree(exposed(self.tracker), before, "after a call that must not change the state")

    # Operations of every tracker

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

    # Optional operations

    def both(
        self, operation: str, *arguments: object, compared: Callable[[Any], object] = lambda answer: answer
    ) -> None:
        """Call an operation of the tracker and of the model, and compare the results."""
        found, expected = (getattr(each, operation)(*arguments) for each in (self.tracker, self.model))
        agree(compared(found), compared(expected), operation)

    @precondition(_has("increase"))
    @rule(request=_REQUESTS)
    def increase(self, request: Request) -> None:
        """A denial names the exceeded limits of the user, then those of the group, from leaf to root."""
        self.made.append(request)
        self.both("increase", *request, compared=by_place)

    @precondition(_has("check"))
    @rule(request=_REQUESTS)
    def check(self, request: Request) -> None:
        """A check returns the decision on an increase, and does not change the state."""
        with self.nothing_changes():
            self.both("check", *request, compared=by_place)

    @rule(request=_REQUESTS, query=st.sampled_from(["headroom", "can_run_app", "group_for"]))
    def query(self, request: Request, query: str) -> None:
        """The headroom, the permission to run and the group of an application do not depend on the requested amount."""
        if hasattr(self.tracker, query):
            with self.nothing_changes():
                self.both(query, request.queue_path, request.application_id, request.user)

    @precondition(_has("adopt"))
    @rule(request=_REQUESTS)
    def adopt(self, request: Request) -> None:
        """An adopted allocation is charged even if it exceeds limits."""
        self.both("adopt", *request, compared=by_place)

    @precondition(_has("replace"))
    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), real=resources())
    def replace(self, running: tuple[str, str, str], data: st.DataObject, real: Resource) -> None:
        """A replacement only checks the growth."""
        path, application_id, name = running
        held = self.model.held(application_id, path)
        placeholder = Resource({name: data.draw(st.integers(0, most)) for name, most in held.items()})
        self.both("replace", path, application_id, placeholder, real, UserGroup(name), compared=by_place)

    @precondition(_has("increase_all"))
    @rule(gang=_GANGS)
    def increase_all(self, gang: list[Request]) -> None:
        """Several requests are granted together or not at all; a denial contains the sum of the requests."""
        self.both("increase_all", gang, compared=unordered)

    @precondition(_has("update_config"))
    @rule(config=partitions())
    def update_config(self, config: PartitionConfig) -> None:
        """A new configuration changes limits, but not usage."""
        self.config = config
        self.both("update_config", config)

    @precondition(_has("get_user_tracker"))
    @precondition(_has("get_group_tracker"))
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

    @precondition(_has("exceeded_limits"))
    @invariant()
    def reports_exceeded_limits(self) -> None:
        """`exceeded_limits` reports every exceeded limit with the usage."""
        self.both("exceeded_limits", compared=unordered)

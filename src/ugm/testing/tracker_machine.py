"""A state machine that drives a tracker and the naive model side by side.

Override `TrackerMachine.make_tracker` to test a tracker of one's own, or a wrapper around `ugm.Manager`, and hand the
class to pytest as hypothesis does::

    class MyMachine(TrackerMachine):
        def make_tracker(self, config):
            return MyTracker(config)

    TestMyTracker = MyMachine.TestCase

Whatever has the methods of `ugm.Tracker` can be driven. Operations that only `ugm.Manager` has, such as ``check``,
``headroom``, ``adopt`` or ``update_config``, are used if the object has them, each one by itself. After every step the
tracker must show what the model shows, and pass `ugm.testing.verify_all`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import groupby
from typing import Any, ClassVar, Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ugm import (
    GroupTracker,
    Manager,
    Request,
    RequestError,
    Resource,
    Tracker,
    TrackingType,
    UgmError,
    UserGroup,
    UserTracker,
    Violation,
)
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

__all__ = ["TrackerMachine", "by_place"]

#: Stands for a request made before until there is one.
_NOTHING = Request(ROOT, f"{USERS[0]}-1", Resource(), UserGroup(USERS[0]))

#: What `st.runner` draws is the machine itself, so that requests fit its configuration and name what runs. Every other
#: one was made before, with the same objects: schedulers repeat themselves, and that goes other ways in a tracker.
_REQUESTS = st.runner().flatmap(lambda machine: requests(machine.config) | st.sampled_from(machine.made or [_NOTHING]))
_GANGS = st.runner().flatmap(lambda machine: request_streams(machine.config, longest=4))
_RUNNING = st.runner().flatmap(lambda machine: st.sampled_from(machine.model.running()))

_TRACKERS = st.sampled_from(
    [(TrackingType.USER, name) for name in USERS] + [(TrackingType.GROUP, name) for name in (*GROUPS, WILDCARD)]
)
_PATHS = ("", "root", "root.a", "root.b", "root.a.b")

_NO_REQUESTS: tuple[Request, ...] = (
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
    """Return violations place by place; several at one place have no order."""
    places = groupby(violations, key=lambda told: Place(told.kind, told.name, told.queue_path))
    return [(place, sorted(told, key=repr)) for place, told in places]


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
    """Any tracker against the naive model.

    Attributes:
        group_limits: how the tracker, and so the model, treats users with limits of their own; see `ugm.Manager`.
        strict: whether giving back what is not held raises; otherwise it must change nothing.
        tracker: what is tested.
        model: what is believed.
        config: the configuration in force.
        made: the requests so far.
    """

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "always"
    strict: ClassVar[bool] = True
    tracker: Tracker
    model: TrackerModel
    config: PartitionConfig
    made: list[Request]

    def make_tracker(self, config: PartitionConfig) -> Tracker:
        """Return the tracker to be tested, with nothing running and the limits of *config* in force."""
        return Manager(config, group_limits=self.group_limits, strict=self.strict)

    @property
    def more(self) -> Any:  # noqa: ANN401 - has whatever operations the preconditions found
        """The tracker, for operations that not every tracker has."""
        return self.tracker

    @initialize(config=partitions())
    def start(self, config: PartitionConfig) -> None:
        """Begin with a configuration and nothing running."""
        self.config, self.made = config, []
        self.model = TrackerModel(config, self.group_limits)
        self.tracker = self.make_tracker(config)

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Expect the block to leave what the tracker shows alone."""
        before = exposed(self.tracker)
        yield
        _agree(exposed(self.tracker), before, "after a call that changes nothing")

    # What every tracker has

    @rule(request=_REQUESTS)
    def increase_tracked_resource(self, request: Request) -> None:
        """An increase is allowed exactly if it fits every limit."""
        self.made.append(request)
        allowed = self.tracker.increase_tracked_resource(*request)
        _agree(allowed, not self.model.increase(*request), "increase_tracked_resource")

    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), remove_app=st.booleans())
    def decrease_tracked_resource(
        self, running: tuple[str, str, str], data: st.DataObject, *, remove_app: bool
    ) -> None:
        """Any part of what an application holds can be given back, and all of it if it ends."""
        path, application_id, name = running
        held = self.model.held(application_id, path)
        back = {name: most if remove_app else data.draw(st.integers(0, most)) for name, most in held.items()}
        request = (path, application_id, Resource(back), UserGroup(name))
        self.model.decrease(*request, remove_app=remove_app)
        self.tracker.decrease_tracked_resource(*request, remove_app)

    @rule(request=_REQUESTS, remove_app=st.booleans())
    def decrease_of_anything(self, request: Request, *, remove_app: bool) -> None:
        """What is not held cannot be given back."""
        try:
            self.model.decrease(*request, remove_app=remove_app)
        except UgmError as expected:
            with self.nothing_changes(), _raises(type(expected), request) if self.strict else nullcontext():
                self.tracker.decrease_tracked_resource(*request, remove_app)
        else:
            self.tracker.decrease_tracked_resource(*request, remove_app)

    @rule(request=st.sampled_from(_NO_REQUESTS))
    def misuse(self, request: Request) -> None:
        """What is no request raises and changes nothing."""
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

    # What a manager has besides

    @precondition(_has("increase"))
    @rule(request=_REQUESTS)
    def increase(self, request: Request) -> None:
        """A denial names every limit in the way, the user's before the group's, each leaf to root."""
        self.made.append(request)
        decision = self.more.increase(*request)
        _agree(by_place(decision.violations), by_place(self.model.increase(*request)), "increase")

    @precondition(_has("check"))
    @rule(request=_REQUESTS)
    def check(self, request: Request) -> None:
        """Asking tells what an increase would answer, and changes nothing."""
        with self.nothing_changes():
            decision = self.more.check(*request)
        _agree(by_place(decision.violations), by_place(self.model.check(*request)), "check")

    @precondition(_has("headroom"))
    @rule(request=_REQUESTS)
    def headroom(self, request: Request) -> None:
        """The headroom is the least that any limit leaves."""
        asked = (request.queue_path, request.application_id, request.user)
        with self.nothing_changes():
            _agree(self.more.headroom(*asked), self.model.headroom(*asked), "headroom")

    @precondition(_has("can_run_app"))
    @rule(request=_REQUESTS)
    def can_run_app(self, request: Request) -> None:
        """Whether an application may run depends on counts of applications alone."""
        asked = (request.queue_path, request.application_id, request.user)
        with self.nothing_changes():
            _agree(self.more.can_run_app(*asked), self.model.can_run_app(*asked), "can_run_app")

    @precondition(_has("group_for"))
    @rule(request=_REQUESTS)
    def group_for(self, request: Request) -> None:
        """The group is the one that was chosen, or would be."""
        asked = (request.queue_path, request.application_id, request.user)
        with self.nothing_changes():
            _agree(self.more.group_for(*asked), self.model.group_for(*asked), "group_for")

    @precondition(_has("adopt"))
    @rule(request=_REQUESTS)
    def adopt(self, request: Request) -> None:
        """What runs already is counted, whatever the limits."""
        self.more.adopt(*request)
        self.model.adopt(*request)

    @precondition(_has("replace"))
    @precondition(_something_runs)
    @rule(running=_RUNNING, data=st.data(), real=resources())
    def replace(self, running: tuple[str, str, str], data: st.DataObject, real: Resource) -> None:
        """Of a replacement only the growth is checked."""
        path, application_id, name = running
        held = self.model.held(application_id, path)
        placeholder = Resource({name: data.draw(st.integers(0, most)) for name, most in held.items()})
        request = (path, application_id, placeholder, real, UserGroup(name))
        decision = self.more.replace(*request)
        _agree(by_place(decision.violations), by_place(self.model.replace(*request)), "replace")

    @precondition(_has("increase_all"))
    @rule(gang=_GANGS)
    def increase_all(self, gang: list[Request]) -> None:
        """Several requests are granted together or not at all, and a denial tells what they ask together."""
        told, expected = self.more.increase_all(gang).violations, self.model.increase_all(gang)
        _agree(sorted(told, key=repr), sorted(expected, key=repr), "increase_all")

    @precondition(_has("update_config"))
    @rule(config=partitions())
    def update_config(self, config: PartitionConfig) -> None:
        """Another configuration changes limits, never usage."""
        self.config = config
        self.more.update_config(config)
        self.model.update_config(config)

    @precondition(_has("get_user_tracker"))
    @precondition(_has("get_group_tracker"))
    @rule(whose=_TRACKERS, path=st.sampled_from(_PATHS), count=st.integers(0, 2))
    def set_max_applications(self, whose: tuple[TrackingType, str], path: str, count: int) -> None:
        """A limit set by hand holds where something runs, until the next configuration."""
        tracker = self._live(whose)
        if tracker is not None:
            with self._raising_without(Place(*whose, path or ROOT)):
                tracker.set_max_applications(count, path)
            self.model.set_by_hand(Place(*whose, path or ROOT), applications=count)

    @precondition(_has("get_user_tracker"))
    @precondition(_has("get_group_tracker"))
    @rule(whose=_TRACKERS, path=st.sampled_from(_PATHS), name=resource_names(), most=st.integers(0, 20))
    def set_max_resources(self, whose: tuple[TrackingType, str], path: str, name: str, most: int) -> None:
        """The same for resources; an empty path is the root, and an empty vector lifts the limit."""
        tracker, limit = self._live(whose), Resource({name: most} if most else {})
        if tracker is not None:
            with self._raising_without(Place(*whose, path or ROOT)):
                tracker.set_max_resources(limit, path)
            self.model.set_by_hand(Place(*whose, path or ROOT), resources=limit)

    @contextmanager
    def _raising_without(self, place: Place) -> Iterator[None]:
        """Expect that a setter raises exactly where nothing runs."""
        refused = False
        try:
            yield
        except RequestError:
            refused = True
        _agree(refused, not self.model.grants_at(place), "refusing a limit by hand")

    def _live(self, whose: tuple[TrackingType, str]) -> UserTracker | GroupTracker | None:
        kind, name = whose
        is_user = kind is TrackingType.USER
        found: UserTracker | GroupTracker | None = (
            self.more.get_user_tracker(name) if is_user else self.more.get_group_tracker(name)
        )
        return found

    # At every moment

    @invariant()
    def shows_what_the_model_shows(self) -> None:
        """Usage, applications, groups and limits are those of the model."""
        _agree(exposed(self.tracker), self.model.exposed(), "shown")

    @invariant()
    def adds_up(self) -> None:
        """Counters follow from what applications hold."""
        verify_all(self.tracker)

    @precondition(_has("over_limit"))
    @invariant()
    def names_who_is_over(self) -> None:
        """Whoever is over a limit is named, with the limit and what is used."""
        found = {(Place(*told[:3]), told.resource, told.limit, told.used) for told in self.more.over_limit()}
        _agree(found, self.model.over_limit(), "over_limit")

"""Exceptions from outside while a partition chooses how it decides and what it records.

A configuration may add or remove quota models and schedules, a program may replace its models, and the first wake-up or
pass starts the marks of changes. What was chosen is visible only in later decisions, so each interruption is followed
by some.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from support.examples import graded
from support.injection import HandlerTestError, InterruptedTestError
from support.interrupted_partitions import Scene, Setup, interrupt, prepared
from support.interruption_points import Interruption, is_last, points_in
from support.partition_fixtures import BOB, SUE, BrokenError, Licences, Resettable, Waiting, memory
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.partition import Head, SchedulingPass, WaitingList
from ugm.partition.events import Event

_MODEL: Final = """
partitions:
- queues: [{name: a}]
  ugm: {elastic: {total: {memory: 3}, groupby: [{source: queue}], groups: [{name: a, max: {memory: 3}}]}}
"""
_SCHEDULE: Final = """
partitions:
- queues:
  - name: a
    resources: {max: {memory: 3}}
    ugm: {schedule: [{hours: "08:00-18:00", maxresources: {memory: 2}}]}
"""
_REDUCTIONS: Final = _SCHEDULE.replace("- queues:", "- preemption: {quotapreemptionenabled: true}\n  queues:").replace(
    "- name: a", "- name: a\n    properties: {quota.preemption.delay: 300s}"
)
_MAXIMUM: Final = "partitions: [{queues: [{name: a, resources: {max: {memory: 2}}}]}]"
_FOUR: Final = "partitions: [{queues: [{name: a, resources: {max: {memory: 4}}}]}]"
_RESERVING: Final = _FOUR.replace("name: a,", "name: a, properties: {ugm.reservation: enabled},")
_NOTHING: Final = "partitions: [{queues: [{name: a}]}]"

_TEXTS: Final = {
    "model": _MODEL,
    "schedule": _SCHEDULE,
    "reductions": _REDUCTIONS,
    "maximum": _MAXIMUM,
    "four": _FOUR,
    "reserving": _RESERVING,
    "nothing": _NOTHING,
}
CONFIGS: Final = {name: parse_config(text).partition() for name, text in _TEXTS.items()}
_CHANGES: Final = [
    (before, after)
    for before, after in itertools.permutations(["model", "schedule", "nothing"], 2)
    if after != "schedule" or before == "nothing"
]
_ERRORS: Final = (InterruptedTestError, TimeoutError)
#: At night, in UTC.
_NIGHT: Final = 1_795_392_000 + 3600


def _fill(partition: Partition) -> None:
    for name, user in (("one", SUE), ("two", BOB)):
        assert partition.submit(name, user, "root.a")
    assert partition.allocate("one-0", "one", memory(1))


class Deciding(Scene):
    """A partition whose state consists of decisions, now and during the day."""

    #: The decisions change the partition.
    uses = 1

    def __init__(self, config: str) -> None:
        super().__init__(Setup(CONFIGS[config], _fill))

    def build(self) -> None:
        """Make the partition."""
        self.now = _NIGHT
        self.partition = Partition(self._setup.config, clock=lambda: self.now)
        self._setup.fill(self.partition)

    def state(self) -> object:
        """Return the configuration, and decisions that follow it."""
        partition = self.partition
        partition.verify()
        at_night = [bool(partition.allocate(f"two-{number}", "two", memory(1))) for number in range(4)]
        partition.release("two-0")
        self.now += 9 * 3600
        by_day = partition.headroom("two"), bool(partition.allocate("one-1", "one", memory(1)))
        partition.verify()
        return partition.config, at_night, by_day


@pytest.mark.parametrize(
    ("before", "after", "distance"), graded([("model", "nothing"), ("schedule", "nothing")], 13, _CHANGES, 3)
)
@pytest.mark.parametrize("error", _ERRORS)
def test_interrupted_configurations(before: str, after: str, distance: int, error: type[BaseException]) -> None:
    """The models and schedules of the configuration that is in force decide, now and later.

    An error of the library itself is left out: it counts as a problem of the configuration, and its cause is named.
    """

    def configure(partition: Partition) -> None:
        partition.configure(CONFIGS[after])

    points = points_in(lambda: prepared(Deciding(before), configure))[::distance]
    assert interrupt(Deciding(before), configure, points, error) == len(points) > 50


class Lowering(Scene):
    """A partition whose next operation finds lower limits, which start the timer of a reduction."""

    #: The limits do not return.
    uses = 1

    def __init__(self) -> None:
        super().__init__(Setup(CONFIGS["reductions"], _fill))

    def build(self) -> None:
        """Make the partition."""
        self.now = _NIGHT
        self.partition = Partition(self._setup.config, clock=lambda: self.now)
        self._setup.fill(self.partition)
        assert self.partition.allocate("two-0", "two", memory(2))
        self.now += 9 * 3600

    def state(self) -> object:
        """Return the timers."""
        self.partition.check("one", memory(1))
        self.now += 60
        timers = self.partition.reduction_timers()
        self.now -= 60
        return timers


@pytest.mark.parametrize("error", [*_ERRORS, HandlerTestError])
def test_interrupted_lowering(error: type[BaseException]) -> None:
    """The timer of a reduction starts with the operation that finds lower limits, or with the next one."""

    def operation(partition: Partition) -> None:
        partition.check("one", memory(1))

    points = points_in(lambda: prepared(Lowering(), operation))[::7]
    assert interrupt(Lowering(), operation, points, error) == len(points) > 100


class Waking(Scene):
    """A full partition with pending requests, whose state consists of those that a release wakes."""

    #: The release changes the partition.
    uses = 1

    def __init__(self, *, followed: bool) -> None:
        super().__init__(Setup(CONFIGS["maximum"], _fill))
        self._followed = followed

    def build(self) -> None:
        """Make the partition."""

        def ignore(first: int, events: tuple[Event, ...]) -> None:
            """Do nothing; with a subscriber, changes are recorded from the beginning."""

        subscribers = [ignore] if self._followed else []
        self.partition = Partition(self._setup.config, clock=lambda: _NIGHT, subscribers=subscribers)
        self._setup.fill(self.partition)
        assert self.partition.allocate("one-1", "one", memory(1))
        for number in range(2, 4):
            self.partition.request(f"one-{number}", "one", memory(1))

    def state(self) -> object:
        """Return what is woken, and what a pass yields that is open during changes."""
        partition = self.partition
        heads = partition.scheduling_pass()
        found = [[request.allocation_id for request in partition.wake()], next(heads).request.allocation_id]
        partition.release("one-0")
        partition.release("one-1")
        found += [request.allocation_id for request in partition.wake()]
        partition.request("one-4", "one", memory(1))
        found += [head.request.allocation_id for head in heads]
        partition.verify()
        return found


def _next_head(partition: Partition) -> object:
    return next(partition.scheduling_pass())


_FIRST_CALLS: Final[dict[str, Callable[[Partition], object]]] = {
    "wake": Partition.wake,
    "scheduling_pass": _next_head,
    "waiting_list": Partition.waiting_list,
}


@pytest.mark.parametrize(
    ("name", "followed", "distance"),
    graded([(name, False) for name in _FIRST_CALLS], 13, itertools.product(_FIRST_CALLS, [False, True]), 3),
)
@pytest.mark.parametrize("error", [*_ERRORS, HandlerTestError])
def test_interrupted_starts_of_marks(*, name: str, followed: bool, distance: int, error: type[BaseException]) -> None:
    """Later calls learn of every change, although the call that started the marks was interrupted."""
    first_call = _FIRST_CALLS[name]
    points = points_in(lambda: prepared(Waking(followed=followed), first_call))[::distance]
    assert interrupt(Waking(followed=followed), first_call, points, error) == len(points) > 10


def _offering(*, reserving: bool, is_first: bool) -> Partition:
    """Return a partition with three pending requests that fit since a release.

    Args:
        reserving: whether queues reserve capacity.
        is_first: whether no call has woken anything so far.
    """
    partition = Partition(CONFIGS["reserving" if reserving else "four"], clock=lambda: _NIGHT)
    partition.submit("app", SUE, "root.a")
    assert partition.allocate("first", "app", memory(4))
    for number in range(3):
        partition.request(f"r{number}", "app", memory(1))
    if not is_first:
        assert partition.wake() == ()
    partition.release("first")
    return partition


_WAITS: Final[dict[str, Callable[[Partition], object]]] = {
    "wake": Partition.wake,
    "wait": lambda partition: partition.waiting_list().wait(0),
}


@pytest.mark.parametrize(
    ("name", "reserving", "is_first", "distance"),
    graded(
        [("wake", False, False), ("wait", True, True)],
        97,
        itertools.product(_WAITS, [False, True], [False, True]),
        31,
    ),
)
def test_interrupted_wakes(*, name: str, reserving: bool, is_first: bool, distance: int) -> None:
    """What an interrupted call has woken, the next call wakes, and threads that wait look again."""
    partition = _offering(reserving=reserving, is_first=is_first)

    @contextmanager
    def offering() -> Iterator[Callable[[], object]]:
        nonlocal partition
        partition = _offering(reserving=reserving, is_first=is_first)
        yield lambda: _WAITS[name](partition)

    points = points_in(offering)
    last = [point for point in points if "waiting_list.py" in point.code.co_filename]
    called = Partition.wake if name == "wake" else WaitingList.wait
    points = [point for point in (*points[::distance], *last) if not is_last(point, called)]
    for point in points:
        interruption = Interruption(point)
        with offering() as call:
            interruption.run(call)
        assert interruption.has_arrived != interruption.was_swallowed
        if interruption.has_arrived:
            assert partition.waiting_list().event.is_set(), point
            assert [one.allocation_id for one in partition.wake()] == ["r0", "r1", "r2"], point
            assert partition.wake() == ()
            partition.verify()
    assert len(points) > 100


_CALLS_OF_PASSES: Final[dict[str, Callable[[SchedulingPass, Head], object]]] = {
    "next": lambda heads, _: next(heads),
    "allocate": lambda _, head: head.allocate(),
    "skip": lambda _, head: head.skip(),
}


def _passing() -> tuple[Partition, SchedulingPass]:
    """Return a partition with six requests of three applications, and a pass with one head that was granted."""
    partition = Partition(CONFIGS["nothing"], clock=lambda: _NIGHT)
    for user in ("sue", "bob", "eve"):
        partition.submit(user, UserGroup(user), "root.a")
        for number in range(2):
            partition.request(f"{user}-{number}", user, memory(1), priority=number)
    heads = partition.scheduling_pass()
    assert next(heads).allocate()
    # What the next head follows.
    partition.request("late", "eve", memory(1), priority=9)
    return partition, heads


@pytest.mark.parametrize(("name", "distance"), graded([(name,) for name in _CALLS_OF_PASSES], 41, [], 1))
@pytest.mark.parametrize("error", [*_ERRORS, HandlerTestError])
def test_interrupted_passes(name: str, distance: int, error: type[BaseException]) -> None:
    """A pass continues with the same heads in the same order, none of them lost and none of them twice."""
    call = _CALLS_OF_PASSES[name]
    partition, heads = _passing()

    @contextmanager
    def passing() -> Iterator[Callable[[], object]]:
        nonlocal partition, heads
        partition, heads = _passing()
        head = next(heads) if name != "next" else None
        yield lambda: call(heads, head)  # type: ignore[arg-type] # `next` needs none

    def rest() -> list[str]:
        return [head.request.allocation_id for head in heads]

    expected = ["late", *[f"{user}-1" for user in ("bob", "eve")], *[f"{user}-0" for user in ("sue", "bob", "eve")]]
    assert rest() == expected
    points = points_in(passing)[::distance]
    for point in points:
        interruption = Interruption(point, error)
        with passing() as made:
            interruption.run(made)
        assert interruption.has_arrived != interruption.was_swallowed
        if interruption.has_arrived and not is_last(point, SchedulingPass.__next__):
            assert rest() == (expected if name == "next" else expected[1:]), point
            partition.verify()
    assert len(points) > 10


class Replacing(Scene):
    """A partition with a quota model of the program, whose state consists of decisions and of what they charge.

    Args:
        make: makes the old model.
        suspends: whether the old model has failed.
    """

    #: The decisions change the partition.
    uses = 1

    def __init__(self, make: Callable[[int], Licences], *, suspends: bool) -> None:
        super().__init__(Setup(CONFIGS["nothing"], _fill))
        self._make, self._suspends = make, suspends

    def build(self) -> None:
        """Make the partition."""
        self.old, self.new = self._make(5), Waiting(3)
        self.partition = Partition(self._setup.config, models=[self.old, Licences(9)], clock=lambda: _NIGHT)
        self._setup.fill(self.partition)
        for number in range(2):
            assert self.partition.allocate(f"two-{number}", "two", ONE)
        if self._suspends:
            fail_charge(self.partition, self.old)

    def replace(self) -> None:
        """Replace the model."""
        self.partition.replace_model(self.old, self.new)

    def repair(self) -> None:
        """Put the old model in force again."""
        self.partition.replace_model(self.old, self.old)

    def state(self) -> object:
        """Return decisions, what the model that made them has counted, and which models take part."""
        partition = self.partition
        partition.verify()
        decisions = [partition.allocate(f"one-{number}", "one", ONE) for number in range(1, 5)]
        partition.release("two-0")
        partition.verify()
        used = {decision.violations[0].used for decision in decisions if not decision}
        return [str(decision) for decision in decisions], used, partition.allocation_ids()


ONE: Final = Resource(licence=1)


def fail_charge(partition: Partition, model: Licences) -> None:
    """Let a call of a model fail, and its repetition too, so that its state is unknown."""

    def fail(_: object) -> None:
        raise BrokenError

    model.charge = fail  # type: ignore[assignment, method-assign] # it fails until it is repaired
    with pytest.raises(BrokenError):
        partition.allocate("failing", "two", ONE)
    assert "suspended" in str(partition.check("two", ONE))
    del model.charge


_MODELS: Final = [
    (make, suspends, replace)
    for make in (Licences, Resettable)
    for suspends in (False, True)
    for replace in (Replacing.replace, Replacing.repair)
    if make is Resettable or replace is Replacing.replace
]


@pytest.mark.parametrize(("make", "suspends", "replace", "distance"), graded(_MODELS[:2], 13, _MODELS, 3))
@pytest.mark.parametrize("error", [*_ERRORS, HandlerTestError])
def test_interrupted_replacements(
    *,
    make: Callable[[int], Licences],
    suspends: bool,
    replace: Callable[[Replacing], None],
    distance: int,
    error: type[BaseException],
) -> None:
    """The old model decides or the new one, and it has counted everything."""
    scene = Replacing(make, suspends=suspends)

    def operation(_: Partition) -> None:
        replace(scene)

    points = points_in(lambda: prepared(scene, operation))[::distance]
    assert interrupt(scene, operation, points, error) == len(points) > 10

"""Limits that change at certain hours, days and dates."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.partition_fixtures import SUE, memory
from ugm import (
    ConfigError,
    Manager,
    Partition,
    RequestError,
    Resource,
    TrackingType,
    UserGroup,
    UserInQueue,
    Violation,
    parse_config,
)
from ugm.config import PartitionConfig, QueueConfig, QueueResources, ScheduledLimit, dump_config, export_config
from ugm.configuration import LimitExtensions
from ugm.configuration.schedules import NEVER, parse_entry
from ugm.decision import LimitRise
from ugm.partition import changes
from ugm.partition.config.compiled import ConfigSchedule
from ugm.store import StoredPartition, open_partition

TEXT = """
partitions:
- queues:
  - name: a
    resources: {max: {memory: 4}}
    ugm:
      schedule:
      - {days: sat-sun, maxresources: {memory: 8}}
      - {hours: "22:00-06:00", maxresources: {memory: 6}}
    limits:
    - users: ["*"]
      maxapplications: 1
      ugm: {schedule: [{from: "2026-12-24T18:00", until: 2027-01-01, zone: Europe/Berlin, maxapplications: 3}]}
"""
CONFIG = parse_config(TEXT).partition()
#: A Monday, 12:00 UTC.
MONDAY = 1_795_435_200
HOUR = 3600


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = MONDAY

    def __call__(self) -> int:
        """Return the time."""
        return self.now


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


def running(clock: Clock, **options: object) -> Partition:
    """Return a partition with an application that holds 4 of memory."""
    partition = Partition(CONFIG, clock=clock, **options)  # type: ignore[arg-type]  # handed on
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("a", "app", memory(4))
    return partition


@pytest.mark.parametrize("subscribers", [(), (lambda _first, _events: None,)], ids=["alone", "followed"])
def test_limits_follow_the_clock(clock: Clock, subscribers: tuple[object, ...]) -> None:
    """From the second of a change on, every answer follows the new limit; usage above a lower limit stays."""
    partition = running(clock, subscribers=subscribers)
    assert not partition.allocate("b", "app", memory(1))
    clock.now = MONDAY + 10 * HOUR - 1
    assert not partition.check("app", memory(1))
    clock.now += 1
    assert partition.check("app", memory(2))
    assert partition.headroom("app") == memory(2)
    assert partition.allocate("b", "app", memory(2))
    clock.now = MONDAY + 18 * HOUR
    assert [(one.limit, one.used) for one in partition.exceeded_limits()] == [(4, 6)]
    assert partition.headroom("app") == memory(-2)
    assert not partition.allocate("c", "app", memory(1))
    assert partition.queue("root.a").max_resources == memory(4)  # type: ignore[union-attr]  # it exists
    clock.now = MONDAY + 5 * 24 * HOUR
    assert partition.allocate("c", "app", memory(2)), "the first entry that applies counts"
    partition.verify()


def test_clock_that_goes_back(clock: Clock) -> None:
    """A clock that goes back changes no limit."""
    partition = running(clock)
    clock.now = MONDAY + 10 * HOUR
    assert partition.headroom("app") == memory(2)
    clock.now = MONDAY

    assert partition.headroom("app") == memory(2)


def test_dates_in_a_zone(clock: Clock) -> None:
    """A limit may apply from a local time until a date."""
    partition = running(clock)
    partition.submit("more", SUE, "root.a")
    begin = int(datetime(2026, 12, 24, 18, tzinfo=ZoneInfo("Europe/Berlin")).timestamp())
    end = int(datetime(2027, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")).timestamp())

    def most_applications(now: int) -> int:
        clock.now = now
        return next(one.max_applications for one in partition.limits("more") if one.kind == "user")

    assert [most_applications(now) for now in (begin - 1, begin, end - 1, end)] == [1, 3, 3, 1]


def test_scheduled_changes(clock: Clock) -> None:
    """Upcoming changes are listed with the limits that the present usage would exceed then."""
    partition = running(clock)
    clock.now = MONDAY + 10 * HOUR
    partition.allocate("b", "app", memory(2))
    coming = partition.scheduled_changes(max_changes=2)

    assert [one.at for one in coming] == [MONDAY + 18 * HOUR, MONDAY + 34 * HOUR]
    assert [[one.limit for one in change.newly_exceeded] for change in coming] == [[4], []]
    assert str(coming[0]).splitlines() == [
        "at 2026-11-24 06:00 UTC:",
        "  ~ queue root.a: maximum memory 6 -> 4",
        "  would be exceeded: queue root.a: 6 of 4 memory used, 2 too much",
    ]
    assert partition.headroom("app") == memory(0), "nothing has changed"
    assert partition.scheduled_changes(max_changes=0) == Partition().scheduled_changes() == ()
    with pytest.raises(RequestError, match="max_changes -1: expected an int >= 0"):
        partition.scheduled_changes(max_changes=-1)


def test_plan(clock: Clock) -> None:
    """A plan shows the changes that the schedule of the new configuration will make."""
    partition = Partition(clock=clock)
    partition.configure(
        parse_config(
            TEXT.replace("memory: 4}", "memory: 9}")
            .replace("    ugm:\n", "")
            .replace(TEXT[TEXT.index("      schedule") : TEXT.index("    limits")], "")
        ).partition()
    )
    partition.submit("app", SUE, "root.a")
    partition.allocate("a", "app", memory(7))
    plan = partition.plan(CONFIG)

    assert [one.limit for one in plan.newly_exceeded] == [4]
    assert [one.at for one in plan.scheduled][:2] == [MONDAY + 10 * HOUR, MONDAY + 18 * HOUR]
    assert [[each.limit for each in one.exceeded] for one in plan.scheduled[:2]] == [[6], [4]]
    assert plan.to_dict()["scheduled"][0]["at"] == MONDAY + 10 * HOUR
    assert pickle.loads(pickle.dumps(plan)).to_dict() == plan.to_dict()  # noqa: S301 - of this test
    clock.now = MONDAY + 10 * HOUR
    partition.apply(plan, confirm=True)
    assert [one.limit for one in partition.exceeded_limits()] == [6]
    partition.apply(plan, confirm=True)
    assert partition.config == CONFIG


def test_waking(clock: Clock) -> None:
    """A pending request wakes when a limit rises by schedule."""
    partition = running(clock)
    partition.request("b", "app", memory(2))
    assert partition.wake() == ()
    clock.now = MONDAY + 10 * HOUR

    assert [one.allocation_id for one in partition.wake()] == ["b"]


def test_waiting_thread(clock: Clock) -> None:
    """A thread that waits looks again when a change of the schedule is due."""
    partition = running(clock)
    partition.request("b", "app", memory(2))
    waiting = partition.waiting_list()
    assert waiting.wake() == ()
    clock.now = MONDAY + 10 * HOUR - 1
    assert waiting.wake() == ()
    clock.now += 1

    assert [one.allocation_id for one in waiting.wait(60)] == ["b"]


def test_store(tmp_path: Path, clock: Clock) -> None:
    """After the store was opened again, the limits are those of the time, and earlier grants are kept."""

    def opened(config: PartitionConfig | None = None) -> StoredPartition:
        return open_partition(tmp_path / "store", config, clock=lambda: clock.now)

    partition = opened(CONFIG)
    partition.submit("app", SUE, "root.a")
    clock.now = MONDAY + 10 * HOUR
    assert partition.allocate("a", "app", memory(6))
    clock.now = MONDAY + 18 * HOUR
    assert not partition.allocate("b", "app", memory(1))
    before = partition.queue()
    partition.close()
    partition = opened()
    assert partition.queue() == before
    assert partition.headroom("app") == memory(-2)
    clock.now = MONDAY + 34 * HOUR
    assert partition.headroom("app") == memory(0)
    partition.verify()
    partition.close()


def test_configure(clock: Clock) -> None:
    """A schedule that comes into force or goes changes the limits at once, for running applications as well."""
    partition = running(clock)
    clock.now = MONDAY + 10 * HOUR
    partition.configure(parse_config("partitions: [{queues: [{name: a}]}]").partition())
    assert partition.allocate("b", "app", memory(90))
    partition.configure(CONFIG)
    assert partition.headroom("app") == memory(-88)
    clock.now = MONDAY + 18 * HOUR
    assert partition.headroom("app") == memory(-90)
    partition.verify()


def test_a_queue_that_is_left_out(clock: Clock, tmp_path: Path) -> None:
    """A queue that the configuration leaves out has no schedule any more, also after a restart."""
    clock.now = NIGHT

    def opened(config: PartitionConfig | None = None) -> StoredPartition:
        return open_partition(tmp_path / "store", config, clock=lambda: clock.now)

    with opened(CONFIG) as partition:
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("a", "app", memory(6))
        partition.configure(parse_config("partitions: [{queues: [{name: b}]}]").partition())
        assert partition.queue_maximum("root.a") == memory(4)
        partition.verify()
    with opened() as partition:
        assert partition.queue_maximum("root.a") == memory(4)
        partition.configure(CONFIG)
        assert partition.queue_maximum("root.a") == memory(6)


def test_resources_of_a_queue_that_is_left_out(clock: Clock) -> None:
    """A resource that only the maximum without the schedule names is counted when the queue has left."""
    queue = (
        "{name: a, resources: {max: {gpu: 2}}, ugm: {schedule: [{hours: '22:00-06:00', maxresources: {memory: 6}}]}}"
    )
    partition = Partition(parse_config(f"partitions: [{{queues: [{queue}]}}]").partition(), clock=clock)
    clock.now = NIGHT
    partition.submit("app", SUE, "root.a")
    assert partition.allocate("a", "app", Resource(gpu=3))
    without = parse_config("partitions: [{queues: [{name: b}]}]").partition()

    assert [one.resource for one in partition.plan(without).exceeded] == ["gpu"]
    partition.configure(without)
    assert [one.resource for one in partition.exceeded_limits()] == ["gpu"]
    assert not partition.allocate("b", "app", Resource(gpu=1))
    partition.verify()


def test_failed_call_after_a_change(clock: Clock) -> None:
    """A call that fails after a change of the limits leaves them in force."""
    partition = running(clock)
    clock.now = MONDAY + 10 * HOUR
    with pytest.raises(RequestError):
        partition.resize("none", memory(1))

    assert partition.headroom("app") == memory(2)
    partition.verify()


def test_changes() -> None:
    """A comparison lists every schedule that differs."""
    other = parse_config(TEXT.replace("sat-sun", "sun").replace("2027-01-01", "2027-01-02")).partition()

    dates = "from 2026-12-24T18:00 until 2027-01-0{} Europe/Berlin: 3 applications"
    assert [str(one) for one in changes(CONFIG, other).schedules] == [
        "~ schedule root.a: entry 1 sat-sun: memory 8 -> sun: memory 8",
        f"~ schedule root.a limits[0]: entry 1 {dates.format(1)} -> {dates.format(2)}",
    ]


def test_files_and_export() -> None:
    """A schedule is written to files, and left out of an export with a note."""
    assert parse_config(dump_config(parse_config(TEXT))).partition() == CONFIG
    exported = export_config(parse_config(TEXT))
    assert [one.path for one in exported.left_out] == [
        "partitions[0].queues[0].limits[0].ugm.schedule",
        "partitions[0].queues[0].ugm.schedule",
    ]
    assert "schedule" not in dump_config(exported.config)


@pytest.mark.parametrize(
    ("before", "after", "place", "code"),
    [
        ("sat-sun", "sat-sunday", "8:16", "schedule-time-invalid"),
        ("22:00-06:00", "22-6", "9:17", "schedule-time-invalid"),
        ("22:00-06:00", "22:00-25:00", "9:17", "schedule-time-invalid"),
        ("22:00-06:00", "06:00-06:00", "9:17", "schedule-time-invalid"),
        ("2026-12-24T18:00", "24.12.2026", "13:31", "schedule-time-invalid"),
        ("2027-01-01", "2027-02-30", "13:58", "schedule-time-invalid"),
        ("2027-01-01", "2026-01-01", "13:58", "schedule-time-invalid"),
        ("Europe/Berlin", "Europe/Nowhere", "13:76", "schedule-time-invalid"),
        (", maxapplications: 3", "", "13:24", "schedule-sets-nothing"),
        ("memory: 6", "memory: 0", "9:32", "schedule-resources-zero"),
        ("memory: 6", "memory: six", "9:55", "quantity-invalid"),
        ("days: sat-sun", "day: sat", "8:10", "field-unknown"),
    ],
)
def test_problems(before: str, after: str, place: str, code: str) -> None:
    """Every invalid schedule is reported with its line and column."""
    with pytest.raises(ConfigError) as caught:
        parse_config(TEXT.replace(before, after))

    assert [(one.code, f"{one.line}:{one.column}") for one in caught.value.problems] == [(code, place)]


def test_values_without_a_file() -> None:
    """A schedule that a program has built is checked before it comes into force."""
    wrong = parse_config(TEXT).partition()
    entry = ScheduledLimit(zone="Nowhere", max_resources=memory(1))
    queue = wrong.root.queues[0]
    broken = type(wrong)(queues=(type(queue)("a", ugm=type(queue.ugm)(schedule=(entry,))),))
    with pytest.raises(RequestError, match="zone 'Nowhere': there is no such time zone"):
        Partition(broken)


def test_a_manager_refuses_schedules() -> None:
    """A manager has no clock."""
    with pytest.raises(RequestError, match="a Manager has no clock"):
        Manager(CONFIG)


_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca")
_MINUTES = st.integers(0, 24 * 60 - 1)


def _hours(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


@given(
    st.sampled_from(_ZONES),
    st.tuples(_MINUTES, _MINUTES).filter(lambda pair: pair[0] != pair[1]),
    st.sets(st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), min_size=1),
    st.integers(MONDAY - 400 * 86400, MONDAY + 400 * 86400),
)
def test_hours_are_those_of_a_wall_clock(zone: str, hours: tuple[int, int], days: set[str], second: int) -> None:
    """Away from changes of the clock, an entry applies if the local day and time say so."""
    begin, end = hours
    entry = parse_entry(ScheduledLimit(days=",".join(days), hours=f"{_hours(begin)}-{_hours(end)}", zone=zone))
    local = datetime.fromtimestamp(second, ZoneInfo(zone))
    offsets = {(local + timedelta(hours=step)).utcoffset() for step in range(-48, 49, 6)}
    if len(offsets) > 1:
        return
    names = [f"{local + timedelta(days=step):%a}".lower() for step in (0, -1)]
    minute = local.hour * 60 + local.minute
    today = names[0] in days and begin <= minute < (end if end > begin else 24 * 60)
    expected = today or (names[1] in days and end < begin and minute < end)

    assert entry.applies(second) == expected


@given(
    st.sampled_from(_ZONES),
    st.tuples(_MINUTES, _MINUTES).filter(lambda pair: pair[0] != pair[1]),
    st.integers(MONDAY - 400 * 86400, MONDAY + 400 * 86400),
    st.integers(1, 100_000),
)
def test_nothing_changes_between_changes(zone: str, hours: tuple[int, int], second: int, step: int) -> None:
    """Until the next change, an entry applies throughout or not at all."""
    entry = parse_entry(
        ScheduledLimit(
            days="mon-wed,sat", hours=f"{_hours(hours[0])}-{_hours(hours[1])}", zone=zone, until="2028-01-01"
        )
    )
    change = entry.next_change(second)
    assert change > second
    assert entry.applies(min(second + step, change - 1)) == entry.applies(second)


def test_end_of_an_entry() -> None:
    """After its last second, nothing changes any more."""
    entry = parse_entry(ScheduledLimit(until="2026-01-01"))
    assert entry.next_change(MONDAY) == NEVER
    assert not entry.applies(MONDAY)


@pytest.mark.parametrize("subscribers", [(), (lambda _first, _events: None,)], ids=["alone", "followed"])
def test_timers_of_reductions(clock: Clock, subscribers: tuple[object, ...]) -> None:
    """A maximum that a schedule lowers below the usage starts the timer of a reduction with the next change."""
    text = TEXT.replace("    resources: {max", "    properties: {quota.preemption.delay: 60s}\n    resources: {max")
    config = parse_config(text.replace("- queues:", "- preemption: {quotapreemptionenabled: true}\n  queues:", 1))
    partition = Partition(config.partition(), clock=clock, subscribers=subscribers)  # type: ignore[arg-type]
    partition.submit("app", SUE, "root.a")
    clock.now = MONDAY + 10 * HOUR
    assert partition.allocate("a", "app", memory(6))
    clock.now = MONDAY + 18 * HOUR
    assert partition.exceeded_limits()
    partition.submit("other", SUE, "root.a")
    clock.now += 61
    assert partition.plan_reductions()
    partition.verify()


@pytest.mark.parametrize("subscribers", [(), (lambda _first, _events: None,)], ids=["alone", "followed"])
def test_timers_start_again(clock: Clock, subscribers: tuple[object, ...]) -> None:
    """A queue that was within its maximum in between has the whole delay again."""
    text = TEXT.replace("    resources: {max", "    properties: {quota.preemption.delay: 60s}\n    resources: {max")
    config = parse_config(text.replace("- queues:", "- preemption: {quotapreemptionenabled: true}\n  queues:", 1))
    partition = Partition(config.partition(), clock=clock, subscribers=subscribers)  # type: ignore[arg-type]
    partition.submit("app", SUE, "root.a")

    def due() -> list[int]:
        """Return what is due after a change."""
        partition.release("nothing")
        return [timer.due for timer in partition.reduction_timers()]

    clock.now = MONDAY + 10 * HOUR
    assert partition.allocate("a", "app", memory(6))
    clock.now = monday = MONDAY + 18 * HOUR
    assert due() == [monday + 60]
    partition.configure(config.partition())
    clock.now += 30
    assert due() == [monday + 60], "another configuration with the same limits changes nothing"
    clock.now = MONDAY + 34 * HOUR
    assert due() == []
    clock.now = tuesday = MONDAY + 42 * HOUR
    assert due() == [tuesday + 60]
    partition.release("a")
    assert due() == []
    clock.now = MONDAY + 58 * HOUR
    assert partition.allocate("b", "app", memory(6))
    clock.now = wednesday = MONDAY + 66 * HOUR
    assert partition.exceeded_limits(), "a query sees it first"
    assert [timer.due for timer in partition.reduction_timers()] == [wednesday + 60]
    assert not partition.plan_reductions()
    clock.now += 10
    assert due() == [wednesday + (70 if subscribers else 60)]
    clock.now = thursday = MONDAY + 90 * HOUR
    assert due() == [thursday + 60], "the night lies in between, although nothing happened then"
    partition.verify()


def test_timers_after_a_restart(clock: Clock, tmp_path: Path) -> None:
    """A timer that runs continues when the store is opened again, and one that has stopped does not."""
    text = TEXT.replace("    resources: {max", "    properties: {quota.preemption.delay: 60s}\n    resources: {max")
    config = parse_config(text.replace("- queues:", "- preemption: {quotapreemptionenabled: true}\n  queues:", 1))

    def opened() -> StoredPartition:
        return open_partition(tmp_path / "store", config.partition(), clock=lambda: clock.now)

    def due() -> list[int]:
        """Return what is due in a partition that is opened for it."""
        with opened() as partition:
            found = [timer.due for timer in partition.reduction_timers()]
            partition.verify()
            return found

    clock.now = MONDAY + 10 * HOUR
    with opened() as partition:
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("a", "app", memory(6))
        clock.now = monday = MONDAY + 18 * HOUR
        partition.submit("other", SUE, "root.a")
    clock.now += 30
    assert due() == due() == [monday + 60]
    clock.now = MONDAY + 34 * HOUR
    assert due() == []
    clock.now = tuesday = MONDAY + 42 * HOUR
    assert due() == [tuesday + 60]
    with opened() as partition:
        partition.release("a")
    clock.now = MONDAY + 58 * HOUR
    with opened() as partition:
        assert partition.allocate("b", "app", memory(6))
    clock.now = wednesday = MONDAY + 66 * HOUR
    assert due() == [wednesday + 60]


NIGHT, SATURDAY = MONDAY + 10 * HOUR, MONDAY + 4 * 24 * HOUR + 12 * HOUR


@pytest.mark.parametrize("subscribers", [(), (lambda _first, _events: None,)], ids=["alone", "followed"])
def test_denials_name_the_change_that_helps(clock: Clock, subscribers: tuple[object, ...]) -> None:
    """A request is denied for ever only if no later limit is large enough; otherwise the denial has the change."""
    partition = running(clock, subscribers=subscribers)
    answers = {
        5: (True, LimitRise(NIGHT, 6)),
        7: (True, LimitRise(SATURDAY, 8)),
        9: (False, None),
    }
    for size, expected in answers.items():
        decisions = (
            partition.check("app", memory(size)),
            partition.check(UserInQueue(SUE, "root.a"), memory(size)),
            partition.explain("app", memory(size)).decision,
            partition.allocate(f"b-{size}", "app", memory(size)),
            partition.allocate_all([(f"c-{size}", "app", memory(size))]),
            partition.allocate_evicting(f"d-{size}", "app", memory(size)),
            partition.resize("a", memory(size)),
        )
        for decision in decisions:
            (violation,) = (one for one in decision.violations if one.resource is not None)
            assert (decision.can_wait, violation.rise) == expected
    assert "at most 4 allowed until 2026-11-23 22:00 UTC, then 6" in str(partition.check("app", memory(5)))
    (violation,) = partition.check("app", memory(4)).violations
    assert (violation.can_wait, violation.rise) == (True, None), "a release helps"
    partition.verify()


def test_denials_after_the_last_change(clock: Clock) -> None:
    """A change that lies in the past does not help; a limit that ends at a date does."""
    text = """
    partitions:
    - queues:
      - name: a
        limits:
        - users: ["*"]
          maxresources: {memory: 2}
          ugm:
            schedule:
            - {until: 2026-11-25, maxresources: {vcore: 1}}
            - {until: 2026-12-01, maxresources: {memory: 9}}
        - groups: [dev]
          maxresources: {memory: 3}
          ugm: {schedule: [{from: 2027-05-01, days: tue, hours: "01:00-02:00", maxresources: {memory: 5}}]}
    """
    partition = Partition(parse_config(text).partition(), clock=clock)
    partition.submit("app", UserGroup("ben", ("dev",)), "root.a")
    tuesday = int(datetime(2027, 5, 4, 1, tzinfo=ZoneInfo("UTC")).timestamp())

    def rises(size: int) -> list[tuple[str, bool, LimitRise | None]]:
        return [(one.kind, one.can_wait, one.rise) for one in partition.check("app", memory(size)).violations]

    assert rises(4) == [("group", False, None)], "the limit of the user is lower then"
    assert rises(6) == [("group", False, None)]
    clock.now = MONDAY + 2 * 24 * HOUR
    assert rises(10) == [("user", False, None), ("group", False, None)]
    clock.now = MONDAY + 30 * 24 * HOUR
    assert rises(4) == [("user", False, None), ("group", True, LimitRise(tuesday, 5))]


def test_a_change_that_lowers_another_resource(clock: Clock) -> None:
    """A change helps only if its maximum allows the whole request."""
    schedule = "{hours: '22:00-06:00', maxresources: {vcore: 5, gpu: 2}}"
    queue = f"{{name: a, resources: {{max: {{vcore: 1, gpu: 6}}}}, ugm: {{schedule: [{schedule}]}}}}"
    partition = Partition(parse_config(f"partitions: [{{queues: [{queue}]}}]").partition(), clock=clock)
    partition.submit("app", SUE, "root.a")
    answers = {2: (True, LimitRise(NIGHT, 5000)), 3: (False, None)}
    for gpu, expected in answers.items():
        usage = Resource(vcore=3000, gpu=gpu)
        for decision in (
            partition.check("app", usage),
            partition.check(UserInQueue(SUE, "root.a"), usage),
            partition.allocate("a", "app", usage),
            partition.allocate_evicting("a", "app", usage),
        ):
            (violation,) = decision.violations
            assert (decision.can_wait, violation.rise) == expected
    assert partition.allocate("b", "app", Resource(gpu=6))
    assert partition.resize("b", Resource(vcore=3000, gpu=6)).can_wait, "the usage of gpu does not grow"
    assert partition.resize("b", Resource(gpu=1))
    assert not partition.resize("b", Resource(vcore=3000, gpu=3)).can_wait
    gangs = {
        count: [(f"c-{number}", "app", Resource(vcore=1000, gpu=1)) for number in range(count)] for count in (2, 3)
    }
    assert [partition.allocate_all(gang).can_wait for gang in gangs.values()] == [True, False]


_FIRST = datetime(2027, 3, 1, tzinfo=ZoneInfo("UTC"))
_HALF_HOURS = st.integers(0, 47).map(lambda half: half * 30)


def _entries() -> st.SearchStrategy[ScheduledLimit]:
    """Draw an entry that may begin or end in the next weeks."""

    def entry(days: str, span: tuple[int, int], first: int | None, last: int | None, zone: str, most: int | None):  # type: ignore[no-untyped-def]  # noqa: ANN202 - used below only
        start, until = (f"{_FIRST + timedelta(days=day):%Y-%m-%d}" if day else "" for day in (first, last))
        limit = memory(most) if most else Resource(vcore=1)
        hours = f"{_hours(span[0])}-{_hours(span[1])}"
        return ScheduledLimit(days=days, hours=hours, start=start, until=until, zone=zone, max_resources=limit)

    return st.builds(
        entry,
        st.sampled_from(["", "mon", "sat,sun", "tue-thu"]),
        st.tuples(_HALF_HOURS, _HALF_HOURS).filter(lambda pair: pair[0] != pair[1]),
        st.none() | st.integers(0, 20),
        st.none() | st.integers(21, 40),
        st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
        st.none() | st.integers(1, 9),
    )


@pytest.mark.ci
@settings(max_examples=examples(60))
@given(st.lists(_entries(), min_size=1, max_size=3), st.integers(0, 40 * 96), st.integers(2, 9))
def test_rise_is_the_first_change_that_helps(entries: list[ScheduledLimit], quarters: int, size: int) -> None:
    """The change in a denial is that of a naive search of each quarter of an hour, also over changes of the clocks."""
    begin = int(_FIRST.timestamp()) + quarters * 900
    queue = QueueConfig("a", resources=QueueResources(max=memory(1)), ugm=LimitExtensions(schedule=tuple(entries)))
    schedule = ConfigSchedule(PartitionConfig(queues=(queue,)))
    violation = Violation(TrackingType.QUEUE, "root.a", "root.a", "", "memory", 1, 0, size)
    found = schedule.with_rises((violation,), begin, memory(size))[0].rise

    for at in range(begin, begin + 20 * 86_400, 900):
        (active,) = schedule.active(at)
        limit = memory(1) if active is None else entries[active].max_resources or Resource()
        if limit.get("memory", size) >= size:
            assert found == LimitRise(at, limit.get("memory"))
            return
    assert found is None or found.at >= begin + 20 * 86_400


def test_timers_after_a_long_rest(clock: Clock) -> None:
    """After many changes of the limits without an operation, a timer starts again, which takes little time."""
    text = """
    partitions:
    - preemption: {quotapreemptionenabled: true}
      queues:
      - name: a
        properties: {quota.preemption.delay: 60s}
        resources: {max: {memory: 8}}
        ugm:
          schedule:
          - {hours: "00:00-12:00", maxresources: {memory: 4}}
          - {hours: "12:00-24:00", maxresources: {memory: 5}}
    """
    partition = Partition(parse_config(text).partition(), clock=clock)
    partition.submit("app", SUE, "root.a")
    partition.adopt("a", "app", memory(6))
    (first,) = partition.reduction_timers()
    clock.now += 4 * 24 * HOUR
    assert partition.reduction_timers() == (first,)
    clock.now += 40 * 24 * HOUR
    (second,) = partition.reduction_timers()
    assert second.since == clock.now

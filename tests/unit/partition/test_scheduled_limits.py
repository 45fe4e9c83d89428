"""Limits that change at certain hours, days and dates."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clocks import Clock
from support.config_cases import places_of
from support.examples import examples
from support.partition_fixtures import SUE, memory
from ugm import Partition, RequestError, Resource, TrackingType, UserInQueue, Violation, parse_config
from ugm.config import PartitionConfig, QueueConfig, QueueResources, ScheduledLimit, dump_config, export_config
from ugm.configuration import LimitExtensions
from ugm.decision import LimitRise
from ugm.partition.config.compiled import ConfigSchedule

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


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock(MONDAY)


def running(clock: Clock, **options: object) -> Partition:
    """Return a partition with an application that holds 4 of memory."""
    partition = Partition(CONFIG, clock=clock, **options)  # type: ignore[arg-type]  # handed on
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("a", "app", memory(4))
    return partition


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
    [problem] = places_of(TEXT.replace(before, after))

    assert (problem.split()[0], problem.split()[-1]) == (place, code)


def _hours(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


NIGHT, SATURDAY = MONDAY + 10 * HOUR, MONDAY + 4 * 24 * HOUR + 12 * HOUR


@pytest.mark.parametrize("subscribers", [(), (lambda _first, _events: None,)], ids=["alone", "followed"])
def test_denials_name_the_change_that_helps(clock: Clock, subscribers: tuple[object, ...]) -> None:
    """A request is denied for ever only if no later limit is large enough; otherwise the denial has the change."""
    partition = running(clock, subscribers=subscribers)
    answers = {5: (True, LimitRise(NIGHT, 6)), 7: (True, LimitRise(SATURDAY, 8)), 9: (False, None)}
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
    # The highest maximum is too small.
    assert str(partition.check("app", memory(9)).violations[0]).endswith("until 2026-11-28 00:00 UTC, then 8")
    (violation,) = partition.check("app", memory(4)).violations
    assert (violation.can_wait, violation.rise) == (True, None), "a release helps"
    partition.verify()


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


def test_families_and_names_with_a_schedule(clock: Clock) -> None:
    """A schedule of one queue changes neither the families of a partition nor its list of resources."""
    partition = Partition(
        parse_config(
            """
            partitions:
            - ugm: {families: {gpu: [a100, v100]}, resources: [vcore]}
              queues: [{name: a, ugm: {schedule: [{hours: "08:00-18:00", maxresources: {gpu: 9}}]}}, {name: b}]
            """
        ).partition(),
        clock=clock,
    )
    partition.add_node("n", Resource({"gpu:a100": 4}))
    for name in ("a", "b"):
        assert partition.submit(name, SUE, f"root.{name}")

    assert partition.allocate("a-0", "a", Resource(gpu=3)).assign == Resource({"gpu:a100": 3})
    assert not partition.allocate("b-0", "b", Resource({"gpu:a100": 2}))
    with pytest.raises(RequestError, match="'vcores' is not listed"):
        partition.allocate("b-0", "b", Resource(vcores=1))

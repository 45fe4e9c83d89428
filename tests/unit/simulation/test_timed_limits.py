"""Replays with budgets and scheduled limits: by hand, against a naive replay of each second, and against a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ugm import Partition, Resource, UserGroup
from ugm.config import BudgetConfig, Extensions, PartitionConfig, QueueConfig, QueueResources
from ugm.configuration import LimitExtensions, ScheduledLimit
from ugm.simulation import Job, Report, simulate

SUE, BEN = UserGroup("sue", ("lab",)), UserGroup("ben", ("lab",))
DAY: Final = 86_400
#: A minute before midnight, December 1, 2026, in UTC.
START: Final = 1_796_083_200 - 60
#: The second of the workload at which December begins.
MIDNIGHT: Final = 60


def job(number: int, submit: int, run: int, gpu: int = 1, user: UserGroup = SUE, requested: int | None = None) -> Job:
    """Return a job in the queue ``root.a``."""
    return Job(number, submit, run, "root.a", user, Resource(gpu=gpu), requested_time=requested)


def declaring(*budgets: BudgetConfig, queue: QueueConfig | None = None) -> PartitionConfig:
    """Return a configuration with some budgets and one queue."""
    return PartitionConfig(queues=(queue or QueueConfig("a"),), ugm=Extensions(budgets=budgets))


def lab(amount: int, **options: str) -> BudgetConfig:
    """Return a budget of the lab for each day."""
    return replace(BudgetConfig("lab", group="lab", amounts=Resource(gpu=amount), period="day"), **options)  # type: ignore[arg-type] # texts of literals


def ran(report: Report) -> list[tuple[str, int | None, int | Fraction, int | None, int]]:
    """Return the owners, the ends of the periods, the usage, the first denials and the denied jobs."""
    return [(one.owner, one.end, one.settled, one.ran_out, one.denied_jobs) for one in report.budgets]


def test_who_runs_out_and_when() -> None:
    """A job that does not fit the rest of a day starts with the next day."""
    report = simulate([job(1, 0, 40), job(2, 5, 30), job(3, 6, 20)], declaring(lab(60)), start=START)

    # 40 + 20 fit into the first day. The second job starts at midnight.
    assert ran(report) == [("lab", MIDNIGHT, 60, 5, 1), ("lab", None, 30, None, 0)]
    assert (report.waiting.max, report.end_time, report.is_clean) == (MIDNIGHT - 5, MIDNIGHT + 30, True)
    [limit] = report.limits
    assert (limit.kind, limit.limit_name, limit.resource, limit.delayed_jobs, limit.delayed_seconds) == (
        "budget", "lab", "gpu", 1, MIDNIGHT - 5,
    )  # fmt: skip


def nightly(day: int, night: int | None) -> PartitionConfig:
    """Return a configuration with another maximum from midnight on, for six hours."""
    entry = ScheduledLimit(hours="00:00-06:00", max_resources=Resource({} if night is None else {"gpu": night}))
    queue = QueueConfig("a", resources=QueueResources(max=Resource(gpu=day)), ugm=LimitExtensions(schedule=(entry,)))
    return declaring(queue=queue)


def test_a_scheduled_limit() -> None:
    """A job that is too large for the day waits for the night, and the report has the highest limit."""
    report = simulate([job(1, 0, 10, 4), job(2, 1, 10, 9)], nightly(2, 4), start=START)

    assert (report.started, report.rejected, report.waiting.max) == (1, 1, MIDNIGHT)
    [limit] = report.limits
    assert (limit.limit, limit.peak, limit.delayed_seconds, limit.rejected) == (4, 4, MIDNIGHT, 1)


def test_jobs_that_no_change_helps() -> None:
    """A replay ends if a waiting job cannot start for more than a year; jobs that can never start are rejected."""
    entry = ScheduledLimit(until="2026-12-01", max_resources=Resource(gpu=4))
    queue = QueueConfig("a", resources=QueueResources(max=Resource(gpu=1)), ugm=LimitExtensions(schedule=(entry,)))
    config = declaring(lab(100_000), queue=queue)
    report = simulate([job(1, 0, 100, 3), job(2, 1, 10, 2), job(3, 70, 10, 3)], config, start=START)

    assert (report.still_waiting, report.started, report.rejected) == (1, 1, 1)


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.integers(0, 25),
        st.sampled_from([SUE, BEN]),
        st.integers(1, 6),
        st.none() | st.integers(1, 30),
    ),
    min_size=1,
    max_size=14,
)
BUDGETS = st.lists(
    st.builds(
        BudgetConfig,
        st.just("b"),
        group=st.sampled_from(["", "lab"]),
        amounts=st.integers(0, 150).map(lambda amount: Resource(gpu=amount)),
        period=st.sampled_from(["none", "day", "month"]),
        carry=st.just("none"),
        mode=st.sampled_from(["safe", "admit"]),
    ),
    max_size=2,
).map(lambda found: [replace(one, name=f"b{number}") for number, one in enumerate(found)])


class Naive:
    """A replay that requests every waiting job at every second."""

    def __init__(self, jobs: list[Job], config: PartitionConfig, most: int | None) -> None:
        self.now, self.rejected = 0, 0
        self.partition = Partition(config, clock=lambda: START + self.now)
        self.waiting: list[Job] = []
        self.running: list[tuple[int, Job]] = []
        #: The waits of started jobs.
        self.waits: dict[int, int] = {}
        for self.now in seconds(jobs):
            self.end_jobs()
            for one in jobs:
                if one.submit_time == self.now:
                    self.submit(one, most)
                    self.end_jobs()

    def starts(self, one: Job) -> bool:
        """Try to start a job."""
        name, duration = one.application_id, one.requested_time or max(one.run_time, 1)
        if not self.partition.allocate(name, name, one.usage, duration=duration):
            return False
        self.running.append((self.now + one.run_time, one))
        self.waits[one.number] = self.now - one.submit_time
        return True

    def end_jobs(self) -> None:
        """Release the jobs that end now, and request all waiting jobs, until no job ends at once."""
        is_first = True
        while is_first or any(end <= self.now for end, _ in self.running):
            is_first = False
            for event in [event for event in self.running if event[0] <= self.now]:
                self.running.remove(event)
                self.partition.remove(event[1].application_id)
            self.waiting = [one for one in self.waiting if not self.starts(one)]

    def submit(self, one: Job, most: int | None) -> None:
        """Start, delay or reject a job; *most* is the highest limit of the queue at any time."""
        name = one.application_id
        self.partition.submit(name, one.user, one.queue)
        decision = self.partition.check(name, one.usage, duration=one.requested_time or max(one.run_time, 1))
        can_wait = all(each.can_wait or each.kind == "queue" for each in decision.violations)
        if (most is not None and one.usage["gpu"] > most) or not can_wait:
            self.rejected += 1
            self.partition.remove(name)
        elif not self.starts(one):
            self.waiting.append(one)


def seconds(jobs: list[Job]) -> Iterator[int]:
    """Yield all seconds up to the end of the workload, and some minutes after every later change."""
    last = jobs[-1].submit_time
    yield from range(max(last, MIDNIGHT) + 400)
    for day in range(3):
        for begin in (MIDNIGHT + day * DAY + 6 * 3600, MIDNIGHT + (day + 1) * DAY):
            yield from range(begin, begin + 400)


@given(ARRIVALS, BUDGETS, st.none() | st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_equals_a_naive_replay(
    arrivals: list[tuple[int, int, UserGroup, int, int | None]],
    budgets: list[BudgetConfig],
    schedule: tuple[int, int] | None,
) -> None:
    """Each job starts at the second at which it would if every waiting job were requested at each second."""
    config = declaring(queue=nightly(*schedule).root.queues[0]) if schedule else declaring()
    config = replace(config, ugm=Extensions(budgets=tuple(budgets)))
    jobs: list[Job] = []
    for number, (gap, run, user, gpu, requested) in enumerate(arrivals, start=1):
        jobs.append(job(number, (jobs[-1].submit_time if jobs else 0) + gap, run, gpu, user, requested))

    naive = Naive(jobs, config, max(schedule) if schedule else None)
    report = simulate(jobs, config, start=START, until=MIDNIGHT + 3 * DAY + 100)

    started = {
        number: wait for number, wait in naive.waits.items() if jobs[number - 1].submit_time + wait <= report.end_time
    }
    assert (report.started, report.rejected) == (len(started), naive.rejected)
    assert (report.waiting.total, report.waiting.max) == (sum(started.values()), max(started.values(), default=0))
    assert report.is_clean

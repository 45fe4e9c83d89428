"""Reservations in a replay: by hand, and against a replay that requests every waiting job again after each release."""

from __future__ import annotations

from cProfile import Profile
from dataclasses import replace
from pstats import Stats

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ugm import Decision, Partition, Resource, UserGroup
from ugm.config import LimitConfig, PartitionConfig, PlacementRule, QueueConfig, QueueResources
from ugm.configuration import LimitExtensions, ScheduledLimit
from ugm.partition import AllocationRequest
from ugm.partition.config_schedule import NEVER, ConfigSchedule
from ugm.simulation import Job, JobOrderName, Report, WaitingTime, simulate
from ugm.simulation.job_order import order_of
from ugm.simulation.reserving import with_reservations

SUE, BOB = UserGroup("sue", ("dev",)), UserGroup("bob", ("dev", "test"))


def job(number: int, submit: int, run: int, vcore: int, requested: int | None = None, queue: str = "root.a") -> Job:
    """Return a job of Sue that promises to end after the requested time."""
    return Job(number, submit, run, queue, SUE, Resource(vcore=vcore), requested_time=requested)


def cluster_of(vcore: int, **root: object) -> dict[str, object]:
    """Return a configuration of one queue, and a cluster."""
    config = PartitionConfig(queues=(QueueConfig("root", queues=(QueueConfig("a"),), **root),))  # type: ignore[arg-type] # fields
    return {"config": config, "cluster": Resource(vcore=vcore)}


def waits_of(report: Report) -> dict[str, WaitingTime]:
    """Return the waits by user."""
    return dict(report.users)


def test_a_large_job_does_not_starve() -> None:
    """Smaller jobs that would delay it wait for it; without reservation they pass it."""
    # Job 2 needs both cores. Jobs 3 and 4 keep one of them in use.
    jobs = [job(1, 0, 10, 1), job(2, 1, 10, 2), job(3, 2, 15, 1), job(4, 12, 15, 1)]

    passed, kept = (simulate(jobs, **cluster_of(2), reserves=reserves) for reserves in (False, True))  # type: ignore[arg-type] # as listed

    assert passed.waiting == WaitingTime(4, 1, 26, 26, 26)
    # Job 2 starts at 10, and jobs 3 and 4 at 20.
    assert kept.waiting == WaitingTime(4, 3, 9 + 18 + 8, 18, 18)
    assert [(one.kind, one.delayed_jobs, one.delayed_seconds) for one in kept.limits if one.kind == "reservation"] == [
        ("reservation", 1, 8)
    ]
    assert sum(one.delayed_seconds for one in kept.limits) == kept.waiting.total
    assert kept.is_clean


def test_a_job_that_promises_to_end_before_the_start_passes() -> None:
    """The requested time counts, not the run time, which a scheduler does not know."""
    for requested, waits in ((8, 0), (9, 18)):
        jobs = [job(1, 0, 10, 1), job(2, 1, 10, 2), job(3, 2, 3, 1, requested)]

        report = simulate(jobs, **cluster_of(2), reserves=True)  # type: ignore[arg-type] # as listed

        assert report.waiting.total == 9 + waits


def test_a_limit_of_a_reserved_user_holds_back_no_other_user() -> None:
    """Jobs of other users are requested although one of the user is held back, in the same queue and round."""
    limits = (LimitConfig(users=("sue",), max_resources=Resource(vcore=3)),)
    # Job 3 is reserved and starts at 10. Job 4 of the same user would exceed the limit then; job 5 would not.
    jobs = [
        replace(job(1, 0, 10, 3), user=BOB),
        replace(job(2, 0, 5, 1), user=BOB),
        job(3, 1, 10, 3),
        job(4, 2, 3, 1),
        replace(job(5, 3, 4, 1), user=BOB),
    ]

    report = simulate(jobs, **cluster_of(4, limits=limits), reserves=True)  # type: ignore[arg-type] # as listed

    assert waits_of(report)["bob"].total == 5 - 3
    assert waits_of(report)["sue"].total == (10 - 1) + (20 - 2)


def test_a_job_that_was_held_back_gets_the_next_reservation() -> None:
    """A later job that never fitted meanwhile does not get the reservation before it."""
    # Job 2 is reserved. Job 3 fits at 3, but would delay it; job 4 does not fit.
    jobs = [job(1, 1, 5, 1, 7), job(2, 1, 3, 4), job(3, 3, 5, 2, 7), job(4, 3, 1, 4)]

    report = simulate([*jobs[:3], replace(jobs[3], user=BOB)], **cluster_of(4), reserves=True)  # type: ignore[arg-type] # as listed

    # Job 2 starts at 6, job 3 at 9, and job 4 at 14.
    assert waits_of(report)["sue"].total == (6 - 1) + (9 - 3)
    assert waits_of(report)["bob"].total == 14 - 3


def test_a_job_reserves_when_its_user_limit_is_not_full_any_more() -> None:
    """It reserves in its turn in the round, so that a smaller job after it does not pass."""
    limits = (LimitConfig(users=("sue",), max_resources=Resource(vcore=6)),)
    queues = tuple(QueueConfig(name, resources=QueueResources(max=Resource(vcore=3))) for name in "ab")
    config = PartitionConfig(queues=(QueueConfig("root", queues=queues, limits=limits),))
    # Until 8, Sue uses 5 of her 6 cores. Then queue b has 2 of its 3 cores free.
    jobs = [
        job(1, 3, 5, 3),
        job(2, 4, 4, 2, queue="root.b"),
        replace(job(3, 4, 5, 1, queue="root.b"), user=BOB),
        job(4, 6, 3, 3, queue="root.b"),
        job(5, 6, 6, 2, queue="root.b"),
    ]

    report = simulate(jobs, config, reserves=True)

    assert waits_of(report)["sue"].total == (9 - 6) + (12 - 6)


def test_a_job_of_a_queue_with_a_higher_priority_takes_the_reservation() -> None:
    """A later job gets the reservation of an earlier one, if its queue has the higher offset and it is blocked, too."""
    queues = (QueueConfig("a"), QueueConfig("b", properties={"priority.offset": "1"}))
    config = PartitionConfig(queues=(QueueConfig("root", queues=queues),))
    jobs = [job(1, 3, 4, 3, queue="root.b"), job(2, 3, 2, 4), replace(job(3, 5, 2, 3, queue="root.b"), user=BOB)]

    report = simulate(jobs, config, cluster=Resource(vcore=5), reserves=True)

    # Job 3 starts when job 1 ends, and then job 2.
    assert waits_of(report)["bob"].total == 7 - 5
    assert waits_of(report)["sue"].total == 9 - 3


def test_a_blocked_job_loses_its_reservation_for_good() -> None:
    """A job that a limit of its user blocks for some time does not get its reservation back when the block ends."""
    limits, reserves = (LimitConfig(users=("*",), max_resources=Resource(vcore=4)),), {"ugm.reservation": "enabled"}
    queues = (
        QueueConfig("a", properties={"priority.offset": "2"}),
        QueueConfig("b", properties={**reserves, "priority.offset": "1"}, limits=limits),
    )
    config = PartitionConfig(queues=(QueueConfig("root", queues=queues, limits=limits, properties=reserves),))
    jobs = [
        replace(job(1, 3, 5, 3, 9, queue="root.b"), user=BOB),
        replace(job(2, 3, 6, 4, 9, queue="root.b"), user=BOB),
        job(3, 3, 2, 4, 5, queue="root.b"),
        replace(job(4, 4, 2, 3, 3), user=BOB),
        replace(job(5, 5, 3, 4, 4), user=BOB),
        job(6, 7, 5, 2, 6, queue="root.b"),
        job(7, 15, 1, 2, 2),
        replace(job(8, 16, 3, 3, 5, queue="root.b"), user=BOB),
    ]

    report = simulate(jobs, config, cluster=Resource(vcore=5), reserves=True)
    naive = NaiveReplay(config, Resource(vcore=5))
    for one in jobs:
        naive.submit(one)
    naive.end_until(None)

    assert waits_of(report)["sue"].total == sum(naive.waits[number] for number in (3, 6, 7))
    assert waits_of(report)["bob"].total == sum(naive.waits[number] for number in (1, 2, 4, 5, 8))


def test_a_large_job_does_not_starve_below_scheduled_limits() -> None:
    """The same as without a schedule: jobs reserve although gauges do not know the limits at each time."""
    jobs = [job(1, 0, 10, 1), job(2, 1, 10, 2), job(3, 2, 15, 1), job(4, 12, 15, 1)]
    nights = LimitExtensions(schedule=(ScheduledLimit(hours="22:00-23:00", max_resources=Resource(vcore=1)),))
    config = PartitionConfig(queues=(QueueConfig("a", resources=QueueResources(max=Resource(vcore=2)), ugm=nights),))

    passed, kept = (simulate(jobs, config, reserves=reserves) for reserves in (False, True))

    assert passed.waiting == WaitingTime(4, 1, 26, 26, 26)
    assert kept.waiting == WaitingTime(4, 3, 9 + 18 + 8, 18, 18)
    assert kept.is_clean


def test_a_user_limit_beside_scheduled_limits_gets_no_reservation() -> None:
    """A job that a limit of its user delays does not reserve, so that jobs of other users pass it."""
    nights = LimitExtensions(schedule=(ScheduledLimit(hours="22:00-23:00", max_resources=Resource(vcore=1)),))
    limits = (LimitConfig(users=("sue",), max_resources=Resource(vcore=2)),)
    queue = QueueConfig("a", limits=limits, resources=QueueResources(max=Resource(vcore=3)), ugm=nights)
    # Job 2 needs two cores, and Sue may use one more. Job 3 uses the rest of the queue.
    jobs = [job(1, 0, 10, 1), job(2, 1, 10, 2), replace(job(3, 2, 100, 1), user=BOB)]

    report = simulate(jobs, PartitionConfig(queues=(queue,)), reserves=True)

    assert waits_of(report)["bob"].total == 0
    assert waits_of(report)["sue"].total == 10 - 1


def scheduled(hours: str, vcore: int) -> LimitExtensions:
    """Return a maximum that is in force at some hours."""
    return LimitExtensions(schedule=(ScheduledLimit(hours=hours, max_resources=Resource(vcore=vcore)),))


def test_a_reservation_that_a_schedule_frees_is_given_away_before_held_jobs_start() -> None:
    """The maximum falls below the reserved job. The next job reserves, and not the one that was held back starts."""
    queue = QueueConfig("a", resources=QueueResources(max=Resource(vcore=8)), ugm=scheduled("00:50-03:00", 5))
    jobs = [job(1, 420, 3000, 3), job(2, 810, 60, 7), job(3, 1470, 3000, 1), job(4, 1770, 30, 5), job(5, 1890, 3000, 1)]

    report = simulate(jobs, PartitionConfig(queues=(queue,)), reserves=True, until=9000)

    # Jobs 1 and 3 start at once. At 4470, job 3 ends and job 4 starts, and then job 5. Job 2 is too large until 10800.
    assert report.waiting == WaitingTime(4, 2, (4470 - 1770) + (4500 - 1890), 2700, 2700)
    assert report.still_waiting == 1


def test_a_job_whose_group_limit_was_relieved_reserves_before_a_later_job() -> None:
    """It gets the reservation that a start leaves, before the round has requested it again."""
    limits = (LimitConfig(groups=("dev",), max_resources=Resource(vcore=2)),)
    queues = (
        QueueConfig("a", properties={"priority.offset": "1"}, ugm=scheduled("22:00-23:00", 8)),
        QueueConfig(
            "b",
            limits=limits,
            properties={"ugm.reservation": "enabled", "priority.offset": "0"},
            resources=QueueResources(max=Resource(vcore=5)),
        ),
    )
    config, other = PartitionConfig(queues=queues), UserGroup("eva")
    jobs = [
        job(1, 60, 3000, 1, queue="root.b"),
        replace(job(2, 1080, 1800, 3, queue="root.b"), user=other),
        job(3, 1440, 3000, 1, queue="root.b"),
        replace(job(4, 1440, 90, 3, queue="root.b"), user=other),
        job(5, 1500, 3000, 1, queue="root.b"),
        replace(job(6, 1860, 30, 3, queue="root.b"), user=other),
        job(7, 1890, 1800, 5),
        replace(job(8, 1950, 600, 1), user=other),
    ]

    report = simulate(jobs, config, cluster=Resource(vcore=10), reserves=True, order="priority")

    naive = NaiveReplay(config, Resource(vcore=10), "priority")
    for one in jobs:
        naive.submit(one)
    naive.end_until(None)
    assert waits_of(report)["sue"].total == sum(naive.waits[number] for number in (1, 3, 5, 7))


@pytest.mark.parametrize("order", ["fair", "share"])
def test_cost_of_a_round_with_many_lines(order: JobOrderName) -> None:
    """A round that requests a job of every queue and user does not look at all lines again for each of them."""

    def calls(count: int) -> int:
        # When the first job ends, all others start.
        small = [Job(one, 2, 200, f"root.q{one}", UserGroup(f"u{one}"), Resource(vcore=1)) for one in range(2, count)]
        queues = (QueueConfig("a"), *(QueueConfig(f"q{one}") for one in range(2, count)))
        jobs, config, profile = [job(1, 0, 90, count), *small], PartitionConfig(queues=queues), Profile()
        report = profile.runcall(simulate, jobs, config, cluster=Resource(vcore=count), order=order)
        assert report.waiting.total == len(small) * (90 - 2)
        return Stats(profile).total_calls  # type: ignore[attr-defined, no-any-return] # not in the stubs

    assert calls(200) < 2.5 * calls(100)


def test_cost_of_held_jobs_that_fit() -> None:
    """When a reservation becomes free while capacity is free, the held jobs are not looked at one by one."""

    def calls(count: int) -> int:
        jobs = [job(number, 0, 10, 1, 10 + number) for number in range(1, count + 1)]
        profile = Profile()
        report = profile.runcall(simulate, jobs, **cluster_of(10), reserves=True)  # type: ignore[arg-type] # as listed
        assert report.started == count
        return Stats(profile).total_calls  # type: ignore[attr-defined, no-any-return] # not in the stubs

    assert calls(600) < 2.5 * calls(300)


def test_queues_with_the_property_reserve() -> None:
    """If the configuration names queues, the root does not reserve, except if it is one of them."""
    config = with_reservations(PartitionConfig(queues=(QueueConfig("a"),)))
    assert config.root.properties == {"ugm.reservation": "enabled"}

    named = PartitionConfig(queues=(QueueConfig("a", properties={"ugm.reservation": "enabled"}),))
    assert with_reservations(named) is named


PROMISES = {"properties": st.sampled_from([{}, {"ugm.reservation": "enabled"}])}
CORES = st.none() | st.integers(1, 6).map(lambda vcore: Resource(vcore=vcore))
LIMITS = st.lists(
    st.builds(
        LimitConfig,
        users=st.sampled_from([("sue",), ("*",)]),
        max_resources=st.integers(2, 6).map(lambda vcore: Resource(vcore=vcore)),
    ),
    max_size=1,
).map(tuple)
OFFSETS = st.sampled_from([{}, {"ugm.reservation": "enabled"}, {"priority.offset": "1"}, {"priority.offset": "2"}])
LEAVES = {"resources": st.builds(QueueResources, max=CORES), "limits": LIMITS, "properties": OFFSETS}
CONFIGS = st.builds(
    QueueConfig,
    st.just("root"),
    limits=LIMITS,
    queues=st.tuples(st.builds(QueueConfig, st.just("a"), **LEAVES), st.builds(QueueConfig, st.just("b"), **LEAVES)),
    **PROMISES,
).map(lambda root: PartitionConfig(queues=(root,), placement_rules=(PlacementRule(name="provided", create=True),)))
ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(1, 6),
        st.integers(0, 4),
        st.sampled_from(["root.a", "root.b"]),
        st.sampled_from([SUE, BOB]),
        st.integers(1, 4),
    ),
    max_size=25,
)


def workload(arrivals: list[tuple[int, int, int, str, UserGroup, int]]) -> list[Job]:
    """Return jobs with some seconds between them, which promise their run time and some seconds more."""
    jobs: list[Job] = []
    for number, (gap, run, more, queue, user, vcore) in enumerate(arrivals, start=1):
        at = (jobs[-1].submit_time if jobs else 0) + gap
        jobs.append(Job(number, at, run, queue, user, Resource(vcore=vcore), requested_time=run + more))
    return jobs


class NaiveReplay:
    """Requests every waiting job after each release, in an order."""

    def __init__(self, config: PartitionConfig, cluster: Resource | None, order: JobOrderName = "fifo") -> None:
        self.now = 0
        self.waiting: list[Job] = []
        self.running: list[tuple[int, int, Job]] = []
        self.waits: dict[int, int] = {}
        self.partition = Partition(with_reservations(config), cluster=cluster, clock=lambda: self.now)
        self.order = order_of(order, config, self.partition, cluster)
        self.schedule = ConfigSchedule.compile(config)

    def next_event(self) -> int:
        """Return the next second at which a job ends or limits change while jobs wait; `NEVER` without any."""
        change = NEVER if self.schedule is None or not self.waiting else self.schedule.next_change(self.now)
        return min([change, *(event[0] for event in self.running)])

    def request(self, one: Job) -> Decision:
        """Request a job as in a scheduling pass."""
        name = one.application_id
        return self.partition.allocate(AllocationRequest(name, name, one.usage, duration=one.promised_time))

    def starts(self, one: Job) -> bool:
        """Start a job if it fits and delays no reserved one."""
        if not self.request(one):
            return False
        self.running.append((self.now + one.run_time, len(self.waits), one))
        self.waits[one.number] = self.now - one.submit_time
        self.order.change(self.now, one.queue, one.user, one.usage, 1)
        return True

    def place(self, one: Job) -> tuple[object, int]:
        """Return the place of a job in the order now."""
        return self.order.key(self.order.line(one.queue, one.user)), one.number

    def fill(self) -> None:
        """Let the first waiting jobs that only limits of queues deny have the free reservations."""
        for one in sorted((one for one in self.waiting if one.number not in self.waits), key=self.place):
            violations = self.partition.check(one.application_id, one.usage).violations
            if violations and {each.kind for each in violations} == {"queue"}:
                self.request(one)

    def end_until(self, time: int | None) -> None:
        """End jobs, and request the waiting ones after each end and each change of limits."""
        while self.running if time is None else self.next_event() <= time:
            self.now = self.next_event()
            for event in sorted(event for event in self.running if event[0] == self.now):
                self.running.remove(event)
                self.partition.remove(event[2].application_id)
                self.order.change(self.now, event[2].queue, event[2].user, event[2].usage, -1)
            left = list(self.waiting)
            while left:
                # Each start may change the order of the others.
                left.remove(one := min(left, key=self.place))
                if self.starts(one):
                    self.fill()
            self.waiting = [one for one in self.waiting if one.number not in self.waits]
            self.fill()

    def submit(self, one: Job) -> None:
        """Start, delay or reject a job."""
        self.end_until(one.submit_time)
        self.now = one.submit_time
        assert self.partition.submit(one.application_id, one.user, one.queue)
        if not self.partition.check(one.application_id, one.usage).can_wait:
            self.partition.remove(one.application_id)
        elif not self.starts(one):
            self.waiting.append(one)
            self.partition.request(one.application_id, one.application_id, one.usage, duration=one.promised_time)
            self.fill()
        else:
            self.fill()


@pytest.mark.ci
@given(
    ARRIVALS.map(workload),
    CONFIGS,
    CORES.map(lambda cores: cores and cores + Resource(vcore=3)),
    st.sampled_from(["fifo", "fair", "priority"]),
)
def test_equals_the_naive_replay(
    jobs: list[Job], config: PartitionConfig, cluster: Resource | None, order: JobOrderName
) -> None:
    """The outcome is that of requesting every waiting job after each release.

    The ranks of users are computed when they are needed, so the order by shares depends on the requests.
    """
    report = simulate(jobs, config, cluster=cluster, reserves=True, order=order)

    naive = NaiveReplay(config, cluster, order)
    for one in jobs:
        naive.submit(one)
    naive.end_until(None)
    by_user: dict[str, list[int]] = {}
    for one in jobs:
        if one.number in naive.waits:
            by_user.setdefault(one.user.name, []).append(naive.waits[one.number])
    assert {user: WaitingTime.of(own) for user, own in by_user.items()} == dict(report.users)
    assert report.is_clean


SCHEDULES = st.lists(
    st.builds(
        lambda begin, end, vcore: ScheduledLimit(
            hours=f"00:{begin:02}-00:{end:02}", max_resources=Resource(vcore=vcore)
        ),
        st.integers(0, 3),
        st.integers(4, 8),
        st.integers(1, 5),
    ),
    max_size=2,
).map(lambda entries: LimitExtensions(schedule=tuple(entries)))


@pytest.mark.ci
@given(
    ARRIVALS.map(workload),
    CONFIGS,
    st.tuples(SCHEDULES, SCHEDULES),
    st.sampled_from(["fifo", "priority"]),
)
def test_equals_the_naive_replay_below_scheduled_limits(
    jobs: list[Job], config: PartitionConfig, schedules: tuple[LimitExtensions, ...], order: JobOrderName
) -> None:
    """The outcome is that of requesting every waiting job after each release and each change of limits."""
    leaves = zip(config.root.queues, schedules, strict=True)
    maxima = QueueResources(max=Resource(vcore=6))
    queues = tuple(replace(leaf, resources=maxima, ugm=schedule) for leaf, schedule in leaves)
    config = replace(config, queues=(replace(config.root, queues=queues),))
    # Schedules count minutes.
    jobs = [
        replace(one, submit_time=20 * one.submit_time, run_time=20 * one.run_time, requested_time=None) for one in jobs
    ]
    until = max([0, *(one.submit_time for one in jobs)]) + 3600

    report = simulate(jobs, config, cluster=Resource(vcore=8), reserves=True, order=order, until=until)

    naive = NaiveReplay(config, Resource(vcore=8), order)
    for one in jobs:
        naive.submit(one)
    naive.end_until(until)
    assert report.waiting == WaitingTime.of(list(naive.waits.values()))
    assert report.is_clean


@pytest.mark.ci
@given(
    ARRIVALS.map(workload),
    CONFIGS,
    CORES.map(lambda cores: cores and cores + Resource(vcore=3)),
    st.sampled_from(["fifo", "fair", "share", "priority"]),
)
def test_no_job_is_lost(
    jobs: list[Job], config: PartitionConfig, cluster: Resource | None, order: JobOrderName
) -> None:
    """In every order, each job starts or is rejected, as without reservations."""
    without, with_them = (
        simulate(jobs, config, cluster=cluster, order=order, reserves=reserves) for reserves in (False, True)
    )

    assert with_them.submitted == len(jobs)
    assert (with_them.started, with_them.rejected, with_them.still_waiting) == (without.started, without.rejected, 0)
    assert sum(one.delayed_seconds for one in with_them.limits) == with_them.waiting.total
    assert with_them.is_clean

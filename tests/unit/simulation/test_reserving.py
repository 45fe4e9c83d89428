"""Reservations in a replay: by hand, and against a replay that requests every waiting job again after each release."""

from __future__ import annotations

from dataclasses import replace

from ugm import Resource, UserGroup
from ugm.config import LimitConfig, PartitionConfig, QueueConfig, QueueResources
from ugm.configuration import LimitExtensions, ScheduledLimit
from ugm.simulation import Job, Report, WaitingTime, simulate

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
        ("reservation", 2, 26)
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

    report = simulate(jobs, config, cluster=Resource(vcore=5), reserves=True, order="priority")

    # Job 3 starts when job 1 ends, and then job 2.
    assert waits_of(report)["bob"].total == 7 - 5
    assert waits_of(report)["sue"].total == 9 - 3


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

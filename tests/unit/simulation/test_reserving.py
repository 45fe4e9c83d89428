"""Reservations in a replay: by hand, and against a replay that requests every waiting job again after each release."""

from __future__ import annotations

from ugm import Resource, UserGroup
from ugm.config import PartitionConfig, QueueConfig, QueueResources
from ugm.configuration import LimitExtensions, ScheduledLimit
from ugm.simulation import Job, WaitingTime, simulate

SUE, BOB = UserGroup("sue", ("dev",)), UserGroup("bob", ("dev", "test"))


def job(number: int, submit: int, run: int, vcore: int, requested: int | None = None, queue: str = "root.a") -> Job:
    """Return a job of Sue that promises to end after the requested time."""
    return Job(number, submit, run, queue, SUE, Resource(vcore=vcore), requested_time=requested)


def cluster_of(vcore: int, **root: object) -> dict[str, object]:
    """Return a configuration of one queue, and a cluster."""
    config = PartitionConfig(queues=(QueueConfig("root", queues=(QueueConfig("a"),), **root),))  # type: ignore[arg-type] # fields
    return {"config": config, "cluster": Resource(vcore=vcore)}


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


def test_a_large_job_does_not_starve_below_scheduled_limits() -> None:
    """The same as without a schedule: jobs reserve although gauges do not know the limits at each time."""
    jobs = [job(1, 0, 10, 1), job(2, 1, 10, 2), job(3, 2, 15, 1), job(4, 12, 15, 1)]
    nights = LimitExtensions(schedule=(ScheduledLimit(hours="22:00-23:00", max_resources=Resource(vcore=1)),))
    config = PartitionConfig(queues=(QueueConfig("a", resources=QueueResources(max=Resource(vcore=2)), ugm=nights),))

    passed, kept = (simulate(jobs, config, reserves=reserves) for reserves in (False, True))

    assert passed.waiting == WaitingTime(4, 1, 26, 26, 26)
    assert kept.waiting == WaitingTime(4, 3, 9 + 18 + 8, 18, 18)
    assert kept.is_clean

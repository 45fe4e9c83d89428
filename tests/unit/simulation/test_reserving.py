"""Reservations in a replay: by hand, and against a replay that requests every waiting job again after each release."""

from __future__ import annotations

import pytest

from ugm import Resource, UserGroup
from ugm.config import PartitionConfig, QueueConfig, QueueResources
from ugm.configuration import LimitExtensions, ScheduledLimit
from ugm.simulation import Job, WaitingTime, simulate


def job(number: int, submit: int, run: int, vcore: int) -> Job:
    """Return a job of Sue."""
    return Job(number, submit, run, "root.a", UserGroup("sue", ("dev",)), Resource(vcore=vcore))


#: Limits two cores by the cluster, or by a queue with a schedule: gauges do not know its limits at each time.
NIGHTS = LimitExtensions(schedule=(ScheduledLimit(hours="22:00-23:00", max_resources=Resource(vcore=1)),))
WORLDS = (
    (PartitionConfig(queues=(QueueConfig("a"),)), Resource(vcore=2)),
    (PartitionConfig(queues=(QueueConfig("a", resources=QueueResources(max=Resource(vcore=2)), ugm=NIGHTS),)), None),
)


@pytest.mark.parametrize(("config", "cluster"), WORLDS, ids=["cluster", "schedule"])
def test_a_large_job_does_not_starve(config: PartitionConfig, cluster: Resource | None) -> None:
    """Smaller jobs that would delay it wait for it; without reservation they pass it."""
    # Job 2 needs both cores. Jobs 3 and 4 keep one of them in use.
    jobs = [job(1, 0, 10, 1), job(2, 1, 10, 2), job(3, 2, 15, 1), job(4, 12, 15, 1)]

    passed, kept = (simulate(jobs, config, cluster=cluster, reserves=reserves) for reserves in (False, True))

    assert passed.waiting == WaitingTime(4, 1, 26, 26, 26)
    # Job 2 starts at 10, and jobs 3 and 4 at 20.
    assert kept.waiting == WaitingTime(4, 3, 9 + 18 + 8, 18, 18)
    [reserved] = [one for one in kept.limits if one.kind == "reservation"]
    assert (reserved.delayed_jobs, reserved.delayed_seconds) == (2, 26)
    assert sum(one.delayed_seconds for one in kept.limits) == kept.waiting.total
    assert kept.is_clean

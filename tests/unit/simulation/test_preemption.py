"""Replays with guaranteed queues: jobs of other queues are preempted, after the delay of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from support.partition_fixtures import SUE
from ugm import Resource, UserGroup, parse_config
from ugm.config import PartitionConfig, QueueConfig, QueueResources
from ugm.configuration import LimitExtensions, ScheduledLimit
from ugm.simulation import GroupReclaim, Job, Report, WaitingTime, simulate

#: Jobs of a queue without a guarantee that fill the cluster, and one of a queue with a guarantee.
JOBS = (
    *(Job(number, 0, 100, "root.other", SUE, Resource(gpu=2)) for number in range(5)),
    Job(9, 10, 30, "root.owner", SUE, Resource(gpu=3)),
)


def replayed(enabled: str = "true", guaranteed: int = 4, *, reclaims: bool = True) -> Report:
    """Replay the jobs."""
    config = parse_config(f"""
        partitions:
        - preemption: {{enabled: {enabled}}}
          queues:
          - name: root
            queues:
            - name: other
            - name: owner
              resources: {{guaranteed: {{gpu: {guaranteed}}}}}
              properties: {{preemption.delay: 15s}}
    """).partition()
    return simulate(JOBS, config, cluster=Resource(gpu=10), reclaims=reclaims)


def test_a_queue_preempts_after_its_delay() -> None:
    """Two jobs are evicted when the delay is over, and run again with their whole run time."""
    report = replayed()

    assert report.reclaims == (GroupReclaim("queue", "root.other", "root.owner", 2, 2 * 25),)
    # The owner starts at 25. One of the evicted jobs waits for its end.
    assert (report.waiting.delayed, report.waiting.max) == (1, 15)
    assert (report.submitted, report.started, report.still_waiting, report.is_clean) == (6, 6, 0, True)
    assert report.end_time == 100 + 55


@pytest.mark.parametrize(
    "settings",
    [{"enabled": "false"}, {"guaranteed": 2}, {"reclaims": False}],
    ids=["disabled", "above the guarantee", "without evictions"],
)
def test_nothing_is_preempted(settings: dict[str, Any]) -> None:
    """The job waits for the others."""
    report = replayed(**settings)

    assert report.reclaims == ()
    assert (report.waiting.max, report.end_time, report.is_clean) == (90, 130, True)


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

"""Replays with guaranteed queues: jobs of other queues are preempted, after the delay of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from support.partition_fixtures import SUE
from ugm import Resource, parse_config
from ugm.simulation import GroupReclaim, Job, Report, simulate

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

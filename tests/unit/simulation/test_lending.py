"""Replays in which groups borrow and reclaim, queues preempt, and large jobs have reservations."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Any, Final, get_args

import pytest
from rich.console import Console

from support.partition_fixtures import SUE
from support.reclaim_scenes import lending_models
from ugm import Resource, UserGroup, parse_config
from ugm.cli.report.page import page
from ugm.cli.report.terminal import render
from ugm.config import QueueConfig, QueueResources
from ugm.configuration import LimitExtensions, PartitionConfig, ScheduledLimit
from ugm.elastic.model import GROUP_TAG
from ugm.simulation import GroupReclaim, Job, JobOrderName, Recorder, Report, WaitingTime, simulate

KINDS: Final = ("elastic", "tree")
CONFIG: Final = parse_config("partitions: [{queues: [{name: q}]}]").partition()


def job(number: int, second: int, run_time: int, group: str, gpu: int = 2) -> Job:
    """Return a job of a group."""
    return Job(number, second, run_time, "root.q", SUE, Resource(gpu=gpu), {GROUP_TAG: group})


def borrowing(
    jobs: Iterable[Job],
    kind: str,
    recorder: Recorder | None = None,
    *,
    config: PartitionConfig = CONFIG,
    reclaims: bool = True,
    reserves: bool = False,
    order: JobOrderName = "fifo",
) -> Report:
    """Replay jobs of the groups a and b, with 4 and 6 guaranteed of 10."""
    cluster = Resource(gpu=10)
    return simulate(
        jobs,
        config,
        cluster=cluster,
        recorder=recorder,
        models=lambda: lending_models(kind, {"a": 4, "b": 6}, 10),
        reclaims=reclaims,
        reserves=reserves,
        order=order,
    )


JOBS: Final = (*(job(number, 0, 100, "b") for number in range(5)), job(9, 10, 30, "a", 3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_reclaims_its_guarantee(kind: str) -> None:
    """Two jobs of the borrower are evicted for the owner, and run again with their whole run time."""
    report = borrowing(JOBS, kind)
    lending = {(one.kind, one.limit_name, one.resource): one for one in report.lending}

    assert report.waiting.delayed == 0
    group = "elastic group" if kind == "elastic" else "quota node"
    assert report.reclaims == (GroupReclaim(group, "b", "a", 2, 20),)
    # The borrower uses 4 of the other group for 10 seconds, and again after the owner has ended, from 40 to 100.
    borrower = lending[group, "b", "gpu"]
    assert (borrower.guaranteed, borrower.peak, borrower.borrowed) == (6, 10, 40 + 240)
    # The owner ends at 40. One of the evicted jobs starts then, or earlier with it; both end 100 s later.
    assert report.end_time == 140
    assert (report.submitted, report.started, report.still_waiting, report.is_clean) == (6, 6, 0, True)


@pytest.mark.parametrize("order", get_args(JobOrderName))
@pytest.mark.parametrize("kind", KINDS)
def test_groups_with_budgets(kind: str, order: JobOrderName) -> None:
    """Delayed and evicted jobs are pending with the duration that they promise to the budget."""
    config = parse_config("""
        partitions:
        - queues: [{name: q}]
          ugm: {budgets: [{name: all, amounts: {gpu: 1000}, unit: hour}]}
    """).partition()
    reports = [
        borrowing((*JOBS, job(10, 20, 10, "b", 9)), kind, config=chosen, order=order, reserves=reserves)
        for chosen in (CONFIG, config)
        for reserves in (False, True)
    ]

    for without, report in zip(reports[:2], reports[2:], strict=True):
        assert [one.jobs for one in report.reclaims] == [2]
        assert (report.started, report.still_waiting, report.is_clean) == (7, 0, True)
        assert report.waiting == without.waiting
        assert report.reclaims == without.reclaims


def test_reports() -> None:
    """The reports in the terminal and on the page have what was borrowed and what was reclaimed."""
    stream, recorder = StringIO(), Recorder()
    report = borrowing(JOBS, "tree", recorder)
    render(report, Console(file=stream, width=100), title="lending", seconds=1.0)
    text = stream.getvalue()

    for heading in ("Borrowed beyond the guarantee", "Reclaimed by evictions"):
        assert heading in text
        assert heading in page(report, recorder, title="lending")
    assert ["a", "b", "2", "20s"] in [line.split() for line in text.splitlines()]


#: Jobs of a queue without a guarantee that fill the cluster, and one of a queue with a guarantee.
PREEMPTING = (
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
    return simulate(PREEMPTING, config, cluster=Resource(gpu=10), reclaims=reclaims)


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


def job_of_sue(number: int, submit: int, run: int, vcore: int) -> Job:
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
    jobs = [job_of_sue(1, 0, 10, 1), job_of_sue(2, 1, 10, 2), job_of_sue(3, 2, 15, 1), job_of_sue(4, 12, 15, 1)]

    passed, kept = (simulate(jobs, config, cluster=cluster, reserves=reserves) for reserves in (False, True))

    assert passed.waiting == WaitingTime(4, 1, 26, 26, 26)
    # Job 2 starts at 10, and jobs 3 and 4 at 20.
    assert kept.waiting == WaitingTime(4, 3, 9 + 18 + 8, 18, 18)
    [reserved] = [one for one in kept.limits if one.kind == "reservation"]
    assert (reserved.delayed_jobs, reserved.delayed_seconds) == (2, 26)
    assert sum(one.delayed_seconds for one in kept.limits) == kept.waiting.total
    assert kept.is_clean

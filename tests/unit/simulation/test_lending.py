"""Replays with elastic groups and quota trees: what groups borrow beyond their guarantees, and what they reclaim."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Final, get_args

import pytest
from rich.console import Console

from support.partition_fixtures import SUE
from support.reclaim_scenes import lending_models
from ugm import Resource, parse_config
from ugm.cli.report.page import page
from ugm.cli.report.terminal import render
from ugm.configuration import PartitionConfig
from ugm.elastic.model import GROUP_TAG
from ugm.simulation import GroupReclaim, Job, JobOrderName, Recorder, Report, simulate

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

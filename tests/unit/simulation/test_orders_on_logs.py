"""Replays of recorded logs in every order, without and with reservations: their outcome, and what they cost."""

from __future__ import annotations

import os
from cProfile import Profile
from itertools import islice
from pathlib import Path
from pstats import Stats
from typing import Final, get_args

import pytest

from support.places import EXAMPLES
from ugm import Resource
from ugm.config import PartitionConfig, load_config, parse_config
from ugm.simulation import JobMapping, JobOrderName, Report, read_swf, simulate

CASES: Final[list[tuple[JobOrderName, bool]]] = [
    (order, reserves) for order in get_args(JobOrderName) for reserves in (False, True)
]
#: A queue for each site of a log.
SITES: Final = "partitions: [{placementrules: [{name: provided, create: true}], queues: [{name: root}]}]"


def replayed(
    log: Path, count: int | None, config: PartitionConfig, cluster: Resource | None
) -> dict[tuple[str, bool], tuple[Report, int]]:
    """Return the report of every replay of the first jobs of a log, and the number of calls of functions."""
    found: dict[tuple[str, bool], tuple[Report, int]] = {}
    for order, reserves in CASES:
        profile, jobs = Profile(), islice(JobMapping().jobs(read_swf(log)), count)
        report = profile.runcall(simulate, jobs, config, cluster=cluster, order=order, reserves=reserves)
        found[order, reserves] = report, Stats(profile).total_calls  # type: ignore[attr-defined] # not in the stubs
    return found


def check(found: dict[tuple[str, bool], tuple[Report, int]]) -> None:
    """Check that no job is lost, that every self-check is clean, and the cost relative to the simplest replay."""
    first, calls = found["fifo", False]
    for (order, reserves), (report, cost) in found.items():
        assert (report.submitted, report.started, report.rejected, report.still_waiting) == (
            first.submitted,
            first.started,
            0,
            0,
        )
        assert report.is_clean
        assert sum(one.delayed_seconds for one in report.limits) == report.waiting.total
        assert cost <= (15 if reserves else 3) * calls, (order, reserves, cost / calls)


@pytest.mark.deep
def test_bundled_log() -> None:
    """The first jobs of the bundled log, with its limits and a cluster."""
    config = load_config(EXAMPLES / "grid.yaml").partition()

    check(replayed(EXAMPLES / "grid.swf.gz", 2000, config, Resource.parse(vcore="320", memory="4Ti")))


@pytest.mark.deep
@pytest.mark.skipif("UGM_GRID_LOG" not in os.environ, reason="UGM_GRID_LOG does not name the LCG grid log")
def test_grid_log() -> None:
    """The LCG grid log of the Parallel Workloads Archive; with shares, the users that use most wait longest."""
    cluster = Resource.parse(vcore="2000", memory="8Ti")
    found = replayed(Path(os.environ["UGM_GRID_LOG"]), None, parse_config(SITES).partition(), cluster)

    check(found)
    for reserves in (False, True):
        share, fifo = (found[order, reserves][0].usage_correlation for order in ("share", "fifo"))
        assert share is not None
        assert fifo is not None
        assert share > fifo + 0.1

"""Replays of grid logs with a guarantee for each site: preemption reaches every guarantee in time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from support.places import EXAMPLES
from ugm import Resource, parse_config
from ugm.configuration import PartitionConfig
from ugm.preemption import Outcome
from ugm.simulation import Job, JobMapping, PreemptionReport, VictimWork, read_swf, simulate_preemption

#: The bundled log, which uses 171 cores on average.
BUNDLED: Final = EXAMPLES / "grid.swf.gz"
#: The delay of preemption and the time that victims take to stop, in seconds.
DELAY: Final = 30
STOP_TIME: Final = 30

VICTIMS: Final = (None, VictimWork.RESTART, VictimWork.CONTINUE)


def jobs_of(log: Path) -> Iterator[Job]:
    """Read the jobs of a log, with a queue for each site."""
    return JobMapping(memory_per_processor=0, queue_levels=("partition",)).jobs(read_swf(str(log)))


def half_of_the_usage(log: Path) -> PartitionConfig:
    """Guarantee each site half of the cores that it uses on average, in whole cores and at least one."""
    #: In thousandths of a core, times seconds.
    used: Counter[str] = Counter()
    times = []
    for job in jobs_of(log):
        used[job.queue] += job.usage["vcore"] * job.run_time
        times.append(job.submit_time)
    seconds = times[-1] - times[0]
    halves = {path.removeprefix("root."): max(1, total // (2000 * seconds)) for path, total in sorted(used.items())}
    queues = ", ".join(
        f"{{name: {name}, resources: {{guaranteed: {{vcore: {half}}}}}}}" for name, half in halves.items()
    )
    return parse_config(f"partitions: [{{queues: [{queues}]}}]").partition()


def replay(log: Path, cores: int, victims: VictimWork | None, most: int | None = None) -> PreemptionReport:
    """Replay the first jobs of a log, without preemption if *victims* is None."""
    return simulate_preemption(
        islice(jobs_of(log), most),
        half_of_the_usage(log),
        cluster=Resource.parse(vcore=str(cores), memory="4Pi"),
        preempts=victims is not None,
        victims=victims or VictimWork.RESTART,
        stop_time=STOP_TIME,
    )


def longest_unmet(report: PreemptionReport) -> int:
    """Return the longest time that a job of any site waited while the guarantee of the site was unmet."""
    return max(guarantee.longest_unmet for guarantee in report.guarantees)


def check_guarantees(report: PreemptionReport, most_unmet: int = DELAY + STOP_TIME) -> None:
    """A lawful plan existed for every job within a guarantee, and it started in time."""
    assert report.is_clean
    assert report.started == report.submitted
    assert set(report.plans) == {Outcome.PLAN, Outcome.AWAITS_TERMINATING}
    assert report.longest_time_to_start <= STOP_TIME
    assert longest_unmet(report) <= most_unmet


def test_guarantees_of_the_first_jobs() -> None:
    """On 200 cores, the first jobs of the bundled log reach their guarantees in time."""
    check_guarantees(replay(BUNDLED, 200, VictimWork.RESTART, 2000))


@pytest.mark.ci
def test_guarantees_with_and_without_preemption() -> None:
    """Without preemption, sites wait for hours. Victims that continue lose no work."""
    without, restart, proceed = (replay(BUNDLED, 200, victims, 4000) for victims in VICTIMS)

    assert without.is_clean
    assert longest_unmet(without) > 60 * (DELAY + STOP_TIME)
    for report in (restart, proceed):
        check_guarantees(report)
    assert proceed.lost == 0 < restart.lost


@pytest.mark.deep
def test_guarantees_of_the_bundled_log() -> None:
    """The whole bundled log on 200 cores."""
    check_guarantees(replay(BUNDLED, 200, VictimWork.RESTART))


@pytest.mark.deep
@pytest.mark.skipif("UGM_GRID_LOG" not in os.environ, reason="UGM_GRID_LOG does not name the LCG grid log")
@pytest.mark.parametrize("victims", VICTIMS)
def test_guarantees_of_the_lcg_log(victims: VictimWork | None) -> None:
    """The whole LCG grid log of the Parallel Workloads Archive on 2,000 cores."""
    report = replay(Path(os.environ["UGM_GRID_LOG"]), 2000, victims)
    unmet = sum(guarantee.unmet for guarantee in report.guarantees)
    print(f"unmet {unmet} s, at most {longest_unmet(report)} s; waited {report.waited} s")  # noqa: T201 - for the documentation
    print(f"evictions {report.evictions}, lost {report.lost} s, plans {dict(report.plans)}")  # noqa: T201 - as above

    assert report.is_clean
    if victims is None:
        assert longest_unmet(report) > 60 * (DELAY + STOP_TIME)
    else:
        # No plan is lawful while jobs with reserved capacity take the guarantee, so another job may wait for longer.
        allowance = STOP_TIME if victims is VictimWork.CONTINUE else 0
        check_guarantees(report, DELAY + STOP_TIME + allowance)

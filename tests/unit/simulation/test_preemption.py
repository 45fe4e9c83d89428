"""Replays with preemption: guarantees are reached in time, and the cost for others is reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

from ugm import RequestError, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.simulation import Job, PreemptionReport, Progress, VictimWork, simulate_preemption

SUE: Final = UserGroup("sue")


def config(guaranteed: int = 2, delay: int = 60) -> PartitionConfig:
    """Return a configuration in which one queue has a guarantee."""
    return parse_config(f"""
partitions:
  - queues:
      - name: prod
        resources: {{guaranteed: {{vcore: {guaranteed}}}}}
        properties: {{preemption.delay: {delay}s}}
      - name: batch
""").partition()


def job(number: int, submit_time: int, run_time: int, queue: str = "root.batch", cores: int = 1) -> Job:
    """Return a job."""
    return Job(number, submit_time, run_time, queue, SUE, Resource(vcore=1000 * cores))


def replay(jobs: Iterable[Job], cores: int = 2, **options: Any) -> PreemptionReport:  # noqa: ANN401 - handed on
    """Replay jobs in a cluster; the partition is consistent at the end."""
    given = {"config": config(), "stop_time": 30, **options}
    report = simulate_preemption(jobs, cluster=Resource(vcore=1000 * cores), **given)
    assert report.findings == ()
    assert report.still_waiting == 0
    return report


FULL: Final = [job(1, 0, 10_000), job(2, 0, 10_000), job(3, 10, 100, "root.prod")]


def test_a_guarantee_is_reached_after_delay_and_stop_time() -> None:
    """A job within a guarantee starts once it has waited for the delay and the victim has stopped."""
    report = replay(FULL)
    prod = report.guarantees[0]

    assert (prod.jobs, prod.longest_wait) == (1, 90)
    assert (prod.unmet, prod.longest_unmet) == (90, 90)
    assert (report.evictions, report.longest_time_to_start, dict(report.plans)) == (1, 30, {"plan": 1})
    # The younger job had run for 100 seconds.
    assert report.lost == 100


def test_without_preemption_the_guarantee_waits() -> None:
    """For comparison, the same jobs without plans."""
    report = replay(FULL, preempts=False)

    assert report.guarantees[0].longest_unmet == 9990
    assert (report.evictions, report.lost, dict(report.plans)) == (0, 0, {})


def test_a_victim_that_continues_loses_nothing() -> None:
    """A victim that continues runs only for the rest of its time."""
    assert replay(FULL, victims=VictimWork.CONTINUE).lost == 0


def test_a_victim_that_ends_before_it_stops() -> None:
    """A victim that ends by itself while it stops has not lost anything."""
    jobs = [job(1, 0, 10_000), job(2, 0, 80), job(3, 10, 100, "root.prod")]
    report = replay(jobs)

    assert (report.evictions, report.lost) == (0, 0)
    assert report.guarantees[0].longest_wait == 70


def test_the_room_of_a_job_is_kept() -> None:
    """While the victims of a large job stop one after the other, small jobs do not take its room."""
    jobs = [job(1, 0, 95), job(2, 0, 10_000), job(3, 1, 100, "root.prod", 2), *(job(n, 2, 500) for n in range(4, 9))]
    report = replay(jobs, stop_time=60)

    assert report.guarantees[0].longest_wait == 120


def test_a_later_plan_does_not_use_the_room_of_an_earlier_one() -> None:
    """A small job waits for its own victim if a large one with an earlier plan would get its room later."""
    text = "{name: prod, resources: {guaranteed: {vcore: 4}}}, {name: web, resources: {guaranteed: {vcore: 1}}}"
    queues = parse_config(f"partitions: [{{queues: [{text}, {{name: batch}}]}}]").partition()
    # The last victim of the large job ends by itself at 50, before all of them stop at 70.
    batch = [job(number, 0, 50 if number == 5 else 10_000) for number in range(1, 6)]
    late = [job(6, 10, 100, "root.prod", 4), job(7, 15, 100, "root.web")]
    report = replay([*batch, *late], 5, config=queues)

    assert [one.longest_wait for one in report.guarantees] == [60, 60]
    assert report.longest_time_to_start == 30


def test_the_room_below_a_maximum_is_kept() -> None:
    """Jobs of a queue do not use the room that victims of their parent queue leave for another one."""
    text = "{name: a, resources: {guaranteed: {vcore: 2}}}, {name: b}"
    queues = parse_config(f"""
partitions:
- queues: [{{name: p, parent: true, resources: {{max: {{vcore: 2}}}}, queues: [{text}]}}]
""").partition()
    jobs = [job(1, 0, 10_000, "root.p.b"), job(2, 0, 50, "root.p.b"), job(3, 10, 100, "root.p.a", 2)]
    report = replay([*jobs, job(4, 11, 9000, "root.p.b")], 9, config=queues)

    assert report.guarantees[0].longest_wait == 60


def test_a_victim_does_not_delay_the_plans_of_jobs_behind_it() -> None:
    """A victim waits in its former order, but a job behind it that has waited for longer gets its plan first."""
    given = "resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 60s}"
    text = f"{{name: a, {given}}}, {{name: b, {given}}}, {{name: batch}}"
    queues, a, b = parse_config(f"partitions: [{{queues: [{text}]}}]").partition(), "root.a", "root.b"
    first = [job(1, 3, 100, a), job(2, 6, 100, a), job(3, 9, 100, b), job(4, 12, 1000)]
    # Job 7 is evicted 150 seconds after the start, and job 10 has waited since 105.
    later = [job(5, 62, 100, a), job(6, 62, 300, a), job(7, 62, 300, a), job(8, 65, 300, b), job(9, 85, 100, b)]
    report = replay([*first, *later, job(10, 105, 1000, a)], 4, config=queues)

    assert [one.longest_unmet for one in report.guarantees] == [30, 90]


def test_a_job_that_never_fits_is_rejected() -> None:
    """A job that is larger than the cluster does not wait."""
    assert replay([job(1, 0, 5, cores=9), job(2, 0, 5)]).rejected == 1


def test_invalid_arguments() -> None:
    """Times are whole numbers, and jobs are in order."""
    with pytest.raises(RequestError, match="stop_time"):
        replay([], stop_time=-1)
    with pytest.raises(RequestError, match="submitted at 1"):
        replay([job(1, 5, 1), job(2, 1, 1)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("victims", VictimWork)
def test_guarantees_are_reached_in_time(seed: int, victims: VictimWork) -> None:
    """If only guaranteed work can be placed in the way, no guarantee is unmet for longer than delay and stop time."""
    random = Random(seed)
    times = sorted(random.randrange(3000) for _ in range(60))
    jobs = [
        job(number, time, random.randrange(1, 900), random.choice(["root.batch", "root.batch", "root.prod"]))
        for number, time in enumerate(times)
    ]
    options = {"config": config(3, 50), "victims": victims, "stop_time": 20}
    with_plans, without = replay(jobs, 4, **options), replay(jobs, 4, **options, preempts=False)

    assert with_plans.started == without.started == 60
    assert with_plans.guarantees[0].longest_unmet <= 70
    assert with_plans.longest_time_to_start <= 20
    assert without.guarantees[0].longest_unmet > 70
    assert (with_plans.lost == 0) == (victims is VictimWork.CONTINUE)


def test_the_report_as_plain_data() -> None:
    """The report can be written as JSON, and is the same in each replay."""
    report = replay(FULL)

    assert report.to_dict()["guarantees"][0]["guaranteed"] == {"vcore": 2000}
    assert report == replay(FULL) != replay([replace(FULL[0], run_time=9), *FULL[1:]])


def test_observer() -> None:
    """An observer sees the jobs after each submission."""
    seen: list[Progress] = []
    replay(FULL, observer=seen.append)

    assert seen == [Progress(0, 1, 1, 0), Progress(0, 2, 2, 0), Progress(10, 3, 2, 1)]

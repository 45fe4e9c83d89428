"""Replays with elastic groups and quota trees: lending, compared with the log, and reclaiming."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import Final, TypeAlias, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from support.examples import examples
from support.partition_fixtures import SUE
from support.places import EXAMPLES
from support.reclaim_scenes import lending_models
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.cli.html.page import page
from ugm.cli.report import render
from ugm.configuration import PartitionConfig
from ugm.elastic.model import GROUP_TAG
from ugm.model import QuotaModel
from ugm.simulation import (
    GroupLending,
    GroupLoan,
    GroupReclaim,
    Job,
    JobMapping,
    JobOrderName,
    Recorder,
    Report,
    read_swf,
    simulate,
)
from ugm.simulation.player import Player

KINDS: Final = ("elastic", "tree")
CONFIG: Final = parse_config("partitions: [{queues: [{name: q}]}]").partition()
_Pair: TypeAlias = tuple[str, str]

#: The second day of the log in the examples.
DAY: Final = range(86_400, 2 * 86_400)


# One day of the log, by hand


@cache
def day() -> tuple[Job, ...]:
    """Return the jobs of one day, with their group as a tag, and gpu instead of the resources of the log."""
    jobs = JobMapping(tags={GROUP_TAG: "group"}).jobs(read_swf(EXAMPLES / "grid.swf.gz"))
    return tuple(
        replace(job, queue="root.q", usage=Resource(gpu=job.usage["vcore"] // 1000))
        for job in jobs
        if job.submit_time in DAY
    )


def intervals() -> Iterator[tuple[int, Counter[str]]]:
    """Yield each interval without a start or end of a job: its seconds, and the usage of each group."""
    changes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for job in day():
        changes[job.submit_time][job.tags[GROUP_TAG]] += job.usage["gpu"]
        changes[job.submit_time + job.run_time][job.tags[GROUP_TAG]] -= job.usage["gpu"]
    used: Counter[str] = Counter()
    moments = sorted(changes)
    for moment, following in pairwise(moments):
        used.update(changes[moment])
        yield following - moment, used


@cache
def terms() -> tuple[dict[str, int], int]:
    """Return the guarantees, a tenth more than the average usage of each group, and the peak of all groups together."""
    used: Counter[str] = Counter()
    seconds = 0
    for length, now in intervals():
        seconds += length
        used.update({group: amount * length for group, amount in now.items()})
    peak = max(sum(now.values()) for _, now in intervals())
    return {group: 1 + amount * 11 // (10 * seconds) for group, amount in sorted(used.items())}, peak


@cache
def by_hand() -> tuple[dict[str, int], dict[str, Fraction], dict[_Pair, Fraction]]:
    """Return what each group borrowed and lent, and what each borrowed from each, in gpu seconds."""
    guaranteed, total = terms()
    borrowed: Counter[str] = Counter()
    lent: defaultdict[str, Fraction] = defaultdict(Fraction)
    loans: defaultdict[_Pair, Fraction] = defaultdict(Fraction)
    for seconds, used in intervals():
        more = {group: used[group] - most for group, most in guaranteed.items() if used[group] > most}
        less = {group: most - used[group] for group, most in guaranteed.items() if used[group] < most}
        borrowed.update({group: amount * seconds for group, amount in more.items()})
        # What is neither used nor kept free for a group with an unused guarantee.
        taken = sum(less.values()) - (total - sum(used.values()))
        for lender, unused in less.items() if taken > 0 else ():
            part = Fraction(taken * unused * seconds, sum(less.values()))
            lent[lender] += part
            for borrower, amount in more.items():
                loans[borrower, lender] += part * amount / sum(more.values())
    return borrowed, lent, loans


def nearest(amount: Fraction) -> int:
    """Round to the nearest integer, upwards from a half."""
    return int(amount + Fraction(1, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_lending_of_one_day(kind: str) -> None:
    """What groups borrowed, and who lent it, is what follows from the log: no job has to wait that day."""
    guaranteed, total = terms()
    borrowed, lent, loans = by_hand()
    report = simulate(day(), CONFIG, models=lambda: lending_models(kind, guaranteed, total))

    assert (report.waiting.delayed, report.started, report.is_clean) == (0, len(day()), True)
    found = {one.name: (one.guaranteed, one.borrowed, one.lent) for one in report.lending}
    assert found == {
        group: (amount, borrowed[group], nearest(lent.get(group, Fraction()))) for group, amount in guaranteed.items()
    }
    expected = {pair: nearest(amount) for pair, amount in loans.items() if nearest(amount)}
    assert {(one.borrower, one.lender): one.amount for one in report.loans} == expected
    assert sum(expected.values()) > 1000  # there is something to compare


@pytest.mark.parametrize("kind", [*KINDS, "elastic tree"])
def test_a_crowded_day_is_deterministic(kind: str) -> None:
    """Two replays with too few resources are equal, with evictions, and the partition and its models agree."""
    guaranteed, total = terms()
    jobs = [replace(job, run_time=job.run_time // 4) for job in day()[:600]]
    most = max(*(job.usage["gpu"] for job in jobs), total // 3)
    shares = {group: amount // 3 for group, amount in guaranteed.items()}

    def crowded() -> Report:
        models: Callable[[], list[QuotaModel]] = lambda: lending_models(kind, shares, most)  # noqa: E731 - typed
        return simulate(jobs, CONFIG, cluster=Resource(gpu=most), models=models)

    report = crowded()
    assert report == crowded()
    assert report.is_clean
    assert report.waiting.delayed
    assert report.started + report.rejected == len(jobs)


# The order of retries


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    """Draw jobs of three groups."""
    jobs, now = [], 0
    for number in range(draw(st.integers(4, 25))):
        now += draw(st.integers(0, 2))
        group, user = draw(st.sampled_from("abc")), UserGroup(draw(st.sampled_from(["sue", "bob"])))
        usage = Resource(gpu=draw(st.integers(1, 4)))
        jobs.append(Job(number, now, draw(st.integers(0, 9)), "root.q", user, usage, {GROUP_TAG: group}))
    return jobs


@settings(max_examples=examples(80))
@given(workloads(), st.sampled_from(["elastic", "tree", "elastic tree"]), st.booleans())
def test_jobs_start_as_if_all_were_requested_again(jobs: list[Job], kinds: str, departments: bool) -> None:  # noqa: FBT001 - drawn
    """A replay starts the same jobs at the same times as a player that requests all waiting jobs in each round."""
    guaranteed, total = {"a": 2, "b": 3, "c": 1}, 8

    def models() -> Sequence[QuotaModel]:
        return lending_models(kinds, guaranteed, total, departments=departments)

    cluster = Resource(gpu=total)
    report = simulate(jobs, CONFIG, cluster=cluster, models=models, reclaims=False)
    partition = Partition(CONFIG, cluster=cluster, models=models())
    player = Player(partition, iter(jobs))
    waited, now = 0, 0
    while player.running or now <= jobs[-1].submit_time:
        player.advance(now)
        waited += player.waiting
        now += 1

    assert report.is_clean
    assert (report.still_waiting, report.reclaims) == (player.waiting, ())
    if not report.still_waiting:
        assert report.waiting.total == waited


PARENTS: Final = parse_config("""
partitions:
- queues: [{name: q}]
  ugm:
    elastic:
      total: {gpu: 8, cpu: 8}
      checkparents: true
      groupby: [{source: tag, tag: team}]
      groups:
      - {name: p, isparent: true, max: {gpu: 8, cpu: 6}}
      - {name: a, parent: p, max: {gpu: 5, cpu: 6}}
      - {name: b, parent: p, max: {gpu: 5, cpu: 4}}
      - {name: c, parent: p, max: {gpu: 5, cpu: 6}}
""").partition()
BORROWERS: Final = parse_config("""
partitions:
- queues: [{name: q}]
  ugm:
    quotatrees:
    - groupby: [{source: tag, tag: team}]
      tree:
        kind: QuotaTree
        metadata: {name: t}
        spec:
          resourceNames: [cpu, gpu]
          nodes:
            top: {parent: nil, hard: "true", quota: {cpu: "4", gpu: "8"}}
            a: {parent: top, hard: "false", quota: {cpu: "4", gpu: "2"}}
            b: {parent: top, hard: "false", quota: {cpu: "2", gpu: "2"}}
            c: {parent: top, hard: "true", quota: {cpu: "3", gpu: "4"}}
""").partition()


def team_job(number: int, second: int, run_time: int, team: str, **usage: int) -> Job:
    """Return a job of a team."""
    return Job(number, second, run_time, "root.q", SUE, Resource(usage), {"team": team})


@st.composite
def team_jobs(draw: st.DrawFn) -> list[Job]:
    """Draw jobs of three teams with two resources."""
    jobs, now = [], 0
    for number in range(draw(st.integers(4, 16))):
        now += draw(st.integers(0, 2))
        team, gpu, cpu = draw(st.sampled_from("abc")), draw(st.integers(0, 4)), draw(st.integers(0, 4))
        jobs.append(team_job(number, now, draw(st.integers(1, 9)), team, gpu=gpu, cpu=cpu))
    return jobs


#: Two jobs are denied by different resources, of which one is exceeded by borrowing.
TWO_RESOURCES: Final = [
    team_job(1, 0, 99, "a", gpu=2),
    team_job(2, 0, 10, "b", cpu=3),
    team_job(5, 0, 99, "b", cpu=1),
    team_job(3, 1, 10, "a", gpu=1, cpu=4),
    team_job(4, 2, 10, "a", gpu=2, cpu=1),
]
#: A job is denied by the parent of its group, which allows more than each of its children.
ONE_PARENT: Final = [
    team_job(1, 0, 99, "a", gpu=4),
    team_job(2, 0, 10, "c", gpu=2),
    team_job(3, 1, 10, "b", gpu=3),
]


@settings(max_examples=examples(80))
@given(team_jobs(), st.sampled_from([PARENTS, BORROWERS]))
@example(TWO_RESOURCES, BORROWERS)
@example(ONE_PARENT, PARENTS)
def test_jobs_start_when_their_limit_allows_it(jobs: list[Job], config: PartitionConfig) -> None:
    """Jobs that wait for a parent group or for a shared resource start when it has room for them."""
    report = simulate(jobs, config, reclaims=False)
    player = Player(Partition(config), iter(jobs))
    waited, now = 0, 0
    while player.running or now <= jobs[-1].submit_time:
        player.advance(now)
        waited += player.waiting
        now += 1

    assert report.still_waiting == player.waiting
    if not report.still_waiting:
        assert report.waiting.total == waited


# Evictions


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

    assert report.waiting.delayed == 0
    group = "elastic group" if kind == "elastic" else "quota node"
    assert report.reclaims == (GroupReclaim(group, "b", "a", 2, 20),)
    # The owner ends at 40. One of the evicted jobs starts then, or earlier with it; both end 100 s later.
    assert report.end_time == 140
    assert (report.submitted, report.started, report.still_waiting, report.is_clean) == (6, 6, 0, True)


@pytest.mark.parametrize("kind", KINDS)
def test_an_evicted_job_keeps_its_promise_with_reservations(kind: str) -> None:
    """It waits again with the run time that it promises, and starts again."""
    report = borrowing(JOBS, kind, reserves=True)

    assert [one.jobs for one in report.reclaims] == [2]
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


@pytest.mark.parametrize("kind", KINDS)
def test_without_reclaiming_the_owner_waits(kind: str) -> None:
    """The owner waits for the borrower if groups do not reclaim."""
    report = borrowing(JOBS, kind, reclaims=False)

    assert (report.waiting.max, report.reclaims, report.end_time) == (90, (), 130)


def test_lending_of_a_few_jobs() -> None:
    """The borrower uses 4 of the other group for 10 seconds, and 1 of them for 30 seconds afterwards."""
    recorder = Recorder()
    report = borrowing((job(1, 0, 10, "b", 10), job(2, 20, 10, "a", 1)), "elastic", recorder)

    assert report.lending == (
        GroupLending("elastic group", "b", "gpu", 6, 10, 40, 0),
        GroupLending("elastic group", "a", "gpu", 4, 1, 0, 40),
    )
    assert report.loans == (GroupLoan("elastic group", "gpu", "b", "a", 40),)
    borrowed, lent = recorder.lending["elastic group", "gpu"]
    assert (sum(borrowed.area), sum(lent.area), max(lent.high)) == (40, 40, 4)
    assert recorder.borrowed(report.lending[0]) == borrowed
    assert not any(recorder.borrowed(report.lending[1]).area)


def test_free_amounts_are_borrowed_from_nobody() -> None:
    """A group that uses only what is guaranteed to nobody borrows, and no group lends."""
    models = lambda: lending_models("elastic", {"a": 4, "b": 2}, 10)  # noqa: E731 - short
    report = simulate([job(1, 0, 10, "b", 6)], CONFIG, models=models)

    assert [(one.borrowed, one.lent) for one in report.lending] == [(40, 0), (0, 0)]
    assert report.loans == ()


# Reports


def test_terminal() -> None:
    """The report in the terminal has what was borrowed, from whom, and what was reclaimed."""
    stream = StringIO()
    render(borrowing(JOBS, "tree"), Console(file=stream, width=100), title="lending", seconds=1.0)
    text = stream.getvalue()

    for heading in ("Borrowed beyond the guarantee", "Who borrowed from whom", "Reclaimed by evictions"):
        assert heading in text
    assert ["a", "b", "2", "20s"] in [line.split() for line in text.splitlines()]


def test_page() -> None:
    """The page draws what was borrowed and lent, and has the tables."""
    recorder = Recorder()
    text = page(borrowing(JOBS, "tree", recorder), recorder, title="lending")

    assert '<section id="lending"' in text
    assert "gpu that quota nodes use beyond their guarantees" in text
    assert "Part of it that is guaranteed to other quota nodes" in text


def test_page_without_models() -> None:
    """Without models there is no such section."""
    recorder = Recorder()
    report = simulate([job(1, 0, 1, "a")], CONFIG, recorder=recorder)
    assert (report.lending, report.loans, report.reclaims) == ((), (), ())

    assert "lending" not in page(report, recorder, title="")

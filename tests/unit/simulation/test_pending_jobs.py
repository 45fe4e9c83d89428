"""Jobs replayed in a partition: what starts when, what is pending, and what subscribers get."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.cli.demo import endless
from ugm.server import History
from ugm.simulation import Job, simulate
from ugm.simulation.replay import Replay
from ugm.simulation.timeline import Timeline

SUE = UserGroup("sue")
LIMITS = parse_config(
    "partitions: [{queues: [{name: root, limits: [{users: ['*'], maxresources: {vcore: 3m}}], queues: "
    "[{name: a}, {name: b, limits: [{users: [sue], maxresources: {vcore: 2m}}]}]}]}]"
).partition()


def job(number: int, submit: int, run: int, *, vcore: int = 1, queue: str = "root.a") -> Job:
    """Return a job of Sue."""
    return Job(number, submit, run, queue, SUE, Resource(vcore=vcore))


def replay(jobs: Iterable[Job], until: int, *subscribers: History) -> Replay:
    """Replay jobs up to a second, and return the replay."""
    timeline = Timeline(0, LIMITS)
    made = Replay(Partition(LIMITS, subscribers=subscribers, clock=timeline.second), jobs, timeline)
    made.run(until)
    return made


@settings(max_examples=examples(50))
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(1, 3), st.sampled_from(("root.a", "root.b"))),
        max_size=25,
    )
)
def test_events_and_report_agree(rows: list[tuple[int, int, int, str]]) -> None:
    """When everything has ended, subscribers have got as many grants as the report has started jobs."""
    submit, jobs = 0, []
    for number, (gap, run, vcore, queue) in enumerate(rows):
        submit += gap
        jobs.append(job(number, submit, run, vcore=vcore, queue=queue))
    report = simulate(jobs, LIMITS)
    history = History(clock=lambda: 0)
    over = replay(jobs, report.end_time, history)
    assert history.counts().get("allocated", 0) == report.started
    assert (len(over.running), len(over.waiting)) == (0, 0)
    over.partition.verify()


def test_endless_workload_goes_on_in_whole_days() -> None:
    """After the last job the first comes again, with a new number, at the same time of a later day."""
    again = list(islice(endless([job(1, 5, 10), job(2, 90_000, 10)]), 4))
    assert [(one.number, one.submit_time) for one in again] == [(1, 5), (2, 90_000), (3, 172_805), (4, 262_800)]
    assert list(endless([])) == []

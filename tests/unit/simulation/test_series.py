"""An amount over time: exact figures of columns, and recordings that agree with the report of their replay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ugm import Resource, UserGroup, parse_config
from ugm.simulation import Envelope, Job, Recorder, Report, simulate
from ugm.simulation.recorder import Trace, fitting

#: Seconds from one note to the next, and the amount from then on.
NOTES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=60)


def naive(notes: list[tuple[int, int]], width: int, end: int) -> Envelope:
    """Return the figures of every column from the amount of every second."""
    held: list[int] = []
    instants: dict[int, list[int]] = {}
    now = value = 0
    for pause, amount in notes:
        held += [value] * pause
        now += pause
        instants.setdefault(now, []).append(amount)
        value = amount
    held += [value] * (end - now)
    columns = [held[start : start + width] for start in range(0, end + 1, width)]
    at = [[a for now, all_ in instants.items() if now // width == n for a in all_] for n in range(len(columns))]
    return Envelope(
        width,
        end,
        tuple(min(column, default=value) for column in columns),
        tuple(max([*column, *amounts], default=value) for column, amounts in zip(columns, at, strict=True)),
        tuple(map(sum, columns)),
    )


@given(notes=NOTES, rest=st.integers(0, 30), columns=st.integers(1, 12))
def test_exact(notes: list[tuple[int, int]], rest: int, columns: int) -> None:
    """Whatever happened when, each column has its true lowest, highest and mean amount."""
    trace = Trace(columns)
    now = 0
    for pause, amount in notes:
        now += pause
        trace.set(now, amount)
    width = fitting(now + rest, columns)

    assert trace.envelope(width, now + rest) == naive(notes, width, now + rest)


@given(notes=NOTES, columns=st.integers(1, 12))
def test_merged(notes: list[tuple[int, int]], columns: int) -> None:
    """Merging columns of an envelope gives the envelope of the wider columns."""
    end = sum(pause for pause, _ in notes)
    wide = naive(notes, 1, end).merged(columns)

    assert wide == naive(notes, fitting(end, columns), end)


@pytest.mark.parametrize(("end", "width"), [(0, 1), (959, 1), (960, 2), (86400 * 959, 86400), (10**10, 86400 * 128)])
def test_fitting(end: int, width: int) -> None:
    """A plot has at most 960 columns, and no fewer than the next width would need."""
    assert fitting(end) == width


CONFIG = parse_config("""
partitions:
- name: default
  queues:
  - name: root
    limits:
    - {users: [sue], maxresources: {vcore: 4}}
    - {users: ["*"], maxapplications: 2, maxresources: {vcore: 3}}
    - {groups: [dev], maxresources: {vcore: 5}}
    queues:
    - {name: a, resources: {max: {vcore: 3}}}
    - {name: b, maxapplications: 2}
""").partition()

USERS = [UserGroup("sue", ("dev",)), UserGroup("bob", ("dev", "test")), UserGroup("eve")]


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    """Draw jobs in the order of their submission, from some second on."""
    now, jobs = draw(st.integers(0, 5000)), []
    for number in range(draw(st.integers(0, 25))):
        now += draw(st.integers(0, 50))
        queue, user = draw(st.sampled_from(["root.a", "root.b"])), draw(st.sampled_from(USERS))
        size = Resource(vcore=1000 * draw(st.integers(1, 4)))
        jobs.append(Job(number, now, draw(st.integers(0, 300)), queue, user, size))
    return jobs


def replay(jobs: list[Job], until: int | None = None) -> tuple[Report, Recorder]:
    """Return the report and what was recorded."""
    recorder = Recorder()
    return simulate(jobs, CONFIG, until=until, recorder=recorder), recorder


@given(jobs=workloads(), until=st.none() | st.integers(5000, 6000))
def test_waiting(jobs: list[Job], until: int | None) -> None:
    """Recording decides nothing, and the jobs that wait over time make up the seconds of all limits."""
    report, recorder = replay(jobs, until)
    assert report == simulate(jobs, CONFIG, until=until)

    assert sum(recorder.waiting.area) == sum(limit.delayed_seconds for limit in report.limits)

"""What a recorder takes in agrees with the report of the same replay, and changes nothing about it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ugm import Resource, UserGroup, parse_config
from ugm.simulation import Job, Recorder, Report, simulate

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

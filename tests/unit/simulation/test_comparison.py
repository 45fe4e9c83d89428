"""Comparing replays: who gains and loses, and limits that differ."""

from __future__ import annotations

from dataclasses import replace

from ugm import Resource, UserGroup, parse_config
from ugm.simulation import Job, ReplayComparison, simulate

ONE_CORE = "partitions: [{queues: [{name: a, resources: {max: {vcore: CORES}}}]}]"


def compared(*cores: int) -> ReplayComparison:
    """Return the comparison of replays with some numbers of cores, in which Sue and Bob each run a job of 10 s."""
    jobs = [Job(number, 0, 10, "root.a", UserGroup(name, ("dev",)), Resource(vcore=1000)) for number, name in USERS]
    names = {count: ONE_CORE.replace("CORES", str(count)) for count in cores}
    return ReplayComparison(
        {f"{count} cores": simulate(jobs, parse_config(names[count]).partition()) for count in cores}
    )


USERS = ((1, "sue"), (2, "bob"))


def test_changes() -> None:
    """The first replay is the reference; users are sorted by the change of their waiting in total."""
    found = compared(1, 2)

    assert [(one.name, one.changes) for one in found.users] == [("bob", (0.0, -10.0)), ("sue", (0.0, 0.0))]
    assert [(one.name, one.changes) for one in found.groups] == [("dev", (0.0, -5.0))]
    [limit] = found.limits
    assert (limit.queue_path, limit.delayed_seconds) == ("root.a", (10, 0))
    assert limit.limits == (1000, 2000)
    assert found.to_dict()["limits"][0]["limits"] == [1000, 2000]
    assert found.to_dict()["users"][0]["changes"] == [0.0, -10.0]
    # A user whose jobs start in one replay only has no waiting in the other.
    one = found.reports["1 cores"]
    other = ReplayComparison({"1 cores": one, "none": replace(one, users=(), limits=())})
    assert [waits.jobs for waits in other.users[0].waiting] == [1, 0]
    assert other.limits[0].limits == (1000, None)

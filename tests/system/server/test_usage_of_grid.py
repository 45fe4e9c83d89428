"""Usage over time of a grid workload: the samples equal the usage computed from the events.

A day of the bundled workload is replayed through a partition, with a clock that jumps from event to event. The samples
are read over REST, and compared with sums over the running jobs.
"""

from __future__ import annotations

import heapq
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from starlette.testclient import TestClient

from support.places import EXAMPLES
from support.server_fixtures import PREFIX
from ugm import Partition, Resource, parse_config
from ugm.identity import ancestors
from ugm.server import History, create_app
from ugm.simulation import Job, JobMapping, read_swf

pytestmark = pytest.mark.deep

#: Another log in the Standard Workload Format, instead of the bundled one.
LOG = Path(os.environ.get("UGM_GRID_LOG", EXAMPLES / "grid.swf.gz"))
CONFIG = """
partitions:
- placementrules: [{name: provided, create: true}]
  queues:
  - name: root
    limits:
    - {users: ["*"], maxresources: {vcore: 160, memory: 600Gi}}
    - {groups: [group1, group2, group4], maxresources: {vcore: 320, memory: 1500Gi}}
"""
DAY = 86_400
POINTS = 1000


class Run(NamedTuple):
    """A job that ran."""

    subjects: tuple[tuple[str, str], ...]
    begin: int
    end: int
    usage: Resource


class Replay:
    """A replay of a day, and all that ran."""

    def __init__(self) -> None:
        self.now = 0
        history = History(clock=lambda: self.now)
        self.partition = Partition(parse_config(CONFIG).partition(), subscribers=[history])
        self.app = create_app({"default": self.partition}, history={"default": history}, clock=lambda: self.now)
        self.runs: list[Run] = []
        self._ends: list[tuple[int, str]] = []

    def replay(self) -> None:
        """Replay the busiest day, with a sample every 15 seconds."""
        jobs = list(JobMapping().jobs(read_swf(LOG)))
        busiest, _ = Counter(job.submit_time // DAY for job in jobs).most_common(1)[0]
        first = busiest * DAY
        usage = self.app.state.usage_histories["default"]
        waiting = iter([job for job in jobs if first <= job.submit_time < first + DAY])
        job = next(waiting, None)
        for instant in range(first, first + DAY, 15):
            while job is not None and job.submit_time <= instant:
                self._advance(job.submit_time)
                self._start(job)
                job = next(waiting, None)
            self._advance(instant)
            assert usage.take()

    def _advance(self, at: int) -> None:
        while self._ends and self._ends[0][0] <= at:
            self.now, name = heapq.heappop(self._ends)
            self.partition.release(name)
            self.partition.complete(name)
        self.now = at

    def _start(self, job: Job) -> None:
        name = f"job-{job.number}"
        assert self.partition.submit(name, job.user, job.queue, tags=job.tags)
        if not self.partition.allocate(name, name, job.usage):
            self.partition.remove(name)
            return
        found = self.partition.application(name)
        assert found is not None
        subjects = [("user", job.user.name), *(("queue", path) for path in ancestors(found.queue_path))]
        if found.group is not None:
            subjects.append(("group", found.group))
        self.runs.append(Run(tuple(subjects), self.now, self.now + max(job.run_time, 1), job.usage))
        heapq.heappush(self._ends, (self.now + max(job.run_time, 1), name))

    def expected(self, kind: str, name: str, at: float, resource: str) -> int:
        """Return the usage of a subject at an instant, computed from the runs."""
        running = (run for run in self.runs if (kind, name) in run.subjects and run.begin <= at < run.end)
        return sum(run.usage[resource] for run in running)


def sampled(replay: Replay, client: TestClient, chosen: random.Random) -> Iterator[tuple[int, int]]:
    """Yield the sampled and the expected value of random subjects, times and resources."""
    subjects = sorted({subject for run in replay.runs for subject in run.subjects})
    while True:
        (kind, name), scale = chosen.choice(subjects), chosen.choice(["hour", "day", "week"])
        query = {"kind": kind, "name": name, "range": scale}
        found = client.get(f"{PREFIX}/usage_history", params=query).json()
        for _ in range(5):
            index = chosen.randrange(len(found["times"]))
            resource = chosen.choice(["vcore", "memory"])
            column = found["amounts"].get("usage", {}).get(resource)
            value = 0 if column is None else column[index]
            yield value, replay.expected(kind, name, found["times"][index], resource)


def test_samples_equal_usage_from_events() -> None:
    """A thousand random points of queues, users and groups, in all ranges, are exact."""
    replay = Replay()
    replay.replay()
    found = sampled(replay, TestClient(replay.app), random.Random(1))
    points = [next(found) for _ in range(POINTS)]

    assert [value for value, _ in points] == [expected for _, expected in points]
    assert sum(1 for value, _ in points if value) > POINTS // 20
    replay.partition.verify()

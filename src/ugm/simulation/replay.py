"""The replay: what would a configuration have done to a workload?

Time is virtual. Nothing limits a job but the partition: its placement rules, the quotas of its queues, the limits of
its users and groups, and the size of the cluster where one is given; otherwise it is as if the machines were without
end. What the report calls waiting is what these add.

The rule that decides which job starts when:

- A job is placed and asked for when it is submitted. If it is denied it is held; if it can never fit, or no placement
  rule finds a queue for it, it is rejected.
- When jobs end, everything that ends at that second is given back first. Then the held jobs are asked for again in the
  order of their submission, and each that fits starts. So within a queue it is first come first served, but a job that
  does not fit is skipped and does not keep later ones back; between queues, too, the oldest job goes first.
- Jobs submitted at the same second as others end come after both.

A request is repeated only when its answer can have changed. All jobs of a `ugm.simulation.gauges.JobClass` get the same
answer. A denied class waits for one of the limits that denied it, until that limit has enough free. A round of retries
therefore costs time for the jobs that start and for the classes that another limit denies, not for the held jobs. The
result is the same as if every held job were requested again each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final, Literal, NamedTuple, final
from weakref import WeakValueDictionary

from ugm.decision import Decision
from ugm.errors import InvariantError, RequestError
from ugm.identity import UserGroup
from ugm.partition import Partition, PartitionSettings
from ugm.resources import Resource
from ugm.simulation.counters import ReplayCounters
from ugm.simulation.gauges import Gauge, Gauges, JobClass
from ugm.simulation.recorder import Recorder
from ugm.simulation.report import Report
from ugm.simulation.workload import Job

__all__ = ["Progress", "simulate"]


class Progress(NamedTuple):
    """Where a replay is."""

    #: The virtual clock.
    now: int
    #: Jobs submitted so far, and what became of those that have not ended.
    read: int
    running: int
    held: int


def simulate(
    jobs: Iterable[Job],
    config: PartitionSettings,
    *,
    cluster: Resource | None = None,
    group_limits: Literal["always", "unless-user-limited"] = "always",
    until: int | None = None,
    observer: Callable[[Progress], None] | None = None,
    recorder: Recorder | None = None,
) -> Report:
    """Replay a workload in a partition.

    Memory grows with the jobs that are held or running, by a few bytes for each job that started, by about 1.2 kB for
    each distinct user, with the limits and quotas that jobs met, and by about 3 kB for each distinct kind of jobs
    (queue, user and size) that is rejected.

    Args:
        jobs: in the order of their submission; read one by one.
        config: the partition of a configuration.
        cluster: what the cluster offers; without it, its size limits nothing.
        group_limits: as for `ugm.Partition`.
        until: stop the clock after this second; None to go on until the last job has ended.
        observer: called after each submission and each round of completions, to show progress.
        recorder: takes in what goes on over time, and is asked for it afterwards; one that is new.

    Returns:
        The report, the same for the same arguments.

    Raises:
        RequestError: a job is submitted before the one that precedes it, or has the number of one that has not ended.

    >>> from ugm import parse_config
    >>> from ugm.simulation import Job
    >>> config = parse_config("partitions: [{name: default, queues: [{name: a, resources: {max: {vcore: 1}}}]}]")
    >>> jobs = [Job(number, 0, 60, "root.a", UserGroup("sue"), Resource(vcore=1000)) for number in (1, 2)]
    >>> simulate(jobs, config.partition()).waiting
    Waiting(jobs=2, delayed=1, total=60, p95=60, max=60)
    """
    # Who is charged where does not depend on who is held to it, so the gauges ask a partition that enforces everything.
    gauges = Gauges(Partition(config, cluster=cluster))
    partition = Partition(config, cluster=cluster, group_limits=group_limits)
    replay = _Replay(partition, gauges, observer or _ignore, recorder)
    for job in jobs:
        if until is not None and job.submit_time > until:
            break
        replay.submit(job)
    replay.finish(until)
    return replay.report()


def _ignore(progress: Progress) -> None:
    """Observe nothing."""


def _nominate(gauge: Gauge, candidates: list[tuple[int, int, Gauge]]) -> None:
    """Add the first in line before a gauge to a heap of (order, amount, gauge), if it has room for anybody."""
    found = gauge.next_in_line()
    if found is not None:
        heappush(candidates, (*found, gauge))


@final
class _Replay:
    """The state of one replay."""

    def __init__(
        self,
        partition: Partition,
        gauges: Gauges,
        observer: Callable[[Progress], None],
        recorder: Recorder | None,
    ) -> None:
        self._partition: Final = partition
        self._observer: Final = observer
        self._recorder: Final = recorder
        self._gauges: Final = gauges
        self._tally: Final = ReplayCounters()
        self._now = 0
        self._decisions = 0
        #: A kind is forgotten with the last of its jobs that is held or runs: where each job has its own size, there
        #: would be one for each.
        self._kinds: WeakValueDictionary[tuple[str, UserGroup, Resource], JobClass] = WeakValueDictionary()
        #: Numbers of the jobs that are held or running.
        self._alive: set[int] = set()
        #: A heap of (end, order of start, kind, job); the order settles which of two that end together is first.
        self._running: list[tuple[int, int, JobClass, Job]] = []

    @property
    def _held(self) -> int:
        return len(self._alive) - len(self._running)

    def submit(self, job: Job) -> None:
        """Let everything happen that ends until the job comes, then start, hold or reject it."""
        if job.submit_time < self._now:
            raise RequestError("jobs", job.number, f"submitted at {job.submit_time}, after a job of {self._now}")
        self._advance(job.submit_time)
        if self._recorder and not self._tally.read:
            self._recorder.begin(self._now)
        if job.number in self._alive:
            raise RequestError("jobs", job.number, "submitted again before the job of that number has ended")
        self._tally.read += 1
        placement = self._partition.submit(job.application_id, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            self._tally.misplace(job, placement)
        else:
            self._start_or_hold(self._kind_of(placement.queue_path, job), job)
        self._observe()

    def _start_or_hold(self, kind: JobClass, job: Job) -> None:
        """Start, hold or reject a job that has been placed."""
        if kind.never:
            self._reject(kind, job)
        elif kind.held:
            self._hold(kind, job)
        elif decision := self._ask(kind, job):
            self._start(kind, job)
        elif decision.can_wait:
            self._hold(kind, job, decision)
        else:
            kind.never = tuple(violation for violation in decision.violations if not violation.can_wait)
            self._reject(kind, job)

    def _kind_of(self, queue_path: str, job: Job) -> JobClass:
        key = (queue_path, job.user, job.usage)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = JobClass(*key, self._gauges.for_job(*key))
        return kind

    def _ask(self, kind: JobClass, job: Job) -> Decision:
        self._decisions += 1
        return self._partition.allocate(job.application_id, job.application_id, kind.usage)

    def _start(self, kind: JobClass, job: Job) -> None:
        kind.charge()
        if self._recorder:
            self._recorder.charged(self._now, kind)
        self._alive.add(job.number)
        self._tally.start(job, self._now - job.submit_time)
        heappush(self._running, (self._now + job.run_time, self._tally.started, kind, job))

    def _hold(self, kind: JobClass, job: Job, decision: Decision | None = None) -> None:
        """Hold a job: behind others of its kind, or the first of its kind because of *decision*."""
        kind.book(self._now)
        kind.held.append((self._tally.read, job))
        if decision is not None:
            self._stand(kind, decision)
        kind.watched[0].rule.book(job.user.name, 1, 0)
        if self._recorder:
            self._recorder.joined(self._now, kind, 1)
        self._alive.add(job.number)
        self._tally.most_held = max(self._tally.most_held, self._held)

    def _reject(self, kind: JobClass, job: Job) -> None:
        self._partition.remove(job.application_id)
        self._tally.reject(kind, job)
        for violation in kind.never:
            self._gauges.of(violation).rule.rejected += 1

    def _stand(self, kind: JobClass, decision: Decision) -> None:
        """Let a denied kind wait for the first of the limits in its way."""
        violation = decision.violations[0]
        kind.wait_for(self._gauges.of(violation), violation.requested)

    def _advance(self, time: int) -> None:
        """Let everything happen that ends until *time*, and set the clock to it."""
        while self._running and self._running[0][0] <= time:
            self._now = self._running[0][0]
            self._retry(self._end_jobs())
            self._observe()
        self._now = time

    def _end_jobs(self) -> Iterable[Gauge]:
        """Give back what every job holds that ends now; return the gauges that jobs are waiting for and that fell."""
        relieved: dict[Gauge, None] = {}
        while self._running and self._running[0][0] == self._now:
            _, _, kind, job = heappop(self._running)
            self._partition.remove(job.application_id)
            self._alive.remove(job.number)
            kind.refund()
            if self._recorder:
                self._recorder.refunded(self._now, kind)
            relieved.update((gauge, None) for gauge, _ in kind.gauges if gauge.waiting)
        return relieved

    def _retry(self, relieved: Iterable[Gauge]) -> None:
        """Start the held jobs that fit now, the oldest first.

        During a round usage only grows: who does not fit a gauge once will not fit it later, and those that find
        another limit in their way are done with for this round.
        """
        candidates: list[tuple[int, int, Gauge]] = []
        for gauge in relieved:
            _nominate(gauge, candidates)
        while candidates:
            order, amount, gauge = heappop(candidates)
            # Others may have taken the room since.
            if gauge.has_room(amount):
                self._retry_kind(gauge.waiting.take(order))
            _nominate(gauge, candidates)

    def _retry_kind(self, kind: JobClass) -> None:
        """Ask for the oldest job of a kind that waits nowhere now; let the kind wait again if it has to."""
        kind.book(self._now)
        if self._recorder:
            self._recorder.joined(self._now, kind, -len(kind.held))
        if decision := self._ask(kind, kind.held[0][1]):
            self._start(kind, kind.held.popleft()[1])
            if kind.held:
                kind.wait_for(*kind.watched)
        else:
            self._stand(kind, decision)
        if self._recorder:
            self._recorder.joined(self._now, kind, len(kind.held))

    def _observe(self) -> None:
        if self._recorder:
            self._recorder.observed(self._now, len(self._running), self._held)
        self._observer(Progress(self._now, self._tally.read, len(self._running), self._held))

    def finish(self, until: int | None) -> None:
        """Go on without further submissions, to the second *until* or until nothing runs."""
        while self._running and (until is None or self._running[0][0] <= until):
            self._advance(self._running[0][0])
        if until is not None:
            self._now = until
        for kind in self._kinds.values():
            kind.book(self._now)
        if self._recorder:
            self._recorder.finish(self._now)

    def report(self) -> Report:
        """Check the partition and return the figures."""
        return self._tally.report(
            held=self._held,
            decisions=self._decisions,
            end_time=self._now,
            rules=self._gauges.rules.values(),
            findings=self._verify(),
        )

    def _verify(self) -> tuple[str, ...]:
        try:
            self._partition.verify()
        except InvariantError as error:
            return error.findings
        return ()

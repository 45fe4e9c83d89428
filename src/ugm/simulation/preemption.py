"""The replay of a workload in a scheduler loop with preemption, and its effect on guarantees, waits and lost work.

The loop is that of `ugm.simulation.simulate`: jobs that end are released first, then the waiting jobs are requested in
the order of their arrival, and new jobs come last. A job is one application with one allocation. In addition, a job
that has waited for the ``preemption.delay`` of its queue gets a plan of preemption, if its queue is below a guarantee.
The victims of a plan stop a fixed time later. Then their jobs wait again, in their former order.

A job with a right to room starts before all others. Until then, other jobs start only if its room stays free.

Time is a virtual clock. The report only depends on the arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.configuration import PartitionConfig
from ugm.errors import InvariantError, RequestError
from ugm.identity import UserGroup, ancestors
from ugm.partition import AllocationRequest, Partition
from ugm.partition.config_schedule import ConfigSchedule
from ugm.preemption import Outcome
from ugm.preemption.facts import DEFAULT_DELAY
from ugm.preemption.settings import PreemptionSettings
from ugm.resources import Resource
from ugm.simulation.replay import Progress
from ugm.simulation.workload import Job

__all__ = ["GuaranteeEffect", "PreemptionReport", "VictimWork", "simulate_preemption"]


class VictimWork(StrEnum):
    """The fate of the work of a victim."""

    #: The victim starts again from the beginning.
    RESTART = "restart"
    #: The victim continues where it stopped.
    CONTINUE = "continue"


@final
@dataclass(slots=True)
class GuaranteeEffect:
    """The service that a queue with a guarantee got."""

    queue_path: str
    guaranteed: Resource
    #: The number of its jobs that have started.
    jobs: int = 0
    #: The sum and the maximum of their waiting times, in seconds.
    waited: int = 0
    longest_wait: int = 0
    #: The seconds in which a job waited that fits into the guarantee: the guarantee was unmet.
    unmet: int = 0
    #: The longest time that a job waited while the guarantee was unmet without interruption.
    longest_unmet: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "guaranteed": dict(self.guaranteed)}


@final
@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """The result of a replay."""

    #: The jobs that were submitted, that have started, that still wait at the end, and that can never run.
    submitted: int
    started: int
    waiting: int
    rejected: int
    #: The sum and the maximum of the waiting times until the first start, in seconds.
    waited: int
    longest_wait: int
    #: The number of evictions, and the run time that was lost by them, in seconds.
    evictions: int
    lost: int
    #: The number of plans by outcome.
    plans: Mapping[str, int]
    #: The longest time between a plan that was carried out and the start of its job, in seconds.
    longest_time_to_start: int
    #: By path.
    guarantees: tuple[GuaranteeEffect, ...]
    #: What `ugm.Partition.verify` has found at the end; empty.
    findings: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """True if the self-check of the partition had no findings."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        guarantees = [one.to_dict() for one in self.guarantees]
        return {**values, "plans": dict(self.plans), "guarantees": guarantees, "findings": list(self.findings)}


def simulate_preemption(
    jobs: Iterable[Job],
    config: PartitionConfig,
    *,
    cluster: Resource,
    preempts: bool = True,
    victims: VictimWork = VictimWork.RESTART,
    stop_time: int = 30,
    observer: Callable[[Progress], None] | None = None,
) -> PreemptionReport:
    """Replay a workload in a partition with guarantees until all jobs have ended.

    Args:
        jobs: the jobs in the order of their submission; they are read one by one.
        config: the partition of a configuration. Quota models that it declares take part.
        cluster: the resources of the cluster.
        preempts: whether plans of preemption are made. Without them, the report shows the same workload for comparison.
        victims: whether victims start again or continue.
        stop_time: the time that a victim takes to stop, in seconds.
        observer: called after each submission with the progress.

    Raises:
        RequestError: the jobs are not in order, or an argument is invalid.

    >>> from ugm import parse_config
    >>> text = "partitions: [{queues: [{name: a, resources: {guaranteed: {vcore: 1}}}, {name: b}]}]"
    >>> sue = UserGroup("sue")
    >>> jobs = [Job(n, n, 3600, queue, sue, Resource(vcore=1000)) for n, queue in enumerate(["root.b", "root.a"])]
    >>> report = simulate_preemption(jobs, parse_config(text).partition(), cluster=Resource(vcore=1000))
    >>> report.evictions, report.lost, report.guarantees[0].longest_wait
    (1, 61, 60)
    """
    if type(stop_time) is not int or stop_time < 0:
        raise RequestError("stop_time", stop_time, "expected an int >= 0")
    replay = _Replay(config, cluster, VictimWork(victims), stop_time, preempts=preempts)
    for job in jobs:
        replay.submit(job)
        if observer:
            observer(replay.progress())
    replay.finish()
    return replay.report()


#: The key of equal jobs: if one of them is denied, the others are, too.
_Key: TypeAlias = tuple[str, UserGroup, Resource, tuple[tuple[str, str], ...]]


class _Waiting(NamedTuple):
    """A waiting job."""

    order: int
    job: Job
    #: The time since which it has been waiting, and the run time that is left.
    since: int
    left: int
    has_run: bool


@final
@dataclass(slots=True)
class _Running:
    """A running job."""

    waiting: _Waiting
    key: _Key
    began: int
    end: int
    #: The time at which it stops because it is a victim; None otherwise.
    stops: int | None = None


@final
@dataclass(slots=True, eq=False)
class _Guarantee:
    """A queue with a guarantee, and its usage."""

    effect: GuaranteeEffect
    used: dict[str, int]
    #: The usage without terminating jobs, with that of jobs with a right to room.
    kept: dict[str, int]
    #: The keys of the waiting jobs in and below it.
    keys: dict[_Key, None] = field(default_factory=dict)
    #: Those of them that fit into the guarantee once all plans are carried out.
    entitled: tuple[_Key, ...] = ()
    #: The time since which its guarantee has been unmet; None if it is not.
    unmet_since: int | None = None

    def update(self, now: int) -> None:
        """Record whether the guarantee is unmet after a change of the usage or of the waiting jobs."""
        self.note(now, is_unmet=any(self.fits(key[2]) for key in self.keys))
        self.entitled = tuple(key for key in self.keys if self.entitles(key[2]))

    def fits(self, usage: Resource) -> bool:
        """Return whether an amount fits into the guarantee. If a waiting one does, the guarantee is unmet."""
        return self._fits(self.used, usage)

    def entitles(self, usage: Resource) -> bool:
        """Return whether an amount fits into the guarantee once all plans are carried out."""
        return self._fits(self.kept, usage)

    def _fits(self, used: Mapping[str, int], usage: Resource) -> bool:
        guaranteed, requested = self.effect.guaranteed.amounts, usage.amounts
        is_within = all(used.get(name, 0) + requested.get(name, 0) <= amount for name, amount in guaranteed.items())
        return is_within and any(requested.get(name, 0) for name in guaranteed)

    def note(self, now: int, *, is_unmet: bool) -> None:
        """Note whether the guarantee is unmet from now on."""
        if is_unmet:
            self.unmet_since = now if self.unmet_since is None else self.unmet_since
        elif self.unmet_since is not None:
            self.effect.unmet += now - self.unmet_since
            self.unmet_since = None

    def note_start(self, now: int, since: int) -> None:
        """Note that a job starts that has been waiting since a time."""
        if self.unmet_since is not None:
            self.effect.longest_unmet = max(self.effect.longest_unmet, now - max(since, self.unmet_since))


def _add(total: dict[str, int], usage: Resource, sign: int) -> None:
    for name, amount in usage.amounts.items():
        total[name] = total.get(name, 0) + sign * amount


def _is_within(usage: Resource, amounts: Mapping[str, int]) -> bool:
    return all(amount <= amounts.get(name, 0) for name, amount in usage.amounts.items())


@final
class _Replay:
    """The state of one replay."""

    def __init__(
        self, config: PartitionConfig, cluster: Resource, victims: VictimWork, stop_time: int, *, preempts: bool
    ) -> None:
        if config.ugm.budgets or ConfigSchedule.compile(config) is not None:
            reason = "budgets and limits that change by a schedule cannot be replayed with preemption"
            raise RequestError("config", config.name, reason)
        self.now = 0
        self._partition: Final = Partition(config, cluster=cluster, clock=lambda: self.now)
        self._settings: Final = PreemptionSettings(config)
        self._victims: Final = victims
        self._stop_time: Final = stop_time
        self._preempts: Final = preempts
        self._guarantees: Final = {
            path: _Guarantee(GuaranteeEffect(path, queue.resources.guaranteed), {}, {})
            for path, queue in config.root.walk()
            if queue.resources.guaranteed
        }
        #: The guarantees with changes since their last update, and those that entitle a waiting job.
        self._changed: Final[dict[_Guarantee, None]] = {}
        self._entitling: Final[dict[_Guarantee, None]] = {}
        self._cluster: Final = dict(cluster)
        #: The free amounts of the cluster.
        self._free: Final = dict(cluster)
        #: The amounts that terminating jobs use, and those of the jobs with a right to room.
        self._terminating: Final[dict[str, int]] = {}
        self._claimed: Final[dict[str, int]] = {}
        #: By application id. A waiting job with a right to room has the time of its plan.
        self._running: Final[dict[str, _Running]] = {}
        self._placed: Final[dict[str, tuple[_Key, _Waiting, int]]] = {}
        #: The jobs that use the room that victims of others leave. No recorded plan is theirs.
        self._expected: Final[dict[str, AllocationRequest]] = {}
        #: By key, the oldest first; no list is empty.
        self._waiting: Final[dict[_Key, deque[_Waiting]]] = {}
        #: The times at which something may happen, in a heap, each with the application that it concerns.
        self._events: Final[list[tuple[int, int, str]]] = []
        self._numbers: Final = count()
        self._paths: Final[dict[str, tuple[list[_Guarantee], int]]] = {}
        self._waits: Final[list[int]] = []
        self._submitted = self._rejected = self._evictions = self._lost = self._longest_time_to_start = 0
        self._plans: Final[dict[str, int]] = {}
        #: Counts changes of usage; and by key, the count at which the last plan has failed.
        self._usage_changes = 0
        self._failed: Final[dict[_Key, int]] = {}

    # Time

    def submit(self, job: Job) -> None:
        """Advance the clock to the submission of a job, and start it or let it wait."""
        if job.submit_time < self.now:
            raise RequestError("jobs", job.number, f"submitted at {job.submit_time}, after a job of {self.now}")
        self._advance(job.submit_time)
        self._submitted += 1
        placement = self._partition.submit(job.application_id, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            self._rejected += 1
            return
        key = placement.queue_path, job.user, job.usage, tuple(sorted(job.tags.items()))
        self._wait(key, _Waiting(self._submitted, job, self.now, job.run_time, has_run=False))
        if self._waiting[key][0].job is job:
            self._retry([key])
        self._update_guarantees()
        self._preempt()

    def finish(self) -> None:
        """Continue until no event is left."""
        while self._events:
            self._advance(self._events[0][0])

    def _advance(self, time: int) -> None:
        while self._events and self._events[0][0] <= time:
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                self._end(heappop(self._events)[2])
            self._retry(self._waiting)
            self._update_guarantees()
            self._preempt()
        self.now = time

    def _at(self, time: int, application_id: str) -> None:
        heappush(self._events, (time, next(self._numbers), application_id))

    def _update_guarantees(self) -> None:
        """Update the guarantees that a change concerns; most changes concern few of many."""
        for guarantee in self._changed:
            guarantee.update(self.now)
            if guarantee.entitled:
                self._entitling[guarantee] = None
            else:
                self._entitling.pop(guarantee, None)
        self._changed.clear()

    def _guarantees_of(self, key: _Key) -> tuple[list[_Guarantee], int]:
        """Return the queues with a guarantee above a job, leaf to root, and the delay of its preemption."""
        path = key[0]
        if path not in self._paths:
            above = list(ancestors(path))
            delays = (self._settings.facts(one).delay for one in above)
            found = [self._guarantees[one] for one in above if one in self._guarantees]
            self._paths[path] = found, next((delay for delay in delays if delay is not None), DEFAULT_DELAY)
        return self._paths[path]

    # Jobs

    def _wait(self, key: _Key, waiting: _Waiting) -> None:
        job = waiting.job
        self._partition.request(job.application_id, job.application_id, job.usage)
        queue = self._waiting.setdefault(key, deque())
        queue.append(waiting)
        guarantees, delay = self._guarantees_of(key)
        if len(queue) == 1:
            for guarantee in guarantees:
                guarantee.keys[key] = None
                self._changed[guarantee] = None
        if len(queue) > 1 and queue[-2].order > waiting.order:
            self._waiting[key] = deque(sorted(queue))
        if self._preempts and guarantees:
            self._at(self.now + delay, job.application_id)

    def _retry(self, keys: Iterable[_Key]) -> None:
        """Start the jobs with a right to room, and then the waiting jobs that fit now, the oldest first."""
        for key, waiting, since in list(self._placed.values()):
            if self._start(key, waiting):
                self._longest_time_to_start = max(self._longest_time_to_start, self.now - since)
        heads = [(self._waiting[key][0].order, key) for key in keys if key in self._waiting]
        heapify(heads)
        while heads:
            _, key = heappop(heads)
            # Usage only grows during a round, so equal jobs are denied again.
            if self._has_room(key[2]) and self._start(key, self._waiting[key][0]) and key in self._waiting:
                heappush(heads, (self._waiting[key][0].order, key))

    def _has_room(self, usage: Resource) -> bool:
        """Return whether a job leaves the room of those with a right to it."""
        if not _is_within(usage, self._free):
            # The partition rejects a job that is larger than the cluster.
            return not _is_within(usage, self._cluster)
        if not self._placed:
            return True
        room = {name: self._free[name] + self._terminating.get(name, 0) for name in self._free}
        return _is_within(usage, {name: amount - self._claimed.get(name, 0) for name, amount in room.items()})

    def _start(self, key: _Key, waiting: _Waiting) -> bool:
        job = waiting.job
        name = job.application_id
        decision = self._partition.allocate(name, name, job.usage)
        if not decision and decision.can_wait:
            return False
        self._leave(key, waiting)
        if not decision:
            self._partition.remove(name)
            self._rejected += 1
            return True
        if not waiting.has_run:
            self._count_wait(key, self.now - job.submit_time)
        self._running[name] = _Running(waiting, key, self.now, self.now + waiting.left)
        _add(self._free, job.usage, -1)
        for guarantee in self._guarantees_of(key)[0]:
            guarantee.note_start(self.now, waiting.since)
            _add(guarantee.used, job.usage, 1)
        self._keep(key, job.usage, 1)
        self._at(self.now + waiting.left, name)
        return True

    def _leave(self, key: _Key, waiting: _Waiting) -> None:
        """Remove a job from the waiting ones, and its right to room."""
        name = waiting.job.application_id
        self._expected.pop(name, None)
        if self._placed.pop(name, None):
            _add(self._claimed, waiting.job.usage, -1)
            self._keep(key, waiting.job.usage, -1)
        self._waiting[key].remove(waiting)
        if not self._waiting[key]:
            del self._waiting[key]
            for guarantee in self._guarantees_of(key)[0]:
                del guarantee.keys[key]
                self._changed[guarantee] = None

    def _count_wait(self, key: _Key, waited: int) -> None:
        self._waits.append(waited)
        for guarantee in self._guarantees_of(key)[0]:
            effect = guarantee.effect
            effect.jobs += 1
            effect.waited += waited
            effect.longest_wait = max(effect.longest_wait, waited)

    def _keep(self, key: _Key, usage: Resource, sign: int) -> None:
        self._usage_changes += 1
        for guarantee in self._guarantees_of(key)[0]:
            _add(guarantee.kept, usage, sign)
            self._changed[guarantee] = None

    def _end(self, application_id: str) -> None:
        """End a job whose time is over, or stop it if it is a victim."""
        running = self._running.get(application_id)
        if running is None or self.now not in (running.end, running.stops):
            return
        job = running.waiting.job
        del self._running[application_id]
        self._partition.release(application_id)
        self._usage_changes += 1
        _add(self._free, job.usage, 1)
        for guarantee in self._guarantees_of(running.key)[0]:
            _add(guarantee.used, job.usage, -1)
            self._changed[guarantee] = None
        if running.stops is None:
            self._keep(running.key, job.usage, -1)
        else:
            _add(self._terminating, job.usage, -1)
        if self.now >= running.end:
            self._partition.complete(application_id)
        else:
            self._evict(running)

    def _evict(self, running: _Running) -> None:
        """Let a victim wait again, in its former order."""
        self._evictions += 1
        worked, left = self.now - running.began, running.end - self.now
        if self._victims is VictimWork.RESTART:
            self._lost += worked
            left += worked
        self._wait(running.key, running.waiting._replace(since=self.now, left=left, has_run=True))

    # Preemption

    def _preempt(self) -> None:
        """Make plans for the jobs that have waited long enough, and carry them out."""
        if not self._preempts:
            return
        due = {key for guarantee in self._entitling for key in guarantee.entitled}
        for key in sorted(due, key=lambda key: self._waiting[key][0].order):
            if self._failed.get(key) == self._usage_changes:
                continue
            for waiting in list(self._waiting[key]):
                if waiting.job.application_id in self._placed:
                    continue
                if not self._is_entitled(key) or not self._is_due(key, waiting):
                    break
                if not self._plan(key, waiting):
                    self._failed[key] = self._usage_changes
                    break

    def _is_entitled(self, key: _Key) -> bool:
        """Return whether a queue above a job is below its guarantee."""
        return any(guarantee.entitles(key[2]) for guarantee in self._guarantees_of(key)[0])

    def _is_due(self, key: _Key, waiting: _Waiting) -> bool:
        return self.now >= waiting.since + self._guarantees_of(key)[1]

    def _plan(self, key: _Key, waiting: _Waiting) -> bool:
        """Make a plan for a job, and carry it out; return whether the job has a right to room now."""
        job = waiting.job
        request = AllocationRequest(job.application_id, job.application_id, job.usage)
        placed = list(self._expected.values())
        plan = self._partition.plan_preemption(request, since=waiting.since, now=self.now, placed=placed)
        self._plans[plan.outcome.value] = self._plans.get(plan.outcome.value, 0) + 1
        if plan.outcome is Outcome.AWAITS_TERMINATING:
            self._expected[job.application_id] = request
        elif not plan:
            return False
        for name in self._partition.carry_out(plan) if plan else ():
            victim = self._running[name]
            victim.stops = self.now + self._stop_time
            self._keep(victim.key, victim.waiting.job.usage, -1)
            _add(self._terminating, victim.waiting.job.usage, 1)
            self._at(victim.stops, name)
        self._placed[job.application_id] = key, waiting, self.now
        _add(self._claimed, job.usage, 1)
        self._keep(key, job.usage, 1)
        return True

    def progress(self) -> Progress:
        """Return the time and the numbers of jobs."""
        return Progress(self.now, self._submitted, len(self._running), sum(map(len, self._waiting.values())))

    def report(self) -> PreemptionReport:
        """Verify the partition, and return the report."""
        findings: tuple[str, ...] = ()
        try:
            self._partition.verify()
        except InvariantError as error:
            findings = error.findings
        for guarantee in self._guarantees.values():
            guarantee.note(self.now, is_unmet=False)
        return PreemptionReport(
            self._submitted,
            len(self._waits),
            sum(map(len, self._waiting.values())),
            self._rejected,
            sum(self._waits),
            max(self._waits, default=0),
            self._evictions,
            self._lost,
            dict(sorted(self._plans.items())),
            self._longest_time_to_start,
            tuple(guarantee.effect for _, guarantee in sorted(self._guarantees.items())),
            findings,
        )

"""Reservations in a replay: the capacity that the partition keeps for jobs that are delayed only by queue quotas.

The partition decides which job has a reservation, and which other jobs it holds back. This module requests jobs of the
partition in that way, and finds the jobs that may get a reservation that is free. Those are the first waiting jobs for
which only gauges of queues are full. Jobs that another reservation has held back are among them, so that a later job
does not get the reservation before them.

A job class that a reservation holds back waits for a gauge of the reservation. It is tried again once in every round of
retries, because every release may change the start of the reserved job. Within a round, it is not requested if it needs
more of a limit of a queue than the reservation leaves, and promises no shorter duration than a class that was held back
because of that limit.

Limits that change by a schedule may deny a reserved job, so that its reservation becomes free without a start. Then a
round of retries gives the reservation away before it requests a later class. Otherwise that class would start in front
of the job that gets it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, final

from ugm.configuration import PartitionConfig, QueueConfig
from ugm.decision import Decision, Violation
from ugm.fairness.sort_settings import RESERVATION, QueueSettings
from ugm.identity import ancestors, is_below
from ugm.partition import AllocationRequest, Partition, Reservation
from ugm.partition.reservations import is_blocked_by_queues
from ugm.simulation.gauges import Gauge, JobClass, ReplayGauges
from ugm.simulation.ordered_lines import OrderedLines, merged
from ugm.simulation.workload import Job

__all__ = ["RESERVED", "JobReservations", "with_reservations", "without_reservations"]

#: The kind of the violation by which a reservation denies a request.
RESERVED: Final = "reservation"


def with_reservations(config: PartitionConfig) -> PartitionConfig:
    """Return a configuration in which queues reserve capacity: the root, if the configuration names none."""
    if QueueSettings(config).has_reservations:
        return config
    root = replace(config.root, properties={**config.root.properties, RESERVATION: "enabled"})
    return replace(config, queues=(root,), limits=())


def without_reservations(config: PartitionConfig) -> PartitionConfig:
    """Return a configuration in which no queue reserves capacity."""
    if not QueueSettings(config).has_reservations:
        return config
    return replace(config, queues=(_not_reserving(config.root),), limits=())


def _not_reserving(queue: QueueConfig) -> QueueConfig:
    template = queue.child_template
    return replace(
        queue,
        properties=_without_reservation(queue.properties),
        child_template=template and replace(template, properties=_without_reservation(template.properties)),
        queues=tuple(map(_not_reserving, queue.queues)),
    )


def _without_reservation(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in properties.items() if name != RESERVATION}


@final
class JobReservations:
    """The reservations of waiting jobs.

    Args:
        partition: the partition of the replay.
        config: its configuration.
        gauges: the gauges of the replay.
    """

    __slots__ = (
        "_awaited",
        "_exist",
        "_free",
        "_gauges",
        "_held_back",
        "_holders",
        "_is_exact",
        "_is_outdated",
        "_known",
        "_partition",
        "_queues",
        "_reserving",
        "_searched",
        "_set_aside",
        "_settings",
    )

    def __init__(self, partition: Partition, config: PartitionConfig, gauges: ReplayGauges) -> None:
        self._partition: Final = partition
        self._gauges: Final = gauges
        self._settings: Final = QueueSettings(config)
        #: Whether objections depend only on limits of users, groups and queues.
        self._is_exact: Final = not partition.model_reports()
        #: Whether a job may have a reservation.
        self._exist: bool = False
        #: The queues whose reservation is free; None if it has to be looked up.
        self._free: frozenset[str] | None = None
        #: Whether a job was requested or delayed since all reservations were found that could be made.
        self._is_outdated: bool = False
        #: The queues with waiting jobs, and those that reserve capacity for them.
        self._queues: Final[set[str]] = set()
        self._reserving: Final[list[str]] = []
        #: The reservations that were found last, and the last objection of these in this round at the gauges of queues,
        #: with the duration of the class that it has held back.
        self._known: tuple[Reservation, ...] = ()
        self._held_back: Final[dict[tuple[str, Gauge], tuple[int, Violation]]] = {}
        #: The classes of the first jobs that may have a reservation, by allocation.
        self._holders: dict[str, JobClass] = {}
        #: The gauges that held back classes wait for, by the queue and the resource of the objection.
        self._awaited: Final[dict[tuple[str, str | None], Gauge]] = {}
        #: The classes that are not requested again in this round.
        self._set_aside: OrderedLines[JobClass] = OrderedLines(gauges.order)
        #: The gauges of users and groups that this round has lowered.
        self._searched: list[Gauge] = []

    def begin_round(self, relieved: Iterable[Gauge]) -> None:
        """Note the gauges with waiting classes that the next round of retries searches."""
        self._free = None
        self._searched = [gauge for gauge in relieved if gauge.is_of_owner]

    def allocate(self, job_class: JobClass, job: Job) -> Decision:
        """Request a job, with respect to reservations if there are any."""
        name = job.application_id
        if self._held_back and (objection := self._objection(job_class, name)) is not None:
            return Decision((objection,))
        self._is_outdated = True
        if not self._exist:
            self._free = None
            return self._partition.allocate_ignoring_reservations(self._request(name, job_class))
        decision = self._partition.allocate(self._request(name, job_class))
        if not decision and decision.violations[0].kind == RESERVED and self._is_exact:
            self._note_objection(job_class, decision.violations[0])
        else:
            # The present reservations may have changed.
            self._free = None
        return decision

    @staticmethod
    def _request(name: str, job_class: JobClass) -> AllocationRequest:
        return AllocationRequest(name, name, job_class.usage, duration=job_class.duration)

    def _note_objection(self, job_class: JobClass, objection: Violation) -> None:
        """Note an objection that holds for the jobs of all users."""
        where = objection.queue_path, objection.resource, objection.limit
        places = [gauge for gauge, _ in job_class.gauges if gauge.place == where]
        if len(places) == 1 and places[0].is_of_queue and objection.resource is not None:
            self._held_back[self._line_of(job_class), places[0]] = job_class.duration or 0, objection

    def _line_of(self, job_class: JobClass) -> str:
        """Return a name that is equal for classes between which no priorities decide."""
        return job_class.queue_path if self._settings.has_offsets else ""

    def _objection(self, job_class: JobClass, name: str) -> Violation | None:
        """Return an objection to a class that needs no more and ends no later, if it applies to a job as well."""
        line = self._line_of(job_class)
        for gauge, amount in job_class.gauges:
            found = self._held_back.get((line, gauge))
            if found is not None:
                shortest, objection = found
                is_larger = amount > objection.limit - objection.used
                if is_larger and (job_class.duration or 0) >= shortest and not self._is_reserved(name):
                    return objection._replace(requested=amount)
        return None

    def _is_reserved(self, name: str) -> bool:
        return any(one.allocation_id == name for one in self._known)

    def request(self, job_class: JobClass, job: Job) -> None:
        """Let a waiting job be pending, so that it may get a reservation."""
        if job_class.queue_path not in self._queues:
            self._note_queue(job_class.queue_path)
            self._free = None
        name = job.application_id
        self._is_outdated = True
        self._partition.request(name, name, job_class.usage, duration=job_class.duration)

    def _note_queue(self, queue_path: str) -> None:
        self._queues.add(queue_path)
        found = (path for path in ancestors(queue_path) if self._settings.reserves(path))
        self._reserving.extend(path for path in found if path not in self._reserving)

    def wait(self, job_class: JobClass, objection: Violation) -> None:
        """Let a class wait that a reservation holds back; it is not requested again in this round."""
        where = objection.queue_path, objection.resource
        gauge = self._awaited.get(where)
        if gauge is None:
            # All reserved jobs of a queue are one line of the report.
            gauge = self._awaited[where] = self._gauges.of(objection._replace(name="", limit_name=""))
        job_class.awaited = gauge, objection.requested
        self._set_aside.add(job_class.waiting_jobs[0][0], objection.requested, job_class)

    def remove(self, job_class: JobClass) -> None:
        """Let a class that may have been set aside wait for nothing."""
        arrival = job_class.waiting_jobs[0][0]
        if arrival in self._set_aside:
            self._set_aside.remove(arrival)

    def end_round(self) -> None:
        """Let the classes that were set aside be requested in the next round."""
        if self._set_aside:
            for _, _, job_class in self._set_aside.in_order():
                job_class.wait_for(*job_class.awaited)
            self._set_aside = OrderedLines(self._gauges.order)
        self._searched = []
        self._held_back.clear()

    def reserve(self, job_class: JobClass) -> None:
        """Let a class for which only gauges of queues are full have the reservations of its queues that it may get."""
        if not self._open_paths().isdisjoint(ancestors(job_class.queue_path)):
            self._exist = True
            name = job_class.waiting_jobs[0][1].application_id
            decision = self._partition.allocate(self._request(name, job_class))
            self._holders[name] = job_class
            is_only = len(self._reserving) == 1 and not self._settings.has_offsets
            if is_only and is_blocked_by_queues(decision.violations):
                # No need to plan its start now: the only reservation is that of this job.
                self._known, self._free = (Reservation(name, name, tuple(self._reserving), None),), frozenset()
                self._held_back.clear()
            else:
                self._free = None
                # A replaced reservation holds back no class any more.
                self._free_paths()

    def follow_limits(self) -> None:
        """Note that limits may have changed: reservations may be free, and other classes may get them."""
        self._free = None
        self._is_outdated = True

    def fill_before(self, key: tuple[Any, ...], arrival: int) -> None:
        """Let the classes before a place in the order have the reservations that a change of limits may have freed."""
        if self._gauges.is_scheduled:
            # No gauge is exact then, so no class has to wait for another one.
            self._give((key, arrival))

    def fill(self) -> list[tuple[JobClass, Gauge, int]]:
        """Let the first classes for which only gauges of queues are full have the reservations that they may get.

        Returns:
            The classes that have to wait for another gauge, which is full, with this gauge and their amount there.
        """
        if not self._is_outdated:
            return []
        self._is_outdated = False
        return self._give(None)

    def _give(self, end: tuple[tuple[Any, ...], int] | None) -> list[tuple[JobClass, Gauge, int]]:
        """Give the reservations to the first classes before a place in the order; None for all classes."""
        moved: list[tuple[JobClass, Gauge, int]] = []
        # The queues whose first class has been tried. Priorities do not decide between classes of one queue.
        tried: set[str] = set()
        for key, arrival, job_class in self._held_below(self._open_paths()):
            if end is not None and (key, arrival) >= end:
                break
            if job_class.queue_path in tried:
                continue
            full = self._full_gauge(job_class)
            if full is None and not self._gauges.may_deny:
                break
            if full is None or self._open_paths().isdisjoint(ancestors(job_class.queue_path)):
                continue
            if full[0].is_exact and full[0] is not job_class.awaited[0]:
                moved.append((job_class, *full))
            if full[0].is_of_queue:
                self.reserve(job_class)
                if self._settings.has_offsets:
                    tried.add(job_class.queue_path)
                if not self._open_paths() or tried == self._queues:
                    break
        return moved

    def _open_paths(self) -> frozenset[str]:
        """Return the queues whose reservation a class may get: the free ones, or with priorities also taken ones."""
        # Also if the answer does not depend on it: this drops the reservations of blocked jobs.
        free = self._free_paths()
        return frozenset(self._reserving) if self._settings.has_offsets else free

    def _held_below(self, paths: frozenset[str]) -> Iterable[tuple[tuple[Any, ...], int, JobClass]]:
        """Return the classes that may get the reservation of one of some queues, in their order, with their places."""
        if not paths:
            return ()
        # Most gauges have no waiting class.
        gauges = [gauge for gauge in (*self._gauges.of_queues, *self._awaited.values()) if gauge.waiting.places]
        lines = [gauge.waiting for gauge in gauges if any(_may_reserve(gauge, path) for path in paths)]
        # The other classes of these gauges fit only later.
        lines += [gauge.waiting for gauge in self._searched if gauge.first_fitting() is not None]
        if self._set_aside:
            lines.append(self._set_aside)
        # Positions are unique, so classes are not compared.
        return merged([waiting.in_order() for waiting in lines])

    def _full_gauge(self, job_class: JobClass) -> tuple[Gauge, int] | None:
        """Return a full gauge of a class; None if none is full or it may not reserve."""
        if not self._gauges.is_scheduled:
            return job_class.full_gauge()
        # Gauges do not know limits that change by a schedule.
        name = job_class.waiting_jobs[0][1].application_id
        violations = self._partition.check(name, job_class.usage, duration=job_class.duration).violations
        if not is_blocked_by_queues(violations):
            return None
        return self._gauges.of(violations[0]), violations[0].requested

    def _free_paths(self) -> frozenset[str]:
        """Return the queues with jobs whose reservation is free, after reading the present reservations."""
        if self._free is None:
            self._free = frozenset(self._reserving).difference(self._taken_paths() if self._exist else ())
        return self._free

    def _taken_paths(self) -> set[str]:
        reservations = self._partition.reservations()
        if reservations != self._known:
            self._drop_blocked({one.allocation_id for one in reservations})
            self._known = reservations
            self._held_back.clear()
        taken = {path for one in reservations for path in one.queue_paths}
        self._exist = bool(taken)
        return taken

    def _drop_blocked(self, present: Collection[str]) -> None:
        """Drop the reservations of jobs that something besides queues blocks now, as the next pass would.

        Without this, such a job would have its reservation again if the block ended before the next pass.
        """
        for name in [name for name in self._holders if name not in present]:
            job_class = self._holders.pop(name)
            if job_class.waiting_jobs and job_class.waiting_jobs[0][1].application_id == name:
                violations = self._partition.check(name, job_class.usage, duration=job_class.duration).violations
                if violations and not is_blocked_by_queues(violations):
                    self._partition.allocate(self._request(name, job_class))


def _may_reserve(gauge: Gauge, path: str) -> bool:
    """Return whether classes that wait for a gauge may be at or below a path."""
    limited = gauge.configured.key.queue_path
    return is_below(limited, path) or is_below(path, limited)

"""Reservations in a replay: the capacity that the partition keeps for jobs that only limits of queues hold.

The partition decides which job has a reservation, and which other jobs it holds back. This module requests jobs of the
partition in that way, and finds the jobs that may get a reservation that is free. Those are the first held jobs for
which only gauges of queues are full.

A job class that a reservation holds back waits for a gauge of the reservation. It is tried again once in every round of
retries, because every release may change the start of the reserved job. Within a round, it is not requested if the
same reservations have held back a class of the same queue that is as small and promises no longer duration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, final

from ugm.configuration import PartitionConfig
from ugm.decision import Decision, Violation
from ugm.fairness.sort_settings import RESERVATION, QueueSettings
from ugm.identity import ROOT, ancestors
from ugm.partition import AllocationRequest, Partition, Reservation
from ugm.resources import MAX_QUANTITY
from ugm.simulation.gauges import Gauge, JobClass, ReplayGauges
from ugm.simulation.ordered_lines import Candidate
from ugm.simulation.workload import Job

__all__ = ["RESERVED", "JobReservations", "with_reservations"]

#: The kind of the violation by which a reservation denies a request.
RESERVED: Final = "reservation"


def with_reservations(config: PartitionConfig) -> PartitionConfig:
    """Return a configuration in which queues reserve capacity: the root, if the configuration names none."""
    if QueueSettings(config).has_reservations:
        return config
    root = replace(config.root, properties={**config.root.properties, RESERVATION: "enabled"})
    return replace(config, queues=(root,), limits=())


@final
class JobReservations:
    """The reservations of held jobs.

    Args:
        partition: the partition of the replay.
        config: its configuration.
        gauges: the gauges of the replay.
    """

    __slots__ = (
        "_exist",
        "_gauges",
        "_held_back",
        "_is_outdated",
        "_known",
        "_partition",
        "_queues",
        "_reserving",
        "_set_aside",
        "_settings",
    )

    def __init__(self, partition: Partition, config: PartitionConfig, gauges: ReplayGauges) -> None:
        self._partition: Final = partition
        self._gauges: Final = gauges
        self._settings: Final = QueueSettings(config)
        #: Whether a job may have a reservation.
        self._exist: bool = False
        #: Whether a job was requested or held since all reservations were found that could be made.
        self._is_outdated: bool = False
        #: The queues with jobs, and those that reserve capacity for them.
        self._queues: Final[set[str]] = set()
        self._reserving: Final[list[str]] = []
        #: The reservations that were found last, and the objections of these to classes of each queue in this round.
        self._known: tuple[Reservation, ...] = ()
        self._held_back: Final[dict[str, list[tuple[int, Violation]]]] = {}
        #: The classes that are not requested again in this round.
        self._set_aside: Final[list[JobClass]] = []

    def allocate(self, job_class: JobClass, job: Job) -> Decision:
        """Request a job, with respect to reservations if there are any."""
        name = job.application_id
        if (objection := self._objection(job_class, name)) is not None:
            return Decision((objection,))
        self._is_outdated = True
        if not self._exist:
            return self._partition.allocate(name, name, job_class.usage, duration=job_class.duration)
        return self._allocate_in_pass(name, job_class)

    def _allocate_in_pass(self, name: str, job_class: JobClass) -> Decision:
        return self._partition.allocate_in_pass(
            AllocationRequest(name, name, job_class.usage, duration=job_class.duration)
        )

    def _objection(self, job_class: JobClass, name: str) -> Violation | None:
        """Return an objection to a class that needs no more and ends no later, if it applies to a job as well."""
        duration = job_class.duration or 0
        for longest, objection in self._held_back.get(job_class.queue_path, ()):
            resource = objection.resource
            if resource is not None and duration >= longest:
                requested = job_class.usage.get(resource, 0)
                is_reserved = any(one.allocation_id == name for one in self._known)
                if requested > objection.limit - objection.used and not is_reserved:
                    return objection._replace(requested=requested)
        return None

    def hold(self, job_class: JobClass, job: Job) -> None:
        """Let a held job be pending, so that it may get a reservation."""
        if job_class.queue_path not in self._queues:
            self._note_queue(job_class.queue_path)
        name = job.application_id
        self._is_outdated = True
        self._partition.request(name, name, job_class.usage, duration=job_class.duration)

    def _note_queue(self, queue_path: str) -> None:
        self._queues.add(queue_path)
        found = (path for path in ancestors(queue_path) if self._settings.of(path).reserves)
        self._reserving.extend(path for path in found if path not in self._reserving)

    def reserve(self, job_class: JobClass) -> None:
        """Let the oldest job of a class have a reservation if only limits of queues deny it."""
        self._exist = True
        self._allocate_in_pass(job_class.held[0][1].application_id, job_class)

    def wait(self, job_class: JobClass, objection: Violation) -> None:
        """Let a class wait that a reservation holds back; it is not requested again in this round."""
        # All reserved jobs of a queue are one line of the report.
        gauge = self._gauges.of(objection._replace(name="", limit_name=""))
        job_class.awaited = gauge, objection.requested
        self._held_back.setdefault(job_class.queue_path, []).append((job_class.duration or 0, objection))
        self._set_aside.append(job_class)

    def remove(self, job_class: JobClass) -> None:
        """Let a class that was set aside wait for nothing."""
        self._set_aside.remove(job_class)

    def end_round(self) -> None:
        """Let the classes that were set aside be requested in the next round."""
        for job_class in self._set_aside:
            job_class.wait_for(*job_class.awaited)
        self._set_aside.clear()
        self._held_back.clear()

    def first_held(self) -> JobClass | None:
        """Remove and return the first class that waits for a queue and could have a reservation that is free."""
        if not self._is_outdated:
            return None
        reservations = self._partition.reservations()
        if reservations != self._known:
            self._known = reservations
            self._held_back.clear()
        taken = {path for one in reservations for path in one.queue_paths}
        self._exist = bool(taken)
        free = [path for path in self._reserving if path not in taken]
        waiting = [gauge for gauge in self._gauges.of_queues if gauge.waiting] if free else []
        found = [(first, gauge) for path in free for gauge in waiting if (first := _first_below(gauge, path))]
        self._is_outdated = bool(found)
        if not found:
            return None
        (_, position, _), gauge = min(found, key=_candidate_of)
        return gauge.waiting.remove(position)


def _candidate_of(found: tuple[Candidate, Gauge]) -> Candidate:
    # Gauges cannot be compared.
    return found[0]


def _first_below(gauge: Gauge, path: str) -> Candidate | None:
    """Return the first class that waits for a gauge of a queue, and whose queue is at or below a path."""
    limited = gauge.configured.key.queue_path
    if path in (ROOT, limited) or path in ancestors(limited):
        return gauge.waiting.first(MAX_QUANTITY)
    if limited not in ancestors(path):
        return None
    return gauge.waiting.first_if(lambda job_class: path in ancestors(job_class.queue_path))

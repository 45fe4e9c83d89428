"""The effect of preemption on guarantees, waits and lost work, as measured by a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from ugm._json_values import JsonObject
from ugm.resources import Resource

__all__ = ["GuaranteeEffect", "PreemptionReport", "VictimWork"]


class VictimWork(StrEnum):
    """The fate of the work of a victim."""

    #: The victim starts again from the beginning.
    RESTART = "restart"
    #: The victim continues where it stopped.
    CONTINUE = "continue"


@final
@dataclass(slots=True)
class GuaranteeEffect:
    """The waits of a queue with a guarantee, and how well its guarantee was met."""

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

    def to_dict(self) -> JsonObject:
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
    still_waiting: int
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

    def to_dict(self) -> JsonObject:
        """Return the report for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        guarantees = [one.to_dict() for one in self.guarantees]
        return {**values, "plans": dict(self.plans), "guarantees": guarantees, "findings": list(self.findings)}

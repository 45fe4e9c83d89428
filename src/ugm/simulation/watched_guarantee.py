"""A guarantee during a replay with preemption: since when it has been unmet, and which waiting jobs it entitles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, final

from ugm.resources import Resource
from ugm.simulation.preemption_report import GuaranteeEffect

__all__ = ["WatchedGuarantee", "add_amounts"]


class Sized(Protocol):
    """A kind of jobs."""

    @property
    def usage(self) -> Resource:
        """The usage of one job."""


Kind = TypeVar("Kind", bound=Sized)


@final
@dataclass(slots=True, eq=False)
class WatchedGuarantee(Generic[Kind]):
    """A queue with a guarantee, and its usage."""

    effect: GuaranteeEffect
    #: The usage with terminating jobs.
    used: dict[str, int] = field(default_factory=dict)
    #: The usage without terminating jobs, with that of jobs with a right to room.
    kept: dict[str, int] = field(default_factory=dict)
    #: The kinds of the waiting jobs in and below it.
    kinds: dict[Kind, None] = field(default_factory=dict)
    #: Those of them that fit into the guarantee once all plans are carried out.
    entitled: tuple[Kind, ...] = ()
    #: The time since which its guarantee has been unmet; None if it is not.
    unmet_since: int | None = None

    def update(self, now: int) -> None:
        """Record whether the guarantee is unmet after a change of the usage or of the waiting jobs."""
        self.note(now, is_unmet=any(self._fits(self.used, kind.usage) for kind in self.kinds))
        self.entitled = tuple(kind for kind in self.kinds if self.entitles(kind.usage))

    def entitles(self, usage: Resource) -> bool:
        """Return whether an amount fits into the guarantee once all plans are carried out."""
        return self._fits(self.kept, usage)

    def _fits(self, used: Mapping[str, int], usage: Resource) -> bool:
        guaranteed, requested = self.effect.guaranteed.amounts, usage.amounts
        is_within = all(used.get(name, 0) + requested.get(name, 0) <= amount for name, amount in guaranteed.items())
        return is_within and any(requested.get(name, 0) for name in guaranteed)

    def note(self, now: int, *, is_unmet: bool) -> None:
        """Note whether the guarantee is unmet from now on: a job waits that fits into it."""
        if is_unmet:
            self.unmet_since = now if self.unmet_since is None else self.unmet_since
        elif self.unmet_since is not None:
            self.effect.unmet += now - self.unmet_since
            self.unmet_since = None

    def note_start(self, now: int, since: int) -> None:
        """Note that a job starts that has been waiting since a time."""
        if self.unmet_since is not None:
            self.effect.longest_unmet = max(self.effect.longest_unmet, now - max(since, self.unmet_since))

    def count_wait(self, waited: int) -> None:
        """Count the waiting time of a job that has started for the first time."""
        self.effect.jobs += 1
        self.effect.waited += waited
        self.effect.longest_wait = max(self.effect.longest_wait, waited)


def add_amounts(total: dict[str, int], usage: Resource, sign: int) -> None:
    """Add or subtract a usage."""
    for name, amount in usage.amounts.items():
        total[name] = total.get(name, 0) + sign * amount

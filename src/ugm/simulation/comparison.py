"""A comparison of replays of one workload under several configurations or orders: who gains, and who loses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from ugm._json_values import JsonObject
from ugm.simulation.report import LimitSummary, Report, WaitingTime

__all__ = ["LimitComparison", "ReplayComparison", "Variant", "WaitingComparison"]

_NOTHING = WaitingTime.of(())


@final
@dataclass(frozen=True, slots=True)
class Variant:
    """One replay of several."""

    #: Distinguishes it from the others, for example by its order.
    name: str
    report: Report


@final
@dataclass(frozen=True, slots=True)
class WaitingComparison:
    """The waiting times of one user or group in every variant."""

    name: str
    #: In the order of the variants; without jobs if none was started.
    waits: tuple[WaitingTime, ...]

    @property
    def changes(self) -> tuple[float, ...]:
        """The difference of the mean waiting time from that of the first variant, in seconds; negative for a gain."""
        return tuple(one.mean - self.waits[0].mean for one in self.waits)

    def to_dict(self) -> JsonObject:
        """Return the comparison for JSON."""
        changes = [round(change, 3) for change in self.changes]
        return {"name": self.name, "waiting": [one.to_dict() for one in self.waits], "changes": changes}


@final
@dataclass(frozen=True, slots=True)
class LimitComparison:
    """The jobs that one limit delayed in every variant."""

    kind: str
    queue_path: str
    limit_name: str
    resource: str | None
    #: None for a variant without the limit, or in which no job was charged to it.
    limits: tuple[LimitSummary | None, ...]

    @property
    def delayed_seconds(self) -> tuple[int, ...]:
        """The seconds for which the limit delayed jobs, by variant."""
        return tuple(0 if one is None else one.delayed_seconds for one in self.limits)

    def to_dict(self) -> JsonObject:
        """Return the comparison for JSON."""
        names = {name: getattr(self, name) for name in ("queue_path", "limit_name", "resource")}
        jobs = [0 if one is None else one.delayed_jobs for one in self.limits]
        values = [None if one is None else one.limit for one in self.limits]
        delays = {"delayed_jobs": jobs, "delayed_seconds": list(self.delayed_seconds)}
        return {"kind": str(self.kind), **names, "limits": values, **delays}


@final
@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """Several replays of one workload. The first one is the reference of all changes."""

    variants: tuple[Variant, ...]

    @property
    def users(self) -> tuple[WaitingComparison, ...]:
        """The users, those whose waiting changes most in total first."""
        return self._waiting(lambda report: report.users)

    @property
    def groups(self) -> tuple[WaitingComparison, ...]:
        """The groups, sorted like the users."""
        return self._waiting(lambda report: report.groups)

    def _waiting(self, figures: Callable[[Report], Iterable[tuple[str, WaitingTime]]]) -> tuple[WaitingComparison, ...]:
        sides = [dict(figures(one.report)) for one in self.variants]
        names = {name: None for side in sides for name in side}
        found = [WaitingComparison(name, tuple(side.get(name, _NOTHING) for side in sides)) for name in names]
        return tuple(sorted(found, key=_impact))

    @property
    def limits(self) -> tuple[LimitComparison, ...]:
        """The limits that delayed jobs in any variant, those that delayed them longest in one of them first."""
        sides = [{_key(limit): limit for limit in one.report.limits} for one in self.variants]
        keys = {key: None for side in sides for key in side}
        found = [LimitComparison(*key, limits=tuple(side.get(key) for side in sides)) for key in keys]
        delaying = [one for one in found if any(one.delayed_seconds)]
        return tuple(sorted(delaying, key=lambda one: (-max(one.delayed_seconds), one.queue_path, str(one.kind))))

    def to_dict(self) -> JsonObject:
        """Return the comparison for JSON, without the reports."""
        return {
            "variants": [one.name for one in self.variants],
            "users": [one.to_dict() for one in self.users],
            "groups": [one.to_dict() for one in self.groups],
            "limits": [one.to_dict() for one in self.limits],
        }


def _impact(one: WaitingComparison) -> tuple[int, str]:
    totals: Sequence[int] = [waits.total for waits in one.waits]
    return min(totals) - max(totals), one.name


def _key(limit: LimitSummary) -> tuple[str, str, str, str | None]:
    return limit.kind, limit.queue_path, limit.limit_name, limit.resource

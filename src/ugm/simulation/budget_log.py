"""The use of budgets during a replay: who ran out in which period, and which thresholds were crossed.

The partition decides and counts. The log reads the accounts in the last second before a period ends, because they
restart in the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias, final

from ugm.decision import Violation
from ugm.identity import UserGroup
from ugm.model import BUDGET, AccountState
from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.simulation.gauges import Gauge
from ugm.simulation.player import Timeline
from ugm.simulation.report import BudgetUse, Crossing

__all__ = ["BudgetLog"]

#: The seconds of the workload between two updates of the thresholds.
_WATCHED_EVERY: Final = 3600

#: The budget, the owner and the resource of an account.
_AccountKey: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Denials:
    """The denials of one account in the current period."""

    queue_path: str
    #: The second of the first one.
    first: int
    #: The denied jobs that have arrived in this period.
    jobs: int = 0


@final
@dataclass(slots=True, eq=False)
class BudgetLog:
    """The accounts of budgets in all periods, and the crossed thresholds, of one replay."""

    partition: AbstractPartition
    timeline: Timeline
    has_budgets: bool
    has_thresholds: bool
    _uses: list[BudgetUse] = field(default_factory=list)
    _crossings: list[Crossing] = field(default_factory=list)
    _denials: dict[_AccountKey, _Denials] = field(default_factory=dict)
    _watch: ThresholdWatch = field(init=False)
    _watched_until: int = -1

    def __post_init__(self) -> None:
        self._watch = ThresholdWatch(self.partition)

    @property
    def follows_changes(self) -> bool:
        """True if the log reads the accounts or the limits when these change, also while no job waits."""
        return self.has_budgets or self.has_thresholds

    def deny(self, violations: Iterable[Violation]) -> None:
        """Note the time of a denial."""
        for one in violations:
            if one.kind == BUDGET:
                self._denials_of((one.name, one.limit_name, one.resource or ""), one.queue_path)

    def count(self, gauge: Gauge) -> None:
        """Count a job that arrives and is delayed or rejected by a limit."""
        kind, queue_path, budget, resource = gauge.configured.key
        if kind == BUDGET:
            self._denials_of((budget, gauge.name, resource or ""), queue_path).jobs += 1

    def _denials_of(self, key: _AccountKey, queue_path: str) -> _Denials:
        return self._denials.setdefault(key, _Denials(queue_path, self.timeline.now))

    def close_periods(self) -> None:
        """Record the accounts that are renewed in the next second."""
        if not self.has_budgets:
            return
        end = self.timeline.second() + 1
        for one in self._accounts():
            if one.renews == end:
                self._record(one._replace(settled=one.settled + one.rate, exhausted=None), self.timeline.now + 1)

    def watch(self) -> None:
        """Record crossed thresholds, if the hour since the last update is over."""
        now = self.timeline.now
        if not self.has_thresholds or now < self._watched_until:
            return
        self._watched_until = now + _WATCHED_EVERY
        crossed = self._watch.update()
        forecasts = {_key(one): one.exhausted for one in self._accounts()} if crossed else {}
        for each in crossed:
            exhausted = forecasts.get((each.place, each.name, each.resource or "")) if each.kind == BUDGET else None
            self._crossings.append(Crossing(now, each, self._workload_second(exhausted)))

    def finish(self) -> tuple[tuple[BudgetUse, ...], tuple[Crossing, ...]]:
        """Return all uses of budgets, and all crossings."""
        self._watched_until = -1
        self.watch()
        for one in self._accounts() if self.has_budgets else ():
            self._record(one, None)
        return tuple(sorted(self._uses, key=_rank)), tuple(self._crossings)

    def _accounts(self) -> list[AccountState]:
        """Return all accounts that exist, and those that have only denied."""
        found = list(self.partition.budget_accounts())
        known = set(map(_key, found))
        for key, denials in self._denials.items():
            if key not in known:
                # Only users without any usage have an account that is not stored.
                of_user = self.partition.budget_accounts(UserGroup(key[1]), denials.queue_path)
                found += [one for one in of_user if _key(one) == key]
        return found

    def _record(self, account: AccountState, end: int | None) -> None:
        denials = self._denials.pop(_key(account), None)
        if not account.settled and denials is None:
            return
        use = BudgetUse(
            account.budget,
            account.owner,
            account.scope.value,
            account.queue_path,
            account.resource,
            end,
            account.limit,
            account.settled,
            None if denials is None else denials.first,
            0 if denials is None else denials.jobs,
            self._workload_second(account.exhausted),
        )
        self._uses.append(use)

    def _workload_second(self, second: int | None) -> int | None:
        return None if second is None else self.timeline.second_of(second)


def _key(account: AccountState) -> _AccountKey:
    return account.budget, account.owner, account.resource


def _rank(use: BudgetUse) -> tuple[object, ...]:
    """Return a sort key: those that ran out first, then those that used most of their limit."""
    share = Fraction(use.settled) / use.limit if use.limit > 0 else Fraction(use.settled > 0)
    denied = (use.ran_out is None, use.ran_out or 0)
    return *denied, -share, use.budget, use.owner, use.resource, use.end is None, use.end or 0

"""The virtual clock of a replay, its calendar, and a log of the budgets in each period.

A `Timeline` knows the seconds at which limits change or budgets are renewed. A `BudgetLog` notes which budgets ran out
in which period. It reads the accounts in the last second before a period ends, because they restart in the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, TypeAlias, final

from ugm.budgets import Budget, Period
from ugm.budgets.budget import calendar_of
from ugm.configuration import PartitionConfig
from ugm.configuration.schedules import LAST_SECOND, NEVER
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.model import BUDGET, AccountState
from ugm.partition import AbstractPartition
from ugm.partition.answers.thresholds import used_share
from ugm.partition.config.compiled import ConfigSchedule
from ugm.simulation.gauges import Gauge
from ugm.simulation.report import BudgetUse

#: The first second that is supported: January 1 of the year 2, whose week begins in the year 1 in every time zone.
_FIRST_SECOND: Final = (date(2, 1, 1) - date(1970, 1, 1)).days * 86_400

#: The fields of a use that an account has, too.
_OF_ACCOUNT: Final = ("budget", "owner", "scope", "queue_path", "resource", "limit", "settled")
#: The budget, the owner and the resource of an account.
_AccountKey: TypeAlias = tuple[str, str, str]


@final
class Timeline:
    """The virtual clock of a replay.

    Args:
        start: the second since 1970 at which the workload starts.
        config: the configuration, whose limits may change with the time.
        budgets: the budgets, which may be renewed.

    Raises:
        RequestError: no calendar has the start.
    """

    #: The next second of the workload at which limits may change or budgets are renewed; `NEVER` or later for none.
    next_change: int

    def __init__(self, start: int, config: PartitionConfig, budgets: Sequence[Budget] = ()) -> None:
        if not _FIRST_SECOND <= start <= LAST_SECOND:
            raise RequestError("start", start, "expected a second of the years 2 to 9999")
        self.config: Final = config
        self.has_budgets: Final = bool(budgets)
        periods = {(budget.period, budget.zone) for budget in budgets if budget.period is not Period.NONE}
        self._calendars: Final = [calendar_of(period, zone) for period, zone in sorted(periods)]
        self._schedule: Final = ConfigSchedule.compile(config)
        #: Whether limits change by a schedule.
        self.is_scheduled: Final = self._schedule is not None
        self.start: Final = start
        #: In seconds since the start of the workload.
        self.now: int = 0
        self.find_next_change()

    def second(self) -> int:
        """Return the time, in seconds since 1970."""
        return min(self.start + self.now, LAST_SECOND)

    def find_next_change(self) -> None:
        """Find the first change after the current second."""
        second = self.second()
        changes = [calendar.end(calendar.index(second)) for calendar in self._calendars]
        if self._schedule is not None:
            changes.append(self._schedule.next_change(second))
        found = min(changes, default=NEVER)
        # The clock stops at the last second, so a later change never comes.
        self.next_change = NEVER if found > LAST_SECOND else found - self.start


@final
@dataclass(slots=True, eq=False)
class BudgetLog:
    """The accounts of budgets in all periods of one replay."""

    partition: AbstractPartition
    timeline: Timeline
    _uses: list[BudgetUse] = field(default_factory=list)
    #: The second of the first denial in the current period.
    _ran_out: dict[_AccountKey, int] = field(default_factory=dict)
    #: The delayed jobs that have arrived in this period.
    _delayed: Counter[_AccountKey] = field(default_factory=Counter)

    def deny(self, violations: Iterable[Violation]) -> None:
        """Note the time of a denial."""
        for one in violations:
            if one.kind == BUDGET:
                self._ran_out.setdefault((one.name, one.limit_name, one.resource or ""), self.timeline.now)

    def count(self, gauge: Gauge) -> None:
        """Count a job that arrives and is delayed by a limit."""
        kind, _, budget, resource = gauge.configured.key
        if kind == BUDGET:
            account = budget, gauge.name, resource or ""
            self._ran_out.setdefault(account, self.timeline.now)
            self._delayed[account] += 1

    def close_periods(self) -> None:
        """Record the accounts that are renewed in the next second."""
        end = self.timeline.second() + 1
        for one in self.partition.budget_accounts():
            if one.renews == end:
                self._record(one._replace(settled=one.settled + one.rate), self.timeline.now + 1)

    def finish(self) -> tuple[BudgetUse, ...]:
        """Return all uses of budgets at the end of the replay."""
        for one in self.partition.budget_accounts():
            self._record(one, None)
        return tuple(sorted(self._uses, key=_rank))

    def _record(self, account: AccountState, end: int | None) -> None:
        key = account.budget, account.owner, account.resource
        ran_out, delayed = self._ran_out.pop(key, None), self._delayed.pop(key, 0)
        if account.settled or ran_out is not None:
            of_account: dict[str, Any] = {name: getattr(account, name) for name in _OF_ACCOUNT}
            self._uses.append(BudgetUse(**of_account, end=end, ran_out=ran_out, denied_jobs=delayed))


def _rank(use: BudgetUse) -> tuple[object, ...]:
    """Return a sort key: those that ran out first, then those that used most of their limit."""
    denied, share = (use.ran_out is None, use.ran_out or 0), used_share(use.settled, use.limit)
    return *denied, -share, use.budget, use.owner, use.resource, use.end is None, use.end or 0

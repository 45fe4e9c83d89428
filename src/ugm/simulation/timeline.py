"""The clock of a replay, and the seconds at which limits change or budgets are renewed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Final, final

from ugm.budgets import Budget, Period
from ugm.budgets.calendar import calendar_of
from ugm.configuration import PartitionConfig
from ugm.configuration.schedules import LAST_SECOND, NEVER
from ugm.errors import RequestError
from ugm.partition.config.compiled import ConfigSchedule
from ugm.simulation.player import VirtualClock

__all__ = ["Timeline"]

#: The first second that is supported: January 1 of the year 2, whose week begins in the year 1 in every time zone.
_FIRST_SECOND: Final = (date(2, 1, 1) - date(1970, 1, 1)).days * 86_400


@final
class Timeline(VirtualClock):
    """The virtual clock of a replay.

    Args:
        start: the second since 1970 at which the workload starts.
        config: the configuration, whose limits may change with the time.
        budgets: the budgets, which may be renewed.

    Raises:
        RequestError: no calendar has the start.
    """

    __slots__ = ("_calendars", "_schedule", "_start", "next_change")

    #: The next second of the workload at which limits may change or budgets are renewed; `NEVER` or later for none.
    next_change: int

    def __init__(self, start: int, config: PartitionConfig, budgets: Iterable[Budget]) -> None:
        if not _FIRST_SECOND <= start <= LAST_SECOND:
            raise RequestError("start", start, "expected a second of the years 2 to 9999")
        periods = {(budget.period, budget.zone) for budget in budgets if budget.period is not Period.NONE}
        self._calendars: Final = [calendar_of(period, zone) for period, zone in sorted(periods)]
        self._schedule: Final = ConfigSchedule.compile(config)
        self._start: Final = start
        super().__init__()
        self.find_next_change()

    @property
    def is_scheduled(self) -> bool:
        """True if limits change by a schedule."""
        return self._schedule is not None

    def second(self) -> int:
        """Return the time, in seconds since 1970."""
        return min(self._start + self.now, LAST_SECOND)

    def second_of(self, now: int) -> int:
        """Return the second of the workload of a second since 1970."""
        return now - self._start

    def find_next_change(self) -> None:
        """Find the first change after the current second."""
        second = self.second()
        changes = [calendar.end(calendar.index(second)) for calendar in self._calendars]
        if self._schedule is not None:
            changes.append(self._schedule.next_change(second))
        found = min(changes, default=NEVER)
        # The clock stops at the last second, so a later change never comes.
        self.next_change = NEVER if found > LAST_SECOND else found - self._start

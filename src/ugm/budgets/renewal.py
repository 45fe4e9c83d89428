"""The renewal of a budget for one resource: the amount of each period, and the part of it that is carried over.

`RenewalTerms.close_periods` closes the periods that have ended in the history of an account and begins the current one.
Amounts are integers. If the weights of a budget are fractions, all amounts are multiplied by `RenewalTerms.scale`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from fractions import Fraction
from math import inf, lcm
from typing import Final, TypeAlias, final

from ugm.budgets.budget import Budget, BudgetMode, Carry
from ugm.budgets.calendar import Calendar, calendar_of
from ugm.model import Period

__all__ = ["History", "RenewalTerms"]


#: The past of an account: the index of the current period; the first second after it; ``spent``; the rate, which is the
#: usage per second; and what was carried over and refilled. The usage of the period up to a second is
#: ``spent + rate * second``. An account replaces the tuple as a whole, so an interruption leaves the old one or the new
#: one.
History: TypeAlias = tuple[int, int, int, int, int]


@final
class RenewalTerms:
    """The terms of a budget for one of its resources, which its accounts share.

    Args:
        budget: the budget.
        resource: the resource, or the name of the weighted sum.
        start: the second at which the budget begins.
    """

    #: The history of an account without usage, at the beginning of the budget or later.
    origin: History
    #: The amount in force.
    amount: int
    #: The seconds at which the amount has changed, and the amount from each of them on.
    schedule: tuple[tuple[int, ...], tuple[int, ...]]

    def __init__(self, budget: Budget, resource: str, start: int) -> None:
        self.budget: Final = budget
        self.resource: Final = resource
        self.scale: Final = lcm(*(weight.denominator for weight in budget.weights.values()))
        #: The resources that count, with their scaled weights.
        self.weights: Final = [
            (name, int(each * self.scale)) for name, each in (budget.weights or {resource: 1}).items()
        ]
        self.is_safe: Final = budget.mode is BudgetMode.SAFE
        self.carry: Final = budget.carry
        self.calendar: Final[Calendar] = calendar_of(budget.period, budget.zone)
        self._cap: Final = budget.cap.get(resource, 0) * self.scale
        self.begin(self.calendar.index(start), 0)
        self.restore(((start,), (budget.amounts.get(resource, 0) * self.scale,)))

    # Changes

    def begin(self, period: int, bonus: int) -> None:
        """Set the origin: the first period, and what was carried over into it."""
        self.origin = period, self.calendar.end(period), 0, 0, bonus

    def set(self, amount: int, now: int) -> None:
        """Change the amount from a second on."""
        times, amounts = self.schedule
        kept = len(times) - 1 if times[-1] == now else len(times)
        self.restore(((*times[:kept], now), (*amounts[:kept], amount * self.scale)))

    def restore(self, schedule: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        """Replace all changes of the amount."""
        self.schedule = schedule
        self.amount = schedule[1][-1]

    def continues(self, old: RenewalTerms) -> bool:
        """Return whether accounts of other terms can continue with these."""
        return _identity(self.budget) == _identity(old.budget)

    def continue_from(self, old: RenewalTerms, now: int) -> None:
        """Continue other terms. A budget with another amount changes it now."""
        # All periods up to now are closed with the old terms.
        self.origin = old.opened(now)
        self.restore(old.schedule)
        amount = self.budget.amounts[self.resource]
        if amount != old.budget.amounts[self.resource]:
            self.set(amount, now)

    # Amounts

    def _before(self, end: int) -> int:
        """Return the amount in the last second before another."""
        times, amounts = self.schedule
        return amounts[max(bisect_left(times, end) - 1, 0)]

    def wanted(self, amounts: Mapping[str, int]) -> int:
        """Return what a usage takes in each second."""
        if not self.budget.weights:
            return amounts.get(self.resource, 0)
        return sum(weight * amounts.get(name, 0) for name, weight in self.weights)

    def exact(self, scaled: int) -> int | Fraction:
        """Return the value of a scaled number."""
        value = Fraction(scaled, self.scale)
        return value.numerator if value.denominator == 1 else value

    def top(self, left: int) -> int | float:
        """Return the largest amount that may be left at a later time; infinite if everything is carried over."""
        if self.budget.period is Period.NONE or not self.amount:
            return left
        if self.carry is Carry.ALL:
            return inf
        return max(left, self.amount + (self._cap if self.carry is Carry.CAPPED else 0))

    # History

    def opened(self, now: int) -> History:
        """Return the history of an account without usage, which exists from the start of the budget."""
        return self.close_periods(self.origin, now)

    def close_periods(self, history: History, now: int) -> History:
        """Return a history with all periods closed that have ended.

        Periods without usage take the same time for any number of them.
        """
        period, end, spent, rate, bonus = history
        calendar = self.calendar
        while end <= now:
            bonus = self._carried(self._before(end) + bonus - spent - rate * end)
            period, begin = period + 1, end
            if not rate or self.carry is Carry.NONE:
                last = calendar.index(now)
                bonus = self._carried_idle(bonus, period, last)
                if last > period:
                    period, begin = last, calendar.start(last)
            spent, end = -rate * begin, calendar.end(period)
        return period, end, spent, rate, bonus

    def _carried(self, left: int) -> int:
        if self.carry is Carry.NONE or left <= 0:
            return 0
        return left if self.carry is Carry.ALL else min(left, self._cap)

    def _carried_idle(self, carry: int, first: int, last: int) -> int:
        """Return the carry-over after the periods from *first* up to *last*, without usage in them."""
        if self.carry is Carry.NONE:
            return 0
        times, _ = self.schedule
        while first < last:
            end = self.calendar.end(first)
            changed = bisect_left(times, end)
            # All periods before the one in which the amount changes next close with the same amount.
            stop = self.calendar.index(times[changed]) if changed < len(times) else last
            count = min(max(stop, first + 1), last) - first
            carry = self._carried(carry + count * self._before(end))
            first += count
        return carry


def _identity(budget: Budget) -> tuple[object, ...]:
    """Return the properties that must not change if the accounts of a budget continue."""
    return budget.name, budget.scope, budget.owner, budget.queue, budget.period, budget.zone, dict(budget.weights)

"""The denial of a claim by a budget, with the time at which waiting helps."""

from __future__ import annotations

from typing import NamedTuple, final

from ugm.budgets.calendar import calendar_of, date_text, duration_text
from ugm.decision import Violation
from ugm.model import BUDGET, Period
from ugm.resources import usage_texts

__all__ = ["BudgetViolation", "Outlook"]


class Outlook(NamedTuple):
    """The effect of waiting on a denied claim. The text is formatted on demand, because few denials are read."""

    #: Whether waiting helps.
    can_wait: bool
    #: The seconds until the last promised end, if the claim would fit without the promised allocations. It then fits in
    #: this period only if some of them end before their promised ends.
    promised: int | None = None
    #: The second at which the budget is renewed; None if it has no period.
    renews: int | None = None
    #: The time zone of the budget.
    zone: str = "UTC"

    def __str__(self) -> str:
        renewed = None if self.renews is None else date_text(calendar_of(Period.DAY, self.zone).day_of(self.renews))
        if not self.can_wait:
            return f"cannot fit, {'even after the renewal' if renewed else 'because the budget is never renewed'}"
        if self.promised is None:
            return f"never in this period; renewed on {renewed}"
        early = f"allocations end before their promised ends, the last of which is in {duration_text(self.promised)}"
        return f"fits if {early}; otherwise after the renewal on {renewed}" if renewed else f"fits only if {early}"


@final
class BudgetViolation(Violation):
    """A budget that has too little left for a claim.

    Amounts are amounts times seconds. ``name`` is the budget, ``limit_name`` the owner of the account, and ``used`` is
    the sum of settled and promised usage. ``requested`` is 0 without a promised duration. If the budget needs one, the
    other amounts are 0, too.
    """

    #: None for a claim without a duration.
    _outlook: Outlook | None

    @classmethod
    def of(
        cls,
        owner: tuple[str, str, str],
        resource: str,
        amounts: tuple[int, int, int],
        outlook: Outlook | None,
    ) -> BudgetViolation:
        """Return a violation.

        Args:
            owner: the name and the queue of the budget, and the owner of the account.
            resource: the resource.
            amounts: the limit, the used and the requested amount.
            outlook: what happens if the claim waits.
        """
        made = cls(BUDGET, *owner, resource, *amounts)
        made._outlook = outlook
        return made

    @property
    def can_wait(self) -> bool:
        """True if the claim can fit after promised allocations end early, or when the budget is renewed."""
        return self._outlook is not None and self._outlook.can_wait

    def _where(self) -> str:
        return f"{self.kind} {self.name!r} in {self.queue_path}"

    def _what(self) -> str:
        if self.resource is None or self._outlook is None:
            return f"{self.resource} requested without a promised duration"
        (requested, used, limit), unit = usage_texts(self.resource, self.requested, self.used, self.limit)
        if not self.requested:
            return f"{used} of {limit} {unit} used or promised; {self._outlook}"
        return f"{requested} {unit} requested, {used} of {limit} used or promised; {self._outlook}"

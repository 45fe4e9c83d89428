"""The rows of tables about budgets and thresholds in the report of a replay, on the terminal and in HTML."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from ugm.budgets.denial import KIND
from ugm.cli.wording import amount_of, amount_time, percent
from ugm.simulation import BudgetUse, Crossing, Report

__all__ = ["BUDGETS", "BUDGET_FIGURES", "THRESHOLDS", "budget_rows", "threshold_rows"]

#: The columns of `budget_rows`, and those with figures.
BUDGETS: Final = ("budget", "owner", "period until", "ran out", "limit", "used", "share", "denied jobs")
BUDGET_FIGURES: Final = BUDGETS[4:]
#: The columns of `threshold_rows`.
THRESHOLDS: Final = ("when", "limit", "threshold", "used", "of", "exhausted at")


def budget_rows(report: Report, text: Callable[[int], str]) -> list[tuple[str, ...]]:
    """Return the accounts of budgets in each period, those that ran out first.

    Args:
        report: the report of a replay.
        text: formats a second of the workload.
    """
    return [_budget_row(one, text) for one in report.budgets]


def _budget_row(one: BudgetUse, text: Callable[[int], str]) -> tuple[str, ...]:
    share = float(Fraction(one.settled) / one.limit) if one.limit > 0 else float(one.settled > 0)
    return (
        one.budget,
        one.owner,
        "the end" if one.end is None else text(one.end),
        "" if one.ran_out is None else text(one.ran_out),
        amount_time(one.resource, round(one.limit)) or f"0 {one.resource}",
        amount_time(one.resource, round(one.settled)) or "0",
        percent(share),
        f"{one.denied_jobs:,}" if one.denied_jobs else "",
    )


def threshold_rows(report: Report, text: Callable[[int], str]) -> list[tuple[str, ...]]:
    """Return the crossed thresholds in the order of their time; see `budget_rows`."""
    return [_threshold_row(one, text) for one in report.crossings]


def _threshold_row(one: Crossing, text: Callable[[int], str]) -> tuple[str, ...]:
    crossed = one.crossed
    amount_text = amount_time if crossed.kind == KIND else amount_of
    used, limit = (amount_text(crossed.resource, round(amount)) for amount in (crossed.used, crossed.limit))
    return (
        text(one.second),
        f"{crossed.kind} {crossed.name}" + (f" in {crossed.place}" if crossed.place != crossed.name else ""),
        f"{'at or above' if crossed.rising else 'below'} {crossed.threshold}%",
        used or "0",
        limit,
        "" if one.exhausted is None else text(one.exhausted),
    )

"""Queries that REST and the command have in common: explanations, accounts of budgets, and shares of users.

Lists are in the natural order of names (``team2`` before ``team10``), and have searches and pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from math import inf
from typing import Any, Final

from ugm.budgets import AccountState
from ugm.fairness.model import explain_shares
from ugm.partition import Admission, Explanation, ModelReport
from ugm.queues import Placement
from ugm.resources import as_float


def answer_dict(
    found: Explanation, placement: Placement | None = None, *, checks_only: bool = False
) -> dict[str, object]:
    """Return an explanation for JSON.

    Args:
        found: the explanation. Its queue is empty if no placement rule finds one.
        placement: the placement of a new application.
        checks_only: whether only the decision is returned.
    """
    has_queue = bool(found.queue_path)
    # Without a queue there is no decision.
    described = found.decision if placement is None or has_queue else Admission(placement, None)
    answer = found.decision if checks_only else found
    return {
        **answer.to_dict(),
        "queue_path": found.queue_path or None,
        "placement": None if placement is None else placement.to_dict(),
        "summary": described.summary,
        "for_people": described.for_people(),
        **({"text": str(answer)} if has_queue else {"text": str(placement), "allowed": False, "can_wait": False}),
    }


def shares_of(reports: Iterable[ModelReport]) -> ModelReport | None:
    """Return the report of the model of fair shares; None if there is none."""
    return next(_available(reports, "FairShares"), None)


def explain_shares_of(reports: Iterable[ModelReport], first: str, second: str) -> dict[str, object] | None:
    """Return the explanation of the order of two users by their shares, for JSON; None without declared shares."""
    report = shares_of(reports)
    if report is None or report.definition is None:
        return None
    return explain_shares(report.definition, report.state, first, second).to_dict()


# Accounts of budgets

#: The value by which accounts are sorted, the smallest first.
_RANKS: Final[Mapping[str, Callable[[AccountState], Any]]] = {
    "exhausted": lambda account: inf if account.exhausted is None else account.exhausted,
    "name": lambda _: 0,
    "remaining": lambda account: account.remaining,
    "share": lambda account: -account.share,
}


def account_reports(reports: Iterable[ModelReport]) -> list[ModelReport]:
    """Return the reports of the models with accounts of budgets."""
    return list(_available(reports, "Budgets"))


def accounts_of(reports: Iterable[ModelReport]) -> list[AccountState]:
    """Return the accounts in the reports of quota models."""
    return [AccountState.from_dict(one) for report in account_reports(reports) for one in report.state["accounts"]]


def listed_accounts(
    accounts: Iterable[AccountState], *, sort: str = "share", search: str = "", budget: str = "", owner: str = ""
) -> list[AccountState]:
    """Return the accounts that match, sorted; equals are sorted by name."""

    def key(one: AccountState) -> tuple[object, ...]:
        return _RANKS[sort](one), natural_key(one.budget), natural_key(one.owner), one.resource

    found = (one for one in accounts if budget in ("", one.budget) and owner in ("", one.owner))
    return sorted((one for one in found if contains(search, (one.budget, one.owner))), key=key)


def account_dict(account: AccountState) -> dict[str, object]:
    """Return an account for JSON, with the used share of its limit."""
    return {**account.to_dict(), "share": as_float(account.share)}


def _available(reports: Iterable[ModelReport], model: str) -> Iterator[ModelReport]:
    return (one for one in reports if one.model == model and not one.is_suspended)


# Lists

_DIGITS: Final = re.compile("([0-9]+)")


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a sort key that puts ``team2`` before ``team10``."""
    parts = _DIGITS.split(name.casefold())
    # Text and digits alternate. Numbers stay texts, because they may have any length; longer ones are larger.
    numbers = [part.lstrip("0") for part in parts[1::2]]
    return tuple((text, len(number), number) for text, number in zip_longest(parts[::2], numbers, fillvalue=""))


def contains(text: str, names: Iterable[str | None]) -> bool:
    """Return whether one of several names contains a text, in any case."""
    return not text or any(text.lower() in name.lower() for name in names if name is not None)


def first_page(names: Iterator[str], size: int) -> tuple[list[str], str | None]:
    """Return the names of a page, and the last of them if more names follow."""
    page = list(islice(names, size))
    return page, page[-1] if next(names, None) is not None else None

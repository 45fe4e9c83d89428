"""The remaining amounts of a user in words, for the forms in which users choose what to start."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from ugm.decision import amount_for_people
from ugm.errors import printable, time_text

if TYPE_CHECKING:
    from ugm.budgets import AccountState
    from ugm.resources import Resource

__all__ = ["remaining_text"]


def remaining_text(headroom: Resource | None, accounts: Iterable[AccountState] = ()) -> str:
    """Return what a user may still start and use, in one line; empty if nothing is limited.

    Args:
        headroom: the amounts that may be requested now; None if no resource is limited.
        accounts: the budgets that count the work of the user. Of several for one resource, the smallest rest counts.

    >>> from ugm import Resource
    >>> remaining_text(Resource(vcore=2500, memory=2**33, gpu=1))
    'You can still start: 1 GPU, 8 GiB of memory, 2.5 cores.'
    >>> remaining_text(Resource(gpu=0))
    'You can still start: 0 GPUs.'
    """
    sentences = []
    if headroom:
        amounts = ", ".join(amount_for_people(name, amount) for name, amount in sorted(headroom.items()))
        sentences.append(f"You can still start: {amounts}.")
    smallest: dict[str, AccountState] = {}
    for account in accounts:
        known = smallest.get(account.resource)
        if known is None or account.remaining < known.remaining:
            smallest[account.resource] = account
    sentences += [_budget_sentence(smallest[name]) for name in sorted(smallest)]
    return printable(" ".join(sentences))


def _budget_sentence(account: AccountState) -> str:
    rest = amount_for_people(account.resource, Fraction(max(account.remaining, 0), 3600), "hours")
    until = "" if account.renews is None else f" until {time_text(account.renews)}"
    return f"You can still use{until}: {rest}."

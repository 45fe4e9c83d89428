"""The past of accounts as plain data, and its transfer to budgets with other terms.

Only the past is saved: settled usage, carried and refilled amounts, and the amounts in force over time. The charged
claims are those of the ledger, and are charged again.
"""

from __future__ import annotations

from ugm._json_values import JsonMapping, JsonObject
from ugm.budgets.account import Account
from ugm.budgets.renewal import RenewalTerms
from ugm.budgets.table import AccountTable
from ugm.model import BudgetChange, BudgetChangeKind
from ugm.resources import Resource

__all__ = ["continue_accounts", "load", "save"]


def save(table: AccountTable, now: int) -> JsonObject:
    """Return the past of all accounts up to a second, for JSON."""
    return {
        "now": now,
        "terms": [
            [name, each.resource, each.origin[0], each.origin[-1], *map(list, each.schedule)]
            for name, terms in table.terms.items()
            for each in terms
        ],
        "accounts": [[*key, *account.past(now)] for key, account in table.stored.items()],
        "changes": [
            [change.kind, change.budget, dict(change.amounts), *change[3:]] for change in table.changes.values()
        ],
    }


def load(table: AccountTable, data: JsonMapping) -> None:
    """Bring a new table into the state that was saved, without claims.

    Raises:
        ValueError: a number is not an integer.
    """
    now = data["now"]
    terms = {(each.budget.name, each.resource): each for found in table.terms.values() for each in found}
    for name, resource, period, bonus, times, amounts in data["terms"]:
        terms[name, resource].begin(period, bonus)
        terms[name, resource].restore((tuple(times), tuple(amounts)))
    for name, owner, resource, period, settled, bonus in data["accounts"]:
        if any(type(number) is not int for number in (now, period, settled, bonus)):
            raise ValueError("a number of a budget is not an integer")
        account = Account(terms[name, resource], owner, now)
        account.resume(period, settled, bonus)
        table.stored[name, owner, resource] = account
    for kind, budget, amounts, *rest in data["changes"]:
        change = BudgetChange(BudgetChangeKind(kind), budget, Resource(amounts), *rest)
        table.changes[change.change_id] = change


def continue_accounts(table: AccountTable, old: AccountTable, now: int) -> None:
    """Continue the accounts of budgets that were replaced, without claims.

    A budget continues if its name, its owner, its queue, its period, its time zone and its weights are the same. Its
    amounts change only if those of the budget have changed, so amounts that an operator has set stay.
    """
    continued: dict[tuple[str, str], RenewalTerms] = {}
    for name, found in table.terms.items():
        before = {each.resource: each for each in old.terms.get(name, ())}
        for terms in found:
            if terms.resource in before and terms.continues(before[terms.resource]):
                terms.continue_from(before[terms.resource], now)
                continued[name, terms.resource] = terms
    for (name, owner, resource), account in old.stored.items():
        if (name, resource) in continued:
            made = Account(continued[name, resource], owner, now)
            made.resume(*account.past(now))
            table.stored[name, owner, resource] = made
    table.changes.update(old.changes)

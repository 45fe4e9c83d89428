"""All accounts of a set of budgets: their terms, the stored accounts, their past as plain data, and changes.

An account that nothing was ever charged to is not stored, because a new one is equal to it.

Only the past is saved: settled usage, carried and refilled amounts, and the amounts in force. The charged claims are
those of the ledger, and are charged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonMapping, JsonObject
from ugm.arguments import require_name
from ugm.budgets.account import Account, RenewalTerms
from ugm.budgets.budget import Budget
from ugm.errors import RequestError
from ugm.identity import WILDCARD
from ugm.model import BudgetChange, BudgetChangeKind, Scope
from ugm.resources import Resource

__all__ = ["AccountKey", "AccountTable", "PreparedChange", "continue_accounts", "has_many_accounts", "load", "save"]

#: A budget, an owner and a resource.
AccountKey: TypeAlias = tuple[str, str, str]
_Step: TypeAlias = tuple[object, str, object, object]

#: The number of changes whose ids are remembered. An operator repeats a change soon or never.
_REMEMBERED_CHANGES: Final = 10_000


class PreparedChange(NamedTuple):
    """A change that was checked and is not made yet: objects with the new and the old value of an attribute."""

    steps: tuple[_Step, ...]

    def apply(self) -> None:
        """Make the change."""
        for target, attribute, new, _ in self.steps:
            setattr(target, attribute, new)

    def undo(self) -> None:
        """Undo the change, even if only some of its steps were made."""
        for target, attribute, _, old in self.steps:
            setattr(target, attribute, old)


def has_many_accounts(budget: Budget) -> bool:
    """Return whether each user has an account of its own."""
    return budget.scope is Scope.USER and budget.owner == WILDCARD


@final
class AccountTable:
    """The accounts of some budgets.

    Args:
        budgets: the budgets.
        start: the second at which they begin.
    """

    __slots__ = ("changes", "stored", "terms")

    #: The terms of each budget by resource, sorted by name.
    terms: dict[str, dict[str, RenewalTerms]]
    #: The accounts to which something was ever charged.
    stored: dict[AccountKey, Account]
    #: The changes by their id.
    changes: dict[str, BudgetChange]

    def __init__(self, budgets: Iterable[Budget], start: int) -> None:
        self.terms = {
            budget.name: {resource: RenewalTerms(budget, resource, start) for resource in sorted(budget.amounts)}
            for budget in budgets
        }
        self.stored, self.changes = {}, {}

    def account(self, terms: RenewalTerms, owner: str, now: int, *, stored: bool = False) -> Account:
        """Return an account; if it is not stored yet, one that is equal.

        Args:
            terms: the terms.
            owner: the owner.
            now: the time, in seconds.
            stored: whether to store the account.
        """
        key = terms.budget.name, owner, terms.resource
        account = self.stored.get(key)
        if account is None:
            account = Account(terms, owner, now)
            if stored:
                self.stored[key] = account
        return account

    def owners(self, now: int) -> Mapping[str, set[str]]:
        """Return the owners of accounts by budget, without those whose accounts all equal a new one.

        So the result depends on the settled and promised usage alone. A charge that was undone, such as that of a
        denied gang, leaves a stored account that equals a new one, and a restart does not store it.
        """
        found: dict[str, set[str]] = {name: set() for name in self.terms}
        new = {terms: terms.opened(now) for each in self.terms.values() for terms in each.values()}
        for (name, owner, _), account in self.stored.items():
            if account.close_periods(now) != new[account.terms] or account.committed(now):
                found[name].add(owner)
        return found

    # Changes by an operator

    def prepare(self, change: BudgetChange, now: int) -> PreparedChange | None:
        """Return the steps of a change; None if the change of this id was made already.

        Raises:
            RequestError: there is no such budget or account, the amounts do not suit it, less remains than a transfer
                moves, or another change had this id.
        """
        known = self.changes.get(change.change_id)
        if known is not None:
            if known != change:
                raise RequestError("change_id", change.change_id, "another change had this id", "id-in-use")
            return None
        steps = list(self._steps(change, now))
        if change.change_id:
            latest = dict(list(self.changes.items())[1 - _REMEMBERED_CHANGES :])
            steps.append((self, "changes", {**latest, change.change_id: change}, self.changes))
        return PreparedChange(tuple(steps))

    def _steps(self, change: BudgetChange, now: int) -> Iterator[_Step]:
        if change.kind is BudgetChangeKind.SET:
            found = self.terms_of(change.budget)
            if change.amounts.keys() != found.keys():
                reason = f"expected an amount of each resource of the budget: {', '.join(found)}"
                raise RequestError("amounts", change.amounts, reason)
            # Periods that have ended had the amount that is replaced.
            for account in self.stored.values():
                account.close_periods(now)
            for terms in found.values():
                terms.origin = terms.opened(now)
                yield terms, "amount", change.amounts[terms.resource] * terms.scale, terms.amount
            return
        added = dict(self._amounts_of(change.budget, change.owner, change.amounts, now))
        if change.kind is BudgetChangeKind.TRANSFER:
            for account, amount in added.items():
                remaining = account.left(now) - account.committed(now)
                if remaining < amount:
                    terms = account.terms
                    reason = f"only {terms.exact(remaining)} {terms.resource} remain in {change.budget!r}"
                    raise RequestError("amounts", change.amounts, reason, "state-conflict")
            received = dict(self._amounts_of(change.recipient, change.recipient_owner, change.amounts, now))
            if {account.key for account in added} & {account.key for account in received}:
                raise RequestError("recipient", change.recipient, "an account cannot transfer to itself")
            added = {account: -amount for account, amount in added.items()} | received
        yield self, "stored", {**self.stored, **{account.key: account for account in added}}, self.stored
        for account, amount in added.items():
            yield account, "history", account.refilled(amount, now), account.history

    def terms_of(self, name: str) -> Mapping[str, RenewalTerms]:
        """Return the terms of a budget.

        Raises:
            RequestError: there is no such budget.
        """
        found = self.terms.get(require_name("budget", name))
        if found is None:
            raise RequestError("budget", name, "there is no such budget", "object-unknown")
        return found

    def _amounts_of(self, name: str, owner: str, amounts: Resource, now: int) -> Iterator[tuple[Account, int]]:
        """Yield the accounts of an owner with their amounts."""
        terms = self.terms_of(name)
        for resource, amount in amounts.items():
            if resource not in terms:
                raise RequestError("amounts", amounts, f"the budget {name!r} does not limit {resource}")
            found = terms[resource]
            yield self.account(found, _owner_of(found.budget, owner), now), amount * found.scale


def _owner_of(budget: Budget, owner: str) -> str:
    """Return the owner of an account of a budget.

    Raises:
        RequestError: the budget has no such account.
    """
    if has_many_accounts(budget):
        return require_name("owner", owner)
    if owner not in ("", budget.owner):
        raise RequestError("owner", owner, f"the budget {budget.name!r} has one account, that of {budget.owner!r}")
    return budget.owner


def save(table: AccountTable, now: int) -> JsonObject:
    """Return the past of all accounts up to a second, for JSON."""
    return {
        "now": now,
        "terms": [
            [name, resource, each.origin[0], each.origin[-1], each.amount]
            for name, terms in table.terms.items()
            for resource, each in terms.items()
        ],
        "accounts": [[*key, *account.past(now)] for key, account in table.stored.items()],
        "changes": [
            [change.kind, change.budget, dict(change.amounts), *change[3:]] for change in table.changes.values()
        ],
    }


def load(table: AccountTable, data: JsonMapping) -> None:
    """Bring a new table into the state that was saved, without claims."""
    for name, resource, period, bonus, amount in data["terms"]:
        terms = table.terms[name][resource]
        terms.begin(period, bonus)
        terms.amount = amount
    for name, owner, resource, *past in data["accounts"]:
        table.account(table.terms[name][resource], owner, data["now"], stored=True).resume(*past)
    for kind, budget, amounts, *rest in data["changes"]:
        change = BudgetChange(BudgetChangeKind(kind), budget, Resource(amounts), *rest)
        table.changes[change.change_id] = change


def continue_accounts(table: AccountTable, old: AccountTable, now: int) -> None:
    """Continue the accounts of budgets that were replaced, without claims.

    A budget continues if its name, its owner, its queue, its period, its time zone and its weights are the same. Its
    amounts change only if those of the budget have changed, so amounts that an operator has set stay.
    """
    for name, found in old.terms.items():
        for resource, before in found.items():
            terms = table.terms.get(name, {}).get(resource)
            if terms is not None and terms.continues(before):
                terms.continue_from(before, now)
    for (name, owner, resource), account in old.stored.items():
        terms = table.terms.get(name, {}).get(resource)
        if terms is not None and terms.continues(account.terms):
            table.account(terms, owner, now, stored=True).resume(*account.past(now))
    table.changes.update(old.changes)

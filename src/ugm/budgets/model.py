"""Budgets as a quota model of a partition.

The model is a table of accounts. A claim is charged to every account that covers it. The partition passes the time with
`Budgets.at` first in each of its calls. Everything else is a function of the charged claims and of time, so nothing has
to happen when a period or a promise ends. The lock of the partition is the only one: other threads read the accounts
with `ugm.Partition.budget_accounts`.

A new account begins like one that has existed without usage since the start of its budget. So an account is stored only
when something is charged to it, and queries store nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Final, final

from ugm._json_values import JsonMapping, JsonObject, to_json
from ugm.arguments import require_instances, require_user
from ugm.budgets.accounts import Account, AccountTable, BudgetViolation, PreparedAccountChange
from ugm.budgets.budget import Budget, ChainFinder, Coverage
from ugm.decision import EffectiveLimit, Exhaustion, Violation
from ugm.errors import RequestError
from ugm.identity import UserGroup, is_below
from ugm.model import BUDGET, AccountState, BudgetChange, Claim, ReportingModel, Scope
from ugm.resources import Resource, smallest_amounts

#: The number of claims whose accounts are remembered: different pairs of a user and a queue.
_REMEMBERED: Final = 100_000


@final
class Budgets(ReportingModel):
    """Budgets that take part in the admission of a partition.

    A claim must fit every account that covers it. A budget never stops anything that runs: an allocation that runs
    longer than promised continues, and its usage is settled.

    Args:
        budgets: the budgets. Violations are listed in their order.
        start: the second at which all budgets begin; None for the first call.
        elastic_groups: returns the elastic group of a claim and those above it; needed if a budget limits one.
        quota_nodes: returns the quota node of a claim and those above it; needed if a budget limits one.

    Raises:
        RequestError: an argument is invalid, or two budgets have the same name.

    >>> from ugm import Partition, parse_config
    >>> lab = Budget("lab", group="lab", amounts=Resource(gpu=7200))
    >>> config = parse_config("partitions: [{queues: [{name: prod}]}]").partition()
    >>> partition = Partition(config, models=[Budgets([lab])], clock=lambda: 0)
    >>> partition.submit("train", UserGroup("sue", ("lab",)), "root.prod").queue_path
    'root.prod'
    >>> partition.allocate("train.0", "train", Resource(gpu=1), duration=3600).allowed
    True
    >>> print(partition.allocate("train.1", "train", Resource(gpu=2), duration=3600))
    denied, waiting can help:
      budget 'lab' in root: 2 gpu-hours requested, 1 of 2 used or promised; fits only if allocations end before their promised ends, the last of which is in 1 h (limit for 'lab')
    """  # noqa: E501 - the text of a denial

    sees_nodes: Final = False

    #: The accounts by user, groups and queue, if all of them are stored.
    _by_claim: dict[tuple[str, tuple[str, ...], str], tuple[Account, ...]]
    #: The accounts of each charged claim, if they depend on more than that.
    _charged: dict[str, tuple[Account, ...]]
    #: All accounts. Before the first call, it has no budgets.
    _table: AccountTable
    _now: int
    #: None before the first call.
    _start: int | None

    def __init__(
        self,
        budgets: Iterable[Budget],
        *,
        start: int | None = None,
        elastic_groups: ChainFinder | None = None,
        quota_nodes: ChainFinder | None = None,
    ) -> None:
        given = require_instances("budgets", budgets, Budget)
        names = [budget.name for budget in given]
        if len(set(names)) < len(names):
            raise RequestError("budgets", names, "the name of a budget occurs twice")
        if start is not None and type(start) is not int:
            raise RequestError("start", start, "expected whole seconds")
        chains = {Scope.ELASTIC_GROUP: elastic_groups, Scope.QUOTA_NODE: quota_nodes}
        #: The budgets as they were passed.
        self.budgets: Final = given
        self._coverage: Final = Coverage(given, {scope: find for scope, find in chains.items() if find is not None})
        self._first: Final = start
        self.forget()

    def _begin(self, start: int) -> None:
        self._table = AccountTable(self.budgets, start)
        self._now = self._start = start

    # Called by the partition

    def at(self, now: int) -> None:
        """Note the time, in seconds. A time before the last one changes nothing."""
        if self._start is None:
            self._begin(now)
        elif now > self._now:
            self._now = now

    def check(self, claim: Claim) -> list[BudgetViolation]:
        """Return every account that has too little left for a claim."""
        amounts, until, now = claim.usage.amounts, claim.until, self._now
        denials = [account.violation(amounts, until, now) for account in self._accounts_of(claim)]
        return [denial for denial in denials if denial is not None]

    def never(self, claims: Sequence[Claim]) -> list[BudgetViolation]:
        """Return every account that never has enough for some claims together, with the sum of their promises."""
        promised: dict[tuple[str, str, str], tuple[Account, int]] = {}
        for claim in claims:
            for account in self._accounts_of(claim):
                wanted = account.terms.wanted(claim.usage.amounts)
                # A claim that has to promise its duration and does not is denied by itself.
                if wanted and not (account.terms.is_safe and claim.until is None):
                    before = promised.get(account.key, (account, 0))[1]
                    promised[account.key] = account, before + account.promise(wanted, claim.until, self._now)
        denials = [account.never(amount, self._now) for account, amount in promised.values()]
        return [denial for denial in denials if denial is not None]

    def charge(self, claim: Claim) -> None:
        """Count a claim from now on, even if nothing is left."""
        self._add(claim, 1)

    def refund(self, claim: Claim) -> None:
        """Stop counting a claim. Its past usage stays settled."""
        self._add(claim, -1)

    def _add(self, claim: Claim, sign: int) -> None:
        amounts, until, now = claim.usage.amounts, claim.until, self._now
        accounts = self._accounts_of(claim, stored=True)
        if self._coverage.depends_on_claim:
            # The owners may change while the claim is charged, for example if a group is moved.
            accounts = self._charged.pop(claim.allocation_id, accounts)
            if sign > 0:
                self._charged[claim.allocation_id] = accounts
        for account in accounts:
            wanted = account.terms.wanted(amounts)
            if wanted:
                account.add(wanted * sign, until, now)

    def reset(self) -> None:
        """Forget all claims. What they have used up to now stays settled."""
        self._charged.clear()
        for account in self._table.stored.values():
            account.stop(self._now)

    def forget(self) -> None:
        """Forget all claims and all past usage, and all changes since the start."""
        self._by_claim, self._charged, self._table = {}, {}, AccountTable((), 0)
        self._start, self._now = None, 0
        if self._first is not None:
            self._begin(self._first)

    def _accounts_of(self, claim: Claim, *, stored: bool = False) -> tuple[Account, ...]:
        """Return the accounts of a claim; if they are not *stored*, new ones that are equal."""
        user = claim.user
        key = user.name, user.groups, claim.queue_path
        known = self._by_claim.get(key)
        if known is None:
            table, now = self._table, self._now
            known = tuple(
                table.account(terms, owner, now, stored=stored)
                for budget, owner in self._coverage.owners(claim)
                for terms in table.terms.get(budget.name, {}).values()
            )
            if stored and not self._coverage.depends_on_claim:
                if len(self._by_claim) >= _REMEMBERED:
                    self._by_claim.clear()
                self._by_claim[key] = known
        return known

    # The past

    def save(self) -> JsonMapping:
        """Return the past of all accounts up to the last call, as plain data for `load`; claims are left out."""
        return {**self._table.save(self._now), "start": self._start}

    def load(self, data: JsonMapping) -> None:
        """Bring a new model with the same budgets into the state that `save` has returned, without claims."""
        self._begin(data["now"])
        self._table.load(data)
        self._start = data["start"]

    def continue_past(self, old: Budgets) -> None:
        """Continue the accounts of the budgets that this new model replaces, up to the last call; without claims.

        A budget continues if its name, its owner, its queue, its period, its time zone and its weights are the same.
        All others begin now. Amounts that an operator has set stay unless those of the budget have changed.
        """
        self._table.continue_accounts(old._table, self._now)

    # Changes by an operator

    def has_budget(self, name: str) -> bool:
        """Return whether there is a budget of this name."""
        return any(budget.name == name for budget in self.budgets)

    def prepare(self, change: BudgetChange) -> PreparedAccountChange | None:
        """Return the steps of a change at the time of the last call; None if the change of this id was made already.

        Raises:
            RequestError: there is no such budget or account, the amounts do not suit it, less remains than a transfer
                moves, or another change had this id.
        """
        if self._start is None:
            raise RequestError(
                "budget", change.budget, "the budgets have not begun; pass their start or make a call", "state-conflict"
            )
        return self._table.prepare(change, self._now)

    def change(self, change: BudgetChange) -> bool:
        """Make a change at the time of the last call, and return whether it is new.

        Raises:
            RequestError: as for `ugm.partition.AbstractPartition.change_budget`.
        """
        prepared = self.prepare(change)
        if prepared is not None:
            prepared.apply()
        return prepared is not None

    # Reports

    def accounts(self, user: UserGroup | None = None, queue_path: str | None = None) -> tuple[AccountState, ...]:
        """Return accounts at the time of the last call.

        Args:
            user: only the accounts that cover claims of this user; None for all accounts that exist.
            queue_path: only the accounts of budgets that apply in this queue; None for all queues.

        Returns:
            The accounts in the order of their budgets, then by owner and resource.
        """
        return tuple(account.state(self._now) for account in self._selected(user, queue_path))

    def _selected(self, user: UserGroup | None, queue_path: str | None) -> list[Account]:
        if user is not None:
            require_user(user)
        table, found = self._table, list[Account]()
        # All accounts are read for this.
        charged = table.owners(self._now) if user is None else {}
        for budget in self.budgets if self._start is not None else ():
            path = budget.queue if queue_path is None else queue_path.lower()
            if not is_below(path, budget.queue):
                continue
            if user is None:
                owners = charged[budget.name]
            else:
                covering = self._coverage.owners(Claim("", "", Resource(), path, user))
                owners = {owner for each, owner in covering if each is budget}
            terms = table.terms[budget.name].values()
            found += [table.account(each, owner, self._now) for owner in sorted(owners) for each in terms]
        return found

    def limits(self, claim: Claim) -> list[EffectiveLimit]:
        """Return the accounts of a claim in amounts per second: what the owner uses now, with what fits in addition."""
        found = []
        for account in self._accounts_of(claim):
            free, rate = account.free(claim.until, self._now), account.rate
            if free is not None and not account.terms.budget.weights:
                name = account.terms.resource
                found.append(self._limit(account, Resource({name: rate + free}), Resource({name: rate})))
        return found

    def headroom(self, claim: Claim) -> Resource | None:
        """Return the amounts that fit every account for the promised duration of a claim."""
        return smallest_amounts(
            (name, free // weight)
            for account in self._accounts_of(claim)
            if (free := account.free(claim.until, self._now)) is not None
            for name, weight in account.terms.weights
            if weight
        )

    def all_limits(self) -> list[EffectiveLimit]:
        """Return every account, in amounts times seconds; the usage is settled plus promised."""
        found = []
        for account in self._selected(None, None):
            state = account.state(self._now)
            used = state.settled + state.committed
            name = account.terms.resource
            amounts = Resource({name: state.limit.__floor__()}), Resource({name: used.__ceil__()})
            found.append(self._limit(account, *amounts))
        return found

    def exceeded(self) -> list[Violation]:
        """Return every account with more settled and promised usage than its limit."""
        found = []
        for one in self.accounts():
            if one.remaining < 0:
                limit, used = one.limit.__floor__(), (one.settled + one.committed).__ceil__()
                found.append(Violation(BUDGET, one.budget, one.queue_path, one.owner, one.resource, limit, used, 0))
        return found

    def exhaustions(self) -> list[Exhaustion]:
        """Return the accounts that will be used up before the next period at the current rate of use."""
        return [
            Exhaustion(BUDGET, one.budget, one.queue_path, one.owner, one.resource, one.exhausted, one.renews)
            for one in self.accounts()
            if one.exhausted is not None
        ]

    @staticmethod
    def _limit(account: Account, maximum: Resource, usage: Resource) -> EffectiveLimit:
        budget = account.terms.budget
        return EffectiveLimit(BUDGET, account.owner, budget.queue, budget.owner, budget.name, maximum, 0, usage, 0)

    def state(self) -> JsonMapping:
        """Return all accounts as plain data."""
        return {"now": self._now, "accounts": [account.to_dict() for account in self.accounts()]}

    def definition(self) -> JsonMapping:
        """Return the budgets as plain data, with their start."""
        return {"start": self._start, "budgets": [_plain(budget) for budget in self.budgets]}

    def verify(self, held: Mapping[str, Claim], pending: Mapping[str, Claim]) -> list[str]:  # noqa: ARG002 - pending claims do not count
        """Return a message for every account whose usage is not the sum of the held claims."""
        now = self._now
        expected = {key: Account(each.terms, each.owner, now) for key, each in self._table.stored.items()}
        for claim in held.values():
            charged = self._charged.get(claim.allocation_id)
            for account in self._accounts_of(claim) if charged is None else charged:
                wanted = account.terms.wanted(claim.usage.amounts)
                if wanted:
                    new = Account(account.terms, account.owner, now)
                    expected.setdefault(account.key, new).add(wanted, claim.until, now)
        return [
            f"budget {name!r}: the account of {owner!r} for {resource} counts other claims than those that are held"
            for (name, owner, resource), account in sorted(expected.items())
            if account.coefficients(now) != self._table.account(account.terms, owner, now).coefficients(now)
        ]


def _plain(budget: Budget) -> JsonObject:
    """Return a budget as plain data, without the values that are the default."""
    values = {field.name: (getattr(budget, field.name), field.default) for field in fields(budget)}
    return {name: to_json(value) for name, (value, default) in values.items() if value and value != default}

"""The accounts of budgets: their usage over time, renewals and denials; the table of all accounts, and its past.

An account counts the usage of one owner and one resource, integrated over time.

The problem: the usage of each second counts, there may be 100,000 accounts, and a period may end at any time.

The idea: between two changes the usage per second, the *rate*, is constant, so the usage up to any second is a linear
function of time. The same holds for the promised amounts, until the next promised end. So an account stores only the
coefficients of both functions, and nothing happens when time passes. A period that has ended is closed by the next
call that reads the account: `RenewalTerms.close_periods` closes the periods that have ended, carries over a part of the
amount, and begins the current one.

Amounts are integers. If the weights of a budget are fractions, all amounts are multiplied by `RenewalTerms.scale`.

Before the amount of a budget changes, the periods of all its accounts that have ended are closed. So the open period of
every account has the amount that is in force.

Invariants: the rate is the sum of the charged claims. Over the claims in `_ending`, `promised` is the sum of their
amounts, and `weighted_ends` the sum of their amounts times ends. An end that has passed leaves both sums before they
are read.

The cost: a charge finds its promised end by bisection, and moves the earlier ends within a list.

The table has the accounts of a set of budgets. An account that nothing was ever charged to is not stored, because a new
one is equal to it. Only the past is saved: settled usage, carried and refilled amounts, and the amounts in force. The
charged claims are those of the ledger, and are charged again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import inf, lcm
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonMapping, JsonObject
from ugm.budgets.budget import Budget, BudgetMode, Calendar, Carry, calendar_of, date_text, duration_text
from ugm.configuration.schedules import LAST_SECOND, NEVER
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import WILDCARD, require_name
from ugm.model import BUDGET, AccountState, BudgetChange, BudgetChangeKind, Period, Scope
from ugm.resources import Resource, usage_texts

#: The past of an account: the index of the current period; the first second after it; ``spent``; the rate, which is the
#: usage per second; and what was carried over and refilled. The usage of the period up to a second is
#: ``spent + rate * second``. An account replaces the tuple as a whole, so an interruption leaves the old one or the new
#: one.
History: TypeAlias = tuple[int, int, int, int, int]


#: The properties of a budget that must not change if its accounts continue.
_IDENTITY: Final = attrgetter("name", "scope", "owner", "queue", "period", "zone", "weights")


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
        #: The amount in force, scaled.
        self.amount: int = budget.amounts[resource] * self.scale
        self.begin(self.calendar.index(start), 0)

    # Changes

    def begin(self, period: int, bonus: int) -> None:
        """Set the origin: the first period, and what was carried over into it."""
        self.origin = period, self.calendar.end(period), 0, 0, bonus

    def continues(self, old: RenewalTerms) -> bool:
        """Return whether accounts of other terms can continue with these."""
        return _IDENTITY(self.budget) == _IDENTITY(old.budget)

    def continue_from(self, old: RenewalTerms, now: int) -> None:
        """Continue other terms. A budget with another amount changes it now."""
        # All periods up to now are closed with the old terms.
        self.origin = old.opened(now)
        if self.budget.amounts[self.resource] == old.budget.amounts[self.resource]:
            self.amount = old.amount

    # Amounts

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
            bonus = self._carried(self.amount + bonus - spent - rate * end)
            period, begin = period + 1, end
            last = calendar.index(now)
            if last > period and (not rate or self.carry is Carry.NONE):
                bonus = self._carried(bonus + (last - period) * self.amount)
                period, begin = last, calendar.start(last)
            spent, end = -rate * begin, calendar.end(period)
        return period, end, spent, rate, bonus

    def _carried(self, left: int) -> int:
        if self.carry is Carry.NONE or left <= 0:
            return 0
        return left if self.carry is Carry.ALL else min(left, self._cap)


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
    def of(cls, account: Account, amounts: tuple[int, int, int], outlook: Outlook | None) -> BudgetViolation:
        """Return a violation.

        Args:
            account: the account.
            amounts: the limit, the used and the requested amount.
            outlook: what happens if the claim waits.
        """
        budget = account.terms.budget
        made = cls(BUDGET, budget.name, budget.queue, account.owner, account.terms.resource, *amounts)
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


@final
class Account:
    """The account of one owner for one resource of a budget.

    Args:
        terms: the terms of the budget for the resource.
        owner: the owner.
        now: the time, in seconds.
    """

    __slots__ = ("_ending", "_ends", "history", "owner", "promised", "terms", "weighted_ends")

    history: History
    #: The sums of the amounts, and of amounts times ends, of the promised ends.
    promised: int
    weighted_ends: int
    #: The sum of the amounts of the claims by their promised end. No amount is 0.
    _ending: dict[int, int]
    #: The negated promised ends in ascending order, so that the first one that passes is the last element.
    _ends: list[int]

    def __init__(self, terms: RenewalTerms, owner: str, now: int) -> None:
        self.terms: Final = terms
        self.owner: Final = owner
        self.history = terms.opened(now)
        self.clear_promises()

    def clear_promises(self) -> None:
        """Forget all promised ends."""
        self.promised = self.weighted_ends = 0
        self._ends, self._ending = [], {}

    # Changes

    def add(self, wanted: int, until: int | None, now: int) -> None:
        """Count a claim from now on, or no longer if *wanted* is negative."""
        period, end, spent, rate, bonus = self.close_periods(now)
        self.history = period, end, spent - wanted * now, rate + wanted, bonus
        if until is None or until <= now:
            return
        self.promised += wanted
        self.weighted_ends += wanted * until
        if until not in self._ending:
            insort(self._ends, -until)
        amount = self._ending[until] = self._ending.get(until, 0) + wanted
        if not amount:
            del self._ending[until]
            del self._ends[bisect_left(self._ends, -until)]

    def refilled(self, amount: int, now: int) -> History:
        """Return the history with a higher limit of the current period."""
        period, end, spent, rate, bonus = self.close_periods(now)
        return period, end, spent, rate, bonus + amount

    def stop(self, now: int) -> None:
        """Forget all claims; what they have used stays settled."""
        self.resume(*self.past(now))

    def past(self, now: int) -> tuple[int, int, int]:
        """Return the period, the settled usage, and what was carried over and refilled, for `resume`."""
        period, _, spent, rate, bonus = self.close_periods(now)
        return period, spent + rate * now, bonus

    def resume(self, period: int, settled: int, bonus: int) -> None:
        """Continue the past of an equal account, without claims."""
        self.history = period, self.terms.calendar.end(period), settled, 0, bonus
        self.clear_promises()

    # Reading

    def close_periods(self, now: int) -> History:
        """Close all periods that have ended, and return the history."""
        history = self.history
        if history[1] <= now:
            history = self.history = self.terms.close_periods(history, now)
        return history

    def _limit_and_end(self) -> tuple[int, int]:
        """Return the limit of the current period, and its end."""
        _, end, _, _, bonus = self.history
        return self.terms.amount + bonus, end

    @property
    def key(self) -> tuple[str, str, str]:
        """The budget, the owner and the resource."""
        return self.terms.budget.name, self.owner, self.terms.resource

    @property
    def rate(self) -> int:
        """The usage per second."""
        return self.history[3]

    def left(self, now: int) -> int:
        """Return the limit less the settled usage."""
        _, _, spent, rate, bonus = self.close_periods(now)
        return self.terms.amount + bonus - spent - rate * now

    def committed(self, now: int) -> int:
        """Return the amounts promised from now on."""
        while self._ends and -self._ends[-1] <= now:
            until = -self._ends.pop()
            amount = self._ending.pop(until)
            self.promised -= amount
            self.weighted_ends -= amount * until
        return self.weighted_ends - self.promised * now

    def violation(self, amounts: Mapping[str, int], until: int | None, now: int) -> BudgetViolation | None:
        """Return the denial of a claim; None if the account has enough for it.

        Args:
            amounts: the usage of the claim.
            until: its promised end; None for none.
            now: the time.
        """
        wanted = self.terms.wanted(amounts)
        if not wanted:
            return None
        if self.terms.is_safe and until is None:
            return BudgetViolation.of(self, (0, 0, 0), None)
        left, requested = self.left(now), self.promise(wanted, until, now)
        if left > 0 and (not self.terms.is_safe or requested + self.committed(now) <= left):
            return None
        return self._denial(requested, left, now)

    # Denials

    @staticmethod
    def promise(wanted: int, until: int | None, now: int) -> int:
        """Return what a claim promises to use from now on; 0 if it promises nothing."""
        return 0 if until is None or until <= now else wanted * (until - now)

    def never(self, promised: int, now: int) -> BudgetViolation | None:
        """Return the denial of claims with a sum of promises that cannot fit in any period; None if they can."""
        denial = self._denial(promised, self.left(now), now)
        return None if denial.can_wait else denial

    def _denial(self, requested: int, left: int, now: int) -> BudgetViolation:
        terms = self.terms
        scale, top = terms.scale, terms.top(left)
        limit, end = self._limit_and_end()
        # Rounded so that no denial looks as if the request fitted.
        used = -(-(limit - left + self.committed(now)) // scale)
        amounts = limit // scale, used, -(-requested // scale)
        fits_without = self.promised > 0 and left > 0 and requested <= left
        outlook = Outlook(
            top > 0 and (not terms.is_safe or requested <= top),
            -self._ends[0] - now if fits_without else None,
            None if end == NEVER else end,
            terms.budget.zone,
        )
        return BudgetViolation.of(self, amounts, outlook)

    # Reports

    def state(self, now: int) -> AccountState:
        """Return the account at a given time."""
        left, committed, exact = self.left(now), self.committed(now), self.terms.exact
        limit, end = self._limit_and_end()
        budget = self.terms.budget
        return AccountState(
            budget.name,
            self.owner,
            self.terms.resource,
            exact(limit),
            exact(limit - left),
            exact(committed),
            exact(left - committed),
            None if end == NEVER else end,
            self._exhausted(left, now),
            budget.scope,
            budget.queue,
            budget.period,
            exact(self.rate),
        )

    def _exhausted(self, left: int, now: int) -> int | None:
        _, end, _, rate, _ = self.history
        if left <= 0:
            return now
        at = now - (-left // rate) if rate else NEVER
        return at if at < end and at <= LAST_SECOND else None

    def free(self, until: int | None, now: int) -> int | None:
        """Return the largest amount per second that fits; None if the amount does not matter."""
        left = self.left(now)
        if not self.terms.is_safe:
            return None if left > 0 else 0
        if until is None or left <= 0:
            return 0
        # An overrun commits nothing.
        return max(left - self.committed(now), 0) // (until - now) if until > now else None

    def coefficients(self, now: int) -> tuple[int, int, int]:
        """Return the rate, and the coefficients of the promised amounts, both from the charged claims."""
        self.committed(now)
        return self.rate, self.promised, self.weighted_ends


# All accounts

#: A budget, an owner and a resource.
AccountKey: TypeAlias = tuple[str, str, str]
_Step: TypeAlias = tuple[object, str, object, object]

#: The number of changes whose ids are remembered. An operator repeats a change soon or never.
_REMEMBERED_CHANGES: Final = 10_000


class PreparedAccountChange(NamedTuple):
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


@final
class AccountTable:
    """The accounts of some budgets.

    Args:
        budgets: the budgets.
        start: the second at which they begin.
    """

    __slots__ = ("_budgets", "changes", "stored", "terms")

    #: The terms of each budget by resource, sorted by name.
    terms: dict[str, dict[str, RenewalTerms]]
    #: The accounts to which something was ever charged.
    stored: dict[AccountKey, Account]
    #: The changes by their id.
    changes: dict[str, BudgetChange]

    def __init__(self, budgets: Sequence[Budget], start: int) -> None:
        self._budgets: Final = budgets
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
        """Return the owners of accounts by budget, without users whose accounts all equal a new one.

        So the result depends on the settled and promised usage alone. A charge that was undone, such as that of a
        denied gang, leaves a stored account that equals a new one, and a restart does not store it.
        """
        found = {one.name: set[str]() if _has_many_accounts(one) else {one.owner} for one in self._budgets}
        new = {terms: terms.opened(now) for each in self.terms.values() for terms in each.values()}
        for (name, owner, _), account in self.stored.items():
            if account.close_periods(now) != new[account.terms] or account.committed(now):
                found[name].add(owner)
        return found

    # Changes by an operator

    def prepare(self, change: BudgetChange, now: int) -> PreparedAccountChange | None:
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
        return PreparedAccountChange(tuple(steps))

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

    # The past

    def save(self, now: int) -> JsonObject:
        """Return the past of all accounts up to a second, for JSON."""
        return {
            "now": now,
            "terms": [
                [name, resource, each.origin[0], each.origin[-1], each.amount]
                for name, terms in self.terms.items()
                for resource, each in terms.items()
            ],
            "accounts": [[*key, *account.past(now)] for key, account in self.stored.items()],
            "changes": [
                [change.kind, change.budget, dict(change.amounts), *change[3:]] for change in self.changes.values()
            ],
        }

    def load(self, data: JsonMapping) -> None:
        """Bring a new table into the state that was saved, without claims."""
        for name, resource, period, bonus, amount in data["terms"]:
            terms = self.terms[name][resource]
            terms.begin(period, bonus)
            terms.amount = amount
        for name, owner, resource, *past in data["accounts"]:
            self.account(self.terms[name][resource], owner, data["now"], stored=True).resume(*past)
        for kind, budget, amounts, *rest in data["changes"]:
            change = BudgetChange(BudgetChangeKind(kind), budget, Resource(amounts), *rest)
            self.changes[change.change_id] = change

    def continue_accounts(self, old: AccountTable, now: int) -> None:
        """Continue the accounts of budgets that were replaced, without claims.

        A budget continues if its name, its owner, its queue, its period, its time zone and its weights are the same.
        Its amounts change only if those of the budget have changed, so amounts that an operator has set stay.
        """
        for name, found in old.terms.items():
            for resource, before in found.items():
                terms = self.terms.get(name, {}).get(resource)
                if terms is not None and terms.continues(before):
                    terms.continue_from(before, now)
        for (name, owner, resource), account in old.stored.items():
            terms = self.terms.get(name, {}).get(resource)
            if terms is not None and terms.continues(account.terms):
                self.account(terms, owner, now, stored=True).resume(*account.past(now))
        self.changes.update(old.changes)


def _owner_of(budget: Budget, owner: str) -> str:
    """Return the owner of an account of a budget.

    Raises:
        RequestError: the budget has no such account.
    """
    if _has_many_accounts(budget):
        return require_name("owner", owner)
    if owner not in ("", budget.owner):
        raise RequestError("owner", owner, f"the budget {budget.name!r} has one account, that of {budget.owner!r}")
    return budget.owner


def _has_many_accounts(budget: Budget) -> bool:
    """Return whether each user has an account of its own."""
    return budget.scope is Scope.USER and budget.owner == WILDCARD

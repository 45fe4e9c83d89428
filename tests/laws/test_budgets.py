"""Laws of budgets: usage is the exact integral of what is held, whatever is read, and in any order within a second."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from ugm import Resource, UserGroup
from ugm.budgets import AccountState, Budget, BudgetMode, Budgets, Carry, Period
from ugm.budgets.budget import calendar_of
from ugm.model import Claim

laws: Final = settings(max_examples=examples(40))

DAY = 86_400
START = 1_798_500_000
SUE, BEN = UserGroup("sue", ("lab",)), UserGroup("ben")


class Run(NamedTuple):
    """A claim that is charged between two seconds."""

    begin: int
    end: int
    amount: int
    promised: int | None


def runs() -> st.SearchStrategy[list[Run]]:
    """Draw runs over some days."""
    seconds = st.integers(0, 5 * DAY) | st.sampled_from([0, DAY - START % DAY, DAY, 2 * DAY])

    def run(begin: int, lasts: int, amount: int, promised: int | None) -> Run:
        return Run(START + begin, START + begin + lasts, amount, promised)

    promises = st.none() | st.integers(1, 3 * DAY)
    return st.lists(st.builds(run, seconds, seconds, st.integers(0, 5), promises), max_size=6)


def budgets_of() -> st.SearchStrategy[Budget]:
    """Draw a budget of cores for everybody."""

    def budget(amount: int, period: Period, carry: Carry, cap: int, zone: str, mode: BudgetMode) -> Budget:
        carried = Carry.NONE if period is Period.NONE else carry
        most = Resource(vcore=cap) if carried is Carry.CAPPED else Resource()
        amounts = Resource(vcore=amount)
        return Budget("b", amounts=amounts, period=period, carry=carried, cap=most, zone=zone, mode=mode)

    return st.builds(
        budget,
        st.integers(0, 3 * DAY),
        st.sampled_from(Period),
        st.sampled_from(Carry),
        st.integers(0, 2 * DAY),
        st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]),
        st.sampled_from(BudgetMode),
    )


def claim_of(number: int, run: Run, user: UserGroup = SUE) -> Claim:
    """Return the claim of a run."""
    until = None if run.promised is None else run.begin + run.promised
    return Claim(f"a-{number}", "app", Resource(vcore=run.amount), "root.a", user, until=until)


def events_of(history: list[Run]) -> list[tuple[int, str, Claim]]:
    """Return the charges and refunds of runs, by time."""
    found = []
    for number, run in enumerate(history):
        found += [(run.begin, "charge", claim_of(number, run)), (run.end, "refund", claim_of(number, run))]
    return sorted(found, key=lambda event: (event[0], event[1]))


def play(model: Budgets, events: list[tuple[int, str, Claim]], reads: list[int], until: int) -> AccountState:
    """Apply all events up to a second, with some reads in between, and return the account."""
    due: list[tuple[int, str, Any]] = [event for event in events if event[0] <= until]
    due += [(at, "check", claim_of(99, Run(at, at + 1, 1, 60))) for at in reads if at <= until]
    for at, method, claim in sorted(due, key=lambda event: event[0]):
        model.at(at)
        getattr(model, method)(claim)
    model.at(until)
    (account,) = model.accounts()
    return account


def expected(budget: Budget, history: list[Run], now: int) -> tuple[int, int, int]:
    """Return the limit, the settled and the committed amount, computed from the whole history."""
    calendar, carry = calendar_of(budget.period, budget.zone), 0
    amount, cap = budget.amounts["vcore"], budget.cap.get("vcore", 0)
    begin, current = START, calendar.index(START)
    while calendar.end(current) <= now:
        end = calendar.end(current)
        left = amount + carry - used(history, begin, end)
        most = {Carry.NONE: 0, Carry.ALL: left, Carry.CAPPED: min(left, cap)}[budget.carry]
        begin, current, carry = end, current + 1, max(0, most)
    committed = sum(
        run.amount * max(run.begin + run.promised - now, 0)
        for run in history
        if run.promised is not None and run.begin <= now < run.end
    )
    return amount + carry, used(history, begin, now), committed


def used(history: list[Run], begin: int, end: int) -> int:
    """Return the usage of some runs between two seconds."""
    return sum(run.amount * max(0, min(run.end, end) - max(run.begin, begin)) for run in history)


@laws
@given(budgets_of(), runs(), st.lists(st.integers(START, START + 6 * DAY), max_size=5), st.integers(0, 40 * DAY))
def test_an_account_is_the_integral_of_what_was_charged(
    budget: Budget, history: list[Run], reads: list[int], later: int
) -> None:
    """Limit, settled and committed amounts are exact, whatever was read before."""
    now = START + later
    found = play(Budgets([budget], start=START), events_of(history), reads, now)

    limit, settled, committed = expected(budget, history, now)
    assert (found.limit, found.settled, found.committed) == (limit, settled, committed)
    assert found.remaining == limit - settled - committed


@laws
@given(budgets_of(), runs(), st.randoms(use_true_random=False), st.integers(0, 6 * DAY))
def test_the_order_within_a_second_does_not_matter(
    budget: Budget, history: list[Run], random: Random, later: int
) -> None:
    """Charges and refunds of one second may come in any order that releases what is held."""
    events = [event for event in events_of(history) if event[0] <= START + later]
    shuffled = list(events)
    random.shuffle(shuffled)
    # A claim is charged before it is refunded.
    shuffled.sort(key=lambda event: (event[0], event[1] == "refund"))

    now = START + later
    assert play(Budgets([budget], start=START), shuffled, [], now) == play(
        Budgets([budget], start=START), events, [], now
    ) or any(run.begin == run.end for run in history)


@laws
@given(budgets_of(), runs(), st.integers(0, 6 * DAY), st.data())
def test_a_reset_keeps_what_is_settled(budget: Budget, history: list[Run], later: int, data: st.DataObject) -> None:
    """After a reset, charging the same claims again restores the account."""
    now, model = START + later, Budgets([budget], start=START)
    before = play(model, events_of(history), [], now)
    held = [claim_of(number, run) for number, run in enumerate(history) if run.begin <= now < run.end]
    model.reset()
    for claim in data.draw(st.permutations(held)):
        model.charge(claim)

    assert model.accounts() == (before,)
    assert not model.verify({claim.allocation_id: claim for claim in held}, {})

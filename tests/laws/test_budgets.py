"""Laws of budgets: usage is the exact integral of what is held, whatever is read, and in any order within a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.budgets import AccountState, Budget, BudgetChange, BudgetMode, Budgets, Carry, Period
from ugm.budgets.calendar import calendar_of
from ugm.model import Claim

laws: Final = settings(max_examples=examples(40))

DAY = 86_400
START = 1_798_500_000
SUE, BEN = UserGroup("sue", ("lab",)), UserGroup("ben")
CONFIG = parse_config("partitions: [{queues: [{name: a}]}]").partition()


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
@given(budgets_of(), runs(), st.integers(0, 6 * DAY), st.integers(1, 2 * DAY))
def test_a_clock_that_goes_back_changes_nothing(budget: Budget, history: list[Run], later: int, back: int) -> None:
    """The time stands still until it has caught up."""
    now, model = START + later, Budgets([budget], start=START)
    before = play(model, events_of(history), [], now)
    model.at(now - back)

    assert model.accounts() == (before,)


@laws
@given(budgets_of(), runs(), st.integers(0, 6 * DAY), st.integers(0, 3 * DAY))
def test_remaining_does_not_rise_by_itself(budget: Budget, history: list[Run], later: int, more: int) -> None:
    """Without a release, it rises only when a period begins."""
    now, model = START + later, Budgets([budget], start=START)
    before = play(model, events_of(history), [], now)
    model.at(now + more)
    (after,) = model.accounts()

    assert after.remaining <= before.remaining or after.renews != before.renews


@laws
@given(budgets_of(), runs(), st.integers(0, 6 * DAY))
def test_what_fits_the_headroom_fits_the_budget(budget: Budget, history: list[Run], later: int) -> None:
    """Everything within the headroom for a duration is allowed, and a unit more is not."""
    now, model = START + later, Budgets([budget], start=START)
    play(model, events_of(history), [], now)
    query = Claim("", "app", Resource(), "root.a", BEN, until=now + 60)
    free = model.headroom(query)
    if free is None:
        assert budget.mode is BudgetMode.ADMIT
        return

    assert not model.check(query._replace(usage=free))
    assert model.check(query._replace(usage=free + Resource(vcore=1)))


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


def _operations(partition: Partition, data: st.DataObject) -> Iterator[None]:
    for number in range(data.draw(st.integers(1, 12))):
        size, duration = Resource(vcore=data.draw(st.integers(0, 3))), data.draw(st.none() | st.integers(1, DAY))
        match data.draw(st.sampled_from(["allocate", "adopt", "release", "resize", "preempt"])):
            case "allocate":
                partition.allocate(f"a-{number}", "app", size, duration=duration)
            case "adopt":
                partition.adopt(f"a-{number}", "app", size, duration=duration)
            case "release":
                partition.release(f"a-{data.draw(st.integers(0, number))}")
            case "preempt":
                partition.preempt(f"a-{data.draw(st.integers(0, number))}")
            case "resize" if partition.allocation_ids():
                partition.resize(data.draw(st.sampled_from(partition.allocation_ids())), size)
        yield


@laws
@given(budgets_of(), st.data())
def test_settled_usage_is_that_of_the_ledger(budget: Budget, data: st.DataObject) -> None:
    """Second by second, what is settled is the sum of what the ledger holds, in a whole partition."""
    now, model = START, Budgets([budget])
    partition = Partition(CONFIG, models=[model], clock=lambda: now)
    partition.submit("app", SUE, "root.a")
    settled, renews = 0, model.accounts()[0].renews if model.accounts() else None
    for _ in _operations(partition, data):
        partition.verify()
        (account,) = model.accounts()
        if account.renews != renews:
            settled, renews = account.settled, account.renews  # type: ignore[assignment] # no weights
        assert account.settled == settled
        held = sum(one.usage["vcore"] for one in partition.allocations())
        step = data.draw(st.integers(0, 100))
        settled += held * step
        now += step


@pytest.mark.parametrize("carry", [Carry.ALL, Carry.CAPPED])
def test_amounts_that_change_while_an_account_is_idle(carry: Carry) -> None:
    """An account that nobody has read carries over what was in force at the end of each period."""
    cap = Resource(vcore=35) if carry is Carry.CAPPED else Resource()
    budget = Budget("b", user="*", amounts=Resource(vcore=10), period=Period.DAY, carry=carry, cap=cap)
    model = Budgets([budget], start=0)
    seen = Claim("1", "app", Resource(vcore=0), "root.a", SUE)
    for day, amount in ((3, 20), (3, 5), (5, 0), (9, 7)):
        model.at(day * DAY)
        model.set("b", Resource(vcore=amount))
        model.charge(seen)
        model.refund(seen)
        model.check(seen)
    model.at(11 * DAY)

    # 3 days of 10, 2 of 5, 4 of nothing, 2 of 7.
    carried = 54 if carry is Carry.ALL else 35
    assert [one.limit for user in (SUE, BEN) for one in model.accounts(user)] == [carried + 7] * 2


class Machine:
    """A partition with a budget for everybody and one of Sue, which executes drawn operations."""

    def __init__(self, budget: Budget) -> None:
        self.now = START
        self.model = Budgets([budget, replace(budget, name="sue", user="sue")])
        self.partition = Partition(CONFIG, models=[self.model], clock=lambda: self.now)
        self.partition.submit("app", SUE, "root.a")

    def accounts(self) -> tuple[AccountState, AccountState]:
        """Return the account of everybody and that of Sue, now."""
        self.partition.verify()
        everybody, sue = self.model.accounts()
        return everybody, sue

    def committed(self) -> int:
        """Return what is promised from now on, computed from the allocations."""
        held = self.partition.allocations()
        return sum(one.usage["vcore"] * max(one.until - self.now, 0) for one in held if one.until is not None)

    def run(self, data: st.DataObject, number: int) -> tuple[str, int]:
        """Execute an operation, and return its name and the amount that it added to a budget or moved."""
        partition, name = self.partition, f"a-{number}"
        size, duration = Resource(vcore=data.draw(st.integers(0, 3))), data.draw(st.integers(1, DAY))
        known, other = (data.draw(st.sampled_from(partition.allocation_ids() or ("none",))) for _ in range(2))
        amounts = Resource(vcore=data.draw(st.integers(0, 2 * DAY)))
        options: Any = {"duration": duration, "placeholder": data.draw(st.booleans())}
        calls: dict[str, Callable[[], object]] = {
            "allocate": lambda: partition.allocate(name, "app", size, **options),
            "adopt": lambda: partition.adopt(name, "app", size, **options),
            "request": lambda: partition.request(name, "app", size, duration=duration),
            "check": lambda: partition.check("app", size, duration=duration),
            "expire": partition.expire,
            "wait": lambda: self.wait(data.draw(st.integers(0, 2 * DAY))),
            "release": lambda: partition.release(known),
            "resize": lambda: partition.resize(known, size),
            # The other allocation may be pending, with a duration of its own.
            "replace": lambda: partition.replace(known, data.draw(st.sampled_from([other, name])), size),
            "renew": lambda: partition.renew(known, duration),
            "set": lambda: partition.change_budget(BudgetChange.set("b", amounts)),
            "refill": lambda: partition.change_budget(BudgetChange.refill("b", amounts)),
            "transfer": lambda: partition.change_budget(BudgetChange.transfer("b", "sue", amounts)),
        }
        call = data.draw(st.sampled_from(sorted(calls)))
        # An allocation may be pending, terminating or unknown, and less may remain than is moved.
        try:
            calls[call]()
        except RequestError:
            return call, 0
        return call, amounts["vcore"]

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.now += seconds


@laws
@given(budgets_of(), st.data())
def test_what_may_raise_remaining(budget: Budget, data: st.DataObject) -> None:
    """Remaining rises only by these operations, and by what they leave unpromised, add or move.

    They are a release; a resize, a replacement or a renewal that takes less; a period change; a refill, a transfer and
    a new amount.
    """
    machine = Machine(budget)
    before, promised = machine.accounts(), machine.committed()
    for number in range(data.draw(st.integers(1, 15))):
        call, moved = machine.run(data, number)
        after, still_promised = machine.accounts(), machine.committed()
        if call == "wait":
            assert all(
                new.remaining <= old.remaining or new.renews != old.renews
                for old, new in zip(before, after, strict=True)
            )
        else:
            added = {"refill": (moved, 0), "transfer": (-moved, moved)}.get(call, (0, 0))
            if call == "set":
                added = after[0].limit - before[0].limit, 0  # type: ignore[assignment] # no weights
            freed = promised - still_promised
            assert freed <= 0 or call in ("release", "resize", "replace", "renew")
            assert [new.remaining - old.remaining for old, new in zip(before, after, strict=True)] == [
                freed + more for more in added
            ]
        before, promised = after, still_promised


@laws
@given(budgets_of(), st.data())
def test_growth_never_raises_remaining(budget: Budget, data: st.DataObject) -> None:
    """A resize to more and a renewal to a later end leave less, and one to the same leaves what there was."""
    machine = Machine(budget)
    amount, duration = data.draw(st.integers(0, 3)), data.draw(st.integers(1, DAY))
    machine.partition.adopt("a", "app", Resource(vcore=amount), duration=duration)
    before = machine.accounts()[0].remaining
    machine.partition.resize("a", Resource(vcore=amount + data.draw(st.integers(0, 3))))
    grown = machine.accounts()[0].remaining
    machine.partition.renew("a", duration + data.draw(st.integers(0, DAY)))

    assert machine.accounts()[0].remaining <= grown <= before


@laws
@given(budgets_of(), st.data())
def test_a_budget_never_stops_anything(budget: Budget, data: st.DataObject) -> None:
    """Allocations end only by a release, whatever the budget has left, and also if it is lowered to nothing."""
    machine = Machine(budget)
    held: set[str] = set()
    for number in range(data.draw(st.integers(1, 15))):
        machine.run(data, number)
        now = set(machine.partition.allocation_ids())
        assert len(held - now) <= 1
        held = now
    machine.model.set("b", Resource(vcore=0))
    machine.now += data.draw(st.integers(0, 40 * DAY))
    machine.partition.expire()
    machine.accounts()

    assert set(machine.partition.allocation_ids()) == held

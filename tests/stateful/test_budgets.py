"""A whole partition with everything that depends on the time, compared with a model that integrates each second.

It has budgets, limits that change by a schedule, promised ends, and a store that is reopened.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.examples import examples
from ugm import RequestError, Resource, UserGroup
from ugm.budgets import BudgetChange
from ugm.configuration import (
    BudgetConfig,
    Extensions,
    LimitConfig,
    LimitExtensions,
    PartitionConfig,
    QueueConfig,
    ScheduledLimit,
)
from ugm.store import open_partition

DAY: Final = 86_400
#: Some minutes before midnight in UTC.
START: Final = 1_795_435_200 + DAY // 2 - 300
USERS: Final = {
    name: UserGroup(name, groups) for name, groups in (("sue", ("lab",)), ("ben", ("ops", "lab")), ("eve", ()))
}
QUEUES: Final = {"sue": "root.a", "ben": "root.b", "eve": "root.a"}


def gpu(amount: int) -> Resource:
    """Return some GPUs."""
    return Resource(gpu=amount)


#: The first and the last minute after midnight of the night, in which another limit applies.
NIGHT: Final = (-3, 4)


def declaring(*budgets: BudgetConfig, most: int = 9, night: int = 0) -> PartitionConfig:
    """Return a configuration with some budgets, and limits of each user.

    Args:
        budgets: the budgets.
        most: the maximum of GPUs.
        night: the maximum in the night; 0 for the same.
    """
    begin, end = (f"{minute // 60 % 24:02}:{minute % 60:02}" for minute in (24 * 60 + NIGHT[0], NIGHT[1]))
    schedule = (ScheduledLimit(hours=f"{begin}-{end}", max_resources=gpu(night)),) if night else ()
    limits = (LimitConfig(users=("*",), max_resources=gpu(most), ugm=LimitExtensions(schedule=schedule)),)
    return PartitionConfig(queues=(QueueConfig("a"), QueueConfig("b")), limits=limits, ugm=Extensions(budgets=budgets))


EACH: Final = BudgetConfig("each", user="*", amounts=gpu(900), period="day", carry="capped", cap=gpu(150))
LAB: Final = BudgetConfig("lab", group="lab", amounts=gpu(2000), period="day", carry="all")
REST: Final = BudgetConfig("rest", queue="root.a", amounts=gpu(1500), mode="admit")
CONFIGS: Final = (
    declaring(EACH, LAB, REST, night=4),
    declaring(LAB, replace(EACH, amounts=gpu(500), carry="none", cap=Resource()), most=5, night=9),
    declaring(replace(REST, queue="root.b"), replace(LAB, mode="admit"), EACH),
    declaring(EACH, most=4, night=2),
)


class Held(NamedTuple):
    """A running allocation."""

    user: str
    amount: int
    until: int | None
    terminates: bool = False


@dataclass
class NaiveAccount:
    """An account that is integrated second by second."""

    amount: int
    settled: int = 0
    bonus: int = 0


@dataclass
class NaiveBudgets:
    """All accounts, by budget and owner."""

    now: int
    config: PartitionConfig = field(default_factory=PartitionConfig)
    accounts: dict[tuple[str, str], NaiveAccount] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)

    def budget(self, name: str) -> BudgetConfig:
        """Return a budget by name."""
        return next(one for one in self.config.ugm.budgets if one.name == name)

    def configure(self, config: PartitionConfig) -> None:
        """Continue budgets with the same owner, queue and period, and begin the others."""
        old, before = {one.name: one for one in self.config.ugm.budgets}, self.accounts
        self.config, self.accounts = config, {}
        for one in config.ugm.budgets:
            was = old.get(one.name)
            continues = was is not None and (was.queue, was.period) == (one.queue, one.period)
            for owner in USERS if one.user else [one.group or one.queue]:
                account = before[one.name, owner] if continues else NaiveAccount(one.amounts["gpu"])
                if was is not None and continues and was.amounts != one.amounts:
                    account.amount = one.amounts["gpu"]
                self.accounts[one.name, owner] = account

    def covering(self, user: str) -> list[tuple[BudgetConfig, str]]:
        """Return the budgets that count the claims of a user, with the owners of their accounts."""
        found = []
        for one in self.config.ugm.budgets:
            if one.user:
                found.append((one, user))
            elif one.group in USERS[user].groups:
                found.append((one, one.group))
            elif not one.group and QUEUES[user] == one.queue:
                found.append((one, one.queue))
        return found

    def advance(self, now: int) -> None:
        """Integrate each second up to now."""
        while self.now < now:
            for held in self.held.values():
                for one, owner in self.covering(held.user):
                    self.accounts[one.name, owner].settled += held.amount
            self.now += 1
            if self.now % DAY == 0:
                self.renew()

    def renew(self) -> None:
        """Begin a day."""
        for (name, _), account in self.accounts.items():
            budget = self.budget(name)
            if budget.period == "day":
                left = max(account.amount + account.bonus - account.settled, 0)
                carried = {"none": 0, "all": left, "capped": min(left, budget.cap.get("gpu", 0))}
                account.bonus, account.settled = carried[budget.carry], 0

    def committed(self, name: str, owner: str) -> int:
        """Return what the claims of an account have promised."""
        return sum(
            held.amount * max((held.until or 0) - self.now, 0)
            for held in self.held.values()
            if any((one.name, to) == (name, owner) for one, to in self.covering(held.user))
        )

    def allows(self, user: str, amount: int, until: int | None) -> bool:
        """Return whether the limit and all accounts allow a claim. A claim for nothing is within every limit."""
        return self.admits(user, amount, until) and (not amount or self.used(user) + amount <= self.limit())

    def admits(self, user: str, amount: int, until: int | None) -> bool:
        """Return whether all accounts have enough left for a claim."""
        for one, owner in self.covering(user) if amount else ():
            account = self.accounts[one.name, owner]
            left = account.amount + account.bonus - account.settled
            if left <= 0 or (one.mode == "safe" and until is None):
                return False
            if one.mode == "safe" and amount * max((until or 0) - self.now, 0) + self.committed(one.name, owner) > left:
                return False
        return True

    def limit(self) -> int:
        """Return the limit of each user now."""
        [limit] = self.config.limits
        minute = (self.now // 60 + DAY // 120) % (DAY // 60) - DAY // 120
        is_night = NIGHT[0] <= minute < NIGHT[1]
        found = limit.ugm.schedule[0].max_resources if limit.ugm.schedule and is_night else limit.max_resources
        return found["gpu"] if found is not None else 0

    def used(self, user: str) -> int:
        """Return the usage of a user."""
        return sum(held.amount for held in self.held.values() if held.user == user)

    def overdue(self) -> list[str]:
        """Return the allocations whose promised end has come, by end and id."""
        ends = {
            name: held.until for name, held in self.held.items() if held.until is not None and held.until <= self.now
        }
        return sorted(ends, key=lambda name: (ends[name], name))


class BudgetMachine(RuleBasedStateMachine):
    """Changes a partition and the naive model in the same way."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path, self.clock, self.naive = Path(self.folder.name) / "j", START * 1000, NaiveBudgets(START)
        self.changes = 0

    @initialize(config=st.sampled_from(CONFIGS))
    def begin(self, config: PartitionConfig) -> None:
        """Open the store."""
        self.partition = open_partition(self.path, config, clock=lambda: self.clock / 1000)
        self.naive.configure(config)
        for name, user in USERS.items():
            self.partition.submit(name, user, QUEUES[name])

    @rule(milliseconds=st.sampled_from([1, 999, 1000, 30_000, 200_000]), idle=st.integers(0, 40))
    def wait(self, milliseconds: int, idle: int) -> None:
        """Let time pass; rarely a day."""
        self.clock += milliseconds if idle else DAY * 1000
        self.naive.advance(self.clock // 1000)

    @rule(
        name=st.integers(0, 9),
        user=st.sampled_from(list(USERS)),
        amount=st.integers(0, 4),
        duration=st.sampled_from([None, 1, 60, 300, 700]),
    )
    def allocate(self, name: int, user: str, amount: int, duration: int | None) -> None:
        """A claim is granted exactly if the naive model allows it."""
        if str(name) not in self.naive.held:
            until = None if duration is None else self.naive.now + duration
            expected = self.naive.allows(user, amount, until)
            decision = self.partition.allocate(str(name), user, gpu(amount), duration=duration)
            assert decision.allowed is expected, decision
            if expected:
                self.naive.held[str(name)] = Held(user, amount, until)

    @rule(name=st.integers(0, 9), amount=st.integers(0, 4))
    def resize(self, name: int, amount: int) -> None:
        """A resize that takes more is checked without what was held before."""
        held = self.naive.held.pop(str(name), None)
        if held is not None:
            expected = amount <= held.amount or self.naive.allows(held.user, amount, held.until)
            decision = self.partition.resize(str(name), gpu(amount))
            assert decision.allowed is expected, decision
            self.naive.held[str(name)] = held._replace(amount=amount) if expected else held

    @rule(name=st.integers(0, 9), duration=st.sampled_from([1, 60, 700]))
    def renew(self, name: int, duration: int) -> None:
        """A renewal moves the promised end; only a later end is checked, and only by budgets: the amount stays."""
        held = self.naive.held.pop(str(name), None)
        if held is not None and held.terminates:
            with pytest.raises(RequestError, match="terminating"):
                self.partition.renew(str(name), duration)
            self.naive.held[str(name)] = held
        elif held is not None:
            until = self.naive.now + duration
            decision = self.partition.renew(str(name), duration)
            expected = held.until is not None and until <= held.until
            assert decision.allowed is (expected or self.naive.admits(held.user, held.amount, until)), decision
            self.naive.held[str(name)] = held._replace(until=until) if decision else held

    @rule(name=st.integers(0, 9))
    def release(self, name: int) -> None:
        """A release stops the use."""
        known = self.naive.held.pop(str(name), None)
        assert self.partition.release(str(name)) is (known is not None)

    @rule(releases=st.booleans())
    def expire(self, releases: bool) -> None:  # noqa: FBT001 - drawn
        """Overdue allocations go on until they are released; each is marked once."""
        overdue = self.naive.overdue()
        if releases:
            assert self.partition.release_overdue() == tuple(overdue)
            for name in overdue:
                del self.naive.held[name]
            return
        marked = [name for name in overdue if not self.naive.held[name].terminates]
        assert self.partition.expire() == tuple(marked)
        for name in marked:
            self.naive.held[name] = self.naive.held[name]._replace(terminates=True)

    @rule(config=st.sampled_from(CONFIGS), planned=st.booleans())
    def configure(self, config: PartitionConfig, planned: bool) -> None:  # noqa: FBT001 - drawn
        """Limits and budgets change together."""
        plan = self.partition.plan(config)
        if planned:
            self.partition.apply(plan, confirm=True)
        else:
            self.partition.configure(config)
        self.naive.configure(config)
        assert self.partition.exceeded_limits() == plan.exceeded

    @rule(budget=st.sampled_from(["each", "lab", "rest"]), amount=st.integers(0, 2000), repeats=st.booleans())
    def set_amount(self, budget: str, amount: int, repeats: bool) -> None:  # noqa: FBT001 - drawn
        """New amounts apply at once."""
        for account, _ in self._change(BudgetChange.set(budget, gpu(amount)), budget, repeats=repeats):
            account.amount = amount

    @rule(budget=st.sampled_from(["each", "lab", "rest"]), amount=st.integers(0, 500), repeats=st.booleans())
    def refill(self, budget: str, amount: int, repeats: bool) -> None:  # noqa: FBT001 - drawn
        """A refill raises the limit of one account in this period."""
        owner = "sue" if budget == "each" else ""
        made = BudgetChange.refill(budget, gpu(amount), owner=owner, reason="more")
        for account, found in self._change(made, budget, repeats=repeats):
            account.bonus += amount if found == owner or not owner else 0

    def _change(self, change: BudgetChange, name: str, *, repeats: bool) -> list[tuple[NaiveAccount, str]]:
        """Make a change, and return the accounts of its budget with their owners."""
        self.changes += 1
        made = change._replace(change_id=f"{self.changes}")
        accounts = [(account, owner) for (budget, owner), account in self.naive.accounts.items() if budget == name]
        try:
            assert self.partition.change_budget(made)
            assert not (repeats and self.partition.change_budget(made))
        except RequestError:
            assert not accounts
        return accounts

    @precondition(lambda self: len(self.naive.config.ugm.budgets) > 1)
    @rule(amount=st.integers(0, 500), recipient=st.sampled_from(["ben", "eve"]))
    def transfer(self, amount: int, recipient: str) -> None:
        """A transfer moves what remains, and nothing else."""
        source = self.naive.accounts["each", "sue"]
        remaining = source.amount + source.bonus - source.settled - self.naive.committed("each", "sue")
        try:
            self.partition.change_budget(
                BudgetChange.transfer("each", "each", gpu(amount), source_owner="sue", recipient_owner=recipient)
            )
        except RequestError:
            assert remaining < amount
        else:
            assert remaining >= amount
            source.bonus -= amount
            self.naive.accounts["each", recipient].bonus += amount

    @rule(milliseconds=st.integers(1, 100_000))
    def set_clock_back(self, milliseconds: int) -> None:
        """A clock that goes back changes nothing."""
        now, before = self.clock, self.partition.budget_accounts()
        self.clock -= milliseconds
        assert self.partition.budget_accounts() == before
        self.clock = now

    @rule()
    def restart(self) -> None:
        """A restart changes nothing."""
        self.partition.close()
        self.partition = open_partition(self.path, clock=lambda: self.clock / 1000)

    @invariant()
    def accounts_agree(self) -> None:
        """Every account has the limit, the settled and the promised usage of the naive model."""
        if not hasattr(self, "partition"):
            return
        self.partition.verify()
        found = {}
        for user, group in USERS.items():
            for one in self.partition.budget_accounts(group, QUEUES[user]):
                found[one.budget, one.owner] = (one.limit, one.settled, one.committed)
        expected = {
            key: (account.amount + account.bonus, account.settled, self.naive.committed(*key))
            for key, account in self.naive.accounts.items()
        }
        assert found == expected

    @invariant()
    def ledgers_agree(self) -> None:
        """The same allocations are held and overdue, and a duration that fits the headroom is allowed."""
        if not hasattr(self, "partition"):
            return
        assert {one.allocation_id for one in self.partition.allocations()} == set(self.naive.held)
        assert [one.allocation_id for one in self.partition.overdue()] == self.naive.overdue()
        for user in USERS:
            free = self.partition.headroom(user, duration=60)
            assert free is not None
            until = self.naive.now + 60
            assert free["gpu"] <= 0 or self.naive.allows(user, free["gpu"], until)
            assert not self.naive.allows(user, max(free["gpu"], 0) + 1, until)

    def teardown(self) -> None:
        """Close the store."""
        if hasattr(self, "partition"):
            self.partition.close()
        self.folder.cleanup()


TestBudgetMachine = BudgetMachine.TestCase
TestBudgetMachine.settings = settings(max_examples=examples(20), stateful_step_count=25, deadline=None)

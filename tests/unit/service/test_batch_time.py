"""The time of a service: the changes of a batch have one instant, so that a restart repeats them at their time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ugm import Resource, UserGroup
from ugm.budgets import AccountState, Budgets
from ugm.configuration import BudgetConfig, Extensions, FairShareConfig, PartitionConfig, QueueConfig
from ugm.journal import open_partition
from ugm.journal.declared_past import DeclaredPast
from ugm.journal.follower import Follower
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate
from ugm.journal.opening import open_log
from ugm.operation_lock import OperationLock
from ugm.partition import AbstractPartition
from ugm.service.engine import Engine, EngineSettings, build_engine

BUDGET = BudgetConfig("each", user="*", amounts=Resource(gpu=10**6), period="day", mode="admit")
CONFIG = PartitionConfig(queues=(QueueConfig("a"),), ugm=Extensions(budgets=(BUDGET,)))
WITHOUT = PartitionConfig(queues=(QueueConfig("a"),))
START = 1_795_435_200_000


class Clock:
    """A clock that is set, in milliseconds."""

    now = START

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now / 1000


async def act(engine: Engine, clock: Clock, draw: Random, changes: int, *, declares: bool = False) -> None:
    """Make changes and queries at different times, in batches of different sizes.

    With *declares*, the budget comes and goes.
    """
    partition = engine.partition
    partition.submit("app", UserGroup("sue"), "root.a")
    for number in range(changes):
        clock.now += draw.choice((0, 400, 999, 1000, 70_000))
        if draw.random() < 0.3:
            partition.budget_accounts()
        if declares and draw.random() < 0.2:
            partition.configure(draw.choice((CONFIG, WITHOUT)))
        if draw.random() < 0.4:
            partition.release(f"a-{draw.randrange(number + 1)}")
        else:
            assert partition.allocate(f"a-{number}", "app", Resource(gpu=draw.randrange(3)), duration=100)
        if draw.random() < 0.3:
            engine.committer.request()
            await asyncio.sleep(0.002)


async def serve(path: Path, clock: Clock, draw: Random) -> tuple[AccountState, ...]:
    """Lead a log for some changes, and return the accounts at the end."""
    opened = open_log(log_at(path), Candidate(), OperationLock(), clock=clock)
    engine = build_engine(EngineSettings(CONFIG, None, (), "always"), opened, None, lambda: None)
    await act(engine, clock, draw, 40)
    await engine.committer.finish()
    accounts = engine.partition.budget_accounts()
    opened.journal.close()
    return accounts


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_repeats_changes_at_their_time(tmp_path: Path, seed: int) -> None:
    """However the changes were committed, the accounts are the same after a restart."""
    clock = Clock()
    before = asyncio.run(serve(tmp_path / "j", clock, Random(seed)))

    with open_partition(tmp_path / "j", clock=clock) as partition:
        assert partition.budget_accounts() == before
        assert before[0].settled > 0


@pytest.mark.parametrize("seed", range(12))
def test_a_follower_repeats_batches(tmp_path: Path, seed: int) -> None:
    """A budget that is declared in the middle of a batch counts what was held before, and what follows in the batch."""
    clock, draw, log = Clock(), Random(seed), log_at(tmp_path / "j")

    async def lead() -> None:
        opened = open_log(log, Candidate(), OperationLock(), clock=clock)
        engine = build_engine(EngineSettings(WITHOUT, None, (), "always"), opened, None, lambda: None)
        await act(engine, clock, draw, 30, declares=True)
        engine.partition.configure(CONFIG)
        await engine.committer.finish()
        opened.journal.close()

    follower = Follower(log)
    asyncio.run(lead())
    with log.open_contents() as contents:
        [expected] = DeclaredPast.of(contents).models
    taken = follower.lead(Candidate(), clock=clock)
    taken.journal.close()

    [found] = taken.declared
    assert isinstance(found.model, Budgets)
    assert isinstance(expected.model, Budgets)
    assert found.model.save() == expected.model.save()
    assert found.model.accounts() == expected.model.accounts()


async def committed(engine: Engine) -> None:
    """Wait until all changes are durable."""
    engine.committer.request()
    is_durable = asyncio.Event()
    engine.committer.when_durable(is_durable.set)
    await is_durable.wait()


def test_a_change_happens_at_its_own_time(tmp_path: Path) -> None:
    """The first change after a pause does not have the time of the change before."""

    async def lead() -> int | None:
        clock = Clock()
        opened = open_log(log_at(tmp_path / "j"), Candidate(), OperationLock(), clock=clock)
        engine = build_engine(EngineSettings(CONFIG, None, (), "always"), opened, None, lambda: None)
        engine.partition.submit("app", UserGroup("sue"), "root.a")
        await committed(engine)
        clock.now += 3_600_000
        engine.partition.allocate("a-0", "app", Resource(gpu=1), duration=60)
        allocation = engine.partition.allocation("a-0")
        await engine.committer.finish()
        opened.journal.close()
        return allocation and allocation.until

    assert asyncio.run(lead()) == START // 1000 + 3660


@pytest.mark.parametrize("is_declared_late", [False, True])
def test_the_operations_of_a_batch(tmp_path: Path, *, is_declared_late: bool) -> None:
    """The account of a user is that of its last application, also if several operations are one change."""
    shares = FairShareConfig(default_shares=1, accounts={"ops": "2", "lab": "3"}, weights={"gpu": "1"}, half_life=3600)
    config = replace(WITHOUT, ugm=Extensions(fair_share=shares))

    def accounts(partition: AbstractPartition) -> list[str]:
        [report] = partition.model_reports()
        return [user["path"] for user in report.state["users"]]

    async def lead() -> None:
        opened = open_log(log_at(tmp_path / "j"), Candidate(), OperationLock(), clock=Clock())
        first = WITHOUT if is_declared_late else config
        engine = build_engine(EngineSettings(first, None, (), "always"), opened, None, lambda: None)
        partition = engine.partition
        for application, group in (("one", "ops"), ("two", "lab")):
            partition.submit(application, UserGroup("sue", (group,)), "root.a")
        partition.allocate("x", "one", Resource(gpu=1))
        await committed(engine)
        if is_declared_late:
            partition.configure(config)
            partition.allocate("y", "two", Resource(gpu=1))
        else:
            partition.release("x")
            partition.allocate("x", "two", Resource(gpu=1))
        await engine.committer.finish()
        assert accounts(partition) == ["lab/sue"]
        opened.journal.close()

    asyncio.run(lead())
    with open_partition(tmp_path / "j") as partition:
        assert accounts(partition) == ["lab/sue"]

"""A process that stands by does not end because of one failure."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import sqlite3
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from support.logs import own_records
from support.partition_fixtures import SUE, memory
from support.service_fixtures import CONFIG, eventually, running, started
from ugm.budgets import Budget, BudgetMode, Budgets
from ugm.configuration import BudgetConfig, Extensions
from ugm.decision import Violation
from ugm.journal import JournalDamagedError, open_partition
from ugm.journal.contents import JournalContents, open_contents
from ugm.journal.file_log import FileLog
from ugm.journal.follower import Follower
from ugm.journal.locations import log_at
from ugm.model import Claim, QuotaModel
from ugm.partition.model_set import ModelSet
from ugm.service import ProtocolError, Service, connect
from ugm.service.engine import restore_models


def test_unexpected_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An error that is not one of the log is logged once, and the process tries again."""
    attempts = count()
    poll = Follower.poll

    def fail_twice(follower: Follower, **options: Any) -> int:  # noqa: ANN401 - passed on
        if next(attempts) < 2:
            raise ValueError("of another kind")
        return poll(follower, **options)

    monkeypatch.setattr(Follower, "poll", fail_twice)
    with (
        caplog.at_level(logging.WARNING, "ugm.service.service"),
        running(tmp_path, journal="j") as service,
        started(service) as partition,
    ):
        assert partition.application_ids() == ("app",)
    assert [record.exc_info is not None for record in own_records(caplog)] == [True]


def own_budget() -> Budgets:
    """Return a model of a program that depends on the past."""
    return Budgets([Budget("own", amounts=memory(10**9), mode=BudgetMode.ADMIT)])


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_fault_while_a_process_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_declared: bool
) -> None:
    """A log that cannot be read for a moment does not end a process. For declared budgets it is not even read."""
    budget = BudgetConfig("own", amounts=memory(10**6), unit="hour", period="week", mode="admit")
    config = replace(CONFIG, ugm=Extensions(budgets=(budget,))) if is_declared else CONFIG
    leader, standby = (
        Service(
            tmp_path / "j",
            f"unix:{tmp_path / name}",
            config=config,
            models=() if is_declared else [own_budget()],
        )
        for name in ("leader", "standby")
    )
    leader.start()
    standby.start()
    attempts = count()

    def fail_twice(log: FileLog) -> AbstractContextManager[JournalContents]:
        if next(attempts) < 2:
            raise OSError(errno.EMFILE, "too many open files")
        return open_contents(log.location)

    with connect(f"unix:{tmp_path / 'leader'},unix:{tmp_path / 'standby'}") as partition:
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("a", "app", memory(7))
        eventually(lambda: leader.status().standbys)
        monkeypatch.setattr(FileLog, "open_contents", fail_twice)
        leader.stop()
        assert partition.allocate("b", "app", memory(1))
        assert [account.rate for account in partition.budget_accounts()] == [memory(8)["memory"]]
    standby.stop()
    assert standby.failure is None
    assert (next(attempts) == 0) is is_declared


def test_a_leader_restores_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the models are restored, the record of the leader is renewed, so that nobody replaces it."""
    log = log_at(tmp_path / "j")

    def restore_slowly(*arguments: Any) -> ModelSet:  # noqa: ANN401 - passed on
        record = log.find_leader()
        assert record is not None
        for _ in range(3):
            before = record
            eventually(lambda: log.find_leader() != before)  # noqa: B023 - called at once
            record = log.find_leader()
        return restore_models(*arguments)

    monkeypatch.setattr("ugm.service.service.restore_models", restore_slowly)
    with running(tmp_path, journal="j") as service, started(service) as partition:
        assert partition.application_ids() == ("app",)


def damage(journal: Path, number: int) -> None:
    """Damage a change of a journal."""
    with closing(sqlite3.connect(journal)) as connection:
        [data] = connection.execute("SELECT data FROM changes WHERE number = ?", (number,)).fetchone()
        connection.execute("UPDATE changes SET data = ? WHERE number = ?", (data[:-1] + b"?", number))
        connection.commit()


def test_a_service_of_a_damaged_log(tmp_path: Path) -> None:
    """It does not start. A subscription that needs a damaged change of a running leader ends."""
    with running(tmp_path, journal="j") as service, started(service) as partition:
        for number in range(5):
            partition.allocate(f"a-{number}", "app", memory(1))
        damage(tmp_path / "j", 5)
        with pytest.raises(ProtocolError, match="change 5 is damaged") as caught:
            partition.subscribe(lambda _, __: None, after=0).wait(60)
        assert caught.value.problem == "damaged"
        assert partition.allocate("later", "app", memory(1))

    with pytest.raises(JournalDamagedError, match="change 5 is damaged"):
        Service(tmp_path / "j", f"unix:{tmp_path / 's'}").start()


class Broken(QuotaModel):
    """A model with a bug."""

    def check(self, claim: Claim) -> tuple[Violation, ...]:  # noqa: ARG002 - of the interface
        """Deny nothing."""
        return ()

    def charge(self, claim: Claim) -> None:
        """Fail."""
        raise KeyError(claim.allocation_id)

    def refund(self, claim: Claim) -> None:
        """Do nothing."""


def test_errors_of_the_program_end_a_start(tmp_path: Path) -> None:
    """An error of a quota model or of `on_ready` does not pass, so it is not tried again."""
    with open_partition(tmp_path / "j", CONFIG) as partition:
        partition.submit("app", SUE, "root.a")
        partition.allocate("a", "app", memory(1))
    service = Service(tmp_path / "j", f"unix:{tmp_path / 's'}", models=[Broken()])
    with pytest.raises(KeyError, match="a"):
        service.start()

    def fail() -> None:
        raise ValueError("of the program")

    service = Service(tmp_path / "j", f"unix:{tmp_path / 's'}")
    with pytest.raises(ValueError, match="of the program"):
        asyncio.run(service.serve(fail))
    assert (service.term, service.engine) == (0, None)
    with open_partition(tmp_path / "j"):
        pass


@pytest.mark.parametrize("moment", ["lead", "_try_to_lead"])
def test_a_process_that_is_cancelled_while_it_begins_to_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It gives the log back."""
    owner = Follower if moment == "lead" else Service
    has_led, may_return = Event(), Event()
    execute = getattr(owner, moment)

    def wait(*arguments: Any, **options: Any) -> object:  # noqa: ANN401 - passed on
        result = execute(*arguments, **options)
        has_led.set()
        may_return.wait(60)
        return result

    monkeypatch.setattr(owner, moment, wait)

    async def serve() -> None:
        task = asyncio.create_task(Service(tmp_path / "j", f"unix:{tmp_path / 's'}", config=CONFIG).serve())
        await asyncio.to_thread(has_led.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        may_return.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    # The collector would free the log, too.
    gc.disable()
    try:
        asyncio.run(serve())
        assert not [thread.name for thread in enumerate_threads() if "journal" in thread.name]
        with open_partition(tmp_path / "j"):
            pass
    finally:
        gc.enable()

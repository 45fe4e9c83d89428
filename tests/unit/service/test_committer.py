"""The committer passes every change to the log, whenever it renews the record of the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import enumerate as enumerate_threads
from time import sleep
from typing import Any

import pytest

from support.partition_fixtures import SUE, config, memory
from support.service_fixtures import eventually, running, started
from ugm import RequestError
from ugm.journal import open_partition
from ugm.journal.errors import DeposedError, JournalError
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate
from ugm.journal.opening import open_log
from ugm.operation_lock import OperationLock
from ugm.service.batch_log import Batch, BatchLog
from ugm.service.committer import Committer
from ugm.service.engine import Engine, EngineSettings, build_engine


def with_engine(path: Path, work: Callable[[Engine], None]) -> None:
    """Run a function in the loop of a leader, and end the leader."""

    async def run() -> None:
        opened = open_log(log_at(path), Candidate("name", "unix:/x"), OperationLock())
        engine = build_engine(EngineSettings(config("{name: a}"), (), (), "always"), opened, None, lambda: None)
        work(engine)
        await engine.committer.finish()
        opened.journal.close()

    asyncio.run(run())


def test_renewal_keeps_changes_that_gather(tmp_path: Path) -> None:
    """Changes that were decided before a renewal, in the same iteration of the loop, are written."""

    def work(engine: Engine) -> None:
        engine.partition.submit("app", SUE, "root.a")
        engine.committer._confirmed_at = 0.0
        engine.committer._renew()

    with_engine(tmp_path / "j", work)
    with open_partition(tmp_path / "j") as partition:
        assert partition.application_ids() == ("app",)


@pytest.mark.parametrize("failure", [DeposedError("j", 2), JournalError("j", "the disk is full")])
def test_threads_do_not_wait_for_a_leader_that_has_ended(failure: JournalError, tmp_path: Path) -> None:
    """A thread of the leader whose change gathers gets an error if the change is never written."""

    def work(engine: Engine) -> None:
        future = pool.submit(engine.partition.submit, "app", SUE, "root.a")
        # The loop does not run meanwhile, so nothing is committed.
        while not engine.committer.log.gathering.rows or not future.running():
            sleep(0.001)
        engine.committer.outage = failure
        futures.append(future)

    futures: list[Future[Any]] = []
    with ThreadPoolExecutor(1) as pool:
        with_engine(tmp_path / "j", work)
        caught = futures[0].exception(timeout=10)
    assert type(caught) is type(failure)
    assert str(caught) == str(failure)


def test_no_heartbeat_without_an_engine(tmp_path: Path) -> None:
    """If the engine cannot be built, the record of the leader is not renewed any more."""

    async def run() -> None:
        opened = open_log(log_at(tmp_path / "j"), Candidate("name", "unix:/x"), OperationLock())
        wrong: Any = object()
        with pytest.raises(RequestError):
            build_engine(EngineSettings(None, (wrong,), (), "always"), opened, None, lambda: None)
        opened.journal.close()

    asyncio.run(run())
    eventually(lambda: not [thread for thread in enumerate_threads() if thread.name == "ugm heartbeat"])


def test_late_changes_are_refused(tmp_path: Path) -> None:
    """After the leader has ended, its partition accepts no change."""
    engines: list[Engine] = []
    with_engine(tmp_path / "j", engines.append)
    with pytest.raises(JournalError, match="does not lead any more"):
        engines[0].partition.submit("app", SUE, "root.a")


def test_batch_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that cannot pass a batch to the log leads again from the log, and the client gets its answer."""
    faults = 1
    encoded = Batch.encoded

    def fail_once(batch: Batch) -> bytes:
        nonlocal faults
        if faults and b"the change" in encoded(batch):
            faults -= 1
            raise MemoryError
        return encoded(batch)

    monkeypatch.setattr(Batch, "encoded", fail_once)
    with running(tmp_path, journal="j") as service, started(service) as partition:
        assert partition.allocate("the change", "app", memory(1))
        assert (faults, service.term) == (0, 2)
        assert partition.allocation_ids() == ("the change",)


def test_late_wait_for_a_lost_change(tmp_path: Path) -> None:
    """A thread that begins to wait for its change after the leader has ended does not take it for durable."""

    def work(engine: Engine) -> None:
        log = engine.committer.log
        pool.submit(engine.partition.submit, "app", SUE, "root.a")
        while not log.gathering.rows:
            sleep(0.001)
        changes.append(log.take().last_change)
        engine.committer.outage = JournalError("j", "the disk is full")
        logs.append(log)

    changes: list[int] = []
    logs: list[BatchLog] = []
    with ThreadPoolExecutor(1) as pool:
        with_engine(tmp_path / "j", work)
        with pytest.raises(JournalError, match="the disk is full"):
            pool.submit(logs[0].wait, changes[0], 0).result(timeout=10)


@pytest.mark.parametrize("name", ["_commit", "_end", "_finish", "_write"])
def test_fault_in_the_committer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever an error stops a commit, the process leads again, and each change is made once."""
    method, faults = getattr(Committer, name), 0

    def fail(committer: Committer, *arguments: object) -> None:
        nonlocal faults
        if faults:
            faults -= 1
            raise MemoryError
        method(committer, *arguments)

    monkeypatch.setattr(Committer, name, fail)
    with running(tmp_path, journal="j") as service, started(service) as partition:
        for number in range(3):
            faults = 1
            assert partition.allocate(f"a-{number}", "app", memory(1))
            assert faults == 0
        assert service.term > 1
        assert partition.allocation_ids() == ("a-0", "a-1", "a-2")
        partition.verify()


def test_cancelled_end(tmp_path: Path) -> None:
    """If the end of a leader is cancelled, no thread waits for ever."""

    async def run() -> None:
        opened = open_log(log_at(tmp_path / "j"), Candidate("name", "unix:/x"), OperationLock())
        engine = build_engine(EngineSettings(config("{name: a}"), (), (), "always"), opened, None, lambda: None)
        engine.committer.log.take()
        future = pool.submit(engine.partition.submit, "app", SUE, "root.a")
        # The loop does not run meanwhile.
        while not engine.committer.log.gathering.rows:
            sleep(0.001)  # noqa: ASYNC251
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.committer.finish(), 0.1)
        assert type(future.exception(timeout=10)) is JournalError
        opened.journal.close()

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(run())

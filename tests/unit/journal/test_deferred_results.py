"""Deferred results: futures, tasks, and failures while they are pending."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from support.journal_fixtures import at_most, begin
from support.partition_fixtures import memory
from support.random_changes import state_of
from ugm import Decision, Partition, RequestError, Resource
from ugm.journal import JournaledPartition, JournalError, open_partition, transaction_log
from ugm.journal.ack_marker import AckMarker


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_closing_delivers_deferred_results(path: Path) -> None:
    """Closing the journal delivers all deferred results first."""
    partition = begin(path, durability="group")
    promises = [partition.promise(partition.allocate, f"a{i}", "app", Resource()) for i in range(500)]
    partition.journal.close()

    assert all(promise.done() and promise.result() for promise in promises)
    with open_partition(path) as again:
        assert len(again.allocations()) == 500


def test_closing_in_a_callback(path: Path) -> None:
    """A callback may close the journal; the callbacks after it are called as well."""
    partition = begin(path, durability="group")
    promise = partition.promise(partition.allocate, "a", "app", Resource())
    promise.add_done_callback(lambda _: partition.journal.close())
    late = partition.promise(partition.allocate, "b", "app", Resource())
    answer = late.exception(timeout=60)
    promise.result(timeout=60)
    while not partition.journal.is_closed:
        pass

    assert answer is None or str(answer) == f"journal {path}: it has been closed"
    open_until_free(path).journal.close()


def open_until_free(path: Path) -> JournaledPartition:
    """Open a journal that another thread is closing."""
    for _ in range(1000):
        with suppress(JournalError):
            return open_partition(path)
        Event().wait(0.01)
    raise AssertionError


def test_a_future_that_was_completed_already(path: Path) -> None:
    """Misuse of one future does not affect others."""
    with begin(path, durability="group") as partition, held_up(partition):
        first = partition.promise(partition.allocate, "a", "app", Resource())
        first.set_exception(KeyError())
        second: Future[bool] = partition.promise(partition.release, "nothing")
    assert second.result(timeout=60) is False


class held_up:  # noqa: N801 - reads as a statement
    """Prevents commits until the end of the block."""

    def __init__(self, partition: JournaledPartition) -> None:
        self._writer = partition._transaction_log.change_queue
        self._go, self._ready = Event(), Event()
        self._thread = Thread(target=self._hold)

    def _hold(self) -> None:
        with self._writer._writing:
            self._ready.set()
            self._go.wait()

    def __enter__(self) -> None:
        self._thread.start()
        self._ready.wait()

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._thread.join()


def test_nested_deferred_results(path: Path) -> None:
    """An operation that defers results itself does not wait for the disk."""
    with begin(path, durability="group") as partition:

        def both() -> Future[Decision]:
            inner = partition.promise(partition.allocate, "a", "app", Resource())
            partition.allocate("b", "app", Resource())
            return inner

        with held_up(partition):
            outer = partition.promise(both)
            assert not outer.done()
        assert outer.result(timeout=60).result()


def test_a_cancelled_task(path: Path) -> None:
    """Cancelling a waiting task does not affect its change or other tasks."""

    async def work(partition: JournaledPartition) -> bool:
        with held_up(partition):
            one = asyncio.create_task(partition.awaited(partition.allocate, "a", "app", memory(1)))
            other = asyncio.create_task(partition.awaited(partition.allocate, "b", "app", memory(1)))
            await asyncio.sleep(0)
            one.cancel()
            await asyncio.sleep(0)
        return bool(await other)

    with begin(path, durability="group") as partition:
        assert asyncio.run(work(partition))
        assert [allocation.allocation_id for allocation in partition.allocations()] == ["a", "b"]


def test_a_closed_loop(path: Path) -> None:
    """Results for a closed loop are dropped, and the next loop receives its own."""

    async def leave(partition: JournaledPartition) -> None:
        asyncio.create_task(partition.awaited(partition.allocate, "a", "app", memory(1)))  # noqa: RUF006 - it is dropped
        await asyncio.sleep(0)

    with begin(path, durability="group") as partition:
        with held_up(partition):
            asyncio.run(leave(partition))
        assert asyncio.run(partition.awaited(partition.allocate, "b", "app", memory(1)))
        assert len(partition.allocations()) == 2


def test_a_task_in_doubt(path: Path) -> None:
    """A task whose change cannot be written gets the error."""

    async def work(partition: JournaledPartition) -> None:
        for number in range(1000):
            await partition.awaited(partition.allocate, f"a{number}", "app", Resource())

    with begin(path, durability="group") as partition:
        with at_most(3, partition), pytest.raises(JournalError, match="uncertain whether the change was stored"):
            asyncio.run(work(partition))
        assert partition.release("a0")


def test_threads_in_doubt(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread that waits for a failed commit gets the error, and may repeat its call."""
    errors: list[JournalError] = []

    def work(number: int) -> None:
        try:
            partition.allocate(f"a{number}", "app", Resource())
        except JournalError as error:
            errors.append(error)

    with begin(path, durability="group") as partition:
        monkeypatch.setattr(AckMarker, "write", lambda *_: (_ for _ in ()).throw(OSError("no disk")))
        with held_up(partition):
            threads = [Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join()
        monkeypatch.undo()
        assert len(errors) == 8
        assert all(partition.allocate(f"a{number}", "app", Resource()) for number in range(8))
        state = state_of(partition)
    with open_partition(path) as again:
        assert state_of(again) == state


@pytest.mark.parametrize("durability", ["each", "group"])
def test_a_clock_that_fails(path: Path, durability: str) -> None:
    """A clock fails before the state has changed."""
    now: list[object] = [1]
    with begin(path, durability=durability, clock=lambda: now[0]) as partition:
        before, now[0] = state_of(partition), None
        with pytest.raises(Exception, match="clock None: expected seconds"):
            partition.allocate("a", "app", memory(1))
        assert state_of(partition) == before
        now[0] = 2
        assert partition.allocate("a", "app", memory(1))


def test_an_interruption(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is interrupted before its change is appended changes nothing, and the journal can be used."""
    with begin(path) as partition:
        before = state_of(partition)
        monkeypatch.setattr(transaction_log, "encode_events", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            partition.allocate("a", "app", memory(1))
        monkeypatch.undo()
        assert state_of(partition) == before
        assert partition.allocate("b", "app", memory(1))
        after = state_of(partition)
    with open_partition(path) as again:
        assert state_of(again) == after


@pytest.mark.parametrize("durability", ["each", "group"])
def test_a_change_that_cannot_be_serialised(path: Path, durability: str) -> None:
    """A change with a number that Python cannot format is refused and undone, and the journal can be used."""
    with begin(path, durability=durability) as partition:
        partition.allocate("a", "app", memory(1))
        before = state_of(partition)
        with pytest.raises(JournalError, match="the change cannot be serialised"):
            partition.adopt("b", "app", Resource(atoms=10**5000))
        assert state_of(partition) == before
        assert partition.release("a")
    with open_partition(path) as again:
        assert again.allocations() == ()


def test_an_error_of_a_signal_handler_is_not_one_of_the_encoder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that misuses an object of ugm raises its own error, although that is a ValueError."""

    def interrupted(_: object) -> bytes:
        Partition().allocate("a", "nobody", memory(1))
        return b""

    with begin(path) as partition:
        before = state_of(partition)
        monkeypatch.setattr(transaction_log, "encode_events", interrupted)
        with pytest.raises(RequestError, match="nobody"):
            partition.allocate("a", "app", memory(1))
        monkeypatch.undo()
        assert state_of(partition) == before
        assert partition.allocate("a", "app", memory(1))


def test_two_loops(path: Path) -> None:
    """Loops in several threads receive their own results."""

    async def work(part: int) -> int:
        calls = (partition.awaited(partition.allocate, f"{part}-{i}", "app", Resource()) for i in range(200))
        return sum(map(bool, await asyncio.gather(*calls)))

    granted: list[int] = []
    with begin(path, durability="group") as partition:
        threads = [Thread(target=lambda part: granted.append(asyncio.run(work(part))), args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert granted == [200] * 4
        assert len(partition.allocations()) == 800

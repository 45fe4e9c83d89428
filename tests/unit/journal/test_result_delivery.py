"""Subscribers and callbacks of promises: whatever they do, the journal goes on, and every promise is done."""

from __future__ import annotations

import asyncio
import ctypes
import dis
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from support.interruption_points import Interruption, Point
from support.journal_fixtures import begin
from support.logs import own_records
from support.partition_fixtures import memory
from ugm import RequestError, Resource
from ugm.events import Allocated, Event
from ugm.journal import JournaledPartition, JournalError, open_partition
from ugm.journal.background import BackgroundCompaction
from ugm.journal.change_queue import ChangeQueue
from ugm.journal.deferred_results import LoopMailbox
from ugm.journal.result_delivery import Result, ResultDelivery

NOTHING: Final = Resource()
#: Longer than anything takes, in seconds.
PATIENCE: Final = 30


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


class Subscriber:
    """Calls a function once, when the allocation ``x`` exists."""

    def __init__(self) -> None:
        self.action: Callable[[], object] | None = None
        self.has_returned = False

    def __call__(self, _first: int, events: tuple[Event, ...]) -> None:
        """Act if the allocation has just been made."""
        action = self.action
        if action is not None and any(type(one) is Allocated and one.allocation.allocation_id == "x" for one in events):
            self.action = None
            action()
            self.has_returned = True


@pytest.fixture(name="subscriber")
def _subscriber() -> Subscriber:
    return Subscriber()


@pytest.fixture(name="partition")
def _partition(path: Path, subscriber: Subscriber) -> JournaledPartition:
    return begin(path, durability="group", subscribers=[subscriber])


class SlowLog:
    """A log that takes long for each commit."""

    def __init__(self, log: Any) -> None:  # noqa: ANN401 - any log
        self._log: Final = log
        self.commits = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the log
        return getattr(self._log, name)

    def commit(self, rows: Any) -> Any:  # noqa: ANN401 - of the log
        """Commit slowly."""
        time.sleep(0.1)
        self.commits += 1
        return self._log.commit(rows)


def slow(partition: JournaledPartition) -> SlowLog:
    """Let all commits take long."""
    queue = partition._transaction_log.change_queue
    log = SlowLog(queue._log)
    object.__setattr__(queue, "_log", log)
    return log


def in_thread(work: Callable[[], object]) -> Future[object]:
    """Call a function in another thread, so that a test does not wait for ever."""
    result: Future[object] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the test sees it
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


def test_a_subscriber_that_changes(partition: JournaledPartition, subscriber: Subscriber) -> None:
    """The change of a subscriber is committed, although results wait for the subscriber."""

    def act() -> None:
        partition.promise(partition.allocate, "y", "app", NOTHING)
        partition.release("x")

    subscriber.action = act
    assert in_thread(lambda: partition.allocate("x", "app", NOTHING)).result(PATIENCE)
    assert subscriber.has_returned
    partition.journal.close()


def test_a_subscriber_that_closes(partition: JournaledPartition, subscriber: Subscriber) -> None:
    """A subscriber may close the journal, also while a promise is open."""
    promises: list[Future[Any]] = []

    def act() -> None:
        promises.append(partition.promise(partition.allocate, "y", "app", NOTHING))
        partition.journal.close()

    subscriber.action = act
    assert in_thread(lambda: partition.allocate("x", "app", NOTHING)).result(PATIENCE)
    assert promises[0].result(PATIENCE)
    assert partition.journal.is_closed


def test_the_subscriber_comes_first(
    partition: JournaledPartition, subscriber: Subscriber, caplog: pytest.LogCaptureFixture
) -> None:
    """A promise is done after its subscribers have returned, also if one of them changes the partition."""

    def act() -> None:
        partition.release("x")
        time.sleep(0.05)

    subscriber.action = act
    promise = partition.promise(partition.allocate, "x", "app", NOTHING)
    assert promise.result(PATIENCE)
    assert subscriber.has_returned
    partition.journal.close()
    assert not own_records(caplog)


def test_a_compaction(partition: JournaledPartition, subscriber: Subscriber, caplog: pytest.LogCaptureFixture) -> None:
    """A compaction that commits a change does not call its subscribers, which may need the journal."""
    subscriber.action = lambda: partition.release("x")
    slow(partition)
    partition.promise(partition.allocate, "w", "app", NOTHING)
    time.sleep(0.03)
    compaction = in_thread(partition.journal.compact)
    time.sleep(0.03)
    promise = partition.promise(partition.allocate, "x", "app", NOTHING)
    assert promise.result(PATIENCE)
    assert compaction.result(PATIENCE)
    assert [one.allocation_id for one in partition.allocations()] == ["w"]
    partition.journal.close()
    assert not own_records(caplog)


@pytest.mark.parametrize("kind", [MemoryError, RecursionError, KeyboardInterrupt, SystemExit, ValueError])
def test_a_subscriber_that_raises(
    partition: JournaledPartition, subscriber: Subscriber, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The promise is done, and later changes as well."""

    def act() -> None:
        raise kind

    subscriber.action = act
    first = partition.promise(partition.allocate, "x", "app", NOTHING)
    assert first.result(PATIENCE)
    assert partition.promise(partition.release, "x").result(PATIENCE)
    assert in_thread(lambda: partition.allocate("x", "app", NOTHING)).result(PATIENCE)
    partition.journal.close()
    assert [record.levelno for record in own_records(caplog)] == [logging.ERROR]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_callback_that_raises(partition: JournaledPartition, kind: type[BaseException]) -> None:
    """A callback of a future that raises ends no thread of the journal."""

    def act(_: object) -> None:
        raise kind

    partition.promise(partition.allocate, "x", "app", NOTHING).add_done_callback(act)
    assert partition.promise(partition.release, "x").result(PATIENCE)
    assert in_thread(lambda: partition.allocate("x", "app", NOTHING)).result(PATIENCE)
    partition.journal.close()


def test_a_callback_that_changes(partition: JournaledPartition, caplog: pytest.LogCaptureFixture) -> None:
    """A callback of a future may change the partition; it is called once."""
    calls: list[bool] = []
    promise = partition.promise(partition.allocate, "x", "app", NOTHING)
    promise.add_done_callback(lambda _: calls.append(partition.release("x")))
    assert promise.result(PATIENCE)
    partition.promise(partition.release, "nothing").result(PATIENCE)
    partition.journal.close()
    assert calls == [True]
    assert not own_records(caplog)


def test_an_exception_in_the_committing_thread(partition: JournaledPartition) -> None:
    """The thread that commits goes on after an exception from outside."""
    [thread] = [one for one in threading.enumerate() if one.name == f"journal {partition.journal.path}"]
    for kind in (MemoryError, SystemExit):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(kind))
        assert in_thread(lambda: partition.allocate("a", "app", NOTHING)).result(PATIENCE)
        assert in_thread(lambda: partition.release("a")).result(PATIENCE)
    assert thread.is_alive()
    partition.journal.close()


def test_an_exception_after_a_commit(partition: JournaledPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that commits tells the callers of a durable change, although it was interrupted before."""
    collect, interruptions = ChangeQueue._collect_due_callbacks, iter([MemoryError])

    def interrupted(queue: ChangeQueue, failure: JournalError | None) -> None:
        for kind in interruptions:
            raise kind
        collect(queue, failure)

    monkeypatch.setattr(ChangeQueue, "_collect_due_callbacks", interrupted)
    assert in_thread(lambda: partition.allocate("a", "app", NOTHING)).result(PATIENCE)
    assert next(interruptions, None) is None
    partition.journal.close()


def test_exhausted_memory_while_a_caller_is_notified(
    partition: JournaledPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback that has raised is called again."""
    add, interruptions = ResultDelivery.add, iter([MemoryError, RecursionError])

    def interrupted(delivery: ResultDelivery, result: Result) -> None:
        for kind in interruptions:
            raise kind
        add(delivery, result)

    monkeypatch.setattr(ResultDelivery, "add", interrupted)
    assert partition.promise(partition.allocate, "a", "app", NOTHING).result(PATIENCE)
    assert next(interruptions, None) is None
    partition.journal.close()


def test_a_handler_of_logging_that_raises(partition: JournaledPartition, subscriber: Subscriber) -> None:
    """A promise is done although neither its subscriber nor the log works."""

    def act(*_: object) -> None:
        raise SystemExit

    subscriber.action = act
    logger, handler = logging.getLogger("ugm.journal.result_delivery"), logging.NullHandler()
    handler.handle = act  # type: ignore[method-assign, assignment]
    logger.addHandler(handler)
    try:
        assert partition.promise(partition.allocate, "x", "app", NOTHING).result(PATIENCE)
    finally:
        logger.removeHandler(handler)
    partition.journal.close()


def test_a_second_close_waits_for_the_results(partition: JournaledPartition, subscriber: Subscriber) -> None:
    """A thread that closes the journal again returns when all promises are done, as the first one does."""
    go = threading.Event()
    subscriber.action = lambda: go.wait(PATIENCE)
    promises = [partition.promise(partition.allocate, name, "app", NOTHING) for name in "xyz"]
    first = in_thread(partition.journal.close)
    while not partition.journal._is_released:
        time.sleep(0.01)
    second = in_thread(partition.journal.close)
    time.sleep(0.05)
    assert not second.done()
    go.set()
    second.result(PATIENCE)
    assert all(promise.done() for promise in promises)
    first.result(PATIENCE)


def test_a_compaction_without_a_thread(partition: JournaledPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction whose thread has ended without a result does not keep the journal from being closed."""
    monkeypatch.setattr(BackgroundCompaction, "_run", lambda _: None)
    compaction = partition.journal.compact_in_background()
    in_thread(partition.journal.close).result(PATIENCE)
    with pytest.raises(JournalError, match="the thread has ended"):
        compaction.result(PATIENCE)


@pytest.mark.parametrize("durability", ["each", "group"])
def test_two_threads_that_close(tmp_path: Path, durability: str) -> None:
    """Closing in two threads at once closes once, and both return when the file is free."""
    for number in range(5):
        path, barrier = tmp_path / str(number), threading.Barrier(2)
        partition = begin(path, durability=durability)

        def close(partition: JournaledPartition = partition, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            partition.journal.close()

        for result in [in_thread(close), in_thread(close)]:
            assert result.result(PATIENCE) is None
        open_partition(path).journal.close()


def test_two_compactions_at_once(partition: JournaledPartition) -> None:
    """Of two compactions that start at once, one is refused."""
    barrier = threading.Barrier(2)

    def compact() -> object:
        barrier.wait()
        return partition.journal.compact_in_background().result()

    errors = [result.exception(PATIENCE) for result in [in_thread(compact), in_thread(compact)]]
    assert sum(error is None for error in errors) >= 1
    assert all(error is None or isinstance(error, RequestError) for error in errors), errors
    partition.journal.close()


def test_a_compaction_whose_callback_closes(partition: JournaledPartition) -> None:
    """The callback of a compaction may close the journal."""
    closed: Future[bool] = Future()

    def close(_: object) -> None:
        partition.journal.close()
        closed.set_result(partition.journal.is_closed)

    partition.journal.compact_in_background().add_done_callback(close)
    assert closed.result(PATIENCE)


def test_an_interrupted_close(partition: JournaledPartition, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call writes what an interrupted one has not written."""
    log = slow(partition)
    commit = log.commit

    def interrupted(rows: Any) -> Any:  # noqa: ANN401 - of the log
        if threading.current_thread() is threading.main_thread():
            monkeypatch.setattr(log, "commit", commit)
            raise KeyboardInterrupt
        return commit(rows)

    monkeypatch.setattr(log, "commit", interrupted)
    promises = [partition.promise(partition.allocate, "a", "app", NOTHING)]
    time.sleep(0.03)
    # The thread that commits is busy.
    promises.append(partition.promise(partition.allocate, "b", "app", NOTHING))
    with pytest.raises(KeyboardInterrupt):
        partition.journal.close()
    partition.journal.close()
    assert all(promise.result(PATIENCE) for promise in promises)
    with open_partition(path) as again:
        assert [one.allocation_id for one in again.allocations()] == ["a", "b"]


def test_a_promise_while_another_thread_closes(partition: JournaledPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that the closing thread has committed is answered, although nothing delivers results any more."""

    def has_closed(_queue: ChangeQueue, _number: int) -> bool:
        partition.journal.close()
        for thread in threading.enumerate():
            if thread.name == f"results {partition.journal.path}":
                thread.join()
        return False

    monkeypatch.setattr(ChangeQueue, "is_durable", has_closed)
    assert partition.promise(partition.allocate, "a", "app", NOTHING).result(PATIENCE)


def test_an_interrupted_delivery(
    partition: JournaledPartition, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the delivery of the last results is interrupted, the other thread completes it."""
    main, deliver = threading.current_thread(), ResultDelivery._deliver_all

    def interrupted(delivery: ResultDelivery, *handle: Any) -> None:  # noqa: ANN401 - passed on
        if threading.current_thread() is main:
            raise KeyboardInterrupt
        deliver(delivery, *handle)

    monkeypatch.setattr(ResultDelivery, "_deliver_all", interrupted)
    go = threading.Event()
    subscriber.action = lambda: go.wait(PATIENCE)
    promises = [partition.promise(partition.allocate, name, "app", NOTHING) for name in "xyz"]
    with pytest.raises(KeyboardInterrupt):
        partition.journal.close()
    go.set()
    assert all(promise.result(PATIENCE) for promise in promises)


def test_no_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that cannot be started is an error of the journal, which can be opened or used afterwards."""

    def start(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", start)
        with pytest.raises(JournalError, match="can't start new thread"):
            open_partition(path, durability="group")
    with begin(path, durability="group") as partition:
        with monkeypatch.context() as context:
            context.setattr(threading.Thread, "start", start)
            with pytest.raises(JournalError, match="can't start new thread"):
                partition.promise(partition.allocate, "a", "app", NOTHING)
            with pytest.raises(JournalError, match="can't start new thread"):
                partition.journal.compact_in_background()
        assert partition.allocation("a") is None
        assert partition.promise(partition.allocate, "a", "app", NOTHING).result(PATIENCE)
        assert partition.journal.compact_in_background().result(PATIENCE)


def _points() -> list[Point]:
    codes = [getattr(LoopMailbox, name).__code__ for name in ("put", "_schedule", "_complete_all")]
    return [Point(code, "opcode", one.offset, 1) for code in codes for one in dis.get_instructions(code)]


@pytest.mark.parametrize("durability", ["each", "group"])
def test_interrupted_tasks(path: Path, durability: str) -> None:
    """An interrupted call loses at most its own answer: later ones arrive."""
    arrived, loop = 0, asyncio.new_event_loop()

    async def wait_for(task: asyncio.Task[bool], seconds: float) -> None:
        await asyncio.wait([task], timeout=seconds)

    async def call(name: str) -> bool:
        granted = await partition.awaited(partition.allocate, name, "app", memory(1))
        return bool(granted) and await partition.awaited(partition.release, name)

    with begin(path, durability=durability) as partition:
        for point in _points():
            task = loop.create_task(call("other"))
            interruption = Interruption(point, KeyboardInterrupt)
            interruption.run(partial(loop.run_until_complete, wait_for(task, 0.05)))
            arrived += interruption.has_arrived
            assert loop.run_until_complete(asyncio.wait_for(call("mine"), PATIENCE)), point
            loop.run_until_complete(wait_for(task, PATIENCE))
            assert task.done(), point
            task.exception()
            partition.release("other")
        loop.close()
    assert arrived > 20

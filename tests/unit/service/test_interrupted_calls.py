"""Exceptions from outside in a call of a client: the connection can be used again at once."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread
from types import FunctionType
from typing import Final, cast

import pytest

from support.interruption_points import Interruption, Point
from support.locks import is_locked
from support.partition_fixtures import SUE, memory
from support.service_fixtures import eventually, running
from ugm import ReentrantCallError
from ugm.service import ConnectedPartition, DeadlineError, UnavailableError, connect
from ugm.service.client_socket import ClientSocket
from ugm.service.connection import ClientConnection
from ugm.service.wire import LeaderMessage

_METHODS: Final = ("call", "_exchange", "_start", "_await", "_read_until", "_end_reading", "_flush", "_send_next")


_ANSWERS: Final = ("_read", "_handle", "_note_done", "_finish_settled", "_wake_readers")
_CLOSING: Final = ("close", "_say_goodbye", "_close_socket", "_fail_all", "_note_done", "_finish_settled")


def _points(names: tuple[str, ...] = _METHODS) -> list[Point]:
    """Return every instruction of the methods that make a call."""
    return [point for name in names for point in _points_of(getattr(ClientConnection, name))]


def _points_of(function: FunctionType) -> list[Point]:
    code = function.__code__
    return [Point(code, "opcode", one.offset, 1) for one in dis.get_instructions(code)]


@pytest.fixture(name="partition")
def _partition(quick_folder: Path) -> Iterator[ConnectedPartition]:
    with running(quick_folder), connect(f"unix:{quick_folder}/s", client="c", deadline=5) as partition:
        partition.submit("app", SUE, "root.a")
        yield partition


def _is_answered(partition: ConnectedPartition) -> bool:
    """Return whether a promise and a call are answered."""
    promised = partition.promise(partition.check, "app", memory(1)).result(timeout=5)
    return promised.allowed and partition.check("app", memory(1)).allowed


@pytest.mark.parametrize("distance", [5, pytest.param(1, marks=pytest.mark.ci)])
def test_interrupted_calls(quick_folder: Path, distance: int) -> None:
    """The next call gets its answer, whether the interrupted one has taken effect or not."""
    arrived = 0
    with running(quick_folder), connect(f"unix:{quick_folder}/s", client="c", deadline=5) as partition:
        partition.submit("app", SUE, "root.a")
        for number, point in enumerate(_points()[::distance]):
            interruption = Interruption(point, KeyboardInterrupt)
            interruption.run(lambda name=str(number): partition.allocate(name, "app", memory(1)))  # type: ignore[misc]
            arrived += interruption.has_arrived
            assert partition.allocate(str(number), "app", memory(1)), point
            assert partition.release(str(number)), point
    assert arrived > 20 // distance


@pytest.mark.parametrize("distance", [5, pytest.param(1, marks=pytest.mark.ci)])
def test_promised_calls(quick_folder: Path, distance: int) -> None:
    """An interrupted call that reads the answers to promised ones loses none of them."""
    arrived = 0
    with running(quick_folder), connect(f"unix:{quick_folder}/s", client="c", deadline=5) as partition:
        # No other thread reads.
        partition.connection._thread = current_thread()
        partition.submit("app", SUE, "root.a")
        for point in _points(_METHODS + _ANSWERS)[::distance]:
            futures = [partition.promise(partition.allocate, name, "app", memory(1)) for name in "ab"]
            interruption = Interruption(point, KeyboardInterrupt)
            interruption.run(lambda: partition.check("app", memory(1)))
            arrived += interruption.has_arrived
            assert not partition.release("c"), point
            assert all(future.result(timeout=0) for future in futures), point
            assert partition.release("a"), point
            assert partition.release("b"), point
    assert arrived > 40 // distance


def test_call_in_a_call(quick_folder: Path) -> None:
    """A signal handler that calls the partition in the middle of another call gets an error."""
    with running(quick_folder), connect(f"unix:{quick_folder}/s", client="c", deadline=5) as partition:
        partition.submit("app", SUE, "root.a")
        with partition.connection._reading, pytest.raises(ReentrantCallError):
            partition.allocate("one", "app", memory(1))
        assert partition.allocate("one", "app", memory(1))


def test_interrupted_sending(partition: ConnectedPartition) -> None:
    """An interruption in the socket leaves none of its locks held."""
    for point in _points_of(cast("FunctionType", ClientSocket.send)):
        Interruption(point, KeyboardInterrupt).run(lambda: partition.check("app", memory(1)))
        connection = partition.connection._socket
        assert connection is None or not is_locked(connection._guard), point
        assert partition.check("app", memory(1)), point


def test_interrupted_end_of_a_call(quick_folder: Path) -> None:
    """A call that is interrupted at its deadline leaves no lock held."""
    with running(quick_folder) as service, connect(f"unix:{quick_folder}/s", deadline=0.02) as partition:
        service.stop()
        connection, arrived = partition.connection, 0
        for point in _points(("_give_up", "_wake_readers", "_late"))[::2]:
            interruption = Interruption(point, KeyboardInterrupt)
            with suppress(DeadlineError):
                interruption.run(lambda: partition.check("app", memory(1)))
            arrived += interruption.has_arrived
            assert not any(map(is_locked, (connection._guard, connection._reading, connection._sending))), point
            assert not connection._open.calls, point
    assert arrived > 10


# Promises


def test_interrupted_promise(partition: ConnectedPartition) -> None:
    """No later call takes itself for a promise, and later promises are answered."""
    arrived = 0
    for point in _points(("promise", "_promise", "_start_thread")):
        interruption = Interruption(point, KeyboardInterrupt)
        interruption.run(lambda: partition.promise(partition.check, "app", memory(1)))
        arrived += interruption.has_arrived
        assert partition.check("app", memory(1)), point
        assert _is_answered(partition), point
    assert arrived > 40


def test_call_in_a_promise(partition: ConnectedPartition) -> None:
    """If a promised function calls operations, as a signal handler does, it gets their results."""

    def query() -> bool:
        is_allowed = partition.check("app", memory(1)).allowed
        return is_allowed and partition.promise(partition.allocate, "one", "app", memory(1)).result(timeout=5).allowed

    assert partition.promise(query).result(timeout=0)
    assert partition.allocation_ids() == ("one",)


def test_interrupted_start_of_the_thread(quick_folder: Path) -> None:
    """The next promise starts the thread that an interrupted one has not started."""
    with running(quick_folder), connect(f"unix:{quick_folder}/s") as first:
        first.submit("app", SUE, "root.a")
        usage = memory(1)
        for point in _points(("_start_thread", "_replace_thread"))[::3]:
            with connect(f"unix:{quick_folder}/s", deadline=5) as partition:
                Interruption(point, KeyboardInterrupt).run(partial(partition.promise, partition.check, "app", usage))
                assert _is_answered(partition), point


def test_thread_that_cannot_be_started(partition: ConnectedPartition) -> None:
    """A promise states the reason if the system has no thread for it, and the next one tries again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Thread, "start", _raising(RuntimeError("can't start new thread")))
        with pytest.raises(UnavailableError, match="can't start new thread"):
            partition.promise(partition.check, "app", memory(1))
    assert _is_answered(partition)


def _raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


# The thread in the background


def test_thread_survives_exhausted_memory(
    partition: ConnectedPartition, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If reading fails in the background, open promises are answered over a new connection."""
    failures = iter([MemoryError()])
    handle = ClientConnection._handle

    def fail_once(connection: ClientConnection, message: LeaderMessage) -> None:
        for failure in failures:
            raise failure
        handle(connection, message)

    monkeypatch.setattr(ClientConnection, "_handle", fail_once)
    assert _is_answered(partition)
    assert "MemoryError" in caplog.text


def test_thread_survives_a_callback(
    partition: ConnectedPartition, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The callback of a future may raise SystemExit. The thread goes on."""
    handle, is_added = ClientConnection._handle, Event()

    def handle_later(connection: ClientConnection, message: LeaderMessage) -> None:
        assert is_added.wait(5)
        handle(connection, message)

    monkeypatch.setattr(ClientConnection, "_handle", handle_later)
    future = partition.promise(partition.check, "app", memory(1))
    future.add_done_callback(lambda _: sys.exit("left"))
    is_added.set()
    eventually(lambda: "left" in caplog.text)
    assert _is_answered(partition)


# Closing


def test_interrupted_close(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If closing is interrupted, all futures get an error nevertheless, and another attempt ends the thread."""
    monkeypatch.setattr(ClientConnection, "_handle", lambda *_: None)
    with running(quick_folder):
        for point in _points(_CLOSING)[::5]:
            partition = connect(f"unix:{quick_folder}/s", deadline=5)
            futures = [partition.promise(partition.allocation_ids) for _ in range(2)]
            Interruption(point, KeyboardInterrupt).run(partition.connection.close)
            if not partition.connection._is_closed:
                partition.connection.close()
            assert all(isinstance(future.exception(timeout=4), UnavailableError) for future in futures), point
            partition.connection.close()
            assert not partition.connection._thread.is_alive(), point  # type: ignore[union-attr] # it was started

"""A pool of threads that do not keep the process alive."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Event, Thread, current_thread
from weakref import ref

import pytest

from support.service_fixtures import eventually
from ugm._daemon_pool import DaemonPool

#: A program whose main thread ends while another one uses a service.
PROGRAM = """
import sys, threading, time
import ugm
from ugm.service import Service

config = ugm.parse_config("partitions: [{queues: [{name: a}]}]").partition()
folder, kind = sys.argv[1:]
if kind == "join":
    partition = ugm.join(f"{folder}/j", config=config)
else:
    Service(None if kind == "memory" else f"{folder}/j", f"unix:{folder}/s", config=config).start()
    partition = ugm.connect(f"unix:{folder}/s")

# CPython 3.12.0 and 3.12.1 start no thread when the main thread has ended (gh-113964).
ends = not (3, 12) <= sys.version_info < (3, 12, 2)

def work():
    if ends:
        threading.main_thread().join()
    time.sleep(0.3)
    events = []
    with partition.subscribe(lambda number, found: events.append(found)):
        partition.submit("app", ugm.UserGroup("sue"), "root.a")
        print(partition.allocate("a", "app", ugm.Resource(memory=1)), len(partition.allocations()))

worker = threading.Thread(target=work)
worker.start()
if not ends:
    worker.join()
"""


@pytest.mark.parametrize("kind", ["memory", "journal", "join"])
def test_service_of_a_program_whose_main_thread_has_ended(tmp_path: Path, kind: str) -> None:
    """A service works as long as any thread of the program does, and does not keep the process alive."""
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path), kind]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own program
    assert (done.stdout, done.returncode) == ("allowed 1\n", 0), done.stderr


def test_calls_run_at_the_same_time() -> None:
    """There are as many threads as calls in progress, up to the maximum; further calls wait."""
    pool, may_end, begun = DaemonPool("test", 2), Event(), [Event() for _ in range(3)]

    def call(number: int) -> str:
        begun[number].set()
        may_end.wait(60)
        return current_thread().name

    futures = [pool.submit(call, number) for number in range(3)]
    assert begun[0].wait(60)
    assert begun[1].wait(60)
    assert not begun[2].is_set()
    may_end.set()
    assert {future.result(60) for future in futures} <= {"test_0", "test_1"}
    pool.shutdown()
    with pytest.raises(RuntimeError, match="the threads have ended"):
        pool.submit(print)


def test_threads_for_calls_that_follow_each_other_closely() -> None:
    """A thread that has just been started is not free."""
    for _ in range(200):
        pool, both = DaemonPool("test", 2), Barrier(2)
        futures = [pool.submit(both.wait, 60) for _ in range(2)]
        assert {future.result(60) for future in futures} == {0, 1}
        pool.shutdown()


def test_threads_are_used_again() -> None:
    """Calls one after the other need one thread, and errors reach the caller."""
    pool = DaemonPool("test")
    assert pool.submit(current_thread).result(60).daemon
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(60)
    for _ in range(99):
        pool.submit(int).result(60)
    assert len(pool._workers) <= 3


@pytest.mark.parametrize("is_awaited", [True, False])
def test_shutdown(*, is_awaited: bool) -> None:
    """Calls that wait for a thread are cancelled on request. Those in progress end, and the end waits if it may."""
    pool, may_end, has_begun, done = DaemonPool("test", 1, is_awaited=is_awaited), Event(), Event(), list[int]()

    def call() -> None:
        has_begun.set()
        may_end.wait(60)
        done.append(1)

    running, waiting = pool.submit(call), pool.submit(call)
    assert has_begun.wait(60)
    ending = Thread(target=pool.shutdown, kwargs={"cancel_futures": True})
    ending.start()
    if is_awaited:
        assert ending.is_alive()
        may_end.set()
    ending.join(60)
    assert not ending.is_alive()
    may_end.set()
    running.result(60)
    assert waiting.cancelled()
    assert done == [1]


def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a thread a call is refused; otherwise it waits for one."""

    def fail(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as failing:
        failing.setattr(Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            DaemonPool("test").submit(print)
    pool, may_end = DaemonPool("test"), Event()
    first = pool.submit(may_end.wait, 60)
    with monkeypatch.context() as failing:
        failing.setattr(Thread, "start", fail)
        second = pool.submit(int)
    may_end.set()
    assert (first.result(60), second.result(60)) == (True, 0)
    pool.shutdown()


def test_default_executor_of_a_loop() -> None:
    """A loop uses it for its threads, and ends it."""
    pool = DaemonPool("test")

    async def work() -> Thread:
        asyncio.get_running_loop().set_default_executor(pool)
        return await asyncio.to_thread(current_thread)

    thread = asyncio.run(work())
    assert thread.name == "test_0"
    assert not thread.is_alive()


class Result:
    """An object that can be observed."""


def test_results_are_freed() -> None:
    """A free thread keeps neither the result of its last call nor its error."""
    pool = DaemonPool("test")

    def fail(argument: object) -> None:
        raise ValueError(argument)

    result = ref(pool.submit(Result).result(60))
    argument = Result()
    failed = ref(argument)
    assert pool.submit(fail, argument).exception(60)
    del argument
    eventually(lambda: result() is None and failed() is None)

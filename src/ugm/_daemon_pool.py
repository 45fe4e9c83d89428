"""A pool of threads that work as long as the process runs, and do not keep it from ending.

The problem: the threads of `concurrent.futures` accept no work any more when the main thread of the program has ended,
also if other threads go on. A service in such a program would end. And a process waits for them when it ends.

The idea: the same interface with daemon threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, Final, ParamSpec, TypeVar, final

__all__ = ["DaemonPool"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


@final
class DaemonPool(ThreadPoolExecutor):
    """Executes calls in daemon threads; an asyncio loop accepts it as its default executor.

    Args:
        name: the beginning of the names of the threads.
        threads: the maximum number of threads.
        is_awaited: whether `shutdown` may wait for the calls in progress; otherwise it never does.
    """

    def __init__(self, name: str, threads: int = 16, *, is_awaited: bool = True) -> None:
        super().__init__(threads, name)
        self._is_awaited: Final = is_awaited
        self._most: Final = threads
        self._name: Final = name
        self._calls: Final[SimpleQueue[tuple[Future[Any], Callable[[], object]] | None]] = SimpleQueue()
        #: Counts the threads without a call.
        self._free: Final = Semaphore(0)
        self._guard: Final = Lock()
        self._workers: Final[list[Thread]] = []
        self._has_ended = False

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Execute a call in a thread.

        Raises:
            RuntimeError: the pool has ended, or the system has no resources for its first thread.
        """
        future: Future[_T] = Future()
        with self._guard:
            if self._has_ended:
                raise RuntimeError("the threads have ended")
            # Before a thread starts, so that it finds the call and does not count as free.
            self._calls.put((future, partial(fn, *args, **kwargs)))
            self._require_thread()
        return future

    def _require_thread(self) -> None:
        if self._free.acquire(blocking=False) or len(self._workers) >= self._most:
            return
        worker = Thread(target=self._work, name=f"{self._name}_{len(self._workers)}", daemon=True)
        try:
            worker.start()
        except RuntimeError:
            # The others take the call.
            if not self._workers:
                self._cancel_waiting()
                raise
        else:
            self._workers.append(worker)

    def _work(self) -> None:
        while True:
            try:
                taken = self._calls.get_nowait()
            except Empty:
                self._free.release()
                taken = self._calls.get()
            if taken is None:
                return
            _execute(*taken)
            # The result can be freed before there is another call.
            del taken

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the base class
        """End the threads after the calls in progress.

        Args:
            wait: whether to wait until they have ended.
            cancel_futures: whether calls that wait for a thread are cancelled.
        """
        with self._guard:
            self._has_ended = True
            if cancel_futures:
                self._cancel_waiting()
            for _ in self._workers:
                self._calls.put(None)
        if wait and self._is_awaited:
            for worker in self._workers:
                worker.join()

    def _cancel_waiting(self) -> None:
        with suppress(Empty):
            while taken := self._calls.get_nowait():
                taken[0].cancel()


def _execute(future: Future[Any], call: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - it is passed on
        future.set_exception(error)
        # Otherwise the error would keep itself, by its traceback.
        del future
    else:
        future.set_result(result)

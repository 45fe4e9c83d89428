"""Eight threads that start at once, and other threads that run at the same time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Barrier, Event, Thread
from typing import Final

__all__ = ["THREADS", "run"]

THREADS: Final = 8


@contextmanager
def _switching_often() -> Iterator[None]:
    """Have threads interrupt each other every few steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run(work: Callable[[int], None], *others: Callable[[Event], None]) -> None:
    """Run *work* in `THREADS` threads that start at once, and each of *others* in one thread until they are done."""
    errors: list[BaseException] = []
    barrier, done = Barrier(THREADS + len(others)), Event()

    def guarded(task: Callable[[], None]) -> None:
        try:
            barrier.wait()
            task()
        except BaseException as error:  # noqa: BLE001 - raised in the test below
            errors.append(error)

    threads = [Thread(target=guarded, args=[lambda n=n: work(n)], daemon=True) for n in range(THREADS)]
    helpers = [Thread(target=guarded, args=[lambda task=task: task(done)], daemon=True) for task in others]
    with _switching_often():
        for thread in threads + helpers:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        done.set()
        for thread in helpers:
            thread.join(timeout=120)
    for error in errors:
        raise error
    assert not any(thread.is_alive() for thread in threads + helpers), "deadlock"

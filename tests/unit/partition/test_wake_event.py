"""The event of a waiting list: it works like `threading.Event`, and no interruption blocks it."""

from __future__ import annotations

from threading import Barrier, Thread

from support.service_fixtures import eventually
from ugm.partition.ordering.waiting_list import WakeEvent


def test_states() -> None:
    """The event is set until it is cleared, and a set event does not wait."""
    event = WakeEvent()

    assert (event.is_set(), event.wait(0), event.wait(-1)) == (False, False, False)
    event.set()
    assert (event.is_set(), event.wait(), event.wait(0)) == (True, True, True)
    event.clear()
    assert not event.is_set()


def test_all_waiting_threads_are_woken() -> None:
    """One call of `set` wakes every thread that waits, also if the event is cleared immediately."""
    event, woken = WakeEvent(), list[bool]()
    threads = [Thread(target=lambda: woken.append(event.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(event._waiting) == len(threads))
    event.set()
    event.clear()
    for thread in threads:
        thread.join()

    assert woken == [True] * 4
    assert not event._waiting


def test_no_wake_up_is_lost() -> None:
    """A thread that begins to wait while another one sets the event is woken."""
    for _ in range(300):
        event, barrier = WakeEvent(), Barrier(2)

        def begin(event: WakeEvent = event, barrier: Barrier = barrier) -> None:
            barrier.wait()
            event.set()

        thread = Thread(target=begin)
        thread.start()
        barrier.wait()
        assert event.wait(20)
        thread.join()

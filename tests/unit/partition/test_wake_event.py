"""The event of a waiting list: it works like `threading.Event`, and no interruption blocks it."""

from __future__ import annotations

from threading import Barrier, Thread

from ugm.partition.ordering.waiting_list import WakeEvent


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

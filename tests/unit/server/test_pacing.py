"""The limit of processor time: continuous work waits, and occasional work does not."""

from __future__ import annotations

from ugm.server.pacing import WorkPacer


def test_continuous_work_takes_its_share() -> None:
    """Work that begins again as soon as it may takes the given part of the time, apart from the burst."""
    now = 0.0
    pacer = WorkPacer(0.25, 0.5, clock=lambda: now)
    worked = 0.0
    while now < 1000:
        now += pacer.delay()
        now += 0.1
        worked += 0.1
        pacer.spend(0.1)

    assert 250 <= worked <= 251


def test_occasional_work_does_not_wait() -> None:
    """Work below the share never waits, and a long rest allows no more than the burst."""
    now = 0.0
    pacer = WorkPacer(0.25, 0.5, clock=lambda: now)
    for _ in range(100):
        pacer.spend(0.2)
        assert pacer.delay() == 0
        now += 1
    now += 1000
    pacer.spend(1.5)

    assert pacer.delay() == 4

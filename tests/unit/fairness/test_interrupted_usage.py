"""Exceptions from outside while decayed usage is changed: the change is made or it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Final

import pytest

from support.interruption_points import Interruption, points_in
from support.locks import is_locked
from ugm import ReentrantCallError
from ugm.fairness import BinnedUsage, ContinuousUsage
from ugm.fairness.decayed_usage import DecayedUsage

_MAKERS: Final[dict[str, Callable[[], DecayedUsage[Any]]]] = {
    "continuous": lambda: ContinuousUsage(half_life=60),
    "bins": lambda: BinnedUsage(bin=30, decay=Fraction(1, 2), bins=3),
}

_CHANGES: Final[dict[str, Callable[[DecayedUsage[Any]], object]]] = {
    "start": lambda usage: usage.start("new", "ana", {"vcore": 3}, 100),
    "start elsewhere": lambda usage: usage.start("one", "eve", {"vcore": 3}, 100),
    "resize what is unknown": lambda usage: usage.resize("three", {"vcore": 7}, 100),
    "resize": lambda usage: usage.resize("one", {"vcore": 7}, 100),
    "stop": lambda usage: usage.stop("one", 100),
    "add_use": lambda usage: usage.add_use("eve", {"vcore": 1}, 100),
    "remove_use": lambda usage: usage.remove_use("ana", {"vcore": 2}, 100),
    "stop_all": lambda usage: usage.stop_all(100),
    "clear": lambda usage: usage.clear(),
    "add": lambda usage: usage.add("ben", Fraction(1, 3), 100),
    "record": lambda usage: usage.record("ben", {"vcore": 9}, 10, 70),
}


def _state(usage: DecayedUsage[Any]) -> object:
    # A time before the last change counts as that of the change.
    return usage.at(0), usage.owners, usage.at(130), usage.rates(), usage.value("ana", 300)


@pytest.mark.parametrize("kind", _MAKERS)
def test_change_in_a_change(kind: str) -> None:
    """A signal handler that changes the usage in the middle of a change gets an error, and that change continues."""
    usage = _MAKERS[kind]()

    class Handler(dict[str, int]):
        """An argument in whose place a signal arrives."""

        def items(self) -> Any:  # noqa: ANN401 - as in the base class
            with pytest.raises(ReentrantCallError):
                usage.add_use("ana", {"vcore": 1}, 0)
            return super().items()

    usage.start("one", "ana", Handler(vcore=2), 0)
    assert not is_locked(usage._lock)
    assert usage.rates() == {"ana": 2}


@pytest.mark.parametrize("kind", _MAKERS)
@pytest.mark.parametrize("name", _CHANGES)
def test_interrupted_changes(kind: str, name: str) -> None:
    """Everything is as before or after the change, now and when time passes, and later changes count once."""
    change = _CHANGES[name]

    def made() -> DecayedUsage[Any]:
        usage = _MAKERS[kind]()
        usage.start("one", "ana", {"vcore": 2}, 0)
        usage.start("two", "ben", {"memory": 5}, 20)
        return usage

    usage = made()

    @contextmanager
    def prepared() -> Iterator[Callable[[], object]]:
        nonlocal usage
        usage = made()
        yield lambda: change(usage)

    before = _state(usage)
    change(usage)
    after = _state(usage)
    points = points_in(prepared)
    for point in points:
        interruption = Interruption(point)
        with prepared() as call:
            interruption.run(call)
        assert interruption.has_arrived, point
        assert not is_locked(usage._lock), point
        found = _state(usage)
        assert found in (before, after), point
        usage.add_use("ana", {"vcore": 1}, 200)
        usage.stop("one", 210)
        other = made()
        if found == after != before:
            change(other)
        other.add_use("ana", {"vcore": 1}, 200)
        other.stop("one", 210)
        assert _state(usage) == _state(other), point
    assert len(points) > 30

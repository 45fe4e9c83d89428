"""Decayed usage: misuse, times that go back, and the errors of other implementations."""

from __future__ import annotations

import json
from fractions import Fraction
from time import process_time
from typing import Any, TypeAlias

import pytest

from ugm import RequestError
from ugm.fairness import BinnedUsage, ContinuousUsage, bins_for

#: A usage of either kind, or an argument of a wrong type.
Anything: TypeAlias = Any


def halves(**options: Anything) -> BinnedUsage:
    """Return usage in bins of 10 seconds, each of half the weight of the next."""
    return BinnedUsage(**{"bin": 10, "decay": Fraction(1, 2), "bins": 4, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"bin": 0},
        {"bins": 0},
        {"bins": 10**12},
        {"bins": 1001, "decay": Fraction(9, 10)},
        {"decay": Fraction(1, 10**5000)},
        {"decay": 0.5},
        {"decay": 2},
        {"anchor": 0.5},
        {"weights": {"gpu": -1}},
    ],
)
def test_invalid_shapes(options: dict[str, Any]) -> None:
    """Lengths are positive, and the decay is a fraction from 0 to 1."""
    with pytest.raises(RequestError):
        halves(**options)


def test_misuse() -> None:
    """Times are whole seconds, and amounts are exact."""
    usage = halves()

    for call in (
        lambda: usage.start("a", "ana", {"vcore": 1}, 0.5),  # type: ignore[arg-type] # the misuse
        lambda: usage.add("ana", 0.5, 0),  # type: ignore[arg-type] # the misuse
        lambda: usage.at(0.5),  # type: ignore[arg-type] # the misuse
        lambda: ContinuousUsage(half_life=0),
        lambda: bins_for(0, 1),
    ):
        with pytest.raises(RequestError):
            call()
    assert usage.owners == ()


@pytest.mark.parametrize("usage", [halves(), ContinuousUsage(half_life=10)])
def test_time_that_goes_back(usage: Anything) -> None:
    """A change or a read before the last change counts as the last change."""
    usage.start("a", "ana", {"vcore": 1}, 100)
    usage.stop("a", 90)
    usage.start("b", "ana", {"vcore": 1}, 95)

    assert usage.value("ana", 0) == usage.value("ana", 100) == 0
    assert usage.value("ana", 101) > 0


def test_long_runs_replace_all_bins() -> None:
    """A change looks at the old bins once, however many new bins it fills."""
    usage = halves(bin=1, decay=1, bins=10_000)
    usage.start("a", "ana", {"vcore": 1}, 0)
    before = process_time()
    for at in (10_000, 20_000, 30_000):
        usage.resize("a", {"vcore": 1}, at)

    assert usage.value("ana", 30_000) == 10_000 - 1
    assert process_time() - before < 1


@pytest.mark.parametrize("amount", range(1, 30))
def test_an_undone_change_leaves_no_trace_after_a_restart(amount: int) -> None:
    """The state of before a change is saved with the usage, because the change may be undone in the same second."""
    usage, loaded = ContinuousUsage(half_life=61), ContinuousUsage(half_life=61)
    usage.start("first", "ana", {"vcore": amount}, 1000)
    usage.start("second", "ana", {"vcore": 7919}, 1000 + amount)
    loaded.load(json.loads(json.dumps(usage.save())), 1000 + amount)
    loaded.start("first", "ana", {"vcore": amount}, 1000 + amount)
    loaded.start("second", "ana", {"vcore": 7919}, 1000 + amount)

    for one in (usage, loaded):
        one.stop("second", 1000 + amount)

    assert loaded.save() == usage.save() == [["ana", 1000, amount, "0"]]
    assert loaded.at(5000) == usage.at(5000)

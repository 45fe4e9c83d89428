"""Sharing one resource: floors, rounds, remainders, scaling."""

from __future__ import annotations

import pytest

from ugm.elastic import Sharer, share
from ugm.elastic.sharing import divide


def gets(available: int, *given: Sharer, scale: bool = True) -> dict[str, int]:
    """Return the share of every group."""
    return share(available, given, scale=scale).runtime


def test_worked_example() -> None:
    """The example of the document: A lends 5, B is satisfied in the first round, C and D share what it returns."""
    shared = share(
        100, [Sharer("A", 5, 10, 10), Sharer("B", 20, 15, 60), Sharer("C", 40, 20, 50), Sharer("D", 50, 15, 80)]
    )

    assert [each.left for each in shared.rounds] == [45, 9]
    assert shared.rounds[0].given == {"B": 14, "C": 12, "D": 19}
    assert shared.rounds[1].given == {"C": 3, "D": 6}
    assert shared.runtime == {"A": 5, "B": 20, "C": 35, "D": 40}
    assert shared.unused == 0


def test_negative_weight_is_none() -> None:
    """A negative weight counts as none, and does not reduce the sum of weights."""
    assert gets(10, Sharer("a", 9, 0, -600), Sharer("b", 9, 0, 1)) == {"a": 0, "b": 9}


def test_without_scaling() -> None:
    """Without scaling, minimums are granted beyond the available amount, and the result shows it."""
    shared = share(100, [Sharer("a", 90, 40, 1), Sharer("b", 90, 80, 1)], scale=False)

    assert shared.runtime == {"a": 40, "b": 80}
    assert shared.unused == -20


@pytest.mark.parametrize("available", [0, -5])
def test_nothing_there(available: int) -> None:
    """With an available amount of 0 or less, minimums shrink to 0."""
    assert gets(available, Sharer("a", 9, 3, 1), Sharer("b", 0, 0, 1)) == {"a": 0, "b": 0}


def test_less_than_nothing_without_minimums() -> None:
    """A negative amount, because the system uses more than the total, leaves nothing to groups without minimums."""
    assert gets(-1, Sharer("a", 0, 0, 1, lends=False)) == {"a": 0}


def test_numbers_beyond_64_bits() -> None:
    """Sums of weights and products of any size are exact."""
    weight = 2**63

    assert gets(2**64 + 1, Sharer("a", 2**65, 0, weight), Sharer("b", 2**65, 0, weight)) == {"a": 2**63 + 1, "b": 2**63}


def test_nobody() -> None:
    """Without groups everything is unused."""
    assert share(5, []).unused == 5


def test_deal_once_deals_every_unit() -> None:
    """A round divides everything."""
    assert divide(7, [3, 3, 1]) == [3, 3, 1]
    assert sum(divide(10**20 + 1, [10**19, 7, 13])) == 10**20 + 1

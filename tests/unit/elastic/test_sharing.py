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


def test_not_lent() -> None:
    """A group that does not lend its minimum keeps all of it."""
    assert gets(10, Sharer("a", 5, 5, 1, lends=False), Sharer("b", 20, 5, 1)) == {"a": 5, "b": 5}


def test_remainder_goes_to_the_largest() -> None:
    """A unit that cannot be divided goes to the largest remainder."""
    assert gets(10, Sharer("a", 9, 0, 1), Sharer("b", 9, 0, 2)) == {"a": 3, "b": 7}


def test_equal_remainders_go_by_name() -> None:
    """For equal remainders the last units go to the first names."""
    assert gets(5, Sharer("c", 9, 0, 1), Sharer("a", 9, 0, 1), Sharer("b", 9, 0, 1)) == {"a": 2, "b": 2, "c": 1}


def test_no_weight() -> None:
    """A group without weight gets nothing beyond its minimum, even if something is left."""
    shared = share(10, [Sharer("a", 9, 2, 0), Sharer("b", 3, 0, 1)])

    assert shared.runtime == {"a": 2, "b": 3}
    assert shared.unused == 5


def test_negative_weight_is_none() -> None:
    """A negative weight counts as none, and does not reduce the sum of weights."""
    assert gets(10, Sharer("a", 9, 0, -600), Sharer("b", 9, 0, 1)) == {"a": 0, "b": 9}


def test_scaled() -> None:
    """If both minimums and requests exceed the available amount, minimums shrink in proportion, rounded down."""
    shared = share(100, [Sharer("a", 90, 40, 1), Sharer("b", 90, 80, 1)])

    assert shared.min == {"a": 33, "b": 66}
    assert shared.runtime == {"a": 34, "b": 66}


def test_not_scaled_while_nothing_is_short() -> None:
    """Minimums above the available amount do not matter while the requests are smaller."""
    shared = share(15, [Sharer("a", 15, 20, 0), Sharer("b", 0, 20, 1)])

    assert shared.min == {"a": 20, "b": 20}
    assert shared.runtime == {"a": 15, "b": 0}


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


@pytest.mark.parametrize(("requested", "granted"), [(39, 39), (40, 39), (50, 39), (90, 39)])
def test_a_larger_request_without_weight_gets_no_less(requested: int, granted: int) -> None:
    """When minimums begin to be scaled, a group that cannot borrow keeps the part that the others leave."""
    others = [Sharer("b", 61, 50, 1), Sharer("c", 0, 60, 1)]

    assert gets(100, Sharer("a", requested, 40, 0), *others) == {"a": granted, "b": 61, "c": 0}


@pytest.mark.parametrize("requested", [40, 50, 51, 100])
def test_what_cannot_be_borrowed_does_not_count(requested: int) -> None:
    """A request beyond the minimum of a group without weight does not cause a shortage."""
    others = [Sharer("b", 50, 50, 1), Sharer("c", 0, 60, 1)]

    assert gets(100, Sharer("a", requested, 40, 0), *others) == {"a": 40, "b": 50, "c": 0}


def test_what_is_left_goes_back_to_minimums() -> None:
    """If minimums are scaled, groups without weight share the rest of the rounds in proportion to their minimums."""
    shared = share(100, [Sharer("a", 60, 60, 0), Sharer("b", 90, 30, 0), Sharer("c", 22, 60, 1), Sharer("d", 3, 3, 0)])

    assert shared.floor == {"a": 39, "b": 19, "c": 22, "d": 1}
    assert shared.runtime == {"a": 51, "b": 25, "c": 22, "d": 2}
    assert shared.min == {"a": 51, "b": 25, "c": 39, "d": 2}
    assert shared.unused == 0

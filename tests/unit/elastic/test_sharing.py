"""Sharing one resource: floors, rounds, remainders, scaling."""

from __future__ import annotations

from ugm.elastic import Sharer, share


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


def test_numbers_beyond_64_bits() -> None:
    """Sums of weights and products of any size are exact."""
    weight = 2**63

    assert gets(2**64 + 1, Sharer("a", 2**65, 0, weight), Sharer("b", 2**65, 0, weight)) == {"a": 2**63 + 1, "b": 2**63}

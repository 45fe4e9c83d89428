"""The line of waiting jobs before a limit."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ugm.simulation.first_fit import FirstFit

LINES = st.dictionaries(st.integers(0, 2**32 - 1) | st.integers(0, 20), st.integers(1, 9), max_size=20)


def line_of(amounts: dict[int, int]) -> FirstFit[str]:
    """Return a line in which each item is named after its position."""
    line: FirstFit[str] = FirstFit()
    for position, amount in amounts.items():
        line.add(position, amount, f"at {position}")
    return line


@given(LINES, st.integers(0, 10))
def test_first(amounts: dict[int, int], room: int) -> None:
    """The first is the one of the lowest position among those that fit."""
    fitting = [(position, amount) for position, amount in amounts.items() if amount <= room]

    assert line_of(amounts).first(room) == min(fitting, default=None)


@given(LINES)
def test_items(amounts: dict[int, int]) -> None:
    """The items come in the order of their positions."""
    assert list(line_of(amounts).items()) == [(position, f"at {position}") for position in sorted(amounts)]


@given(LINES, st.randoms(use_true_random=False))
def test_leaving(amounts: dict[int, int], source: Random) -> None:
    """Whoever is taken leaves the line as if they had never been there, in whatever order."""
    line = line_of(amounts)
    for position in source.sample(sorted(amounts), len(amounts)):
        assert line.remove(position) == f"at {position}"
        del amounts[position]
        assert len(line) == len(amounts)
        assert [line.first(room) for room in range(10)] == [line_of(amounts).first(room) for room in range(10)]


@given(LINES)
def test_nothing_is_left(amounts: dict[int, int]) -> None:
    """An empty line keeps nothing in memory."""
    line = line_of(amounts)

    for position in amounts:
        line.remove(position)

    assert not line._items
    assert not line._smallest

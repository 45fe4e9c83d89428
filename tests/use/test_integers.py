"""Amounts that are integers of other libraries, such as numpy."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest

from ugm import RequestError, Resource


class Integer:
    """An integer of another library: it has ``__index__``, like those of numpy."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_integers_of_other_libraries_become_ints() -> None:
    """A vector stores an integer of another type as an exact int."""
    vector = Resource({"memory": Integer(2**70)}, vcore=Integer(500))  # type: ignore[dict-item, arg-type]
    assert vector == Resource(memory=2**70, vcore=500)
    assert {type(amount) for amount in vector.values()} == {int}
    assert pickle.loads(pickle.dumps(vector)) == vector  # noqa: S301 - our own bytes


@pytest.mark.parametrize("amount", [True, 1.0, "1", Fraction(1), None])
def test_other_values_are_refused(amount: object) -> None:
    """A bool, a float, a text and a fraction are not amounts."""
    with pytest.raises(RequestError, match="an amount is an int"):
        Resource(vcore=amount)  # type: ignore[arg-type]

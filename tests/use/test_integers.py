"""Amounts that are integers of other libraries, such as numpy."""

from __future__ import annotations

import pickle

from ugm import Resource


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

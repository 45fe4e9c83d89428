"""Laws of all readers of texts: any input ends in a value or in a documented error, in bounded time."""

from __future__ import annotations

import time
from random import Random
from typing import Final

import pytest
from hypothesis import settings

from support.examples import examples
from support.text_inputs import FAMILIES, LARGE, READERS, allowed, families, mutated, read

QUICK: Final = settings(max_examples=examples(200), deadline=None)
#: How many mutated inputs each reader gets in a long run: together more than 100,000.
MANY: Final = 10_000


def _mutations(name: str, number: int, seed: int) -> None:
    random, reader = Random(seed), READERS[name]
    for _ in range(number):
        text = mutated(random, reader.seeds)
        assert read(reader, text) <= allowed(1), text[:2000]


@pytest.mark.parametrize("number", [1, pytest.param(30, marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", READERS)
def test_mutated_inputs(name: str, number: int) -> None:
    """A document with edits is read, or refused with a documented error, in bounded time."""
    _mutations(name, number, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("name", READERS)
def test_many_mutated_inputs(name: str) -> None:
    """The same, for long."""
    _mutations(name, MANY, seed=time.time_ns())


@pytest.mark.ci
@pytest.mark.parametrize(("name", "of", "text"), FAMILIES, ids=[f"{name}: {of}" for name, of, _ in FAMILIES])
def test_costly_inputs(name: str, of: str, text: str) -> None:
    """Texts of 64 KiB that are made to take long do not."""
    assert read(READERS[name], text, check=False) <= allowed(1), of


@pytest.mark.deep
@pytest.mark.parametrize("size", [2**21, LARGE])
def test_large_costly_inputs(size: int) -> None:
    """Texts of up to 8 MiB, and texts with as many values as are read, take bounded time as well."""
    slow = {
        (name, of): took
        for name, of, text in families(size)
        if (took := read(READERS[name], text, check=False)) > allowed(5)
    }

    assert slow == {}

"""Laws of all readers of texts: any input ends in a value or in a documented error, in bounded time."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.text_inputs import FAMILIES, LARGE, READERS, allowed, families, mutated, read
from ugm import RequestError
from ugm.queues.patterns import compile_pattern

QUICK: Final = settings(max_examples=examples(200), deadline=None)
#: How many mutated inputs each reader gets in a long run: together more than 100,000.
MANY: Final = 10_000
#: What patterns are made of.
SIGNS: Final = (*"ab-.^$|()*+?", "[ab]", "[^a-c]", r"\w", r"\b", r"\B", "{0,3}", "{2}", "{40}", "(?:", "(?i:", "(?i)")


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


@settings(QUICK, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(SIGNS), max_size=200).map("".join),
    st.text("ab-", min_size=256, max_size=256) | st.text(max_size=256),
)
def test_any_pattern(pattern: str, text: str) -> None:
    """No pattern takes long for a name, not even when it is used for the first time."""
    matcher = None
    with suppress(RequestError):
        matcher = compile_pattern(pattern)
    began = time.thread_time()
    if matcher is not None:
        matcher.search(text)
    assert time.thread_time() - began <= allowed(0.05)

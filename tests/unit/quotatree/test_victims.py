"""The two policies that choose victims."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ugm import RequestError, Resource
from ugm.quotatree import ConsumerInfo, TreeRequest, fewest, first_found
from ugm.quotatree._node import Consumer, Rank
from ugm.quotatree._packed import Packing

RESOURCES = ("cpu", "memory")


def candidate(number: int, cpu: int, memory: int, priority: int = 0) -> Consumer:
    """Return a consumer that may be preempted."""
    entry = TreeRequest("T", "L", Resource(cpu=cpu, memory=memory), priority)
    return Consumer(ConsumerInfo(f"c{number}", [entry]), entry, Packing(RESOURCES), Rank(*entry[3:]), None)


candidates = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)), max_size=7).map(
    lambda drawn: [candidate(number, *item) for number, item in enumerate(drawn)]
)
wants = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda two: tuple(enumerate(two)))


def suffices(chosen: tuple[Consumer, ...], amounts: tuple[tuple[int, int], ...]) -> bool:
    """Return whether some victims free the requested amounts."""
    return all(sum(dict(c.amounts).get(index, 0) for c in chosen) >= amount for index, amount in amounts)


@given(candidates, wants)
def test_fewest_and_lowest(listed: list[Consumer], amounts: tuple[tuple[int, int], ...]) -> None:
    """No smaller set suffices, and none of the same size has lower priorities."""
    chosen = fewest(listed, amounts, [0, 0])
    if not any(amount for _, amount in amounts):
        return
    sets = [c for size in range(1, len(listed) + 1) for c in combinations(listed, size) if suffices(c, amounts)]

    def cost(victims: tuple[Consumer, ...]) -> tuple[int, list[int]]:
        return len(victims), sorted((victim.rank.priority for victim in victims), reverse=True)

    assert (chosen is None) == (not sets)
    assert chosen is None or cost(tuple(chosen)) == min(map(cost, sets))


@given(candidates, wants)
def test_first_found_is_a_beginning(listed: list[Consumer], amounts: tuple[tuple[int, int], ...]) -> None:
    """MCAD takes the shortest beginning of the list that suffices, at least one."""
    chosen = first_found(listed, amounts, [0, 0])
    least = next((n for n in range(1, len(listed) + 1) if suffices(tuple(listed[:n]), amounts)), None)

    assert chosen == (None if least is None else listed[:least])


def test_many_candidates_of_one_resource() -> None:
    """Among very many candidates, too, the fewest are found, and exchanged for others of lower priority."""
    listed = [candidate(n, 1 + n % 3, 0, n % 2) for n in range(60)]
    chosen = fewest(listed, ((0, 30),), [0, 0]) or []

    assert len(chosen) == 10
    assert [victim.rank.priority for victim in chosen] == [0] * 10


def test_many_candidates_that_do_not_suffice() -> None:
    """No candidate is taken if all together do not suffice."""
    assert fewest([candidate(n, 1, 0) for n in range(60)], ((0, 61),), [0, 0]) is None


def test_the_last_arrival_goes_first() -> None:
    """Among candidates of one size and priority the last arrival is taken."""
    listed = [candidate(0, 1, 0), candidate(1, 1, 0)]

    assert fewest(listed, ((0, 1),), [0, 0]) == listed[1:]


@pytest.mark.parametrize(
    ("argument", "candidates", "amounts", "free"),
    [
        ("candidates", 5, (), []),
        ("candidates", [5], ((0, 1),), [0]),
        ("amounts", [], 5, []),
        ("amounts", [], ((0, 1),), []),
        ("amounts", [], ((0, 1, 2),), [0]),
        ("amounts", [], (("cpu", 1),), [0]),
        ("free", [], (), 5),
        ("free", [], (), ["cpu"]),
    ],
)
def test_arguments_of_wrong_types(argument: str, candidates: Any, amounts: Any, free: Any) -> None:  # noqa: ANN401 - what is tested
    """A policy refuses arguments of the wrong type."""
    for policy in (fewest, first_found):
        with pytest.raises(RequestError, match=f"^{argument} "):
            policy(candidates, amounts, free)

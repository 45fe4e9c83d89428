"""Every recorded scenario of quota trees in the original quota manager, every field of every step.

They are replayed by a manager that keeps the habits of the original which ours does not have by itself (see
`docs/quotatree.md`); `test_quotatree_differences.py` is about those, and about what is done instead of its defects.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from conformance import vectors
from quotatree import Replay, agree

_NO_QUANTITY = "a quota that is no whole number, or more than 64 bits hold, is refused and not taken for another"

#: Scenarios in which the original does something else on purpose of ours: how many steps agree (-1: not even the
#: documents), and why not more.
DIFFERENCES: Final = {
    **{f"quota value {number:02}": (-1, _NO_QUANTITY) for number in (4, 5, 6, 7, 8, 10, 11, 12, 14, 20, 21)},
    "consumer documents": (59, "a key that nearly is 'trees' is refused"),
    "cache methods": (12, "of several nodes of which one is malformed none is added"),
    "tree in two forests": (4, "a tree belongs to one forest"),
    "empty forest": (3, "nobody is allocated on an empty forest before asking"),
    "chained rename before one update": (7, "consumers go with their node through a chain of renames"),
    "swap names through a third": (9, "consumers go with their node when names are swapped"),
    "resource exchanged with consumers in place": (6, "what is held of a resource is not taken for another resource"),
    "resource names in the cache only": (5, "an edit takes effect with the update, and not for requests before"),
}


def scenarios(name: str) -> list[Any]:
    """Return the scenarios of one file, each with its name as its id."""
    return [pytest.param(scenario, id=scenario["name"]) for scenario in vectors(f"quotatree/{name}")]


def check(scenario: dict[str, Any]) -> Replay:
    """Replay a scenario and compare every answer with the recorded one, as far as the two are to agree."""
    replay = Replay(scenario)
    broken = scenario.get("bookkeeping", {}).get("broken_after_step", len(scenario["steps"]))
    steps, _ = DIFFERENCES.get(scenario["name"], (broken, ""))
    if steps >= 0:
        assert replay.setup == scenario["setup"]
    for number, step in enumerate(scenario["steps"]):
        answer = replay.answer(step)

        assert number >= steps or agree(answer, step["result"]), f"step {number}: {step}\n{answer}"
    replay.manager.verify()
    return replay


@pytest.mark.parametrize("scenario", scenarios("single_tree"))
def test_single_tree(scenario: dict[str, Any]) -> None:
    """On one tree, requests are granted, moved, preempted and rejected as in the original, in the same order."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("forest"))
def test_forest(scenario: dict[str, Any]) -> None:
    """On forests, requests are granted on all trees or on none."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("update"))
def test_update(scenario: dict[str, Any]) -> None:
    """After edits and an update, consumers are where the original has them."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("undo"))
def test_undo(scenario: dict[str, Any]) -> None:
    """A try that is undone leaves what was there before."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("corners"))
def test_corners(scenario: dict[str, Any]) -> None:
    """Each rule by itself, documents and life cycles are as in the original."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("quirks"))
def test_quirks(scenario: dict[str, Any]) -> None:
    """Answers agree until the original contradicts itself, and from there on nothing here does."""
    replay = check(scenario)

    for name in replay.manager.get_tree_names():
        for consumer_id, consumer in replay.manager.view(name).consumers.items():
            assert replay.manager.is_allocated(name, consumer_id)
            assert consumer.node

"""Every recorded scenario of quota trees in MCAD, every field of every step.

They are replayed twice. A manager that keeps two habits of MCAD (`requeue_rejected`, `check_unrequested`; see
`docs/explanation/quotatree.md`) agrees in every step. One without them agrees up to the first step at which one of them
matters. `test_differences.py` has the tests of those two, and of what replaces the defects of MCAD.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support.quotatree_replay import Replay, agree, habits_in, steps_to_compare
from support.vectors import SAMPLE, cases, vectors

#: All files of recordings.
FILES: Final = ("single_tree", "forest", "update", "undo", "corners", "quirks")


def scenarios(name: str, *, sample: int | None = None) -> list[Any]:
    """Return the scenarios of one file, each with its name as its id."""
    return cases(vectors(f"quotatree/{name}"), sample=sample or (1 if name == "quirks" else SAMPLE))


def check(scenario: Mapping[str, Any]) -> Replay:
    """Replay a scenario and compare every answer with the recorded one, as far as the two are to agree."""
    replay = Replay(scenario)
    steps = steps_to_compare(scenario)
    if steps >= 0:
        assert replay.setup == scenario["setup"]
    for number, step in enumerate(scenario["steps"]):
        answer = replay.answer(step)

        assert number >= steps or agree(answer, step["result"]), f"step {number}: {step}\n{answer}"
    replay.manager.verify()
    return replay


ALL = [case for name in FILES for case in scenarios(name, sample=2 * SAMPLE)]


@pytest.mark.parametrize("scenario", ALL)
def test_without_habits(scenario: Mapping[str, Any]) -> None:
    """Without the habits of MCAD, answers agree up to the first step at which one of them matters."""
    replay = Replay(scenario, requeue_rejected=False, check_unrequested=False)
    for number, step in enumerate(scenario["steps"][: max(steps_to_compare(scenario), 0)]):
        if not agree(replay.answer(step), step["result"]):
            assert habits_in(scenario["steps"][: number + 1], scenario), f"step {number}: {step}"
            break
    replay.manager.verify()


@pytest.mark.parametrize("scenario", scenarios("single_tree"))
def test_single_tree(scenario: Mapping[str, Any]) -> None:
    """On one tree, requests are granted, moved, preempted and rejected as in MCAD, in the same order."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("forest"))
def test_forest(scenario: Mapping[str, Any]) -> None:
    """On forests, requests are granted on all trees or on none."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("update"))
def test_update(scenario: Mapping[str, Any]) -> None:
    """After edits and an update, consumers are where MCAD has them."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("undo"))
def test_undo(scenario: Mapping[str, Any]) -> None:
    """A try that is undone leaves what was there before."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("corners"))
def test_corners(scenario: Mapping[str, Any]) -> None:
    """Each rule by itself, documents and life cycles are as in MCAD."""
    check(scenario)


@pytest.mark.parametrize("scenario", scenarios("quirks"))
def test_quirks(scenario: Mapping[str, Any]) -> None:
    """Answers agree until MCAD contradicts itself, and from there on nothing here does."""
    replay = check(scenario)

    for name in replay.manager.get_tree_names():
        for consumer_id, consumer in replay.manager.view(name).consumers.items():
            assert replay.manager.is_allocated(name, consumer_id)
            assert consumer.node

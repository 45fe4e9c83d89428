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


@pytest.mark.parametrize("scenario", [case for name in FILES for case in scenarios(name)])
def test_with_habits(scenario: Mapping[str, Any]) -> None:
    """With the habits of MCAD, answers agree until MCAD contradicts itself, and from there on nothing here does."""
    replay = Replay(scenario)
    steps = steps_to_compare(scenario)
    if steps >= 0:
        assert replay.setup == scenario["setup"]
    for number, step in enumerate(scenario["steps"]):
        answer = replay.answer(step)

        assert number >= steps or agree(answer, step["result"]), f"step {number}: {step}\n{answer}"
    replay.manager.verify()
    for name in replay.manager.get_tree_names():
        for consumer_id, consumer in replay.manager.view(name).consumers.items():
            assert replay.manager.is_allocated(name, consumer_id)
            assert consumer.node

"""The ranking of share trees: figures of SchedMD Slurm and flux-accounting, and exact ones for random trees."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from support.vectors import cases, of_visible_folder, vectors
from ugm.fairness import INFINITE, FairRank, Level, ShareTree

CASES = cases(vectors("fairshare/fair_tree"), name="id", sample=4)


def exact(text: str) -> Level:
    """Return the level of a text."""
    return INFINITE if text == "inf" else Fraction(text)


def rank_of(case: Mapping[str, Any]) -> FairRank:
    """Return the order of the users of a case."""
    nodes = case["tree"]
    accounts = {node["path"]: node["shares"] for node in nodes if node["kind"] == "account"}
    users = {node["path"]: node["shares"] for node in nodes if node["kind"] == "user"}
    return ShareTree(accounts, users).rank({path: node["usage"] for node in nodes if (path := node["path"]) in users})


@pytest.mark.parametrize("case", CASES)
def test_order(case: Mapping[str, Any]) -> None:
    """The tie groups and ranks are the recorded ones."""
    rank, expected = rank_of(case), case["expect"]

    assert [list(group) for group in rank.order] == expected["order"]
    assert {path: rank.rank(path) for path in expected["ranks"]} == expected["ranks"]


@pytest.mark.parametrize("case", CASES)
def test_levels(case: Mapping[str, Any]) -> None:
    """The shares, usages and levels of all nodes are the recorded ones."""
    rank = rank_of(case)

    for path, expected in case["expect"]["levels"].items():
        node = rank.node(path)
        share = None if expected["shares_norm"] is None else Fraction(expected["shares_norm"])
        assert (node.usage, node.share, node.used) == (expected["usage"], share, Fraction(expected["usage_norm"]))
        assert node.level == exact(expected["level"])


@pytest.mark.parametrize("case", CASES)
def test_explanations(case: Mapping[str, Any]) -> None:
    """The order of two users is explained by the recorded comparisons."""
    rank = rank_of(case)

    for pair in case.get("explain", ()):
        explained = rank.explain(pair["a"], pair["b"])
        assert (explained.account, explained.verdict) == (pair["ancestor"], pair["verdict"])
        assert [
            (step.first.path, step.second.path, step.first.level, step.second.level) for step in explained.steps
        ] == [(step["a"], step["b"], exact(step["level_a"]), exact(step["level_b"])) for step in pair["steps"]]


@of_visible_folder
def test_all_cases_are_there() -> None:
    """The files have the cases that they are said to have."""
    assert len(CASES) >= 276

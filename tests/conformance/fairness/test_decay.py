"""Decayed usage: figures of flux-accounting, Kueue and OpenPBS, and exact ones for random histories."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from support.vectors import RecordedCase, cases, of_visible_folder, vectors
from ugm.fairness import BinnedUsage, ContinuousUsage, bins_for
from ugm.fairness.usage_history import CostRate

ALL = vectors("fairshare/decay")


def of_kind(kind: str) -> list[Any]:
    """Return the cases of a kind as parameters."""
    found: list[RecordedCase] = [case for case in ALL if case["kind"] == kind]
    return cases(found, name="id", sample=4)


def exact(amounts: Mapping[str, str]) -> dict[str, Fraction]:
    """Return amounts that are written as texts."""
    return {name: Fraction(text) for name, text in amounts.items()}


def play(usage: Any, case: Mapping[str, Any], until: int, done: int) -> int:  # noqa: ANN401 - either class
    """Apply everything up to a time except what is *done*, and return how much is done then."""
    steps: list[tuple[int, int, str, tuple[Any, ...]]] = [
        (run["start"], 0, "start", (run["id"], run["owner"], run["usage"])) for run in case["runs"]
    ]
    steps += [(run["end"], 1, "stop", (run["id"],)) for run in case["runs"] if run["end"] is not None]
    lumps = case.get("lumps", ())
    steps += [(lump["at"], 0, "add", (lump["owner"], Fraction(lump["amount"]))) for lump in lumps]
    due = [step for step in sorted(steps, key=lambda step: step[:2]) if step[0] <= until]
    for at, _, method, arguments in due[done:]:
        getattr(usage, method)(*arguments, at)
    return len(due)


@pytest.mark.parametrize("case", of_kind("binned"))
def test_binned(case: Mapping[str, Any]) -> None:
    """Bins and values are exact at every query, while runs go on."""
    shape = {"bin": case["bin"], "bins": case["bins"], "anchor": case["anchor"]}
    usage, done = BinnedUsage(decay=Fraction(case["decay"]), weights=exact(case["weights"]), **shape), 0
    for query in case["queries"]:
        done = play(usage, case, query["at"], done)
        for owner, expected in query["expect"].items():
            assert usage.bins(owner, query["at"]) == tuple(map(Fraction, expected["bins"]))
            assert usage.value(owner, query["at"]) == Fraction(expected["value"])


@pytest.mark.parametrize("case", of_kind("continuous"))
def test_continuous(case: Mapping[str, Any]) -> None:
    """Values and averages are the recorded ones to 20 digits, whatever was read before."""
    usage, done = ContinuousUsage(half_life=case["half_life"], weights=exact(case["weights"])), 0
    for query in case["queries"]:
        done = play(usage, case, query["at"], done)
        for owner, expected in query["expect"].items():
            for found, wanted in (
                (usage.value(owner, query["at"]), Fraction(expected["value"])),
                (usage.average(owner, query["at"]), Fraction(expected["average"])),
            ):
                assert abs(found - wanted) <= wanted / 10**20 + Fraction(1, 10**20)


@pytest.mark.parametrize("case", of_kind("cost"))
def test_cost(case: Mapping[str, Any]) -> None:
    """The cost is the weighted sum of the amounts times the seconds."""
    rate = CostRate(exact(case["weights"]))
    assert Fraction(rate.of(case["usage"]) * case["seconds"], rate.denominator) == Fraction(case["expect"])


@pytest.mark.parametrize("case", of_kind("bins"))
def test_bins(case: Mapping[str, Any]) -> None:
    """The bins of one half-life cover the reset period."""
    assert bins_for(case["reset"], case["half_life"]) == case["expect"]


@of_visible_folder
def test_all_cases_are_there() -> None:
    """The file has the cases that it is said to have."""
    assert len(ALL) >= 82

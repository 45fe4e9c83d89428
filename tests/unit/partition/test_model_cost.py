"""The cost of quota models: an allocation with a model that always allows takes a bounded number of instructions."""

from __future__ import annotations

from collections.abc import Callable
from runpy import run_path
from typing import Final

from support.partition_fixtures import SUE, memory, partition_of
from support.places import ROOT
from ugm import Claim, QuotaModel, Resource
from ugm.budgets import Budget, Budgets, Period

bytecodes: Final[Callable[..., int]] = run_path(str(ROOT / "tests" / "benchmarks" / "counting.py"))["bytecodes"]

#: Half a step of the plainest loop that counts users and groups.
HALF_A_STEP: Final = 378
COUNT: Final = 20
#: November 23, 2026, at noon in UTC.
NOON: Final = 1_795_435_200


class Allowing:
    """A model that always allows."""

    def check(self, _claim: Claim) -> tuple[()]:
        """Allow."""
        return ()

    def charge(self, _claim: Claim) -> None:
        """Count nothing."""

    def refund(self, _claim: Claim) -> None:
        """Count nothing."""


def instructions(*models: QuotaModel, duration: int | None = None) -> int:
    """Return the instructions of an allocation of a running application."""
    # The clock stands still: an allocation does not also have to advance the budgets by a second.
    config = "{name: a, resources: {max: {memory: 1Gi}}}"
    partition, usage = partition_of(config, models=models, clock=lambda: NOON), memory(1)
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("first", "app", usage, duration=duration)

    def allocate() -> None:
        for number in range(COUNT):
            assert partition.allocate(str(number), "app", usage, duration=duration)

    return bytecodes(allocate) // COUNT


def test_a_model_that_allows() -> None:
    """It adds at most half a step to an allocation."""
    assert instructions(Allowing()) - instructions() <= HALF_A_STEP


def test_three_budgets() -> None:
    """Budgets of the user, the group and the queue add at most 2.1 steps to an allocation.

    This includes the cost of the promise, which an allocation without budgets does not need.
    """
    amounts = Resource(memory=2**60)
    budgets = Budgets(
        [
            Budget("user", user="*", amounts=amounts, period=Period.MONTH),
            Budget("group", group="*", amounts=amounts, period=Period.DAY, zone="Europe/Berlin"),
            Budget("queue", amounts=amounts),
        ]
    )

    assert instructions(budgets, duration=60) - instructions() <= 4.2 * HALF_A_STEP

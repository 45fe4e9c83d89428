"""A model can be replaced after a failed attempt, and models with owners of equal names are listed separately."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.partition_fixtures import SUE, config
from ugm import Claim, Partition, Resource
from ugm.decision import EffectiveLimit, Violation
from ugm.model import ReportingModel

ONE = Resource(licence=1)


class Licences(ReportingModel):
    """Counts licences; it may fail for one allocation."""

    def __init__(self) -> None:
        self.used = 0
        self.failing = ""

    def check(self, claim: Claim) -> Iterable[Violation]:  # noqa: ARG002 - the interface
        """Allow everything."""
        return ()

    def charge(self, claim: Claim) -> None:
        """Count, or fail."""
        if claim.allocation_id == self.failing:
            raise OSError(claim.allocation_id)
        self.used += claim.usage["licence"]

    def refund(self, claim: Claim) -> None:
        """Count back."""
        self.used -= claim.usage["licence"]

    def reset(self) -> None:
        """Forget everything."""
        self.used = 0

    def all_limits(self) -> Iterable[EffectiveLimit]:
        """Return one limit, with a usage only if there is one."""
        usage = Resource(licence=self.used) if self.used else Resource()
        return [EffectiveLimit("licences", "solver", "", "", "", Resource(licence=10), 0, usage, 0)]


def filled(*models: Licences) -> Partition:
    """Return a partition with three allocations."""
    partition = Partition(config("{name: a}"), models=models)
    partition.submit("app", SUE, "root.a")
    for number in range(3):
        partition.allocate(f"a-{number}", "app", ONE)
    return partition


def test_repeated_replacement() -> None:
    """A model that has failed halfway is charged once by the next attempt."""
    old, new = Licences(), Licences()
    partition = filled(old)
    new.failing = "a-2"
    with pytest.raises(OSError, match="a-2"):
        partition.replace_model(old, new)
    new.failing = ""
    partition.replace_model(old, new)
    partition.verify()
    assert new.used == 3

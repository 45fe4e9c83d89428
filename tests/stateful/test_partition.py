"""The partition against the naive model, step by step, alone and with another quota model beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Literal

import pytest
from hypothesis import settings

from ugm.decision import Violation
from ugm.model import Claim, QuotaModel
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=50, stateful_step_count=30)
DEEP: Final = settings(max_examples=2000, stateful_step_count=60)


class Licences:
    """As many allocations as there are licences."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    def check(self, claim: Claim) -> Iterator[Violation]:
        """Name the licences if there is none left."""
        if self.taken >= self.most:
            yield Violation("licence", claim.user.name, "", "", "licences", self.most, self.taken, 1)

    def charge(self, _: Claim) -> None:
        """Take one."""
        self.taken += 1

    def refund(self, _: Claim) -> None:
        """Give it back."""
        self.taken -= 1


class Backlog:
    """Who asks for more than six of memory altogether gets nothing more; knows every claim by its id."""

    def __init__(self) -> None:
        self.charged: dict[str, Claim] = {}
        self.waiting: dict[str, Claim] = {}

    def check(self, claim: Claim) -> Iterator[Violation]:
        """Name the user who waits for too much besides this."""
        mine = [one for one in self.waiting.values() if one.user.name == claim.user.name and one[0] != claim[0]]
        asked = sum(one.usage.get("memory", 0) for one in mine)
        if asked > 6:
            yield Violation("backlog", claim.user.name, "", "", "memory", 6, asked, 0)

    def charge(self, claim: Claim) -> None:
        """Note a claim, which must be new."""
        assert self.charged.setdefault(claim.allocation_id, claim) is claim

    def refund(self, claim: Claim) -> None:
        """Strike the same claim."""
        assert self.charged.pop(claim.allocation_id) == claim

    def expect(self, claim: Claim) -> None:
        """Note a claim that waits, which must be new."""
        assert self.waiting.setdefault(claim.allocation_id, claim) is claim

    def forget(self, claim: Claim) -> None:
        """Strike the same claim."""
        assert self.waiting.pop(claim.allocation_id) == claim


class LenientMachine(PartitionMachine):
    """Users with limits of their own are held to those alone."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"


class BesideMachine(PartitionMachine):
    """Other quota models have a say."""

    def make_models(self) -> Sequence[QuotaModel]:
        """Return one that counts, and one that looks at what is waiting."""
        return [Licences(4), Backlog()]


class LenientBesideMachine(BesideMachine):
    """Both."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"


class DeepMachine(PartitionMachine):
    """The same for much longer."""


class DeepLenientMachine(LenientMachine):
    """The same for much longer."""


class DeepBesideMachine(BesideMachine):
    """The same for much longer."""


class DeepLenientBesideMachine(LenientBesideMachine):
    """The same for much longer."""


TestPartition = PartitionMachine.TestCase
TestPartition.settings = SMALL
TestLenient = LenientMachine.TestCase
TestLenient.settings = SMALL
TestBeside = BesideMachine.TestCase
TestBeside.settings = SMALL
TestLenientBeside = LenientBesideMachine.TestCase
TestLenientBeside.settings = SMALL
TestDeepPartition = pytest.mark.deep(DeepMachine.TestCase)
TestDeepPartition.settings = DEEP
TestDeepLenient = pytest.mark.deep(DeepLenientMachine.TestCase)
TestDeepLenient.settings = DEEP
TestDeepBeside = pytest.mark.deep(DeepBesideMachine.TestCase)
TestDeepBeside.settings = DEEP
TestDeepLenientBeside = pytest.mark.deep(DeepLenientBesideMachine.TestCase)
TestDeepLenientBeside.settings = DEEP

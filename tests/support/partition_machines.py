"""Variants of the state machine of partitions, and the additional quota models of some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from ugm.decision import Violation
from ugm.model import Claim, QuotaModel
from ugm.testing import PartitionMachine

__all__ = ["BesideMachine", "LenientMachine", "Licences"]


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
    """Who waits for more than six of memory gets nothing; knows every claim, and takes none twice."""

    def __init__(self) -> None:
        self.charged: dict[str, Claim] = {}
        self.waiting: dict[str, Claim] = {}

    def check(self, claim: Claim) -> Iterator[Violation]:
        """Return the user who also waits for too much."""
        mine = [one for one in self.waiting.values() if one.user.name == claim.user.name and one[0] != claim[0]]
        requested = sum(one.usage.get("memory", 0) for one in mine)
        if requested > 6:
            yield Violation("backlog", claim.user.name, "", "", "memory", 6, requested, 0)

    def charge(self, claim: Claim) -> None:
        """Note a claim, which must be new."""
        assert self.charged.setdefault(claim.allocation_id, claim) is claim

    def refund(self, claim: Claim) -> None:
        """Strike the same claim."""
        assert self.charged.pop(claim.allocation_id) == claim

    def add_pending(self, claim: Claim) -> None:
        """Note a claim that waits, which must be new."""
        assert self.waiting.setdefault(claim.allocation_id, claim) is claim

    def remove_pending(self, claim: Claim) -> None:
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

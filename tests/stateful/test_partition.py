"""The partition against the naive model, step by step, alone and with an additional quota model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

import pytest
from hypothesis import settings

from support.examples import examples
from support.law_partitions import Backlog, Licences
from ugm import Partition
from ugm.configuration import PartitionConfig
from ugm.model import QuotaModel
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=max(10, examples(40)), stateful_step_count=30)
FEWER: Final = settings(SMALL, max_examples=max(5, examples(40)))


class LenientMachine(PartitionMachine):
    """Users with limits of their own are held to those alone."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"


class BesideMachine(PartitionMachine):
    """Other quota models have a say."""

    def make_models(self) -> Sequence[QuotaModel]:
        """Return one that counts, and one that looks at what is waiting."""
        return [Licences(4), Backlog()]


class FollowedMachine(PartitionMachine):
    """Somebody is told of everything, which takes other ways through the partition."""

    def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> Partition:
        """Return a partition that is followed."""
        return Partition(
            config,
            models=models,
            group_limits=self.group_limits,
            subscribers=[lambda _number, _events: None],
            clock=self.clock,
        )


class LenientBesideMachine(BesideMachine):
    """Both."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"


TestPartition = PartitionMachine.TestCase
TestPartition.settings = SMALL
TestLenient = LenientMachine.TestCase
TestLenient.settings = FEWER
TestBeside = BesideMachine.TestCase
TestBeside.settings = FEWER
TestFollowed = pytest.mark.ci(FollowedMachine.TestCase)
TestFollowed.settings = SMALL
TestLenientBeside = pytest.mark.ci(LenientBesideMachine.TestCase)
TestLenientBeside.settings = SMALL

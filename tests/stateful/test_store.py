"""A partition with a store against the naive model of partitions, step by step, closed and opened again between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from support.examples import examples
from support.partition_machines import BesideMachine, LenientMachine
from support.random_changes import state_of
from ugm.configuration import PartitionConfig
from ugm.model import QuotaModel
from ugm.store import StoredPartition, open_partition
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=examples(20), stateful_step_count=30)


class StoreMachine(PartitionMachine):
    """A partition that is closed and opened again at any moment."""

    def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> StoredPartition:
        """Return a partition with a new store."""
        self.folder = TemporaryDirectory()
        return self.opened(config, models)

    def opened(self, config: PartitionConfig | None, models: Sequence[QuotaModel]) -> StoredPartition:
        """Open the store."""
        partition = self.stored = open_partition(
            Path(self.folder.name) / "store",
            config,
            models=models,
            group_limits=self.group_limits,
            clock=lambda: self.clock() + 0.999,
        )
        return partition

    @rule()
    def reopen(self) -> None:
        """What is opened again is what was closed."""
        before, number = state_of(self.stored), self.stored.store.number
        self.stored.close()
        self.models = self.make_models()
        self.partition = self.opened(None, self.models)
        assert state_of(self.partition) == before
        assert self.stored.store.number == number

    def teardown(self) -> None:
        """Close the store and remove it."""
        if hasattr(self, "stored"):
            self.stored.close()
            self.folder.cleanup()


class VariantMachine(LenientMachine, BesideMachine, StoreMachine):
    """Other quota models are charged again whenever the store is opened, and users have only limits of their own."""


TestStore = StoreMachine.TestCase
TestStore.settings = SMALL
TestVariant = pytest.mark.ci(VariantMachine.TestCase)
TestVariant.settings = SMALL

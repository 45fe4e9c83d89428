"""A partition with a journal against the naive model of partitions, step by step, closed and opened again between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, Literal, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from support.examples import examples
from support.law_partitions import Backlog, Licences
from support.random_changes import state_of
from ugm.configuration import PartitionConfig
from ugm.journal import JournaledPartition, open_partition
from ugm.model import QuotaModel
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=examples(20), stateful_step_count=30)
DEEP: Final = settings(max_examples=300, stateful_step_count=50)


class JournalMachine(PartitionMachine):
    """A partition that is closed and opened again at any moment."""

    durability: ClassVar[Literal["each", "group"]] = "each"

    def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> JournaledPartition:
        """Return a partition with a new journal."""
        self.folder = TemporaryDirectory()
        return self.opened(config, models)

    def opened(self, config: PartitionConfig | None, models: Sequence[QuotaModel]) -> JournaledPartition:
        """Open the journal."""
        partition = open_partition(
            Path(self.folder.name) / "journal",
            config,
            durability=self.durability,
            models=models,
            group_limits=self.group_limits,
            clock=lambda: self.clock() + 0.999,
        )
        self.journal = partition.journal
        return partition

    @rule(compacts=st.booleans())
    def reopen(self, *, compacts: bool) -> None:
        """What is opened again is what was closed, whether or not its changes have made way for its state."""
        before, number = state_of(cast("JournaledPartition", self.partition)), self.journal.number
        if compacts:
            self.journal.compact()
        self.journal.close()
        self.models = self.make_models()
        self.partition = self.opened(None, self.models)
        assert state_of(self.partition) == before
        assert self.journal.number == number

    def teardown(self) -> None:
        """Close the journal and remove it."""
        if hasattr(self, "journal"):
            self.journal.close()
            self.folder.cleanup()


class GroupMachine(JournalMachine):
    """Commits are shared, and users with limits of their own are held to those alone."""

    durability: ClassVar[Literal["each", "group"]] = "group"
    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"


class BesideMachine(JournalMachine):
    """Other quota models have a say, and are charged again whenever the journal is opened."""

    def make_models(self) -> Sequence[QuotaModel]:
        """Return one that counts, and one that looks at what is waiting."""
        return [Licences(4), Backlog()]


class DeepMachine(JournalMachine):
    """The same for much longer."""


class DeepGroupMachine(GroupMachine):
    """The same for much longer."""


class DeepBesideMachine(BesideMachine):
    """The same for much longer."""


TestJournal = JournalMachine.TestCase
TestJournal.settings = SMALL
TestGroup = GroupMachine.TestCase
TestGroup.settings = SMALL
TestBeside = pytest.mark.ci(BesideMachine.TestCase)
TestBeside.settings = SMALL
TestDeepJournal = pytest.mark.deep(DeepMachine.TestCase)
TestDeepJournal.settings = DEEP
TestDeepGroup = pytest.mark.deep(DeepGroupMachine.TestCase)
TestDeepGroup.settings = DEEP
TestDeepBeside = pytest.mark.deep(DeepBesideMachine.TestCase)
TestDeepBeside.settings = DEEP

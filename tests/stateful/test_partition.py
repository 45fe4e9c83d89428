"""The partition against the naive model, step by step: in memory, with quota models, with a store, of a service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, Literal

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from support.examples import examples
from support.partition_fixtures import Seats
from support.random_changes import state_of
from support.service_fixtures import client_of_service
from ugm.configuration import PartitionConfig
from ugm.decision import Violation
from ugm.model import Claim, QuotaModel
from ugm.partition import AbstractPartition
from ugm.store import StoredPartition, open_partition
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=max(10, examples(40)), stateful_step_count=30)
#: With a store or a service.
SLOW: Final = settings(max_examples=examples(20), stateful_step_count=30)


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
        return [Seats(4), Backlog()]


class LenientBesideMachine(LenientMachine, BesideMachine):
    """Both."""


TestPartition = PartitionMachine.TestCase
TestPartition.settings = SMALL
TestLenientBeside = LenientBesideMachine.TestCase
TestLenientBeside.settings = SMALL


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
TestStore.settings = SLOW
TestVariant = pytest.mark.ci(VariantMachine.TestCase)
TestVariant.settings = SLOW


class RemoteMachine(PartitionMachine):
    """A partition of a service."""

    #: The leader has a clock of its own.
    reads_clock: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._service = ExitStack()

    def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> AbstractPartition:
        """Return a client of a new service."""
        return self._service.enter_context(client_of_service(config, models=models, group_limits=self.group_limits))

    def teardown(self) -> None:
        """Stop the service."""
        self._service.close()


TestRemote = RemoteMachine.TestCase
TestRemote.settings = SLOW

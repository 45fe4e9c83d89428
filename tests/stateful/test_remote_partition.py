"""A client of a service against the naive model, step by step: every call is a message to a leader in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar, Final

from hypothesis import settings

from support.examples import examples
from support.service_fixtures import client_of_service
from ugm.configuration import PartitionConfig
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=examples(20), stateful_step_count=30)


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
TestRemote.settings = SMALL

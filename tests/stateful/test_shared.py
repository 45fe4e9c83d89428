"""The shared partition against the naive model of partitions, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import pytest
from hypothesis import settings

from support.postgres import Server, shared_server
from ugm.configuration import PartitionConfig
from ugm.model import QuotaModel
from ugm.testing import PartitionMachine

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

from ugm.shared import SharedPartition

pytestmark = pytest.mark.ci

__all__ = ["shared_server"]

SMALL: Final = settings(max_examples=5, stateful_step_count=15)
DEEP: Final = settings(max_examples=300, stateful_step_count=40)


class SharedMachine(PartitionMachine):
    """One process of a shared partition."""

    server: ClassVar[Server]

    def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> Any:  # noqa: ANN401 - it has the same operations
        """Return a partition of which nobody has ever heard."""
        assert not models
        partition = SharedPartition(
            self.server.conninfo, schema=self.server.fresh_schema(), group_limits=self.group_limits
        )
        partition.configure(config)
        return partition

    def teardown(self) -> None:
        """Close the connection."""
        if hasattr(self, "partition"):
            self.partition.disconnect()  # type: ignore[attr-defined]  # it is a shared one


class LenientMachine(SharedMachine):
    """Users with limits of their own are held to those alone."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"


class DeepMachine(SharedMachine):
    """The same for much longer."""


class DeepLenientMachine(LenientMachine):
    """The same for much longer."""


@pytest.fixture(scope="module", autouse=True)
def _server(shared_server: Server) -> None:
    SharedMachine.server = shared_server


TestShared = SharedMachine.TestCase
TestShared.settings = SMALL
TestLenient = LenientMachine.TestCase
TestLenient.settings = SMALL
TestDeepShared = pytest.mark.deep(DeepMachine.TestCase)
TestDeepShared.settings = DEEP
TestDeepLenient = pytest.mark.deep(DeepLenientMachine.TestCase)
TestDeepLenient.settings = DEEP

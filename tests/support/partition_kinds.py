"""The kinds of partitions that every operation must work with: in memory, with a store, and over a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.service_fixtures import client_of_service
from ugm import Partition
from ugm.configuration import PartitionConfig
from ugm.partition import AbstractPartition
from ugm.store import open_partition


@contextmanager
def in_memory(config: PartitionConfig, _: Path) -> Iterator[AbstractPartition]:
    """Yield a partition in memory."""
    yield Partition(config)


@contextmanager
def with_store(config: PartitionConfig, folder: Path) -> Iterator[AbstractPartition]:
    """Yield a partition with a store in a folder."""
    with open_partition(folder / "store", config) as partition:
        yield partition


@contextmanager
def of_service(config: PartitionConfig, _: Path) -> Iterator[AbstractPartition]:
    """Yield the partition of a client of a service."""
    with client_of_service(config) as partition:
        yield partition


#: Each takes the configuration, and a folder for its files.
KINDS: Final = (in_memory, with_store, of_service)


def of_each_kind(
    config: PartitionConfig, fill: Callable[[AbstractPartition], object] = bool, *others: Callable[..., Any]
) -> Any:  # noqa: ANN401 - a fixture
    """Return the fixture ``partition``: a partition of each kind and of some others, after a function has filled it."""

    @pytest.fixture(name="partition", params=(*KINDS, *others))
    def _partition(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AbstractPartition]:
        with request.param(config, tmp_path) as partition:
            fill(partition)
            yield partition

    return _partition

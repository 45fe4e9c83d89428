"""The kinds of partitions that every operation must work with: in memory, with a store, and over a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.service_fixtures import client_of_service
from ugm import Partition
from ugm.configuration import PartitionConfig
from ugm.partition import AbstractPartition
from ugm.store import open_partition

__all__ = ["KINDS", "in_memory", "of_service", "with_store"]


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

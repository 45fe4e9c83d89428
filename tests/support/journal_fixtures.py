"""Partitions with a journal that tests start from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.partition_fixtures import SUE, config
from ugm import Resource
from ugm.journal import JournaledPartition, JournalError, open_partition

__all__ = ["LIMITED", "at_most", "begin", "fill", "limit_pages"]

LIMITED = config("{name: a, resources: {max: {memory: 10}}}")


def begin(path: Path, **options: Any) -> JournaledPartition:  # noqa: ANN401 - handed on
    """Return a partition with one application in a queue of 10."""
    partition = open_partition(path, LIMITED, **options)
    partition.submit("app", SUE, "root.a")
    return partition


def fill(partition: JournaledPartition) -> int:
    """Allocate until that is refused, and return how many were acknowledged."""
    for number in range(100_000):
        try:
            partition.allocate(f"fill-{number}", "app", Resource())
        except JournalError:
            return number
    return -1


@contextmanager
def at_most(pages: int, partition: JournaledPartition) -> Iterator[None]:
    """Let the database have so many pages more for a while."""
    limit_pages(partition, pages)
    yield
    if not partition.journal.is_closed:
        limit_pages(partition, 10_000)


def limit_pages(partition: JournaledPartition, pages: int) -> bool:
    """Let the database have so many pages more."""
    connection = partition._outlet.writer._log.connection
    [used] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {used + pages}")
    return True

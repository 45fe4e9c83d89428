"""Partitions with a journal that tests start from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.partition_fixtures import SUE, config, memory
from ugm import Resource
from ugm.journal import JournaledPartition, JournalError, open_partition
from ugm.journal.file_writer import FileWriter
from ugm.journal.log import Log
from ugm.journal.opening import OpenLog
from ugm.journal.transaction_log import JournalTransactionLog
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.model_set import ModelSet

__all__ = ["LIMITED", "at_most", "begin", "fill", "limit_pages", "partition_of", "require_parts"]

LIMITED = config("{name: a, resources: {max: {memory: 10}}}")


def begin(path: Path, **options: Any) -> JournaledPartition:  # noqa: ANN401 - handed on
    """Return a partition with one application in a queue of 10."""
    partition = open_partition(path, LIMITED, **options)
    partition.submit("app", SUE, "root.a")
    return partition


def require_parts(log: Log, partition: JournaledPartition) -> None:
    """Require that a reader of a log gets changes up to a size, and at least one."""
    tail, before = log.tail(), partition.journal.number
    for number in range(9):
        partition.allocate(str(number), "app", memory(1))
    changes = tail.changes(before)
    assert changes is not None
    for count in range(1, len(changes) + 1):
        size = sum(len(change.data) for change in changes[:count])
        assert tail.changes(before, size=size) == changes[:count]
        assert tail.changes(before, size=size + 1) == changes[: count + 1]
    assert tail.changes(before, size=1) == changes[:1]
    tail.close()


def partition_of(opened: OpenLog) -> JournaledPartition:
    """Return a partition for a log that this process leads."""
    log = JournalTransactionLog(outbox := EventOutbox(()), opened.change_queue)
    partition = JournaledPartition(opened.state, ModelSet((), opened.lock), outbox, log, opened.journal)
    opened.lock.mark_consistent()
    partition._start_recording()
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
    """Let the database grow by a number of pages for a while."""
    limit_pages(partition, pages)
    yield
    if not partition.journal.is_closed:
        limit_pages(partition, 10_000)


def limit_pages(partition: JournaledPartition, pages: int) -> bool:
    """Let the database grow by a number of pages."""
    log = partition._transaction_log.change_queue._log
    assert isinstance(log, FileWriter)
    connection = log.connection
    [used] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {used + pages}")
    return True

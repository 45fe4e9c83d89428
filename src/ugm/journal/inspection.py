"""Functions that read a journal without opening it for writing, while a partition may use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from os import PathLike

from ugm.journal.compaction import Compaction, compact_file
from ugm.journal.contents import open_contents, replay
from ugm.journal.file_use import resolve_path
from ugm.journal.migration import migrate
from ugm.journal.writer_lock import WriterLock
from ugm.partition.allocation import Allocation
from ugm.partition.audit import verify
from ugm.partition.checkpoint_codec import application_to_dict
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import Json, event_to_dict
from ugm.partition.state import PartitionState

__all__ = ["JournalSummary", "compact", "export", "inspect"]


@dataclass(frozen=True, slots=True)
class JournalSummary:
    """The size of a journal and of the partition in it."""

    #: The number and the instant of the last change, in milliseconds since 1970; 0 for none.
    number: int
    at: int
    #: The number of the last change that was replaced by a compaction.
    compacted: int
    queues: int
    applications: int
    allocations: int
    nodes: int

    def to_dict(self) -> dict[str, int]:
        """Return the summary for JSON, with the names of its attributes."""
        return asdict(self)


def inspect(path: str | PathLike[str]) -> JournalSummary:
    """Read a journal completely, rebuild and verify the partition in it, and return its size.

    Raises:
        JournalDamagedError: the journal is damaged.
        JournalError: the file is not a journal, or is one of another version.
        InvariantError: the rebuilt partition is inconsistent; that is a bug in ugm.
    """
    with open_contents(resolve_path(path)) as contents:
        state = PartitionState(CompiledConfig.of(None), user_limits_win=False)
        number, at = replay(contents, state)
        for _ in contents.history():
            pass
        verify(state)
        compacted = contents.start.number
    queues, nodes = len(state.tree.queues), len(state.cluster.nodes)
    return JournalSummary(number, at, compacted, queues, len(state.applications), len(state.ledger), nodes)


def export(path: str | PathLike[str]) -> Iterator[Mapping[str, Json]]:
    """Yield the contents of a journal for JSON: the state before the first change, and then every change.

    Raises:
        JournalDamagedError: the journal is damaged; the items yielded before are right.
        JournalError: the file is not a journal, or is one of another version.
    """
    with open_contents(resolve_path(path)) as contents:
        start = contents.start
        nodes = {name: dict(capacity) for name, capacity in start.checkpoint.nodes.items()}
        yield {"number": start.number, "at": start.at, "nodes": nodes}
        yield from map(application_to_dict, start.checkpoint.applications)
        yield from map(Allocation.to_dict, start.checkpoint.allocations)
        for number, at, events in contents.changes():
            yield {"number": number, "at": at, "events": list(map(event_to_dict, events))}


def compact(path: str | PathLike[str], *, usage_since: int | None = None) -> Compaction:
    """Compact a journal that no partition uses; see `Journal.compact`.

    Raises:
        JournalHeldError: a partition uses the journal; that partition has to compact it.
        JournalDamagedError: the journal is damaged, and has not changed.
        JournalError: the journal cannot be written, and has not changed.
    """
    resolved = resolve_path(path)
    writer_lock = WriterLock.acquire(resolved)
    try:
        migrate(resolved)
        return compact_file(resolved, usage_since=usage_since)
    finally:
        writer_lock.release()

"""Functions for a journal as a whole: summary, export, backup and compaction.

They need no partition, and work while a partition or a service uses the journal. Only `compact` needs a file that is
not in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ugm._json_values import Json
from ugm.errors import RequestError
from ugm.journal.change_queue import stored_time
from ugm.journal.client_sessions import SessionTable, record_row
from ugm.journal.compaction import Compaction
from ugm.journal.contents import JournalEntry, replay
from ugm.journal.declared_past import declared_models
from ugm.journal.file_use import identity_of
from ugm.journal.locations import URL_SCHEMES, LogLocation, log_at
from ugm.journal.store import has_content
from ugm.journal.usage_intervals import recorded_intervals
from ugm.partition import Partition
from ugm.partition.allocation import Allocation
from ugm.partition.checkpoint_codec import application_to_dict
from ugm.partition.clock import PartitionClock
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.declared_models import DeclaredModel
from ugm.partition.event_codec import event_to_dict
from ugm.partition.model_calls import ledger_calls
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState

__all__ = ["JournalSummary", "backup", "compact", "export", "inspect"]


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


class _Rebuilt(Partition):
    """The partition in a journal, with the quota models that its configuration declares.

    Args:
        state: the state after the last change.
        declared: the declared models that depend on the past.
        second: the time of the last change, in seconds since 1970.
    """

    __slots__ = ()

    def __init__(self, state: PartitionState, declared: Iterable[DeclaredModel], second: int) -> None:
        lock = state.active_limits.lock
        models = ModelSet((), lock, PartitionClock(lambda: second))
        models.restore(state.compiled.models, state.cluster.total, partial(ledger_calls, state), list, declared)
        self._assemble(state, models)
        self._restore_limits(second)
        lock.mark_consistent()


def inspect(path: LogLocation) -> JournalSummary:
    """Read a journal completely, rebuild and verify the partition in it, and return its size.

    Raises:
        JournalDamagedError: the journal is damaged.
        JournalError: the file is not a journal, or is one of another version.
        InvariantError: the rebuilt partition is inconsistent; that is a bug in ugm.
    """
    with log_at(path).open_contents() as contents:
        state = PartitionState(CompiledConfig.of(None), user_limits_win=False)
        number, at = replay(contents, state, sessions=SessionTable())
        for _ in recorded_intervals(contents):
            pass
        with contents.decoding():
            declared = declared_models(state.compiled.models, nullcontext(contents))
            _Rebuilt(state, declared, at // 1000).verify()
        compacted = contents.start.number
    queues, nodes = len(state.tree.queues), len(state.cluster.nodes)
    return JournalSummary(number, at, compacted, queues, len(state.applications), len(state.ledger), nodes)


def export(path: LogLocation) -> Iterator[Mapping[str, Json]]:
    """Yield the contents of a journal for JSON: the state before the first change, and then every change.

    Raises:
        JournalDamagedError: the journal is damaged; the items yielded before are right.
        JournalError: the file is not a journal, or is one of another version.
    """
    with log_at(path).open_contents() as contents, contents.decoding():
        start = contents.start
        nodes = {name: dict(capacity) for name, capacity in start.checkpoint.nodes.items()}
        yield {"number": start.number, "at": start.at, "nodes": nodes}
        yield from map(application_to_dict, start.checkpoint.applications)
        yield from map(Allocation.to_dict, start.checkpoint.allocations)
        yield from map(_entry_to_dict, contents.changes())


def _entry_to_dict(entry: JournalEntry) -> Mapping[str, Json]:
    """Return a change for JSON; with the rows of its session records if it has any."""
    found = {"number": entry.number, "at": entry.at, "events": list(map(event_to_dict, entry.events))}
    records = [record_row(record) for operation in entry.operations for record in operation.records]
    return found | {"sessions": records} if records else found


def backup(path: LogLocation, target: LogLocation) -> None:
    """Write a copy of all acknowledged changes to a new journal, in a file or in PostgreSQL.

    Args:
        path: the journal, which a partition or a service may use.
        target: a new file, or a database without changes of a journal. It is a complete journal afterwards, whether
            the original is in a file or in PostgreSQL.

    Raises:
        RequestError: the new file exists already, or the database has changes.
        JournalError: the journal cannot be read, or the copy cannot be written.
    """
    if str(getattr(target, "location", target)).startswith(URL_SCHEMES):
        with log_at(path).open_contents() as contents:
            log_at(target).fill(contents)
        return
    copy = Path(str(target))
    if identity_of(str(copy)) is not None:
        raise RequestError("target", str(target), "the file already exists", "id-in-use")
    if has_content(f"{copy}-wal"):
        # SQLite would read it as the WAL of the copy.
        raise RequestError(
            "target", str(target), f"there is {copy}-wal of another journal; move it away first", "id-in-use"
        )
    log_at(path).backup(copy)


def compact(path: LogLocation, *, usage_since: float | None = None) -> Compaction:
    """Compact a journal; see `Journal.compact`. A partition may use a journal in PostgreSQL meanwhile, but not a file.

    Raises:
        JournalHeldError: a partition uses the file; that partition has to compact it.
        JournalDamagedError: the journal is damaged, and has not changed.
        JournalError: the journal cannot be written, and has not changed.
    """
    return log_at(path).compact(usage_since=None if usage_since is None else stored_time("usage_since", usage_since))

"""Looking at a journal without opening it for writing: while a partition uses it, or to see what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple

from ugm.journal.compaction import Compaction, compact_file
from ugm.journal.contents import open_contents, replay
from ugm.journal.file_use import resolve_path
from ugm.journal.migration import migrate
from ugm.journal.writer_lock import WriterLock
from ugm.partition import event_dict
from ugm.partition.audit import verify
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.state import PartitionState

__all__ = ["JournalSummary", "compact", "export", "inspect"]


class JournalSummary(NamedTuple):
    """What a journal holds."""

    #: The last change, and its instant in milliseconds since 1970; 0 for none.
    number: int
    at: int
    #: The change behind which the changes begin that can be looked at one by one.
    compacted: int
    queues: int
    applications: int
    allocations: int
    nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON, in the same words as its attributes."""
        return self._asdict()


def inspect(path: str | PathLike[str]) -> JournalSummary:
    """Read a journal to the end, rebuild what it keeps, verify that, and return what it is.

    Raises:
        JournalDamagedError: it is damaged.
        JournalError: it is no journal, or of another version.
        InvariantError: the outcome does not add up; that is a bug in ugm.
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


def export(path: str | PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield everything that can be read, for JSON: the state that the changes begin with, and then every change.

    Raises:
        JournalDamagedError: it is damaged; what was yielded until then is good.
        JournalError: it is no journal, or of another version.
    """
    with open_contents(resolve_path(path)) as contents:
        start = contents.start
        yield {"number": start.number, "at": start.at, "nodes": _amounts(start.image.nodes)}
        for told in start.image.applications:
            submission = told.submission
            user = {"name": submission.user.name, "groups": list(submission.user.groups)}
            tags = dict(submission.tags)
            yield {**told._asdict(), "submission": {**submission._asdict(), "user": user, "tags": tags}}
        for allocation in start.image.allocations:
            yield dict(allocation.to_dict())
        for number, at, events in contents.changes():
            yield {"number": number, "at": at, "events": [_told(event_dict(event)) for event in events]}


def _amounts(told: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping of resources
    return {name: dict(amounts) for name, amounts in told.items()}


def _told(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event with nothing in it but what JSON has."""
    return {name: dict(value) if hasattr(value, "amounts") else value for name, value in event.items()}


def compact(path: str | PathLike[str], *, usage_since: int | None = None) -> Compaction:
    """Compact a journal that no partition uses; as `Journal.compact`.

    Raises:
        JournalHeldError: a partition uses it; let that compact it.
        JournalDamagedError: it is damaged, and has not changed.
        JournalError: it cannot be written, and has not changed.
    """
    place = resolve_path(path)
    writer_lock = WriterLock.acquire(place)
    try:
        migrate(place)
        return compact_file(place, usage_since=usage_since)
    finally:
        writer_lock.release()

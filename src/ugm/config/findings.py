"""What the rules work on, and what they return.

A rule is a generator of findings. It looks at one partition or at one queue, together with where that stands in the
file, and yields a finding for every way in which its sentence is broken. Rules change nothing and know no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ugm.config.places import Path
from ugm.config.schema import LimitConfig, PartitionConfig, QueueConfig
from ugm.identity import ROOT

__all__ = ["KINDS", "Entry", "Finding", "PartitionSpot", "QueueSpot"]

#: The two kinds of names in a limit, and the fields that list them.
KINDS: Final = (("user", "users"), ("group", "groups"))


class Finding(NamedTuple):
    """A rule that is broken, and where."""

    path: Path
    code: str
    #: A sentence for people.
    message: str
    #: The values, or absences, that it follows from, if not the one at its place alone: where one of them cannot be
    #: read, there may be nothing to find.
    sources: tuple[Path, ...] = ()


class Entry(NamedTuple):
    """A limit, seen from one of its names."""

    #: Its place among the limits of its queue.
    at: int
    limit: LimitConfig


class QueueSpot:
    """A queue in its tree and in the file."""

    __slots__ = ("children", "entries", "limits_path", "parent", "path", "queue", "queue_path")

    def __init__(
        self, queue: QueueConfig, path: Path, *, below: Path | None, limits_path: Path, parent: QueueSpot | None
    ) -> None:
        self.queue: Final = queue
        self.parent: Final = parent
        #: For example ``root.prod``.
        self.queue_path: Final[str] = f"{parent.queue_path}.{queue.name}" if parent else ROOT
        #: Where the queue stands in the file; for a root queue that does not, where the queues below it do.
        self.path: Final = path
        #: Where its limits stand in the file.
        self.limits_path: Final = limits_path
        #: By field (``users``, ``groups``) and name; of a name given twice the first.
        self.entries: Final = _entries(queue)
        self.children: Final = tuple(
            _child(queue_below, (*(below or (*path, "queues")), index), self)
            for index, queue_below in enumerate(queue.queues)
        )

    def ancestors(self) -> Iterator[QueueSpot]:
        """Yield the queues above, nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def walk(self) -> Iterator[QueueSpot]:
        """Yield the queue and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def _child(queue: QueueConfig, path: Path, parent: QueueSpot) -> QueueSpot:
    return QueueSpot(queue, path, below=None, limits_path=(*path, "limits"), parent=parent)


def _entries(queue: QueueConfig) -> Mapping[str, Mapping[str, Entry]]:
    users: dict[str, Entry] = {}
    groups: dict[str, Entry] = {}
    for index, limit in enumerate(queue.limits):
        entry = Entry(index, limit)
        for name in limit.users:
            users.setdefault(name, entry)
        for name in limit.groups:
            groups.setdefault(name, entry)
    return {"users": users, "groups": groups}


class PartitionSpot:
    """A partition in the file."""

    __slots__ = ("partition", "path", "root")

    def __init__(self, partition: PartitionConfig, path: Path) -> None:
        self.partition: Final = partition
        self.path: Final = path
        root, queues = partition.root, (*path, "queues")
        inserted = partition.root_inserted
        at = queues if inserted else (*queues, 0)
        folded = inserted or not (partition.queues and partition.queues[0].limits)
        owner = path if folded else at
        below = queues if inserted else None
        self.root: Final = QueueSpot(root, at, below=below, limits_path=(*owner, "limits"), parent=None)

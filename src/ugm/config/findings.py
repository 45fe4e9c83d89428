"""What the rules work on, and what they return.

A rule is a generator of findings. It looks at one partition or at one queue, together with where that stands in the
file, and yields a finding for every way in which its sentence is broken. Rules change nothing and know no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ugm.config.names import YUNIKORN
from ugm.config.places import Path, cut
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.identity import ROOT

__all__ = ["KINDS", "Chain", "Entry", "Finding", "PartitionSpot", "QueueSpot"]

#: The two kinds of names in a limit, and the fields that list them.
KINDS: Final = (("user", "users"), ("group", "groups"))

_NONE: Final[Mapping[str, int]] = MappingProxyType({})


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


class Chain(NamedTuple):
    """The entries of one name from a queue upward; names that are in the same limits all the way up share theirs."""

    spot: QueueSpot
    entry: Entry
    #: That of the next queue above which has the name; None if none has.
    above: Chain | None

    def upward(self) -> Iterator[Chain]:
        """Yield the chain, and what is left of it from each queue above."""
        chain: Chain | None = self
        while chain is not None:
            yield chain
            chain = chain.above


class QueueSpot:
    """A queue in its tree and in the file."""

    __slots__ = (
        "_by_name",
        "_limits_path",
        "at",
        "below",
        "chains",
        "children",
        "entries",
        "maxima",
        "names",
        "parent",
        "queue",
        "seen_from_below",
    )

    def __init__(
        self,
        queue: QueueConfig,
        at: Path,
        *,
        below: Path | None = None,
        limits_path: Path | None = None,
        parent: QueueSpot | None = None,
        names: str = YUNIKORN,
    ) -> None:
        self.queue: Final = queue
        self.parent: Final = parent
        #: Which names of users and groups its limits may contain; see `ugm.config.names`.
        self.names: Final[str] = parent.names if parent else names
        #: Its path, from that of the parent if there is one; and where the queues below it are, if not in it.
        self.at: Final = at
        self.below: Final = below
        self._limits_path: Final = limits_path
        #: By field and place: its limits as rules of the queues below see them.
        self.seen_from_below: Final[dict[tuple[str, int], Any]] = {}
        self._by_name: dict[str, QueueSpot] | None = None
        #: What it allows at most of each resource.
        self.maxima: Final[Mapping[str, int]] = dict(queue.max_resources) if queue.max_resources else _NONE
        #: By field (``users``, ``groups``) and name; of a name given twice the first.
        self.entries: Final = _entries(queue)
        #: By field and name.
        self.chains: Final = {field: self._chains(field) for _, field in KINDS}
        self.children: Final = tuple(
            QueueSpot(queue_below, ("queues", index), parent=self) for index, queue_below in enumerate(queue.queues)
        )

    def _chains(self, field: str) -> Mapping[str, Chain]:
        entries = self.entries[field]
        if not entries:
            return {}
        above: dict[str, Chain] = {}
        missing = set(entries)
        for spot in self.ancestors():
            found = spot.chains[field].keys() & missing
            above.update((name, spot.chains[field][name]) for name in found)
            missing -= found
        shared: dict[tuple[int, int], Chain] = {}
        chains: dict[str, Chain] = {}
        for name, entry in entries.items():
            key = (entry.at, id(above.get(name)))
            if key not in shared:
                shared[key] = Chain(self, entry, above.get(name))
            chains[name] = shared[key]
        return chains

    # A tree of queues may be large and deep, so paths are put together only where something is reported.

    @property
    def queue_path(self) -> str:
        """The path of the queue in sentences, for example ``root.prod``; long names are cut."""
        names = [cut(spot.queue.name) for spot in (self, *self.ancestors()) if spot.parent]
        return ".".join([ROOT, *reversed(names)])

    @property
    def path(self) -> Path:
        """Where the queue stands in the file; for a root queue that does not, where the queues below it do."""
        parts: list[Path] = []
        spot = self
        while spot.parent is not None:
            above = spot.parent
            if above.below is not None:
                return (*above.below, *spot.at[1:], *chain.from_iterable(reversed(parts)))
            parts.append(spot.at)
            spot = above
        return (*spot.at, *chain.from_iterable(reversed(parts)))

    @property
    def limits_path(self) -> Path:
        """Where its limits stand in the file."""
        return (*self.path, "limits") if self._limits_path is None else self._limits_path

    def child(self, name: str) -> QueueSpot | None:
        """Return the first queue of a name directly below."""
        if self._by_name is None:
            self._by_name = {spot.queue.name: spot for spot in reversed(self.children)}
        return self._by_name.get(name)

    def ancestors(self) -> Iterator[QueueSpot]:
        """Yield the queues above, nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def walk(self) -> Iterator[QueueSpot]:
        """Yield the queue and everything below it, parents first."""
        pending = [self]
        while pending:
            spot = pending.pop()
            yield spot
            pending.extend(reversed(spot.children))


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
        limits_path = (*owner, "limits")
        self.root: Final = QueueSpot(root, at, below=below, limits_path=limits_path, names=partition.ugm.names)

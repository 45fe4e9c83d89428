"""The arguments and results of validation rules: partitions and queues with their places in a file, and findings.

A rule is a generator of findings. It checks one partition or one queue and yields a finding for each violation of the
sentence in its docstring. Rules change nothing and do not read the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from ugm.config.names import YUNIKORN
from ugm.config.places import Path, cut
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.identity import ROOT

__all__ = ["KINDS", "Finding", "LimitChain", "NamedLimit", "PartitionSpot", "QueueSpot"]

#: The two kinds of names in a limit, and the fields that list them.
KINDS: Final = (("user", "users"), ("group", "groups"))

_NONE: Final[Mapping[str, int]] = MappingProxyType({})


class Finding(NamedTuple):
    """A violation of a rule, and its place."""

    path: Path
    code: str
    #: The human-readable message.
    message: str
    #: The paths of the values, present or missing, that the finding depends on; empty if it depends only on the value
    #: at `path`. The finding is suppressed if one of them could not be read, because it may be wrong.
    sources: tuple[Path, ...] = ()


class NamedLimit(NamedTuple):
    """A limit of a queue that contains a certain name."""

    #: Its index in the limits of its queue.
    position: int
    limit: LimitConfig


class LimitChain(NamedTuple):
    """The limits of one name from a queue upward; names with the same limits on the whole path share one chain."""

    spot: QueueSpot
    named: NamedLimit
    #: The chain of the next queue above that limits the name; None if no queue does.
    above: LimitChain | None

    def upward(self) -> Iterator[LimitChain]:
        """Yield the chain, and the rest of it from each queue above."""
        chain: LimitChain | None = self
        while chain is not None:
            yield chain
            chain = chain.above


class QueueSpot:
    """A queue with its place in the tree and in the file."""

    __slots__ = (
        "_by_name",
        "_limits_path",
        "at",
        "below",
        "chains",
        "children",
        "maxima",
        "named_limits",
        "names",
        "parent",
        "queue",
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
        #: The names of users and groups that its limits may contain; see `ugm.config.names`.
        self.names: Final[str] = parent.names if parent else names
        #: The path of the queue, relative to the parent if there is one.
        self.at: Final = at
        #: The path of the queues below if they are not inside the queue in the file.
        self.below: Final = below
        self._limits_path: Final = limits_path
        self._by_name: dict[str, QueueSpot] | None = None
        #: The maximum of each resource.
        self.maxima: Final[Mapping[str, int]] = dict(queue.max_resources) if queue.max_resources else _NONE
        #: By field (``users``, ``groups``) and name; the first limit that contains the name.
        self.named_limits: Final = _named_limits(queue)
        #: By field and name.
        self.chains: Final = {field: self._chains(field) for _, field in KINDS}
        self.children: Final = tuple(
            QueueSpot(queue_below, ("queues", index), parent=self) for index, queue_below in enumerate(queue.queues)
        )

    def _chains(self, field: str) -> Mapping[str, LimitChain]:
        limits = self.named_limits[field]
        if not limits:
            return {}
        above: dict[str, LimitChain] = {}
        missing = set(limits)
        for spot in self.ancestors():
            found = spot.chains[field].keys() & missing
            above.update((name, spot.chains[field][name]) for name in found)
            missing -= found
        shared: dict[tuple[int, int], LimitChain] = {}
        chains: dict[str, LimitChain] = {}
        for name, named in limits.items():
            key = (named.position, id(above.get(name)))
            if key not in shared:
                shared[key] = LimitChain(self, named, above.get(name))
            chains[name] = shared[key]
        return chains

    # A tree of queues may be large and deep, so paths are built only when something is reported.

    @property
    def queue_path(self) -> str:
        """The path of the queue in messages, for example ``root.prod``; long names are truncated."""
        names = [cut(spot.queue.name) for spot in (self, *self.ancestors()) if spot.parent]
        return ".".join([ROOT, *reversed(names)])

    @property
    def path(self) -> Path:
        """The path of the queue in the file; if the file leaves the root queue out, the path of the queues below it."""
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
        """The path of its limits in the file."""
        return (*self.path, "limits") if self._limits_path is None else self._limits_path

    def child(self, name: str) -> QueueSpot | None:
        """Return the first child queue with a name."""
        if self._by_name is None:
            self._by_name = {spot.queue.name: spot for spot in reversed(self.children)}
        return self._by_name.get(name)

    def ancestors(self) -> Iterator[QueueSpot]:
        """Yield the queues above, the nearest first."""
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


def _named_limits(queue: QueueConfig) -> Mapping[str, Mapping[str, NamedLimit]]:
    users: dict[str, NamedLimit] = {}
    groups: dict[str, NamedLimit] = {}
    for index, limit in enumerate(queue.limits):
        named = NamedLimit(index, limit)
        for name in limit.users:
            users.setdefault(name, named)
        for name in limit.groups:
            groups.setdefault(name, named)
    return {"users": users, "groups": groups}


class PartitionSpot:
    """A partition with its place in the file."""

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

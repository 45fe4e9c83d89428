"""The arguments and results of validation rules: partitions and queues with their places in a file, and findings.

A rule is a generator of findings. It checks one partition or one queue and yields a finding for each violation of the
sentence in its docstring. Rules change nothing and do not read the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from ugm._documents.places import Path
from ugm.config.names import YUNIKORN
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.errors import cut
from ugm.identity import ROOT

__all__ = ["KINDS", "Finding", "LimitChain", "LocatedPartition", "LocatedQueue", "NamedLimit"]

#: The two kinds of names in a limit, and the fields that list them.
KINDS: Final = (("user", "users"), ("group", "groups"))


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

    located: LocatedQueue
    named: NamedLimit
    #: The chain of the next queue above that limits the name; None if no queue does.
    above: LimitChain | None

    def upward(self) -> Iterator[LimitChain]:
        """Yield the chain, and the rest of it from each queue above."""
        chain: LimitChain | None = self
        while chain is not None:
            yield chain
            chain = chain.above


@dataclass(slots=True, eq=False, repr=False)
class LocatedQueue:
    """A queue with its place in the tree and in the file."""

    queue: QueueConfig
    #: The path of the queue, relative to the parent if there is one.
    at: Path
    _: KW_ONLY
    #: The path of the queues below if they are not inside the queue in the file.
    below: Path | None = None
    #: The path of its limits if they are not inside the queue in the file.
    limits_elsewhere: Path | None = None
    parent: LocatedQueue | None = None
    #: The names of users and groups that its limits may contain; see `ugm.config.names`.
    names: str = YUNIKORN
    #: The maximum of each resource.
    maxima: Mapping[str, int] = field(init=False)
    #: By field (``users``, ``groups``) and name; the first limit that contains the name.
    named_limits: Mapping[str, Mapping[str, NamedLimit]] = field(init=False)
    #: By field and name.
    chains: Mapping[str, Mapping[str, LimitChain]] = field(init=False)
    children: Sequence[LocatedQueue] = field(init=False)
    _by_name: dict[str, LocatedQueue] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.maxima = dict(self.queue.max_resources or {})
        limits = [NamedLimit(index, limit) for index, limit in enumerate(self.queue.limits)]
        self.named_limits = {names: _first_limits(limits, names) for _, names in KINDS}
        self.chains = {names: self._chains(names) for _, names in KINDS}
        self.children = [
            LocatedQueue(queue, ("queues", index), parent=self, names=self.names)
            for index, queue in enumerate(self.queue.queues)
        ]

    def _chains(self, field: str) -> Mapping[str, LimitChain]:
        limits = self.named_limits[field]
        if not limits:
            return {}
        above: dict[str, LimitChain] = {}
        missing = set(limits)
        for located in self.ancestors():
            found = located.chains[field].keys() & missing
            above.update((name, located.chains[field][name]) for name in found)
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
        names = [cut(located.queue.name) for located in (self, *self.ancestors()) if located.parent]
        return ".".join([ROOT, *reversed(names)])

    @property
    def path(self) -> Path:
        """The path of the queue in the file; if the file leaves the root queue out, the path of the queues below it."""
        parts: list[Path] = []
        located = self
        while located.parent is not None:
            above = located.parent
            if above.below is not None:
                return (*above.below, *located.at[1:], *chain.from_iterable(reversed(parts)))
            parts.append(located.at)
            located = above
        return (*located.at, *chain.from_iterable(reversed(parts)))

    @property
    def limits_path(self) -> Path:
        """The path of its limits in the file."""
        return (*self.path, "limits") if self.limits_elsewhere is None else self.limits_elsewhere

    def child(self, name: str) -> LocatedQueue | None:
        """Return the first child queue with a name."""
        if self._by_name is None:
            self._by_name = {located.queue.name: located for located in reversed(self.children)}
        return self._by_name.get(name)

    def ancestors(self) -> Iterator[LocatedQueue]:
        """Yield the queues above, the nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def walk(self) -> Iterator[LocatedQueue]:
        """Yield the queue and everything below it, parents first."""
        pending = [self]
        while pending:
            located = pending.pop()
            yield located
            pending.extend(reversed(located.children))


def _first_limits(limits: Sequence[NamedLimit], field_name: str) -> Mapping[str, NamedLimit]:
    """Return the first limit that contains each name."""
    return {name: named for named in reversed(limits) for name in getattr(named.limit, field_name)}


class LocatedPartition:
    """A partition with its place in the file."""

    __slots__ = ("partition", "path", "root")

    def __init__(self, partition: PartitionConfig, path: Path) -> None:
        self.partition: Final = partition
        self.path: Final = path
        inserted, queues = partition.root_inserted, (*path, "queues")
        has_own_limits = not inserted and partition.queues and partition.queues[0].limits
        self.root: Final = LocatedQueue(
            partition.root,
            queues if inserted else (*queues, 0),
            below=queues if inserted else None,
            limits_elsewhere=None if has_own_limits else (*path, "limits"),
            names=partition.ugm.names,
        )

"""The arguments and results of validation rules: partitions and queues with their places in a file, and findings.

A rule is a generator of findings. It checks one partition or one queue and yields a finding for each violation of the
sentence in its docstring. Rules change nothing and do not read the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.configuration.scheduler import Path
from ugm.errors import RequestError, cut, quote
from ugm.identity import MAX_NAME, ROOT

#: The values of the setting.
YUNIKORN: Final = "yunikorn"
ANY: Final = "any"
_PATTERNS: Final = {
    "user": re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*\$?"),
    "group": re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*"),
}
_ALLOWED: Final = {
    "user": "a letter or _, then letters, digits and characters of :#/_.@-, and possibly a $ at the end",
    "group": "a letter or _, then letters, digits and characters of :_.-",
}
_ALLOWED_ANY: Final = "printable characters without a comma, and no space at the beginning or end"


def is_yunikorn_name(kind: str, name: str) -> bool:
    """Return whether Apache YuniKorn accepts the name of a user or group in a limit."""
    return len(name) <= MAX_NAME and bool(_PATTERNS[kind].fullmatch(name))


def invalid_name_reason(kind: str, name: str, setting: str) -> str | None:
    """Return the reason why a text is not a valid name; None if it is valid.

    Args:
        kind: ``user`` or ``group``.
        name: the text.
        setting: the allowed names, `YUNIKORN` or `ANY`.

    >>> invalid_name_reason("group", "8-gpus", ANY)
    >>> invalid_name_reason("group", "8-gpus", YUNIKORN)[:40]
    "'8-gpus' is not a valid group name (allo"
    """
    if len(name) > MAX_NAME:
        return f"the name of a {kind} has {len(name)} characters (allowed: up to {MAX_NAME})"
    if is_yunikorn_name(kind, name):
        return None
    if setting == YUNIKORN:
        hint = "; 'ugm: {names: any}' in the partition allows more" if _is_printable_name(name) else ""
        return f"{quote(name)} is not a valid {kind} name (allowed: {_ALLOWED[kind]}{hint})"
    if _is_printable_name(name):
        return None
    return f"{quote(name)} is not a valid {kind} name (allowed: {_ALLOWED_ANY})"


def _is_printable_name(name: str) -> bool:
    return bool(name) and name.isprintable() and "," not in name and name == name.strip(" ")


#: The two kinds of names in a limit, and the fields that list them.
KINDS: Final = (("user", "users"), ("group", "groups"))


class NamedLimit(NamedTuple):
    """A limit of a queue that contains a certain name."""

    #: Its index in the limits of its queue.
    position: int
    limit: LimitConfig


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
    #: The names of users and groups that its limits may contain; see `ugm.config.located`.
    names: str = YUNIKORN
    #: The maximum of each resource.
    maxima: Mapping[str, int] = field(init=False)
    #: By field (``users``, ``groups``) and name; the first limit that contains the name.
    named_limits: Mapping[str, Mapping[str, NamedLimit]] = field(init=False)
    children: Sequence[LocatedQueue] = field(init=False)
    _by_name: dict[str, LocatedQueue] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.maxima = dict(self.queue.max_resources or {})
        limits = [NamedLimit(index, limit) for index, limit in enumerate(self.queue.limits)]
        self.named_limits = {names: _first_limits(limits, names) for _, names in KINDS}
        self.children = [
            LocatedQueue(queue, ("queues", index), parent=self, names=self.names)
            for index, queue in enumerate(self.queue.queues)
        ]

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


def normal_form(partition: PartitionConfig) -> PartitionConfig:
    """Return a partition with the guarantees of its families in normal form, if that is possible."""
    if not partition.ugm.families:
        return partition
    from ugm.configuration.family_rules import normal_guarantees  # noqa: PLC0415 - few configurations have families

    with suppress(RequestError):
        return normal_guarantees(partition)
    return partition


class LocatedPartition:
    """A partition with its place in the file."""

    def __init__(self, partition: PartitionConfig, path: Path) -> None:
        self.partition: Final = partition
        self.path: Final = path
        inserted, queues = partition.root_inserted, (*path, "queues")
        has_own_limits = not inserted and partition.queues and partition.queues[0].limits
        self.root: Final = LocatedQueue(
            # Its guarantees are sums over variants, which the maxima above are compared with.
            normal_form(partition).root,
            queues if inserted else (*queues, 0),
            below=queues if inserted else None,
            limits_elsewhere=None if has_own_limits else (*path, "limits"),
            names=partition.ugm.names,
        )

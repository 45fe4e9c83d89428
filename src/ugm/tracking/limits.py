"""The limits of a configuration, compiled for fast lookup.

A configuration is compiled once, without a lock, into two `LimitTable` objects: the limits of users and the limits of
groups. A tracker looks up the levels from its queue to the root and finds, at each level, the limit for its one name.
Compiled limits never change. `ugm.tracking.limit_epochs` defines which of them are in force.

Source: Apache YuniKorn, user based quota enforcement, "Configuration updates and storage" and "Wildcard
interpretation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeVar, final

from ugm._request_names import unlisted
from ugm.configuration import Extensions, LimitConfig, PartitionConfig
from ugm.configuration.vectors import resource_vectors, unlisted_resources
from ugm.counters import Limit
from ugm.errors import RequestError
from ugm.identity import WILDCARD, ancestors
from ugm.resources import MAX_QUANTITY, Resource

__all__ = [
    "Level",
    "LimitTable",
    "Limits",
    "PathCache",
    "checked_limit",
]

T = TypeVar("T")

_NO_EXTENSIONS: Final = Extensions()

#: Number of results that a cache keeps; a full cache is emptied. Computing a result again takes a microsecond.
_MAX_CACHED: Final = 1 << 14

#: Length of the longest path whose result is cached, which bounds the size of a cache in bytes.
_MAX_CACHED_LENGTH: Final = 256


class Level(NamedTuple):
    """The limits that one queue sets for users, or for groups."""

    #: The canonical path of the queue.
    queue_path: str
    #: In the order of the configuration, which decides between the groups of a user. Includes the group wildcard.
    named: Mapping[str, Limit]
    #: The user wildcard, which limits each user separately. The group wildcard instead has one tracker for all groups.
    fallback: Limit | None

    def limit_for(self, name: str) -> Limit | None:
        """Return the limit in force for a user or group: its own, else the user wildcard, else None."""
        return self.named.get(name, self.fallback)

    def all_limits(self) -> Mapping[str, Limit]:
        """Return every limit by name, including the wildcard."""
        return self.named if self.fallback is None else {**self.named, WILDCARD: self.fallback}


class PathCache(dict[str, T]):
    """A bounded cache for a function of a queue path. A hit costs one dictionary lookup."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], T]) -> None:
        super().__init__()
        self._function: Final = function

    def __missing__(self, path: str) -> T:
        result = self._function(path)
        if len(path) <= _MAX_CACHED_LENGTH:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[path] = result
        return result


@final
class LimitTable:
    """The limits that all queues set for users, or for groups.

    Args:
        levels: canonical queue path to its limits; queues without limits are missing.
    """

    __slots__ = ("_ranks", "levels", "levels_from", "ranks_from")

    def __init__(self, levels: Mapping[str, Level]) -> None:
        self.levels: Final = levels
        self._ranks = {path: {name: rank for rank, name in enumerate(level.named)} for path, level in levels.items()}
        #: A queue path to the levels from there to the root, leaf to root; queues without limits are missing.
        self.levels_from: Final = PathCache(self._levels_from).__getitem__
        #: The same with the position of each name, up to the first wildcard, which matches every group.
        self.ranks_from: Final = PathCache(self._ranks_from).__getitem__

    def _levels_from(self, queue_path: str) -> tuple[Level, ...]:
        return tuple(self.levels[path] for path in ancestors(queue_path) if path in self.levels)

    def _ranks_from(self, queue_path: str) -> tuple[Mapping[str, int], ...]:
        ranks = []
        for level in self.levels_from(queue_path):
            ranks.append(self._ranks[level.queue_path])
            if WILDCARD in level.named:
                break
        return tuple(ranks)

    def select_group(self, queue_path: str, groups: Sequence[str]) -> str | None:
        """Choose the group to charge for an application in *queue_path* whose user is a member of *groups*.

        The search goes from the leaf to the root. At each queue, the first configured group that the user is a member
        of is chosen, or else the wildcard if there is one. The cost depends on the number of the user's groups, not on
        the number of limits.

        Source: Apache YuniKorn, user based resource usage tracking, "Group limitations".
        """
        if not groups:
            return None
        for ranks in self.ranks_from(queue_path):
            first = None
            for group in groups:
                if group in ranks and (first is None or ranks[group] < ranks[first]):
                    first = group
            if first is not None:
                return first
            if WILDCARD in ranks:
                return WILDCARD
        return None


@final
class Limits:
    """All limits of one configuration."""

    __slots__ = ("groups", "listed", "modelled", "names", "revision", "users")

    def __init__(
        self, users: Mapping[str, Level], groups: Mapping[str, Level], extensions: Extensions = _NO_EXTENSIONS
    ) -> None:
        #: Identifies this configuration without keeping all of it in memory.
        self.revision: Final = object()
        self.users: Final = LimitTable(users)
        self.groups: Final = LimitTable(groups)
        limits = (limit for level in (*users.values(), *groups.values()) for limit in level.all_limits().values())
        #: All resources that some limit names.
        self.names: Final = frozenset(name for limit in limits for name in limit.resources)
        #: The closed list of resources; empty for none.
        self.listed: Final = frozenset(extensions.resources)
        #: The resources that declared quota models name.
        self.modelled: Final = frozenset(name for _, names in resource_vectors(extensions) for name in names)

    @classmethod
    def compile(cls, partition: PartitionConfig | None) -> Self:
        """Compile the limits of a configuration; None for no limits.

        Raises:
            RequestError: *partition* is not a partition, or an entry is not a valid limit: an amount is out of range,
                or all amounts are 0. `ugm.load_config` accepts no such entry. YuniKorn treats all zeros as no limit.
        """
        users: dict[str, Level] = {}
        groups: dict[str, Level] = {}
        if partition is not None and type(partition) is not PartitionConfig:
            # Report the type only: a whole configuration does not help in a message.
            raise RequestError("config", type(partition), "expected one partition, such as config.partition()")
        if partition is None:
            return cls(users, groups)
        for place, name in unlisted_resources(partition):
            raise RequestError("config", ".".join(map(str, place)), unlisted(name, partition.ugm.resources))
        for path, queue in partition.root.walk():
            entries = [(entry, f"{path} limits[{index}]") for index, entry in enumerate(queue.limits)]
            if named := _named(((place, entry.users, entry) for entry, place in entries)):
                fallback = named.pop(WILDCARD, None)
                users[path] = Level(path, named, fallback)
            if named := _named(((place, entry.groups, entry) for entry, place in entries)):
                groups[path] = Level(path, named, None)
        return cls(users, groups, partition.ugm)


def _named(entries: Iterable[tuple[str, Sequence[str], LimitConfig]]) -> dict[str, Limit]:
    """Return the limit of every name. The first of several entries for a name counts."""
    found: dict[str, Limit] = {}
    for place, names, entry in entries:
        limits: dict[bool, Limit] = {}
        for name in names:
            wildcard = name == WILDCARD
            if wildcard not in limits:
                resources = checked_limit("max_resources", entry.max_resources)
                limits[wildcard] = Limit(resources, entry.max_applications, wildcard=wildcard, place=place)
            found.setdefault(name, limits[wildcard])
    return found


def checked_limit(argument: str, resources: Resource | None) -> Resource:
    """Return the maximum amounts of a limit; None and an empty vector limit nothing.

    Raises:
        RequestError: an amount is out of range, or all amounts are 0.
    """
    if resources is None:
        return Resource()
    if type(resources) is not Resource:
        raise RequestError(argument, resources, "expected a Resource")
    if resources.amounts and not any(resources.amounts.values()):
        raise RequestError(argument, resources, "a limit must allow more than 0 of at least one resource that it names")
    if any(amount < 0 for amount in resources.amounts.values()):
        raise RequestError(argument, resources, "a limit must not be negative")
    if any(amount > MAX_QUANTITY for amount in resources.amounts.values()):
        raise RequestError(argument, resources, f"a limit must not exceed {MAX_QUANTITY}")
    return resources

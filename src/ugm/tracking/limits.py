"""The limits of users and groups: compiled for fast lookup, and in force.

A configuration is compiled once, without a lock, into two `LimitTable` objects: the limits of users and the limits of
groups. A tracker looks up the levels from its queue to the root and finds, at each level, the limit for its one name.
Compiled limits never change.

`ActiveLimits` has the limits that are in force now, shared by all trackers of one partition. The problem: limits may be
replaced while 100,000 users are tracked, and requests must not wait until all their counters are updated. The idea:
replacing the limits is one assignment that begins a new *epoch*. Trackers and holdings remember the epoch of their
counters. On the next use they compare it with the current epoch and, if it differs, update their counters.

Source: Apache YuniKorn, user based quota enforcement, "Configuration updates and storage" and "Wildcard
interpretation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, Self, TypeVar, final

from ugm.configuration import Extensions, LimitConfig, PartitionConfig
from ugm.configuration.resource_names import (
    RequestNames,
    listed_resources,
    resource_vectors,
    unlisted,
    unlisted_resources,
)
from ugm.counters import Layout, Limit
from ugm.engine_lock import EngineLock
from ugm.errors import RequestError
from ugm.families import Families
from ugm.identity import WILDCARD, ancestors, canonical_path
from ugm.resources import MAX_QUANTITY, Resource

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

    def __init__(self, levels: Mapping[str, Level]) -> None:
        self.levels: Final = levels
        #: The position of each name in its queue.
        self._ranks: Final = {
            path: {name: rank for rank, name in enumerate(level.named)} for path, level in levels.items()
        }
        #: A queue path to the levels from there to the root, leaf to root; queues without limits are missing.
        self.levels_from: Final = PathCache(self._levels_from).__getitem__

    def _levels_from(self, queue_path: str) -> tuple[Level, ...]:
        return tuple(self.levels[path] for path in ancestors(queue_path) if path in self.levels)

    def select_group(self, queue_path: str, groups: Sequence[str]) -> str | None:
        """Choose the group to charge for an application in *queue_path* whose user is a member of *groups*.

        The search goes from the leaf to the root. At each queue, the first configured group that the user is a member
        of is chosen, or else the wildcard if there is one. The cost depends on the number of the user's groups, not on
        the number of limits.

        Source: Apache YuniKorn, user based resource usage tracking, "Group limitations".
        """
        for level in self.levels_from(queue_path) if groups else ():
            ranks = self._ranks[level.queue_path]
            named = [group for group in groups if group in ranks]
            if named:
                return min(named, key=ranks.__getitem__)
            if WILDCARD in ranks:
                return WILDCARD
        return None


@final
class Limits:
    """All limits of one configuration."""

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
        #: None for no families.
        self.families: Final = Families(extensions.families) if extensions.families else None
        #: The closed list of resources; empty for none.
        self.listed: Final = frozenset(listed_resources(extensions))
        declared = () if self.families is None else (self.families.variants, self.families.family_of)
        #: The resources that declared quota models name, and the families with their variants.
        self.modelled: Final = frozenset(chain(*(names for _, names in resource_vectors(extensions)), *declared))

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
            if named := _named(path, queue.limits, lambda entry: entry.users):
                fallback = named.pop(WILDCARD, None)
                users[path] = Level(path, named, fallback)
            if named := _named(path, queue.limits, lambda entry: entry.groups):
                groups[path] = Level(path, named, None)
        return cls(users, groups, partition.ugm)


def _named(
    path: str, entries: Iterable[LimitConfig], names_of: Callable[[LimitConfig], Sequence[str]]
) -> dict[str, Limit]:
    """Return the limit of every name. The first of several entries for a name counts."""
    found: dict[str, Limit] = {}
    for index, entry in enumerate(entries):
        terms = checked_limit("max_resources", entry.max_resources), entry.max_applications
        # The names share the limits, which may be many.
        limits = [Limit(*terms, wildcard=wildcard, place=f"{path} limits[{index}]") for wildcard in (False, True)]
        for name in names_of(entry):
            found.setdefault(name, limits[name == WILDCARD])
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


#: Number of unused resource names that a layout always keeps.
_SPARE: Final = 16


@final
class Epoch:
    """A period in which the same limits are in force.

    It is a separate object, so that a tracker that has been idle for long does not keep old limits in memory.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout: Final = layout


class ManualLimits(NamedTuple):
    """The limits of one user or group that were set by hand, which expire with the configuration."""

    #: That of the configuration in force.
    revision: object
    #: By canonical queue path.
    levels: dict[str, Level]


@final
class ActiveLimits:
    """The limits in force for all trackers of one partition, with the lock that guards all of them.

    Args:
        limits: the initial limits; None for no limits.
        user_limits_win: whether a user with a named limit on the path of a queue is exempt from the limits of its group
            there. The usage is charged to the group in any case.
        lock: the lock of the engine; None for a new one.
        managed: whether the trackers belong to a manager, so that programs must not charge them directly.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        user_limits_win: bool = False,
        managed: bool = False,
        lock: EngineLock | None = None,
    ) -> None:
        self._canonical = PathCache(canonical_path).__getitem__
        self.limits: Limits = limits or Limits({}, {})
        #: The names that requests may have, and those that were requested.
        self.request_names: RequestNames = RequestNames(self.limits.listed, self.limits.modelled)
        self.epoch: Epoch = Epoch(self._layout(self.limits.names))
        self.user_limits_win: Final = user_limits_win
        self.managed: Final = managed
        #: The lock of the engine: every public operation of the partition, manager or tracker holds it. The lock has
        #: the same epoch as the limits, so it notices if an operation replaces the limits and is then interrupted.
        self.lock: Final = lock or EngineLock()
        self.lock.epoch = self.lock.valid_epoch = self.epoch
        self.lock.rebuild, self.lock.revert = self.discard_counters, self._revert

    def _revert(self) -> None:
        """Put back what an operation has changed: each item of the list is a function with its arguments."""
        for restore, *arguments in reversed(self.lock.changes):
            restore(*arguments)
        self.lock.finish()

    def path(self, queue_path: str) -> str:
        """Return the canonical form of a queue path, from a cache if possible. See `ugm.identity.canonical_path`."""
        # Only a string can be a key of the cache. `canonical_path` refuses everything else.
        return self._canonical(queue_path) if type(queue_path) is str else canonical_path(queue_path)

    def replace_limits(self, limits: Limits, other_names: Iterable[str] = (), *, closed: bool = False) -> None:
        """Put *limits* in force. Counters keep their usage, and get the new limits on their next use.

        Args:
            limits: the limits of users and groups.
            other_names: resources that other limits name. They are charged together with those of users and groups.
            closed: whether all other resources are unavailable.
        """
        self.limits = limits
        self.request_names = self.request_names.with_names(limits.listed, limits.modelled)
        self._begin(self._epoch_of(self._layout((*limits.names, *other_names), closed=closed)))

    def _layout(self, names: Iterable[str], *, closed: bool = False) -> Layout:
        listed, examine = self.request_names.listed, self.request_names.examine
        return Layout(names, closed=closed, listed=listed, families=self.limits.families, examine=examine)

    def discard_counters(self) -> None:
        """Discard all counters: each is summed up from the holdings on its next use."""
        old = self.epoch.layout
        # A layout is compared by identity, so counters are not carried over even if it has the same names.
        self._begin(Epoch(self._layout((*self.limits.names, *old.limited), closed=old.closed)))

    def count_resources(
        self, names: Iterable[str], *, closed: bool | None = None, in_use: Callable[[], Iterable[str]] | None = None
    ) -> bool:
        """Count more resources until the limits are replaced, and return whether the layout has changed.

        Args:
            names: the resources.
            closed: whether all other resources are unavailable; None for no change.
            in_use: returns the other resources that must be counted; None keeps all. It is called only if *names* has
                a new resource. If most of the counted resources are unused, they are dropped.
        """
        old, names = self.epoch.layout, tuple(names)
        is_closed = old.closed if closed is None else closed
        layout = self._layout((*names, *old.limited), closed=is_closed)
        if in_use is not None and len(layout.names) > max(_SPARE, len(old.names)):
            layout = self._layout((*names, *self.names_to_keep(in_use)), closed=is_closed)
        epoch = self._epoch_of(layout)
        if epoch.layout is old:
            return False
        self._begin(epoch)
        return True

    def names_to_keep(self, in_use: Callable[[], Iterable[str]]) -> Iterable[str]:
        """Return the resources to keep in the layout: all of them, or those in use if most are unused."""
        names = self.epoch.layout.names
        if len(names) <= _SPARE:
            return names
        used = frozenset(in_use())
        return names if len(names) <= 2 * len(used) + _SPARE else used

    def _begin(self, epoch: Epoch) -> None:
        self.epoch = self.lock.epoch = epoch

    def _epoch_of(self, layout: Layout) -> Epoch:
        old = self.epoch.layout
        if (layout.names, layout.closed, layout.rules) != (old.names, old.closed, old.rules):
            return Epoch(layout)
        # Keep the same layout for the same names: the vectors that are cached in resources stay valid.
        old.limited, old.examine = layout.limited, layout.examine
        return Epoch(old)

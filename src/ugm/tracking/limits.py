"""The limits of a configuration, compiled for looking up, and which of them are in force.

A configuration is compiled once, without any lock, into two `LimitBook` objects: what each queue sets for users and
what it sets for groups. Trackers ask a book for the chain of a queue path and find, level by level, the limit of the
one name that they count. What is compiled never changes; `LimitsInForce` says which of it holds now.

Source: Apache YuniKorn, user based quota enforcement, "Configuration updates and storage" and "Wildcard
interpretation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, Self, TypeVar, final

from ugm.arguments import require_count
from ugm.errors import RequestError
from ugm.hierarchy import Layout, Limit
from ugm.identity import ROOT, WILDCARD, ancestors, canonical_path
from ugm.operation_lock import OperationLock
from ugm.resources import MAX_QUANTITY, Resource

__all__ = ["Epoch", "Level", "LimitBook", "LimitEntry", "Limits", "LimitsInForce", "PartitionLimits", "QueueLimits"]

T = TypeVar("T")

#: Number of results that a cache keeps; a full cache is emptied. Computing a result again takes a microsecond.
_REMEMBERED: Final = 1 << 14

#: Length of the longest path whose result is kept, so that the size of a cache in bytes is bounded, too.
_LONGEST: Final = 256

#: Number of unused resource names that a layout always keeps.
_SPARE: Final = 16


class LimitEntry(Protocol):
    """One entry in the limits of a queue, as a configuration has it."""

    @property
    def users(self) -> Sequence[str]:
        """Whom it limits, each alone; the last may be the wildcard."""
        ...

    @property
    def groups(self) -> Sequence[str]:
        """Which groups it limits, each as a whole; the last may be the wildcard."""
        ...

    @property
    def max_resources(self) -> Resource | None:
        """The most that each may use; None for no limit."""
        ...

    @property
    def max_applications(self) -> int:
        """How many applications of each may run; 0 for no limit."""
        ...


class QueueLimits(Protocol):
    """A queue of a configuration: its limits and the queues below it."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        ...

    @property
    def limits(self) -> Sequence[LimitEntry]:
        """What it sets, in the order that chooses between the groups of a user."""
        ...

    @property
    def queues(self) -> Sequence[QueueLimits]:
        """The queues directly below."""
        ...


class PartitionLimits(Protocol):
    """A partition of a configuration: the root of its queues."""

    @property
    def root(self) -> QueueLimits:
        """The queue above all others."""
        ...


class Level(NamedTuple):
    """What one queue sets for users, or for groups."""

    #: The canonical path of the queue.
    queue_path: str
    #: In the order of the configuration, which decides between the groups of a user. Has the group wildcard, too.
    named: Mapping[str, Limit]
    #: The user wildcard: it holds for each user alone. Wildcard usage of groups is one tracker with a name of its own.
    fallback: Limit | None


class _PathCache(dict[str, T]):
    """A bounded cache of the results of a function of a queue path. A hit costs one dictionary lookup."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], T]) -> None:
        super().__init__()
        self._function: Final = function

    def __missing__(self, path: str) -> T:
        result = self._function(path)
        if len(path) <= _LONGEST:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[path] = result
        return result


@final
class LimitBook:
    """What every queue sets for users, or for groups.

    Args:
        levels: canonical queue path to what is set there; queues that set nothing are left out.
    """

    __slots__ = ("_orders", "levels", "levels_on", "orders_on")

    def __init__(self, levels: Mapping[str, Level]) -> None:
        self.levels: Final = levels
        self._orders = {path: {name: order for order, name in enumerate(level.named)} for path, level in levels.items()}
        #: A queue path to what is set from there to the root, leaf to root; queues that set nothing are left out.
        self.levels_on: Final = _PathCache(self._levels_on).__getitem__
        #: The same with the positions of the names, up to the first wildcard: nothing above it is ever reached.
        self.orders_on: Final = _PathCache(self._orders_on).__getitem__

    def _levels_on(self, queue_path: str) -> tuple[Level, ...]:
        return tuple(self.levels[path] for path in ancestors(queue_path) if path in self.levels)

    def _orders_on(self, queue_path: str) -> tuple[Mapping[str, int], ...]:
        orders = []
        for level in self.levels_on(queue_path):
            orders.append(self._orders[level.queue_path])
            if WILDCARD in level.named:
                break
        return tuple(orders)

    def select(self, queue_path: str, groups: Sequence[str]) -> str | None:
        """Choose the group that an application in *queue_path* of a member of *groups* is charged to.

        From the leaf upward, at each queue: the first named group of the configuration that the user is a member of,
        else the wildcard if there is one, else one queue up. The cost depends on the number of the user's groups, not
        on the number of limits.

        Source: Apache YuniKorn, user based resource usage tracking, "Group limitations".
        """
        if not groups:
            return None
        for order in self.orders_on(queue_path):
            first = None
            for group in groups:
                if group in order and (first is None or order[group] < order[first]):
                    first = group
            if first is not None:
                return first
            if WILDCARD in order:
                return WILDCARD
        return None


@final
class Limits:
    """All limits of one configuration."""

    __slots__ = ("groups", "names", "revision", "users")

    def __init__(self, users: Mapping[str, Level], groups: Mapping[str, Level]) -> None:
        #: Stands for this configuration where a reference to all of it would keep it in memory.
        self.revision: Final = object()
        self.users: Final = LimitBook(users)
        self.groups: Final = LimitBook(groups)
        all_holdings = (limit for level in (*users.values(), *groups.values()) for limit in _limits_of(level))
        #: Every resource that some limit names.
        self.names: Final = frozenset(name for limit in all_holdings for name in limit.resources)

    @classmethod
    def compile(cls, partition: PartitionLimits | None) -> Self:
        """Read the limits out of a configuration.

        Raises:
            RequestError: this is no partition, or an entry is no limit: an amount is out of range, or all of them are
                0. Configurations from `ugm.load_config` have no such entry; the peers take all zeros for no limit.
        """
        users: dict[str, Level] = {}
        groups: dict[str, Level] = {}
        if partition is not None and not hasattr(partition, "root"):
            # The name will do: a whole configuration is no help in a message.
            raise RequestError("config", type(partition).__name__, "expected one partition: pass config.partition()")
        if partition is not None:
            for path, queue in _walk(partition.root, ROOT):
                entries = [(entry, f"{path} limits[{index}]") for index, entry in enumerate(queue.limits)]
                if named := _named(((place, entry.users, entry) for entry, place in entries)):
                    fallback = named.pop(WILDCARD, None)
                    users[path] = Level(path, named, fallback)
                if named := _named(((place, entry.groups, entry) for entry, place in entries)):
                    groups[path] = Level(path, named, None)
        return cls(users, groups)


def _limits_of(level: Level) -> Iterator[Limit]:
    yield from level.named.values()
    if level.fallback is not None:
        yield level.fallback


def _walk(queue: QueueLimits, path: str) -> Iterator[tuple[str, QueueLimits]]:
    yield path, queue
    for child in queue.queues:
        yield from _walk(child, f"{path}.{child.name.lower()}")


def _named(entries: Iterable[tuple[str, Sequence[str], LimitEntry]]) -> dict[str, Limit]:
    """Return the limit of every name; of two entries for one name the first holds."""
    found: dict[str, Limit] = {}
    for place, names, entry in entries:
        if isinstance(names, str):
            raise RequestError("limits", names, f"expected several names at {place}")
        limits: dict[bool, Limit] = {}
        for name in names:
            wildcard = name == WILDCARD
            if wildcard not in limits:
                resources = checked_limit("max_resources", entry.max_resources)
                count = require_count("max_applications", entry.max_applications)
                limits[wildcard] = Limit(resources, count, wildcard=wildcard, place=place)
            found.setdefault(name, limits[wildcard])
    return found


def checked_limit(argument: str, resources: Resource | None) -> Resource:
    """Return what a limit allows of resources; None and an empty vector limit nothing.

    Raises:
        RequestError: an amount is out of range, or all of them are 0.
    """
    if resources is None:
        return Resource()
    if type(resources) is not Resource:
        raise RequestError(argument, resources, "expected a Resource")
    if resources.amounts and not any(resources.amounts.values()):
        raise RequestError(argument, resources, "a limit that allows nothing of every resource it names")
    if any(amount < 0 for amount in resources.amounts.values()):
        raise RequestError(argument, resources, "a limit below zero")
    if any(amount > MAX_QUANTITY for amount in resources.amounts.values()):
        raise RequestError(argument, resources, "a limit above what a signed 64-bit integer holds")
    return resources


@final
class Epoch:
    """A span of time in which the same limits hold.

    Trackers and holdings remember the epoch that they were last brought in line with. It is an object of its own, so
    that somebody who has been idle for long keeps no old configuration in memory.
    """

    __slots__ = ("layout",)

    def __init__(self, layout: Layout) -> None:
        self.layout: Final = layout


@final
class LimitsInForce:
    """Which limits hold now, for all trackers of one partition, and the lock that guards them all.

    Swapping limits is one assignment. Nobody is visited: trackers notice the new epoch when they are used next.

    Args:
        limits: the limits in force from the start; None for none.
        user_limits_win: whether a user with a named limit on the path of a queue is not held to the group's limits
            there. The group is charged all the same.
        lock: guards everything, in the place of a lock of its own.
        managed: whether a manager keeps a ledger of what is charged to the trackers, so that nobody else may.
    """

    __slots__ = ("_canonical", "epoch", "limits", "lock", "managed", "user_limits_win")

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        user_limits_win: bool = False,
        managed: bool = False,
        lock: OperationLock | None = None,
    ) -> None:
        self._canonical = _PathCache(canonical_path).__getitem__
        self.limits = limits or Limits({}, {})
        self.epoch = Epoch(Layout(self.limits.names))
        self.user_limits_win: Final = user_limits_win
        self.managed: Final = managed
        #: Held by every public operation of a manager or tracker. Its token is the epoch.
        self.lock: Final = lock or OperationLock()
        self.lock.token = self.lock.settled = self.epoch
        self.lock.rebuild = self.renew

    def path(self, queue_path: str) -> str:
        """Do what `ugm.identity.canonical_path` does, and remember it."""
        # What is no text cannot be remembered, and is refused.
        return self._canonical(queue_path) if type(queue_path) is str else canonical_path(queue_path)

    def swap(self, limits: Limits, elsewhere: Iterable[str] = (), *, closed: bool = False) -> None:
        """Put *limits* in force.

        Args:
            limits: the limits of users and groups.
            elsewhere: resources that other limits name, which are charged along with those of users and groups.
            closed: whether no other resources are to be had.
        """
        self.limits = limits
        self._begin(self._next(Layout((*limits.names, *elsewhere), closed=closed)))

    def count(
        self,
        names: Iterable[str],
        *,
        closed: bool | None = None,
        in_use: Callable[[], Iterable[str]] | None = None,
    ) -> bool:
        """Make room in every counter for more resources until the next swap, and say whether that took anything.

        Args:
            names: the resources.
            closed: whether no other resources are to be had; None leaves that as it is.
            in_use: returns the resources that have to be counted besides; None keeps all that are counted now. It is
                called only if *names* has a new resource; unused ones are then dropped if they are the larger part.
        """
        old, names = self.epoch.layout, tuple(names)
        is_closed = old.closed if closed is None else closed
        layout = Layout((*names, *old.names), closed=is_closed)
        if in_use is not None and len(layout.names) > max(_SPARE, len(old.names)):
            layout = Layout((*names, *self.kept(in_use)), closed=is_closed)
        epoch = self._next(layout)
        if epoch.layout is old:
            return False
        self._begin(epoch)
        return True

    def kept(self, in_use: Callable[[], Iterable[str]]) -> Iterable[str]:
        """Return the resources to keep in the layout: all that it has, or only those in use if most are unused."""
        names = self.epoch.layout.names
        if len(names) <= _SPARE:
            return names
        used = frozenset(in_use())
        return names if len(names) <= 2 * len(used) + _SPARE else used

    def renew(self) -> None:
        """Begin an epoch in which every counter is summed up from the holdings when it is used next."""
        old = self.epoch.layout
        # Another layout, even if it counts the same: no counter can be carried over to it.
        self._begin(Epoch(Layout((*self.limits.names, *old.names), closed=old.closed)))

    def replace(self, limits: Limits, elsewhere: Iterable[str], *, closed: bool) -> None:
        """Do what `swap` does, and carry no counter over."""
        self.limits = limits
        self._begin(Epoch(Layout((*limits.names, *elsewhere), closed=closed)))

    def _begin(self, epoch: Epoch) -> None:
        self.epoch = self.lock.token = epoch

    def _next(self, layout: Layout) -> Epoch:
        # The same names keep the same layout: rows that the caller's vectors remember stay good.
        old = self.epoch.layout
        return Epoch(old if (layout.names, layout.closed) == (old.names, old.closed) else layout)

"""The usage of one user or one group in each queue: a sparse tree below ``root``.

The source of truth is the list of holdings, one for each application and queue. The usage of a queue is the sum of the
holdings in and below it, and its running applications are their union. A counter (`ugm.counters.Counter`) exists only
where a limit needs it: for every limited queue in or below which an application runs. A queue without a limit therefore
costs nothing, and a tree costs memory in proportion to its applications.

A change of the limits does not touch the trees. Each tree brings its counters up to date on its next use. It adjusts
the counters that exist, and sums up only those of queues that were not limited before.

The functions here expect that the caller holds the lock and has checked the arguments. The trackers
(`ugm.tracking.trackers`) are the public interface.

Source: Apache YuniKorn, user based resource usage tracking, "Queue tracking"; user based quota enforcement, "Queue
tracking" and "Configuration updates and storage".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, Self, TypeVar, final

from ugm.counters import Counter, Limit, charge
from ugm.errors import RequestError
from ugm.identity import TrackingType, ancestors, is_below
from ugm.resources import Resource, sum_of
from ugm.tracking.holding_links import Linked, all_holdings, with_siblings
from ugm.tracking.limit_epochs import ActiveLimits, Epoch, ManualLimits
from ugm.tracking.limits import Level

__all__ = ["OwnerUsageTree"]

#: Looking up a member of an enumeration costs more than comparing with it.
_USER: Final = TrackingType.USER
#: What an application adds to `OwnerUsageTree.recomputed_usage`, apart from its amounts.
_ONE_APPLICATION: Final[Mapping[str | None, int]] = {None: 1}


class _Holding(Linked, Protocol):
    """The part of a holding that a tree depends on."""

    queue_path: str

    def held(self) -> dict[str, int]:
        """Return the amounts that are held, by resource name."""
        ...

    def invalidate(self) -> None:
        """Discard the chains of the holding."""
        ...


HoldingT = TypeVar("HoldingT", bound=_Holding)


@final
class OwnerUsageTree(Generic[HoldingT]):
    """The holdings of one user or group, with the counters of its limits.

    Args:
        name: the user or group.
        kind: which of the two.
        active_limits: the limits, shared by all trees of a partition.
    """

    __slots__ = ("_epoch", "_manual", "active_limits", "counters", "group_choices", "holdings", "kind", "name")

    name: str
    kind: TrackingType
    active_limits: ActiveLimits
    #: Application to its first holding.
    holdings: dict[str, HoldingT]
    #: Canonical queue path to counter. Invariant: a counter exists exactly where a limit applies and something runs.
    counters: dict[str, Counter]
    #: The groups chosen for applications of a user that have not been charged yet; None if there are no such choices.
    #: Replaced as a whole, never changed in place.
    group_choices: Mapping[str, Self | None] | None
    #: The epoch of `counters`.
    _epoch: Epoch
    #: The limits set by hand; None if there are none. They may have expired.
    _manual: ManualLimits | None

    def __init__(self, name: str, kind: TrackingType, active_limits: ActiveLimits) -> None:
        self.name = name
        self.kind = kind
        self.active_limits = active_limits
        self.holdings = {}
        self.counters = {}
        self.group_choices = None
        self._epoch = active_limits.epoch
        self._manual = None

    # Queries

    def total(self) -> Resource:
        """Return the usage in all queues together, without zeros. The time depends on the number of applications."""
        return sum_of(holding.held() for holding in all_holdings(self.holdings))

    def find(self, application_id: str, queue_path: str) -> HoldingT | None:
        """Return the holding of an application in a queue."""
        for holding in with_siblings(self.holdings.get(application_id)):
            if holding.queue_path == queue_path:
                return holding
        return None

    def chain(self, queue_path: str) -> list[Counter]:
        """Return the counters of all limits from a queue to the root, leaf to root.

        Where nothing runs below a limit yet, the counter is new and not part of the tree.
        """
        if self._epoch is not self.active_limits.epoch:
            self._recount()
        counters, name, chain = self.counters, self.name, []
        limits = self.active_limits.limits
        levels = (limits.users if self.kind is _USER else limits.groups).levels_from(queue_path)
        for level in levels if self._manual is None else self._with_manual(queue_path, levels):
            path = level.queue_path
            counter = counters.get(path)
            if counter is None:
                limit = level.limit_for(name)
                if limit is None:
                    continue
                counter = Counter(self, path, limit, self._epoch.layout)
            chain.append(counter)
        return chain

    def _with_manual(self, queue_path: str, levels: Iterable[Level]) -> Iterable[Level]:
        """Replace configured limits by those set by hand."""
        if self._manual is None:
            return levels
        by_path = {level.queue_path: level for level in levels} | self._manual.levels
        return [by_path[path] for path in ancestors(queue_path) if path in by_path]

    def _limits_on(self, queue_path: str) -> Iterator[tuple[str, Limit]]:
        """Yield the limits from a queue to the root with their paths, leaf to root."""
        limits = self.active_limits.limits
        levels = (limits.users if self.kind is _USER else limits.groups).levels_from(queue_path)
        for level in self._with_manual(queue_path, levels):
            limit = level.limit_for(self.name)
            if limit is not None:
                yield level.queue_path, limit

    # Counters

    def refresh(self) -> None:
        """Bring the counters up to date with the limits in force."""
        if self._epoch is not self.active_limits.epoch:
            self._recount()

    def sorted_counters(self) -> list[Counter]:
        """Return all counters, up to date, leaf to root."""
        self.refresh()
        return sorted(self.counters.values(), key=lambda counter: (-counter.queue_path.count("."), counter.queue_path))

    def _recount(self) -> None:
        epoch = self.active_limits.epoch
        if self._manual is not None and self._manual.revision is not self.active_limits.limits.revision:
            self._manual = None
        # Under another layout the counters count other resources, so that all of them have to be summed up.
        old = self.counters if self._epoch.layout is epoch.layout else {}
        new: dict[str, Counter] = {}
        self.counters = {}
        for path, limit in self._needed_limits().items():
            counter = old.get(path)
            if counter is None:
                new[path] = counter = Counter(self, path, limit, epoch.layout)
            else:
                counter.replace_limit(limit)
            self.counters[path] = counter
        self._epoch = epoch
        if new:
            self._sum_up(new)

    def _needed_limits(self) -> dict[str, Limit]:
        """Return the limit of every limited queue in or below which something runs."""
        paths = dict.fromkeys(holding.queue_path for holding in all_holdings(self.holdings))
        return {path: limit for queue_path in paths for path, limit in self._limits_on(queue_path)}

    def _sum_up(self, counters: Mapping[str, Counter]) -> None:
        """Charge all holdings to *counters*, which are new."""
        for first in self.holdings.values():
            counted: set[str] = set()
            for holding in with_siblings(first):
                vector = self._epoch.layout.vector(Resource(holding.held()))
                for path in ancestors(holding.queue_path):
                    counter = counters.get(path)
                    if counter is not None:
                        charge([counter], vector)
                        if path not in counted:
                            counted.add(path)
                            counter.running += 1

    def clear(self) -> None:
        """Remove all holdings and counters, before they are listed again."""
        self.holdings, self.counters = {}, {}

    def set_limit(self, queue_path: str, change: Callable[[Limit], Limit]) -> None:
        """Set a limit by hand until the next configuration is applied.

        Raises:
            RequestError: nothing runs in or below the queue.
        """
        if not any(is_below(holding.queue_path, queue_path) for holding in all_holdings(self.holdings)):
            reason = f"{self.kind} {self.name!r} runs nothing in or below the queue, so there is no usage to limit"
            raise RequestError("queue_path", queue_path, reason, "state-conflict")
        self.refresh()
        counter = self.counters.get(queue_path)
        if self._manual is None or self._manual.revision is not self.active_limits.limits.revision:
            self._manual = self.active_limits.begin_manual()
        limit = change(counter.limit if counter else Limit(Resource()))
        self.active_limits.count_manual(limit.resources)
        named = {self.name: limit} if limit.resources or limit.applications else {}
        self._manual.levels[queue_path] = Level(queue_path, named, None)
        self._recount()
        for holding in all_holdings(self.holdings):
            holding.invalidate()

    # The self-check

    def missing_counters(self) -> list[str]:
        """Return the limited queues that have no counter although something runs there. Expected to be empty."""
        if self._epoch is not self.active_limits.epoch:
            return []
        return [path for path in self._needed_limits() if path not in self.counters]

    def recomputed_usage(self) -> dict[str, dict[str | None, int]]:
        """Return the usage of every queue by resource, summed up from the holdings; None counts the applications."""
        # The sums of each queue alone come first: there are many more holdings than queues.
        own: dict[str, dict[str | None, int]] = {}
        sums: dict[str, dict[str | None, int]] = {}
        for first in self.holdings.values():
            for holding in with_siblings(first):
                _add(own.setdefault(holding.queue_path, {}), holding.held())
            if first.sibling is None:
                _add(own[first.queue_path], _ONE_APPLICATION)
            else:
                for path in {path for holding in with_siblings(first) for path in ancestors(holding.queue_path)}:
                    _add(sums.setdefault(path, {}), _ONE_APPLICATION)
        for queue_path, usage in own.items():
            for path in ancestors(queue_path):
                _add(sums.setdefault(path, {}), usage)
        return sums

    # The groups of a user's applications

    def has_group_choice(self, application_id: str) -> bool:
        """Return whether a group, or no group, has been chosen for an application."""
        return application_id in self.holdings or application_id in (self.group_choices or ())

    def choose_group(self, application_id: str, group: Self | None) -> None:
        """Choose the group that an application will be charged to; the first choice counts."""
        if not self.has_group_choice(application_id):
            self.group_choices = {**(self.group_choices or {}), application_id: group}

    def drop_group_choice(self, application_id: str) -> None:
        """Remove the choice for an application that has been charged: its holding has the group now."""
        if self.group_choices is not None and application_id in self.group_choices:
            # If the start of the application is undone, the choice is needed for its next first usage.
            self.active_limits.lock.undo.append((self.restore_group_choices, (self.group_choices,)))
            left = {name: group for name, group in self.group_choices.items() if name != application_id}
            self.group_choices = left or None

    def restore_group_choices(self, choices: Mapping[str, Self | None] | None) -> None:
        """Undo `drop_group_choice`."""
        self.group_choices = choices

    def drop_stale_group_choices(self) -> None:
        """Remove the choices for running applications, which an interruption may have left."""
        left = {name: group for name, group in (self.group_choices or {}).items() if name not in self.holdings}
        self.group_choices = left or None


def _add(total: dict[str | None, int], usage: Mapping[str, int] | Mapping[str | None, int]) -> None:
    for name, amount in usage.items():
        total[name] = total.get(name, 0) + amount

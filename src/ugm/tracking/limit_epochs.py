"""The limits that are in force now, shared by all trackers of one partition.

The problem: limits may be replaced while 100,000 users are tracked, and requests must not wait until all their counters
are updated.

The idea: replacing the limits is one assignment that begins a new *epoch*. Trackers and holdings remember the epoch of
their counters. On the next use they compare it with the current epoch and, if it differs, update their counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, final
from weakref import WeakSet

from ugm._request_names import RequestNames
from ugm.counters import Layout
from ugm.identity import canonical_path
from ugm.operation_lock import OperationLock
from ugm.tracking.limits import Level, Limits, PathCache

__all__ = ["ActiveLimits", "Epoch", "ManualLimits"]

#: Number of unused resource names that a layout always keeps.
_SPARE: Final = 16


@final
class Epoch:
    """A period in which the same limits are in force.

    It is a separate object, so that a tracker that has been idle for long does not keep old limits in memory.
    """

    __slots__ = ("layout",)

    def __init__(self, layout: Layout) -> None:
        self.layout: Final = layout


@final
class ManualLimits:
    """The limits of one user or group that were set by hand, which expire with the configuration.

    Args:
        revision: that of the configuration in force.
    """

    __slots__ = ("__weakref__", "levels", "revision")

    def __init__(self, revision: object) -> None:
        self.revision: Final = revision
        #: By canonical queue path.
        self.levels: Final[dict[str, Level]] = {}

    def names(self) -> Iterator[str]:
        """Yield the resources that some limit names."""
        for level in self.levels.values():
            for limit in level.all_limits().values():
                yield from limit.resources


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

    __slots__ = ("_by_hand", "_canonical", "epoch", "limits", "lock", "managed", "request_names", "user_limits_win")

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        user_limits_win: bool = False,
        managed: bool = False,
        lock: OperationLock | None = None,
    ) -> None:
        self._canonical = PathCache(canonical_path).__getitem__
        self.limits: Limits = limits or Limits({}, {})
        #: The names that requests may have, and those that were requested.
        self.request_names: RequestNames = RequestNames(self.limits.listed, self.limits.modelled)
        self.epoch: Epoch = Epoch(self._layout(self.limits.names))
        self.user_limits_win: Final = user_limits_win
        self.managed: Final = managed
        #: The limits set by hand of all trackers that still exist.
        self._by_hand: Final[WeakSet[ManualLimits]] = WeakSet()
        #: The lock of the engine: every public operation of the partition, manager or tracker holds it. The lock has
        #: the same epoch as the limits, so it notices if an operation replaces the limits and is then interrupted.
        self.lock: Final = lock or OperationLock()
        self.lock.epoch = self.lock.valid_epoch = self.epoch
        self.lock.rebuild = self.discard_counters

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
        self._use_limits(limits)
        self._begin(self._epoch_of(self._layout((*limits.names, *other_names), closed=closed)))

    def reset_limits(self, limits: Limits, other_names: Iterable[str], *, closed: bool) -> None:
        """Put *limits* in force, and discard all counters: each is summed up from the holdings on its next use."""
        self._use_limits(limits)
        self._begin(Epoch(self._layout((*limits.names, *other_names), closed=closed)))

    def _use_limits(self, limits: Limits) -> None:
        self.limits = limits
        self.request_names = self.request_names.with_names(limits.listed, limits.modelled)

    def _layout(self, names: Iterable[str], *, closed: bool = False) -> Layout:
        return Layout(names, closed=closed, request_names=self.request_names)

    def discard_counters(self) -> None:
        """Discard all counters: each is summed up from the holdings on its next use."""
        old = self.epoch.layout
        # A layout is compared by identity, so counters are not carried over even if it has the same names.
        self._begin(Epoch(self._layout((*self.limits.names, *old.limited), closed=old.closed)))

    def count_resources(
        self,
        names: Iterable[str],
        *,
        closed: bool | None = None,
        in_use: Callable[[], Iterable[str]] | None = None,
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

    def begin_manual(self) -> ManualLimits:
        """Return the limits of a user or group that sets its first one by hand under this configuration."""
        manual = ManualLimits(self.limits.revision)
        self._by_hand.add(manual)
        return manual

    def count_manual(self, names: Iterable[str]) -> None:
        """Count the resources of a limit that is set by hand, and drop unused ones if most are unused.

        Trackers whose limits can be set by hand never share them with a partition, whose queues name other resources.
        """
        self.count_resources(names, in_use=self._limited_names)

    def _limited_names(self) -> Iterator[str]:
        """Yield the resources that a limit of the configuration or one set by hand names."""
        yield from self.limits.names
        for manual in self._by_hand:
            if manual.revision is self.limits.revision:
                yield from manual.names()

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
        old, names = self.epoch.layout, layout.request_names
        if (layout.names, layout.closed, names.listed) != (old.names, old.closed, old.request_names.listed):
            return Epoch(layout)
        # Keep the same layout for the same names: the vectors that are cached in resources stay valid.
        old.limited, old.request_names = layout.limited, names
        return Epoch(old)

"""The timers of enforced reductions: since when the usage of each queue has been above its maximum.

The problem: a timer runs exactly while usage is above the maximum, but grants and releases must not pay for that.

The idea: a grant or a release never brings usage above a maximum, and neither does a cluster that shrinks, because a
reduction does not enforce its size. Only a configuration, a quota, and an allocation that is adopted or corrected can.
So these changes alone compare the queues before and after, and record the timers that they start. A timer has stopped
if its queue is within the maximum. Its entry is ignored then, and the next start replaces it.

Invariant: each queue that takes part and is above its maximum has an entry with the time of the change that caused it.

The cost: one look at each queue above an adopted allocation, or at all queues for a configuration. A partition whose
configuration turns reductions off pays for one comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, final

from ugm.partition.clock import PartitionClock
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.state import PartitionState
from ugm.preemption import ReductionTimer
from ugm.preemption.settings import PreemptionSettings
from ugm.queues.queue import Queue

__all__ = ["ReductionTimers", "SettingsCache", "exceeded_queues"]


@final
class SettingsCache:
    """The settings of preemption of the last configuration that was used."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[CompiledConfig, PreemptionSettings] | None = None

    def of(self, compiled: CompiledConfig) -> PreemptionSettings:
        """Return the settings of a configuration."""
        known = self._known
        if known is None or known[0] is not compiled:
            known = self._known = compiled, PreemptionSettings(compiled.config)
        return known[1]


def exceeded_queues(
    state: PartitionState, settings: SettingsCache, queues: Iterable[Queue] | None = None
) -> dict[str, int]:
    """Return the queues above their maximum that take part in reductions, with their delays.

    Args:
        state: the state.
        settings: the cached settings.
        queues: the queues to look at; None for all.
    """
    config = state.compiled.config
    if config is None or config.preemption.quota_preemption_enabled is not True:
        return {}
    reduction_delay = settings.of(state.compiled).reduction_delay
    listed = state.tree.queues.values() if queues is None else queues
    exceeded = [queue.queue_path for queue in listed if _is_above_maximum(queue)]
    return {path: delay for path in exceeded if (delay := reduction_delay(path))}


def _is_above_maximum(queue: Queue) -> bool:
    counter = queue.counter
    if counter is None or queue.parent is None:
        # The maximum of the root is the size of the cluster.
        return False
    return any(counter.free(name) < 0 for name in counter.limit.resources)


@final
class ReductionTimers:
    """Starts and lists the timers of a partition. The caller holds the lock.

    Args:
        state: the state of the partition.
        clock: the clock of the partition.
        settings: the cached settings.
    """

    __slots__ = ("_clock", "_settings", "_state", "continuing")

    #: The queues that have been above their maximum since before a schedule changed the limits, so that their timers
    #: run on; None if the timers of all others have been started since.
    continuing: frozenset[str] | None

    def __init__(self, state: PartitionState, clock: PartitionClock, settings: SettingsCache) -> None:
        self._state: Final = state
        self._clock: Final = clock
        self._settings: Final = settings
        self.continuing = None

    def keep_running(self) -> None:
        """Note which queues are above their maximum, before a schedule changes the limits."""
        exceeded = frozenset(self.exceeded())
        self.continuing = exceeded if self.continuing is None else self.continuing & exceeded

    def set_continuing(self, queue_paths: frozenset[str]) -> None:
        """Restore `continuing`, because an operation is undone."""
        self.continuing = queue_paths

    def exceeded(self, queue: Queue | None = None) -> dict[str, int]:
        """Return the queues above their maximum that take part, with their delays; for `start`.

        Args:
            queue: the queue that a change concerns, with those above it; None for all queues.
        """
        return exceeded_queues(self._state, self._settings, None if queue is None else queue.lineage())

    def start(self, before: Collection[str], queue: Queue | None = None) -> None:
        """Start the timers of the queues that a change has brought above their maximum.

        Args:
            before: the result of `exceeded` before the change.
            queue: as for `exceeded`.
        """
        started = tuple(sorted(path for path in self.exceeded(queue) if path not in before))
        if started:
            self._state.start_reduction_timers(started, self._clock.now(changes=True))

    @property
    def are_missing(self) -> bool:
        """True if a queue above its maximum has no timer, because an earlier version has written the state."""
        return not self.exceeded().keys() <= self._state.reduction_timers.keys()

    def start_missing(self) -> None:
        """Start the timers of restored queues that have none."""
        self.start(self._state.reduction_timers)

    def running(self) -> tuple[ReductionTimer, ...]:
        """Return the running timers, sorted by path."""
        return tuple(self._running())

    def _running(self) -> Iterator[ReductionTimer]:
        timers, continuing = self._state.reduction_timers, self.continuing
        for path, delay in sorted(self.exceeded().items()):
            # A schedule may have lowered the maximum since the last change; the next change starts the timer.
            is_running = path in timers and (continuing is None or path in continuing)
            yield ReductionTimer(path, timers[path] if is_running else self._clock.latest, delay)

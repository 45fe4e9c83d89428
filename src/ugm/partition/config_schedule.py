"""The schedule of a configuration: which maxima are in force at a second.

The idea: the limits in force are a pure function of the configuration and the second. So nothing about them is stored
in a journal. Every operation of a partition with a schedule reads the clock first, and if the second of the next change
has come, it puts other limits in force before it decides. The clock of a partition never goes back, so neither do the
limits.

All variants of the maxima are checked when the configuration is compiled. Each is compiled when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self, TypeAlias, final

from ugm.configuration import LimitConfig, LimitExtensions, PartitionConfig, QueueConfig, ScheduledLimit
from ugm.queues.specs import QueueSpecs
from ugm.tracking.limits import Limits, checked_limit

if TYPE_CHECKING:
    from ugm._schedules import ScheduleEntry

__all__ = ["NEVER", "ActiveEntries", "ConfigSchedule"]

#: After the year 9999.
NEVER: Final = 2**63
#: The number of compiled variants that are kept.
_MOST_VARIANTS: Final = 16

#: For each scheduled place of a configuration the position of the entry in force; None for none.
ActiveEntries: TypeAlias = tuple[int | None, ...]


@final
class ConfigSchedule:
    """The schedules of the limits and queues of one configuration.

    Args:
        config: a configuration with at least one schedule.
    """

    __slots__ = ("_config", "_places", "compiled")

    def __init__(self, config: PartitionConfig) -> None:
        # Imported late: most configurations have no schedules.
        from ugm._schedules import parse_entry  # noqa: PLC0415 - as above

        self._config: Final = config
        #: The entries of each scheduled place, in the order of `_extensions`.
        self._places: Final[tuple[tuple[ScheduleEntry, ...], ...]] = tuple(
            tuple(map(parse_entry, one.schedule)) for one in _extensions(config.root) if one.schedule
        )
        for one in _extensions(config.root):
            for entry in one.schedule:
                checked_limit("max_resources", entry.max_resources)
        #: Returns the compiled limits and queues with some entries in force.
        self.compiled: Final = lru_cache(_MOST_VARIANTS)(self._compile)

    @classmethod
    def compile(cls, config: PartitionConfig | None) -> Self | None:
        """Return the schedule of a configuration; None if it has none.

        Raises:
            RequestError: an entry is invalid.
        """
        if config is None or not any(one.schedule for one in _extensions(config.root)):
            return None
        return cls(config)

    def active(self, second: int) -> ActiveEntries:
        """Return the entries that are in force at a second: of each place the first one that applies."""
        return tuple(
            next((position for position, entry in enumerate(entries) if entry.applies(second)), None)
            for entries in self._places
        )

    def next_change(self, second: int) -> int:
        """Return the next second at which another entry may apply; `NEVER` if there is none."""
        return min(entry.next_change(second) for entries in self._places for entry in entries)

    def _compile(self, active: ActiveEntries) -> tuple[Limits, QueueSpecs]:
        root = _variant(self._config.root, iter(active))
        return Limits.compile(PartitionConfig(queues=(root,))), QueueSpecs.compile(root)


def _extensions(root: QueueConfig) -> Iterator[LimitExtensions]:
    """Yield the extensions of every queue, those of the queue before those of its limits."""
    for _, queue in root.walk():
        yield queue.ugm
        for limit in queue.limits:
            yield limit.ugm


def _variant(queue: QueueConfig, active: Iterator[int | None]) -> QueueConfig:
    """Return a queue, and everything below it, with the maxima of the entries in force."""
    entry = _entry(queue.ugm, active)
    if entry is not None:
        most = queue.max_resources if entry.max_resources is None else entry.max_resources
        applications = entry.max_applications or queue.max_applications
        queue = replace(queue, resources=replace(queue.resources, max=most), max_applications=applications)
    limits = tuple(_limit(limit, active) for limit in queue.limits)
    return replace(queue, limits=limits, queues=tuple(_variant(child, active) for child in queue.queues))


def _limit(limit: LimitConfig, active: Iterator[int | None]) -> LimitConfig:
    entry = _entry(limit.ugm, active)
    if entry is None:
        return limit
    resources = limit.max_resources if entry.max_resources is None else entry.max_resources
    return replace(limit, max_resources=resources, max_applications=entry.max_applications or limit.max_applications)


def _entry(extensions: LimitExtensions, active: Iterator[int | None]) -> ScheduledLimit | None:
    """Return the entry in force of one place."""
    position = next(active) if extensions.schedule else None
    return None if position is None else extensions.schedule[position]

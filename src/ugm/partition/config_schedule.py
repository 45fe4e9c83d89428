"""The schedule of a configuration: which maxima are in force at a second.

The idea: the limits in force are a pure function of the configuration and the second. So nothing about them is stored
in a journal. Every operation of a partition with a schedule reads the clock first, and if the second of the next change
has come, it puts other limits in force before it decides. The clock of a partition never goes back, so neither do the
limits.

All variants of the maxima are checked when the configuration is compiled. Each is compiled when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, Self, TypeAlias, final

from ugm.configuration import LimitConfig, LimitExtensions, PartitionConfig, QueueConfig, ScheduledLimit
from ugm.queues.specs import QueueSpecs
from ugm.resources import Resource
from ugm.tracking.limits import Limits, checked_limit

if TYPE_CHECKING:
    from ugm._schedules import ScheduleEntry

__all__ = ["NEVER", "ActiveEntries", "ConfigSchedule", "highest_limits"]

#: After the year 9999.
NEVER: Final = 2**63
#: The number of compiled variants that are kept.
_MOST_VARIANTS: Final = 16

#: For each scheduled place of a configuration the position of the entry in force; None for none.
ActiveEntries: TypeAlias = tuple[int | None, ...]
#: The maximum of resources, and that of running applications.
_Maxima: TypeAlias = tuple[Resource | None, int]
#: Returns the maxima that replace others, which have a schedule.
_Choice: TypeAlias = Callable[[_Maxima, tuple[ScheduledLimit, ...]], _Maxima]


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
        root = _variant(self._config.root, partial(_maxima_of_entry, iter(active)))
        return Limits.compile(PartitionConfig(queues=(root,))), QueueSpecs.compile(root)


def highest_limits(config: PartitionConfig, *, ever_unlimited: bool) -> PartitionConfig:
    """Return a configuration without schedules, in which each maximum is the highest that is in force at any time.

    Args:
        config: the configuration.
        ever_unlimited: the meaning of a resource that is unlimited at some time: it is unlimited, or the highest
            maximum that it has at other times applies.
    """
    root = _variant(config.root, partial(_highest_maxima, ever_unlimited))
    return replace(config, queues=(root,), limits=())


def _extensions(root: QueueConfig) -> Iterator[LimitExtensions]:
    """Yield the extensions of every queue, those of the queue before those of its limits."""
    for _, queue in root.walk():
        yield queue.ugm
        for limit in queue.limits:
            yield limit.ugm


def _variant(queue: QueueConfig, choose: _Choice) -> QueueConfig:
    """Return a queue, and everything below it, without schedules and with the maxima that a function chooses."""
    if queue.ugm.schedule:
        most, applications = choose((queue.max_resources, queue.max_applications), queue.ugm.schedule)
        resources, extensions = replace(queue.resources, max=most), replace(queue.ugm, schedule=())
        queue = replace(queue, resources=resources, max_applications=applications, ugm=extensions)
    limits = tuple(_limit(limit, choose) for limit in queue.limits)
    return replace(queue, limits=limits, queues=tuple(_variant(child, choose) for child in queue.queues))


def _limit(limit: LimitConfig, choose: _Choice) -> LimitConfig:
    if not limit.ugm.schedule:
        return limit
    most, applications = choose((limit.max_resources, limit.max_applications), limit.ugm.schedule)
    extensions = replace(limit.ugm, schedule=())
    return replace(limit, max_resources=most, max_applications=applications, ugm=extensions)


def _maxima_of_entry(active: Iterator[int | None], base: _Maxima, schedule: tuple[ScheduledLimit, ...]) -> _Maxima:
    """Return the maxima with the entry in force of one place."""
    position = next(active)
    return base if position is None else _maxima_with(base, schedule[position])


def _maxima_with(base: _Maxima, entry: ScheduledLimit) -> _Maxima:
    resources, applications = base
    return (
        resources if entry.max_resources is None else entry.max_resources,
        entry.max_applications or applications,
    )


def _highest_maxima(ever_unlimited: bool, base: _Maxima, schedule: tuple[ScheduledLimit, ...]) -> _Maxima:  # noqa: FBT001 - bound by `partial`
    variants = [base, *(_maxima_with(base, entry) for entry in schedule)]
    resources = [most or Resource() for most, _ in variants]
    applications = [most for _, most in variants]
    names = {
        name: None
        for most in resources
        for name in most
        if not ever_unlimited or all(name in other for other in resources)
    }
    highest = Resource({name: max(most.get(name, 0) for most in resources) for name in names})
    is_unlimited = ever_unlimited and 0 in applications
    return highest or None, 0 if is_unlimited else max(applications)

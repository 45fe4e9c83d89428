"""The schedule of a configuration: which maxima are in force at a second.

The idea: the limits in force are a pure function of the configuration and the second. So nothing about them is stored
in a journal. Every operation of a partition with a schedule reads the clock first, and if the second of the next change
has come, it puts other limits in force before it decides. The clock of a partition never goes back, so neither do the
limits.

All variants of the maxima are checked when the configuration is compiled. Each is compiled when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, final

from ugm.configuration import LimitConfig, LimitExtensions, PartitionConfig, QueueConfig, ScheduledLimit
from ugm.decision import LimitRise, ScheduledViolation, Violation
from ugm.identity import TrackingType, ancestors
from ugm.queues.specs import QueueSpecs
from ugm.resources import Resource
from ugm.tracking.limits import Limits, checked_limit

if TYPE_CHECKING:
    from ugm._schedule_entries import ScheduleEntry

__all__ = ["NEVER", "ActiveEntries", "ConfigSchedule", "highest_limits"]

#: After the year 9999.
NEVER: Final = 2**63
#: The number of compiled variants that are kept, and of places whose later maxima are.
_MOST_VARIANTS: Final = 16
_MOST_PLACES: Final = 1024
#: Within this many seconds, every entry without a date begins at least once, even if the time zone skips a beginning.
_CYCLE: Final = 15 * 86_400

#: For each scheduled place of a configuration the position of the entry in force; None for none.
ActiveEntries: TypeAlias = tuple[int | None, ...]
#: The maximum of resources, and that of running applications.
_Maxima: TypeAlias = tuple[Resource | None, int]
#: Returns the maxima that replace others, which have a schedule.
_Choice: TypeAlias = Callable[[_Maxima, tuple[ScheduledLimit, ...]], _Maxima]


#: The kind of the owner, the queue, and the name in the configuration; see `ugm.Violation`.
_PlaceKey: TypeAlias = tuple[str, str, str]


class _Place(NamedTuple):
    """A scheduled limit: the maxima of each entry, and last those at all other times."""

    entries: tuple[ScheduleEntry, ...]
    maxima: tuple[_Maxima, ...]

    def active(self, second: int) -> int | None:
        """Return the position of the first entry that applies at a second; None for none."""
        return next((position for position, entry in enumerate(self.entries) if entry.applies(second)), None)

    def later(self, second: int) -> tuple[tuple[int, _Maxima], ...]:
        """Return the maxima in force at a second and at later ones, each with the first such second, in this order."""
        found: dict[int | None, int] = {}
        for at in _instants(self.entries, second):
            found.setdefault(self.active(at), at)
        return tuple((at, self.maxima[-1 if position is None else position]) for position, at in found.items())


def _instants(entries: Sequence[ScheduleEntry], second: int) -> Iterator[int]:
    """Yield a second, and the later ones at which another entry may apply.

    Between the dates of entries, the maxima repeat every week. So a search of some days after each date finds all.
    """
    dates = {bound for entry in entries for bound in (entry.first, entry.last) if second < bound < NEVER}
    for begin, end in pairwise((second, *sorted(dates), NEVER)):
        at = begin
        while at < min(end, begin + _CYCLE):
            yield at
            at = min(entry.next_change(at) for entry in entries)


@final
class ConfigSchedule:
    """The schedules of the limits and queues of one configuration.

    Args:
        config: a configuration with at least one schedule.
    """

    __slots__ = ("_by_key", "_config", "_later", "_places", "compiled", "later_variants")

    def __init__(self, config: PartitionConfig) -> None:
        # Imported late: most configurations have no schedules.
        from ugm._schedule_entries import parse_entry  # noqa: PLC0415 - as above

        self._config: Final = config
        #: The places by what a violation says about them; None for a limit without a schedule.
        self._by_key: Final[dict[_PlaceKey, _Place | None]] = {}
        places = []
        for keys, base, extensions in _limits_of(config.root):
            place = None
            if extensions.schedule:
                entries = tuple(map(parse_entry, extensions.schedule))
                place = _Place(entries, (*(_maxima_with(base, one) for one in extensions.schedule), base))
                places.append(place)
            for key in keys:
                self._by_key.setdefault(key, place)
        #: All limits with a schedule, in the order of `_extensions`.
        self._places: Final = tuple(places)
        for one in _extensions(config.root):
            for entry in one.schedule:
                checked_limit("max_resources", entry.max_resources)
        #: Returns the compiled limits and queues with some entries in force.
        self.compiled: Final = lru_cache(_MOST_VARIANTS)(self._compile)
        self._later: Final = lru_cache(_MOST_PLACES)(self._later_maxima)
        #: Returns the limits of some queues and those above them, for each combination in force at or after a second.
        self.later_variants: Final = lru_cache(_MOST_VARIANTS)(self._later_variants)

    @classmethod
    def compile(cls, config: PartitionConfig | None) -> Self | None:
        """Return the schedule of a configuration; None if it has none.

        Raises:
            RequestError: an entry is invalid.
        """
        if config is None or not any(one.schedule for one in _extensions(config.root)):
            return None
        return cls(config)

    def __reduce__(self) -> tuple[type[Self], tuple[PartitionConfig]]:
        """Return how another process makes an equal schedule: the caches cannot be sent."""
        return type(self), (self._config,)

    def active(self, second: int) -> ActiveEntries:
        """Return the entries that are in force at a second: of each place the first one that applies."""
        return tuple(place.active(second) for place in self._places)

    def next_change(self, second: int) -> int:
        """Return the next second at which another entry may apply; `NEVER` if there is none."""
        return min(entry.next_change(second) for place in self._places for entry in place.entries)

    def with_rises(
        self, violations: tuple[Violation, ...], second: int, usage: Mapping[str, int]
    ) -> tuple[Violation, ...]:
        """Return violations with the changes that help, where the request alone exceeds a limit and a change helps.

        A change helps if the limit allows all resources of the request then.

        Args:
            violations: the violations of a request; those of quota models are returned as they are.
            second: the first second that counts.
            usage: the whole amounts that every limit checks, as far as they are known.
        """
        needed: dict[_PlaceKey, dict[str, int]] = {}
        for one in violations:
            if one.resource is not None:
                needed.setdefault(_place_key(one), {**usage})[one.resource] = one.requested
        return tuple(
            one if one.can_wait else self._with_rise(one, second, needed.get(_place_key(one), {})) for one in violations
        )

    def _with_rise(self, violation: Violation, second: int, needed: Mapping[str, int]) -> Violation:
        for at, (resources, applications) in self._later(_place_key(violation), second):
            most: Mapping[str, int] = resources or {}
            if violation.resource is None:
                if not applications or violation.requested <= applications:
                    return ScheduledViolation.of(violation, LimitRise(at, applications or None))
            elif all(amount <= most.get(name, amount) for name, amount in needed.items()):
                return ScheduledViolation.of(violation, LimitRise(at, most.get(violation.resource)))
        return violation

    def _later_maxima(self, key: _PlaceKey, second: int) -> tuple[tuple[int, _Maxima], ...]:
        place = self._by_key.get(key)
        return () if place is None else place.later(second)

    def _later_variants(self, paths: frozenset[str], second: int) -> tuple[tuple[Limits, QueueSpecs], ...]:
        kept = {above for path in paths for above in ancestors(path)}
        schedule = ConfigSchedule(replace(self._config, queues=(_only(self._config.root, "", kept),), limits=()))
        entries = [entry for place in schedule._places for entry in place.entries]
        combinations = dict.fromkeys(schedule.active(at) for at in _instants(entries, second))
        return tuple(map(schedule.compiled, combinations))

    def _compile(self, active: ActiveEntries) -> tuple[Limits, QueueSpecs]:
        root = _variant(self._config.root, partial(_maxima_of_entry, iter(active)))
        return Limits.compile(PartitionConfig(queues=(root,))), QueueSpecs.compile(root)


def _only(queue: QueueConfig, above: str, kept: Collection[str]) -> QueueConfig:
    """Return a queue with those below it whose paths are kept."""
    path = f"{above}{queue.name.lower()}"
    below = [child for child in queue.queues if f"{path}.{child.name.lower()}" in kept]
    return replace(queue, queues=tuple(_only(child, f"{path}.", kept) for child in below))


def _place_key(violation: Violation) -> _PlaceKey:
    return violation.kind, violation.queue_path, violation.limit_name


def highest_limits(config: PartitionConfig) -> PartitionConfig:
    """Return a configuration without schedules, in which each maximum is the highest that is in force at any time.

    A resource that is unlimited at some time has the highest maximum of the other times.
    """
    return replace(config, queues=(_variant(config.root, _highest_maxima),), limits=())


def _limits_of(root: QueueConfig) -> Iterator[tuple[list[_PlaceKey], _Maxima, LimitExtensions]]:
    """Yield the names, the maxima and the extensions of every queue, those of the queue before those of its limits."""
    for path, queue in root.walk():
        yield [(TrackingType.QUEUE, path, "")], (queue.max_resources, queue.max_applications), queue.ugm
        for limit in queue.limits:
            users = [(TrackingType.USER, path, name) for name in limit.users]
            groups = [(TrackingType.GROUP, path, name) for name in limit.groups]
            yield [*users, *groups], (limit.max_resources, limit.max_applications), limit.ugm


def _extensions(root: QueueConfig) -> Iterator[LimitExtensions]:
    """Yield the extensions of every queue, those of the queue before those of its limits."""
    return (extensions for _, _, extensions in _limits_of(root))


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


def _highest_maxima(base: _Maxima, schedule: tuple[ScheduledLimit, ...]) -> _Maxima:
    variants = [base, *(_maxima_with(base, entry) for entry in schedule)]
    resources = [most or Resource() for most, _ in variants]
    names = dict.fromkeys(name for most in resources for name in most)
    highest = Resource({name: max(most.get(name, 0) for most in resources) for name in names})
    return highest or None, max(applications for _, applications in variants)

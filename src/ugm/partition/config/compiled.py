"""The compiled form of a configuration: its limits, queues, placement rules and models as the engine uses them.

Compiling validates the configuration, and takes time proportional to its size. So it is done before the lock of the
partition is taken, and an invalid configuration changes nothing. Under the lock,
`ugm.partition.engine.state.PartitionState.replace_config` puts the compiled form in force.

*Limits on pending work.* No limit on running work counts a pending request, so a user could queue any number. An
entry of the limits of a queue may set under its key ``ugm`` the maximum number of pending requests, the maximum sum of
their amounts, and the maximum number of applications from their submission to their end, waiting or running. A queue
may set the same for itself. The entry in force is the same as for running work. For a user it is the one that names the
user, else the wildcard, which counts each user separately. For the group that an application is charged to, it is the
one that names the group. An application that a wildcard selected is charged to the group ``*``. A queue counts
everything in and below it.

*The schedule.* The limits in force are a pure function of the configuration and the second. So nothing about them is
stored. Every operation of a partition with a schedule reads the clock first, and if the second of the next change has
come, it puts other limits in force before it decides. The clock of a partition never goes back, so neither do the
limits.

All variants of the maxima are checked when the configuration is compiled. Each is compiled when it is first needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, final

from ugm.configuration import LimitConfig, LimitExtensions, PartitionConfig, PlacementRule, QueueConfig, ScheduledLimit
from ugm.configuration.fields import to_data
from ugm.configuration.model_kinds import ModelDefinition, definitions_of
from ugm.configuration.scheduler import COUNTED_FIELDS, RESERVATION, require_thresholds
from ugm.decision import LimitRise, Violation
from ugm.errors import RequestError, time_text
from ugm.identity import WILDCARD, TrackingType, ancestors
from ugm.queues import PlacementRules
from ugm.queues.tree import QueueSpecs
from ugm.resources import Resource, format_amount
from ugm.tracking.limits import Limits, checked_limit

if TYPE_CHECKING:
    from ugm.configuration.schedules import ScheduleEntry

#: The kind of work that is counted, ``pending`` or ``submitted``, and the resource; None for the number of requests or
#: of applications.
Counted: TypeAlias = tuple[str, str | None]
PENDING_REQUESTS: Final[Counted] = ("pending", None)
SUBMITTED_APPLICATIONS: Final[Counted] = ("submitted", None)


class PendingMaximum(NamedTuple):
    """The maximum of pending work that one entry of a configuration sets."""

    #: The entry, for example ``root.prod limits[2]``.
    place: str
    #: The name in the entry: a user, a group or the wildcard; empty for a queue.
    limit_name: str
    amounts: Mapping[Counted, int]


class AccountKey(NamedTuple):
    """The owner of a maximum, in one queue."""

    queue_path: str
    #: A `ugm.TrackingType`.
    kind: str
    name: str


#: The kind of the owner, the queue, and the name in the configuration; see `ugm.Violation`.
_PlaceKey: TypeAlias = tuple[str, str, str]


@final
class PendingLimits:
    """All limits on pending work of one configuration.

    Args:
        maxima: the maxima by place; None for a named owner without a limit on pending work. A queue has no name.
    """

    def __init__(self, maxima: Mapping[_PlaceKey, PendingMaximum | None]) -> None:
        self._maxima: Final = maxima

    @classmethod
    def compile(cls, config: PartitionConfig | None) -> Self | None:
        """Compile the limits of a configuration; None if it sets none."""
        maxima: dict[_PlaceKey, PendingMaximum | None] = {}
        for place, keys, _, extensions in () if config is None else limits_of(config.root):
            for key in keys:
                # The first of several entries for a name counts.
                maxima.setdefault(key, _maximum(place, key[2], extensions))
        return cls(maxima) if any(maxima.values()) else None

    def maxima(self, queue_path: str, user: str, group: str | None) -> Iterator[tuple[AccountKey, PendingMaximum]]:
        """Yield the maxima for an application: of the user, the group and the queues, each leaf to root."""
        owners = (TrackingType.USER, user), (TrackingType.GROUP, group), (TrackingType.QUEUE, "")
        for kind, name in owners if group is not None else owners[::2]:
            for path in ancestors(queue_path):
                wildcard = self._maxima.get((kind, path, WILDCARD)) if kind is TrackingType.USER else None
                maximum = self._maxima.get((kind, path, name or ""), wildcard)
                if maximum is not None:
                    yield AccountKey(path, kind, name or path), maximum

    def all_maxima(self) -> Iterator[tuple[AccountKey, PendingMaximum]]:
        """Yield every maximum with its owner."""
        for (kind, path, name), maximum in self._maxima.items():
            if maximum is not None:
                yield AccountKey(path, kind, name or path), maximum


def _maximum(place: str, name: str, settings: LimitExtensions) -> PendingMaximum | None:
    counts = {(work, None): getattr(settings, name) for work, name in COUNTED_FIELDS.items()}
    amounts: dict[Counted, int] = {counted: count for counted, count in counts.items() if count}
    amounts |= {("pending", resource): amount for resource, amount in (settings.max_pending_resources or {}).items()}
    return PendingMaximum(place, name, amounts) if amounts else None


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


@final
class ScheduledViolation(Violation):
    """A limit that is too small for a request now, and that a schedule raises later.

    Waiting can help, unless the request is too large for the raised limit, or other limits deny it whenever this one
    allows it.

    >>> violation = Violation(TrackingType.QUEUE, "root.prod", "root.prod", "", "gpu", 4, 0, 8)
    >>> print(ScheduledViolation.of(violation, LimitRise(1_795_824_000, 16)))
    queue root.prod: 8 gpu requested, at most 4 allowed until 2026-11-28 00:00 UTC, then 16
    """

    _rise: LimitRise
    #: Whether the request is denied at each time: by other limits, or because the highest maximum is too small.
    _is_blocked: bool

    @classmethod
    def of(cls, violation: Violation, rise: LimitRise, *, is_blocked: bool = False) -> Self:
        """Return a violation with the change after which the limit allows the request, or else is the highest."""
        made = cls(*violation)
        made._rise, made._is_blocked = rise, is_blocked
        return made

    def as_blocked(self) -> Self:
        """Return the violation for a request that other limits deny at each time at which this one allows it."""
        return self.of(self, self._rise, is_blocked=True)

    @property
    def can_wait(self) -> bool:
        """True if the request fits after the change."""
        return not self._is_blocked

    @property
    def rise(self) -> LimitRise | None:
        """The first change of the limit after which the request fits without other usage; None for none."""
        return None if self._is_blocked else self._rise

    def _what(self) -> str:
        resource, (at, later) = self.resource or "", self._rise
        requested, limit = (format_amount(resource, amount) for amount in (self.requested, self.limit))
        change = "unlimited" if later is None else format_amount(resource, later)
        is_enough = later is None or self.requested <= later
        blocked = "; other limits deny it whenever this one does not" if self._is_blocked and is_enough else ""
        things = resource or "more applications"
        return f"{requested} {things} requested, at most {limit} allowed until {time_text(at)}, then {change}{blocked}"


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

    def __init__(self, config: PartitionConfig) -> None:
        # Imported late: most configurations have no schedules.
        from ugm.configuration.schedules import parse_entry  # noqa: PLC0415 - as above

        self._config: Final = config
        #: The places by what a violation says about them; None for a limit without a schedule.
        self._by_key: Final[dict[_PlaceKey, _Place | None]] = {}
        places = []
        for _, keys, base, extensions in limits_of(config.root):
            place = None
            if extensions.schedule:
                for entry in extensions.schedule:
                    checked_limit("max_resources", entry.max_resources)
                entries = tuple(map(parse_entry, extensions.schedule))
                place = _Place(entries, (*(_maxima_with(base, one) for one in extensions.schedule), base))
                places.append(place)
            for key in keys:
                self._by_key.setdefault(key, place)
        #: All limits with a schedule, in the order of `limits_of`.
        self._places: Final = tuple(places)
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
        if config is None or not any(extensions.schedule for *_, extensions in limits_of(config.root)):
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
        """Return violations with the changes that help, or raise the limit most, where the request alone exceeds it.

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
        best = LimitRise(second, violation.limit)
        for at, (resources, applications) in self._later(_place_key(violation), second):
            most: Mapping[str, int] = resources or {}
            if violation.resource is None:
                later, helps = applications or None, not applications or violation.requested <= applications
            else:
                later = most.get(violation.resource)
                helps = all(amount <= most.get(name, amount) for name, amount in needed.items())
            if helps:
                return ScheduledViolation.of(violation, LimitRise(at, later))
            if best.limit is not None and (later is None or later > best.limit):
                best = LimitRise(at, later)
        # The text names the highest maximum, although it is too small.
        return violation if best.at == second else ScheduledViolation.of(violation, best, is_blocked=True)

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
        # With its list of resources and its families.
        return Limits.compile(replace(self._config, queues=(root,), limits=())), QueueSpecs.compile(root)


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


def limits_of(root: QueueConfig) -> Iterator[tuple[str, list[_PlaceKey], _Maxima, LimitExtensions]]:
    """Yield the place, the owners, the maxima and the extensions of every queue, and of its limits after it."""
    for path, queue in root.walk():
        yield path, [(TrackingType.QUEUE, path, "")], (queue.max_resources, queue.max_applications), queue.ugm
        for at, limit in enumerate(queue.limits):
            users = [(TrackingType.USER, path, name) for name in limit.users]
            groups = [(TrackingType.GROUP, path, name) for name in limit.groups]
            maxima = limit.max_resources, limit.max_applications
            yield f"{path} limits[{at}]", [*users, *groups], maxima, limit.ugm


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
    return (resources if entry.max_resources is None else entry.max_resources, entry.max_applications or applications)


def _highest_maxima(base: _Maxima, schedule: tuple[ScheduledLimit, ...]) -> _Maxima:
    variants = [base, *(_maxima_with(base, entry) for entry in schedule)]
    resources = [most or Resource() for most, _ in variants]
    names = dict.fromkeys(name for most in resources for name in most)
    highest = Resource({name: max(most.get(name, 0) for most in resources) for name in names})
    return highest or None, max(applications for _, applications in variants)


#: The length of a version in bytes.
_VERSION_SIZE: Final = 8


class CompiledConfig(NamedTuple):
    """A configuration, compiled."""

    limits: Limits
    specs: QueueSpecs
    rules: PlacementRules
    #: The definitions of the declared quota models.
    models: tuple[ModelDefinition, ...]
    #: The configuration that was compiled; None for none.
    config: PartitionConfig | None
    #: Identifies the content of the configuration. It is the same in every process, so a plan that was made at one
    #: leader of a service can be applied at the next one.
    version: str
    #: None if nothing limits pending work.
    pending: PendingLimits | None = None
    #: The limits that change with the time; None if none do.
    schedule: ConfigSchedule | None = None
    #: For each scheduled place of the configuration the entry in force; None before the first reading of a clock.
    active: ActiveEntries | None = None
    #: The second at which the limits in force may change.
    changes_at: int = -NEVER

    @property
    def mentions_reservations(self) -> bool:
        """True if a queue has the property that lets requests reserve capacity, with any value."""
        queues = () if self.config is None else self.config.root.walk()
        places = (one for _, queue in queues for one in (queue, queue.child_template))
        return any(one is not None and RESERVATION in one.properties for one in places)

    @property
    def rule_configs(self) -> tuple[PlacementRule, ...]:
        """The placement rules before they were compiled, for comparison."""
        return () if self.config is None else self.config.placement_rules

    @classmethod
    def of(cls, config: PartitionConfig | None) -> Self:
        """Compile a configuration; None gives a root without queues or limits.

        Raises:
            RequestError: the value is not a `PartitionConfig`, or a partition cannot use the configuration.
        """
        if config is None:
            return cls(Limits.compile(None), QueueSpecs.compile(None), PlacementRules(), (), None, _version_of(None))
        # The limits come first, because they check the type of the configuration.
        limits = Limits.compile(config)
        normal = _normal(config) if config.ugm.families else config
        specs = QueueSpecs.compile(normal.root)
        rules, models = PlacementRules(config.placement_rules), definitions_of(normal)
        require_thresholds(config.ugm.thresholds)
        pending, schedule = PendingLimits.compile(config), ConfigSchedule.compile(normal)
        return cls(limits, specs, rules, models, config, _version_of(config), pending, schedule)

    def with_active(self, active: ActiveEntries | None) -> Self:
        """Return the configuration with the given entries of its schedule in force; unchanged if *active* is None."""
        if self.schedule is None or active is None:
            return self
        limits, specs = self.schedule.compiled(active)
        return self._replace(limits=limits, specs=specs, active=active)

    def unscheduled_specs(self) -> QueueSpecs:
        """Return the queues with the limits of the times without a scheduled one."""
        if self.schedule is None or self.active is None:
            return self.specs
        return self.schedule.compiled((None,) * len(self.active))[1]

    def at(self, second: int) -> Self:
        """Return the configuration with the limits that are in force at a second.

        Before the first call, the limits of a schedule are not in force.
        """
        if self.schedule is None:
            return self
        active, changes_at = self.schedule.active(second), self.schedule.next_change(second)
        in_force = self if active == self.active else self.with_active(active)
        return in_force._replace(changes_at=changes_at)


def _normal(config: PartitionConfig) -> PartitionConfig:
    """Return a configuration with families in normal form, after a check of their rules."""
    from ugm.configuration.family_rules import family_findings, normal_config  # noqa: PLC0415 - few have families

    for found in family_findings(config):
        raise RequestError("config", ".".join(map(str, found.path)), found.message)
    return normal_config(config)


def _version_of(config: PartitionConfig | None) -> str:
    content = json.dumps(to_data(config), sort_keys=True)
    return blake2b(content.encode(), digest_size=_VERSION_SIZE).hexdigest()

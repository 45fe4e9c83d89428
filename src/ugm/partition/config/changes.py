"""Comparison of two configurations: the parts that differ, and the limits that fall considerably.

A configuration is a list of *parts*: queues, limits, schedules, and the parts of declared quota models. A part has a
kind, a name and properties, which are texts for people. So one comparison serves all of them.

A mistake in a number, such as a missing digit, often lowers a limit considerably. So a plan with such a change, a
*risk*, has to be confirmed. An added or removed limit is not a risk, unless the usage is above a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from ugm._json_values import JsonObject, attributes
from ugm.configuration import PartitionConfig, ScheduledLimit, ThresholdConfig
from ugm.configuration.fields import setting_texts
from ugm.decision import COUNTED_KINDS, Violation
from ugm.identity import TrackingType
from ugm.partition.config.compiled import CompiledConfig, limits_of
from ugm.queues import QueueSpec, Quota
from ugm.resources import Resource, format_amount

#: The kind, the name and the queue of a part; see `ConfigChange`.
_Part: TypeAlias = tuple[str, str, str]
#: Yields the parts of a configuration with their properties.
_PartsOf: TypeAlias = Callable[[CompiledConfig], Iterator[tuple[_Part, dict[str, str]]]]


class Detail(NamedTuple):
    """One property that differs, as texts for people; a text is empty if the property is missing."""

    what: str
    before: str
    after: str


class ConfigChange(NamedTuple):
    """An added, removed or changed part of a configuration."""

    #: ``queue``, ``user limit``, ``group limit``, ``queue limit``, ``schedule``; or a part of a declared model:
    #: ``elastic group``, ``quota node``, ``budget``, ``share account``, ``share user`` or ``settings``.
    kind: str
    #: The path of a queue; the user, the group or the wildcard of a limit; the place of a schedule, for example
    #: ``root.prod limits[0]``; the name of the part of a model.
    name: str
    #: The queue of a limit; empty for other parts.
    queue_path: str
    #: The properties by name, each amount separately, as texts for people; None if the part is new.
    before: Mapping[str, str] | None
    #: None if the part is removed.
    after: Mapping[str, str] | None

    @property
    def sign(self) -> str:
        """The sign of the change: ``+`` for an added, ``-`` for a removed and ``~`` for a changed part."""
        return "+" if self.before is None else "-" if self.after is None else "~"

    @property
    def part(self) -> str:
        """The changed part for people, for example ``user limit 'ana' in root.prod``."""
        place = f" in {self.queue_path}" if self.queue_path else ""
        name = self.name if self.kind in {"queue", "schedule"} else repr(self.name)
        return f"{self.kind} {name}{place}"

    def details(self) -> tuple[Detail, ...]:
        """Return the properties that differ, each amount separately."""
        before, after = self.before or {}, self.after or {}
        return tuple(
            Detail(name, before.get(name, ""), after.get(name, ""))
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        )

    def to_dict(self) -> JsonObject:
        """Return the change for JSON, with the names of its attributes."""
        return attributes(self, self._fields)

    def __str__(self) -> str:
        whole = self.before is None or self.after is None
        texts = [
            f"{what} {before or after}" if whole else f"{what} {before or 'none'} -> {after or 'none'}"
            for what, before, after in self.details()
        ]
        return f"{self.sign} {self.part}" + (f": {'; '.join(texts)}" if texts else "")


class Changes(NamedTuple):
    """All differences between two configurations; false if there are none."""

    #: By path.
    queues: tuple[ConfigChange, ...] = ()
    #: By path, then users before groups before queues, then by name.
    limits: tuple[ConfigChange, ...] = ()
    #: Whether the placement rules differ.
    placement_rules: bool = False
    #: The queues in which the order of the group limits differs, which chooses between the groups of a user; by path.
    group_orders: tuple[str, ...] = ()
    #: By model, in the order of the configuration.
    models: tuple[ConfigChange, ...] = ()
    #: By place.
    schedules: tuple[ConfigChange, ...] = ()

    def __bool__(self) -> bool:
        return any(self)

    def to_dict(self) -> JsonObject:
        """Return the changes for JSON."""
        return attributes(self, self._fields)

    def __str__(self) -> str:
        lines = [str(change) for change in (*self.queues, *self.limits)]
        lines += [f"~ order of the group limits in {path}" for path in self.group_orders]
        lines += ["~ placement rules"] if self.placement_rules else []
        lines += [str(change) for change in (*self.models, *self.schedules)]
        return "\n".join(lines) or "no changes"


def changes(old: PartitionConfig | None, new: PartitionConfig | None) -> Changes:
    """Compare two configurations of a partition.

    Raises:
        RequestError: a configuration is invalid.
    """
    return changes_between(CompiledConfig.of(old), CompiledConfig.of(new))


def changes_between(old: CompiledConfig, new: CompiledConfig) -> Changes:
    """Compare two compiled configurations."""
    sections = {name: tuple(_compared(parts_of, old, new)) for name, parts_of in _SECTIONS.items()}
    before, after = old.limits.groups.levels, new.limits.groups.levels
    orders = tuple(
        path
        for path in sorted(before.keys() & after.keys())
        if [name for name in before[path].named if name in after[path].named]
        != [name for name in after[path].named if name in before[path].named]
    )
    return Changes(placement_rules=old.rule_configs != new.rule_configs, group_orders=orders, **sections)


def _compared(parts_of: _PartsOf, old: CompiledConfig, new: CompiledConfig) -> Iterator[ConfigChange]:
    before, after = dict(parts_of(old)), dict(parts_of(new))
    # The parts of models are in the order of the configuration.
    for part in {**before, **after} if parts_of is _models else sorted({**before, **after}, key=_order):
        if before.get(part) != after.get(part):
            yield ConfigChange(*part, before.get(part), after.get(part))


def _order(part: _Part) -> tuple[str, int, str]:
    kind, name, queue_path = part
    return queue_path, ("user", "group", "queue", "schedule").index(kind.partition(" ")[0]), name


def _queues(compiled: CompiledConfig) -> Iterator[tuple[_Part, dict[str, str]]]:
    for path, spec in compiled.specs.by_path.items():
        yield ("queue", path, ""), {name: text for name, text in _properties(spec).items() if text}


def _properties(spec: QueueSpec) -> dict[str, str]:
    """Return the properties of a queue; those that are not set are empty."""
    template = spec.template or Quota()
    return {
        "parent": "yes" if spec.is_parent else "",
        # An empty template overrides the templates of the parents.
        "template": "empty" if spec.template == Quota() else "",
        **_texts("maximum ", spec.quota.max_resources, spec.quota.max_applications),
        **_texts("guaranteed ", spec.quota.guaranteed),
        **_texts("template maximum ", template.max_resources, template.max_applications),
        **_texts("template guaranteed ", template.guaranteed),
        "submit ACL": "" if spec.submit_acl is None else repr(str(spec.submit_acl)),
        "admin ACL": "" if spec.admin_acl is None else repr(str(spec.admin_acl)),
    }


def _texts(prefix: str, resources: Resource | None, applications: int = 0) -> dict[str, str]:
    texts = {f"{prefix}{name}": format_amount(name, amount) for name, amount in (resources or {}).items()}
    return {**texts, f"{prefix}applications": str(applications) if applications else ""}


def _limits(compiled: CompiledConfig) -> Iterator[tuple[_Part, dict[str, str]]]:
    found: dict[_Part, dict[str, str]] = {}
    for kind, name, path, work, resource, amount in _limited(compiled):
        counted = COUNTED_KINDS[work.strip()].name if work else "applications"
        label = counted if resource is None else f"{work}{resource}"
        text = str(amount) if resource is None else format_amount(resource, amount)
        found.setdefault((f"{kind} limit", name, path), {})[label] = text
    return iter(found.items())


def _limited(compiled: CompiledConfig) -> Iterator[tuple[str, str, str, str, str | None, int]]:
    """Yield every limited amount: the kind, name and queue of its owner, the kind of work, the resource, the amount.

    The resource of a number of applications or requests is None.
    """
    for kind, table in ((TrackingType.USER, compiled.limits.users), (TrackingType.GROUP, compiled.limits.groups)):
        for path, level in table.levels.items():
            for name, limit in level.all_limits().items():
                for amounts in _amounts("", limit.resources, limit.applications):
                    yield kind, name, path, *amounts
    for owner, maximum in () if compiled.pending is None else compiled.pending.all_maxima():
        for (work, resource), amount in maximum.amounts.items():
            yield owner.kind, owner.name, owner.queue_path, f"{work} ", resource, amount


def _amounts(work: str, resources: Resource | None, count: int) -> Iterator[tuple[str, str | None, int]]:
    yield from ((work, resource, amount) for resource, amount in (resources or {}).items())
    if count:
        yield work, None, count


def _models(compiled: CompiledConfig) -> Iterator[tuple[_Part, dict[str, str]]]:
    """Yield the parts of all declared models, the families and the thresholds."""
    for definition in compiled.models:
        yield from (((*part, ""), properties) for part, properties in definition.parts())
    families = {} if compiled.config is None else compiled.config.ugm.families
    if families:
        yield ("settings", "families", ""), {name: ", ".join(variants) for name, variants in families.items()}
    if compiled.config is not None and compiled.config.ugm.thresholds != ThresholdConfig():
        yield ("settings", "thresholds", ""), setting_texts(compiled.config.ugm.thresholds)


def _schedules(compiled: CompiledConfig) -> Iterator[tuple[_Part, dict[str, str]]]:
    """Yield each place with a schedule, and its entries."""
    config = None if compiled.schedule is None else compiled.config
    for place, _, _, one in () if config is None else limits_of(config.root):
        if one.schedule:
            yield ("schedule", place, ""), {f"entry {at}": _entry(entry) for at, entry in enumerate(one.schedule, 1)}


def _entry(entry: ScheduledLimit) -> str:
    times = [entry.days, entry.hours, entry.start and f"from {entry.start}", entry.until and f"until {entry.until}"]
    zone = "" if entry.zone == "UTC" else entry.zone
    values = [str(entry.max_resources)] if entry.max_resources else []
    values += [f"{entry.max_applications} applications"] if entry.max_applications else []
    return f"{' '.join(filter(None, [*times, zone])) or 'always'}: {', '.join(values)}"


_SECTIONS: Final[Mapping[str, _PartsOf]] = {
    "queues": _queues,
    "limits": _limits,
    "models": _models,
    "schedules": _schedules,
}


# Risks


class LimitRisk(NamedTuple):
    """A limit that falls below the usage, or by more than 10 %."""

    #: The kind of the owner, as in a `ugm.Violation`.
    kind: str
    #: The user, group or queue; the name in the configuration for a limit that falls by more than 10 %.
    name: str
    #: Empty if the limit does not belong to a queue.
    queue_path: str
    #: None for a number of applications or requests.
    resource: str | None
    #: The limit before; None if it is not known, because the risk is the usage.
    before: int | None
    after: int
    #: The usage above the limit; None if the limit only falls by more than 10 %.
    used: int | None

    def to_dict(self) -> JsonObject:
        """Return the risk for JSON, with the names of its attributes."""
        return attributes(self, self._fields)

    def __str__(self) -> str:
        owner = f"{self.kind} {self.name}" if self.name == self.queue_path else f"{self.kind} {self.name!r}"
        place = f" in {self.queue_path}" if self.queue_path not in ("", self.name) else ""
        after, before, used = (self._text(amount) for amount in (self.after, self.before, self.used))
        reason = f"{after} instead of {before}" if self.used is None else f"{after}, below the usage of {used}"
        return f"{owner}{place}: {reason}"

    def _text(self, amount: int | None) -> str:
        if amount is None or self.resource is None:
            return str(amount)
        return f"{format_amount(self.resource, amount)} {self.resource}"


def below_usage(violation: Violation) -> LimitRisk:
    """Return the risk of a limit that a plan leaves below the usage."""
    kind, name, queue_path, _, resource, limit, used, _ = violation
    return LimitRisk(kind, name, queue_path, resource, None, limit, used)


def lowered_limits(old: CompiledConfig, new: CompiledConfig) -> Iterator[LimitRisk]:
    """Yield the limits of users, groups and queues that fall by more than 10 %."""
    after = dict(_maxima(new))
    for key, amount in _maxima(old):
        lowered = after.get(key, amount)
        # Without division, so the comparison is exact.
        if 10 * (amount - lowered) > amount:
            yield LimitRisk(*key, amount, lowered, None)


def _maxima(compiled: CompiledConfig) -> Iterator[tuple[tuple[str, str, str, str | None], int]]:
    """Yield every maximum, by the first fields of a `LimitRisk`."""
    for kind, name, path, work, resource, amount in _limited(compiled):
        yield (f"{work}{kind}", name, path, resource), amount
    for path, spec in compiled.specs.by_path.items():
        for _, resource, amount in _amounts("", spec.quota.max_resources, spec.quota.max_applications):
            yield (str(TrackingType.QUEUE), path, path, resource), amount

"""Comparison of two configurations: added, removed and changed queues, limits and placement rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

from ugm._config_fields import ConfigValue, to_data
from ugm._declared_models import DeclaredBudgets, ModelDefinition
from ugm._json_values import JsonObject
from ugm.configuration import ElasticConfig, FairShareConfig, PartitionConfig, ScheduledLimit, ThresholdConfig
from ugm.identity import TrackingType
from ugm.partition.compiled_config import CompiledConfig
from ugm.queues import QueueSpec, Quota
from ugm.resources import Resource, format_amount, optional_dict

__all__ = [
    "Changes",
    "Detail",
    "LimitChange",
    "LimitValue",
    "ModelChange",
    "QueueChange",
    "ScheduleChange",
    "changes",
    "changes_between",
]

#: The kinds of owners of limits, in the order of a comparison.
_ORDER: Final = (TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE)
#: The settings of models that are amounts by resource.
_AMOUNTS: Final = ("total", "min", "max", "sharedweight", "quota", "amounts", "cap")


class LimitValue(NamedTuple):
    """The values of a limit."""

    #: None if resources are not limited.
    max_resources: Resource | None
    #: 0 if applications are not limited.
    max_applications: int
    #: The limits on pending work: 0 and None if it is not limited.
    max_pending: int = 0
    max_pending_resources: Resource | None = None
    max_submitted: int = 0

    def to_dict(self) -> JsonObject:
        """Return the value for JSON; the limits on pending work only if there are any."""
        pending = {
            "max_pending": self.max_pending,
            "max_pending_resources": optional_dict(self.max_pending_resources),
            "max_submitted": self.max_submitted,
        }
        plain = {"max_resources": optional_dict(self.max_resources), "max_applications": self.max_applications}
        return plain | {name: value for name, value in pending.items() if value}

    def amounts(self) -> dict[str, str]:
        """Return each amount separately, as text for people."""
        texts = _amounts("", self.max_resources, self.max_applications)
        texts |= {"pending requests": str(self.max_pending)} if self.max_pending else {}
        texts |= _amounts("pending ", self.max_pending_resources, 0)
        return texts | ({"submitted applications": str(self.max_submitted)} if self.max_submitted else {})

    def __str__(self) -> str:
        texts = [_limits(self.max_resources, self.max_applications)]
        texts += [f"{self.max_pending} pending requests"] if self.max_pending else []
        texts += [f"{self.max_pending_resources} pending"] if self.max_pending_resources else []
        texts += [f"{self.max_submitted} submitted applications"] if self.max_submitted else []
        return ", ".join(filter(None, texts)) or "no limits"


class Detail(NamedTuple):
    """One property that differs, as texts for people; a text is empty if the property is missing."""

    what: str
    before: str
    after: str


class LimitChange(NamedTuple):
    """An added, removed or changed limit of a user or group in a queue, or the limit on pending work of a queue."""

    queue_path: str
    #: A `ugm.TrackingType`: a limit of users, of a group, or of the queue itself.
    kind: str
    #: The user, the group, or the wildcard ``*``; the path of a queue.
    name: str
    #: None if the limit is new.
    before: LimitValue | None
    #: None if the limit is removed.
    after: LimitValue | None

    @property
    def sign(self) -> str:
        """The sign of the change: ``+`` for an added, ``-`` for a removed and ``~`` for a changed limit."""
        return _sign(self)

    def details(self) -> tuple[Detail, ...]:
        """Return the properties that differ, each amount separately."""
        return _details(*({} if side is None else side.amounts() for side in (self.before, self.after)))

    def to_dict(self) -> JsonObject:
        """Return the change for JSON, with the names of its attributes."""
        sides = {"before": self.before and self.before.to_dict(), "after": self.after and self.after.to_dict()}
        return {**self._asdict(), "kind": str(self.kind), **sides}

    def __str__(self) -> str:
        return f"{self.sign} limit in {self.queue_path} for {self.kind} {self.name!r}: {_sides(self)}"


class QueueChange(NamedTuple):
    """An added, removed or changed queue."""

    queue_path: str
    #: None if the queue is new.
    before: QueueSpec | None
    #: None if the queue is removed.
    after: QueueSpec | None

    @property
    def sign(self) -> str:
        """The sign of the change: ``+`` for an added, ``-`` for a removed and ``~`` for a changed queue."""
        return _sign(self)

    def details(self) -> tuple[Detail, ...]:
        """Return the properties that differ, each amount separately; empty for a queue without properties."""
        return _details(*({} if side is None else _separate_properties(side) for side in (self.before, self.after)))

    def to_dict(self) -> JsonObject:
        """Return the change for JSON."""
        sides = {"before": self.before and _spec_dict(self.before), "after": self.after and _spec_dict(self.after)}
        return {"queue_path": self.queue_path, **sides}

    def __str__(self) -> str:
        details = _details(*({} if side is None else _properties(side) for side in (self.before, self.after)))
        if self.before is None or self.after is None:
            texts = [f"{what} {before or after}" for what, before, after in details]
        else:
            texts = [f"{what} {before or 'none'} -> {after or 'none'}" for what, before, after in details]
        return f"{self.sign} queue {self.queue_path}" + (f": {'; '.join(texts)}" if texts else "")


class ModelChange(NamedTuple):
    """An added, removed or changed part of a declared model, for example an elastic group, or of the thresholds."""

    #: ``elastic group``, ``quota node``, ``budget``, ``share account``, ``share user`` or ``settings``.
    kind: str
    #: The name of the group or node, that of a node with its tree before it; or what the settings belong to.
    name: str
    #: The properties by name as texts for people; None if the part is new.
    before: Mapping[str, str] | None
    #: None if the part is removed.
    after: Mapping[str, str] | None

    @property
    def sign(self) -> str:
        """The sign of the change: ``+`` for an added, ``-`` for a removed and ``~`` for a changed part."""
        return _sign(self)

    def details(self) -> tuple[Detail, ...]:
        """Return the properties that differ, each amount separately."""
        return _details(self.before or {}, self.after or {})

    def to_dict(self) -> JsonObject:
        """Return the change for JSON, with the names of its attributes."""
        sides = {side: value and dict(value) for side, value in (("before", self.before), ("after", self.after))}
        return {"kind": self.kind, "name": self.name, **sides}

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            texts = [f"{what} {before or after}" for what, before, after in self.details()]
        else:
            texts = [f"{what} {before or 'none'} -> {after or 'none'}" for what, before, after in self.details()]
        return f"{self.sign} {self.kind} {self.name!r}" + (f": {'; '.join(texts)}" if texts else "")


class ScheduleChange(NamedTuple):
    """The schedule of a limit or queue that differs."""

    #: The place in the configuration, for example ``root.prod`` or ``root.prod limits[0]``.
    place: str
    #: The entries as texts for people; empty if there is no schedule.
    before: tuple[str, ...]
    after: tuple[str, ...]

    def to_dict(self) -> JsonObject:
        """Return the change for JSON, with the names of its attributes."""
        return {"place": self.place, "before": list(self.before), "after": list(self.after)}

    def __str__(self) -> str:
        sign = "~" if self.before and self.after else "+" if self.after else "-"
        sides = [" | ".join(side) for side in (self.before, self.after) if side]
        return f"{sign} schedule of {self.place}: {' -> '.join(sides)}"


class Changes(NamedTuple):
    """All differences between two configurations; false if there are none."""

    #: By path.
    queues: tuple[QueueChange, ...] = ()
    #: By path, users before groups, by name.
    limits: tuple[LimitChange, ...] = ()
    #: Whether the placement rules differ.
    placement_rules: bool = False
    #: The queues in which the order of the group limits differs, which chooses between the groups of a user; by path.
    group_orders: tuple[str, ...] = ()
    #: By model, in the order of the configuration.
    models: tuple[ModelChange, ...] = ()
    #: By place.
    schedules: tuple[ScheduleChange, ...] = ()

    def __bool__(self) -> bool:
        return any(self)

    def to_dict(self) -> JsonObject:
        """Return the changes for JSON."""
        return {
            "queues": [change.to_dict() for change in self.queues],
            "limits": [change.to_dict() for change in self.limits],
            "placement_rules": self.placement_rules,
            "group_orders": list(self.group_orders),
            "models": [change.to_dict() for change in self.models],
            "schedules": [change.to_dict() for change in self.schedules],
        }

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
    queues = tuple(
        QueueChange(path, old.specs.by_path.get(path), new.specs.by_path.get(path))
        for path in sorted({**old.specs.by_path, **new.specs.by_path})
        if old.specs.by_path.get(path) != new.specs.by_path.get(path)
    )
    before, after = _values(old), _values(new)
    limits = tuple(
        LimitChange(path, _ORDER[order], name, before.get(key), after.get(key))
        for key in sorted({**before, **after})
        for path, order, name in [key]
        if before.get(key) != after.get(key)
    )
    models = _model_changes(old, new)
    schedules = _schedule_changes(old, new)
    return Changes(queues, limits, old.rule_configs != new.rule_configs, _group_orders(old, new), models, schedules)


def _schedule_changes(old: CompiledConfig, new: CompiledConfig) -> tuple[ScheduleChange, ...]:
    if old.schedule is None and new.schedule is None:
        return ()
    before, after = (dict(_schedules(one.config)) for one in (old, new))
    return tuple(
        ScheduleChange(place, before.get(place, ()), after.get(place, ()))
        for place in sorted({**before, **after})
        if before.get(place) != after.get(place)
    )


def _schedules(config: PartitionConfig | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each place with a schedule, and its entries as texts."""
    for path, queue in () if config is None else config.root.walk():
        places = [(path, queue.ugm), *((f"{path} limits[{at}]", one.ugm) for at, one in enumerate(queue.limits))]
        for place, extensions in places:
            if extensions.schedule:
                yield place, tuple(map(_entry_text, extensions.schedule))


def _entry_text(entry: ScheduledLimit) -> str:
    times = [entry.days, entry.hours, entry.start and f"from {entry.start}", entry.until and f"until {entry.until}"]
    zone = "" if entry.zone == "UTC" else entry.zone
    values = _limits(entry.max_resources, entry.max_applications)
    return f"{' '.join(filter(None, [*times, zone])) or 'always'}: {values}"


def _model_changes(old: CompiledConfig, new: CompiledConfig) -> tuple[ModelChange, ...]:
    before, after = (dict(_declared_parts(side)) for side in (old, new))
    return tuple(
        ModelChange(*part, before.get(part), after.get(part))
        for part in {**before, **after}
        if before.get(part) != after.get(part)
    )


def _declared_parts(compiled: CompiledConfig) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Yield the parts of all declared models, and the thresholds."""
    for definition in compiled.models:
        yield from _model_parts(definition)
    if compiled.config is not None and compiled.config.ugm.thresholds != ThresholdConfig():
        yield ("settings", "thresholds"), _settings(compiled.config.ugm.thresholds)


def _model_parts(definition: ModelDefinition) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Yield the parts of a declared model: kind and name of each, and its properties as texts."""
    if isinstance(definition.content, ElasticConfig):
        yield ("settings", definition.kind), _settings(definition.content, "groups")
        for group in definition.content.groups:
            yield ("elastic group", group.name), _settings(group, "name")
        return
    if isinstance(definition.content, FairShareConfig):
        yield ("settings", definition.kind), _settings(definition.content, "accounts", "users")
        for kind, nodes in (("share account", definition.content.accounts), ("share user", definition.content.users)):
            yield from (((kind, path), {"shares": shares}) for path, shares in nodes.items())
        return
    if isinstance(definition.content, DeclaredBudgets):
        for budget in definition.content.budgets:
            yield ("budget", budget.name), _settings(budget, "name")
        return
    rules, trees = definition.content
    for config in trees:
        tree = config.tree
        shared = {**_settings(config, "tree"), **_settings(rules), "resources": ", ".join(tree.resources)}
        yield ("settings", f"quota tree {tree.name}"), {name: text for name, text in shared.items() if text}
        for node in tree.nodes:
            yield ("quota node", f"{tree.name}/{node.name}"), _settings(node, "name")


def _settings(value: ConfigValue, *left_out: str) -> dict[str, str]:
    """Return the settings that differ from their defaults as texts, each amount separately."""
    texts: dict[str, str] = {}
    for name, setting in cast("dict[str, object]", to_data(value)).items():
        if name in left_out:
            continue
        if name in _AMOUNTS and isinstance(setting, dict):
            texts |= {f"{name} {each}": format_amount(each, amount) for each, amount in setting.items()}
        else:
            texts[name] = setting if isinstance(setting, str) else json.dumps(setting, ensure_ascii=False)
    return texts


def _group_orders(old: CompiledConfig, new: CompiledConfig) -> tuple[str, ...]:
    before, after = old.limits.groups.levels, new.limits.groups.levels
    return tuple(
        path
        for path in sorted(before.keys() & after.keys())
        if [name for name in before[path].named if name in after[path].named]
        != [name for name in after[path].named if name in before[path].named]
    )


def _values(compiled: CompiledConfig) -> dict[tuple[str, int, str], LimitValue]:
    """Return the values of every limit by queue path, place of the kind in `_ORDER`, and name."""
    found = {
        (path, order, name): LimitValue(limit.resources or None, limit.applications)
        for order, table in enumerate((compiled.limits.users, compiled.limits.groups))
        for path, level in table.levels.items()
        for name, limit in level.all_limits().items()
    }
    for path, kind, name, (_, _, requests, resources, submitted) in compiled.pending_maxima():
        key = path, _ORDER.index(kind), name
        value = found.get(key, LimitValue(None, 0))
        found[key] = LimitValue(*value[:2], requests, resources, submitted)
    return found


def _sign(change: LimitChange | QueueChange | ModelChange) -> str:
    if change.before is None:
        return "+"
    return "-" if change.after is None else "~"


def _sides(change: LimitChange) -> str:
    return " -> ".join(str(side) for side in (change.before, change.after) if side is not None)


def _limits(maximum: Resource | None, applications: int) -> str:
    texts = [str(maximum)] if maximum else []
    counted = "1 application" if applications == 1 else f"{applications} applications"
    return ", ".join([*texts, counted] if applications else texts)


def _details(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Detail, ...]:
    return tuple(
        Detail(name, before.get(name, ""), after.get(name, ""))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    )


def _amounts(prefix: str, resources: Resource | None, applications: int) -> dict[str, str]:
    texts = {f"{prefix}{name}": format_amount(name, amount) for name, amount in (resources or {}).items()}
    return {**texts, f"{prefix}applications": str(applications)} if applications else texts


def _separate_properties(spec: QueueSpec) -> dict[str, str]:
    """Return the properties of a queue, each amount separately."""
    whole = _properties(spec)
    quotas = {"": spec.quota, "template ": spec.template or Quota()}
    texts: dict[str, str] = {name: whole[name] for name in ("parent", "template") if name in whole}
    for prefix, quota in quotas.items():
        texts |= _amounts(f"{prefix}maximum ", quota.max_resources, quota.max_applications)
        texts |= _amounts(f"{prefix}guaranteed ", quota.guaranteed, 0)
    return texts | {name: whole[name] for name in ("submit ACL", "admin ACL") if name in whole}


def _properties(spec: QueueSpec) -> dict[str, str]:
    """Return the properties of a queue by name, without those that are not set."""
    texts = {
        "parent": "yes" if spec.is_parent else "",
        # An empty template overrides the templates of the parents.
        "template": "empty" if spec.template == Quota() else "",
        **_quota_properties("", spec.quota),
        **_quota_properties("template ", spec.template or Quota()),
        "submit ACL": repr(str(spec.submit_acl)) if spec.submit_acl is not None else "",
        "admin ACL": repr(str(spec.admin_acl)) if spec.admin_acl is not None else "",
    }
    return {name: value for name, value in texts.items() if value}


def _quota_properties(prefix: str, quota: Quota) -> dict[str, str]:
    return {
        f"{prefix}maximum": _limits(quota.max_resources, quota.max_applications),
        f"{prefix}guaranteed": _limits(quota.guaranteed, 0),
    }


def _spec_dict(spec: QueueSpec) -> JsonObject:
    return {
        "parent": spec.is_parent,
        **_quota_dict(spec.quota),
        "template": spec.template and _quota_dict(spec.template),
        "submit_acl": None if spec.submit_acl is None else str(spec.submit_acl),
        "admin_acl": None if spec.admin_acl is None else str(spec.admin_acl),
    }


def _quota_dict(quota: Quota) -> JsonObject:
    return {
        "max_resources": optional_dict(quota.max_resources),
        "max_applications": quota.max_applications,
        "guaranteed": optional_dict(quota.guaranteed),
    }

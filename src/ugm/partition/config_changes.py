"""Comparison of two configurations: added, removed and changed queues, limits and placement rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from ugm._config_fields import ConfigValue, to_data
from ugm._declared_models import ModelDefinition
from ugm.configuration import ElasticConfig, PartitionConfig
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
    "changes",
    "changes_between",
]

#: The settings of models that are amounts by resource.
_AMOUNTS: Final = ("total", "min", "max", "sharedweight", "quota")


class LimitValue(NamedTuple):
    """The values of a limit."""

    #: None if resources are not limited.
    max_resources: Resource | None
    #: 0 if applications are not limited.
    max_applications: int

    def to_dict(self) -> dict[str, Any]:
        """Return the value for JSON."""
        return {"max_resources": optional_dict(self.max_resources), "max_applications": self.max_applications}

    def __str__(self) -> str:
        return _limits(self.max_resources, self.max_applications) or "nothing limited"


class Detail(NamedTuple):
    """One property that differs, as texts for people; a text is empty if the property is missing."""

    what: str
    before: str
    after: str


class LimitChange(NamedTuple):
    """An added, removed or changed limit of a user or group in a queue."""

    queue_path: str
    #: A `ugm.TrackingType`: a limit of users or of a group.
    kind: str
    #: The user, the group, or the wildcard ``*``.
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
        return _details(*({} if side is None else _amounts("", *side) for side in (self.before, self.after)))

    def to_dict(self) -> dict[str, Any]:
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
        return _details(*({} if side is None else _pieces(side) for side in (self.before, self.after)))

    def to_dict(self) -> dict[str, Any]:
        """Return the change for JSON."""
        sides = {"before": self.before and _spec_dict(self.before), "after": self.after and _spec_dict(self.after)}
        return {"queue_path": self.queue_path, **sides}

    def __str__(self) -> str:
        details = _details(*({} if side is None else _words(side) for side in (self.before, self.after)))
        if self.before is None or self.after is None:
            texts = [f"{what} {before or after}" for what, before, after in details]
        else:
            texts = [f"{what} {before or 'none'} -> {after or 'none'}" for what, before, after in details]
        return f"{self.sign} queue {self.queue_path}" + (f": {'; '.join(texts)}" if texts else "")


class ModelChange(NamedTuple):
    """An added, removed or changed part of a declared quota model: an elastic group, a node of a tree, or settings."""

    #: ``elastic group``, ``quota node`` or ``settings``.
    kind: str
    #: The name of the group or node, that of a node with its tree before it; or the model whose settings change.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the change for JSON, with the names of its attributes."""
        sides = {side: value and dict(value) for side, value in (("before", self.before), ("after", self.after))}
        return {"kind": self.kind, "name": self.name, **sides}

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            texts = [f"{what} {before or after}" for what, before, after in self.details()]
        else:
            texts = [f"{what} {before or 'none'} -> {after or 'none'}" for what, before, after in self.details()]
        return f"{self.sign} {self.kind} {self.name!r}" + (f": {'; '.join(texts)}" if texts else "")


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

    def __bool__(self) -> bool:
        return any(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the changes for JSON."""
        return {
            "queues": [change.to_dict() for change in self.queues],
            "limits": [change.to_dict() for change in self.limits],
            "placement_rules": self.placement_rules,
            "group_orders": list(self.group_orders),
            "models": [change.to_dict() for change in self.models],
        }

    def __str__(self) -> str:
        lines = [str(change) for change in (*self.queues, *self.limits)]
        lines += [f"~ order of the group limits in {path}" for path in self.group_orders]
        lines += ["~ placement rules"] if self.placement_rules else []
        lines += [str(change) for change in self.models]
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
        LimitChange(path, (TrackingType.USER, TrackingType.GROUP)[order], name, before.get(key), after.get(key))
        for key in sorted({**before, **after})
        for path, order, name in [key]
        if before.get(key) != after.get(key)
    )
    models = _model_changes(old.models, new.models)
    return Changes(queues, limits, old.rule_configs != new.rule_configs, _group_orders(old, new), models)


def _model_changes(old: Iterable[ModelDefinition], new: Iterable[ModelDefinition]) -> tuple[ModelChange, ...]:
    before, after = ({part: texts for one in side for part, texts in _model_parts(one)} for side in (old, new))
    return tuple(
        ModelChange(*part, before.get(part), after.get(part))
        for part in {**before, **after}
        if before.get(part) != after.get(part)
    )


def _model_parts(definition: ModelDefinition) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Yield the parts of a declared model: kind and name of each, and its properties as texts."""
    if isinstance(definition.content, ElasticConfig):
        yield ("settings", definition.kind), _settings(definition.content, "groups")
        for group in definition.content.groups:
            yield ("elastic group", group.name), _settings(group, "name")
        return
    rules, trees = definition.content
    for config in trees:
        tree = config.tree
        shared = {**_settings(config, "tree"), **_settings(rules), "resources": ", ".join(tree.resources)}
        yield ("settings", f"quota tree {tree.name}"), {name: text for name, text in shared.items() if text}
        for node in tree.nodes:
            yield ("quota node", f"{tree.name}/{node.name}"), _settings(node, "name")


def _settings(value: ConfigValue, left_out: str = "") -> dict[str, str]:
    """Return the settings that differ from their defaults as texts, each amount separately."""
    texts: dict[str, str] = {}
    for name, setting in cast("dict[str, object]", to_data(value)).items():
        if name == left_out:
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
    """Return the values of every limit by queue path, 0 for users or 1 for groups, and name."""
    return {
        (path, order, name): LimitValue(limit.resources or None, limit.applications)
        for order, table in enumerate((compiled.limits.users, compiled.limits.groups))
        for path, level in table.levels.items()
        for name, limit in level.all_limits().items()
    }


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
        Detail(what, before.get(what, ""), after.get(what, ""))
        for what in {**before, **after}
        if before.get(what) != after.get(what)
    )


def _amounts(prefix: str, resources: Resource | None, applications: int) -> dict[str, str]:
    texts = {f"{prefix}{name}": format_amount(name, amount) for name, amount in (resources or {}).items()}
    return {**texts, f"{prefix}applications": str(applications)} if applications else texts


def _pieces(spec: QueueSpec) -> dict[str, str]:
    """Return the properties of a queue, each amount separately."""
    words = _words(spec)
    quotas = {"": spec.quota, "template ": spec.template or Quota()}
    texts: dict[str, str] = {name: words[name] for name in ("parent", "template") if name in words}
    for prefix, quota in quotas.items():
        texts |= _amounts(f"{prefix}maximum ", quota.max_resources, quota.max_applications)
        texts |= _amounts(f"{prefix}guaranteed ", quota.guaranteed, 0)
    return texts | {name: words[name] for name in ("submit ACL", "admin ACL") if name in words}


def _words(spec: QueueSpec) -> dict[str, str]:
    """Return the properties of a queue by name, without those that are not set."""
    texts = {
        "parent": "yes" if spec.is_parent else "",
        # An empty template overrides the templates of the parents.
        "template": "empty" if spec.template == Quota() else "",
        **_quota_words("", spec.quota),
        **_quota_words("template ", spec.template or Quota()),
        "submit ACL": repr(str(spec.submit_acl)) if spec.submit_acl is not None else "",
        "admin ACL": repr(str(spec.admin_acl)) if spec.admin_acl is not None else "",
    }
    return {name: value for name, value in texts.items() if value}


def _quota_words(prefix: str, quota: Quota) -> dict[str, str]:
    return {
        f"{prefix}maximum": _limits(quota.max_resources, quota.max_applications),
        f"{prefix}guaranteed": _limits(quota.guaranteed, 0),
    }


def _spec_dict(spec: QueueSpec) -> dict[str, Any]:
    return {
        "parent": spec.is_parent,
        **_quota_dict(spec.quota),
        "template": spec.template and _quota_dict(spec.template),
        "submit_acl": None if spec.submit_acl is None else str(spec.submit_acl),
        "admin_acl": None if spec.admin_acl is None else str(spec.admin_acl),
    }


def _quota_dict(quota: Quota) -> dict[str, Any]:
    return {
        "max_resources": optional_dict(quota.max_resources),
        "max_applications": quota.max_applications,
        "guaranteed": optional_dict(quota.guaranteed),
    }

"""Comparison of two configurations: added, removed and changed queues, limits and placement rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ugm.configuration import PartitionConfig
from ugm.identity import TrackingType
from ugm.partition.compiled_config import CompiledConfig
from ugm.queues import QueueSpec, Quota
from ugm.resources import Resource, format_amount, optional_dict

__all__ = ["Changes", "Detail", "LimitChange", "LimitValue", "QueueChange", "changes", "changes_between"]


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

    def __bool__(self) -> bool:
        return bool(self.queues or self.limits or self.placement_rules or self.group_orders)

    def to_dict(self) -> dict[str, Any]:
        """Return the changes for JSON."""
        return {
            "queues": [change.to_dict() for change in self.queues],
            "limits": [change.to_dict() for change in self.limits],
            "placement_rules": self.placement_rules,
            "group_orders": list(self.group_orders),
        }

    def __str__(self) -> str:
        lines = [str(change) for change in (*self.queues, *self.limits)]
        lines += [f"~ order of the group limits in {path}" for path in self.group_orders]
        lines += ["~ placement rules"] if self.placement_rules else []
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
    return Changes(queues, limits, old.rule_configs != new.rule_configs, _group_orders(old, new))


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


def _sign(change: LimitChange | QueueChange) -> str:
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

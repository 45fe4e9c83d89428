"""The configuration of a partition as a value that a file or a database can keep: exactly what a partition looks at.

A partition with a journal, or a shared one, is configured with these values alone, so that what comes back equals what
was put in force, whoever made the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ugm.partition.compiled_config import CompiledConfig, PartitionQueue, PartitionSettings
from ugm.queues import RuleConfig
from ugm.queues.filters import FilterSpec
from ugm.queues.specs import Amounts, Template
from ugm.resources import Resource
from ugm.tracking import LimitEntry

__all__ = ["Settings", "read_settings", "settings_of", "written_settings"]


class _Amounts(NamedTuple):
    guaranteed: Resource | None
    max: Resource | None


class _Template(NamedTuple):
    resources: _Amounts
    max_applications: int


class _Limit(NamedTuple):
    users: tuple[str, ...]
    groups: tuple[str, ...]
    max_resources: Resource | None
    max_applications: int


class _Queue(NamedTuple):
    name: str
    parent: bool
    resources: _Amounts
    max_applications: int
    child_template: _Template | None
    submit_acl: str
    admin_acl: str
    queues: tuple[_Queue, ...]
    limits: tuple[_Limit, ...]


class _Filter(NamedTuple):
    type: str
    users: tuple[str, ...]
    groups: tuple[str, ...]


class _Rule(NamedTuple):
    name: str
    create: bool
    filter: _Filter
    parent: _Rule | None
    value: str


class Settings(NamedTuple):
    """A configuration; equal to another exactly if a partition could not tell them apart."""

    root: _Queue
    placement_rules: tuple[_Rule, ...]


def settings_of(config: PartitionSettings | None) -> Settings | None:
    """Return a configuration as a value.

    Raises:
        RequestError: it cannot be used.
    """
    if config is None or isinstance(config, Settings):
        return config
    CompiledConfig.of(config)
    return Settings(_queue(config.root), tuple(map(_rule, config.placement_rules)))


def _queue(queue: PartitionQueue) -> _Queue:
    template = queue.child_template
    return _Queue(
        queue.name,
        queue.parent,
        _amounts(queue.resources),
        queue.max_applications,
        None if template is None else _template(template),
        queue.submit_acl,
        queue.admin_acl,
        tuple(map(_queue, queue.queues)),
        tuple(map(_limit, queue.limits)),
    )


def _amounts(amounts: Amounts) -> _Amounts:
    return _Amounts(amounts.guaranteed, amounts.max)


def _template(template: Template) -> _Template:
    return _Template(_amounts(template.resources), template.max_applications)


def _limit(limit: LimitEntry) -> _Limit:
    return _Limit(tuple(limit.users), tuple(limit.groups), limit.max_resources, limit.max_applications)


def _rule(rule: RuleConfig) -> _Rule:
    parent = None if rule.parent is None else _rule(rule.parent)
    return _Rule(rule.name, rule.create, _filter(rule.filter), parent, rule.value)


def _filter(spec: FilterSpec) -> _Filter:
    return _Filter(spec.type, tuple(spec.users), tuple(spec.groups))


# In a file it is a list of lists, in the order of the attributes.


def written_settings(settings: Settings | None) -> Any:  # noqa: ANN401 - whatever JSON has
    """Return a configuration for JSON."""
    return _written(settings)


def _written(value: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    if isinstance(value, Resource):
        return dict(value)
    return [_written(part) for part in value] if isinstance(value, tuple) else value


def read_settings(told: Any) -> Settings | None:  # noqa: ANN401 - whatever JSON has
    """Return the configuration that `written_settings` has written."""
    if told is None:
        return None
    root, rules = told
    return Settings(_read_queue(root), tuple(map(_read_rule, rules)))


def _read_queue(told: Sequence[Any]) -> _Queue:
    name, parent, amounts, count, template, submit, admin, queues, limits = told
    return _Queue(
        name,
        parent,
        _read_amounts(amounts),
        count,
        template and _Template(_read_amounts(template[0]), template[1]),
        submit,
        admin,
        tuple(map(_read_queue, queues)),
        tuple(_Limit(tuple(users), tuple(groups), _resource(most), apps) for users, groups, most, apps in limits),
    )


def _read_rule(told: Sequence[Any]) -> _Rule:
    name, create, (kind, users, groups), parent, value = told
    return _Rule(name, create, _Filter(kind, tuple(users), tuple(groups)), parent and _read_rule(parent), value)


def _read_amounts(told: Sequence[dict[str, int] | None]) -> _Amounts:
    guaranteed, most = told
    return _Amounts(_resource(guaranteed), _resource(most))


def _resource(told: dict[str, int] | None) -> Resource | None:
    return None if told is None else Resource(told)

"""The stored form of a configuration, for JSON in a journal or a database.

A stored configuration is a mapping with the keys of a configuration file, without the defaults, and with amounts in
base units. Older versions stored a list of two lists, the root queue and the placement rules, each with its fields in
a fixed order; such lists are still read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ugm._config_fields import from_data, to_data
from ugm._json_values import Json
from ugm.configuration import (
    ChildTemplate,
    FilterConfig,
    LimitConfig,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    QueueResources,
)
from ugm.identity import ROOT
from ugm.resources import Resource

__all__ = ["config_from_data", "config_to_data"]


def config_to_data(config: PartitionConfig | None) -> object:
    """Return the stored form of a configuration; None for none."""
    return to_data(config)


def config_from_data(data: Json) -> PartitionConfig | None:
    """Return the configuration of a stored form.

    Raises:
        RequestError: a field has a value of another type.
    """
    if data is None:
        return None
    if isinstance(data, Mapping):
        return from_data(PartitionConfig, data)
    root, rules = data
    # The root may have had any name.
    return PartitionConfig(queues=(replace(_queue(root), name=ROOT),), placement_rules=tuple(map(_rule, rules)))


# The lists of older versions


def _queue(data: Sequence[Any]) -> QueueConfig:
    name, parent, amounts, count, template, submit, admin, queues, limits = data
    return QueueConfig(
        name,
        declared_parent=parent,
        resources=_resources(amounts),
        max_applications=count,
        child_template=template and ChildTemplate(resources=_resources(template[0]), max_applications=template[1]),
        submit_acl=submit,
        admin_acl=admin,
        queues=tuple(map(_queue, queues)),
        limits=tuple(LimitConfig(users, groups, _resource(most), apps) for users, groups, most, apps in limits),
    )


def _rule(data: Sequence[Any]) -> PlacementRule:
    name, create, filtered, parent, value = data
    return PlacementRule(
        name, create=create, filter=FilterConfig(*filtered), parent=parent and _rule(parent), value=value
    )


def _resources(data: Sequence[dict[str, int] | None]) -> QueueResources:
    guaranteed, most = data
    return QueueResources(guaranteed=_resource(guaranteed), max=_resource(most))


def _resource(data: dict[str, int] | None) -> Resource | None:
    return None if data is None else Resource(data)

"""Warnings about properties of queues whose values the scheduling order does not know.

Apache YuniKorn accepts any value and uses the default for one that it does not know. So a configuration with such a
value is valid, but the queue is probably not sorted as intended.
"""

from __future__ import annotations

from collections.abc import Iterator

from ugm._config_fields import ConfigValue, field_shapes
from ugm._documents.places import Path
from ugm.config.findings import Finding
from ugm.configuration import ChildTemplate, QueueConfig, SchedulerConfig
from ugm.errors import quote
from ugm.fairness.sort_settings import POLICY, PROPERTIES, is_valid_value

__all__ = ["policies_without_shares", "unknown_sort_properties"]


def unknown_sort_properties(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for each property about the scheduling order with an unknown value."""
    yield from _in(config, ())


def policies_without_shares(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for each queue that orders its applications by shares in a partition without shares of users."""
    for index, partition in enumerate(config.partitions):
        if partition.ugm.fair_share is None:
            yield from _by_shares(partition, ("partitions", index))


def _by_shares(value: object, path: Path) -> Iterator[Finding]:
    if isinstance(value, ConfigValue):
        if isinstance(value, (QueueConfig, ChildTemplate)) and value.properties.get(POLICY, "").lower() == "share":
            message = "the partition has no shares of users, so 'fifo' is used (required: fairshare, below ugm)"
            yield Finding((*path, "properties", POLICY), "fairshare-missing", message)
        for shape in field_shapes(type(value)):
            yield from _by_shares(getattr(value, shape.name), (*path, shape.yaml_name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _by_shares(item, (*path, index))


def _in(value: object, path: Path) -> Iterator[Finding]:
    if isinstance(value, ConfigValue):
        if isinstance(value, (QueueConfig, ChildTemplate)):
            for name, text in value.properties.items():
                if not is_valid_value(name, text):
                    message = f"{quote(text)} is unknown, so the default is used (allowed: {PROPERTIES[name]})"
                    yield Finding((*path, "properties", name), "queue-property-unknown", message)
        for shape in field_shapes(type(value)):
            yield from _in(getattr(value, shape.name), (*path, shape.yaml_name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _in(item, (*path, index))

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
from ugm.fairness.sort_settings import PROPERTIES, is_known_value

__all__ = ["unknown_sort_properties"]


def unknown_sort_properties(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for each property about the scheduling order with an unknown value."""
    yield from _in(config, ())


def _in(value: object, path: Path) -> Iterator[Finding]:
    if isinstance(value, ConfigValue):
        if isinstance(value, (QueueConfig, ChildTemplate)):
            for name, text in value.properties.items():
                if not is_known_value(name, text):
                    message = f"{quote(text)} is unknown, so the default is used (allowed: {PROPERTIES[name]})"
                    yield Finding((*path, "properties", name), "queue-property-unknown", message)
        for shape in field_shapes(type(value)):
            yield from _in(getattr(value, shape.name), (*path, shape.yaml_name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _in(item, (*path, index))

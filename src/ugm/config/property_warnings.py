"""Warnings about properties of queues, and about queues in which nothing can run.

Apache YuniKorn accepts any property, and uses the default for a value that it does not know. So a configuration with
such a property is valid, but the queue probably does not work as intended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ugm._config_fields import ConfigValue, field_shapes
from ugm._documents.places import Path
from ugm._spelling import nearest
from ugm._unmapped_queues import unmapped_queues
from ugm.config.findings import Finding, LocatedPartition
from ugm.configuration import ChildTemplate, QueueConfig, SchedulerConfig
from ugm.errors import quote
from ugm.fairness import sort_settings
from ugm.preemption import settings as preemption_settings

__all__ = ["property_warnings", "queues_without_group"]

#: The allowed values of each property, in words, and the functions that check a value.
_PROPERTIES: Final[Mapping[str, str]] = {**sort_settings.PROPERTIES, **preemption_settings.PROPERTIES}
_CHECKS: Final[tuple[Callable[[str, str], bool], ...]] = (
    sort_settings.is_valid_value,
    preemption_settings.is_valid_value,
)
#: The similarity of a misspelt property: high, because a scheduler may have properties of its own.
_SIMILAR: Final = 0.8


def property_warnings(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for each property with an unknown value, a misspelt name, or without the shares it needs."""
    for index, partition in enumerate(config.partitions):
        for path, queue in _queues(partition, ("partitions", index)):
            for name, value in queue.properties.items():
                place = (*path, "properties", name)
                if name not in _PROPERTIES:
                    yield from _misspelt(name, place)
                elif not all(is_valid(name, value) for is_valid in _CHECKS):
                    message = f"{quote(value)} is unknown, so the default is used (allowed: {_PROPERTIES[name]})"
                    yield Finding(place, "queue-property-unknown", message)
                elif name == sort_settings.POLICY and value.lower() == "share" and partition.ugm.fair_share is None:
                    message = "the partition has no shares of users, so 'fifo' is used (required: fairshare, below ugm)"
                    yield Finding(place, "fairshare-missing", message)


def _misspelt(name: str, place: Path) -> Iterator[Finding]:
    intended = nearest(name, _PROPERTIES, similar=_SIMILAR)
    if intended is not None:
        message = f"the property {quote(name)} is probably misspelt: did you mean {quote(intended)}?"
        yield Finding(place, "queue-property-misspelt", message)


def _queues(value: object, path: Path) -> Iterator[tuple[Path, QueueConfig | ChildTemplate]]:
    """Yield the queues and templates in a part of a configuration."""
    if isinstance(value, ConfigValue):
        if isinstance(value, (QueueConfig, ChildTemplate)):
            yield path, value
        for shape in field_shapes(type(value)):
            yield from _queues(getattr(value, shape.name), (*path, shape.yaml_name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _queues(item, (*path, index))


def queues_without_group(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for each queue in which a declared quota model denies every request."""
    for index, partition in enumerate(config.partitions):
        found = list(unmapped_queues(partition))
        if found:
            root = LocatedPartition(partition, ("partitions", index)).root
            places = {located.queue_path: located.path for located in root.walk()}
            for one in found:
                yield Finding((*places[one.queue_path], "name"), "queue-without-group", str(one))

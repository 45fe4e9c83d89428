"""The names of resources in the values of a configuration, with their paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from ugm._config_fields import ConfigValue, field_shapes
from ugm.configuration.models import BudgetConfig, FairShareConfig, QuotaTreeDocument
from ugm.configuration.scheduler import PartitionConfig
from ugm.resources import Resource

__all__ = ["resource_vectors", "unlisted_resources"]

_Path: TypeAlias = tuple[str | int, ...]
#: The types of fields that are mappings by resource.
_BY_RESOURCE: Final = (Resource, Mapping[str, float], Mapping[str, Fraction])


def resource_vectors(value: object, path: _Path = ()) -> Iterator[tuple[_Path, Iterable[str]]]:
    """Yield the path and the names of every mapping or list of resources in a part of a configuration."""
    if isinstance(value, QuotaTreeDocument):
        yield (*path, "spec", "resourceNames"), value.resources
        yield from (((*path, "spec", "nodes", node.name, "quota"), node.quota) for node in value.nodes)
    elif isinstance(value, BudgetConfig) and value.weights:
        # The name of its amounts is that of the weighted sum.
        yield (*path, "weights"), value.weights
    elif isinstance(value, ConfigValue):
        if isinstance(value, FairShareConfig):
            yield (*path, "weights"), value.weights
        for shape in field_shapes(type(value)):
            given, place = getattr(value, shape.name), (*path, shape.yaml_name)
            if shape.kind in _BY_RESOURCE:
                yield place, given or ()
            else:
                yield from resource_vectors(given, place)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from resource_vectors(item, (*path, index))


def unlisted_resources(partition: PartitionConfig) -> Iterator[tuple[_Path, str]]:
    """Yield the path of each resource that is not in the closed list of a partition, and its name."""
    listed = frozenset(partition.ugm.resources)
    if listed:
        for path, names in resource_vectors(partition):
            yield from (((*path, name), name) for name in names if name not in listed)

"""The configuration in the format of Apache YuniKorn: as YAML, or as JSON with the names of its Go fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Final

from ugm._json_values import Json, JsonMapping, JsonObject
from ugm.config import dump_config, export_config
from ugm.config.text import config_data
from ugm.configuration import (
    ChildTemplate,
    FilterConfig,
    LimitConfig,
    NodeSortPolicy,
    PartitionConfig,
    PlacementRule,
    PreemptionConfig,
    QueueConfig,
    QueueResources,
    SchedulerConfig,
    UserGroupResolver,
)

__all__ = ["config_json", "config_yaml"]

#: The classes of a configuration that YuniKorn has as well.
_CLASSES: Final = (
    *(SchedulerConfig, PartitionConfig, QueueConfig, ChildTemplate, QueueResources, LimitConfig, PlacementRule),
    *(FilterConfig, NodeSortPolicy, PreemptionConfig, UserGroupResolver),
)
#: The fields whose keys are names and not fields.
_AMOUNTS: Final = ("guaranteed", "max", "maxresources")
_OPEN: Final = ("properties", "resourceweights", "usergroupresolver")
#: The fields that YuniKorn writes even if they are empty, by key of their object.
_ALWAYS: Final[Mapping[str, Mapping[str, object]]] = {
    "filter": {"Type": ""},
    "limits": {"Limit": ""},
    "nodesortpolicy": {"Type": ""},
    "parent": {"Name": ""},
    "partitions": {"Name": "default", "Queues": []},
    "placementrules": {"Name": ""},
    "queues": {"Name": ""},
}
#: The names of the Go fields by key of the YAML file, which is the same name in small letters.
_GO_NAMES: Final = {
    name.replace("_", ""): "".join("ACL" if part == "acl" else part.capitalize() for part in name.split("_"))
    for name in (one.metadata.get("yaml", one.name) or "" for kind in _CLASSES for one in fields(kind))
}
#: YuniKorn appends settings of its process to the configuration.
_PROCESS: Final[JsonMapping] = {"DeadlockDetectionEnabled": False, "DeadlockTimeoutSeconds": 0}


def config_yaml(config: SchedulerConfig) -> str:
    """Return a configuration as YAML that Apache YuniKorn accepts, followed by its checksum and settings."""
    exported = dump_config(export_config(config).config)
    settings = "".join(f"{name.lower()}: {str(value).lower()}\n" for name, value in _PROCESS.items())
    return f"{exported}checksum: {_checksum(exported)}\n{settings}"


def config_json(config: SchedulerConfig) -> dict[str, object]:
    """Return a configuration with the names that Apache YuniKorn uses in JSON."""
    exported = export_config(config).config
    return {**_renamed(config_data(exported)), "Checksum": _checksum(dump_config(exported)), **_PROCESS}


def _checksum(exported: str) -> str:
    return sha256(exported.encode()).hexdigest().upper()


def _renamed(data: JsonMapping, within: str = "") -> JsonObject:
    """Return an object with the names of Go.

    Args:
        data: the object, with the keys of the YAML file.
        within: the key of the object itself, or of the list that contains it.
    """
    return {
        **_ALWAYS.get(within, {}),
        **{_GO_NAMES.get(name, name): _value(name, value) for name, value in data.items()},
    }


def _value(name: str, value: Json) -> Json:
    if name in _AMOUNTS:
        return {resource: str(amount) for resource, amount in value.items()}
    if name in _OPEN:
        return dict(value)
    if isinstance(value, Mapping):
        return _renamed(value, name)
    if isinstance(value, list):
        return [_renamed(item, name) if isinstance(item, Mapping) else item for item in value]
    return value

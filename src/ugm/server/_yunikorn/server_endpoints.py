"""Endpoints of the server in the format of Apache YuniKorn: partitions, configuration, events and health.

The configuration is YAML, or JSON with the names of the Go fields of YuniKorn.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Annotated, Any, Final, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from msgspec import Meta

import ugm
import ugm.server._yunikorn.partition_endpoints as of_partition
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
from ugm.partition import PartitionSnapshot
from ugm.server._yunikorn.objects import CLUSTER, amounts, event_dict, go_class, nanoseconds, percentages, state_name
from ugm.server.http.payloads import Payload, json_payload
from ugm.server.interface.route import YUNIKORN_PREFIX, Call, Routes, ServedPartition, ServerState
from ugm.server.interface.schemas import Number, Object
from ugm.server.views.server import validate as validated

__all__ = ["ROUTES"]

ROUTES: Final = Routes(YUNIKORN_PREFIX, "yunikorn_")
#: The default, and the most events in a response.
_MOST_EVENTS: Final = 10_000
_Count: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST_EVENTS)]
_Cluster: TypeAlias = Annotated[Object, go_class("ClusterDAOInfo")]
_Partition: TypeAlias = Annotated[Object, go_class("PartitionInfo")]
_Applications: TypeAlias = Annotated[Object, go_class("ApplicationHistoryDAOInfo")]


@ROUTES.get("/clusters")
def clusters(server: ServerState) -> list[_Cluster]:
    """List the partitions with the start of the server and its version."""
    return [
        {
            "startTime": nanoseconds(server.started),
            "rmBuildInformation": [{"version": ugm.__version__}],
            "partition": name,
            "clusterName": CLUSTER,
        }
        for name in sorted(server.partitions)
    ]


@ROUTES.get("/partitions")
def partitions(server: ServerState) -> list[_Partition]:
    """List the partitions with their capacity and their number of applications by state."""
    return [_partition_dict(server, served) for _, served in sorted(server.partitions.items())]


def _partition_dict(server: ServerState, served: ServedPartition) -> dict[str, object]:
    snapshot = served.partition.snapshot()
    used = snapshot.usage()
    return {
        "clusterId": CLUSTER,
        "name": served.name,
        "state": "Active",
        "lastStateTransitionTime": nanoseconds(server.started),
        "capacity": {
            "capacity": amounts(snapshot.cluster),
            "usedCapacity": amounts(used),
            "utilization": percentages(snapshot.cluster, used),
        },
        **_policies(snapshot),
        "totalNodes": len(snapshot.nodes),
        "totalContainers": snapshot.allocation_count,
        "applications": _applications_by_state(served),
    }


def _policies(snapshot: PartitionSnapshot) -> dict[str, object]:
    """Return the policies of the configuration; without one, those that YuniKorn uses by default."""
    config = snapshot.config
    return {
        "nodeSortingPolicy": {
            "type": (config and config.node_sort_policy.type) or "fair",
            "resourceWeights": {} if config is None else dict(config.node_sort_policy.resource_weights),
        },
        "preemptionEnabled": config is None or config.preemption.enabled is not False,
        "quotaPreemptionEnabled": bool(config and config.preemption.quota_preemption_enabled),
    }


def _applications_by_state(served: ServedPartition) -> dict[str, int]:
    find, ids = served.partition.application, served.partition.application_ids()
    states = [state_name(info) for name in ids if (info := find(name)) is not None]
    return {**Counter(states), "total": len(states)}


# Configuration


@ROUTES.post("/validate-conf", takes_any_type=True)
def validate(server: ServerState, *, text: str) -> Annotated[Object, go_class("ValidateConfResponse")]:
    """Return whether a configuration is valid, and otherwise the reason."""
    found = validated(server, text=text)
    return {"allowed": found.allowed, "reason": found.reason}


@ROUTES.get("/config", media_types=("application/json", "application/x-yaml"))
def config(server: ServerState, call: Call) -> Annotated[Payload, go_class("ConfigDAOInfo")]:
    """Return the configuration in force as YAML, or as JSON if only JSON is accepted."""
    found = server.configurations.config_in_force()
    if call.accepts_only_json:
        return json_payload(_config_json(found))
    return Payload(200, _config_yaml(found).encode(), "application/x-yaml")


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


def _config_yaml(config: SchedulerConfig) -> str:
    """Return a configuration as YAML that Apache YuniKorn accepts, followed by its checksum and settings."""
    exported = dump_config(export_config(config).config)
    settings = "".join(f"{name.lower()}: {str(value).lower()}\n" for name, value in _PROCESS.items())
    return f"{exported}checksum: {_checksum(exported)}\n{settings}"


def _config_json(config: SchedulerConfig) -> dict[str, object]:
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


# Events and health


@ROUTES.get("/events/batch")
def events(
    server: ServerState, *, count: _Count = _MOST_EVENTS, start: Number = 0
) -> Annotated[Object, go_class("EventRecordDAO")]:
    """Return the events with at least the id ``start``, the oldest first, up to ``count`` of them.

    The numbers of the events of a partition are their ids. With several partitions, an id combines the number with the
    position of the partition. Ids of equal denials, and of events that are no longer kept, are left out. Therefore a
    client continues with the id after ``HighestID`` or after its last event, and not with a count.
    """
    found = sorted(_records(server), key=lambda numbered: numbered[0])
    chosen = [record for number, record in found if number >= start][:count]
    identity = f"{server.started} {sorted(server.partitions)}"
    return {
        "InstanceUUID": str(uuid5(NAMESPACE_OID, identity)),
        "LowestID": found[0][0] if found else 0,
        "HighestID": found[-1][0] if found else 0,
        "EventRecords": [event_dict(record) for record in chosen],
    }


def _records(server: ServerState) -> Iterator[tuple[int, Any]]:
    histories = [served.history for _, served in sorted(server.partitions.items()) if served.history is not None]
    for position, history in enumerate(histories):
        for record in history.records():
            yield record.last * len(histories) + position, record


@ROUTES.get("/history/apps")
def application_history(server: ServerState) -> list[_Applications]:
    """List the numbers of running applications of all partitions in the last hour, the oldest first."""
    counts = list(server.application_counts)
    return [{"timestamp": nanoseconds(at), "totalApplications": str(count)} for at, count in counts]


@ROUTES.get("/fullstatedump")
def full_state(server: ServerState) -> Annotated[Object, go_class("AggregatedStateInfo")]:
    """Return the partitions with their queues, applications, nodes and placement rules, for a report of a problem."""
    served = sorted(server.partitions.items())
    return {
        "timestamp": nanoseconds(time.time()),
        "clusterInfo": clusters(server),
        "partitions": partitions(server),
        "queues": [of_partition.queues(one) for _, one in served],
        "applications": [info for _, one in served for info in of_partition.applications(one)],
        "nodes": [{"partition": name, "nodesInfo": of_partition.nodes(one)} for name, one in served],
        "placementRules": [{"partition": name, "rules": of_partition.placement_rules(one)} for name, one in served],
        "appHistory": application_history(server),
        "config": _config_json(server.configurations.config_in_force()),
    }


@ROUTES.get("/scheduler/healthcheck")
def healthcheck(server: ServerState) -> Annotated[Object, go_class("SchedulerHealthDAOInfo")]:
    """Return the checks of the server, of the logs of its services, and of its quota models."""
    checks = list(_checks(server))
    return {"Healthy": all(check["Succeeded"] for check in checks), "HealthChecks": checks}


def _checks(server: ServerState) -> Iterator[dict[str, object]]:
    refused = server.configurations.refused
    yield _check(
        "Configuration file", "the configuration file is in force", "; ".join(map(str, refused[:3])) if refused else ""
    )
    for name, served in sorted(server.partitions.items()):
        suspended = [report.model for report in served.partition.model_reports() if report.is_suspended]
        problem = f"the state is unknown of: {', '.join(suspended)}" if suspended else ""
        yield _check(f"Quota models of {name}", "the state of every quota model is known", problem)
        if served.service is not None:
            status = served.service()
            yield _check(f"Log of {name}", "the log of the service accepts changes", status.outage)
            missing = "" if status.leader else "no process leads"
            yield _check(f"Leader of {name}", "a process leads the service", missing)


def _check(name: str, description: str, problem: str) -> dict[str, object]:
    return {"Name": name, "Succeeded": not problem, "Description": description, "DiagnosisMessage": problem}

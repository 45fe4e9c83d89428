"""Endpoints in the format of Apache YuniKorn: partitions with their usage, queues, applications and nodes; the server.

The configuration is YAML, or JSON with the names of the Go fields of YuniKorn.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Annotated, Any, Final, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from msgspec import Meta

import ugm
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
from ugm.identity import canonical_path
from ugm.partition import ApplicationInfo, PartitionSnapshot
from ugm.resources import Resource
from ugm.server._yunikorn.objects import (
    ACTIVE_STATES,
    CLUSTER,
    QueueFormat,
    amounts,
    application_dict,
    event_dict,
    go_class,
    nanoseconds,
    percentages,
    state_name,
)
from ugm.server.http.payloads import ApiError, Payload, json_payload, require_found
from ugm.server.interface.route import PARTITION, YUNIKORN_PREFIX, Call, Routes, ServedPartition, ServerState
from ugm.server.interface.schemas import Name, Number, Object, QueuePath, Text
from ugm.server.views.server import validate as validated

#: Paths with more parts come first: the name of a queue or application may contain slashes at the end of a path.
ROUTES: Final = Routes(YUNIKORN_PREFIX, "yunikorn_")
_QUEUE: Final = f"{PARTITION}/queue/{{queue_path}}"
_Application: TypeAlias = Annotated[Object, go_class("ApplicationDAOInfo")]
_Node: TypeAlias = Annotated[Object, go_class("NodeDAOInfo")]
_Queue: TypeAlias = Annotated[Object, go_class("PartitionQueueDAOInfo")]
_User: TypeAlias = Annotated[Object, go_class("UserResourceUsageDAOInfo")]
_Group: TypeAlias = Annotated[Object, go_class("GroupResourceUsageDAOInfo")]
#: The default, and the most events in a response.
_MOST_EVENTS: Final = 10_000
_Count: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST_EVENTS)]


# Users and groups


@ROUTES.get(f"{PARTITION}/usage/users")
def users(served: ServedPartition) -> list[_User]:
    """List usage and limits of every user per queue."""
    snapshot = served.partition.snapshot()
    return [usage.to_dict() for name in snapshot.user_names if (usage := snapshot.user(name))]


@ROUTES.get(f"{PARTITION}/usage/groups")
def groups(served: ServedPartition) -> list[_Group]:
    """List usage and limits of every group per queue."""
    snapshot = served.partition.snapshot()
    return [usage.to_dict() for name in snapshot.group_names if (usage := snapshot.group(name))]


@ROUTES.get(f"{PARTITION}/usage/user/{{name}}")
def user(served: ServedPartition, *, name: Name) -> _User:
    """Return usage and limits of one user per queue."""
    return require_found("user", name, served.partition.snapshot().user).to_dict()


@ROUTES.get(f"{PARTITION}/usage/group/{{name}}")
def group(served: ServedPartition, *, name: Name) -> _Group:
    """Return usage and limits of one group per queue."""
    return require_found("group", name, served.partition.group).to_dict()


# Queues and their applications


@ROUTES.get(f"{PARTITION}/queues")
def queues(served: ServedPartition) -> _Queue:
    """Return the queue tree."""
    snapshot = served.partition.snapshot()
    return QueueFormat(served.name, snapshot).queue(require_found("queue", "root", snapshot.queue), subtree=True)


@ROUTES.get(f"{_QUEUE}/applications/{{state}}")
def queue_applications_by_state(
    served: ServedPartition, *, queue_path: QueuePath, state: Name, status: Text = ""
) -> list[_Application]:
    """List the active applications of one queue."""
    if state.lower() != "active":
        raise ApiError(400, "state-invalid", "expected active")
    return _listed(served, _applications_of_queue(served, queue_path), status)


@ROUTES.get(f"{_QUEUE}/applications")
def queue_applications(served: ServedPartition, *, queue_path: QueuePath) -> list[_Application]:
    """List the applications of one queue."""
    return _listed(served, _applications_of_queue(served, queue_path))


@ROUTES.get(f"{_QUEUE}/application/{{name}}")
def application_in_queue(served: ServedPartition, *, queue_path: QueuePath, name: Name) -> _Application:
    """Return one application of a queue."""
    path = _require_queue(served, queue_path)
    found = require_found("application", name, served.partition.application)
    if found.queue_path != path:
        raise ApiError(404, "application-unknown", f"there is no application {found.application_id!r} in {path}")
    return _application_dict(served, found)


@ROUTES.get(_QUEUE)
def queue(served: ServedPartition, *, queue_path: QueuePath, subtree: Text | None = None) -> _Queue:
    """Return one queue; with the parameter ``subtree`` also all queues below it."""
    snapshot = served.partition.snapshot()
    found = require_found("queue", canonical_path(queue_path), snapshot.queue)
    return QueueFormat(served.name, snapshot).queue(found, subtree=subtree is not None)


# Applications


@ROUTES.get(f"{PARTITION}/applications")
def applications(served: ServedPartition) -> list[_Application]:
    """List all applications that have not ended."""
    return _listed(served, served.partition.applications())


@ROUTES.get(f"{PARTITION}/applications/{{state}}")
def applications_by_state(served: ServedPartition, *, state: Name, status: Text = "") -> list[_Application]:
    """List the applications in a state: active, completed or rejected; a partition keeps only active ones."""
    if state.lower() not in ("active", "completed", "rejected"):
        raise ApiError(400, "state-invalid", "expected active, completed or rejected")
    return _listed(served, served.partition.applications() if state.lower() == "active" else (), status)


@ROUTES.get(f"{PARTITION}/application/{{name}}")
def application(served: ServedPartition, *, name: Name) -> _Application:
    """Return one application."""
    return _application_dict(served, require_found("application", name, served.partition.application))


def _applications_of_queue(served: ServedPartition, queue_path: str) -> Iterator[ApplicationInfo]:
    path = _require_queue(served, queue_path)
    return (info for info in served.partition.applications(path) if info.queue_path == path)


def _require_queue(served: ServedPartition, queue_path: str) -> str:
    return require_found("queue", canonical_path(queue_path), served.partition.queue).queue_path


def _listed(served: ServedPartition, found: Iterable[ApplicationInfo], status: str = "") -> list[dict[str, object]]:
    """Return the applications in a status for JSON; an empty status stands for all."""
    if status and status.lower() not in ACTIVE_STATES:
        raise ApiError(400, "state-invalid", f"expected one of {', '.join(ACTIVE_STATES)}")
    return [_application_dict(served, info) for info in found if status.lower() in ("", info.state.value)]


def _application_dict(served: ServedPartition, info: ApplicationInfo) -> dict[str, object]:
    try:
        allocations = served.partition.allocations(info.application_id)
    except LookupError:  # it has ended since
        allocations = ()
    return application_dict(served.name, info, allocations)


# Nodes


@ROUTES.get(f"{PARTITION}/nodes")
def nodes(served: ServedPartition) -> list[_Node]:
    """List the registered nodes."""
    return [_node_dict(name, capacity) for name, capacity in served.partition.nodes().items()]


@ROUTES.get(f"{PARTITION}/node/{{name}}")
def node(served: ServedPartition, *, name: Name) -> _Node:
    """Return one node."""
    return _node_dict(name, require_found("node", name, served.partition.nodes().get))


def _node_dict(name: str, capacity: Resource) -> dict[str, object]:
    return {"nodeID": name, "hostName": name, "capacity": amounts(capacity), "schedulable": True, "isReserved": False}


# Placement and history


@ROUTES.get(f"{PARTITION}/placementrules")
def placement_rules(served: ServedPartition) -> list[Annotated[Object, go_class("RuleDAO")]]:
    """List the placement rules in force; without any, the rule that is used then."""
    config = served.partition.config
    rules = () if config is None else config.placement_rules
    return [_rule_dict(rule) for rule in rules or (PlacementRule("provided"),)]


def _rule_dict(rule: PlacementRule) -> dict[str, object]:
    parameters = {"create": str(rule.create).lower()}
    if rule.value:
        parameters["queue" if rule.name.lower() == "fixed" else "tagName"] = rule.value
    found: dict[str, object] = {"name": rule.name.lower(), "parameters": parameters}
    if rule.filter != FilterConfig():
        names = {"userList": list(rule.filter.users), "groupList": list(rule.filter.groups)}
        found["filter"] = {"type": rule.filter.type or "allow", **{key: value for key, value in names.items() if value}}
    if rule.parent is not None:
        found["parentRule"] = _rule_dict(rule.parent)
    return found


# The server


@ROUTES.get("/clusters")
def clusters(server: ServerState) -> list[Annotated[Object, go_class("ClusterDAOInfo")]]:
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
def partitions(server: ServerState) -> list[Annotated[Object, go_class("PartitionInfo")]]:
    """List the partitions with their capacity and their number of applications by state."""
    return [_partition_dict(server, served) for _, served in sorted(server.partitions.items())]


def _partition_dict(server: ServerState, served: ServedPartition) -> dict[str, object]:
    snapshot, applications = served.partition.snapshot(), served.partition.applications()
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
        "applications": {**Counter(map(state_name, applications)), "total": len(applications)},
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
        for record in history.page().records:
            yield record.last * len(histories) + position, record


@ROUTES.get("/history/apps")
def application_history(server: ServerState) -> list[Annotated[Object, go_class("ApplicationHistoryDAOInfo")]]:
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
        "queues": [queues(one) for _, one in served],
        "applications": [info for _, one in served for info in applications(one)],
        "nodes": [{"partition": name, "nodesInfo": nodes(one)} for name, one in served],
        "placementRules": [{"partition": name, "rules": placement_rules(one)} for name, one in served],
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
    yield _check("Configuration file", "the configuration file is in force", "; ".join(refused[:3]))
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

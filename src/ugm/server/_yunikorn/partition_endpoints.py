"""Endpoints of one partition in the format of Apache YuniKorn: usage, queues, applications and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, TypeAlias

from ugm.configuration import FilterConfig, PlacementRule
from ugm.identity import canonical_path
from ugm.partition import ApplicationInfo
from ugm.queues import QueueState
from ugm.resources import Resource
from ugm.server._yunikorn.objects import ACTIVE_STATES, QueueFormat, amounts, application_dict, go_class
from ugm.server.http.payloads import ApiError, require_found
from ugm.server.interface.route import PARTITION, YUNIKORN_PREFIX, Routes, ServedPartition
from ugm.server.interface.schemas import Name, Object, QueuePath, Text

__all__ = ["ROUTES", "applications", "nodes", "placement_rules", "queues"]

#: Paths with more parts come first: the name of a queue or application may contain slashes at the end of a path.
ROUTES: Final = Routes(YUNIKORN_PREFIX, "yunikorn_")
_QUEUE: Final = f"{PARTITION}/queue/{{queue_path}}"
_Application: TypeAlias = Annotated[Object, go_class("ApplicationDAOInfo")]
_Node: TypeAlias = Annotated[Object, go_class("NodeDAOInfo")]
_Queue: TypeAlias = Annotated[Object, go_class("PartitionQueueDAOInfo")]
_Rule: TypeAlias = Annotated[Object, go_class("RuleDAO")]
_User: TypeAlias = Annotated[Object, go_class("UserResourceUsageDAOInfo")]
_Group: TypeAlias = Annotated[Object, go_class("GroupResourceUsageDAOInfo")]


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
    return require_found("user", name, served.partition.user_usage).to_dict()


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
    return _listed(served, _in_status(_applications_of_queue(served, queue_path), status))


@ROUTES.get(f"{_QUEUE}/applications")
def queue_applications(served: ServedPartition, *, queue_path: QueuePath) -> list[_Application]:
    """List the applications of one queue."""
    return _listed(served, _applications_of_queue(served, queue_path))


@ROUTES.get(f"{_QUEUE}/application/{{name}}")
def application_in_queue(served: ServedPartition, *, queue_path: QueuePath, name: Name) -> _Application:
    """Return one application of a queue."""
    path = _require_queue(served, queue_path).queue_path
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
    return _listed(served, _all_applications(served))


@ROUTES.get(f"{PARTITION}/applications/{{state}}")
def applications_by_state(served: ServedPartition, *, state: Name, status: Text = "") -> list[_Application]:
    """List the applications in a state: active, completed or rejected; a partition keeps only active ones."""
    if state.lower() not in ("active", "completed", "rejected"):
        raise ApiError(400, "state-invalid", "expected active, completed or rejected")
    found = _all_applications(served) if state.lower() == "active" else iter(())
    return _listed(served, _in_status(found, status))


@ROUTES.get(f"{PARTITION}/application/{{name}}")
def application(served: ServedPartition, *, name: Name) -> _Application:
    """Return one application."""
    return _application_dict(served, require_found("application", name, served.partition.application))


def _all_applications(served: ServedPartition) -> Iterator[ApplicationInfo]:
    ids = served.partition.application_ids()
    return (info for name in ids if (info := served.partition.application(name)) is not None)


def _applications_of_queue(served: ServedPartition, queue_path: str) -> Iterator[ApplicationInfo]:
    alone = _require_queue(served, queue_path)
    return (
        info
        for name in alone.applications
        if (info := served.partition.application(name)) is not None and info.queue_path == alone.queue_path
    )


def _require_queue(served: ServedPartition, queue_path: str) -> QueueState:
    return require_found("queue", canonical_path(queue_path), served.partition.queue_alone)


def _in_status(found: Iterator[ApplicationInfo], status: str) -> Iterator[ApplicationInfo]:
    if status and status.lower() not in ACTIVE_STATES:
        raise ApiError(400, "state-invalid", f"expected one of {', '.join(ACTIVE_STATES)}")
    return (info for info in found if status.lower() in ("", info.state.value))


def _listed(served: ServedPartition, found: Iterator[ApplicationInfo]) -> list[dict[str, object]]:
    return [_application_dict(served, info) for info in found]


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
    return {
        "nodeID": name,
        "hostName": name,
        "capacity": amounts(capacity),
        "schedulable": True,
        "isReserved": False,
    }


# Placement and history


@ROUTES.get(f"{PARTITION}/placementrules")
def placement_rules(served: ServedPartition) -> list[_Rule]:
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

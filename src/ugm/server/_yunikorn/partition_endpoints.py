"""Endpoints of one partition in the format of Apache YuniKorn: usage, queues, applications and nodes."""

from __future__ import annotations

from collections.abc import Iterator

from ugm.configuration import FilterConfig, PlacementRule
from ugm.identity import canonical_path
from ugm.partition import ApplicationInfo
from ugm.resources import Resource
from ugm.server._yunikorn.applications import ACTIVE_STATES, application_dict
from ugm.server._yunikorn.queues import QueueFormat
from ugm.server._yunikorn.values import amounts
from ugm.server.cooperative import cooperatively
from ugm.server.payloads import ApiError, require_found
from ugm.server.state import RequestContext, ServedPartition

__all__ = [
    "application",
    "application_in_queue",
    "applications",
    "applications_by_state",
    "group",
    "groups",
    "node",
    "nodes",
    "placement_rules",
    "queue",
    "queue_applications",
    "queue_applications_by_state",
    "queues",
    "user",
    "users",
]


# Users and groups


def users(served: ServedPartition, request: RequestContext) -> object:
    """List usage and limits of every user per queue."""
    snapshot = served.snapshot(request.arrived)
    return [usage.to_dict() for name in cooperatively(snapshot.user_names) if (usage := snapshot.user(name))]


def groups(served: ServedPartition, request: RequestContext) -> object:
    """List usage and limits of every group per queue."""
    snapshot = served.snapshot(request.arrived)
    return [usage.to_dict() for name in cooperatively(snapshot.group_names) if (usage := snapshot.group(name))]


def user(served: ServedPartition, request: RequestContext) -> object:
    """Return usage and limits of one user per queue."""
    return require_found("user", request.path["name"], served.partition.user_usage).to_dict()


def group(served: ServedPartition, request: RequestContext) -> object:
    """Return usage and limits of one group per queue."""
    return require_found("group", request.path["name"], served.partition.group).to_dict()


# Queues


def queues(served: ServedPartition, request: RequestContext) -> object:
    """Return the queue tree."""
    snapshot = served.snapshot(request.arrived)
    return QueueFormat(served.name, snapshot).queue(require_found("queue", "root", snapshot.queue), subtree=True)


def queue(served: ServedPartition, request: RequestContext) -> object:
    """Return one queue; with the parameter ``subtree`` also all queues below it."""
    snapshot = served.snapshot(request.arrived)
    found = require_found("queue", canonical_path(request.path["queue_path"]), snapshot.queue)
    return QueueFormat(served.name, snapshot).queue(found, subtree="subtree" in request.query)


# Applications


def applications(served: ServedPartition, _request: RequestContext) -> list[dict[str, object]]:
    """List all applications that have not ended."""
    return _listed(served, _all_applications(served))


def applications_by_state(served: ServedPartition, request: RequestContext) -> object:
    """List the applications in a state: active, completed or rejected; a partition keeps only active ones."""
    state = request.path["state"].lower()
    if state not in ("active", "completed", "rejected"):
        raise ApiError(400, "state-invalid", "expected active, completed or rejected")
    found = _all_applications(served) if state == "active" else iter(())
    return _listed(served, _in_status(found, request))


def queue_applications(served: ServedPartition, request: RequestContext) -> object:
    """List the applications of one queue."""
    return _listed(served, _applications_of_queue(served, request))


def queue_applications_by_state(served: ServedPartition, request: RequestContext) -> object:
    """List the active applications of one queue."""
    if request.path["state"].lower() != "active":
        raise ApiError(400, "state-invalid", "expected active")
    return _listed(served, _in_status(_applications_of_queue(served, request), request))


def application(served: ServedPartition, request: RequestContext) -> object:
    """Return one application."""
    return _application_dict(served, require_found("application", request.path["name"], served.partition.application))


def application_in_queue(served: ServedPartition, request: RequestContext) -> object:
    """Return one application of a queue."""
    path = _require_queue(served, request)
    found = require_found("application", request.path["name"], served.partition.application)
    if found.queue_path != path:
        raise ApiError(404, "application-unknown", f"there is no application {found.application_id!r} in {path}")
    return _application_dict(served, found)


def _all_applications(served: ServedPartition) -> Iterator[ApplicationInfo]:
    ids = served.partition.application_ids()
    return (info for name in cooperatively(ids) if (info := served.partition.application(name)) is not None)


def _applications_of_queue(served: ServedPartition, request: RequestContext) -> Iterator[ApplicationInfo]:
    path = _require_queue(served, request)
    alone = require_found("queue", path, served.partition.queue_alone)
    return (
        info
        for name in cooperatively(alone.applications)
        if (info := served.partition.application(name)) is not None and info.queue_path == path
    )


def _require_queue(served: ServedPartition, request: RequestContext) -> str:
    path = canonical_path(request.path["queue_path"])
    require_found("queue", path, served.partition.queue_alone)
    return path


def _in_status(found: Iterator[ApplicationInfo], request: RequestContext) -> Iterator[ApplicationInfo]:
    status = request.query.get("status", "").lower()
    if status and status not in ACTIVE_STATES:
        raise ApiError(400, "state-invalid", f"expected one of {', '.join(ACTIVE_STATES)}")
    return (info for info in found if status in ("", info.state.value))


def _listed(served: ServedPartition, found: Iterator[ApplicationInfo]) -> list[dict[str, object]]:
    return [_application_dict(served, info) for info in found]


def _application_dict(served: ServedPartition, info: ApplicationInfo) -> dict[str, object]:
    try:
        allocations = served.partition.allocations(info.application_id)
    except LookupError:  # it has ended since
        allocations = ()
    return application_dict(served.name, info, allocations)


# Nodes


def nodes(served: ServedPartition, _request: RequestContext) -> object:
    """List the registered nodes."""
    return [_node_dict(name, capacity) for name, capacity in served.partition.nodes().items()]


def node(served: ServedPartition, request: RequestContext) -> object:
    """Return one node."""
    name = request.path["name"]
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


def placement_rules(served: ServedPartition, _request: RequestContext) -> object:
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

"""Endpoints for the server itself: health, partitions, configuration, and extra states."""

from __future__ import annotations

from collections.abc import Mapping

import ugm
from ugm.partition import Changes
from ugm.server.config_attempts import Actor
from ugm.server.payloads import Payload, require_found
from ugm.server.state import RequestContext, ServerState
from ugm.server.view_endpoints import partition

__all__ = [
    "config",
    "config_changes",
    "health",
    "partitions",
    "plan",
    "reload",
    "state",
    "states",
    "upload",
    "validate",
]


def health(server: ServerState, _request: RequestContext) -> object:
    """Return the state of the server and of its configuration.

    The status is ``degraded`` while the configuration file has problems or is not in force, otherwise ``ok``.
    """
    refused, unapplied, reason = server.configurations.refused, server.configurations.unapplied, ""
    if refused:
        reason = f"the configuration file was refused: {refused[0]}"
    elif unapplied:
        reason = f"the configuration file is not in force: {unapplied[0]}"
    return {
        "status": "degraded" if reason else "ok",
        "reason": reason,
        "version": ugm.__version__,
        "started": server.started,
        "read_only": server.read_only,
        "partitions": sorted(server.partitions),
        "configuration": server.configurations.to_dict(),
    }


def partitions(server: ServerState, request: RequestContext) -> object:
    """Return a summary of each partition."""
    return [partition(served, request) for _, served in sorted(server.partitions.items())]


def config(server: ServerState, _request: RequestContext) -> object:
    """Return the configuration in force as YAML."""
    return server.configurations.in_force()


def config_changes(server: ServerState, _request: RequestContext) -> object:
    """Return the newest attempts to replace the configuration, with their differences or problems, newest first."""
    return {"attempts": [attempt.to_dict() for attempt in server.configurations.attempts.newest_first()]}


def upload(server: ServerState, request: RequestContext) -> object:
    """Replace the configuration of all partitions by the one in the request, or change nothing."""
    confirm, actor = request.query.get("confirm") == "true", Actor(request.client, "operator")
    return _changes_dict(server.configurations.upload(request.text, actor, confirm=confirm))


def reload(server: ServerState, request: RequestContext) -> object:
    """Replace the configuration of all partitions by the one in the file, or change nothing."""
    return _changes_dict(server.configurations.reload(Actor(request.client, "operator")))


def _changes_dict(changed: Mapping[str, Changes]) -> dict[str, object]:
    return {"partitions": {name: changes.to_dict() for name, changes in changed.items()}}


def validate(server: ServerState, request: RequestContext) -> Payload:
    """Return all problems of a configuration."""
    return server.worker.validate(request.text)


def plan(server: ServerState, request: RequestContext) -> Payload:
    """Return the effects that a configuration would have on a partition."""
    served = require_found("partition", request.path["partition"], server.partitions.get)
    return server.worker.plan(served.partition, served.name, request.text)


def states(server: ServerState, _request: RequestContext) -> object:
    """Return the names of the extra states."""
    return sorted(server.extra_states)


def state(server: ServerState, request: RequestContext) -> object:
    """Return one of the extra states."""
    found = require_found("state", request.path["name"], server.extra_states.get)()
    return found.to_dict() if hasattr(found, "to_dict") else found

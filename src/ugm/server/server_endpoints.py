"""Endpoints for the server itself: health, partitions, configuration, and further states."""

from __future__ import annotations

from collections.abc import Mapping

import ugm
from ugm.partition import Changes
from ugm.server.configurations import Actor
from ugm.server.errors import unknown
from ugm.server.payloads import Payload
from ugm.server.state import RequestContext, ServedPartition, ServerState
from ugm.server.view_endpoints import partition_dict

__all__ = ["config", "health", "partition", "partitions", "plan", "reload", "state", "states", "upload", "validate"]


def health(server: ServerState, _request: RequestContext) -> object:
    """Return the state of the server: ``degraded`` while its configuration file has problems, otherwise ``ok``."""
    refused = server.configurations.refused
    return {
        "status": "degraded" if refused else "ok",
        "reason": f"the configuration file was refused: {refused[0]}" if refused else "",
        "version": ugm.__version__,
        "started": server.started,
        "read_only": server.read_only,
        "partitions": sorted(server.partitions),
        "configuration": server.configurations.to_dict(),
    }


def partitions(server: ServerState, request: RequestContext) -> object:
    """Return a summary of each partition."""
    return [_summary(served, request) for _, served in sorted(server.partitions.items())]


def partition(served: ServedPartition, request: RequestContext) -> object:
    """Return a summary of one partition."""
    return _summary(served, request)


def _summary(served: ServedPartition, request: RequestContext) -> dict[str, object]:
    return partition_dict(served.name, served.snapshot(request.arrived), has_history=served.has_history)


def config(server: ServerState, _request: RequestContext) -> object:
    """Return the configuration in force as YAML."""
    return server.configurations.in_force()


def upload(server: ServerState, request: RequestContext) -> object:
    """Replace the configuration by the one in the request."""
    return _changes_dict(server.configurations.upload(request.text, Actor(request.client, "operator")))


def reload(server: ServerState, request: RequestContext) -> object:
    """Replace the configuration by the one in the file."""
    return _changes_dict(server.configurations.reload(Actor(request.client, "operator")))


def _changes_dict(changed: Mapping[str, Changes]) -> dict[str, object]:
    return {"partitions": {name: changes.to_dict() for name, changes in changed.items()}}


def validate(server: ServerState, request: RequestContext) -> Payload:
    """Return all problems of a configuration."""
    return server.worker.validate(request.text)


def plan(server: ServerState, request: RequestContext) -> Payload:
    """Return the effects that a configuration would have on a partition."""
    name = request.path["partition"]
    if name not in server.partitions:
        raise unknown("partition", name)
    return server.worker.plan(server.partitions[name].partition, name, request.text)


def states(server: ServerState, _request: RequestContext) -> object:
    """Return the names of the further states."""
    return sorted(server.extra_states)


def state(server: ServerState, request: RequestContext) -> object:
    """Return one of the further states."""
    name = request.path["name"]
    read = server.extra_states.get(name)
    if read is None:
        raise unknown("state", name)
    found = read()
    return found.to_dict() if hasattr(found, "to_dict") else found

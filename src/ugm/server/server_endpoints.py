"""How the server itself is doing, and how its configuration is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ugm
from ugm.partition import Changes
from ugm.server.configurations import Actor
from ugm.server.errors import unknown
from ugm.server.state import RequestContext
from ugm.server.view_endpoints import partition_dict

__all__ = ["config", "health", "partition", "partitions", "reload", "state", "states", "upload"]


def health(asked: RequestContext) -> object:
    """Return the state of the server: ``degraded`` while its configuration file cannot be used, otherwise ``ok``."""
    site = asked.site
    refused = site.configurations.refused
    return {
        "status": "degraded" if refused else "ok",
        "reason": f"the configuration file was refused: {refused[0]}" if refused else "",
        "version": ugm.__version__,
        "started": site.started,
        "read_only": site.read_only,
        "partitions": sorted(site.partitions),
        "configuration": site.configurations.to_dict(),
    }


def partitions(asked: RequestContext) -> object:
    """Return all partitions in a few figures."""
    site = asked.site
    return [
        partition_dict(name, site.snapshot(name, asked.arrived), has_history=name in site.histories)
        for name in sorted(site.partitions)
    ]


def partition(asked: RequestContext) -> object:
    """Return one partition in a few figures."""
    name = asked.partition_name
    return partition_dict(name, asked.snapshot(), has_history=name in asked.site.histories)


def config(asked: RequestContext) -> object:
    """Return the configuration in force as YAML."""
    return asked.site.configurations.in_force()


def upload(asked: RequestContext) -> object:
    """Put a configuration in force."""
    return _changed(asked.site.configurations.upload(asked.body, Actor(asked.client, "operator")))


def reload(asked: RequestContext) -> object:
    """Put the configuration of the file in force."""
    return _changed(asked.site.configurations.reload(Actor(asked.client, "operator")))


def _changed(changed: Mapping[str, Changes]) -> dict[str, Any]:
    return {"partitions": {name: changes.to_dict() for name, changes in changed.items()}}


def states(asked: RequestContext) -> object:
    """Return the names of what else can be looked at."""
    return sorted(asked.site.extra_states)


def state(asked: RequestContext) -> object:
    """Return the state of something that was plugged in."""
    name = asked.path["name"]
    found = asked.site.extra_states.get(name)
    if found is None:
        raise unknown("state", name)
    told = found()
    return told.to_dict() if hasattr(told, "to_dict") else told

"""Endpoints for the server itself: health, partitions, configuration, and extra states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Struct

import ugm
from ugm import ConfigError, Problem
from ugm._json_values import Json
from ugm.config import dump_config, parse_config, review_config
from ugm.partition import Changes, ConfigPlan
from ugm.partition.interface.operation_kinds import Role
from ugm.server.configurations import Actor, ConfigAttempt
from ugm.server.http.payloads import Payload, problem_to_dict
from ugm.server.interface.route import PARTITION, Call, Routes, ServedPartition, ServerState
from ugm.server.interface.schemas import Object, with_text
from ugm.server.views.objects import PartitionSummary, partition

ROUTES: Final = Routes()


class InForce(Struct):
    """The configuration in force."""

    source: str
    at: float


class ConfigurationState(Struct):
    """The last attempt to replace the configuration, and the one in force."""

    file: str | None
    source: str
    at: float
    problems: tuple[str, ...]
    in_force: InForce
    refused: tuple[str, ...]
    unapplied: tuple[str, ...]


class Health(Struct):
    """The state of the server."""

    status: Literal["critical", "degraded", "ok"]
    reason: str
    version: str
    started: float
    read_only: bool
    partitions: list[str]
    configuration: ConfigurationState


@ROUTES.get("/health")
def health(server: ServerState) -> Health:
    """Return the state of the server and of its configuration.

    The status is ``critical`` while a service cannot use its store or no process leads, ``degraded`` while the
    configuration file has problems or is not in force, otherwise ``ok``.
    """
    outage = next(filter(None, map(_outage, server.partitions.values())), "")
    configurations = server.configurations
    faults = configurations.refused, configurations.unapplied
    states = zip(("was refused", "is not in force"), faults, strict=True)
    reason = next((f"the configuration file {state}: {lines[0]}" for state, lines in states if lines), "")
    last, used = configurations.outcome, configurations.in_use
    file = None if configurations.path is None else str(configurations.path)
    state = ConfigurationState(file, last.source, last.at, last.problems, InForce(used.source, used.at), *faults)
    status: Literal["critical", "degraded", "ok"] = "critical" if outage else "degraded" if reason else "ok"
    names = sorted(server.partitions)
    return Health(status, outage or reason, str(ugm.__version__), server.started, server.read_only, names, state)


def _outage(served: ServedPartition) -> str:
    """Return why the service of a partition makes no changes now; empty if it does, or if there is none."""
    if served.service is None:
        return ""
    status = served.service()
    problem = status.outage or ("" if status.leader else "no process leads")
    return problem and f"partition {served.name}: {problem}"


@ROUTES.get("/partitions")
def partitions(server: ServerState) -> list[PartitionSummary]:
    """Return a summary of each partition."""
    return [partition(served) for _, served in sorted(server.partitions.items())]


@ROUTES.get("/config", media_types=("application/yaml",))
def config(server: ServerState) -> Annotated[Payload, str]:
    """Return the configuration in force as YAML."""
    return Payload(200, dump_config(server.configurations.config_in_force()).encode(), "application/yaml")


class ConfigChanges(Struct):
    """The newest attempts to replace the configuration."""

    attempts: list[ConfigAttempt]


@ROUTES.get("/config/changes")
def config_changes(server: ServerState) -> ConfigChanges:
    """Return the newest attempts to replace the configuration, with their differences or problems, newest first."""
    return ConfigChanges(server.configurations.attempts)


class Changed(Struct):
    """The changes of each partition."""

    partitions: Mapping[str, Annotated[Changes, Object]]


@ROUTES.add("PUT", "/config", role=Role.OPERATOR)
def upload(server: ServerState, call: Call, *, text: str, confirm: bool = False) -> Changed:
    """Replace the configuration of all partitions by the one in the request, or change nothing."""
    call.is_audited = True
    actor = Actor(call.client, "operator")
    return Changed(server.configurations.upload(text, actor, confirm=confirm))


@ROUTES.post("/config/reload", role=Role.OPERATOR)
def reload(server: ServerState, call: Call) -> Changed:
    """Replace the configuration of all partitions by the one in the file, or change nothing."""
    call.is_audited = True
    return Changed(server.configurations.reload(Actor(call.client, "operator")))


class Validation(Struct):
    """The problems and warnings of a configuration."""

    allowed: bool
    #: The first problem; empty if there is none.
    reason: str
    problems: list[Json]
    warnings: list[Json]


@ROUTES.post("/validate-conf")
def validate(_server: ServerState, *, text: str) -> Validation:
    """Return all problems of a configuration."""
    review = review_config(text, file="sent")
    problems, warnings = ([problem_to_dict(one) for one in found] for found in (review.problems, review.warnings))
    return Validation(not problems, review.problems[0].message if problems else "", problems, warnings)


@ROUTES.post(f"{PARTITION}/plan")
def plan(served: ServedPartition, *, text: str) -> Annotated[Object, ConfigPlan]:
    """Return the effects that a configuration would have on a partition."""
    config = next((found for found in parse_config(text, file="plan").partitions if found.name == served.name), None)
    if config is None:
        message = f"partition {served.name!r} is missing"
        raise ConfigError((Problem("plan", 0, 0, "partitions", "partition-missing", message),))
    return with_text(served.partition.plan(config))

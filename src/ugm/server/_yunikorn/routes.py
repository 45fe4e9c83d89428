"""The table of routes that respond in the format of Apache YuniKorn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import ugm.server._yunikorn.partition_endpoints as partitions
import ugm.server._yunikorn.server_endpoints as server
from ugm.server.route import YUNIKORN_PREFIX, Route
from ugm.server.schemas import Schema, listing, reference
from ugm.server.state import RequestContext, ServedPartition, ServerState

__all__ = ["YUNIKORN_PARTITION_ROUTES", "YUNIKORN_SERVER_ROUTES"]

_Target = TypeVar("_Target")

_PARTITION: Final = "/partition/{partition}"
_QUEUE: Final = f"{_PARTITION}/queue/{{queue_path}}"
_SUBTREE: Final[Mapping[str, Schema]] = {"subtree": {"type": "string", "maxLength": 10}}
_STATUS: Final[Mapping[str, Schema]] = {"status": {"type": "string", "maxLength": 20}}
_EVENTS: Final[Mapping[str, Schema]] = {
    "count": {"type": "integer", "minimum": 1, "maximum": 10_000},
    "start": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
}


def _get(
    path: str,
    answer: Callable[[_Target, RequestContext], object],
    result: Schema,
    query: Mapping[str, Schema] | None = None,
) -> Route[_Target]:
    operation = f"yunikorn_{answer.__name__}"
    return Route("GET", path, answer, result, query or {}, operation=operation, prefix=YUNIKORN_PREFIX)


_APPLICATION: Final = reference("ApplicationDAOInfo")
_APPLICATIONS: Final = listing(_APPLICATION)
_NODE: Final = reference("NodeDAOInfo")
_QUEUE_INFO: Final = reference("PartitionQueueDAOInfo")
_USER: Final = reference("UserResourceUsageDAOInfo")
_GROUP: Final = reference("GroupResourceUsageDAOInfo")

#: Paths with more parts come first: the name of a queue or application may contain slashes at the end of a path.
YUNIKORN_PARTITION_ROUTES: Final[tuple[Route[ServedPartition], ...]] = (
    _get(f"{_PARTITION}/usage/users", partitions.users, listing(_USER)),
    _get(f"{_PARTITION}/usage/groups", partitions.groups, listing(_GROUP)),
    _get(f"{_PARTITION}/usage/user/{{name}}", partitions.user, _USER),
    _get(f"{_PARTITION}/usage/group/{{name}}", partitions.group, _GROUP),
    _get(f"{_PARTITION}/queues", partitions.queues, _QUEUE_INFO),
    _get(f"{_QUEUE}/applications/{{state}}", partitions.queue_applications_by_state, _APPLICATIONS, _STATUS),
    _get(f"{_QUEUE}/applications", partitions.queue_applications, _APPLICATIONS),
    _get(f"{_QUEUE}/application/{{name}}", partitions.application_in_queue, _APPLICATION),
    _get(_QUEUE, partitions.queue, _QUEUE_INFO, _SUBTREE),
    _get(f"{_PARTITION}/applications", partitions.applications, _APPLICATIONS),
    _get(f"{_PARTITION}/applications/{{state}}", partitions.applications_by_state, _APPLICATIONS, _STATUS),
    _get(f"{_PARTITION}/application/{{name}}", partitions.application, _APPLICATION),
    _get(f"{_PARTITION}/nodes", partitions.nodes, listing(_NODE)),
    _get(f"{_PARTITION}/node/{{name}}", partitions.node, _NODE),
    _get(f"{_PARTITION}/placementrules", partitions.placement_rules, listing(reference("RuleDAO"))),
)

_ANY_YAML: Final[Schema] = {"description": "YAML, whether it is a configuration or not."}
_VALIDATE: Final[Route[ServerState]] = Route(
    "POST",
    "/validate-conf",
    server.validate,
    reference("ValidateConfResponse"),
    body=_ANY_YAML,
    reads_config=True,
    takes_any_type=True,
    operation="yunikorn_validate",
    prefix=YUNIKORN_PREFIX,
)
_CONFIG: Final[Any] = _get("/config", server.config, reference("ConfigDAOInfo"))

YUNIKORN_SERVER_ROUTES: Final[tuple[Route[ServerState], ...]] = (
    _get("/clusters", server.clusters, listing(reference("ClusterDAOInfo"))),
    _get("/partitions", server.partitions, listing(reference("PartitionInfo"))),
    _get("/history/apps", server.application_history, listing(reference("ApplicationHistoryDAOInfo"))),
    _get("/fullstatedump", server.full_state, reference("AggregatedStateInfo")),
    _get("/events/batch", server.events, reference("EventRecordDAO"), _EVENTS),
    _get("/scheduler/healthcheck", server.healthcheck, reference("SchedulerHealthDAOInfo")),
    _CONFIG._replace(returns_yaml=True),
    _VALIDATE,
)

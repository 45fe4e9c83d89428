"""The table of all routes: it determines the routing, the validation of requests and the OpenAPI description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, get_args

import ugm.server.decision_endpoints as decisions
import ugm.server.server_endpoints as server
import ugm.server.view_endpoints as views
from ugm.events import Event, event_name
from ugm.partition import ApplicationState
from ugm.server.schemas import (
    NAME,
    QUANTITIES,
    QUEUE,
    REQUESTED_QUEUE,
    TAG,
    USER,
    Schema,
    listing,
    mapping,
    record,
    reference,
)
from ugm.server.state import RequestContext, ServedPartition, ServerState

__all__ = ["PARTITION_ROUTES", "PATH_SCHEMAS", "PREFIX", "ROUTES", "SERVER_ROUTES", "AnyRoute", "Route"]

_Target = TypeVar("_Target")

#: The prefix of all paths but those of the description, the metrics and the page.
PREFIX: Final = "/ws/v1"
_PARTITION: Final = "/partition/{partition}"

#: A configuration, in YAML.
_CONFIG: Final[Schema] = {"type": "object"}
_ANY_YAML: Final[Schema] = {"description": "YAML, whether it is a configuration or not."}

#: The size of a page.
_MOST: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 1000}
_PAGE: Final = {"after": {"type": "string", "maxLength": 256}, "most": _MOST}
_NUMBER: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
#: A page of a ranking: a text that names must contain, the number of names to skip, and the size of the page.
_RANKING: Final = {"find": {"type": "string", "maxLength": 256}, "skip": {**_NUMBER, "maximum": 10**9}, "most": _MOST}
_STATES: Final[Schema] = {"type": "string", "enum": [state.value for state in ApplicationState]}
_KINDS: Final[Schema] = {"type": "string", "enum": sorted(map(event_name, get_args(Event)))}
_HOLDERS: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 100}

_SUBMISSION: Final = {
    "groups": listing(USER, maxItems=1000),
    "queue": REQUESTED_QUEUE,
    "tags": mapping(TAG, propertyNames=NAME, maxProperties=1000),
    "quota": QUANTITIES,
}
_CHECK: Final[Schema] = {
    "anyOf": [record(application_id=NAME, usage=QUANTITIES), record(_SUBMISSION, user=USER, usage=QUANTITIES)]
}
_EXPLAIN: Final[Schema] = {
    "anyOf": [
        record({"most": _HOLDERS}, application_id=NAME, usage=QUANTITIES),
        record({**_SUBMISSION, "most": _HOLDERS}, user=USER, usage=QUANTITIES),
    ]
}


class Route(NamedTuple, Generic[_Target]):
    """One method of one path, with the function that answers it."""

    method: str
    #: Below `PREFIX`; variable parts are in braces.
    path: str
    #: One sentence for the description.
    summary: str
    #: The first argument is the partition, or the state of the server.
    answer: Callable[[_Target, RequestContext], object]
    result: Schema
    #: The query parameters by name, and those that are required.
    query: Mapping[str, Schema] = {}
    required: frozenset[str] = frozenset()
    #: The schema of the body; None if the route takes no body.
    body: Schema | None = None
    #: Whether the route changes something, so that it needs a token.
    changes: bool = False
    #: Whether the body is a configuration in YAML, which a worker process reads; see `ugm.server.worker`.
    reads_config: bool = False
    returns_yaml: bool = False
    #: Whether the answer takes so little time that the event loop creates it, instead of a thread.
    is_quick: bool = False
    #: The name of the operation in the description; by default that of the function.
    operation: str = ""

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operation or self.answer.__name__


AnyRoute: TypeAlias = Route[Any]


#: The schemas of the variable parts of paths; all others are a `NAME`.
PATH_SCHEMAS: Final = {"queue_path": QUEUE}

PARTITION_ROUTES: Final[tuple[Route[ServedPartition], ...]] = (
    # The paths of the design documents
    Route("GET", f"{_PARTITION}/usage/users", "The usage of every user.", views.users, listing(reference("UserUsage"))),
    Route(
        "GET", f"{_PARTITION}/usage/groups", "The usage of every group.", views.groups, listing(reference("GroupUsage"))
    ),
    Route("GET", f"{_PARTITION}/usage/user/{{name}}", "The usage of one user.", views.user, reference("UserUsage")),
    Route("GET", f"{_PARTITION}/usage/group/{{name}}", "The usage of one group.", views.group, reference("GroupUsage")),
    # Views
    Route("GET", _PARTITION, "A summary of one partition.", server.partition, reference("Partition")),
    Route(
        "GET",
        f"{_PARTITION}/standing/users",
        "The users that are closest to a limit, the closest first.",
        views.user_utilization,
        reference("Standings"),
        _RANKING,
        operation="user_standings",
    ),
    Route(
        "GET",
        f"{_PARTITION}/standing/groups",
        "The groups that are closest to a limit, the closest first.",
        views.group_utilization,
        reference("Standings"),
        _RANKING,
        operation="group_standings",
    ),
    Route("GET", f"{_PARTITION}/queues", "All queues as a tree.", views.queues, reference("Queue")),
    Route(
        "GET",
        f"{_PARTITION}/queue/{{queue_path}}",
        "One queue with the queues below it, its headroom and its configured limits.",
        views.queue,
        reference("QueueDetail"),
    ),
    Route(
        "GET",
        f"{_PARTITION}/applications",
        "A page of applications, ordered by id.",
        views.applications,
        reference("Applications"),
        {**_PAGE, "queue": QUEUE, "user": USER, "group": NAME, "state": _STATES},
    ),
    Route(
        "GET",
        f"{_PARTITION}/application/{{name}}",
        "One application with its limits and the explanations of its pending allocations.",
        decisions.application,
        reference("ApplicationDetail"),
    ),
    Route(
        "GET",
        f"{_PARTITION}/allocations",
        "A page of allocations with their holders, ordered by id.",
        views.allocations,
        reference("Allocations"),
        {**_PAGE, "application": NAME},
    ),
    Route(
        "GET",
        f"{_PARTITION}/allocation/{{name}}",
        "One allocation with its holder.",
        views.allocation,
        reference("Allocation"),
        is_quick=True,
    ),
    Route("GET", f"{_PARTITION}/nodes", "The resources of every registered node.", views.nodes, reference("Nodes")),
    Route(
        "GET",
        f"{_PARTITION}/history",
        "The newest events, oldest first.",
        views.history,
        reference("History"),
        {"after": _NUMBER, "kind": _KINDS, "most": _MOST},
    ),
    # Decisions
    Route(
        "GET",
        f"{_PARTITION}/limits",
        "Every limit that applies to a user in a queue.",
        decisions.limits,
        reference("Limits"),
        {"user": USER, "group": listing(USER, maxItems=20), "queue": QUEUE},
        frozenset(("user", "queue")),
    ),
    Route(
        "POST",
        f"{_PARTITION}/check",
        "The decision on one more allocation.",
        decisions.check,
        reference("Decision"),
        body=_CHECK,
    ),
    Route(
        "POST",
        f"{_PARTITION}/explain",
        "The decision on one more allocation, the holders of the missing resources, and every limit that applies.",
        decisions.explain,
        reference("Explanation"),
        body=_EXPLAIN,
    ),
)

SERVER_ROUTES: Final[tuple[Route[ServerState], ...]] = (
    Route("GET", "/partitions", "A summary of each partition.", server.partitions, listing(reference("Partition"))),
    Route(
        "POST",
        f"{_PARTITION}/plan",
        "The effects that a configuration would have on the partition.",
        server.plan,
        reference("Plan"),
        body=_CONFIG,
        reads_config=True,
    ),
    Route(
        "POST",
        "/validate-conf",
        "All problems of a configuration.",
        server.validate,
        reference("Validation"),
        body=_ANY_YAML,
        reads_config=True,
    ),
    Route("GET", "/config", "The configuration in force.", server.config, _CONFIG, returns_yaml=True),
    Route(
        "PUT",
        "/config",
        "Replace the configuration of all partitions, or of none.",
        server.upload,
        reference("Changed"),
        body=_CONFIG,
        changes=True,
        reads_config=True,
    ),
    Route(
        "POST",
        "/config/reload",
        "Replace the configuration by that in the file, in all partitions or in none.",
        server.reload,
        reference("Changed"),
        changes=True,
    ),
    Route(
        "GET",
        "/health",
        "The state of the server, and the last change of its configuration.",
        server.health,
        reference("Health"),
        is_quick=True,
    ),
    Route("GET", "/states", "The names of the further states.", server.states, reference("States"), is_quick=True),
    Route("GET", "/state/{name}", "One of the further states.", server.state, reference("State")),
)

ROUTES: Final[tuple[AnyRoute, ...]] = (*PARTITION_ROUTES, *SERVER_ROUTES)

"""The table of all routes: it determines the routing, the validation of requests and the OpenAPI description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getdoc
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, get_args

import ugm.server.decision_endpoints as decisions
import ugm.server.server_endpoints as server
import ugm.server.tree_endpoints as trees
import ugm.server.view_endpoints as views
from ugm.events import Event, event_name
from ugm.partition import ApplicationState
from ugm.server.access import Role
from ugm.server.operations import BATCH, OPERATIONS, create_endpoint, execute_batch
from ugm.server.schemas import (
    DURATION,
    NAME,
    QUANTITIES,
    QUEUE,
    SUBMISSION,
    TRAITS,
    USER,
    Schema,
    listing,
    record,
    reference,
)
from ugm.server.state import RequestContext, ServedPartition, ServerState
from ugm.server.trees import MEASURES

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
#: A page of users or groups; ``resource`` belongs to the order ``usage``.
_UTILIZATIONS: Final = {
    **_RANKING,
    "sort": {"type": "string", "enum": ["applications", "name", "pending", "share", "usage"]},
    "resource": NAME,
}
_STATES: Final[Schema] = {"type": "string", "enum": [state.value for state in ApplicationState]}
_KINDS: Final[Schema] = {"type": "string", "enum": sorted(map(event_name, get_args(Event)))}
_HOLDERS: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 100}

# Query parameters
_APPLICATIONS: Final = {**_PAGE, "queue": QUEUE, "user": USER, "group": NAME, "state": _STATES}
_ALLOCATIONS: Final = {**_PAGE, "application": NAME}
_HISTORY: Final = {"after": _NUMBER, "kind": _KINDS, "most": _MOST}
_USER_IN_QUEUE: Final = {"user": USER, "group": listing(USER, maxItems=20), "queue": QUEUE}
_REQUIRED: Final = frozenset(("user", "queue"))
#: A page of the visible nodes of a tree. The nodes in ``toggle`` are open if others at their place are closed.
_TREE: Final = {
    **_RANKING,
    "tree": NAME,
    "resource": NAME,
    "sort": {"type": "string", "enum": sorted({"name", "share"}.union(*MEASURES.values()))},
    "toggle": listing(NAME, maxItems=50),
}
_BORROWERS: Final = {**_RANKING, "tree": NAME, "node": NAME}
_IN_TREE: Final = frozenset(("tree",))
_NODE_IN_TREE: Final = frozenset(("tree", "node"))

_DURATION: Final = {"duration": DURATION}
_CHECK: Final[Schema] = {
    "anyOf": [
        record(_DURATION, application_id=NAME, usage=QUANTITIES),
        record({**SUBMISSION, **_DURATION}, user=USER, usage=QUANTITIES),
    ]
}
_EXPLAIN: Final[Schema] = {
    "anyOf": [
        record({**_DURATION, "most": _HOLDERS}, application_id=NAME, usage=QUANTITIES),
        record({**SUBMISSION, **_DURATION, "most": _HOLDERS}, user=USER, usage=QUANTITIES),
    ]
}
_RECLAIM: Final[Schema] = {
    "anyOf": [
        record(TRAITS, application_id=NAME, usage=QUANTITIES),
        record(
            {**TRAITS, "groups": SUBMISSION["groups"], "tags": SUBMISSION["tags"]},
            user=USER,
            queue=QUEUE,
            usage=QUANTITIES,
        ),
    ]
}
_SECONDS: Final[Schema] = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_PREEMPTION: Final[Schema] = record(
    {
        "allocation_id": NAME,
        "priority": TRAITS["priority"],
        "now": _SECONDS,
        "may_preempt": {"type": "boolean"},
        "within_queue": {"type": "boolean"},
    },
    application_id=NAME,
    usage=QUANTITIES,
    since=_SECONDS,
)


class Route(NamedTuple, Generic[_Target]):
    """One method of one path, with the function that answers it."""

    method: str
    #: Below `PREFIX`; variable parts are in braces.
    path: str
    #: The first argument is the partition, or the state of the server.
    answer: Callable[[_Target, RequestContext], object]
    result: Schema
    #: The query parameters by name, and those that are required.
    query: Mapping[str, Schema] = {}
    required: frozenset[str] = frozenset()
    #: The schema of the body; None if the route takes no body.
    body: Schema | None = None
    #: The role that a client needs.
    role: Role = Role.READ
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

    @property
    def summary(self) -> str:
        """The first line of the docstring of the function, for the description."""
        return (getdoc(self.answer) or self.name).partition("\n")[0]


AnyRoute: TypeAlias = Route[Any]


#: The schemas of the variable parts of paths; all others are a `NAME`.
PATH_SCHEMAS: Final = {"queue_path": QUEUE}

PARTITION_ROUTES: Final[tuple[Route[ServedPartition], ...]] = (
    # The paths of the design documents
    Route("GET", f"{_PARTITION}/usage/users", views.users, listing(reference("UserUsage"))),
    Route("GET", f"{_PARTITION}/usage/groups", views.groups, listing(reference("GroupUsage"))),
    Route("GET", f"{_PARTITION}/usage/user/{{name}}", views.user, reference("UserUsage")),
    Route("GET", f"{_PARTITION}/usage/group/{{name}}", views.group, reference("GroupUsage")),
    # Views
    Route("GET", _PARTITION, views.partition, reference("Partition")),
    Route(
        "GET",
        f"{_PARTITION}/standing/users",
        views.user_utilization,
        reference("Standings"),
        _UTILIZATIONS,
        operation="user_standings",
    ),
    Route(
        "GET",
        f"{_PARTITION}/standing/groups",
        views.group_utilization,
        reference("Standings"),
        _UTILIZATIONS,
        operation="group_standings",
    ),
    Route("GET", f"{_PARTITION}/queues", views.queues, reference("Queue")),
    Route("GET", f"{_PARTITION}/queue/{{queue_path}}", views.queue, reference("QueueDetail")),
    Route("GET", f"{_PARTITION}/applications", views.applications, reference("Applications"), _APPLICATIONS),
    Route("GET", f"{_PARTITION}/application/{{name}}", decisions.application, reference("ApplicationDetail")),
    Route("GET", f"{_PARTITION}/allocations", views.allocations, reference("Allocations"), _ALLOCATIONS),
    Route("GET", f"{_PARTITION}/allocation/{{name}}", views.allocation, reference("Allocation"), is_quick=True),
    Route("GET", f"{_PARTITION}/nodes", views.nodes, reference("Nodes")),
    Route("GET", f"{_PARTITION}/history", views.history, reference("History"), _HISTORY),
    Route("GET", f"{_PARTITION}/trees", trees.trees, reference("Trees")),
    Route("GET", f"{_PARTITION}/tree", trees.tree, reference("Tree"), _TREE, _IN_TREE),
    Route(
        "GET",
        f"{_PARTITION}/tree/node",
        trees.tree_node,
        reference("TreeNodeDetail"),
        {"tree": NAME, "node": NAME},
        _NODE_IN_TREE,
    ),
    Route("GET", f"{_PARTITION}/tree/borrowers", trees.tree_borrowers, reference("Borrowers"), _BORROWERS, _IN_TREE),
    Route("GET", f"{_PARTITION}/service", views.service, reference("ServiceStatus"), is_quick=True),
    # Decisions
    Route("GET", f"{_PARTITION}/limits", decisions.limits, reference("Limits"), _USER_IN_QUEUE, _REQUIRED),
    Route("GET", f"{_PARTITION}/order", decisions.order, reference("Order"), {"most": _MOST}),
    Route("POST", f"{_PARTITION}/check", decisions.check, reference("Decision"), body=_CHECK),
    Route("POST", f"{_PARTITION}/explain", decisions.explain, reference("Explanation"), body=_EXPLAIN),
    Route("POST", f"{_PARTITION}/plan_reclaim", decisions.plan_reclaim, reference("ReclaimPlan"), body=_RECLAIM),
    Route(
        "POST",
        f"{_PARTITION}/plan_preemption",
        decisions.plan_preemption,
        reference("PreemptionPlan"),
        body=_PREEMPTION,
    ),
)

_OPERATION_ROUTES: Final[tuple[Route[ServerState], ...]] = (
    *(
        Route(
            "POST",
            f"{_PARTITION}/{operation.name}",
            create_endpoint(operation),
            operation.result,
            body=operation.body,
            role=Role.DECIDE,
        )
        for operation in OPERATIONS.values()
    ),
    Route("POST", f"{_PARTITION}/batch", execute_batch, reference("Batch"), body=BATCH, role=Role.DECIDE),
)

SERVER_ROUTES: Final[tuple[Route[ServerState], ...]] = (
    *_OPERATION_ROUTES,
    Route("GET", "/partitions", server.partitions, listing(reference("Partition"))),
    Route("POST", f"{_PARTITION}/plan", server.plan, reference("Plan"), body=_CONFIG, reads_config=True),
    Route("POST", "/validate-conf", server.validate, reference("Validation"), body=_ANY_YAML, reads_config=True),
    Route("GET", "/config", server.config, _CONFIG, returns_yaml=True),
    Route("PUT", "/config", server.upload, reference("Changed"), body=_CONFIG, role=Role.OPERATE, reads_config=True),
    Route("POST", "/config/reload", server.reload, reference("Changed"), role=Role.OPERATE),
    Route("GET", "/health", server.health, reference("Health"), is_quick=True),
    Route("GET", "/states", server.states, reference("States"), is_quick=True),
    Route("GET", "/state/{name}", server.state, reference("State")),
)

ROUTES: Final[tuple[AnyRoute, ...]] = (*PARTITION_ROUTES, *SERVER_ROUTES)

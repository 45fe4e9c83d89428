"""The table of all routes: it determines the routing, the validation of requests and the OpenAPI description."""

from __future__ import annotations

from typing import Final, get_args

import ugm.server.budget_endpoints as budgets
import ugm.server.decision_endpoints as decisions
import ugm.server.history_endpoints as histories
import ugm.server.preemption_endpoints as preemption
import ugm.server.server_endpoints as server
import ugm.server.share_endpoints as shares
import ugm.server.threshold_endpoints as watches
import ugm.server.tree_endpoints as trees
import ugm.server.view_endpoints as views
import ugm.server.waiting_endpoints as waits
from ugm.events import Event, event_name
from ugm.partition import ApplicationState
from ugm.server._yunikorn.routes import YUNIKORN_PARTITION_ROUTES, YUNIKORN_SERVER_ROUTES
from ugm.server.access import Role
from ugm.server.operations import BATCH, OPERATIONS, create_endpoint, execute_batch
from ugm.server.route import AnyRoute, Route
from ugm.server.schemas import (
    DURATION,
    NAME,
    NODES,
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
from ugm.server.series import TIERS
from ugm.server.state import ServedPartition, ServerState
from ugm.server.trees import MEASURES

__all__ = ["PARTITION_ROUTES", "PATH_SCHEMAS", "ROUTES", "SERVER_ROUTES"]

_PARTITION: Final = "/partition/{partition}"

_CONFIG: Final[Schema] = {"type": "string", "description": "A configuration in YAML."}
_ANY_YAML: Final[Schema] = {"description": "YAML, whether it is a configuration or not."}

#: The size of a page.
_LIMIT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 1000}
_PAGE: Final = {"after": {"type": "string", "maxLength": 256}, "limit": _LIMIT}
_NUMBER: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
#: A page of a ranking: a text that names must contain, the number of names before the page, and the size of the page.
_RANKING: Final = {
    "search": {"type": "string", "maxLength": 256},
    "offset": {**_NUMBER, "maximum": 10**9},
    "limit": _LIMIT,
}
#: A page of users or groups; ``resource`` belongs to the order ``usage``.
_UTILIZATIONS: Final = {
    **_RANKING,
    "sort": {"type": "string", "enum": ["applications", "name", "pending", "share", "usage"]},
    "resource": NAME,
    "queue": QUEUE,
}
_STATES: Final[Schema] = {"type": "string", "enum": [state.value for state in ApplicationState]}
_KINDS: Final[Schema] = {"type": "string", "enum": sorted(map(event_name, get_args(Event)))}
_HOLDERS: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 100}

# Query parameters
_AGE: Final = {"older_than": {**_NUMBER, "maximum": 10**9}}
_APPLICATIONS: Final = {
    **_PAGE,
    **_AGE,
    "search": _RANKING["search"],
    "queue": QUEUE,
    "user": USER,
    "group": NAME,
    "state": _STATES,
}
_WAITING: Final = {
    **_RANKING,
    **_AGE,
    "application": NAME,
    "queue": QUEUE,
    "user": USER,
    "sort": {"type": "string", "enum": ["age", "name", "position"]},
}
_ALLOCATIONS: Final = {**_PAGE, "application": NAME}
_HISTORY: Final = {"after": _NUMBER, "kind": _KINDS, "limit": _LIMIT}
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

#: A page of accounts; ``budget`` and ``owner`` select.
_ACCOUNTS: Final = {
    **_RANKING,
    "budget": NAME,
    "owner": NAME,
    "sort": {"type": "string", "enum": ["exhausted", "name", "remaining", "share"]},
}

#: A page of crossed thresholds; ``kind`` selects.
_THRESHOLDS: Final = {
    **_RANKING,
    "kind": {"type": "string", "enum": ["budget", "elastic group", "group", "queue", "quota node", "user"]},
}

#: A page of users; ``first`` and ``second`` are compared.
_SHARES: Final = {**_RANKING, "first": NAME, "second": NAME}
#: One subject over time; a node also needs its tree.
_SUBJECT: Final = {
    "kind": {"type": "string", "enum": list(histories.KINDS)},
    "tree": NAME,
    "range": {"type": "string", "enum": [tier.name for tier in TIERS]},
}
_SUBJECT_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 4096}
_USAGE_HISTORY: Final = {**_SUBJECT, "name": _SUBJECT_NAME}
_SPARKLINES: Final = {
    **_SUBJECT,
    "names": listing(_SUBJECT_NAME, maxItems=100),
    "measure": {"type": "string", "enum": list(histories.MEASURES)},
    "resource": NAME,
    "points": {"type": "integer", "minimum": 2, "maximum": 400},
    "after": _NUMBER,
}

#: ``true`` allows a configuration that lowers limits below the usage or by more than 10 %.
_CONFIRM: Final[Schema] = {"type": "string", "enum": ["false", "true"]}
_DURATION: Final = {"duration": DURATION}


def _for_application(body: Schema) -> Schema:
    """Return the schema of a body with a title, after which generated clients name it."""
    return {"title": "For application", **body}


def _for_user(body: Schema) -> Schema:
    return {"title": "For user", **body}


_CHECK: Final[Schema] = {
    "anyOf": [
        _for_application(record(_DURATION, application_id=NAME, usage=QUANTITIES)),
        _for_user(record({**SUBMISSION, **_DURATION}, user=USER, usage=QUANTITIES)),
    ]
}
_EXPLAIN: Final[Schema] = {
    "anyOf": [
        _for_application(record({**_DURATION, "max_holders": _HOLDERS}, application_id=NAME, usage=QUANTITIES)),
        _for_user(record({**SUBMISSION, **_DURATION, "max_holders": _HOLDERS}, user=USER, usage=QUANTITIES)),
    ]
}
_RECLAIM: Final[Schema] = {
    "anyOf": [
        record({**TRAITS, **_DURATION, "nodes": NODES}, application_id=NAME, usage=QUANTITIES),
        record(
            {**TRAITS, **_DURATION, "nodes": NODES, "groups": SUBMISSION["groups"], "tags": SUBMISSION["tags"]},
            user=USER,
            queue=QUEUE,
            usage=QUANTITIES,
        ),
    ]
}


#: The schemas of the variable parts of paths; all others are a `NAME`.
PATH_SCHEMAS: Final = {"queue_path": QUEUE}

_NAMED: Final = frozenset(("kind", "name"))
_USAGE_HISTORY_ROUTES: Final[tuple[Route[ServedPartition], ...]] = (
    Route(
        "GET",
        f"{_PARTITION}/usage_history",
        histories.usage_history,
        reference("UsageHistory"),
        _USAGE_HISTORY,
        _NAMED,
    ),
    Route(
        "GET",
        f"{_PARTITION}/usage_history.csv",
        histories.usage_history_csv,
        {"type": "string"},
        _USAGE_HISTORY,
        _NAMED,
        returns_csv=True,
    ),
    Route(
        "GET",
        f"{_PARTITION}/sparklines",
        histories.sparklines,
        reference("Sparklines"),
        _SPARKLINES,
        frozenset(("kind", "names")),
    ),
)

PARTITION_ROUTES: Final[tuple[Route[ServedPartition], ...]] = (
    *YUNIKORN_PARTITION_ROUTES,
    # Views
    Route("GET", _PARTITION, views.partition, reference("Partition")),
    Route(
        "GET",
        f"{_PARTITION}/utilization/users",
        views.user_utilization,
        reference("LimitUtilizations"),
        _UTILIZATIONS,
        operation="user_utilizations",
    ),
    Route(
        "GET",
        f"{_PARTITION}/utilization/groups",
        views.group_utilization,
        reference("LimitUtilizations"),
        _UTILIZATIONS,
        operation="group_utilizations",
    ),
    Route("GET", f"{_PARTITION}/queues", views.queues, reference("Queue")),
    Route("GET", f"{_PARTITION}/queue/{{queue_path}}", views.queue, reference("QueueDetail")),
    Route("GET", f"{_PARTITION}/applications", views.applications, reference("Applications"), _APPLICATIONS),
    Route("GET", f"{_PARTITION}/application/{{name}}", decisions.application, reference("ApplicationDetail")),
    Route("GET", f"{_PARTITION}/allocations", views.allocations, reference("Allocations"), _ALLOCATIONS),
    Route("GET", f"{_PARTITION}/allocation/{{name}}", views.allocation, reference("Allocation"), is_quick=True),
    Route(
        "GET",
        f"{_PARTITION}/scheduled_changes",
        views.scheduled_changes,
        reference("ScheduledChanges"),
        {"limit": _LIMIT},
    ),
    Route("GET", f"{_PARTITION}/overdue", views.overdue, reference("Overdue"), {"now": _NUMBER, "limit": _LIMIT}),
    Route("GET", f"{_PARTITION}/nodes", views.nodes, reference("Nodes")),
    Route("GET", f"{_PARTITION}/history", views.history, reference("History"), _HISTORY),
    *_USAGE_HISTORY_ROUTES,
    Route("GET", f"{_PARTITION}/waiting", waits.waiting, reference("WaitingRequests"), _WAITING),
    Route(
        "GET",
        f"{_PARTITION}/waiting/applications",
        waits.waiting_applications,
        reference("WaitingApplications"),
        _WAITING,
    ),
    Route("GET", f"{_PARTITION}/waiting/users", waits.waiting_users, reference("WaitingUsers"), _WAITING),
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
    Route("GET", f"{_PARTITION}/budgets", budgets.budgets, reference("BudgetAccounts"), _ACCOUNTS),
    Route("GET", f"{_PARTITION}/thresholds", watches.thresholds, reference("Thresholds"), _THRESHOLDS),
    Route("GET", f"{_PARTITION}/shares", shares.shares, reference("Shares"), _SHARES),
    Route("GET", f"{_PARTITION}/service", views.service, reference("ServiceStatus"), is_quick=True),
    # Decisions
    Route("GET", f"{_PARTITION}/limits", decisions.limits, reference("Limits"), _USER_IN_QUEUE, _REQUIRED),
    Route("GET", f"{_PARTITION}/order", decisions.order, reference("Order"), {"limit": _LIMIT, "tree": NAME}),
    Route("POST", f"{_PARTITION}/check", decisions.check, reference("Decision"), body=_CHECK),
    Route("POST", f"{_PARTITION}/explain", decisions.explain, reference("Explanation"), body=_EXPLAIN),
    Route("POST", f"{_PARTITION}/plan_reclaim", decisions.plan_reclaim, reference("ReclaimPlan"), body=_RECLAIM),
    Route(
        "POST",
        f"{_PARTITION}/plan_preemption",
        preemption.plan_preemption,
        reference("PreemptionPlan"),
        body=preemption.PREEMPTION_BODY,
    ),
    Route(
        "POST",
        f"{_PARTITION}/plan_reductions",
        preemption.plan_reductions,
        reference("ReductionPlan"),
        body=preemption.REDUCTIONS_BODY,
    ),
    Route("GET", f"{_PARTITION}/preemption", preemption.preemption_status, reference("PreemptionStatus")),
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
    *YUNIKORN_SERVER_ROUTES,
    Route(
        "POST",
        f"{_PARTITION}/carry_out",
        preemption.carry_out,
        reference("AllocationIds"),
        body=preemption.CARRY_OUT_BODY,
        role=Role.OPERATE,
    ),
    Route(
        "POST",
        f"{_PARTITION}/change_budget",
        budgets.change_budget,
        reference("BudgetChanged"),
        body=budgets.CHANGE,
        role=Role.OPERATE,
    ),
    Route("GET", "/partitions", server.partitions, listing(reference("Partition"))),
    Route("POST", f"{_PARTITION}/plan", server.plan, reference("Plan"), body=_CONFIG, reads_config=True),
    Route("POST", "/validate-conf", server.validate, reference("Validation"), body=_ANY_YAML, reads_config=True),
    Route("GET", "/config", server.config, _CONFIG, returns_yaml=True),
    Route("GET", "/config/changes", server.config_changes, reference("ConfigChanges"), is_quick=True),
    Route(
        "PUT",
        "/config",
        server.upload,
        reference("Changed"),
        {"confirm": _CONFIRM},
        body=_CONFIG,
        role=Role.OPERATE,
        reads_config=True,
    ),
    Route("POST", "/config/reload", server.reload, reference("Changed"), role=Role.OPERATE),
    Route("GET", "/health", server.health, reference("Health"), is_quick=True),
    Route("GET", "/states", server.states, reference("States"), is_quick=True),
    Route("GET", "/state/{name}", server.state, reference("State")),
)

ROUTES: Final[tuple[AnyRoute, ...]] = (*PARTITION_ROUTES, *SERVER_ROUTES)

"""Every endpoint, in one table: the server routes by it, checks by it, and describes itself by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, get_args

from ugm.partition import ApplicationState, Event, event_name
from ugm.server import decision_endpoints, server_endpoints, view_endpoints
from ugm.server.schema import (
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
from ugm.server.state import RequestContext

__all__ = ["PREFIX", "ROUTES", "Route", "is_yaml", "part_schema"]

#: What all endpoints but the description and the metrics begin with.
PREFIX: Final = "/ws/v1"
_PARTITION: Final = "/partition/{partition}"

#: A configuration, in YAML.
_YAML: Final[Schema] = {"type": "object"}
#: YAML, whether it is a configuration or not.
_ANY_YAML: Final[Schema] = {"description": "YAML, whether it is a configuration or not."}

#: Most lines of a page.
_MOST: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 1000}
_PAGE: Final = {"after": {"type": "string", "maxLength": 256}, "most": _MOST}
_NUMBER: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
#: Which of those that are closest to a limit: those with a text in their names, and how many of them were seen.
_FOUND: Final = {"find": {"type": "string", "maxLength": 256}, "skip": {**_NUMBER, "maximum": 10**9}}
_STATES: Final[Schema] = {"type": "string", "enum": [state.value for state in ApplicationState]}
_KINDS: Final[Schema] = {"type": "string", "enum": sorted(map(event_name, get_args(Event)))}
_HOLDERS: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 100}

_WHO: Final = {
    "groups": listing(USER, maxItems=1000),
    "queue": REQUESTED_QUEUE,
    "tags": mapping(TAG, propertyNames=NAME, maxProperties=1000),
    "quota": QUANTITIES,
}
_CHECK: Final[Schema] = {
    "anyOf": [record(application_id=NAME, usage=QUANTITIES), record(_WHO, user=USER, usage=QUANTITIES)]
}
_EXPLAIN: Final[Schema] = {
    "anyOf": [
        record({"most": _HOLDERS}, application_id=NAME, usage=QUANTITIES),
        record({**_WHO, "most": _HOLDERS}, user=USER, usage=QUANTITIES),
    ]
}


class Route(NamedTuple):
    """One endpoint."""

    method: str
    #: Below the prefix, with parts in braces.
    path: str
    #: A sentence for people.
    summary: str
    answer: Callable[[RequestContext], object]
    #: What is answered; see `is_yaml`.
    result: Schema
    #: What may be asked for besides, by name.
    query: Mapping[str, Schema] = {}
    #: Which of them must be there.
    required: frozenset[str] = frozenset()
    #: What the client sends; None for nothing.
    body: Schema | None = None
    #: Whether it changes something, and needs a token.
    changes: bool = False
    #: Whether the body is a configuration, which may take long to read; see `ugm.server.worker`.
    reads_config: bool = False
    #: Whether it takes so little time that it is answered at once, and not in a thread.
    is_quick: bool = False

    @property
    def name(self) -> str:
        """The name of the operation: what answers."""
        return self.answer.__name__


def is_yaml(schema: Schema | None) -> bool:
    """Return whether something is told as YAML; everything else is JSON."""
    return schema is _YAML or schema is _ANY_YAML


def part_schema(name: str) -> Schema:
    """Return the schema of a part of a path."""
    return QUEUE if name == "queue_path" else NAME


ROUTES: Final = (
    # What the documents name
    Route(
        "GET",
        f"{_PARTITION}/usage/users",
        "What every user uses.",
        view_endpoints.users,
        listing(reference("UserUsage")),
    ),
    Route(
        "GET",
        f"{_PARTITION}/usage/groups",
        "What every group uses.",
        view_endpoints.groups,
        listing(reference("GroupUsage")),
    ),
    Route(
        "GET",
        f"{_PARTITION}/usage/user/{{name}}",
        "What one user uses.",
        view_endpoints.user,
        reference("UserUsage"),
    ),
    Route(
        "GET",
        f"{_PARTITION}/usage/group/{{name}}",
        "What one group uses.",
        view_endpoints.group,
        reference("GroupUsage"),
    ),
    # What is seen
    Route(
        "GET",
        "/partitions",
        "All partitions in a few figures.",
        server_endpoints.partitions,
        listing(reference("Partition")),
    ),
    Route("GET", _PARTITION, "One partition in a few figures.", server_endpoints.partition, reference("Partition")),
    Route(
        "GET",
        f"{_PARTITION}/standing/users",
        "The users that are closest to a limit, the closest first.",
        view_endpoints.user_standings,
        reference("Standings"),
        {**_FOUND, "most": _MOST},
    ),
    Route(
        "GET",
        f"{_PARTITION}/standing/groups",
        "The groups that are closest to a limit, the closest first.",
        view_endpoints.group_standings,
        reference("Standings"),
        {**_FOUND, "most": _MOST},
    ),
    Route("GET", f"{_PARTITION}/queues", "All queues as a tree.", view_endpoints.queues, reference("Queue")),
    Route(
        "GET",
        f"{_PARTITION}/queue/{{queue_path}}",
        "One queue with those below it, and the limits that are set on it.",
        view_endpoints.queue,
        reference("QueueDetail"),
    ),
    Route(
        "GET",
        f"{_PARTITION}/applications",
        "Applications in the order of their ids, a page at a time.",
        view_endpoints.applications,
        reference("Applications"),
        {**_PAGE, "queue": QUEUE, "user": USER, "group": NAME, "state": _STATES},
    ),
    Route(
        "GET",
        f"{_PARTITION}/application/{{name}}",
        "One application with its limits, and why what is pending waits.",
        decision_endpoints.application,
        reference("ApplicationDetail"),
    ),
    Route(
        "GET",
        f"{_PARTITION}/allocations",
        "Allocations with their holders, in the order of their ids, a page at a time.",
        view_endpoints.allocations,
        reference("Allocations"),
        {**_PAGE, "application": NAME},
    ),
    Route(
        "GET",
        f"{_PARTITION}/allocation/{{name}}",
        "One allocation with its holder.",
        view_endpoints.allocation,
        reference("Allocation"),
        is_quick=True,
    ),
    Route("GET", f"{_PARTITION}/nodes", "What every registered node offers.", view_endpoints.nodes, reference("Nodes")),
    Route(
        "GET",
        f"{_PARTITION}/history",
        "The newest events, oldest first.",
        view_endpoints.history,
        reference("History"),
        {"after": _NUMBER, "kind": _KINDS, "most": _MOST},
    ),
    # What would be
    Route(
        "GET",
        f"{_PARTITION}/limits",
        "Every limit that holds for a user in a queue.",
        decision_endpoints.limits,
        reference("Limits"),
        {"user": USER, "group": listing(USER, maxItems=20), "queue": QUEUE},
        frozenset(("user", "queue")),
    ),
    Route(
        "POST",
        f"{_PARTITION}/check",
        "What would be answered to one more allocation.",
        decision_endpoints.check,
        reference("Decision"),
        body=_CHECK,
    ),
    Route(
        "POST",
        f"{_PARTITION}/explain",
        "The same, with who holds what is missing, and every limit that holds.",
        decision_endpoints.explain,
        reference("Explanation"),
        body=_EXPLAIN,
    ),
    Route(
        "POST",
        f"{_PARTITION}/plan",
        "What a configuration would do to the partition.",
        decision_endpoints.plan,
        reference("Plan"),
        body=_YAML,
        reads_config=True,
    ),
    Route(
        "POST",
        "/validate-conf",
        "Whether a configuration is good, and everything that is wrong with it.",
        decision_endpoints.validate,
        reference("Validation"),
        body=_ANY_YAML,
        reads_config=True,
    ),
    # The server itself
    Route("GET", "/config", "The configuration in force.", server_endpoints.config, _YAML),
    Route(
        "PUT",
        "/config",
        "Put a configuration in force, in all partitions or in none.",
        server_endpoints.upload,
        reference("Changed"),
        body=_YAML,
        changes=True,
        reads_config=True,
    ),
    Route(
        "POST",
        "/config/reload",
        "Put the configuration of the file in force, in all partitions or in none.",
        server_endpoints.reload,
        reference("Changed"),
        changes=True,
    ),
    Route(
        "GET",
        "/health",
        "Whether the server is well, and how its configuration was changed last.",
        server_endpoints.health,
        reference("Health"),
        is_quick=True,
    ),
    Route(
        "GET",
        "/states",
        "The names of what else can be looked at.",
        server_endpoints.states,
        reference("States"),
        is_quick=True,
    ),
    Route(
        "GET",
        "/state/{name}",
        "The state of something that was plugged in.",
        server_endpoints.state,
        reference("State"),
    ),
)

"""JSON schemas: the building blocks, and the schemas of all responses.

The OpenAPI description contains these schemas, and `ugm.server.requests` validates requests against them, so the
description and the behaviour of the server cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ugm.identity import MAX_NAME
from ugm.partition import AllocationState, ApplicationState
from ugm.resources import MAX_QUANTITY

__all__ = [
    "AMOUNTS",
    "BOOLEAN",
    "COUNT",
    "HISTORY_RECORD",
    "NAME",
    "NUMBER",
    "QUANTITIES",
    "QUEUE",
    "REQUESTED_QUEUE",
    "RESPONSE_SCHEMAS",
    "TAG",
    "TEXT",
    "USER",
    "Schema",
    "listing",
    "mapping",
    "optional",
    "record",
    "reference",
]

#: JSON Schema of 2020-12, as in OpenAPI 3.1.
Schema: TypeAlias = Mapping[str, Any]

#: The most characters of a queue path.
_LONGEST_PATH: Final = 4096
#: Quantities of at most 64 bits for all digits.
_QUANTITY: Final = (
    "([0-9]{1,18}|[0-9]{1,15}(k|Ki)|[0-9]{1,12}(M|Mi)|[0-9]{1,9}(G|Gi)|[0-9]{1,6}(T|Ti)|[0-9]{1,3}(P|Pi))"
)
_CORES: Final = "([0-9]{1,15}|[0-9]{1,18}m|[0-9]{1,12}k)"

TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
#: A user or a group; the wildcard is not one.
USER: Final[Schema] = {**NAME, "not": {"enum": ["*"]}}
QUEUE: Final[Schema] = {
    "type": "string",
    "pattern": rf"^[rR][oO][oO][tT](\.[^.\s\x85\x00-\x1f\x7f]{{1,{MAX_NAME}}})*$",
    "maxLength": _LONGEST_PATH,
    "description": f"the path of a queue, such as root.prod, each part of 1 to {MAX_NAME} characters without spaces",
}
#: A queue as a user requests it: a path, a name, or empty.
REQUESTED_QUEUE: Final[Schema] = {"type": "string", "maxLength": _LONGEST_PATH}
#: The value of a tag.
TAG: Final[Schema] = {"type": "string", "maxLength": MAX_NAME}
BOOLEAN: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_QUANTITY}

_AMOUNT: Final[Schema] = {"type": "integer"}
#: Amounts in base units, as in all responses.
AMOUNTS: Final[Schema] = {"type": "object", "additionalProperties": _AMOUNT}


def _or_count(pattern: str, examples: str) -> Schema:
    described = f"a whole number in the base unit, or a quantity such as {examples}"
    return {"anyOf": [COUNT, {"type": "string", "pattern": f"^{pattern}$", "description": described}]}


#: Amounts in requests: in base units, or as quantities like those of a configuration.
QUANTITIES: Final[Schema] = {
    "type": "object",
    "propertyNames": NAME,
    "properties": {"vcore": _or_count(_CORES, "2 or 500m")},
    "additionalProperties": _or_count(_QUANTITY, "8, 500M or 4Gi"),
    "maxProperties": 100,
}


def reference(name: str) -> Schema:
    """Return a reference to a response schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def optional(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listing(items: Schema, **bounds: int) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **bounds}


def mapping(values: Schema, **bounds: object) -> Schema:
    """Return the schema of an object with arbitrary names."""
    return {"type": "object", "additionalProperties": values, **bounds}


def record(optionals: Mapping[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """Return the schema of an object with fixed fields.

    Args:
        optionals: the optional fields.
        fields: the required fields.
    """
    return {
        "type": "object",
        "properties": {**fields, **(optionals or {})},
        "required": sorted(fields),
        "additionalProperties": False,
    }


_TEXTS: Final = listing(TEXT)
_STATES: Final[Schema] = {"type": "string", "enum": [state.value for state in ApplicationState]}
_ANYTHING: Final[Schema] = {}
_OPEN: Final[Schema] = {"type": "object"}

#: A record of the history. It also has the fields of its event; see `ugm.events.event_to_dict`.
HISTORY_RECORD: Final[Schema] = {
    "type": "object",
    "properties": {
        "number": COUNT,
        "last": COUNT,
        "times": COUNT,
        "first_at": NUMBER,
        "last_at": NUMBER,
        "event": TEXT,
    },
    "required": ["number", "last", "times", "first_at", "last_at", "event"],
}

_VIOLATION: Final = {
    "kind": TEXT,
    "name": TEXT,
    "queue_path": TEXT,
    "limit_name": TEXT,
    "resource": optional(TEXT),
    "limit": _AMOUNT,
    "used": _AMOUNT,
    "requested": _AMOUNT,
    "shortfall": _AMOUNT,
    "can_wait": BOOLEAN,
}
_DECISION: Final = {
    "allowed": BOOLEAN,
    "can_wait": BOOLEAN,
    "queue_path": optional(TEXT),
    "placement": optional(reference("Placement")),
    "evictions": _TEXTS,
    "text": TEXT,
}
_QUEUE: Final = {
    "queue_path": TEXT,
    "is_leaf": BOOLEAN,
    "is_managed": BOOLEAN,
    "is_draining": BOOLEAN,
    "max_resources": optional(AMOUNTS),
    "max_applications": COUNT,
    "guaranteed": optional(AMOUNTS),
    "usage": AMOUNTS,
    "share": optional(NUMBER),
    "running_applications": COUNT,
    "applications": COUNT,
    "pending": AMOUNTS,
    "pending_allocations": COUNT,
}
_ALLOCATION: Final = {
    "allocation_id": TEXT,
    "application_id": TEXT,
    "usage": AMOUNTS,
    "state": {"type": "string", "enum": [state.value for state in AllocationState]},
    "placeholder": BOOLEAN,
    "priority": {"type": "integer"},
    "preemptible": BOOLEAN,
    "user": optional(TEXT),
    "group": optional(TEXT),
    "queue_path": optional(TEXT),
}
_APPLICATION: Final = {
    "application_id": TEXT,
    "user": record(name=TEXT, groups=_TEXTS),
    "queue_path": TEXT,
    "state": _STATES,
    "group": optional(TEXT),
    "usage": AMOUNTS,
    "allocations": COUNT,
    "going": COUNT,
    "placeholders": COUNT,
    "pending": COUNT,
    "tags": mapping(TEXT),
}
_LIMITS: Final = {"limits": listing(reference("EffectiveLimit")), "headroom": optional(AMOUNTS)}
_PLAN: Final = {
    "changes": _OPEN,
    "over": listing(reference("Violation")),
    "newly_over": listing(reference("Violation")),
    "leaving": listing(record(queue_path=TEXT, applications=_TEXTS)),
    "text": TEXT,
}

#: The schemas of all responses. They are closed: a response with another field fails the tests.
RESPONSE_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": record({"problems": listing(reference("Problem"))}, code=TEXT, message=TEXT),
    "Problem": record(line=COUNT, column=COUNT, path=TEXT, code=TEXT, message=TEXT),
    "QueueUsage": record(
        queuename=TEXT,
        resourceUsage=AMOUNTS,
        runningApplications=_TEXTS,
        children=listing(reference("QueueUsage")),
        maxApplications=COUNT,
        maxResources=AMOUNTS,
    ),
    "UserUsage": record(userName=TEXT, groups=mapping(TEXT), queues=reference("QueueUsage")),
    "GroupUsage": record(groupName=TEXT, users=_TEXTS, applications=_TEXTS, queues=reference("QueueUsage")),
    "EffectiveLimit": record(
        kind=TEXT,
        name=TEXT,
        queue_path=TEXT,
        limit_name=TEXT,
        place=TEXT,
        max_resources=optional(AMOUNTS),
        max_applications=COUNT,
        usage=AMOUNTS,
        running_applications=COUNT,
    ),
    "Standing": record(
        name=TEXT,
        usage=AMOUNTS,
        running_applications=COUNT,
        limit=optional(reference("EffectiveLimit")),
        resource=optional(TEXT),
        share=NUMBER,
        pending=AMOUNTS,
        pending_allocations=COUNT,
    ),
    "Standings": record(total=COUNT, standings=listing(reference("Standing"))),
    "Queue": record(**_QUEUE, children=listing(reference("Queue"))),
    "QueueDetail": record(
        **_QUEUE,
        headroom=optional(AMOUNTS),
        maximum=optional(AMOUNTS),
        limits=listing(
            record(users=_TEXTS, groups=_TEXTS, max_resources=optional(AMOUNTS), max_applications=COUNT, label=TEXT)
        ),
        children=listing(reference("Queue")),
    ),
    "Limits": record(**_LIMITS, queue_path=TEXT),
    "Application": record(**_APPLICATION),
    "ApplicationDetail": record(
        **_APPLICATION,
        **_LIMITS,
        waiting=listing(record(allocation=reference("Allocation"), explanation=reference("Explanation"))),
    ),
    "Applications": record(applications=listing(reference("Application")), next=optional(TEXT)),
    "Allocation": record(**_ALLOCATION),
    "Allocations": record(allocations=listing(reference("Allocation")), next=optional(TEXT)),
    "Violation": record(**_VIOLATION),
    "Holder": record(application_id=TEXT, user=TEXT, queue_path=TEXT, amount=_AMOUNT),
    "Placement": _OPEN,
    "Decision": record(**_DECISION, violations=listing(reference("Violation"))),
    "Explanation": record(
        **_DECISION, **_LIMITS, violations=listing(record(**_VIOLATION, holders=listing(reference("Holder"))))
    ),
    "Plan": record(**_PLAN),
    "Partition": record(
        name=TEXT,
        usage=AMOUNTS,
        cluster=optional(AMOUNTS),
        users=COUNT,
        groups=COUNT,
        queues=COUNT,
        applications=COUNT,
        allocations=COUNT,
        nodes=COUNT,
        has_history=BOOLEAN,
    ),
    "Nodes": mapping(AMOUNTS),
    "History": record(newest=COUNT, told=mapping(COUNT), records=listing(HISTORY_RECORD)),
    "Validation": record(
        allowed=BOOLEAN, reason=TEXT, problems=listing(reference("Problem")), warnings=listing(reference("Problem"))
    ),
    "Changed": record(partitions=mapping(_OPEN)),
    "Health": record(
        status={"type": "string", "enum": ["degraded", "ok"]},
        reason=TEXT,
        version=TEXT,
        started=NUMBER,
        read_only=BOOLEAN,
        partitions=_TEXTS,
        configuration=record(
            file=optional(TEXT),
            source=TEXT,
            at=NUMBER,
            problems=_TEXTS,
            in_force=record(source=TEXT, at=NUMBER),
            refused=_TEXTS,
        ),
    ),
    "States": _TEXTS,
    "State": _ANYTHING,
    "Description": _OPEN,
}

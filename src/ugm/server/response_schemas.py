"""The shapes of what the server tells, by the names that its description gives them.

They are closed: an answer with a field that is not here fails the tests, so the description cannot fall behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ugm.partition import AllocationState, ApplicationState
from ugm.server.schema import (
    AMOUNTS,
    BOOLEAN,
    COUNT,
    NUMBER,
    TEXT,
    Schema,
    listing,
    mapping,
    optional,
    record,
    reference,
)

__all__ = ["HISTORY_RECORD", "RESPONSE_SCHEMAS"]

_AMOUNT: Final[Schema] = {"type": "integer"}
_TEXTS: Final = listing(TEXT)
_STATES: Final[Schema] = {"type": "string", "enum": [state.value for state in ApplicationState]}
_ANYTHING: Final[Schema] = {}
_OPEN: Final[Schema] = {"type": "object"}

#: How an event is told in the history: `ugm.partition.event_dict` says what each kind has besides.
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
_ANSWER: Final = {
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

#: Every shape by its name.
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
    "Decision": record(**_ANSWER, violations=listing(reference("Violation"))),
    "Explanation": record(
        **_ANSWER, **_LIMITS, violations=listing(record(**_VIOLATION, holders=listing(reference("Holder"))))
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

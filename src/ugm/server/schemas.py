"""JSON schemas: the building blocks, and the schemas of all responses.

The OpenAPI description contains these schemas, and `ugm.server.requests` validates requests against them, so the
description and the behaviour of the server cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from types import NoneType
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from ugm.budgets import AccountState
from ugm.configuration import LimitConfig, LimitExtensions, ScheduledLimit
from ugm.decision import EffectiveLimit, Exhaustion, Holder, Violation
from ugm.errors import Problem
from ugm.identity import MAX_NAME
from ugm.model import Guarantee
from ugm.partition import (
    Allocation,
    ApplicationInfo,
    LimitRisk,
    LimitUtilization,
    ReclaimPlan,
    ReclaimVictim,
    SparedAllocations,
    ThresholdCrossed,
)
from ugm.partition.allocation import MAX_DURATION
from ugm.preemption import Freed, GuaranteeUse, MissingAmount, Reduction
from ugm.preemption import Victim as PreemptionVictim
from ugm.queues import QueueState
from ugm.resources import MAX_QUANTITY, Resource
from ugm.server.trees import MEASURES, BorrowingConsumer

__all__ = [
    "DURATION",
    "NAME",
    "QUANTITIES",
    "QUEUE",
    "RESPONSE_SCHEMAS",
    "SECONDS",
    "SUBMISSION",
    "TRAITS",
    "USER",
    "Schema",
    "listing",
    "mapping",
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

_TEXT: Final[Schema] = {"type": "string"}
DURATION: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MAX_DURATION}
#: Seconds since 1970.
SECONDS: Final[Schema] = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
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
_REQUESTED_QUEUE: Final[Schema] = {"type": "string", "maxLength": _LONGEST_PATH}
#: The value of a tag.
_TAG: Final[Schema] = {"type": "string", "maxLength": MAX_NAME}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_NUMBER: Final[Schema] = {"type": "number"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_QUANTITY}

_AMOUNT: Final[Schema] = {"type": "integer"}
#: An amount that is a fraction if weights are: a text such as ``7/2``.
_EXACT_AMOUNT: Final[Schema] = {"anyOf": [_AMOUNT, {"type": "string", "pattern": "^-?[0-9]+/[0-9]+$"}]}
#: Amounts in base units, as in all responses.
_AMOUNTS: Final[Schema] = {"type": "object", "additionalProperties": _AMOUNT}


def _or_count(pattern: str, examples: str) -> Schema:
    described = f"a whole number in the base unit, or a quantity such as {examples}"
    return {"anyOf": [_COUNT, {"type": "string", "pattern": f"^{pattern}$", "description": described}]}


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


def _optional(schema: Schema) -> Schema:
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


#: The schemas of the basic types of attributes. A share is a fraction in Python, and a number in JSON.
_BASIC: Final[Mapping[object, Schema]] = {
    str: _TEXT,
    int: _COUNT,
    bool: _BOOLEAN,
    Fraction: _NUMBER,
    Resource: _AMOUNTS,
}


def _schema_of(kind: Any) -> Schema:  # noqa: ANN401 - a type or a generic alias
    """Return the schema of the type of an attribute."""
    arguments = get_args(kind)
    if kind in _BASIC:
        return _BASIC[kind]
    if NoneType in arguments:
        return _optional(_schema_of(arguments[0]))
    if arguments:
        return listing(_schema_of(arguments[0])) if get_origin(kind) is tuple else mapping(_schema_of(arguments[1]))
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": [member.value for member in kind]}
    return reference(kind.__name__)


def _attributes(value: type, *omitted: str, **others: Schema) -> dict[str, Schema]:
    """Return the schemas of the fields that `to_dict` of a value returns.

    Args:
        value: the class; its annotations determine the schemas.
        omitted: attributes that are not fields.
        others: the fields with other schemas or names than their attributes, and fields without attributes.
    """
    return {name: _schema_of(kind) for name, kind in get_type_hints(value).items() if name not in omitted} | others


#: The optional fields of a submission, and of questions about one.
SUBMISSION: Final[Mapping[str, Schema]] = {
    "groups": listing(USER, maxItems=1000),
    "queue": _REQUESTED_QUEUE,
    "tags": mapping(_TAG, propertyNames=NAME, maxProperties=1000),
    "quota": QUANTITIES,
}

#: The optional properties of a request.
TRAITS: Final[Mapping[str, Schema]] = {
    "priority": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "preemptible": _BOOLEAN,
}

_TEXTS: Final = listing(_TEXT)
_OPEN: Final[Schema] = {"type": "object"}
#: The values of one measure over time.
_COLUMN: Final = listing(_optional(_AMOUNT))
_PENDING: Final = {"pending": _AMOUNTS, "pending_allocations": _COUNT}

_WAITING: Final = {**_PENDING, "position": _COUNT, "requested_at": _optional(_NUMBER)}

#: A record of the history. It also has the fields of its event; see `ugm.events.event_to_dict`.
_HISTORY_RECORD: Final[Schema] = {
    **record(number=_COUNT, last=_COUNT, times=_COUNT, first_at=_NUMBER, last_at=_NUMBER, event=_TEXT),
    "additionalProperties": True,
}
_VIOLATION: Final = _attributes(
    Violation, limit=_AMOUNT, used=_AMOUNT, requested=_AMOUNT, shortfall=_AMOUNT, can_wait=_BOOLEAN
)
_VIOLATION_WITH_HOLDERS: Final = record(**_VIOLATION, holders=listing(reference("Holder")))
_DECISION: Final = {
    "allowed": _BOOLEAN,
    "can_wait": _BOOLEAN,
    "queue_path": _optional(_TEXT),
    "placement": _optional(reference("Placement")),
    "evictions": _TEXTS,
    "text": _TEXT,
}
_QUEUE: Final = _attributes(
    QueueState, **_PENDING, share=_optional(_NUMBER), applications=_COUNT, children=listing(reference("Queue"))
)
_ALLOCATION: Final = _attributes(
    Allocation,
    priority=_AMOUNT,
    until=_optional(_AMOUNT),
    user=_optional(_TEXT),
    group=_optional(_TEXT),
    queue_path=_optional(_TEXT),
)
#: Clients know terminating allocations as ``going``.
_APPLICATION: Final = _attributes(ApplicationInfo, "terminating", going=_COUNT, user=record(name=_TEXT, groups=_TEXTS))
_LIMITS: Final = {"limits": listing(reference("EffectiveLimit")), "headroom": _optional(_AMOUNTS)}
#: The results of the operations on partitions.
_ANSWERS: Final = ("Submission", "Nothing", "Grant", "Existence", "Application", "AllocationIds", "Error")
_PROBLEMS: Final = listing(reference("Problem"))

_TREE_KIND: Final[Schema] = {"type": "string", "enum": sorted(MEASURES)}
#: A node of the tree of a quota model.
_TREE_NODE: Final = {
    "name": _TEXT,
    "parent": _TEXT,
    "is_hard": _BOOLEAN,
    "children": _COUNT,
    "borrowers": _COUNT,
}


def _measured(amounts: Schema) -> Schema:
    """Return the schema of the amounts of a node, by measure; the measures depend on the kind of its tree."""
    return record(dict.fromkeys(sorted(set().union(*MEASURES.values()) - {"used"}), amounts), used=amounts)


#: The schemas of all responses. They are closed: a response with another field fails the tests.
RESPONSE_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": record({"problems": _PROBLEMS}, code=_TEXT, message=_TEXT),
    "Problem": record(**_attributes(Problem, "file")),
    "EffectiveLimit": record(**_attributes(EffectiveLimit)),
    "LimitUtilization": record(**_attributes(LimitUtilization), **_PENDING),
    "LimitUtilizations": record(total=_COUNT, utilizations=listing(reference("LimitUtilization"))),
    "Queue": record(**_QUEUE),
    "QueueDetail": record(
        **_QUEUE,
        headroom=_optional(_AMOUNTS),
        maximum=_optional(_AMOUNTS),
        limits=listing(record(**_attributes(LimitConfig))),
    ),
    "LimitExtensions": record(**_attributes(LimitExtensions)),
    "ScheduledLimit": record(**_attributes(ScheduledLimit)),
    "Limits": record(**_LIMITS, queue_path=_TEXT),
    "Application": record(**_APPLICATION),
    "ApplicationDetail": record(
        **_APPLICATION,
        **_LIMITS,
        waiting=listing(record(allocation=reference("Allocation"), explanation=reference("Explanation"))),
    ),
    "Applications": record(
        applications=listing(record(**_APPLICATION, submitted_at=_optional(_NUMBER))), next=_optional(_TEXT)
    ),
    "Allocation": record(**_ALLOCATION),
    "Overdue": record(total=_COUNT, allocations=listing(reference("Allocation"))),
    "Allocations": record(allocations=listing(reference("Allocation")), next=_optional(_TEXT)),
    "Violation": record(**_VIOLATION),
    "Holder": record(**_attributes(Holder, amount=_AMOUNT)),
    "Placement": _OPEN,
    "Decision": record(**_DECISION, violations=listing(reference("Violation"))),
    "Explanation": record(**_DECISION, **_LIMITS, violations=listing(_VIOLATION_WITH_HOLDERS)),
    "Guarantee": record(**_attributes(Guarantee, guaranteed=_AMOUNT, share=_AMOUNT, used=_AMOUNT)),
    "ReclaimVictim": record(**_attributes(ReclaimVictim, priority=_AMOUNT)),
    "SparedAllocations": record(**_attributes(SparedAllocations)),
    "Order": record(
        turns=listing(
            record(
                **dict.fromkeys(("allocation_id", "application_id", "user", "queue_path", "blocked_by"), _TEXT),
                usage=_AMOUNTS,
                priority=_AMOUNT,
                fits=_BOOLEAN,
                start=_optional(_AMOUNT),
                reserved_for=_TEXTS,
                reasons=listing(_TEXT),
            )
        )
    ),
    "ReclaimPlan": record(
        **_attributes(ReclaimPlan, "subject", "usage", "priority", "preemptible", text=_TEXT),
    ),
    "PreemptionVictim": record(
        **_attributes(PreemptionVictim, "frees", "exceeds", "entitled_by", priority=_AMOUNT),
        frees=listing(record(**_attributes(Freed))),
        exceeds=listing(record(**_attributes(GuaranteeUse, used=_AMOUNT, after=_AMOUNT))),
        entitled_by=listing(record(**_attributes(GuaranteeUse, used=_AMOUNT, after=_AMOUNT))),
    ),
    "PreemptionPlan": record(
        request=_OPEN,
        outcome=_TEXT,
        now=_AMOUNT,
        due=_optional(_AMOUNT),
        decision=_optional(_OPEN),
        victims=listing(reference("PreemptionVictim")),
        by_model=listing(reference("PreemptionVictim")),
        missing=listing(record(**_attributes(MissingAmount))),
        others=mapping(_TEXT),
        cost=_optional(_OPEN),
        is_optimal=_BOOLEAN,
        text=_TEXT,
    ),
    "ReductionPlan": record(
        now=_AMOUNT,
        queues=listing(record(**_attributes(Reduction, since=_AMOUNT, due=_AMOUNT))),
        victims=listing(reference("PreemptionVictim")),
        is_optimal=_BOOLEAN,
        text=_TEXT,
    ),
    "PreemptionStatus": record(
        terminating=listing(reference("Allocation")),
        placed=listing(reference("Allocation")),
        timers=listing(record(queue_path=_TEXT, since=_AMOUNT, delay=_AMOUNT, due=_AMOUNT)),
        plans=mapping(_AMOUNT),
    ),
    "Submission": record(
        placed=_BOOLEAN,
        queue_path=_optional(_TEXT),
        creates=_BOOLEAN,
        trials=listing(_OPEN),
        violations=listing(reference("Violation")),
        text=_TEXT,
    ),
    "Grant": record(
        allowed=_BOOLEAN, can_wait=_BOOLEAN, violations=listing(reference("Violation")), evictions=_TEXTS, text=_TEXT
    ),
    "Nothing": record(),
    "Existence": record(existed=_BOOLEAN),
    "AllocationIds": record(allocation_ids=_TEXTS),
    "Batch": record(
        results=listing(
            record(
                status={"type": "integer", "enum": [200, 404, 409, 503]},
                answer={"anyOf": list(map(reference, _ANSWERS))},
            )
        )
    ),
    "Plan": record(
        changes=_OPEN,
        over=listing(reference("Violation")),
        newly_over=listing(reference("Violation")),
        leaving=listing(record(queue_path=_TEXT, applications=_TEXTS)),
        reductions=listing(record(queue_path=_TEXT, delay=_AMOUNT)),
        exhausting=listing(record(**_attributes(Exhaustion, begins=_AMOUNT, ends=_optional(_AMOUNT)))),
        scheduled=listing(reference("ScheduledChange")),
        risks=listing(record(**_attributes(LimitRisk))),
        text=_TEXT,
    ),
    "ScheduledChange": record(
        at={"type": "integer"},
        changes=_OPEN,
        text=_TEXT,
        over=listing(reference("Violation")),
        newly_over=listing(reference("Violation")),
    ),
    "ScheduledChanges": record(changes=listing(reference("ScheduledChange"))),
    "Partition": record(
        **dict.fromkeys(("users", "groups", "queues", "applications", "allocations", "nodes"), _COUNT),
        name=_TEXT,
        usage=_AMOUNTS,
        cluster=_optional(_AMOUNTS),
        has_history=_BOOLEAN,
        has_service=_BOOLEAN,
    ),
    "Trees": record(
        trees=listing(record(name=_TEXT, kind=_TREE_KIND, mode=_TEXT, nodes=_COUNT)),
        models=listing(record(model=_TEXT, is_suspended=_BOOLEAN)),
    ),
    "Tree": record(
        **dict.fromkeys(("nodes", "borrowers", "total"), _COUNT),
        **dict.fromkeys(("name", "mode", "resource"), _TEXT),
        kind=_TREE_KIND,
        resources=_TEXTS,
        rows=listing(reference("TreeRow")),
    ),
    "TreeRow": record(
        **_TREE_NODE,
        **dict.fromkeys(("level", "position", "siblings"), _COUNT),
        is_open=_BOOLEAN,
        amounts=_measured(_optional(_AMOUNT)),
    ),
    "TreeNodeDetail": record(**_TREE_NODE, path=_TEXTS, amounts=_measured(_AMOUNTS)),
    "Borrowers": record(
        total=_COUNT, consumers=listing(record(**_attributes(BorrowingConsumer, request=_AMOUNTS, priority=_AMOUNT)))
    ),
    "BudgetChanged": record(changed=_BOOLEAN),
    "BudgetAccount": record(
        **_attributes(
            AccountState,
            **dict.fromkeys(("limit", "settled", "committed", "remaining", "rate"), _EXACT_AMOUNT),
            renews=_optional(_AMOUNT),
            exhausted=_optional(_AMOUNT),
            share=_NUMBER,
        )
    ),
    "BudgetAccounts": record(now=_optional(_AMOUNT), total=_COUNT, accounts=listing(reference("BudgetAccount"))),
    "ThresholdCrossed": record(
        **_attributes(
            ThresholdCrossed, used=_EXACT_AMOUNT, limit=_EXACT_AMOUNT, resource=_optional(_TEXT), share=_NUMBER
        )
    ),
    "Thresholds": record(shares=listing(_COUNT), total=_COUNT, crossed=listing(reference("ThresholdCrossed"))),
    "RankedUser": record(
        **dict.fromkeys(("user", "path", "level", "used", "usage"), _TEXT), rank=_COUNT, share=_optional(_TEXT)
    ),
    "ComparedNode": record(**dict.fromkeys(("path", "level", "used", "usage"), _TEXT), share=_optional(_TEXT)),
    "RankExplanation": record(
        **dict.fromkeys(("first", "second", "account", "verdict", "text"), _TEXT),
        steps=listing(record(first=reference("ComparedNode"), second=reference("ComparedNode"))),
    ),
    "Shares": record(
        as_of=_optional(_AMOUNT),
        total=_COUNT,
        accounts=listing(reference("ComparedNode")),
        users=listing(reference("RankedUser")),
        explanation=_optional(reference("RankExplanation")),
    ),
    "ServiceStatus": record(
        **dict.fromkeys(("name", "leader", "address", "outage"), _TEXT),
        **dict.fromkeys(("term", "change", "sessions", "connected", "waiting"), _COUNT),
        is_leading=_BOOLEAN,
        standbys=listing(record(name=_TEXT, address=_TEXT, change=_COUNT, lag=_COUNT, seconds=_NUMBER)),
        commits=record(count=_COUNT, seconds=_NUMBER, median=_NUMBER, p99=_NUMBER, buckets=listing(_COUNT)),
        operations=record(count=_COUNT, seconds=_NUMBER, buckets=listing(_COUNT)),
        age=_NUMBER,
    ),
    "Nodes": mapping(_AMOUNTS),
    "History": record(newest=_COUNT, counts=mapping(_COUNT), records=listing(_HISTORY_RECORD)),
    "WaitingRequests": record(
        as_of=_NUMBER,
        total=_COUNT,
        requests=listing(
            record(
                **dict.fromkeys(("allocation_id", "application_id", "user", "queue_path", "blocked_by"), _TEXT),
                usage=_AMOUNTS,
                priority=_AMOUNT,
                position=_COUNT,
                requested_at=_optional(_NUMBER),
                fits=_BOOLEAN,
                reasons=_optional(
                    record(allowed=_BOOLEAN, can_wait=_BOOLEAN, text=_TEXT, violations=listing(_VIOLATION_WITH_HOLDERS))
                ),
            )
        ),
    ),
    "WaitingApplications": record(
        as_of=_NUMBER,
        total=_COUNT,
        applications=listing(
            record(**_WAITING, application_id=_TEXT, user=_TEXT, queue_path=_TEXT, submitted_at=_optional(_NUMBER))
        ),
    ),
    "WaitingUsers": record(
        as_of=_NUMBER,
        total=_COUNT,
        users=listing(record(**_WAITING, user=_TEXT, applications=_COUNT, running_applications=_COUNT)),
    ),
    "UsageHistory": record(
        **dict.fromkeys(("kind", "name", "range"), _TEXT),
        step=_COUNT,
        as_of=_NUMBER,
        times=listing(_NUMBER),
        amounts=mapping(mapping(_COLUMN)),
        counts=mapping(_COLUMN),
    ),
    "Sparklines": record(
        as_of=_NUMBER,
        newest=_COUNT,
        times=listing(_NUMBER),
        values=mapping(_COLUMN),
        limits=mapping(_optional(_AMOUNT)),
    ),
    "Validation": record(allowed=_BOOLEAN, reason=_TEXT, problems=_PROBLEMS, warnings=_PROBLEMS),
    "Changed": record(partitions=mapping(_OPEN)),
    "ConfigChanges": record(
        attempts=listing(
            record(
                **dict.fromkeys(("source", "client", "role", "outcome"), _TEXT),
                at=_NUMBER,
                problems=_TEXTS,
                differences=mapping(_TEXTS),
                left_out=_COUNT,
            )
        )
    ),
    "Health": record(
        status={"type": "string", "enum": ["degraded", "ok"]},
        reason=_TEXT,
        version=_TEXT,
        started=_NUMBER,
        read_only=_BOOLEAN,
        partitions=_TEXTS,
        configuration=record(
            file=_optional(_TEXT),
            source=_TEXT,
            at=_NUMBER,
            problems=_TEXTS,
            in_force=record(source=_TEXT, at=_NUMBER),
            refused=_TEXTS,
        ),
    ),
    "States": _TEXTS,
    "State": {},
}

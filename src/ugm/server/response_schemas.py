"""JSON schemas of all responses, as in the OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ugm.budgets import AccountState
from ugm.configuration import LimitConfig, LimitExtensions, ScheduledLimit
from ugm.decision import EffectiveLimit, Exhaustion, Holder, Violation
from ugm.errors import Problem
from ugm.model import Guarantee
from ugm.partition import (
    Allocation,
    ApplicationInfo,
    LimitRisk,
    LimitUtilization,
    ProtectedCount,
    ReclaimPlan,
    ReclaimVictim,
    SyncReport,
    ThresholdCrossed,
)
from ugm.preemption import Freed, GuaranteeUse, MissingAmount, Reduction
from ugm.preemption import Victim as PreemptionVictim
from ugm.queues import QueueState
from ugm.server.schemas import (
    AMOUNT,
    AMOUNTS,
    BOOLEAN,
    COUNT,
    EXACT_AMOUNT,
    NUMBER,
    TEXT,
    Schema,
    attributes,
    listing,
    mapping,
    optional,
    record,
    reference,
)
from ugm.server.trees import MEASURES, BorrowingConsumer

__all__ = ["RESPONSE_SCHEMAS"]

_TEXTS: Final = listing(TEXT)
_OPEN: Final[Schema] = {"type": "object"}
#: The values of one measure over time.
_COLUMN: Final = listing(optional(AMOUNT))
_PENDING: Final = {"pending": AMOUNTS, "pending_allocations": COUNT}

_WAITING: Final = {**_PENDING, "position": COUNT, "requested_at": optional(NUMBER)}
#: A pending request in the scheduling order.
_ORDERED: Final = {
    **dict.fromkeys(("allocation_id", "application_id", "user", "queue_path", "blocked_by"), TEXT),
    "usage": AMOUNTS,
    "priority": AMOUNT,
    "node": optional(TEXT),
    "fits": BOOLEAN,
}

#: A record of the history. It also has the fields of its event; see `ugm.events.event_to_dict`.
_HISTORY_RECORD: Final[Schema] = {
    **record(number=COUNT, last=COUNT, times=COUNT, first_at=NUMBER, last_at=NUMBER, event=TEXT),
    "additionalProperties": True,
}
_VIOLATION: Final = attributes(
    Violation,
    limit=AMOUNT,
    used=AMOUNT,
    requested=AMOUNT,
    shortfall=AMOUNT,
    can_wait=BOOLEAN,
    rise=optional(reference("LimitRise")),
    text=TEXT,
)
_PEOPLE: Final = {"summary": TEXT, "for_people": TEXT}
_DECISION: Final = {
    **_PEOPLE,
    "allowed": BOOLEAN,
    "can_wait": BOOLEAN,
    "queue_path": optional(TEXT),
    "placement": optional(reference("Placement")),
    "evictions": _TEXTS,
    "text": TEXT,
}
_QUEUE: Final = attributes(
    QueueState, **_PENDING, share=optional(NUMBER), applications=COUNT, children=listing(reference("Queue"))
)
_ALLOCATION: Final = attributes(
    Allocation,
    priority=AMOUNT,
    until=optional(AMOUNT),
    user=optional(TEXT),
    group=optional(TEXT),
    queue_path=optional(TEXT),
)
_APPLICATION: Final = attributes(ApplicationInfo)
_LIMITS: Final = {"limits": listing(reference("EffectiveLimit")), "headroom": optional(AMOUNTS)}
#: The results of the operations on partitions.
_ANSWERS: Final = (
    "Submission",
    "Admission",
    "SyncReport",
    "Nothing",
    "Grant",
    "Existence",
    "Application",
    "AllocationIds",
    "Error",
)
_PROBLEMS: Final = listing(reference("Problem"))

_TREE_KIND: Final[Schema] = {"type": "string", "enum": sorted(MEASURES)}
#: A node of the tree of a quota model.
_TREE_NODE: Final = {
    "name": TEXT,
    "parent": TEXT,
    "is_hard": BOOLEAN,
    "children": COUNT,
    "borrowers": COUNT,
}


def _measured(amounts: Schema) -> Schema:
    """Return the schema of the amounts of a node, by measure; the measures depend on the kind of its tree."""
    return record(dict.fromkeys(sorted(set().union(*MEASURES.values()) - {"used"}), amounts), used=amounts)


#: The schemas of all responses. They are closed: a response with another field fails the tests.
RESPONSE_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": record(
        {"argument": TEXT, "value": {}, "problems": _PROBLEMS},
        type=TEXT,
        title=TEXT,
        status=COUNT,
        detail=TEXT,
        code=TEXT,
    ),
    "Problem": record(**attributes(Problem, "file", "excerpt")),
    "EffectiveLimit": record(**attributes(EffectiveLimit)),
    "LimitUtilization": record(**attributes(LimitUtilization), **_PENDING),
    "LimitUtilizations": record(total=COUNT, utilizations=listing(reference("LimitUtilization"))),
    "Queue": record(**_QUEUE),
    "QueueDetail": record(
        **_QUEUE,
        headroom=optional(AMOUNTS),
        maximum=optional(AMOUNTS),
        limits=listing(record(**attributes(LimitConfig, "ugm"))),
    ),
    "LimitExtensions": record(**attributes(LimitExtensions)),
    "ScheduledLimit": record(**attributes(ScheduledLimit)),
    "Limits": record(**_LIMITS, queue_path=TEXT),
    "Application": record(**_APPLICATION),
    "ApplicationDetail": record(
        **_APPLICATION,
        **_LIMITS,
        waiting=listing(record(allocation=reference("Allocation"), explanation=reference("Explanation"))),
    ),
    "Applications": record(
        applications=listing(record(**_APPLICATION, submitted_at=optional(NUMBER))), next=optional(TEXT)
    ),
    "Allocation": record(**_ALLOCATION),
    "Overdue": record(total=COUNT, allocations=listing(reference("Allocation"))),
    "Allocations": record(allocations=listing(reference("Allocation")), next=optional(TEXT)),
    "UserGroup": record(name=TEXT, groups=_TEXTS),
    "LimitRise": record(at=COUNT, limit=optional(AMOUNT)),
    "Violation": record(**_VIOLATION),
    "ViolationWithHolders": record(**_VIOLATION, holders=listing(reference("Holder"))),
    "Holder": record(**attributes(Holder, amount=AMOUNT)),
    "Placement": _OPEN,
    "Decision": record(**_DECISION, violations=listing(reference("Violation"))),
    "Explanation": record(**_DECISION, **_LIMITS, violations=listing(reference("ViolationWithHolders"))),
    "Guarantee": record(**attributes(Guarantee, guaranteed=AMOUNT, share=AMOUNT, used=AMOUNT)),
    "ReclaimVictim": record(**attributes(ReclaimVictim, priority=AMOUNT)),
    "ProtectedCount": record(**attributes(ProtectedCount)),
    "Turn": record(**_ORDERED, start=optional(AMOUNT), reserved_for=_TEXTS, reasons=_TEXTS),
    "Order": record(turns=listing(reference("Turn"))),
    "ReclaimPlan": record(
        **attributes(ReclaimPlan, "subject", "usage", "priority", "preemptible", "duration", "free_on_node", text=TEXT),
    ),
    "PreemptionVictim": record(
        **attributes(PreemptionVictim, "frees", "exceeds", "entitled_by", priority=AMOUNT),
        frees=listing(record(**attributes(Freed))),
        exceeds=listing(reference("GuaranteeUse")),
        entitled_by=listing(reference("GuaranteeUse")),
    ),
    "GuaranteeUse": record(**attributes(GuaranteeUse, used=AMOUNT, after=AMOUNT)),
    "PreemptionPlan": record(
        request=_OPEN,
        outcome=TEXT,
        now=AMOUNT,
        due=optional(AMOUNT),
        decision=optional(_OPEN),
        victims=listing(reference("PreemptionVictim")),
        by_model=listing(reference("PreemptionVictim")),
        missing=listing(record(**attributes(MissingAmount))),
        others=mapping(TEXT),
        cost=optional(_OPEN),
        is_optimal=BOOLEAN,
        node=optional(TEXT),
        missing_on_node=optional(AMOUNTS),
        text=TEXT,
    ),
    "ReductionPlan": record(
        now=AMOUNT,
        queues=listing(record(**attributes(Reduction, since=AMOUNT, due=AMOUNT))),
        victims=listing(reference("PreemptionVictim")),
        is_optimal=BOOLEAN,
        text=TEXT,
    ),
    "PreemptionStatus": record(
        terminating=listing(reference("Allocation")),
        placed=listing(reference("Allocation")),
        timers=listing(record(queue_path=TEXT, since=AMOUNT, delay=AMOUNT, due=AMOUNT)),
        plans=mapping(AMOUNT),
    ),
    "Submission": record(
        placed=BOOLEAN,
        queue_path=optional(TEXT),
        creates=BOOLEAN,
        trials=listing(_OPEN),
        violations=listing(reference("Violation")),
        text=TEXT,
    ),
    "Grant": record(
        **_PEOPLE,
        allowed=BOOLEAN,
        can_wait=BOOLEAN,
        violations=listing(reference("Violation")),
        evictions=_TEXTS,
        text=TEXT,
    ),
    "Admission": record(
        admitted=BOOLEAN,
        placement=reference("Submission"),
        **_PEOPLE,
        decision=optional(reference("AdmissionDecision")),
        allocations=listing(reference("HeldAllocation")),
    ),
    "AdmissionDecision": record(
        allowed=BOOLEAN,
        can_wait=BOOLEAN,
        violations=listing(reference("Violation")),
        evictions=_TEXTS,
        text=TEXT,
    ),
    "HeldAllocation": record(**attributes(Allocation, priority=AMOUNT, until=optional(AMOUNT))),
    "SyncReport": record(**attributes(SyncReport)),
    "Nothing": record(),
    "Existence": record(existed=BOOLEAN),
    "AllocationIds": record(allocation_ids=_TEXTS),
    "Batch": record(
        results=listing(
            record(
                status={"type": "integer", "enum": [200, 400, 404, 409, 503]},
                answer={"anyOf": list(map(reference, _ANSWERS))},
            )
        )
    ),
    "Plan": record(
        changes=_OPEN,
        exceeded=listing(reference("Violation")),
        newly_exceeded=listing(reference("Violation")),
        draining=listing(record(queue_path=TEXT, applications=_TEXTS)),
        reductions=listing(record(queue_path=TEXT, delay=AMOUNT)),
        exhausting=listing(record(**attributes(Exhaustion, begins=AMOUNT, ends=optional(AMOUNT)))),
        scheduled=listing(reference("ScheduledChange")),
        risks=listing(record(**attributes(LimitRisk))),
        warnings=listing(TEXT),
        text=TEXT,
    ),
    "ScheduledChange": record(
        at={"type": "integer"},
        changes=_OPEN,
        text=TEXT,
        exceeded=listing(reference("Violation")),
        newly_exceeded=listing(reference("Violation")),
    ),
    "ScheduledChanges": record(changes=listing(reference("ScheduledChange"))),
    "Partition": record(
        **dict.fromkeys(("users", "groups", "queues", "applications", "allocations", "nodes"), COUNT),
        name=TEXT,
        usage=AMOUNTS,
        cluster=optional(AMOUNTS),
        has_history=BOOLEAN,
        has_service=BOOLEAN,
    ),
    "Trees": record(
        trees=listing(record(name=TEXT, kind=_TREE_KIND, mode=TEXT, nodes=COUNT)),
        models=listing(record(model=TEXT, is_suspended=BOOLEAN)),
    ),
    "Tree": record(
        **dict.fromkeys(("nodes", "borrowers", "total"), COUNT),
        **dict.fromkeys(("name", "mode", "resource"), TEXT),
        kind=_TREE_KIND,
        resources=_TEXTS,
        rows=listing(reference("TreeRow")),
    ),
    "TreeRow": record(
        **_TREE_NODE,
        **dict.fromkeys(("level", "position", "siblings"), COUNT),
        is_open=BOOLEAN,
        amounts=_measured(optional(AMOUNT)),
    ),
    "TreeNodeDetail": record(**_TREE_NODE, path=_TEXTS, amounts=_measured(AMOUNTS)),
    "Borrowers": record(
        total=COUNT, consumers=listing(record(**attributes(BorrowingConsumer, request=AMOUNTS, priority=AMOUNT)))
    ),
    "BudgetChanged": record(changed=BOOLEAN),
    "BudgetAccount": record(
        **attributes(
            AccountState,
            **dict.fromkeys(("limit", "settled", "committed", "remaining", "rate"), EXACT_AMOUNT),
            renews=optional(AMOUNT),
            exhausted=optional(AMOUNT),
            share=NUMBER,
        )
    ),
    "BudgetAccounts": record(now=optional(AMOUNT), total=COUNT, accounts=listing(reference("BudgetAccount"))),
    "ThresholdCrossed": record(
        **attributes(ThresholdCrossed, used=EXACT_AMOUNT, limit=EXACT_AMOUNT, resource=optional(TEXT), share=NUMBER)
    ),
    "Thresholds": record(shares=listing(COUNT), total=COUNT, crossed=listing(reference("ThresholdCrossed"))),
    "RankedUser": record(
        **dict.fromkeys(("user", "path", "level", "used", "usage"), TEXT), place=COUNT, rank=COUNT, share=optional(TEXT)
    ),
    "ComparedNode": record(**dict.fromkeys(("path", "level", "used", "usage"), TEXT), share=optional(TEXT)),
    "RankExplanation": record(
        **dict.fromkeys(("first", "second", "account", "verdict", "text"), TEXT),
        steps=listing(record(first=reference("ComparedNode"), second=reference("ComparedNode"))),
    ),
    "Shares": record(
        as_of=optional(AMOUNT),
        total=COUNT,
        accounts=listing(reference("ComparedNode")),
        users=listing(reference("RankedUser")),
        explanation=optional(reference("RankExplanation")),
    ),
    "ServiceStatus": record(
        **dict.fromkeys(("name", "leader", "address", "outage"), TEXT),
        **dict.fromkeys(("term", "change", "sessions", "connected", "waiting"), COUNT),
        is_leading=BOOLEAN,
        standbys=listing(record(name=TEXT, address=TEXT, change=COUNT, lag=COUNT, seconds=NUMBER)),
        commits=record(count=COUNT, seconds=NUMBER, median=NUMBER, p99=NUMBER, buckets=listing(COUNT)),
        operations=record(count=COUNT, seconds=NUMBER, buckets=listing(COUNT)),
        age=NUMBER,
    ),
    "Nodes": mapping(AMOUNTS),
    "History": record(newest=COUNT, counts=mapping(COUNT), records=listing(_HISTORY_RECORD)),
    "WaitingReasons": record(
        allowed=BOOLEAN, can_wait=BOOLEAN, text=TEXT, violations=listing(reference("ViolationWithHolders"))
    ),
    "WaitingRequest": record(
        **_ORDERED, position=COUNT, requested_at=optional(NUMBER), reasons=optional(reference("WaitingReasons"))
    ),
    "WaitingRequests": record(as_of=NUMBER, total=COUNT, requests=listing(reference("WaitingRequest"))),
    "WaitingApplication": record(
        **_WAITING, application_id=TEXT, user=TEXT, queue_path=TEXT, submitted_at=optional(NUMBER)
    ),
    "WaitingApplications": record(as_of=NUMBER, total=COUNT, applications=listing(reference("WaitingApplication"))),
    "WaitingUser": record(**_WAITING, user=TEXT, applications=COUNT, running_applications=COUNT),
    "WaitingUsers": record(as_of=NUMBER, total=COUNT, users=listing(reference("WaitingUser"))),
    "UsageHistory": record(
        **dict.fromkeys(("kind", "name", "range"), TEXT),
        step=COUNT,
        as_of=NUMBER,
        times=listing(NUMBER),
        amounts=mapping(mapping(_COLUMN)),
        counts=mapping(_COLUMN),
    ),
    "Sparklines": record(
        as_of=NUMBER,
        newest=COUNT,
        times=listing(NUMBER),
        values=mapping(_COLUMN),
        limits=mapping(optional(AMOUNT)),
    ),
    "Validation": record(allowed=BOOLEAN, reason=TEXT, problems=_PROBLEMS, warnings=_PROBLEMS),
    "Changed": record(partitions=mapping(_OPEN)),
    "ConfigChanges": record(
        attempts=listing(
            record(
                **dict.fromkeys(("source", "client", "role", "outcome"), TEXT),
                at=NUMBER,
                problems=_TEXTS,
                differences=mapping(_TEXTS),
                left_out=COUNT,
            )
        )
    ),
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
            unapplied=_TEXTS,
        ),
    ),
    "States": _TEXTS,
    "State": {},
}

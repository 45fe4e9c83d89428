"""Operations on partitions for programs in other languages: one table, from which the endpoints are derived.

Each operation is a method of `AbstractPartition`. The fields of the body have the names of its parameters, so the table
only has their schemas. Routes, validation, the description and the batch follow from it.

A denial is an answer like any other. An operation that the state of the partition forbids gets an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import getdoc
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ugm import Decision, UserGroup
from ugm._json_values import JsonMapping, JsonObject
from ugm.partition import (
    AbstractPartition,
    Admission,
    AllocationRequest,
    AllocationSpec,
    ApplicationInfo,
    GangStyle,
    RunningApplication,
    SyncReport,
)
from ugm.queues import Placement
from ugm.server.audit import AuditLog
from ugm.server.decision_endpoints import parse_amounts
from ugm.server.payloads import ApiError, require_found
from ugm.server.schemas import (
    DURATION,
    NAME,
    QUANTITIES,
    QUEUE,
    SECONDS,
    SUBMISSION,
    TRAITS,
    USER,
    Schema,
    listing,
    optional,
    record,
    reference,
)
from ugm.server.state import RequestContext, ServerState

__all__ = [
    "ALLOCATION_SPEC",
    "BATCH",
    "OPERATIONS",
    "RUNNING_APPLICATION",
    "PartitionOperation",
    "create_endpoint",
    "execute_batch",
]

#: The fields of a body, validated.
_Fields: TypeAlias = JsonMapping

#: The allocations of a gang, and the operations of a batch.
_MOST: Final = 1000
_FLAG: Final[Schema] = {"type": "boolean"}
_NODE: Final = {"node": NAME}
_TRAITS: Final = {"placeholder": _FLAG, **TRAITS, "duration": DURATION, **_NODE}
_ALLOCATION: Final = {"allocation_id": NAME, "application_id": NAME, "usage": QUANTITIES}
#: The schemas of parts of bodies that are described once.
ALLOCATION_SPEC: Final = record(_TRAITS, allocation_id=NAME, usage=QUANTITIES)
_SPECS: Final = listing(ALLOCATION_SPEC, maxItems=_MOST)
RUNNING_APPLICATION: Final = record(
    {"groups": SUBMISSION["groups"], "tags": SUBMISSION["tags"], "allocations": _SPECS},
    application_id=NAME,
    user=USER,
    queue_path=QUEUE,
)
#: The applications that a host names at once; the size of a body limits them as well.
_MOST_RUNNING: Final = 10_000
_GANG_STYLE: Final[Schema] = {"type": "string", "enum": [style.value for style in GangStyle]}


# Results for JSON


def _decision(decision: Decision) -> object:
    return {
        **decision.to_dict(),
        "text": str(decision),
        "summary": decision.summary,
        "for_people": decision.for_people(),
    }


def _placement(placement: Placement) -> object:
    return {**placement.to_dict(), "text": str(placement)}


def _to_dict(result: ApplicationInfo | Admission | SyncReport) -> object:
    return result.to_dict()


def _existence(existed: bool) -> object:  # noqa: FBT001 - the result of an operation
    return {"existed": existed}


def _allocation_ids(names: tuple[str, ...]) -> object:
    return {"allocation_ids": list(names)}


class PartitionOperation(NamedTuple):
    """An operation: a method of a partition, with the fields of its body and the form of its result."""

    #: The name of the method, which is also the end of the path.
    name: str
    #: The required fields. The first one, if any, names the object of the operation in the audit log.
    fields: Mapping[str, Schema]
    #: Converts the result of the method to JSON.
    answer: Callable[[Any], object]
    result: Schema
    optional: Mapping[str, Schema] = {}

    @property
    def body(self) -> Schema:
        """The schema of the body."""
        return record(self.optional, **self.fields)

    @property
    def summary(self) -> str:
        """The first line of the docstring of the method."""
        return (getdoc(getattr(AbstractPartition, self.name)) or self.name).partition("\n")[0]

    def call(self, partition: AbstractPartition, fields: _Fields) -> object:
        """Call the method, and return its result."""
        return getattr(partition, self.name)(**_arguments(fields))


_APPLICATION_ID: Final = {"application_id": NAME}
_GRANT: Final = reference("Grant")
_IDS: Final = reference("AllocationIds")

OPERATIONS: Final[Mapping[str, PartitionOperation]] = {
    operation.name: operation
    for operation in (
        PartitionOperation(
            "submit",
            {"application_id": NAME, "user": USER},
            _placement,
            reference("Submission"),
            {**SUBMISSION, "gang_style": _GANG_STYLE},
        ),
        PartitionOperation("request", _ALLOCATION, _decision, _GRANT, _TRAITS),
        PartitionOperation("allocate", _ALLOCATION, _decision, _GRANT, _TRAITS),
        PartitionOperation("allocate_evicting", _ALLOCATION, _decision, _GRANT, _TRAITS),
        PartitionOperation(
            "allocate_all",
            {"requests": listing(record(_TRAITS, **_ALLOCATION), maxItems=_MOST)},
            _decision,
            _GRANT,
        ),
        PartitionOperation(
            "renew",
            {"allocation_id": NAME, "duration": optional(DURATION)},
            _decision,
            _GRANT,
        ),
        PartitionOperation("expire", {}, _allocation_ids, _IDS, {"now": SECONDS}),
        PartitionOperation("release_overdue", {}, _allocation_ids, _IDS, {"now": SECONDS}),
        PartitionOperation("preempt", {"allocation_id": NAME}, _existence, reference("Existence")),
        PartitionOperation("release", {"allocation_id": NAME}, _existence, reference("Existence")),
        PartitionOperation(
            "replace",
            {"allocation_id": NAME, "placeholder_id": NAME, "usage": QUANTITIES},
            _decision,
            _GRANT,
            _NODE,
        ),
        PartitionOperation(
            "resize",
            {"allocation_id": NAME, "usage": QUANTITIES},
            _decision,
            _GRANT,
        ),
        PartitionOperation("time_out_gang", _APPLICATION_ID, _allocation_ids, _IDS),
        PartitionOperation(
            "admit",
            {"application_id": NAME, "user": USER},
            _to_dict,
            reference("Admission"),
            {**SUBMISSION, "allocations": _SPECS},
        ),
        PartitionOperation("end", _APPLICATION_ID, _existence, reference("Existence")),
        PartitionOperation(
            "synchronize",
            {"running": listing(RUNNING_APPLICATION, maxItems=_MOST_RUNNING)},
            _to_dict,
            reference("SyncReport"),
            {"starting": listing(NAME, maxItems=_MOST_RUNNING), "among": listing(NAME, maxItems=_MOST_RUNNING)},
        ),
        PartitionOperation("complete", _APPLICATION_ID, _to_dict, reference("Application")),
        PartitionOperation("fail", _APPLICATION_ID, _allocation_ids, _IDS),
        PartitionOperation("remove", _APPLICATION_ID, _allocation_ids, _IDS),
    )
}

#: The body of a batch: each operation with its name and its fields.
BATCH: Final[Schema] = record(
    operations=listing(
        {
            "anyOf": [
                {
                    "title": f"{name} in a batch",
                    **record(operation.optional, **operation.fields, operation={"type": "string", "enum": [name]}),
                }
                for name, operation in OPERATIONS.items()
            ]
        },
        maxItems=_MOST,
    )
)


def _arguments(fields: _Fields) -> JsonObject:
    """Return the arguments of a method: amounts as resources, and the user with the groups."""
    arguments = dict(fields)
    for name in ("usage", "quota"):
        if name in arguments:
            arguments[name] = parse_amounts(arguments[name])
    if "user" in arguments:
        arguments["user"] = UserGroup(arguments["user"], arguments.pop("groups", ()))
    if "requests" in arguments:
        arguments["requests"] = [AllocationRequest(**_arguments(item)) for item in arguments["requests"]]
    if "allocations" in arguments:
        arguments["allocations"] = [AllocationSpec(**_arguments(item)) for item in arguments["allocations"]]
    if "running" in arguments:
        arguments["running"] = [RunningApplication(**_arguments(item)) for item in arguments["running"]]
    return arguments


def _items(fields: _Fields) -> Sequence[_Fields]:
    """Return the fields of each allocation of a gang; for other operations, the fields themselves."""
    requests: Sequence[_Fields] = fields.get("requests", (fields,))
    return requests


# Endpoints


def create_endpoint(operation: PartitionOperation) -> Callable[[ServerState, RequestContext], object]:
    """Return the endpoint of an operation."""

    def endpoint(server: ServerState, request: RequestContext) -> object:
        return _Execution.of(server, request).execute(operation, cast("_Fields", request.body))

    endpoint.__name__, endpoint.__doc__ = operation.name, operation.summary
    return endpoint


def execute_batch(server: ServerState, request: RequestContext) -> object:
    """Execute several operations in order, and return the result or error of each."""
    execution = _Execution.of(server, request)
    operations: Sequence[_Fields] = cast("_Fields", request.body)["operations"]
    return {"results": list(map(execution.execute_item, operations))}


class _Execution(NamedTuple):
    """The execution of the operations of one request."""

    partition: AbstractPartition
    audit: AuditLog
    #: The name of the partition.
    name: str
    #: The address of the client.
    client: str

    @classmethod
    def of(cls, server: ServerState, request: RequestContext) -> _Execution:
        served = require_found("partition", request.path["partition"], server.partitions.get)
        return cls(served.partition, server.audit, served.name, request.client)

    def execute(self, operation: PartitionOperation, fields: _Fields) -> object:
        """Execute an operation, write it to the audit log, and return its result for JSON."""
        names = ", ".join(_names(operation, fields))
        target = f"{self.name}: {names}" if names else self.name
        with self.audit.operation(
            client=self.client, role="scheduler", action=operation.name, target=target
        ) as outcome:
            result = operation.call(self.partition, fields)
            # Decisions, placements and admissions are false if they are denials.
            if isinstance(result, Decision | Placement | Admission) and not result:
                outcome.text = "denied"
        return operation.answer(result)

    def execute_item(self, fields: _Fields) -> object:
        """Execute an operation of a batch, and return its status with its result or error."""
        operation = OPERATIONS[fields["operation"]]
        try:
            arguments = {name: value for name, value in fields.items() if name != "operation"}
            return {"status": 200, "answer": self.execute(operation, arguments)}
        except ApiError as error:
            return {"status": error.status, "answer": error.to_dict()}


def _names(operation: PartitionOperation, fields: _Fields) -> Iterator[str]:
    """Yield the ids of the objects of an operation."""
    field = "allocation_id" if "requests" in fields else next(iter(operation.fields), None)
    values = (item[field] for item in _items(fields) if field is not None)
    return (value if isinstance(value, str) else f"{len(value)} {field}" for value in values)

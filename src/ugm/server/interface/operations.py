"""Operations on partitions for programs in other languages, derived from the methods of `AbstractPartition`.

The fields of a body are the parameters of the method, with the validation of `ugm.server.interface.schemas`. The only
other difference is that the groups of a user are a field of their own. The description, the batch and the results
follow from the annotations, too.

A denial is an answer like any other. An operation that the state of the partition forbids gets an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypedDict, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from ugm import Decision, UgmError, UserGroup
from ugm._json_values import Json, JsonObject, to_json
from ugm.partition import AbstractPartition, Admission, AllocationRequest, GangStyle
from ugm.partition.interface.operation_kinds import OPERATION_KINDS, Kind, Role
from ugm.queues import Placement
from ugm.server.http.payloads import ApiError
from ugm.server.interface.route import PARTITION, Call, Route, Routes, ServedPartition
from ugm.server.interface.schemas import (
    Duration,
    Groups,
    Name,
    Object,
    Priority,
    QueuePath,
    RequestedQueue,
    Seconds,
    Tags,
    User,
    with_text,
)
from ugm.service.protocol.values import ANNOTATIONS

#: The methods for schedulers that are no operations over REST, or have an endpoint of their own.
_OTHERS: Final = frozenset(
    ("allocate_ignoring_reservations", "adopt", "adopt_application", "reclaim", "reconcile", "carry_out")
)
#: The methods that are operations.
NAMES: Final = [
    name
    for name, one in OPERATION_KINDS.items()
    if one.kind is Kind.CHANGE and one.role is Role.SCHEDULER and name not in _OTHERS
]
#: The items of a list, the allocations of a gang, and the operations of a batch.
_MOST_ITEMS: Final = 10_000
_MOST: Final = 1000
#: The types of parameters whose annotation does not state them.
_FIELDS: Final[Mapping[str, Any]] = {
    "queue": RequestedQueue,
    "queue_path": QueuePath,
    "gang_style": Literal[tuple(style.value for style in GangStyle)],
    "tags": Tags | None,
    "duration": Duration | None,
    "now": Seconds | None,
    "priority": Priority,
}


class Existence(TypedDict):
    """The answer to a removal: whether the object existed."""

    existed: bool


class AllocationIds(TypedDict):
    """The allocations that an operation has affected."""

    allocation_ids: list[str]


class BatchItem(TypedDict):
    """The status of an operation of a batch, and its result or error."""

    status: int
    answer: Object


class Batch(TypedDict):
    """The results of a batch."""

    results: list[BatchItem]


#: The classes of results in JSON, by the annotation of the method; others are as `to_dict` returns them.
_RESULTS: Final[Mapping[Any, Any]] = {bool: Existence, tuple[str, ...]: AllocationIds}


def _result(value: Any) -> Json:  # noqa: ANN401 - the result of an operation
    """Return the result of an operation for JSON."""
    if isinstance(value, bool):
        return {"existed": value}
    if isinstance(value, Decision):
        return {**with_text(value), "summary": value.summary, "for_people": value.for_people()}
    if isinstance(value, Placement):
        return with_text(value)
    return {"allocation_ids": list(value)} if isinstance(value, tuple) else to_json(value)


# Bodies


def _fields(hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of a body for the parameters of a method, or for the fields of a named tuple."""
    for name, hint in hints.items():
        kind = User if hint is UserGroup else _field_type(name, hint)
        yield (name, kind, [] if defaults[name] == () else defaults[name]) if name in defaults else (name, kind)
        if hint is UserGroup:
            yield "groups", Groups, []


def _field_type(name: str, hint: Any) -> Any:  # noqa: ANN401 - annotations
    if name in _FIELDS:
        return _FIELDS[name]
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if get_origin(parts[0]) is Iterable:
        kind: Any = _list_type(name, get_args(parts[0])[0])
    else:
        kind = Name if str in parts else parts[0]
    return kind | None if NoneType in parts else kind


def _list_type(name: str, item: Any) -> Any:  # noqa: ANN401 - annotations
    """Return the type of a list of names, or of named tuples, which a program may also pass as plain ones."""
    kind = next((one for one in (item, *get_args(item)) if hasattr(one, "_fields")), None)
    most = Meta(max_length=_MOST if name == "requests" else _MOST_ITEMS)
    return Annotated[list[Name if kind is None else _item_type(kind)], most]  # type: ignore[misc]  # made at run time


@cache
def _item_type(kind: Any) -> Any:  # noqa: ANN401 - a named tuple
    """Return the type of an item; its attribute ``row`` is the class of the named tuple."""
    fields = sorted(_fields(get_type_hints(kind, localns=ANNOTATIONS), kind._field_defaults), key=len)
    return msgspec.defstruct(kind.__name__, fields, forbid_unknown_fields=True, namespace={"row": kind})


def _arguments(body: Any) -> JsonObject:  # noqa: ANN401 - a struct
    """Return the arguments of a method, or the fields of an item."""
    found = {name: _argument(value) for name, value in msgspec.structs.asdict(body).items()}
    if "user" in found:
        found["user"] = UserGroup(found["user"], found.pop("groups"))
    return found


def _argument(value: Any) -> Any:  # noqa: ANN401 - a part of a body
    if not isinstance(value, list) or not any(isinstance(one, msgspec.Struct) for one in value):
        return value
    return [one.row(**_arguments(one)) for one in value]


# Endpoints


def _route(name: str) -> Route:
    """Return the route of an operation; the fields of its body are the parameters of the method."""
    method = getattr(AbstractPartition, name)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    hints = get_type_hints(method, localns=ANNOTATIONS)
    result = hints.pop("return")
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    if [one.name for one in parameters[:3]] == list(AllocationRequest._fields[:3]):
        # A client sends all of them; a program may pass them in one object.
        defaults = {key: value for key, value in defaults.items() if key not in AllocationRequest._fields[:3]}
    fields = sorted(_fields(hints, defaults), key=len)
    body = msgspec.defstruct(f"{name}_body", fields, forbid_unknown_fields=True)
    summary = (inspect.getdoc(method) or "").partition("\n")[0]
    form = name, summary, msgspec.defstruct(f"{name}_parameters", []), _RESULTS.get(result, result)
    answer = partial(_execute, name)
    return Route("POST", f"{PARTITION}/{name}", answer, *form, frozenset(("call",)), body, role=Role.SCHEDULER)


def _execute(name: str, served: ServedPartition, call: Call, body: Any) -> Json:  # noqa: ANN401 - of a derived class
    """Call the method of an operation, write it to the audit log, and return its result for JSON."""
    names = ", ".join(_names(body))
    with call.operation(name, f"{served.name}: {names}" if names else served.name):
        result = getattr(served.partition, name)(**_arguments(body))
        # Decisions, placements and admissions are false if they are denials.
        if isinstance(result, Decision | Placement | Admission) and not result:
            call.outcome = "denied"
    return _result(result)


def _names(body: Any) -> Iterator[str]:  # noqa: ANN401 - of a derived class
    """Yield the ids of the objects of an operation."""
    requests: Sequence[Any] = getattr(body, "requests", ())
    yield from (one.allocation_id for one in requests)
    name = next((found for field in ("allocation_id", "application_id") if (found := getattr(body, field, None))), None)
    if name is not None:
        yield name
    elif hasattr(body, "running"):
        yield f"{len(body.running)} running"


ROUTES: Final = Routes()
ROUTES.found.extend(map(_route, NAMES))


def _item(route: Route) -> Any:  # noqa: ANN401 - a derived class
    """Return the body of an operation with the name of the operation."""
    tagged: Any = {"forbid_unknown_fields": True, "tag_field": "operation", "tag": route.name}
    return msgspec.defstruct(f"{route.name}_in_a_batch", [], bases=(route.body,), **tagged)


_Items: Any = Union[tuple(map(_item, ROUTES.found))]  # noqa: UP007 - made at run time
_BatchBody: Any = msgspec.defstruct(
    "batch_body", [("operations", Annotated[list[_Items], Meta(max_length=_MOST)])], forbid_unknown_fields=True
)


@ROUTES.post(f"{PARTITION}/batch", role=Role.SCHEDULER, types={"body": _BatchBody})
def batch(served: ServedPartition, call: Call, *, body: Any) -> Annotated[Object, Batch]:  # noqa: ANN401 - a derived class
    """Execute several operations in order, and return the result or error of each."""
    return {"results": [_batch_item(served, call, one) for one in body.operations]}


def _batch_item(served: ServedPartition, call: Call, item: Any) -> Object:  # noqa: ANN401 - of a derived class
    try:
        answer = _execute(item.__struct_config__.tag, served, call, item)
    except UgmError as error:
        refused = ApiError.of(error)
        return {"status": refused.status, "answer": refused.to_dict()}
    return {"status": 200, "answer": answer}

"""The OpenAPI 3.1 description of the REST interface, generated from the routes, with JSON schemas of all results.

The annotation of an endpoint names the class of its result. The schema of a class has its fields, as JSON has them;
`_CHANGED` lists the classes of the library whose `to_dict` returns others. With the annotation None, a subclass states
that JSON lacks a field. `Annotated[Object, Kind]` is a dictionary with the fields of a class.

msgspec validates requests with the types of their fields, and derives the description from them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct

import ugm
from ugm._json_values import JsonMapping
from ugm.budgets import AccountState
from ugm.configuration import LimitConfig
from ugm.decision import Decision, LimitRise, Violation
from ugm.errors import Problem
from ugm.fairness.rank import RankedNode, RankExplanation
from ugm.identity import MAX_NAME
from ugm.partition import Admission, ConfigPlan, LimitUtilization, ReclaimPlan, ScheduledChange, ThresholdCrossed, Turn
from ugm.partition.answers.reports import Holder, OwnedAllocation
from ugm.partition.config.changes import LimitRisk
from ugm.partition.interface.operation_kinds import Role
from ugm.partition.rows import MAX_DURATION, Allocation
from ugm.preemption import PreemptionPlan, ReductionPlan, ReductionTimer
from ugm.queues import Placement, QueueState
from ugm.resources import MAX_QUANTITY, Resource, parse_quantity
from ugm.server.interface.route import IDEMPOTENCY_KEY, TOKEN_NAMES, Route

#: The most characters of a queue path.
_LONGEST_PATH: Final = 4096
_PATH: Final = rf"^[rR][oO][oO][tT](\.[^.\s\x85\x00-\x1f\x7f]{{1,{MAX_NAME}}})*$"

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
#: A user or a group. The wildcard is not one, which `UserGroup` checks.
User: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, extra_json_schema={"not": {"enum": ["*"]}})]
#: The groups of a user.
Groups: TypeAlias = Annotated[list[User], Meta(max_length=1000)]
QueuePath: TypeAlias = Annotated[str, Meta(pattern=_PATH, max_length=_LONGEST_PATH, title="Queue path")]
#: A queue as a user requests it: a path, a name, or empty.
RequestedQueue: TypeAlias = Annotated[str, Meta(max_length=_LONGEST_PATH)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME)]
Tags: TypeAlias = Annotated[dict[Name, Text], Meta(max_length=1000)]
Duration: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_DURATION)]
#: Seconds since 1970.
Seconds: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Priority: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
#: The free amounts of each node.
Nodes: TypeAlias = Annotated[dict[Name, Resource], Meta(max_length=10_000)]
#: The size of a page, and the number of rows before it.
PageSize: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=10**9)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]

_T = TypeVar("_T")


class ListQuery(Struct, forbid_unknown_fields=True):
    """The search and the page of the query of a list."""

    search: Text = ""
    offset: Offset = 0
    limit: PageSize = 100

    def matches(self, name: str) -> bool:
        """Return whether a name contains the searched text, in any case."""
        return self.search.lower() in name.lower()

    def page(self, rows: Sequence[_T]) -> list[_T]:
        """Return the rows of the page."""
        return list(rows[self.offset : self.offset + self.limit])


#: Quantities of at most 64 bits for all digits, as in a configuration.
_QUANTITY: Final = (
    "([0-9]{1,18}|[0-9]{1,15}(k|Ki)|[0-9]{1,12}(M|Mi)|[0-9]{1,9}(G|Gi)|[0-9]{1,6}(T|Ti)|[0-9]{1,3}(P|Pi))"
)
_CORES: Final = "([0-9]{1,15}|[0-9]{1,18}m|[0-9]{1,12}k)"
_MOST_RESOURCES: Final = 100


def _amount(pattern: str, examples: str) -> JsonMapping:
    number = {"type": "integer", "minimum": 0, "maximum": MAX_QUANTITY}
    text = f"a whole number in the base unit, or a quantity such as {examples}"
    return {"anyOf": [number, {"type": "string", "pattern": f"^{pattern}$", "description": text}]}


#: Amounts in base units, or as quantities like those of a configuration.
_RESOURCE: Final[JsonMapping] = {
    "type": "object",
    "propertyNames": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
    "properties": {"vcore": _amount(_CORES, "2 or 500m")},
    "additionalProperties": _amount(_QUANTITY, "8, 500M or 4Gi"),
    "maxProperties": _MOST_RESOURCES,
}


def described(kind: type) -> dict[str, Any]:
    """Return the schema of a type of requests that msgspec does not know: only a `Resource`."""
    if kind is not Resource:
        raise NotImplementedError
    return dict(_RESOURCE)


def completed(kind: type, value: object) -> object:
    """Return the value of a type that msgspec does not know."""
    if kind is not Resource:
        raise NotImplementedError
    if not isinstance(value, Mapping) or len(value) > _MOST_RESOURCES:
        raise ValueError(f"expected an object of at most {_MOST_RESOURCES} amounts")
    return Resource({name: _parsed(name, amount) for name, amount in value.items()})


def _parsed(name: str, amount: object) -> int:
    is_vcore = name == "vcore"
    if type(amount) is int and 0 <= amount <= MAX_QUANTITY:
        return amount
    if isinstance(amount, str) and re.fullmatch(_CORES if is_vcore else _QUANTITY, amount):
        return parse_quantity(amount, vcore=is_vcore)
    expected = "2 or 500m" if is_vcore else "8, 500M or 4Gi"
    raise ValueError(f"{name[:60]!r}: expected a whole number in the base unit, or a quantity such as {expected}")


#: JSON Schema of 2020-12, as in OpenAPI 3.1.
Schema: TypeAlias = JsonMapping
#: An object with any fields.
Object: TypeAlias = dict[str, Any]
#: An amount that is a fraction if weights are: a text such as ``7/2``.
Exact: TypeAlias = Annotated[str, {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+/[0-9]+$"}]}]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_INTEGER: Final[Schema] = {"type": "integer"}
#: The schemas of basic types. A share is a fraction in Python, and a number in JSON.
_BASIC: Final[Mapping[Any, Schema]] = {
    str: _TEXT,
    int: _INTEGER,
    bool: {"type": "boolean"},
    float: _NUMBER,
    Fraction: _NUMBER,
    Resource: {"type": "object", "additionalProperties": _INTEGER},
    NoneType: {"type": "null"},
    Any: {},
    object: {},
}


class ViolationWithHolders(Violation):
    """An exceeded limit in an explanation."""

    holders: tuple[Holder, ...]


#: The properties of a request that a turn shows.
_LISTED: Final = ("allocation_id", "application_id", "usage", "priority", "node", "label")
#: Fields of classes in JSON: those that differ from the annotations or are computed; None for those that JSON lacks.
_CHANGED: Final[Mapping[Any, Mapping[str, Any]]] = {
    Decision: {
        **dict.fromkeys(("allowed", "can_wait"), bool),
        **dict.fromkeys(("text", "summary", "for_people"), str),
        # Quota models have classes of their own.
        "violations": list[Any],
    },
    Placement: {"placed": bool, "trials": list[Object], "violations": list[Any], "text": str},
    Problem: {"file": None, "excerpt": None},
    QueueState: {"share": float | None, "pending": Resource, "pending_allocations": int, "applications": int},
    Violation: {"shortfall": int, "can_wait": bool, "rise": LimitRise | None, "text": str},
    LimitConfig: {"ugm": None},
    LimitUtilization: {"pending": Resource, "pending_allocations": int},
    OwnedAllocation: {"allocation": None, **get_type_hints(Allocation)},
    Turn: {
        **dict.fromkeys(("request", "keys", "reservation")),
        **{name: get_type_hints(Allocation)[name] for name in _LISTED},
        "reasons": list[str],
        "start": int | None,
        "reserved_for": list[str],
    },
    ReclaimPlan: {**dict.fromkeys(("subject", "request", "free_on_node")), "text": str},
    PreemptionPlan: {
        **dict.fromkeys(("placed", "protected", "is_pending", "free_on_node")),
        "request": Object,
        "decision": Object | None,
        "cost": Object | None,
        "others": dict[str, str],
        "text": str,
    },
    ReductionPlan: {"text": str},
    ReductionTimer: {"due": int},
    ScheduledChange: {"changes": Object, "text": str},
    ConfigPlan: {
        "changes": Object,
        "base": None,
        "compiled": None,
        "text": str,
        "risks": list[LimitRisk],
        "warnings": list[str],
    },
    ThresholdCrossed: {"used": Exact, "limit": Exact, "share": float},
    AccountState: {**dict.fromkeys(("limit", "settled", "committed", "remaining", "rate"), Exact), "share": float},
    Admission: {"admitted": bool, "placement": Object, "decision": Object | None, "summary": str, "for_people": str},
    RankedNode: {**dict.fromkeys(("usage", "used", "level"), str), "share": str | None},
    RankExplanation: {"steps": list[Object], "text": str},
}


class _Describable(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def with_text(value: _Describable) -> Object:
    """Return a plan for JSON, with its text."""
    return {**value.to_dict(), "text": str(value)}


def _reference(name: str) -> Schema:
    """Return a reference to a component of the description."""
    return {"$ref": f"#/components/schemas/{name}"}


@final
class Schemas:
    """The schemas of annotations, and the components to which they refer.

    Args:
        known: classes that are components in any case.

    Attributes:
        components: the schemas of classes by name.
    """

    def __init__(self, *known: type) -> None:
        self.components: Final[dict[str, Schema]] = {}
        for kind in known:
            self._component(kind)

    def of(self, kind: Any) -> Schema:  # noqa: ANN401, PLR0911 - an annotation; one for each form
        """Return the schema of an annotation."""
        origin, arguments = get_origin(kind), get_args(kind)
        if hasattr(kind, "__metadata__"):
            given = kind.__metadata__[0]
            return given if isinstance(given, dict) else self.of(given)
        if origin is None and kind in _BASIC:
            return _BASIC[kind]
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if NoneType in arguments:
            return {"anyOf": [self.of(arguments[0]), _BASIC[NoneType]]}
        if origin in (Union, UnionType):
            # Of two numbers.
            return _NUMBER
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin is not None:
            return {"type": "array", "items": self.of(arguments[0])}
        if issubclass(kind, StrEnum):
            return {"type": "string", "enum": [member.value for member in kind]}
        return self._component(kind)

    def _component(self, kind: type) -> Schema:
        name = kind.__name__
        if name not in self.components:
            annotated, hints = get_type_hints(kind, include_extras=True), dict[str, Any]()
            for one in reversed(kind.__mro__):
                own = inspect.get_annotations(one)
                hints |= {field: annotated[field] for field in own} | dict(_CHANGED.get(one, {}))
            shown = {field: hint for field, hint in hints.items() if hint not in (None, NoneType)}
            # First, because it may refer to itself.
            self.components[name] = {}
            self.components[name] = {
                "type": "object",
                "properties": {field: self.of(hint) for field, hint in shown.items()},
                "required": sorted(shown.keys() - getattr(kind, "__optional_keys__", frozenset())),
                "additionalProperties": False,
            }
        return _reference(name)


# The description

_YAML: Final[Schema] = {"type": "string", "description": "A configuration in YAML."}
_ANY_YAML: Final[Schema] = {"description": "YAML, whether it is a configuration or not."}
#: The headers of responses to GET.
_CACHING: Final = {
    "ETag": {"description": "The version of the result, for If-None-Match.", "schema": _TEXT},
    "Ugm-As-Of": {"description": "The seconds since 1970 before the data were read.", "schema": _NUMBER},
}
_RETRY: Final = {"Retry-After": {"description": "The seconds to wait, with status 503.", "schema": _NUMBER}}


class _ErrorFields(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    code: str


class Error(_ErrorFields, total=False):
    """An error, as problem details (RFC 9457)."""

    argument: str
    value: Any
    problems: list[Problem]
    risks: list[str]


class YAPIError(TypedDict):
    """An error in the format of Apache YuniKorn."""

    status_code: int
    message: str
    description: str
    code: str


def description(server: str, routes: Iterable[Route]) -> dict[str, object]:
    """Return the description.

    Args:
        server: the prefix of every path, where the application is mounted.
        routes: all routes.
    """
    listed, schemas = list(routes), Schemas(Error, YAPIError)
    errors = {Error: "application/problem+json", YAPIError: "application/json"}
    refused = {"description": "The request is refused; the code says why.", "headers": _RETRY}
    bodies, components = _request_schemas(route.body for route in listed if route.body is not None)
    paths: dict[str, dict[str, object]] = {}
    for route in listed:
        body = bodies.pop(0) if route.body is not None else None
        paths.setdefault(route.full_path, {})[route.method.lower()] = _operation(route, body, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ugm",
            "version": ugm.__version__,
            "summary": "Quotas for users and groups in a hierarchy of queues: usage, limits and explanations.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server or "/"}],
        "paths": paths,
        "components": {
            "schemas": {**schemas.components, **components},
            "responses": {
                error.__name__: {**refused, "content": {media_type: {"schema": _reference(error.__name__)}}}
                for error, media_type in errors.items()
            },
            "securitySchemes": {name: {"type": "http", "scheme": "bearer"} for name in TOKEN_NAMES.values()},
        },
    }


def _request_schemas(kinds: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the schemas of annotations of requests, and the components to which they refer."""
    found, components = msgspec.json.schema_components(
        kinds, schema_hook=described, ref_template="#/components/schemas/{name}"
    )
    return list(found), components


def _operation(route: Route, body: Schema | None, schemas: Schemas) -> dict[str, object]:
    is_cached = route.method == "GET" and route.media_types != ("text/event-stream",)
    result = {media_type: {"schema": schemas.of(route.result)} for media_type in route.media_types}
    operation: dict[str, object] = {
        "operationId": f"{route.name}_{route.method.lower()}",
        "summary": route.summary,
        "parameters": _parameters(route, is_cached=is_cached),
        "responses": {
            "200": {"description": "The result.", "content": result, "headers": _CACHING if is_cached else {}},
            **({"304": {"description": "The result has not changed."}} if is_cached else {}),
            "default": {"$ref": f"#/components/responses/{'YAPIError' if route.is_yunikorn else 'Error'}"},
        },
    }
    if route.reads_config:
        schema = _ANY_YAML if route.takes_any_type or "validate" in route.name else _YAML
        operation["requestBody"] = {"required": True, "content": {"application/yaml": {"schema": schema}}}
    elif body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if route.role in TOKEN_NAMES:
        operation["security"] = [{TOKEN_NAMES[route.role]: []}]
    return operation


def _parameters(route: Route, *, is_cached: bool) -> list[dict[str, object]]:
    fields = msgspec.structs.fields(route.parameters)
    found, components = _request_schemas([*(_present(one.type) for one in fields), Name])
    found = [components.get(str(one.get("$ref", "")).rpartition("/")[2], one) for one in found]
    schemas = dict(zip((one.name for one in fields), found, strict=False))
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, found[-1])}
        for name in (part.partition("}")[0] for part in route.path.split("{")[1:])
    ]
    parameters += [
        {"name": one.name, "in": "query", "required": one.required, "schema": schemas[one.name]}
        for one in fields
        if f"{{{one.name}}}" not in route.path
    ]
    if is_cached:
        parameters.append({"name": "If-None-Match", "in": "header", "required": False, "schema": _TEXT})
    if route.role is not Role.VIEWER:
        parameters.append({"name": IDEMPOTENCY_KEY, "in": "header", "required": False, "schema": found[-1]})
    return parameters


def _present(kind: Any) -> Any:  # noqa: ANN401 - an annotation
    """Return the annotation of a parameter that is given; one that is left out may be None."""
    arguments = get_args(kind)
    return next(one for one in arguments if one is not NoneType) if NoneType in arguments else kind

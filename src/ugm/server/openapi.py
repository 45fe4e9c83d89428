"""The OpenAPI 3.1 description of the REST interface, generated from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import ugm
from ugm._json_values import Json
from ugm.server._yunikorn.schemas import YUNIKORN_SCHEMAS
from ugm.server.access import Role
from ugm.server.idempotency import IDEMPOTENCY_KEY
from ugm.server.operations import ALLOCATION_SPEC, RUNNING_APPLICATION
from ugm.server.response_schemas import RESPONSE_SCHEMAS
from ugm.server.route import AnyRoute
from ugm.server.route_table import PATH_SCHEMAS, ROUTES
from ugm.server.schemas import AMOUNTS, NAME, NUMBER, QUANTITIES, QUEUE, SUBMISSION, TEXT, Schema, reference
from ugm.server.streams import STREAM

__all__ = ["description"]

#: Parts of requests and responses that are described once, so generated clients have a name for them.
_PARTS: Final[Mapping[str, Schema]] = {
    "AllocationSpec": ALLOCATION_SPEC,
    "Amounts": AMOUNTS,
    "Quantities": QUANTITIES,
    "QueuePath": QUEUE,
    "RunningApplication": RUNNING_APPLICATION,
    "Tags": SUBMISSION["tags"],
}
_PART: Final = re.compile(r"\{(\w+)\}")
#: The names of the tokens in the description.
_SCHEMES: Final[Mapping[Role, str]] = {Role.OPERATE: "token", Role.DECIDE: "decide_token"}
#: The headers of responses to GET, and of responses that ask to try again.
_CACHING: Final = (
    ("ETag", "The version of the result, for If-None-Match.", TEXT),
    ("Ugm-As-Of", "The seconds since 1970 before the data were read.", NUMBER),
)
_RETRY: Final = {"Retry-After": {"description": "The seconds to wait.", "schema": NUMBER}}
_ERRORS: Final = {
    "400": "The request is malformed.",
    "401": "The token is missing or wrong.",
    "403": "The server does not allow any client to do this, or the request was caused by a page of another site.",
    "404": "An object that the request names does not exist.",
    "408": "The body arrived too slowly.",
    "409": "The request conflicts with the state of the server or partition.",
    "413": "The request is too large.",
    "415": "The media type, charset or encoding of the body is not the documented one.",
    "421": "The server does not answer requests for the host in the request.",
    "422": "The request cannot be carried out as it is, for example because a configuration has problems.",
    "503": "Too many requests are waiting, a configuration took too long to read, or the journal or leader of the "
    "partition cannot be used now. A change may or may not have taken effect.",
}


def description(server: str) -> dict[str, object]:
    """Return the description.

    Args:
        server: the prefix of every path, where the application is mounted.
    """
    paths: dict[str, dict[str, object]] = {}
    for route in (*ROUTES, STREAM):
        paths.setdefault(route.full_path, {})[route.method.lower()] = _with_references(_operation(route))
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
            "schemas": {
                **YUNIKORN_SCHEMAS,
                **{name: _parts_replaced(schema) for name, schema in {**RESPONSE_SCHEMAS, **_PARTS}.items()},
            },
            "responses": {
                f"{error}{code}": {
                    "description": text,
                    "content": {media_type: {"schema": reference(error)}},
                    **({"headers": _RETRY} if code == "503" else {}),
                }
                for error, media_type in (("Error", "application/problem+json"), ("YAPIError", "application/json"))
                for code, text in _ERRORS.items()
            },
            "securitySchemes": {name: {"type": "http", "scheme": "bearer"} for name in _SCHEMES.values()},
        },
    }


def _operation(route: AnyRoute) -> dict[str, object]:
    operation: dict[str, object] = {
        "operationId": f"{route.name}_{route.method.lower()}",
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": {
            "200": {"description": "The result.", "content": _result(route), "headers": _headers(route)},
            **({"304": {"description": "The result has not changed."}} if _is_cached(route) else {}),
            **_refusals(route),
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body, is_yaml=route.reads_config)}
    if route.role in _SCHEMES:
        operation["security"] = [{_SCHEMES[route.role]: []}]
    return operation


def _parameters(route: AnyRoute) -> list[dict[str, object]]:
    path = [(name, "path", True, PATH_SCHEMAS.get(name, NAME)) for name in _PART.findall(route.path)]
    query = [(name, "query", name in route.required, schema) for name, schema in route.query.items()]
    headers = [("If-None-Match", "header", False, TEXT)] if _is_cached(route) else []
    if route.role is not Role.READ:
        headers.append((IDEMPOTENCY_KEY, "header", False, NAME))
    fields = ("name", "in", "required", "schema")
    return [dict(zip(fields, parameter, strict=True)) for parameter in (*path, *query, *headers)]


def _is_cached(route: AnyRoute) -> bool:
    return route.method == "GET" and not route.is_stream


def _headers(route: AnyRoute) -> dict[str, object]:
    return (
        {name: {"description": text, "schema": schema} for name, text, schema in _CACHING} if _is_cached(route) else {}
    )


def _content(schema: Schema, *, is_yaml: bool) -> dict[str, object]:
    return {("application/yaml" if is_yaml else "application/json"): {"schema": schema}}


def _result(route: AnyRoute) -> dict[str, object]:
    if route.is_stream:
        return {"text/event-stream": {"schema": route.result}}
    if route.returns_csv:
        return {"text/csv": {"schema": route.result}}
    if route.is_yunikorn and route.returns_yaml:
        return {media_type: {"schema": route.result} for media_type in ("application/json", "application/x-yaml")}
    return _content(route.result, is_yaml=route.returns_yaml)


def _refusals(route: AnyRoute) -> dict[str, object]:
    codes = {"400", "403", "404", "421", "503"}
    if route.body is not None:
        codes |= {"408", "413", "415"} | ({"422"} if route.reads_config else set())
    if route.role is not Role.READ:
        codes |= {"401", "409", "422"}
    if route.returns_yaml:
        codes |= {"409"}
    error = "YAPIError" if route.is_yunikorn else "Error"
    return {code: {"$ref": f"#/components/responses/{error}{code}"} for code in sorted(codes)}


def _with_references(part: Json) -> Json:
    """Return a part of the description in which references replace the schemas that are described once."""
    if isinstance(part, Mapping):
        named = next((name for name, schema in _PARTS.items() if part is schema), None)
        return _parts_replaced(part) if named is None else reference(named)
    return list(map(_with_references, part)) if isinstance(part, list) else part


def _parts_replaced(schema: Schema) -> Schema:
    """Return a schema in which references replace parts, but not the schema itself."""
    return {name: _with_references(value) for name, value in schema.items()}

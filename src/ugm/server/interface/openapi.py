"""The OpenAPI 3.1 description of the REST interface, generated from the routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final, get_args

import msgspec

import ugm
from ugm.partition.interface.operations import Role
from ugm.server._yunikorn.schemas import YUNIKORN_SCHEMAS
from ugm.server.http.idempotency import IDEMPOTENCY_KEY
from ugm.server.interface.fields import Name, described
from ugm.server.interface.route import Route
from ugm.server.interface.schemas import Schema, Schemas, reference

__all__ = ["description"]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_YAML: Final[Schema] = {"type": "string", "description": "A configuration in YAML."}
_ANY_YAML: Final[Schema] = {"description": "YAML, whether it is a configuration or not."}
#: The names of the tokens in the description.
_SCHEMES: Final[Mapping[Role, str]] = {Role.OPERATOR: "token", Role.SCHEDULER: "decide_token"}
#: The headers of responses to GET.
_CACHING: Final = {
    "ETag": {"description": "The version of the result, for If-None-Match.", "schema": _TEXT},
    "Ugm-As-Of": {"description": "The seconds since 1970 before the data were read.", "schema": _NUMBER},
}
_RETRY: Final = {"Retry-After": {"description": "The seconds to wait.", "schema": _NUMBER}}
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
    "503": "Too many requests are waiting, or the store or leader of the partition cannot be used now. A change may or "
    "may not have taken effect.",
}
_PROBLEM: Final[Schema] = {
    "type": "object",
    "properties": {**dict.fromkeys(("path", "code", "message"), _TEXT), **dict.fromkeys(("line", "column"), _NUMBER)},
    "required": ["code", "column", "line", "message", "path"],
    "additionalProperties": False,
}
_ERROR: Final[Schema] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("type", "title", "detail", "code", "argument"), _TEXT),
        "status": {"type": "integer"},
        "value": {},
        "problems": {"type": "array", "items": _PROBLEM},
        "risks": {"type": "array", "items": _TEXT},
    },
    "required": ["code", "detail", "status", "title", "type"],
    "additionalProperties": False,
}


def description(server: str, routes: Iterable[Route]) -> dict[str, object]:
    """Return the description.

    Args:
        server: the prefix of every path, where the application is mounted.
        routes: all routes.
    """
    listed, schemas = list(routes), Schemas()
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
            "schemas": {**YUNIKORN_SCHEMAS, **schemas.components, **components, "Error": _ERROR},
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
            **_refusals(route),
        },
    }
    if route.reads_config:
        schema = _ANY_YAML if route.takes_any_type or "validate" in route.name else _YAML
        operation["requestBody"] = {"required": True, "content": {"application/yaml": {"schema": schema}}}
    elif body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if route.role in _SCHEMES:
        operation["security"] = [{_SCHEMES[route.role]: []}]
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


def _refusals(route: Route) -> dict[str, object]:
    codes = {"400", "403", "404", "409", "421", "422", "503"}
    if route.has_body:
        codes |= {"408", "413", "415"}
    if route.role is not Role.VIEWER:
        codes.add("401")
    error = "YAPIError" if route.is_yunikorn else "Error"
    return {code: {"$ref": f"#/components/responses/{error}{code}"} for code in sorted(codes)}

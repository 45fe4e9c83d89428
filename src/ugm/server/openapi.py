"""The description of the interface: OpenAPI 3.1, made from the table of routes."""

from __future__ import annotations

import re
from typing import Any, Final

import ugm
from ugm.server.response_schemas import RESPONSE_SCHEMAS
from ugm.server.routes import PREFIX, ROUTES, Route, is_yaml, part_schema
from ugm.server.schema import Schema, reference

__all__ = ["description"]

_PART: Final = re.compile(r"\{(\w+)\}")
_ERRORS: Final = {
    "400": "Something in the request is malformed.",
    "401": "The token is missing or wrong.",
    "403": "The server is read-only, or the request was caused by a page of another site.",
    "404": "Something that the request names is not there.",
    "408": "The request came too slowly.",
    "409": "The server was not started for this.",
    "413": "The request is too large.",
    "415": "The body has another media type than the described one.",
    "421": "The server does not answer for the host that the request names.",
    "422": "The configuration cannot be used; nothing has changed.",
    "503": "Too many requests are waiting, or a configuration took too long to read.",
}


def description(server: str) -> dict[str, Any]:
    """Return the description.

    Args:
        server: what stands before every path.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ugm",
            "version": ugm.__version__,
            "summary": "Quotas for users and groups in a hierarchy of queues: usage, limits, and why something waits.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server or "/"}],
        "paths": paths,
        "components": {
            "schemas": dict(RESPONSE_SCHEMAS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": f"{route.name}_{route.method.lower()}",
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {"200": {"description": "The answer.", "content": _content(route.result)}, **_refusals(route)},
    }
    if route.body is not None:
        told["requestBody"] = {"required": True, "content": _content(route.body)}
    if route.changes:
        told["security"] = [{"token": []}]
    return told


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": part_schema(name)}
        for name in _PART.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": name in route.required, "schema": schema}
        for name, schema in route.query.items()
    ]


def _content(schema: Schema) -> dict[str, Any]:
    return {("application/yaml" if is_yaml(schema) else "application/json"): {"schema": schema}}


def _refusals(route: Route) -> dict[str, Any]:
    codes = {"400", "403", "404", "421", "503"}
    if route.body is not None:
        codes |= {"408", "413", "415"} | ({"422"} if is_yaml(route.body) else set())
    if route.changes:
        codes |= {"401", "403", "409", "422"}
    if is_yaml(route.result):
        codes |= {"409"}
    return {
        code: {"description": _ERRORS[code], "content": {"application/json": {"schema": reference("Error")}}}
        for code in sorted(codes)
    }

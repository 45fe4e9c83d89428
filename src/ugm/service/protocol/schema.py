"""The description of the protocol for clients in other languages: ``python -m ugm.service.protocol.schema``."""

from __future__ import annotations

import json
from inspect import cleandoc
from typing import Any, Final, get_args

import msgspec

from ugm._json_values import JsonObject
from ugm.service.protocol.operations import OPERATIONS
from ugm.service.protocol.wire import OLDEST_VERSION, VERSION, ClientMessage, ServiceMessage

__all__ = ["schema"]

_REFERENCE: Final = "#/$defs/{name}"


def _described(kind: type) -> JsonObject:
    """Return the form of a class that JSON Schema does not know."""
    if kind.__name__ == "Resource":
        return {"type": "object", "additionalProperties": {"type": "integer"}}
    if kind.__name__ == "UserGroup":
        return {"type": "array", "prefixItems": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    return {"type": "string" if kind.__name__ in {"Acl", "Fraction"} else "array"}


def schema() -> dict[str, Any]:
    """Return the messages and the operations, in terms of JSON Schema 2020-12."""
    messages = [get_args(one) for one in (ClientMessage, ServiceMessage)]
    operations = list(OPERATIONS.values())
    types = [
        *messages[0],
        *messages[1],
        *(one.arguments for one in operations),
        *(one.result.hint for one in operations),
    ]
    found, definitions = msgspec.json.schema_components(types, schema_hook=_described, ref_template=_REFERENCE)
    for definition in definitions.values():
        # Versions of msgspec differ in the indentation.
        if "description" in definition:
            definition["description"] = cleandoc(definition["description"])
    count, kinds = len(messages[0]) + len(messages[1]), len(operations)
    shown = found[count:]
    return {
        "versions": [OLDEST_VERSION, VERSION],
        "from_client": list(found[: len(messages[0])]),
        "from_service": list(found[len(messages[0]) : count]),
        "operations": {
            one.name: {
                "role": one.role.name.lower(),
                "is_change": one.is_change,
                "arguments": shown[at],
                "result": shown[at + kinds],
            }
            for at, one in enumerate(operations)
        },
        "$defs": definitions,
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))  # noqa: T201 - the purpose of the program

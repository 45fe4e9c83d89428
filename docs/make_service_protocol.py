"""Write the description of the protocol of a service, for clients in other languages.

python docs/make_service_protocol.py
"""

from __future__ import annotations

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from ugm.service.protocol.operations import OPERATIONS
from ugm.service.protocol.wire import OLDEST_VERSION, VERSION, ClientMessage, ServiceMessage

RECORDED: Final = Path(__file__).parent / "reference" / "service-protocol.json"


def _described(kind: type) -> dict[str, Any]:
    """Return the form of a class that JSON Schema does not know."""
    if kind.__name__ == "Resource":
        return {"type": "object", "additionalProperties": {"type": "integer"}}
    if kind.__name__ == "UserGroup":
        return {"type": "array", "prefixItems": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    return {"type": "string" if kind.__name__ in {"Acl", "Fraction"} else "array"}


def schema() -> dict[str, Any]:
    """Return the messages and the operations, in terms of JSON Schema 2020-12."""
    from_client, from_service = get_args(ClientMessage), get_args(ServiceMessage)
    operations = list(OPERATIONS.values())
    arguments, results = [one.arguments for one in operations], [one.result.hint for one in operations]
    found, definitions = msgspec.json.schema_components(
        [*from_client, *from_service, *arguments, *results], schema_hook=_described, ref_template="#/$defs/{name}"
    )
    for definition in definitions.values():
        # Versions of msgspec differ in the indentation.
        if "description" in definition:
            definition["description"] = cleandoc(definition["description"])
    forms = iter(found)
    messages = [[next(forms) for _ in kinds] for kinds in (from_client, from_service)]
    parts = {name: [next(forms) for _ in operations] for name in ("arguments", "result")}
    return {
        "versions": [OLDEST_VERSION, VERSION],
        "from_client": messages[0],
        "from_service": messages[1],
        "operations": {
            one.name: {
                "role": one.role.name.lower(),
                "is_change": one.is_change,
                "arguments": arguments_form,
                "result": result_form,
            }
            for one, arguments_form, result_form in zip(operations, parts["arguments"], parts["result"], strict=True)
        },
        "$defs": definitions,
    }


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(schema(), indent=1) + "\n")

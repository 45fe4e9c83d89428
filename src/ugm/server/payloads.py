"""Serialized response bodies, independent of the web framework.

The worker process (see `ugm.server.worker`) creates payloads too, so nothing here imports starlette.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from ugm.errors import number_text
from ugm.server.errors import ApiError

__all__ = ["Payload", "error_payload", "json_payload", "yaml_payload"]

_encode: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
#: Python converts integers of up to 640 digits to text under every setting.
_LARGEST_PRINTABLE: Final = 10**600


class Payload(NamedTuple):
    """A serialized response body with its HTTP status."""

    status: int
    content: bytes
    media_type: str = "application/json"


def json_payload(value: object, status: int = 200) -> Payload:
    """Serialize a value as JSON, in ASCII and without spaces.

    Integers that Python cannot convert to text are written as strings.
    """
    try:
        text = _encode(value)
    except ValueError:  # an integer has more digits than Python converts
        text = _encode(_with_texts(value))
    return Payload(status, text.encode("ascii"))


def _with_texts(value: object) -> object:
    """Return the value with every integer that Python cannot convert to text replaced by a string."""
    if isinstance(value, dict):
        return {key: _with_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(item) for item in value]
    return number_text(value) if type(value) is int and abs(value) > _LARGEST_PRINTABLE else value


def yaml_payload(text: str) -> Payload:
    """Return a payload of YAML text."""
    return Payload(200, text.encode(), "application/yaml")


def error_payload(error: ApiError) -> Payload:
    """Serialize an error."""
    return json_payload(error.to_dict(), error.status)

"""JSON as the server writes it: in ASCII, without spaces, and with numbers of any size."""

from __future__ import annotations

import json
from typing import Final

from ugm.errors import number_text

__all__ = ["json_text"]

_encode: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
#: Python writes numbers of 640 digits, whatever its settings.
_MOST_WRITTEN: Final = 10**600


def json_text(value: object) -> str:
    """Return a value in JSON; a whole number that Python does not write is written as a text."""
    try:
        return _encode(value)
    except ValueError:  # a number has more digits than Python writes
        return _encode(_writable(value))


def _writable(value: object) -> object:
    """Return the value with every whole number that Python does not write as a text."""
    if isinstance(value, dict):
        return {key: _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return number_text(value) if type(value) is int and abs(value) > _MOST_WRITTEN else value

"""The reader of tree documents: a text in JSON or YAML to values with line and column.

A text that begins like a JSON document is JSON, any other text is YAML. The standard library decides whether a text is
valid JSON, because the YAML parser accepts texts that are not, such as one with a comma behind the last entry. Then
`ugm._documents.loader` reads both. In YAML, a text may stand for a number; in JSON, ``"1"`` differs from ``1``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn, TypeAlias, cast

from ugm._documents.loader import Document, ListPlace, MappingPlace, Place, Quoted, line_and_column, load, mark_of
from ugm.errors import ConfigError, Problem

#: The deepest nesting of a document that was parsed before.
_MAX_DEPTH: Final = 64
#: Longer whole numbers are not parsed: `int` takes time quadratic in their length.
_MAX_DIGITS: Final = 20
#: A character that JSON writes as two escapes, which the YAML parser does not know.
_PAIR: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..")
Scalar: TypeAlias = "str | int | float | bool | None"


class Located(NamedTuple):
    """A value and its place in the text. Line and column are 0 if there is no text."""

    #: A scalar, a list of values, or the entries of a mapping in a tuple.
    value: Scalar | list[Located] | tuple[KeyValue, ...]
    line: int = 0
    column: int = 0
    #: Whether a text may stand for a number or a truth value, as in YAML.
    is_plain: bool = False

    @property
    def is_mapping(self) -> bool:
        """True for the entries of a mapping."""
        return isinstance(self.value, tuple)


class KeyValue(NamedTuple):
    """One entry of a mapping."""

    key: Located
    item: Located


def from_text(text: str, file: str) -> Located:
    """Read a text. In JSON, a key that is given twice has its last value, as in Go.

    Raises:
        ConfigError: the text is neither JSON nor YAML, or exceeds a bound.
    """
    is_json = _is_json(text)
    document = load_any(text, file, last_wins=is_json)
    if document.problems:
        raise document.problems.error()
    return from_place(document.data, document.place, is_json=is_json)


def _is_json(text: object) -> bool:
    return isinstance(text, str) and text.lstrip(" \t\n\r\ufeff")[:1] in ("{", "[", '"', "")


def load_any(text: str, file: str, *, last_wins: bool = False) -> Document:
    """Read a text in JSON or YAML as plain data with places. All scalars are texts, as in YAML.

    Raises:
        ConfigError: the text is neither, or exceeds a bound.
    """
    if not _is_json(text):
        return load(text, file)
    try:
        json.loads(text.removeprefix("\ufeff"), parse_int=_parse_int, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        message = f"invalid JSON: {getattr(error, 'msg', str(error))}"
        raise ConfigError((Problem(file, line, column, "", "json-syntax", message),)) from None
    # YAML does not allow tabs between values; in texts, JSON does not.
    return load(_PAIR.sub(lambda pair: json.loads(f'"{pair[0]}"'), text.replace("\t", " ")), file, last_wins=last_wins)


def _parse_int(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def from_struct(value: object, depth: int = 0) -> Located:
    """Read a value that was parsed before.

    Raises:
        ConfigError: it is nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise ConfigError((Problem("<struct>", 0, 0, "", "nested-too-deep", f"nested more than {_MAX_DEPTH} deep"),))
    if isinstance(value, Mapping):
        entries = (KeyValue(from_struct(key, depth + 1), from_struct(item, depth + 1)) for key, item in value.items())
        return Located(tuple(entries))
    if isinstance(value, (list, tuple)):
        return Located([from_struct(item, depth + 1) for item in value])
    if type(value) is int and abs(value) > 10**_MAX_DIGITS:
        # Too large as well, and short enough for a message.
        return Located(10**_MAX_DIGITS)
    return Located(cast("Scalar", value))


def from_place(value: object, place: Place, *, is_json: bool = False) -> Located:
    """Return data of YAML, or of JSON, with their places."""
    line, column = line_and_column(mark_of(place))
    if isinstance(place, MappingPlace) and isinstance(value, dict):
        entries = (
            KeyValue(
                Located(key, *line_and_column(place.keys[key])), from_place(item, place.values[key], is_json=is_json)
            )
            for key, item in value.items()
        )
        return Located(tuple(entries), line, column)
    if isinstance(place, ListPlace) and isinstance(value, list):
        items = [from_place(*pair, is_json=is_json) for pair in zip(value, place.items, strict=True)]
        return Located(items, line, column)
    if is_json and type(value) is str:
        # Not in quotation marks.
        value = json.loads(value, parse_int=_parse_int)
    return Located(str(value) if isinstance(value, Quoted) else cast("Scalar", value), line, column, not is_json)

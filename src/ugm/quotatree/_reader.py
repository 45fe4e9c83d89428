"""The reader of tree documents: a text in JSON or YAML to values that know their place.

A text that begins like a JSON document is JSON, any other text is YAML. Although YAML contains JSON in principle, the
reader parses JSON itself, for three reasons:

- the YAML parser accepts texts that are no JSON, such as one with a comma behind the last entry, and refuses some that
  are, such as one with a character written as a surrogate pair;
- it does not tell the text ``"1"`` from the number ``1``, which JSON documents must not confuse;
- a program whose documents are in JSON loads neither yaml nor pydantic.

YAML is parsed by the loader of the configuration. Its scalars remain texts until the schema gives them a type, and a
key must not occur twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias, cast

from ugm.errors import ConfigError, Problem

if TYPE_CHECKING:
    from ugm.config.places import Place

__all__ = ["KeyValue", "Located", "from_struct", "from_text"]

#: The deepest nesting of a document.
_MAX_DEPTH: Final = 64
#: The longest JSON text, in characters.
_MAX_CHARACTERS: Final = 8 * 2**20
#: The largest number of keys and values in a JSON text.
_MAX_VALUES: Final = 500_000
#: Longer whole numbers are not parsed: `int` takes time in the square of their length.
_MAX_DIGITS: Final = 20
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_STRUCT: Final = "<struct>"

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
    """Read a text.

    Raises:
        ConfigError: the text is neither JSON nor YAML, or exceeds a bound.
    """
    if not isinstance(text, str):
        raise ConfigError((Problem(file, 0, 0, "", "text-invalid", "expected a text"),))
    if text.lstrip(" \t\n\r\ufeff")[:1] in ("{", "[", '"', ""):
        return _JsonParser(text.removeprefix("\ufeff"), file).document()
    # Loads yaml, which JSON does not need.
    from ugm.config.loader import load  # noqa: PLC0415 - as the comment says

    document = load(text, file)
    if document.problems:
        raise document.problems.error()
    return _from_yaml(document.data, document.place)


def from_struct(value: object, depth: int = 0) -> Located:
    """Read a value that was parsed before.

    Raises:
        ConfigError: it is nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise ConfigError((Problem(_STRUCT, 0, 0, "", "nested-too-deep", f"nested more than {_MAX_DEPTH} deep"),))
    if isinstance(value, Mapping):
        entries = (KeyValue(from_struct(key, depth + 1), from_struct(item, depth + 1)) for key, item in value.items())
        return Located(tuple(entries))
    if isinstance(value, (list, tuple)):
        return Located([from_struct(item, depth + 1) for item in value])
    if type(value) is int and abs(value) > 10**_MAX_DIGITS:
        # Too large as well, and short enough for a message.
        return Located(10**_MAX_DIGITS)
    return Located(cast("Scalar", value))


def _from_yaml(value: object, place: Place) -> Located:
    from ugm.config.places import ListPlace, MappingPlace, line_and_column, mark_of  # noqa: PLC0415 - as above

    line, column = line_and_column(mark_of(place))
    if isinstance(place, MappingPlace) and isinstance(value, dict):
        entries = (
            KeyValue(Located(key, *line_and_column(place.keys[key])), _from_yaml(item, place.values[key]))
            for key, item in value.items()
        )
        return Located(tuple(entries), line, column)
    if isinstance(place, ListPlace) and isinstance(value, list):
        return Located([_from_yaml(*pair) for pair in zip(value, place.items, strict=True)], line, column)
    return Located(cast("Scalar", value), line, column, is_plain=True)


def _whole(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


class _JsonParser:
    """A parser of one JSON text. Scalars are parsed by the standard library, which does not report places."""

    def __init__(self, text: str, file: str) -> None:
        self.text: Final = text
        self.file: Final = file
        self.at = 0
        self.values = 0
        #: The position up to which line breaks were counted, its line, and the start of that line.
        self.counted = 0
        self.line = 1
        self.line_start = 0
        self.decode: Final = json.JSONDecoder(parse_int=_whole, parse_constant=self.refuse_constant).raw_decode

    def document(self) -> Located:
        if len(self.text) > _MAX_CHARACTERS:
            found = f"the text has {len(self.text)} characters (allowed: up to {_MAX_CHARACTERS})"
            self.refuse(0, found, code="text-too-large")
        item = self.value(0)
        if self.next():
            self.refuse(self.at, "expected the end of the document")
        return item

    def refuse(self, at: int, message: str, code: str = "json-syntax") -> NoReturn:
        raise ConfigError((Problem(self.file, *self.place(at), "", code, f"invalid JSON: {message}"),)) from None

    def refuse_constant(self, name: str) -> NoReturn:
        self.refuse(self.at, f"{name} is not a number")

    def place(self, at: int) -> tuple[int, int]:
        """Return line and column, counted from 1."""
        if at < self.counted:
            return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        if breaks := self.text.count("\n", self.counted, at):
            self.line += breaks
            self.line_start = self.text.rfind("\n", self.counted, at) + 1
        self.counted = at
        return self.line, at - self.line_start + 1

    def next(self) -> str:
        """Skip blanks; return the next character, empty at the end."""
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]  # the pattern matches "" as well
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Located:
        first = self.next()
        line, column = self.place(self.at)
        if depth > _MAX_DEPTH:
            self.refuse(self.at, f"nested more than {_MAX_DEPTH} deep")
        self.values += 1
        if self.values > _MAX_VALUES:
            self.refuse(self.at, f"more than {_MAX_VALUES} values")
        if first == "{":
            return Located(tuple(self.entries(depth)), line, column)
        if first == "[":
            return Located(self.items(depth), line, column)
        return Located(self.scalar(first), line, column)

    def scalar(self, first: str) -> Scalar:
        try:
            value, self.at = self.decode(self.text, self.at)
        except json.JSONDecodeError as error:
            reason = "expected a value" if first in ("", "}", "]", ",", ":") else error.msg[:1].lower() + error.msg[1:]
            self.refuse(error.pos, reason)
        return cast("Scalar", value)

    def entries(self, depth: int) -> list[KeyValue]:
        entries: list[KeyValue] = []
        while self.follows("}", first=not entries):
            if self.next() != '"':
                self.refuse(self.at, "expected a key in quotation marks")
            key = self.value(depth)
            if self.next() != ":":
                self.refuse(self.at, "expected a colon after the key")
            self.at += 1
            entries.append(KeyValue(key, self.value(depth + 1)))
        return entries

    def items(self, depth: int) -> list[Located]:
        items: list[Located] = []
        while self.follows("]", first=not items):
            items.append(self.value(depth + 1))
        return items

    def follows(self, end: str, *, first: bool) -> bool:
        """Skip the delimiter before the next entry of a collection; return whether there is an entry."""
        if first:
            self.at += 1
            if self.next() != end:
                return True
        elif self.next() == ",":
            comma = self.at
            self.at += 1
            if self.next() == end:
                self.refuse(comma, "a comma follows the last entry")
            return True
        elif self.next() != end:
            self.refuse(self.at, f"expected a comma or {end}")
        self.at += 1
        return False

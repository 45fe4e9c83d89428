"""The reader of tree documents: a text in JSON or YAML to values with line and column.

A text that begins like a JSON document is JSON, any other text is YAML. Although JSON is nearly a subset of YAML, the
standard library parses JSON, for three reasons:

- the YAML parser accepts texts that are not valid JSON, such as one with a comma behind the last entry, and refuses
  some that are, such as one with a character written as a surrogate pair;
- it does not tell the text ``"1"`` from the number ``1``, which JSON documents must not confuse;
- a program whose documents are in JSON does not load yaml.

YAML is parsed by `ugm._documents.loader`. Its scalars remain texts until the schema gives them a type, and a
key must not occur twice.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias, cast

from ugm.errors import ConfigError, Problem

if TYPE_CHECKING:
    from ugm._documents.loader import Document, Mark, Place, Problems
    from ugm.configuration.scheduler import Path

#: The deepest nesting of a document.
_MAX_DEPTH: Final = 64
#: The longest JSON text, in characters.
_MAX_CHARACTERS: Final = 8 * 2**20
#: The largest number of keys and values in a JSON text.
_MAX_VALUES: Final = 500_000
#: Longer whole numbers are not parsed: `int` takes time quadratic in their length.
_MAX_DIGITS: Final = 20
_BLANKS: Final = " \t\n\r"
#: A text (possibly without its end), a bracket, or any other scalar. Nothing is matched twice, so the time is linear.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\]]|[^\s{}\[\],:"]+', re.DOTALL)
_TRAILING_COMMA: Final = "a comma follows the last entry"
#: By the beginning of the message of the standard library.
_SYNTAX_ERRORS: Final = {
    "Expecting value": "expected a value",
    "Expecting property name": "expected a key in quotation marks",
    "Expecting ':'": "expected a colon after the key",
    "Expecting ','": "expected a comma or a closing bracket",
    "Illegal trailing comma": _TRAILING_COMMA,
    "Extra data": "expected the end of the document",
}
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
    text = str.__str__(text)
    if _is_json(text):
        return _from_json(text.removeprefix("\ufeff"), file)
    # Imported late: documents in JSON need no yaml.
    from ugm._documents.loader import load  # noqa: PLC0415 - documents in JSON need no yaml

    document = load(text, file)
    if document.problems:
        raise document.problems.error()
    return from_place(document.data, document.place)


def _is_json(text: str) -> bool:
    return text.lstrip(_BLANKS + "\ufeff")[:1] in ("{", "[", '"', "")


def load_any(text: str, file: str) -> Document:
    """Read a text in JSON or YAML as plain data with places. All scalars are texts, as in YAML.

    Raises:
        ConfigError: the text is neither, or exceeds a bound.
    """
    from ugm._documents.loader import (  # noqa: PLC0415 - as above
        Document,
        Problems,
        load,
    )

    if not _is_json(text):
        return load(text, file)
    problems = Problems(file)
    return Document(*_plain(_from_json(text.removeprefix("\ufeff"), file), (), problems), problems)


def _plain(item: Located, path: Path, problems: Problems) -> tuple[Any, Place]:
    """Return the data and the place of a value in JSON, with the problems that the loader of YAML would report."""
    from ugm._documents.loader import (  # noqa: PLC0415 - as above
        UNUSABLE,
        ListPlace,
        Quoted,
        not_text,
        surrogate_in,
    )

    mark = _mark(item)
    if isinstance(item.value, tuple):
        return _plain_mapping(item.value, mark, path, problems)
    if isinstance(item.value, list):
        items = [_plain(each, (*path, at), problems) for at, each in enumerate(item.value)]
        return [value for value, _ in items], ListPlace(mark, [place for _, place in items])
    if not isinstance(item.value, str):
        return (None if item.value is None else json.dumps(item.value)), mark
    if found := surrogate_in(item.value):
        problems.add(mark, path, "text-invalid", not_text(found))
        return UNUSABLE, mark
    return Quoted(item.value), mark


def _plain_mapping(
    entries: tuple[KeyValue, ...], mark: Mark, path: Path, problems: Problems
) -> tuple[dict[str, Any], Place]:
    from ugm._documents.loader import (  # noqa: PLC0415 - as above
        MappingPlace,
        duplicate_key,
        not_text,
        surrogate_in,
    )

    data: dict[str, Any] = {}
    keys: dict[str, Mark] = {}
    values: dict[str, Place] = {}
    for key, item in entries:
        name, at = str(key.value), _mark(key)
        if found := surrogate_in(name):
            problems.add(at, path, "text-invalid", not_text(found))
        elif name in data:
            problems.add(at, path, "yaml-key-duplicate", duplicate_key(name, keys[name]))
        else:
            keys[name] = at
            data[name], values[name] = _plain(item, (*path, name), problems)
    return data, MappingPlace(mark, keys, values)


def _mark(item: Located) -> Mark:
    from ugm._documents.loader import mark_at  # noqa: PLC0415 - as above

    return mark_at(item.line - 1, item.column - 1)


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


def from_place(value: object, place: Place) -> Located:
    """Return data of YAML with their places."""
    from ugm._documents.loader import ListPlace, MappingPlace, line_and_column, mark_of  # noqa: PLC0415 - as above

    line, column = line_and_column(mark_of(place))
    if isinstance(place, MappingPlace) and isinstance(value, dict):
        entries = (
            KeyValue(Located(key, *line_and_column(place.keys[key])), from_place(item, place.values[key]))
            for key, item in value.items()
        )
        return Located(tuple(entries), line, column)
    if isinstance(place, ListPlace) and isinstance(value, list):
        return Located([from_place(*pair) for pair in zip(value, place.items, strict=True)], line, column)
    return Located(cast("Scalar", value), line, column, is_plain=True)


def _from_json(text: str, file: str) -> Located:
    """Parse a JSON text with the standard library, which does not report places, and add these.

    Every key and every value begins with one token, so the tokens of the text are the places of the keys and values in
    the order in which a traversal of the document visits them.
    """
    if len(text) > _MAX_CHARACTERS:
        message = f"the text has {len(text)} characters (allowed: up to {_MAX_CHARACTERS})"
        raise ConfigError((Problem(file, 1, 1, "", "text-too-large", message),))
    breaks = [match.start() for match in re.finditer("\n", text)]

    def place(at: int) -> tuple[int, int]:
        line = bisect_left(breaks, at)
        return line + 1, at - (breaks[line - 1] if line else -1)

    def refuse(at: int, message: str) -> NoReturn:
        raise ConfigError((Problem(file, *place(at), "", "json-syntax", f"invalid JSON: {message}"),)) from None

    def refuse_constant(name: str) -> NoReturn:
        refuse(next(at for at in starts if text.startswith(name, at)), f"{name} is not a number")

    def located(value: object) -> Located:
        line, column = place(next(places))
        if isinstance(value, tuple):
            return Located(tuple(KeyValue(located(key), located(item)) for key, item in value), line, column)
        if isinstance(value, list):
            return Located([located(item) for item in value], line, column)
        return Located(cast("Scalar", value), line, column)

    starts = _starts(text, refuse)
    places = iter(starts)
    try:
        return located(json.loads(text, object_pairs_hook=tuple, parse_int=_parse_int, parse_constant=refuse_constant))
    except json.JSONDecodeError as error:
        refuse(*_syntax_error(text, error))


def _starts(text: str, refuse: Callable[[int, str], NoReturn]) -> list[int]:
    """Return the position of each key and value, after a check of their number and nesting."""
    starts: list[int] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        token, at = match[0], match.start()
        if token in ("}", "]"):
            depth -= 1
            continue
        starts.append(at)
        if depth > _MAX_DEPTH:
            refuse(at, f"nested more than {_MAX_DEPTH} deep")
        if len(starts) > _MAX_VALUES:
            refuse(at, f"more than {_MAX_VALUES} values")
        depth += token in ("{", "[")
    return starts


def _syntax_error(text: str, error: json.JSONDecodeError) -> tuple[int, str]:
    """Return the place of a syntax error and a message, the same for all versions of Python."""
    before = text[: error.pos].rstrip(_BLANKS)
    end = "]" if error.msg.startswith("Expecting value") else "}"
    if before.endswith(",") and text.startswith(end, error.pos):
        return len(before) - 1, _TRAILING_COMMA
    for start, message in _SYNTAX_ERRORS.items():
        if error.msg.startswith(start):
            return error.pos, message
    return error.pos, error.msg[:1].lower() + error.msg[1:]


def _parse_int(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS

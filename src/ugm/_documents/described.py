"""Documents that are read by a description of their values, with all problems.

A description is a function that reads a value: `text`, `whole` and `truth` for scalars, and what `fields` and `list_of`
make from the descriptions of the parts. It returns plain data. A problem does not end the reading, so all problems of a
document are reported together, each with its place. Data with a problem must not be used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

from ugm._documents.located import Located, from_struct, from_text
from ugm.configuration.resource_names import nearest
from ugm.errors import ConfigError, Problem, QuantityError, cut
from ugm.identity import MAX_NAME
from ugm.resources import MAX_QUANTITY, VCORE, parse_quantity

#: A whole number in decimal digits.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
#: The similarity from which on an unknown key counts as a misspelt one.
_SIMILARITY: Final = 0.8
#: The longest path in a problem.
_LONG_PATH: Final = 1000


@final
class Reader:
    """The problems of one document.

    Args:
        file: the name of the text in problems.
        above: the path of the document in another one.
    """

    def __init__(self, file: str, above: str = "") -> None:
        self._file: Final = file
        self._above: Final = above
        self.problems: Final[list[Problem]] = []

    def refuse(self, item: Located, path: str, code: str, message: str) -> None:
        """Add a problem."""
        whole_path = cut(_join(self._above, path) if path else self._above, _LONG_PATH)
        self.problems.append(Problem(self._file, item.line, item.column, whole_path, code, message))

    def expect(self, item: Located, path: str, code: str, expected: str) -> None:
        """Add a problem about a value of another type, unless the value is missing."""
        if item.value is not None:
            self.refuse(item, path, code, f"expected {expected}, found {_shown(item)}")

    def is_short(self, item: Located, path: str, name: str) -> bool:
        """Return whether a name is not too long, or add a problem."""
        if len(name) > MAX_NAME:
            self.refuse(item, path, "name-too-long", f"found {len(name)} characters (allowed: up to {MAX_NAME})")
        return len(name) <= MAX_NAME

    def named(self, item: Located, path: str) -> list[tuple[str, Located, str]]:
        """Return the values of a mapping, each with its name and its path. Values without a name are left out."""
        if not isinstance(item.value, tuple):
            self.expect(item, path, "type-mapping", "a mapping")
            return []
        names = [(str(entry.key.value), entry) for entry in item.value if entry.key.value]
        return [(name, each.item, _join(path, name)) for name, each in names if self.is_short(each.key, path, name)]


#: Reads a value at a path, and returns it as plain data; the default of its type if it is missing.
Description: TypeAlias = Callable[[Reader, Located, str], Any]


def read(source: str | Mapping[str, object], description: Description) -> Any:  # noqa: ANN401 - plain data
    """Read a document, from a text or parsed.

    Raises:
        ConfigError: lists every problem.
    """
    if isinstance(source, Mapping):
        reader, item = Reader("<struct>"), from_struct(source)
    else:
        reader, item = Reader("<text>"), from_text(source, "<text>")
    data = description(reader, item, "")
    if reader.problems:
        raise ConfigError(tuple(sorted(reader.problems)))
    return data


def fields(known: Mapping[str, Description]) -> Description:
    """Describe a mapping with some keys, which are case-insensitive.

    Other keys are ignored, unless they resemble a known one. A missing value has the place of the mapping.
    """
    spelt = {key.lower(): key for key in known}

    def read_fields(reader: Reader, item: Located, path: str) -> dict[str, Any]:
        if item.value is not None and not isinstance(item.value, tuple):
            reader.expect(item, path, "type-mapping", "a mapping")
            return {}
        found = dict.fromkeys(known, Located(None, item.line, item.column))
        for entry in item.value or ():
            name = str(entry.key.value)
            key = spelt.get(name.lower())
            if key is not None:
                found[key] = entry.item
            elif similar := nearest(name.lower(), known, _SIMILARITY):
                message = f"unknown key {cut(name)!r}, did you mean {similar!r}?"
                reader.refuse(entry.key, path, "key-unknown", message)
        return {key: known[key](reader, value, _join(path, key)) for key, value in found.items()}

    return read_fields


def list_of(description: Description) -> Description:
    """Describe a list of equal values."""

    def read_list(reader: Reader, item: Located, path: str) -> list[Any]:
        if not isinstance(item.value, list):
            reader.expect(item, path, "type-list", "a list")
            return []
        return [description(reader, each, f"{path}[{at}]") for at, each in enumerate(item.value)]

    return read_list


def text(reader: Reader, item: Located, path: str) -> str:
    """Read a text of up to `MAX_NAME` characters."""
    if isinstance(item.value, str):
        return item.value if reader.is_short(item, path, item.value) else ""
    reader.expect(item, path, "type-text", "a text")
    return ""


def whole(reader: Reader, item: Located, path: str) -> int:
    """Read a whole number that fits 64 bits."""
    value = item.value
    if item.is_plain and isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is int:
        return _bounded(reader, item, path, value)
    reader.expect(item, path, "type-whole", "a whole number")
    return 0


def _bounded(reader: Reader, item: Located, path: str, amount: int) -> int:
    """Return a number after a check that it fits 64 bits."""
    if not -MAX_QUANTITY - 1 <= amount <= MAX_QUANTITY:
        reader.refuse(item, path, "quantity-invalid", "expected a number that fits a signed 64-bit integer")
    return amount


def truth(reader: Reader, item: Located, path: str) -> bool:
    """Read true or false."""
    if type(item.value) is bool:
        return item.value
    if not item.is_plain or item.value not in ("true", "false"):
        reader.expect(item, path, "type-boolean", "true or false")
    return item.value == "true"


def digits(reader: Reader, _name: str, item: Located, path: str) -> int:
    """Read an amount, which is a whole number in a text."""
    if isinstance(item.value, str) and _INTEGER.fullmatch(item.value):
        return _bounded(reader, item, path, int(item.value))
    if isinstance(item.value, str):
        reader.expect(item, path, "quantity-invalid", "a whole number")
    else:
        reader.expect(item, path, "type-text", "a whole number in quotation marks")
    return 0


def quantity(reader: Reader, name: str, item: Located, path: str) -> int:
    """Read an amount as a quantity, as in a queue configuration: a suffix is allowed, and ``vcore`` counts cores."""
    found = item.value
    if not isinstance(found, str) or (_INTEGER.fullmatch(found) and name != VCORE):
        return digits(reader, name, item, path)
    sign = -1 if found.startswith("-") else 1
    try:
        amount = parse_quantity(found.removeprefix("-" if sign < 0 else "+"), vcore=name == VCORE)
    except QuantityError as error:
        reader.refuse(item, path, "quantity-invalid", f"{cut(found)!r} is not a quantity: {error.reason}")
        return 0
    return _bounded(reader, item, path, sign * amount)


def ignored(_reader: Reader, _item: Located, _path: str) -> None:
    """Accept any value."""


def document(kind: str, spec: Mapping[str, Description]) -> Description:
    """Describe a document with a kind, a name and the fields of its specification."""
    return fields({"kind": _kind(kind), "metadata": fields({"name": text}), "spec": fields(spec)})


def _kind(expected: str) -> Description:
    def read_kind(reader: Reader, item: Located, path: str) -> str:
        found = text(reader, item, path)
        if found != expected:
            reader.refuse(item, path, "kind-unknown", f"expected {expected!r}, found {found!r}")
        return found

    return read_kind


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(item: Located) -> str:
    if item.is_mapping:
        return "a mapping"
    if isinstance(item.value, list):
        return "a list"
    return repr(cut(item.value)) if isinstance(item.value, str) else repr(item.value)

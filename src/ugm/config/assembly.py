"""Step two of reading a configuration: from plain data to the values of `ugm.configuration`.

The loader keeps every scalar as a text; the annotation of the field in `ugm.configuration` determines its type. So
``010`` is ten in a count, ``yes`` is a name in a list of users, and no value becomes a float by accident. A number or a
boolean in quotes is a text, which is an error in a field of numbers or booleans, as in the YAML library of Apache
YuniKorn.

Values are built from the innermost to the outermost, each mapping on its own: every problem is reported at once, and
too many problems end the reading. A value that cannot be used is set aside, and the rest is read as if it were not
there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, final, get_args, get_origin

from ugm._documents.loader import UNUSABLE, Document, DocumentFormat, Quoted, ReadDocument, Value
from ugm.configuration import SchedulerConfig
from ugm.configuration.fields import ConfigValue, FieldShape, field_shapes, parse_fraction
from ugm.configuration.model_kinds import DOCUMENT_MODULES
from ugm.configuration.resource_names import did_you_mean
from ugm.configuration.scheduler import Finding, Path
from ugm.errors import QuantityError, quote
from ugm.resources import MAX_QUANTITY, VCORE, Resource, bounded_int, format_amount, is_resource_name, parse_quantity

_TRUE: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_DIGITS: Final = re.compile(r"[0-9]+")
_DECIMAL: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


@final
class _RefusedError(Exception):
    """A scalar cannot be read.

    Args:
        code: the code of the problem.
        message: its message.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code: Final = code


def _kind_of(value: object) -> str:
    """Describe a value for a message."""
    match value:
        case None:
            return "null"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case Quoted():
            return f"the text {quote(value)} in quotes"
        case str():
            return quote(value)
        case _:
            return repr(value)


def _to_text(value: object) -> str:
    """Read a text; every scalar is a text."""
    if isinstance(value, str):
        return str(value)
    raise _RefusedError("wrong-type", f"expected a text, found {_kind_of(value)}")


def _to_count(value: object) -> int:
    """Read a count of applications: decimal digits, at most 64 bits with a sign."""
    if type(value) is not str or not _DIGITS.fullmatch(value):
        raise _RefusedError("count-invalid", f"expected a count in decimal digits, found {_kind_of(value)}")
    count = bounded_int(value, MAX_QUANTITY)
    if count > MAX_QUANTITY:
        raise _RefusedError("count-too-large", f"the count is too large (allowed: up to {MAX_QUANTITY})")
    return count


def _to_boolean(value: object) -> bool:
    """Read one of the words of YAML 1.1 for true and false."""
    if type(value) is str and value in _TRUE | _FALSE:
        return value in _TRUE
    raise _RefusedError("boolean-invalid", f"expected true or false, found {_kind_of(value)}")


def _to_choice(allowed: tuple[str, ...], value: object) -> str:
    """Read one of some words."""
    if isinstance(value, str) and value in allowed:
        return str(value)
    words = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
    raise _RefusedError("choice-invalid", f"expected {words}, found {_kind_of(value)}")


def _require_resource_name(name: str) -> None:
    if not is_resource_name(name):
        message = f"{quote(name)} is not a valid resource name (allowed: 1 to 256 characters without white space)"
        raise _RefusedError("resource-name-invalid", message)


def _to_amount(name: str, value: object) -> int:
    _require_resource_name(name)
    if value is None:
        raise _RefusedError("quantity-invalid", "expected a quantity, found null")
    text = _to_text(value)
    try:
        return parse_quantity(text, vcore=name == VCORE)
    except QuantityError as error:
        raise _RefusedError("quantity-invalid", f"{quote(text)} is not a quantity: {error.reason}") from None


def _to_weight(_name: str, value: object) -> float:
    """Read a weight, which is a decimal number; a rule checks that it is not negative."""
    weight = float(value) if type(value) is str and _DECIMAL.fullmatch(value) else math.nan
    if not math.isfinite(weight):
        raise _RefusedError("weight-invalid", f"expected a decimal number, found {_kind_of(value)}")
    return weight


def _to_fraction(name: str, value: object) -> Fraction:
    _require_resource_name(name)
    try:
        return parse_fraction(value)
    except ValueError as error:
        raise _RefusedError("weight-invalid", f"{error}, found {_kind_of(value)}") from None


def _to_texts(_name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise _RefusedError("wrong-type", f"expected a list of at least one text, found {_kind_of(value)}")
    return tuple(map(_to_text, value))


#: The readers of scalars, and of the values of mappings, by the annotation of the field.
_SCALARS: Final[Mapping[object, Callable[[object], object]]] = {str: _to_text, int: _to_count, bool: _to_boolean}
_ITEMS: Final[Mapping[object, Callable[[str, object], object]]] = {
    Resource: _to_amount,
    # Null means the empty text, for example of a property.
    Mapping[str, str]: lambda _, value: "" if value is None else _to_text(value),
    Mapping[str, float]: _to_weight,
    Mapping[str, Fraction]: _to_fraction,
    Mapping[str, tuple[str, ...]]: _to_texts,
}


def _scalar_of(kind: object, value: object) -> object:
    return _to_choice(get_args(kind), value) if get_origin(kind) is Literal else _SCALARS[kind](value)


def _is_usable(data: Value) -> bool:
    """Return whether the loader could read all parts of some data."""
    if isinstance(data, dict):
        return all(map(_is_usable, data.values()))
    if isinstance(data, list):
        return all(map(_is_usable, data))
    return data is not UNUSABLE


def _format(kind: type[ConfigValue]) -> DocumentFormat:
    found: DocumentFormat = import_module(DOCUMENT_MODULES[kind]).FORMAT
    return found


def _write_document(value: ConfigValue) -> object:
    return _format(type(value)).write(value, format_amount)


#: Writes the values that have a form of their own in a file.
WRITERS: Final[Mapping[type, Callable[[Any], object]]] = {
    Resource: lambda amounts: {name: format_amount(name, amount) for name, amount in amounts.items()},
    **dict.fromkeys(DOCUMENT_MODULES, _write_document),
}
_Tree: TypeAlias = "dict[str | int, _Tree]"
_V = TypeVar("_V", bound=ConfigValue)


class Assembly:
    """Builds a configuration from a document."""

    def __init__(self, document: Document) -> None:
        self._document: Final = document
        #: The paths of fields that are at another place in the document than in the value.
        self._moved: Final[dict[Path, Path]] = {}
        #: The values that could not be used.
        self.set_aside: Final = SetAside()

    def config(self) -> SchedulerConfig | None:
        """Return the configuration; None if the document cannot be used at all.

        Raises:
            ConfigError: there are too many problems.
        """
        return self._value(SchedulerConfig, {} if self._document.data is None else self._document.data, ())

    def path_of(self, path: Path) -> Path:
        """Return the path in the document of a path in the value."""
        for length in range(len(path), 0, -1) if self._moved else ():
            if (moved := self._moved.get(path[:length])) is not None:
                return (*moved, *path[length:])
        return path

    def _value(self, kind: type[_V], data: Value, path: Path) -> _V | None:
        if kind in DOCUMENT_MODULES and data is not UNUSABLE and (found := _format(kind)).recognises(data):
            return cast("_V | None", self._read(found.read, data, path))
        if not isinstance(data, dict):
            self._refuse(path, data, "wrong-type", f"expected a mapping, found {_kind_of(data)}")
            return None
        shapes = {shape.yaml_name: shape for shape in field_shapes(kind)}
        fields: dict[str, Value] = {}
        for name, item in data.items():
            if name not in shapes:
                known = sorted(shapes)
                message = f"unknown field {quote(name)}{did_you_mean(name, known)}; known here: {', '.join(known)}"
                self._refuse((*path, name), item, "field-unknown", message)
            # A field without a value, and one that was set aside, is absent.
            elif (read := self._field(shapes[name], item, (*path, name))) is not None:
                fields[shapes[name].name] = read
        return kind(**fields)

    def _read(
        self, read: Callable[[Document, Value, Path], ReadDocument], data: Value, path: Path
    ) -> ConfigValue | None:
        """Return the value of a document inside of the configuration."""
        if not _is_usable(data):
            self.set_aside.add(path)
            self._document.problems.skip()
            return None
        found = read(self._document, data, path)
        for refused in found.refused:
            self.set_aside.add(refused)
        self._moved.update(found.moved)
        return found.value

    def _field(self, shape: FieldShape, value: Value, path: Path) -> Value:
        """Return the value of a field; None to leave the field out."""
        if value is None:
            return None
        if not shape.is_list:
            return self._scalar(shape, value, path) if shape.nested is None else self._value(shape.nested, value, path)
        if not isinstance(value, list):
            self._refuse(path, value, "wrong-type", f"expected a list, found {_kind_of(value)}")
            return None
        # An item that cannot be used is emptied, to keep the others in place.
        if shape.nested is None:
            unknown = 0 if shape.kind is int else ""
            return tuple(self._scalar(shape, item, (*path, at)) or unknown for at, item in enumerate(value))
        empty = shape.nested()
        return tuple(self._value(shape.nested, item, (*path, at)) or empty for at, item in enumerate(value))

    def _scalar(self, shape: FieldShape, value: Value, path: Path) -> Value:
        """Return a scalar, None if it is invalid; of a mapping of scalars, return the valid ones."""
        if shape.kind not in _ITEMS:
            return self._read_scalar(partial(_scalar_of, shape.kind), value, path)
        if not isinstance(value, dict):
            self._refuse(path, value, "wrong-type", f"expected a mapping, found {_kind_of(value)}")
            return None
        read = _ITEMS[shape.kind]
        items = {str(name): self._read_scalar(partial(read, name), item, (*path, name)) for name, item in value.items()}
        valid = {name: item for name, item in items.items() if item is not None}
        return Resource(valid) if shape.kind is Resource else valid

    def _read_scalar(self, read: Callable[[object], object], value: Value, path: Path) -> Value:
        try:
            return read(value)
        except _RefusedError as refused:
            self._refuse(path, value, refused.code, str(refused))
            return None

    def _refuse(self, path: Path, value: Value, code: str, message: str) -> None:
        """Set a value aside and report it, unless the loader has reported it."""
        self.set_aside.add(path)
        if value is UNUSABLE:
            self._document.problems.skip()
            return
        self._document.report(path, code, message, key=code == "field-unknown")


class SetAside:
    """The values that were set aside; it decides which findings may follow from them."""

    def __init__(self) -> None:
        #: The paths as a tree; a node without children was set aside.
        self._tree: Final[_Tree] = {}

    def add(self, path: Path) -> None:
        """Add the path of a value."""
        node = self._tree
        for part in path:
            node = node.setdefault(part, {})

    def explains(self, finding: Finding) -> bool:
        """Return whether a finding is about one of the values, or may follow from its absence."""
        if not self._tree:
            return False
        return self._within(finding.path) or any(
            self._within(source, around=True) for source in finding.sources or (finding.path,)
        )

    def _within(self, path: Path, *, around: bool = False) -> bool:
        """Return whether a path leads into one of the values or, with *around*, to a container of one."""
        node = self._tree
        for part in path:
            if part not in node:
                return False
            node = node[part]
            if not node:
                return True
        return around

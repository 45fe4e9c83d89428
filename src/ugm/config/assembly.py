"""Step two of reading a configuration: from plain data to the values of `ugm.configuration`.

Values are built from the innermost to the outermost, each mapping on its own: every problem is reported at once, and
too many problems end the reading. pydantic alone would collect all errors without a limit. A value that cannot be used
is set aside, and the rest is read as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ugm._config_fields import ConfigValue, FieldShape, field_shapes
from ugm.config.findings import Finding
from ugm.config.loader import UNUSABLE, Document, Value
from ugm.config.places import Path, locate
from ugm.config.scalars import kind_of, quote
from ugm.config.schema import SCHEMAS
from ugm.configuration import SchedulerConfig

__all__ = ["Assembly", "SetAside"]

_Tree: TypeAlias = "dict[str | int, _Tree]"
_V = TypeVar("_V", bound=ConfigValue)


class Assembly:
    """Builds a configuration from a document."""

    __slots__ = ("_document", "_set_aside")

    def __init__(self, document: Document) -> None:
        self._document: Final = document
        #: The paths of the values that were set aside.
        self._set_aside: Final[list[Path]] = []

    @property
    def set_aside(self) -> SetAside:
        """The values that could not be used."""
        return SetAside(self._set_aside)

    def config(self) -> SchedulerConfig | None:
        """Return the configuration; None if the document cannot be used at all.

        Raises:
            ConfigError: there are too many problems.
        """
        return self._value(SchedulerConfig, {} if self._document.data is None else self._document.data, ())

    def _value(self, kind: type[_V], data: Value, path: Path) -> _V | None:
        if not isinstance(data, dict):
            self._refuse(path, data, "wrong-type", f"expected a mapping, found {kind_of(data)}")
            return None
        shapes = {shape.yaml_name: shape for shape in field_shapes(kind)}
        found: dict[str, Value] = {}
        for name, item in data.items():
            read = self._field(shapes[name], item, (*path, name)) if name in shapes else item
            # A field without a value, and one that was set aside, is absent.
            if read is not None or name not in shapes:
                found[name] = read
        return kind(**self._scalars(kind, found, path))

    def _scalars(self, kind: type[ConfigValue], found: Mapping[str, Value], path: Path) -> dict[str, Value]:
        """Return the fields of a value by attribute; report those that the schema refuses, and leave them out."""
        while True:
            try:
                return SCHEMAS[kind].model_validate(found, by_alias=True, by_name=False).read_fields()
            except ValidationError as refused:
                errors = refused.errors(include_url=False)
            for error in errors:
                self._refuse((*path, *error["loc"]), error["input"], *_code_and_message(kind, error))
            found = _without(found, {error["loc"] for error in errors})

    def _field(self, shape: FieldShape, value: Value, path: Path) -> Value:
        """Return the values or texts of a field that holds some, and a scalar as it is; None to leave the field out."""
        if value is None or (shape.nested is None and not shape.is_list):
            return value
        if shape.nested is not None and not shape.is_list:
            return self._value(shape.nested, value, path)
        if not isinstance(value, list):
            self._refuse(path, value, "wrong-type", f"expected a list, found {kind_of(value)}")
            return None
        if shape.nested is None:
            return tuple(self._text(item, (*path, at)) for at, item in enumerate(value))
        # An item that cannot be used is emptied, to keep the others in place.
        empty = shape.nested()
        return tuple(self._value(shape.nested, item, (*path, at)) or empty for at, item in enumerate(value))

    def _text(self, item: Value, path: Path) -> str:
        if isinstance(item, str):
            return str(item)
        self._refuse(path, item, "wrong-type", f"expected a text, found {kind_of(item)}")
        return ""

    def _refuse(self, path: Path, value: Value, code: str, message: str) -> None:
        """Set a value aside and report it, unless the loader has reported it."""
        self._set_aside.append(path)
        problems = self._document.problems
        if value is UNUSABLE:
            problems.skip()
            return
        mark = locate(self._document.place, path, key=code == "field-unknown")
        problems.add(mark, path, code, message)


def _code_and_message(kind: type[ConfigValue], error: ErrorDetails) -> tuple[str, str]:
    if error["type"] == "extra_forbidden":
        known = ", ".join(sorted(shape.yaml_name for shape in field_shapes(kind)))
        return "field-unknown", f"unknown field {quote(str(error['loc'][-1]))}; known here: {known}"
    return error["type"], error["msg"]


def _without(fields: Mapping[str, Value], gone: set[Path]) -> dict[str, Value]:
    """Copy a mapping without some fields, and without some values of the mappings in it."""
    return {
        name: {key: item for key, item in value.items() if (name, key) not in gone} if type(value) is dict else value
        for name, value in fields.items()
        if (name,) not in gone
    }


class SetAside:
    """The values that were set aside; it decides which findings may follow from them."""

    __slots__ = ("_tree",)

    def __init__(self, paths: Iterable[Path]) -> None:
        #: The paths as a tree; a node without children was set aside.
        self._tree: Final[_Tree] = {}
        for path in paths:
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
        """Return whether a path leads into one of the values; with *around*, also to a container of one."""
        node = self._tree
        for part in path:
            if part not in node:
                return False
            node = node[part]
            if not node:
                return True
        return around

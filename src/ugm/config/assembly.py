"""Step two of reading a configuration: from plain data to the values of `ugm.configuration`.

Values are built from the innermost to the outermost, each mapping on its own: every problem is reported at once, and
too many problems end the reading. pydantic alone would collect all errors without a limit. A value that cannot be used
is set aside, and the rest is read as if it were not there.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar, cast

from pydantic import ValidationError

from ugm._config_fields import ConfigValue, FieldShape, field_shapes
from ugm._documents.builder import UNUSABLE, Value
from ugm._documents.loader import Document
from ugm._documents.places import Path
from ugm._spelling import did_you_mean
from ugm.config.findings import Finding
from ugm.config.model_documents import DocumentReader, document_reader, is_usable
from ugm.config.scalars import SCALARS, kind_of
from ugm.configuration import SchedulerConfig
from ugm.errors import quote

__all__ = ["Assembly", "SetAside"]

_Tree: TypeAlias = "dict[str | int, _Tree]"
_V = TypeVar("_V", bound=ConfigValue)


class Assembly:
    """Builds a configuration from a document."""

    __slots__ = ("_document", "_moved", "set_aside")

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
        read = document_reader(kind, data)
        if read is not None and data is not UNUSABLE:
            return cast("_V | None", self._read(read, data, path))
        if not isinstance(data, dict):
            self._refuse(path, data, "wrong-type", f"expected a mapping, found {kind_of(data)}")
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

    def _read(self, read: DocumentReader, data: Value, path: Path) -> ConfigValue | None:
        """Return the value of a document inside of the configuration."""
        if not is_usable(data):
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
            self._refuse(path, value, "wrong-type", f"expected a list, found {kind_of(value)}")
            return None
        # An item that cannot be used is emptied, to keep the others in place.
        if shape.nested is None:
            unknown = 0 if shape.kind is int else ""
            return tuple(self._scalar(shape, item, (*path, at)) or unknown for at, item in enumerate(value))
        empty = shape.nested()
        return tuple(self._value(shape.nested, item, (*path, at)) or empty for at, item in enumerate(value))

    def _scalar(self, shape: FieldShape, value: Value, path: Path) -> Value:
        """Return a scalar, None if it is invalid; of a mapping of scalars, return the valid ones."""
        try:
            return SCALARS[shape.kind].validate_python(value)
        except ValidationError as refused:
            errors = refused.errors(include_url=False)
        for error in errors:
            self._refuse((*path, *error["loc"]), error["input"], error["type"], error["msg"])
        invalid = {error["loc"] for error in errors}
        if () in invalid:
            return None
        return self._scalar(shape, {name: item for name, item in value.items() if (name,) not in invalid}, path)

    def _refuse(self, path: Path, value: Value, code: str, message: str) -> None:
        """Set a value aside and report it, unless the loader has reported it."""
        self.set_aside.add(path)
        if value is UNUSABLE:
            self._document.problems.skip()
            return
        self._document.report(path, code, message, key=code == "field-unknown")


class SetAside:
    """The values that were set aside; it decides which findings may follow from them."""

    __slots__ = ("_tree",)

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

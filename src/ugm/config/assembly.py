"""Data to models: the schema applied to what the loader has read.

Models are made from the innermost to the outermost, each on its own: whatever is wrong is reported at once, and too
much of it ends the reading. pydantic alone would go on to the end of the text and keep every error. What cannot be used
is set aside, and the rest is used as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ugm.config.findings import Finding
from ugm.config.loader import UNUSABLE, Document, Value
from ugm.config.places import Path, locate
from ugm.config.scalars import kind_of, quote
from ugm.config.schema import Model, SchedulerConfig

__all__ = ["Assembly", "SetAside"]

_Tree: TypeAlias = "dict[str | int, _Tree]"


class _Shape(NamedTuple):
    """What a field holds that is more than one value."""

    #: None for texts.
    model: type[Model] | None
    is_list: bool


def _shape(annotation: Any) -> _Shape | None:  # noqa: ANN401 - annotations are of any type
    """Return the shape of a field; None where a validator of its own reads it."""
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType]
    if get_origin(annotation) is tuple:
        return _Shape(kinds[0] if _is_model(kinds[0]) else None, is_list=True)
    if get_origin(kinds[0]) is tuple:
        return _shape(kinds[0])
    return _Shape(kinds[0], is_list=False) if _is_model(kinds[0]) else None


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Model)


def _shapes(model: type[Model], found: dict[type[Model], Mapping[str, _Shape]]) -> None:
    """Find the shapes of a model and of all models in it, by the names of fields in a file."""
    shapes = {str(field.validation_alias): _shape(field.annotation) for field in model.model_fields.values()}
    found[model] = {name: shape for name, shape in shapes.items() if shape}
    for shape in found[model].values():
        if shape.model and shape.model not in found:
            _shapes(shape.model, found)


_SHAPES: Final[dict[type[Model], Mapping[str, _Shape]]] = {}
_shapes(SchedulerConfig, _SHAPES)


class Assembly:
    """The making of a configuration from a document."""

    __slots__ = ("_document", "_set_aside")

    def __init__(self, document: Document) -> None:
        self._document: Final = document
        #: The paths of what was set aside.
        self._set_aside: Final[list[Path]] = []

    @property
    def set_aside(self) -> SetAside:
        """What could not be used."""
        return SetAside(self._set_aside)

    def config(self) -> SchedulerConfig | None:
        """Return the configuration, or None if nothing is left of the document.

        Raises:
            ConfigError: there are too many problems.
        """
        data = {} if self._document.data is None else self._document.data
        config = self._model(SchedulerConfig, data, ())
        return config if isinstance(config, SchedulerConfig) else None

    def _model(self, kind: type[Model], data: Value, path: Path) -> Model | None:
        if not isinstance(data, dict):
            self._refuse(path, data, "wrong-type", f"expected a mapping, found {kind_of(data)}")
            return None
        shapes = _SHAPES[kind]
        fields = {
            name: self._field(shapes[name], value, (*path, name)) if name in shapes and value is not None else value
            for name, value in data.items()
        }
        while True:
            try:
                return kind.model_validate(fields, by_alias=True, by_name=False)
            except ValidationError as errors:
                found = errors.errors(include_url=False)
            for error in found:
                self._refuse((*path, *error["loc"]), error["input"], *_sentence(kind, error))
            fields = _without(fields, {error["loc"] for error in found})

    def _field(self, shape: _Shape, value: Value, path: Path) -> Value:
        """Return the models or texts of a field, or None to leave it out."""
        if shape.model and not shape.is_list:
            return self._model(shape.model, value, path)
        if not isinstance(value, list):
            self._refuse(path, value, "wrong-type", f"expected a list, found {kind_of(value)}")
            return None
        if not shape.model:
            return tuple(self._text(item, (*path, at)) for at, item in enumerate(value))
        # An item that cannot be used is emptied, to keep the others in place.
        return tuple(self._model(shape.model, item, (*path, at)) or shape.model() for at, item in enumerate(value))

    def _text(self, item: Value, path: Path) -> str:
        if isinstance(item, str):
            return item
        self._refuse(path, item, "wrong-type", f"expected a text, found {kind_of(item)}")
        return ""

    def _refuse(self, path: Path, value: Value, code: str, message: str) -> None:
        """Set a value aside; report it, unless the loader has."""
        self._set_aside.append(path)
        problems = self._document.problems
        if value is UNUSABLE:
            problems.skip()
            return
        mark = locate(self._document.place, path, key=code == "field-unknown")
        problems.add(mark, path, code, message)


def _sentence(kind: type[Model], error: ErrorDetails) -> tuple[str, str]:
    """Say what is wrong with a value: the code, and a sentence."""
    if error["type"] == "extra_forbidden":
        known = ", ".join(sorted(kind.yaml_names()))
        return "field-unknown", f"unknown field {quote(str(error['loc'][-1]))}; known here: {known}"
    return error["type"], error["msg"]


def _without(fields: Mapping[str, Value], gone: set[Path]) -> dict[str, Value]:
    """Copy the fields of a mapping without some, and mappings in them without some values."""
    return {
        name: {key: item for key, item in value.items() if (name, key) not in gone} if type(value) is dict else value
        for name, value in fields.items()
        if (name,) not in gone
    }


class SetAside:
    """The values that were set aside, and whether a finding may follow from that."""

    __slots__ = ("_tree",)

    def __init__(self, paths: Iterable[Path]) -> None:
        #: Paths with a common beginning told once; what has nothing below it was set aside.
        self._tree: Final[_Tree] = {}
        for path in paths:
            node = self._tree
            for part in path:
                node = node.setdefault(part, {})

    def explains(self, finding: Finding) -> bool:
        """Tell whether a finding is about one of the values, or may follow from what it lacks."""
        if not self._tree:
            return False
        return self._within(finding.path) or any(
            self._within(source, around=True) for source in finding.sources or (finding.path,)
        )

    def _within(self, path: Path, *, around: bool = False) -> bool:
        """Tell whether a path leads into one of the values, or to something *around* one."""
        node = self._tree
        for part in path:
            if part not in node:
                return False
            node = node[part]
            if not node:
                return True
        return around

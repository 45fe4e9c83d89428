"""The schema of a configuration file: one pydantic model for each class of values in `ugm.configuration`.

The models are made from the fields of the values. A model knows the names that the fields have in a file, refuses other
names, and reads each scalar according to its annotation (see `ugm.config.scalars`). It is used for one mapping of a
file at a time, whose inner mappings have been read before; `ugm.config.assembly` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, create_model

from ugm._config_fields import ConfigValue, FieldShape, field_shapes
from ugm.config.scalars import to_boolean, to_choice, to_count, to_resource, to_text, to_texts, to_weights
from ugm.configuration import SchedulerConfig
from ugm.resources import Resource

__all__ = ["SCHEMAS", "FileSchema"]

#: The reader of a scalar or of a mapping of scalars.
_READERS: Final[Mapping[object, Callable[[object], object]]] = {
    str: to_text,
    int: to_count,
    bool: to_boolean,
    Resource: to_resource,
    Mapping[str, str]: to_texts,
    Mapping[str, float]: to_weights,
}


class FileSchema(BaseModel):
    """Base class of the models; the attributes of a model are the fields that a mapping of a file sets."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def read_fields(self) -> dict[str, Any]:
        """Return the fields that the mapping sets."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def _annotation(shape: FieldShape) -> object:
    if shape.nested is not None or shape.is_list:
        return Any
    if get_origin(shape.kind) is Literal:
        return Annotated[Any, PlainValidator(to_choice(*get_args(shape.kind)))]
    return Annotated[Any, PlainValidator(_READERS[shape.kind])]


def _schemas(kind: type[ConfigValue], made: dict[type[ConfigValue], type[FileSchema]]) -> None:
    """Make the models of a class of values and of all classes of its fields."""
    shapes = field_shapes(kind)
    described: dict[str, Any] = {
        each.name: (_annotation(each), Field(default=None, validation_alias=each.yaml_name)) for each in shapes
    }
    made[kind] = create_model(kind.__name__, __base__=FileSchema, **described)
    for shape in shapes:
        if shape.nested is not None and shape.nested not in made:
            _schemas(shape.nested, made)


#: The model of each class of values.
SCHEMAS: Final[dict[type[ConfigValue], type[FileSchema]]] = {}
_schemas(SchedulerConfig, SCHEMAS)

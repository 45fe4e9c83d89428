"""YAML text to values that know their place, with the loader of the configuration.

Every scalar stays a text until the schema gives it a type; a key given twice is refused. Importing this module loads
yaml, so it is imported when the first YAML document is read.
"""

from __future__ import annotations

from ugm.config.loader import Value, load
from ugm.config.places import ListPlace, MappingPlace, Place, line_and_column
from ugm.quotatree.json_text import Item, Mapped

__all__ = ["read_yaml"]


def read_yaml(text: str, file: str) -> Item:
    """Read a YAML text.

    Raises:
        ConfigError: the text is no YAML, or more than is read.
    """
    document = load(text, file)
    if document.problems:
        raise document.problems.error()
    return _item(document.data, document.place)


def _item(value: Value, place: Place) -> Item:
    if isinstance(place, MappingPlace) and isinstance(value, dict):
        entries = (
            Mapped(Item(key, *line_and_column(place.keys[key])), _item(value[key], place.values[key])) for key in value
        )
        return Item(tuple(entries), *line_and_column(place.mark))
    if isinstance(place, ListPlace) and isinstance(value, list):
        items = [_item(item, where) for item, where in zip(value, place.items, strict=True)]
        return Item(items, *line_and_column(place.mark))
    mark = place.mark if isinstance(place, (ListPlace, MappingPlace)) else place
    return Item(value, *line_and_column(mark), is_plain=True)

"""Paths into a configuration, and where they lead in the text.

The loader builds, beside the values, a tree of the same shape that holds only marks: the line and column of every value
and of every key. A path is turned into a line and a column when a problem is reported, never before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

__all__ = ["START", "ListPlace", "MappingPlace", "Mark", "Path", "Place", "format_path", "locate"]

#: The keys and list indices that lead from the top of a document to a value.
Path: TypeAlias = tuple[str | int, ...]


class Mark(Protocol):
    """A point in the text, counted from 0, as the YAML parser gives it."""

    @property
    def line(self) -> int:
        """Count the lines above."""

    @property
    def column(self) -> int:
        """Count the characters before it on its line."""


class ListPlace(NamedTuple):
    """Where a list and its items are."""

    mark: Mark
    items: Sequence[Place]


class MappingPlace(NamedTuple):
    """Where a mapping, its keys and their values are."""

    mark: Mark
    keys: Mapping[str, tuple[Mark, Place]]


#: The place of a scalar is its mark.
Place: TypeAlias = "Mark | ListPlace | MappingPlace"

#: The line and column of problems with a text as a whole.
START: Final = (1, 1)


def locate(place: Place, path: Path, *, key: bool = False) -> tuple[int, int]:
    """Return the line and the column of what a path leads to, or of the nearest thing above it that is in the text.

    Args:
        place: the place of the whole document.
        path: what to look for.
        key: whether the last key is wanted and not its value.
    """
    mark = _mark(place)
    for part in path:
        if isinstance(place, MappingPlace) and part in place.keys:
            key_mark, place = place.keys[str(part)]
            # A list or mapping is introduced by its key; a scalar speaks for itself.
            mark = key_mark if key or isinstance(place, ListPlace | MappingPlace) else _mark(place)
        elif isinstance(place, ListPlace) and isinstance(part, int) and part < len(place.items):
            place = place.items[part]
            mark = _mark(place)
        else:
            break
    return mark.line + 1, mark.column + 1


def _mark(place: Place) -> Mark:
    return place.mark if isinstance(place, ListPlace | MappingPlace) else place


def format_path(path: Path) -> str:
    """Write a path for people.

    >>> format_path(("partitions", 0, "queues", 2, "name"))
    'partitions[0].queues[2].name'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")

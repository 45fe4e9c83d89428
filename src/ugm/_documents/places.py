"""Paths into a configuration, and their places in the text.

In addition to the data, the loader builds a tree of the same shape that holds marks: the line and column of every value
and key. A path is converted to a line and a column only when a problem is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ugm.errors import cut

__all__ = [
    "START",
    "FilePlace",
    "ListPlace",
    "Location",
    "MappingPlace",
    "Mark",
    "Path",
    "Place",
    "format_path",
    "line_and_column",
    "locate",
    "mark_after",
    "mark_at",
    "mark_of",
    "value_at",
]

#: The keys and list indices that lead from the top of a document to a value.
Path: TypeAlias = tuple[str | int, ...]

#: A line and a column in one number. A large document has millions of marks. The garbage collector does not track
#: numbers; with objects of two fields, loading takes four times as long.
Mark: TypeAlias = int

#: The column takes the lower bits; no accepted text has a longer line.
_COLUMN_BITS: Final = 32

#: The characters that end a line; the first two together end one line.
_BREAKS: Final = ("\r", "\n", "\x85", "\u2028", "\u2029")

#: The beginning of a text.
START: Final[Mark] = 0


class ListPlace(NamedTuple):
    """The place of a list and of its items."""

    mark: Mark
    items: Sequence[Place]


class MappingPlace(NamedTuple):
    """The place of a mapping, of its keys and of their values."""

    mark: Mark
    keys: Mapping[str, Mark]
    values: Mapping[str, Place]


class FilePlace(NamedTuple):
    """The place of a value that is the content of another file."""

    #: The name of the file in problems.
    file: str
    place: Place

    @property
    def mark(self) -> Mark:
        """The beginning of the content."""
        return mark_of(self.place)


class Location(NamedTuple):
    """A position in one of the files of a configuration."""

    #: Empty for the configuration itself.
    file: str
    mark: Mark


#: The place of a scalar is its mark.
Place: TypeAlias = "Mark | ListPlace | MappingPlace | FilePlace"


def mark_at(line: int, column: int) -> Mark:
    """Return the mark of a line and a column, both counted from 0."""
    return line << _COLUMN_BITS | column


def mark_after(text: str) -> Mark:
    r"""Return the mark of the position after a text; lines end as in YAML 1.1.

    >>> line_and_column(mark_after("a\r\nb\x85cd"))
    (3, 3)
    """
    line = sum(map(text.count, _BREAKS)) - text.count("\r\n")
    return mark_at(line, len(text) - max(map(text.rfind, _BREAKS)) - 1)


def line_and_column(mark: Mark) -> tuple[int, int]:
    """Return the line and the column of a mark, both counted from 1.

    >>> line_and_column(mark_at(2, 0))
    (3, 1)
    """
    return (mark >> _COLUMN_BITS) + 1, (mark & (1 << _COLUMN_BITS) - 1) + 1


def mark_of(place: Place) -> Mark:
    """Return the mark of the beginning of a value."""
    return place if isinstance(place, int) else place.mark


def locate(place: Place, path: Path, *, key: bool = False) -> Location:
    """Return the location of a path, or of the longest beginning of the path that is in the text.

    A list or a mapping is located at its key, because its own beginning may be several lines below.

    Args:
        place: the place of the whole document.
        path: the path to locate.
        key: if true, locate the last key, not its value.
    """
    file, mark = "", mark_of(place)
    for part in path:
        if isinstance(place, MappingPlace) and isinstance(part, str) and part in place.values:
            key_mark, place = place.keys[part], place.values[part]
            mark = place if isinstance(place, int) and not key else key_mark
        elif isinstance(place, ListPlace) and isinstance(part, int) and part < len(place.items):
            place = place.items[part]
            mark = mark_of(place)
        else:
            break
        if isinstance(place, FilePlace):
            file, place = place
            mark = mark_of(place)
    return Location(file, mark)


def value_at(data: object, place: Place, path: Path) -> tuple[str, object, Place]:
    """Return the file, the value and the place at a path that exists."""
    file = ""
    for part in path:
        container: Any = data
        data = container[part]
        if isinstance(place, MappingPlace):
            place = place.values[str(part)]
        elif isinstance(place, ListPlace) and isinstance(part, int):
            place = place.items[part]
        if isinstance(place, FilePlace):
            file, place = place
    return file, data, place


def format_path(path: Path) -> str:
    """Format a path for people; long keys are truncated.

    >>> format_path(("partitions", 0, "queues", 2, "name"))
    'partitions[0].queues[2].name'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in path).removeprefix(".")

"""Paths into a configuration, and where they lead in the text.

The loader builds, beside the values, a tree of the same shape that holds only marks: the line and column of
every value and of every key. A path is turned into a line and a column when a problem is reported, never before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "START",
    "ListPlace",
    "MappingPlace",
    "Mark",
    "Path",
    "Place",
    "cut",
    "format_path",
    "line_and_column",
    "locate",
    "mark_after",
    "mark_at",
    "mark_of",
]

#: The keys and list indices that lead from the top of a document to a value.
Path: TypeAlias = tuple[str | int, ...]

#: A line and a column in one number. A large document has millions of them, and numbers alone are of no concern to
#: the garbage collector: with objects of two fields, loading takes four times as long.
Mark: TypeAlias = int

#: Columns take the lower bits; no text that is read has a longer line.
_COLUMN_BITS: Final = 32

#: What ends a line, beside the two first together.
_BREAKS: Final = ("\r", "\n", "\x85", "\u2028", "\u2029")

#: How much of a key a path shows.
_LONG: Final = 64

#: The beginning of a text.
START: Final[Mark] = 0


class ListPlace(NamedTuple):
    """Where a list and its items are."""

    mark: Mark
    items: Sequence[Place]


class MappingPlace(NamedTuple):
    """Where a mapping, its keys and their values are."""

    mark: Mark
    keys: Mapping[str, Mark]
    values: Mapping[str, Place]


#: The place of a scalar is its mark.
Place: TypeAlias = "Mark | ListPlace | MappingPlace"


def mark_at(line: int, column: int) -> Mark:
    """Return the mark of a line and a column, both counted from 0."""
    return line << _COLUMN_BITS | column


def mark_after(text: str) -> Mark:
    r"""Return the mark of what follows a text; lines end where YAML 1.1 ends them.

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
    """Return the mark where a value begins."""
    return place if isinstance(place, int) else place.mark


def locate(place: Place, path: Path, *, key: bool = False) -> Mark:
    """Find what a path leads to, or the nearest thing above it that is in the text.

    A list or a mapping is found at the key that introduces it, since its own beginning may be lines below.

    Args:
        place: the place of the whole document.
        path: what to look for.
        key: whether the last key is wanted and not its value.
    """
    mark = mark_of(place)
    for part in path:
        if isinstance(place, MappingPlace) and isinstance(part, str) and part in place.values:
            key_mark, place = place.keys[part], place.values[part]
            mark = place if isinstance(place, int) and not key else key_mark
        elif isinstance(place, ListPlace) and isinstance(part, int) and part < len(place.items):
            place = place.items[part]
            mark = mark_of(place)
        else:
            break
    return mark


def format_path(path: Path) -> str:
    """Write a path for people; long keys are cut.

    >>> format_path(("partitions", 0, "queues", 2, "name"))
    'partitions[0].queues[2].name'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in path).removeprefix(".")


def cut(text: str, length: int = _LONG) -> str:
    """Return a text, or the beginning of a long one.

    >>> cut("ana"), len(cut("a" * 1000))
    ('ana', 67)
    """
    return str(text) if len(text) <= length else f"{text[:length]}..."

"""The inclusion of files: elastic groups and quota trees that are in files of their own.

At some places below the partition key ``ugm``, a mapping with only the key ``file`` stands for the content of a file in
YAML or JSON. The content replaces the mapping before the values are built. So each problem in it has the name, the line
and the column of that file, and all later steps need not know that there are several files.

Only a configuration that was read from a file may include others. A text from elsewhere, for example from a client of a
server, could otherwise read any file of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, TypeAlias

from ugm._documents.builder import UNUSABLE, Value
from ugm._documents.loader import MAX_BYTES, Document
from ugm._documents.located import load_any
from ugm._documents.places import FilePlace, ListPlace, MappingPlace, Path, Place
from ugm._documents.problems import Problems
from ugm.errors import ConfigError, quote

__all__ = ["FILE_KEY", "FileReader", "include_files", "reader_in"]

#: Returns the text of a file that a configuration names, and the name of the file in problems.
FileReader: TypeAlias = Callable[[str], tuple[str, str]]

#: Stands for every item of a list.
_EACH: Final = object()
#: The places where a file may be included.
_PLACES: Final[tuple[tuple[object, ...], ...]] = (
    ("partitions", _EACH, "ugm", "elastic", "groups", _EACH),
    ("partitions", _EACH, "ugm", "quotatrees", _EACH, "tree"),
)
#: The key of a file that is included.
FILE_KEY: Final = "file"

_Placed: TypeAlias = tuple[Value, Place]


def reader_in(folder: str, named: list[str] | None = None) -> FileReader:
    """Return a function that reads files whose names are relative to a folder, and appends the names to a list."""

    def read(name: str) -> tuple[str, str]:
        file = os.path.join(folder, name)  # noqa: PTH118 - the name stays as it was written
        if named is not None:
            named.append(file)
        with FilePath(file).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        return content.decode("utf-8-sig"), file

    return read


def include_files(document: Document, read: FileReader | None) -> Document:
    """Return a document in which the content of the named files has replaced their names.

    Args:
        document: the document; its problems are those of the result.
        read: reads the files; None if no file may be included.

    Raises:
        ConfigError: there are too many problems.
    """
    inclusion = _Inclusion(document, read)
    data, place = document.data, document.place
    for pattern in _PLACES:
        data, place = _replaced(data, place, pattern, (), inclusion.content)
    return Document(data, place, document.problems)


def _replaced(
    data: Value,
    place: Place,
    pattern: Sequence[object],
    path: Path,
    content: Callable[[Value, Place, Path], list[_Placed]],
) -> _Placed:
    """Return data in which the values at the places of a pattern are replaced; containers are copied, not changed."""
    part, rest = pattern[0], pattern[1:]
    if part is _EACH and isinstance(data, list) and isinstance(place, ListPlace):
        items: list[_Placed] = []
        for at, pair in enumerate(zip(data, place.items, strict=True)):
            below = (*path, at)
            items += [_replaced(*pair, rest, below, content)] if rest else content(*pair, below)
        return [item for item, _ in items], ListPlace(place.mark, [each for _, each in items])
    if isinstance(part, str) and isinstance(data, dict) and isinstance(place, MappingPlace) and part in data:
        given, below = (data[part], place.values[part]), (*path, part)
        found = _replaced(*given, rest, below, content) if rest else content(*given, below)[0]
        return {**data, part: found[0]}, place._replace(values={**place.values, part: found[1]})
    return data, place


class _Inclusion:
    """Reads the files of one document."""

    def __init__(self, document: Document, read: FileReader | None) -> None:
        self._document: Final = document
        self._read: Final = read
        self._problems: Final[Problems] = document.problems

    def content(self, data: Value, place: Place, path: Path) -> list[_Placed]:
        """Return the values that a value stands for: itself, or those in a file."""
        if not isinstance(data, dict) or set(data) != {FILE_KEY} or not isinstance(data[FILE_KEY], str):
            return [(data, place)]
        found = self._included(str(data[FILE_KEY]), (*path, FILE_KEY))
        if found is None:
            return [(UNUSABLE, place)]
        file, value, placed = found
        if path[-1] == "tree":
            return [(value, FilePlace(file, placed))]
        return [(item, FilePlace(file, each)) for item, each in _items(value, placed)]

    def _included(self, name: str, path: Path) -> tuple[str, Value, Any] | None:
        try:
            if self._read is None:
                self._refuse(path, "file-not-allowed", "only a configuration that is a file may name other files")
                return None
            text, file = self._read(name)
            loaded = load_any(text, file)
        except ConfigError as error:
            self._problems.include(error.problems)
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._refuse(path, "file-unreadable", f"the file {quote(name)} cannot be read: {reason}")
            return None
        if loaded.problems:
            self._problems.include(loaded.problems.error().problems)
        return file, loaded.data, loaded.place

    def _refuse(self, path: Path, code: str, message: str) -> None:
        self._document.report(path, code, message)


def _items(data: Value, place: Place) -> Iterator[_Placed]:
    """Yield the groups of a file: the items of a list or of a Kubernetes list, or the one group that it contains."""
    if isinstance(data, dict) and isinstance(place, MappingPlace) and isinstance(data.get("items"), list):
        data, place = data["items"], place.values["items"]
    if isinstance(data, list) and isinstance(place, ListPlace):
        yield from zip(data, place.items, strict=True)
    else:
        yield data, place

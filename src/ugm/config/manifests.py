"""Configurations inside of other YAML files: a ConfigMap of Kubernetes, a list of objects, or the values of Helm.

In such a file, the configuration is a text below a key such as ``queues.yaml``. The text is read in place: the lines
around it are replaced by empty ones, so that every problem has the line and the column of the outer file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ugm._documents.builder import Quoted, Value
from ugm._documents.loader import Document, load, refusal
from ugm._documents.places import START, ListPlace, MappingPlace, Path, Place, format_path, line_and_column, mark_of
from ugm.errors import ConfigError, quote

__all__ = ["LINE_END", "load_config_document"]

#: The ends of lines of YAML.
LINE_END: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
#: The key of a configuration.
_CONFIG: Final = re.compile(r"^\s*[\"']?partitions[\"']?\s*:", re.MULTILINE)
_KEYS: Final = (".yaml", ".yml", ".json")
_NEXT_DOCUMENT: Final = re.compile(r"---(?=\s|$)")
#: The key of a configuration that is not inside of another file.
_PARTITIONS: Final = "partitions"


class _Text(NamedTuple):
    """A configuration inside of another file."""

    path: Path
    text: str
    #: The line of the value, from 0.
    line: int


def load_config_document(text: str, file: str) -> Document:
    """Read the document with a configuration: the text itself, or the one text inside of it.

    Raises:
        ConfigError: the text is not valid YAML, or contains several configurations.
    """
    document = load(text, file)
    if not isinstance(document.data, dict) or _PARTITIONS in document.data or not _CONFIG.search(text):
        return document
    lines = LINE_END.split(text)
    found = [one for part in _documents(document, lines, file) for one in _inside(part.data, part.place, ())]
    if not found:
        return document
    if len(found) > 1:
        keys = ", ".join(quote(format_path(one.path)) for one in found)
        raise refusal(file, START, "config-ambiguous", f"the file contains {len(found)} configurations: {keys}")
    return load(_in_place(found[0], lines), file)


def _documents(document: Document, lines: list[str], file: str) -> Iterator[Document]:
    """Yield the documents of a file; those that cannot be read contain no configuration."""
    starts = [number for number, line in enumerate(lines) if _NEXT_DOCUMENT.match(line)]
    if not starts:
        yield document
        return
    for start, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        try:
            yield load("\n" * start + "\n".join(lines[start:end]), file)
        except ConfigError:
            continue


def _inside(data: Value, place: Place, path: Path) -> Iterator[_Text]:
    """Yield the configurations in the texts of a document."""
    if isinstance(data, dict) and isinstance(place, MappingPlace):
        for key, value in data.items():
            below = place.values[key]
            if isinstance(value, Quoted) and key.endswith(_KEYS) and _CONFIG.search(value):
                yield _Text((*path, key), str(value), line_and_column(mark_of(below))[0] - 1)
            else:
                yield from _inside(value, below, (*path, key))
    elif isinstance(data, list) and isinstance(place, ListPlace):
        for index, (value, below) in enumerate(zip(data, place.items, strict=True)):
            yield from _inside(value, below, (*path, index))


def _in_place(found: _Text, lines: list[str]) -> str:
    """Return the text at its lines of the file; a text in quotes, whose lines are others, begins at its line."""
    inner = found.text.rstrip("\n").split("\n")
    first = found.line + 1
    outer = lines[first : first + len(inner)]
    if [line.strip() for line in outer] == [line.strip() for line in inner]:
        return "\n" * first + "\n".join(outer)
    return "\n" * found.line + found.text

"""The construction of plain data and places from the events of a YAML parser, for `ugm._documents.loader`.

Problem
    A configuration comes from outside. It may be nested too deeply for recursion, its aliases may stand for far more
    values than its text has, and one mistake must not hide the others.

Idea
    The events are processed in one pass, without recursion: lists and mappings that have begun and not ended are on a
    stack. Scalars stay texts, because only the schema knows their types: a `Quoted` text if quotes or a tag mark it as
    a text, and None for the plain words that mean null.

Invariant
    Data and places have the same shape. A key or value that cannot be used has been reported and is represented by
    `UNUSABLE`; so the rest of the document is still built and checked.

Cost
    Time and memory are linear in the text and in the values that aliases stand for. Both are bounded (`MAX_VALUES`,
    `MAX_COLLECTIONS`, `MAX_KEYS`, `MAX_ALIASED`, `MAX_DEPTH`); a text beyond a bound is rejected before more is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from ugm._documents.places import (
    START,
    ListPlace,
    MappingPlace,
    Mark,
    Place,
    line_and_column,
    mark_at,
    mark_of,
)
from ugm._documents.problems import Problems
from ugm.errors import quote

__all__ = [
    "MAX_ALIASED",
    "MAX_COLLECTIONS",
    "MAX_DEPTH",
    "MAX_KEYS",
    "MAX_VALUES",
    "UNUSABLE",
    "Builder",
    "Quoted",
    "Value",
    "duplicate_key",
    "mark_in",
    "not_text",
    "surrogate_in",
]

#: The maximum number of keys, scalars, lists and mappings of a text; 25,000 limits have 325,000.
MAX_VALUES: Final = 500_000
#: The maximum number of lists and mappings of a text; each costs as much as ten scalars. 25,000 limits have 75,000.
MAX_COLLECTIONS: Final = 100_000
#: The maximum number of keys of a mapping; real mappings have a few resources, properties or fields.
MAX_KEYS: Final = 256
#: The maximum number of values that all aliases together stand for; each `_LONG` characters of a scalar count as one
#: more.
MAX_ALIASED: Final = 100_000
#: The maximum nesting depth of lists and mappings; a queue takes two levels.
MAX_DEPTH: Final = 100

#: Represents a value that cannot be used; the reason has been reported.
UNUSABLE: Final = object()

_LONG: Final = 64
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = frozenset(_TAG + name for name in ("null", "bool", "int", "float"))
_TEXT_TAGS: Final = frozenset({_TAG + "str", "!"})
_LIST_TAGS: Final = frozenset({None, _TAG + "seq", "!"})
_MAPPING_TAGS: Final = frozenset({None, _TAG + "map", "!"})
_MERGE: Final = "<<"
#: Represents the merge key of a mapping.
_MERGING: Final = object()

#: A mapping, a list, a text, None or `UNUSABLE`.
Value: TypeAlias = Any


class Quoted(str):
    """A scalar in quotes or in a block: never a number, a boolean or null."""

    __slots__ = ()


class _Event(Protocol):
    """An event of the YAML parser: the beginning of a value, or an alias."""

    start_mark: yaml.Mark
    anchor: str | None
    tag: str | None
    #: Only of a scalar.
    value: str
    #: Only of a scalar: its quotation marks, or the indicator of a block.
    style: str | None


def mark_in(mark: yaml.Mark | None) -> Mark:
    """Return the mark of a position of the parser."""
    return START if mark is None else mark_at(mark.line, mark.column)


def not_text(character: str) -> str:
    """Return the message about a character that YAML does not allow."""
    return f"the character U+{ord(character):04X} is not allowed in a text"


def surrogate_in(text: str) -> str | None:
    """Return a lone surrogate in a text; None if there is none. It cannot be encoded in UTF-8."""
    found = _SURROGATE.search(text)
    return None if found is None else found[0]


def duplicate_key(key: str, first: Mark) -> str:
    """Return the message about a key that a mapping has twice."""
    line, _ = line_and_column(first)
    return f"the key {quote(key)} is given twice, first in line {line}"


@dataclass(slots=True, eq=False)
class _Open:
    """A list or mapping that has begun and not ended."""

    mark: Mark
    anchor: str | None
    #: A dictionary or a list, and the places of its items.
    items: Value
    places: Value
    #: Of a mapping: the place of each key; None for a list.
    keys: dict[str, Mark] | None
    #: False if its tag is unknown.
    usable: bool
    #: Of a mapping: the key whose value comes next, `_MERGING`, or `UNUSABLE` to drop the value; None before a key.
    key: Value = None
    key_mark: Mark = START
    #: The mappings of the merge key; None before there is one.
    merged: list[tuple[dict[str, Value], MappingPlace]] | None = None
    #: The number of values that an alias of it stands for.
    size: int = 1


@dataclass(slots=True, eq=False)
class Builder:
    """Builds the data and the places of one document from the events of a parser."""

    problems: Problems
    data: Value = None
    place: Place = START
    #: From the outermost to the innermost.
    open: list[_Open] = field(default_factory=list)
    #: Value, place and size; None while the anchored value is not finished.
    anchors: dict[str, tuple[Value, Place, int] | None] = field(default_factory=dict)
    #: The number of values so far, of lists and mappings among them, and of the values that aliases stand for.
    values: int = 0
    collections: int = 0
    aliased: int = 0

    def report(self, mark: Mark, code: str, message: str) -> None:
        """Record a problem at the current path."""
        self.problems.add(mark, tuple(self._path()), code, message)

    def _path(self) -> Iterator[str | int]:
        """Yield the path of the next value; if a key comes next, the path of its mapping."""
        for opened in self.open:
            if opened.keys is None:
                yield len(opened.items)
            elif isinstance(opened.key, str):
                yield opened.key

    def refuse(self, mark: Mark, code: str, message: str) -> NoReturn:
        """Record a problem and stop reading.

        Raises:
            ConfigError: always.
        """
        self.report(mark, code, message)
        raise self.problems.error() from None

    def refuse_depth(self, mark: Mark) -> NoReturn:
        """Refuse a document that is nested too deep.

        Args:
            mark: the place of a collection beyond the bound.

        Raises:
            ConfigError: always.
        """
        self.refuse(mark, "yaml-too-deep", f"lists and mappings are nested more than {MAX_DEPTH} levels deep")

    def build(self, next_event: Callable[[], Value]) -> None:
        """Build the first document; a second document is a problem."""
        documents = 0
        while True:
            event = next_event()
            kind = type(event)
            if kind is ScalarEvent:
                self._scalar(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._begin(event, mapping=kind is MappingStartEvent)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._end()
            elif kind is AliasEvent:
                self._alias(event)
            elif kind is DocumentStartEvent:
                documents += 1
                if documents > 1:
                    message = "a second document begins here (allowed: one document)"
                    self.report(mark_in(event.start_mark), "yaml-second-document", message)
                    return
            elif kind is StreamEndEvent:
                return

    def _scalar(self, event: _Event) -> None:
        value: Value = event.value
        at = event.start_mark
        mark = mark_at(at.line, at.column)
        if event.tag is not None:
            value = self._tagged(event, mark)
        elif event.style:
            value = self._quoted(value, mark)
        elif value in _NULLS and not self._expects_key():
            value = None
        size = 1 + len(event.value) // _LONG
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, mark, size)
        self._add(value, mark, size)

    def _quoted(self, value: str, mark: Mark) -> Value:
        # The parser in Python accepts the escape of a surrogate; the one in C does not.
        if found := surrogate_in(value):
            self.report(mark, "text-invalid", not_text(found))
            return UNUSABLE
        return Quoted(value)

    def _tagged(self, event: _Event, mark: Mark) -> Value:
        """Apply a tag; the known tags agree with the schema or mark a text."""
        if event.tag in _TEXT_TAGS:
            return self._quoted(event.value, mark)
        if event.tag in _PLAIN_TAGS:
            return None if event.value in _NULLS else event.value
        self._report_tag(event, mark)
        return UNUSABLE

    def _report_tag(self, event: _Event, mark: Mark) -> None:
        message = f"unknown tag {quote(str(event.tag))} (allowed: null, bool, int, float, str, seq and map)"
        self.report(mark, "yaml-tag-unknown", message)

    def _begin(self, event: _Event, *, mapping: bool) -> None:
        mark = mark_in(event.start_mark)
        if len(self.open) == MAX_DEPTH:
            self.refuse_depth(mark)
        self.collections += 1
        if self.collections > MAX_COLLECTIONS:
            self.refuse(mark, "yaml-too-many-values", f"there are more than {MAX_COLLECTIONS} lists and mappings")
        usable = event.tag in (_MAPPING_TAGS if mapping else _LIST_TAGS)
        if not usable:
            self._report_tag(event, mark)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        parts: tuple[Value, Value, dict[str, Mark] | None] = ({}, {}, {}) if mapping else ([], [], None)
        self.open.append(_Open(mark, event.anchor, *parts, usable))

    def _end(self) -> None:
        closed = self.open.pop()
        place: Place
        if closed.keys is None:
            place = ListPlace(closed.mark, closed.places)
        else:
            _merge(closed, closed.keys)
            self._check_keys(closed.keys, closed.mark)
            place = MappingPlace(closed.mark, closed.keys, closed.places)
        value = closed.items if closed.usable else UNUSABLE
        if closed.anchor is not None:
            self.anchors[closed.anchor] = (value, place, closed.size)
        self._add(value, place, closed.size)

    def _alias(self, event: _Event) -> None:
        name, mark = str(event.anchor), mark_in(event.start_mark)
        anchored = self.anchors.get(name)
        if anchored is None:
            if name in self.anchors:
                self.report(mark, "yaml-alias-recursive", f"the anchor {quote(name)} contains itself")
            else:
                self.report(
                    mark,
                    "yaml-alias-unknown",
                    f"no anchor {quote(name)} precedes its alias; quote a text that begins with *",
                )
            anchored = (UNUSABLE, mark, 1)
        value, place, size = anchored
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            self.refuse(mark, "yaml-aliases-too-large", f"the aliases stand for more than {MAX_ALIASED} values")
        self._add(value, place, size)

    def _expects_key(self) -> bool:
        return bool(self.open) and self.open[-1].key is None and self.open[-1].keys is not None

    def _add(self, value: Value, place: Place, size: int) -> None:
        """Add a finished value: as the document, or as an item, a key or a value of the open list or mapping."""
        self.values += 1
        if self.values > MAX_VALUES:
            self.refuse(mark_of(place), "yaml-too-many-values", f"there are more than {MAX_VALUES} values")
        if not self.open:
            self.data, self.place = value, place
            return
        inner = self.open[-1]
        inner.size += size
        if inner.keys is None:
            inner.items.append(value)
            inner.places.append(place)
        elif inner.key is None:
            self._add_key(inner, inner.keys, value, mark_of(place))
        else:
            self._add_value(inner, inner.keys, value, place)

    def _add_key(self, inner: _Open, keys: dict[str, Mark], key: Value, mark: Mark) -> None:
        inner.key, inner.key_mark = key, mark
        if not isinstance(key, str):
            inner.key = UNUSABLE
            if key is not UNUSABLE:
                self.report(mark, "yaml-key-invalid", "a key must be a text, not a list, a mapping or null")
        elif key == _MERGE and not isinstance(key, Quoted):
            inner.key = _MERGING
            if inner.merged is not None:
                message = "the merge key is given twice (allowed: once, with a list of mappings)"
                self.report(mark, "yaml-key-duplicate", message)
        elif key in keys:
            self.report(mark, "yaml-key-duplicate", duplicate_key(key, keys[key]))
            inner.key = UNUSABLE

    def _add_value(self, inner: _Open, keys: dict[str, Mark], value: Value, place: Place) -> None:
        key, inner.key = inner.key, None
        if key is UNUSABLE:
            return
        if key is _MERGING:
            self._add_merged(inner, value, place)
            return
        keys[key] = inner.key_mark
        self._check_keys(keys, inner.key_mark)
        inner.items[key] = value
        inner.places[key] = place

    def _check_keys(self, keys: dict[str, Mark], mark: Mark) -> None:
        if len(keys) > MAX_KEYS:
            self.refuse(mark, "yaml-too-many-keys", f"a mapping has more than {MAX_KEYS} keys")

    def _add_merged(self, inner: _Open, value: Value, place: Place) -> None:
        """Record the value of the merge key: a mapping, or a list of mappings, the first of which takes precedence."""
        inner.merged = inner.merged or []
        sources: list[tuple[Value, Place]] = [(value, place)]
        if isinstance(value, list) and isinstance(place, ListPlace):
            sources = list(zip(value, place.items, strict=True))
        for mapping, mapping_place in sources:
            if isinstance(mapping, dict) and isinstance(mapping_place, MappingPlace):
                inner.merged.append((mapping, mapping_place))
            elif mapping is not UNUSABLE:
                message = "the value of a merge key must be a mapping or a list of mappings"
                self.report(inner.key_mark, "yaml-merge-invalid", message)


def _merge(closed: _Open, keys: dict[str, Mark]) -> None:
    """Copy the keys of the merged mappings that a mapping does not have itself."""
    for items, place in closed.merged or ():
        for key, value in items.items():
            if key not in closed.items:
                closed.items[key] = value
                closed.places[key] = place.values[key]
                keys[key] = place.keys[key]

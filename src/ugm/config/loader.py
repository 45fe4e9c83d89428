"""YAML text to plain data, with the place of every value.

One pass over the events of the parser, without recursion, builds mappings, lists and scalars, and beside them a tree of
marks. Scalars stay text: `Quoted` where quotes or a tag say that it is one, None for the plain words for nothing.

What cannot be data, or would be too much of it, is refused before it is built: size, depth, and how much aliases stand
for. Keys and values that cannot be used are problems; loading goes on with `UNUSABLE` in their stead, so that one run
finds as much as it can.

This module knows nothing of queues and limits.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, cast

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

from ugm.config.places import ListPlace, MappingPlace, Mark, Place
from ugm.config.scalars import Quoted, quote
from ugm.errors import ConfigError, Problem

__all__ = ["MAX_ALIASED", "MAX_BYTES", "MAX_DEPTH", "UNUSABLE", "Document", "load"]

#: The largest text that is read, in bytes: some hundred thousand limits.
MAX_BYTES: Final = 16 * 2**20
#: How deep lists and mappings may be nested; a queue costs two levels.
MAX_DEPTH: Final = 100
#: How many values all aliases together may stand for.
MAX_ALIASED: Final = 100_000

#: Stands where a value cannot be used, for a reason that has been reported.
UNUSABLE: Final = object()

#: What YAML does not allow in a text, in quotes or out of them.
_NOT_TEXT: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = frozenset(_TAG + name for name in ("null", "bool", "int", "float"))
_TEXT_TAGS: Final = frozenset({_TAG + "str", "!"})
_LIST_TAGS: Final = frozenset({None, _TAG + "seq", "!"})
_MAPPING_TAGS: Final = frozenset({None, _TAG + "map", "!"})
_MERGE: Final = "<<"
#: The slower parser in Python is the same parser.
_Parser: Final = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))

Value: TypeAlias = Any


class Document(NamedTuple):
    """What a text holds."""

    data: Value
    place: Place
    problems: list[Problem]


class _Start(NamedTuple):
    """The place of a text without anything in it."""

    line: int = 0
    column: int = 0


def load(text: str, file: str) -> Document:
    """Read a YAML document.

    Args:
        text: the document.
        file: its name, for problems.

    Raises:
        ConfigError: the text is no YAML, or more than is read; nothing of it can be judged.
    """
    _check_text(text, file)
    builder = _Builder(file)
    parser = _Parser(text)
    try:
        builder.build(parser)
    except yaml.MarkedYAMLError as error:
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        builder.refuse(
            error.problem_mark or error.context_mark or _Start(), "yaml-syntax", f"no YAML: {reason}"
        )
    except ValueError as error:
        # The parser in Python lets slip what `chr` says of an escape beyond Unicode.
        builder.refuse(_Start(), "yaml-syntax", f"no YAML: {error}")
    finally:
        parser.dispose()
    return Document(builder.data, builder.place, builder.problems)


def _check_text(text: str, file: str) -> None:
    # Only a text near the bound is encoded to be measured.
    if len(text) > MAX_BYTES // 4 and len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise ConfigError(
            (Problem(file, 1, 1, "", "text-too-large", f"the text is larger than {MAX_BYTES} bytes"),)
        )
    if found := _NOT_TEXT.search(text):
        before = text[: found.start()]
        line, column = before.count("\n") + 1, found.start() - before.rfind("\n")
        message = f"the character U+{ord(found[0]):04X} does not belong in a text"
        raise ConfigError((Problem(file, line, column, "", "text-invalid", message),))


class _Open:
    """A list or mapping that has begun and not ended."""

    __slots__ = ("anchor", "items", "key", "key_mark", "mark", "merged", "places", "size")

    def __init__(self, mark: Mark, anchor: str | None, *, mapping: bool) -> None:
        self.mark = mark
        self.anchor = anchor
        #: A dictionary or a list, and beside it the places of what is in it.
        self.items: Any = {} if mapping else []
        self.places: Any = {} if mapping else []
        #: In a mapping: the key whose value comes next, `UNUSABLE` if that value is dropped, None before a key.
        self.key: Any = None
        self.key_mark = mark
        #: What the merge key brings, or None without one.
        self.merged: list[tuple[dict[str, Value], MappingPlace]] | None = None
        #: How many values it stands for.
        self.size = 1


class _Builder:
    """Turns events into values."""

    __slots__ = ("aliased", "anchors", "data", "file", "open", "place", "problems")

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.data: Value = None
        self.place: Place = _Start()
        #: From the outermost to the innermost.
        self.open: list[_Open] = []
        #: Value, place and size; None while the anchored value is not finished.
        self.anchors: dict[str, tuple[Value, Place, int] | None] = {}
        #: How many values the aliases so far stand for.
        self.aliased = 0

    def report(self, mark: Mark, code: str, message: str) -> None:
        """Note a problem and go on."""
        self.problems.append(Problem(self.file, mark.line + 1, mark.column + 1, "", code, message))

    def refuse(self, mark: Mark, code: str, message: str) -> NoReturn:
        """Give up on the text."""
        self.report(mark, code, message)
        raise ConfigError(tuple(sorted(self.problems))) from None

    def build(self, parser: Any) -> None:
        """Read the first document; there must not be a second."""
        documents = 0
        while True:
            event = parser.get_event()
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
                    self.report(
                        event.start_mark, "yaml-second-document", "a second document begins; only one is read"
                    )
                    return
            elif kind is StreamEndEvent:
                return

    def _scalar(self, event: Any) -> None:
        value: Value = event.value
        if event.tag is not None:
            value = self._tagged(event)
        elif event.style:
            value = Quoted(value)
        elif value in _NULLS and not self._expects_key():
            value = None
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, event.start_mark, 1)
        self._add(value, event.start_mark, 1)

    def _tagged(self, event: Any) -> Value:
        """Obey the tags that say no more than the schema does."""
        if event.tag in _TEXT_TAGS:
            return Quoted(event.value)
        if event.tag in _PLAIN_TAGS:
            return None if event.value in _NULLS else event.value
        self._report_tag(event)
        return UNUSABLE

    def _report_tag(self, event: Any) -> None:
        self.report(event.start_mark, "yaml-tag-unknown", f"the tag {quote(event.tag)} means nothing here")

    def _begin(self, event: Any, *, mapping: bool) -> None:
        if len(self.open) == MAX_DEPTH:
            self.refuse(
                event.start_mark, "yaml-too-deep", f"lists and mappings are more than {MAX_DEPTH} deep"
            )
        if event.tag not in (_MAPPING_TAGS if mapping else _LIST_TAGS):
            self._report_tag(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.open.append(_Open(event.start_mark, event.anchor, mapping=mapping))

    def _end(self) -> None:
        closed = self.open.pop()
        place: Place
        if isinstance(closed.items, dict):
            _merge(closed)
            place = MappingPlace(closed.mark, closed.places)
        else:
            place = ListPlace(closed.mark, closed.places)
        if closed.anchor is not None:
            self.anchors[closed.anchor] = (closed.items, place, closed.size)
        self._add(closed.items, place, closed.size)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        anchored = self.anchors.get(name)
        if anchored is None:
            if name in self.anchors:
                self.report(
                    event.start_mark, "yaml-alias-recursive", f"the anchor {quote(name)} contains itself"
                )
            else:
                self.report(
                    event.start_mark, "yaml-alias-unknown", f"no anchor {quote(name)} stands before its alias"
                )
            anchored = (UNUSABLE, event.start_mark, 1)
        value, place, size = anchored
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            message = f"the aliases stand for more than {MAX_ALIASED} values"
            self.refuse(event.start_mark, "yaml-aliases-too-large", message)
        self._add(value, place, size)

    def _expects_key(self) -> bool:
        return bool(self.open) and self.open[-1].key is None and isinstance(self.open[-1].items, dict)

    def _add(self, value: Value, place: Place, size: int) -> None:
        """Put a finished value where it belongs: it is an item, a key, the value of a key, or the document."""
        if not self.open:
            self.data, self.place = value, place
            return
        inner = self.open[-1]
        inner.size += size
        if isinstance(inner.items, list):
            inner.items.append(value)
            inner.places.append(place)
        elif inner.key is None:
            self._add_key(inner, value, place)
        else:
            self._add_value(inner, value, place)

    def _add_key(self, inner: _Open, key: Value, place: Place) -> None:
        inner.key_mark = place.mark if isinstance(place, ListPlace | MappingPlace) else place
        inner.key = key
        if not isinstance(key, str):
            inner.key = UNUSABLE
            if key is not UNUSABLE:
                self.report(
                    inner.key_mark, "yaml-key-invalid", "a key is a text, not a list, a mapping or nothing"
                )
        elif key in inner.places:
            message = f"the key {quote(key)} is given twice, first in line {inner.places[key][0].line + 1}"
            self.report(inner.key_mark, "yaml-key-duplicate", message)
            inner.key = UNUSABLE

    def _add_value(self, inner: _Open, value: Value, place: Place) -> None:
        key, inner.key = inner.key, None
        if key is UNUSABLE:
            return
        if key == _MERGE and not isinstance(key, Quoted):
            self._add_merged(inner, value, place)
        else:
            inner.items[key] = value
        inner.places[key] = (inner.key_mark, place)

    def _add_merged(self, inner: _Open, value: Value, place: Place) -> None:
        brought = (
            list(zip(value, place.items, strict=True)) if isinstance(place, ListPlace) else [(value, place)]
        )
        inner.merged = []
        for mapping, mapping_place in brought:
            if isinstance(mapping_place, MappingPlace):
                inner.merged.append((mapping, mapping_place))
            elif mapping is not UNUSABLE:
                message = "a merge key takes a mapping, or a list of mappings"
                self.report(inner.key_mark, "yaml-merge-invalid", message)


def _merge(closed: _Open) -> None:
    """Take from the merged mappings what a mapping does not say itself; the first to say it wins."""
    if closed.merged is None:
        return
    del closed.places[_MERGE]
    for items, place in closed.merged:
        for key, value in items.items():
            if key not in closed.places:
                closed.items[key] = value
                closed.places[key] = place.keys[key]

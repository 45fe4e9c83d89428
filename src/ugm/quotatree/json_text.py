"""JSON text to values that know their place.

The reader of the standard library says where a text is no JSON, but not where a value stands that is of no use.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from ugm.errors import ConfigError, Problem

__all__ = ["MAX_DEPTH", "Item", "Mapped", "read_json", "shortened"]

#: How deep a document may be nested; more is nobody's intention.
MAX_DEPTH: Final = 64
#: The longest text that is read, in characters.
MAX_CHARACTERS: Final = 8 * 2**20
#: How many keys and values a text may have.
MAX_VALUES: Final = 500_000
#: Longer whole numbers are never read: `int` takes time in the square of their length.
_MAX_DIGITS: Final = 20
_BLANKS: Final = re.compile(r"[ \t\n\r]*")


class Item(NamedTuple):
    """A value and where it stands. Line and column are 0 for a value that comes from no text."""

    #: A text, int, float, bool or None; a list of items; or a list of `Mapped`, in the order of the text.
    value: Any
    line: int = 0
    column: int = 0
    #: Whether a text may stand for a number or a truth value as well, as it may in YAML.
    is_plain: bool = False

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping."""
        return isinstance(self.value, tuple)


class Mapped(NamedTuple):
    """One entry of a mapping."""

    key: Item
    item: Item


#: What a mapping holds.
Entries: TypeAlias = tuple[Mapped, ...]


def read_json(text: str, file: str) -> Item:
    """Read a JSON text.

    Raises:
        ConfigError: the text is no JSON, or larger than what is read.
    """
    if len(text) > MAX_CHARACTERS:
        message = f"no JSON: the text has {len(text)} characters (allowed: up to {MAX_CHARACTERS})"
        raise ConfigError((Problem(file, 1, 1, "", "text-too-large", message),))
    return _Reader(text, file).document()


def shortened(whole: int) -> int:
    """Return a whole number, or one that is too large as well and can be shown in reasonable time."""
    return whole if abs(whole) <= 10**_MAX_DIGITS else 10**_MAX_DIGITS


def _whole(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.text: Final = text
        self.file: Final = file
        self.at = 0
        self.values = 0
        #: How far line breaks have been counted, the number of the line there, and where that line starts.
        self.counted = 0
        self.line = 1
        self.line_start = 0
        self.decode: Final = json.JSONDecoder(parse_int=_whole, parse_constant=self.refuse_constant).raw_decode

    def refuse(self, at: int, message: str) -> NoReturn:
        raise ConfigError((Problem(self.file, *self.place(at), "", "json-syntax", f"no JSON: {message}"),)) from None

    def refuse_constant(self, name: str) -> NoReturn:
        self.refuse(self.at, f"{name} is no number")

    def place(self, at: int) -> tuple[int, int]:
        """Return line and column, counted from 1."""
        if at < self.counted:
            return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        if breaks := self.text.count("\n", self.counted, at):
            self.line += breaks
            self.line_start = self.text.rfind("\n", self.counted, at) + 1
        self.counted = at
        return self.line, at - self.line_start + 1

    def next(self) -> str:
        """Skip blanks; return the character that follows, empty at the end."""
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        return self.text[self.at : self.at + 1]

    def document(self) -> Item:
        item = self.value(0)
        if self.next():
            self.refuse(self.at, "the document ends here, and more follows")
        return item

    def value(self, depth: int) -> Item:
        first = self.next()
        line, column = self.place(self.at)
        if depth > MAX_DEPTH:
            self.refuse(self.at, f"nested more than {MAX_DEPTH} deep")
        self.values += 1
        if self.values > MAX_VALUES:
            self.refuse(self.at, f"there are more than {MAX_VALUES} values")
        if first == "{":
            return Item(tuple(self.entries(depth)), line, column)
        if first == "[":
            return Item(self.items(depth), line, column)
        return Item(self.scalar(first), line, column)

    def scalar(self, first: str) -> Any:  # noqa: ANN401 - what a document holds
        try:
            value, self.at = self.decode(self.text, self.at)
        except json.JSONDecodeError as error:
            reason = (
                "a value is missing" if first in ("", "}", "]", ",", ":") else error.msg[:1].lower() + error.msg[1:]
            )
            self.refuse(error.pos, reason)
        return value

    def entries(self, depth: int) -> list[Mapped]:
        entries: list[Mapped] = []
        while self.follows("}", first=not entries, last_comma="a comma follows the last entry"):
            if self.next() != '"':
                self.refuse(self.at, "a key in quotation marks is missing")
            key = self.value(depth)
            if self.next() != ":":
                self.refuse(self.at, "a colon is missing behind a key")
            self.at += 1
            entries.append(Mapped(key, self.value(depth + 1)))
        return entries

    def items(self, depth: int) -> list[Item]:
        items: list[Item] = []
        while self.follows("]", first=not items, last_comma="a comma follows the last item"):
            items.append(self.value(depth + 1))
        return items

    def follows(self, end: str, *, first: bool, last_comma: str) -> bool:
        """Step over what stands before the next entry of a collection; return whether there is one."""
        if first:
            self.at += 1
            if self.next() != end:
                return True
        elif self.next() == ",":
            comma = self.at
            self.at += 1
            if self.next() == end:
                self.refuse(comma, last_comma)
            return True
        elif self.next() != end:
            self.refuse(self.at, f"a comma or {end} is missing")
        self.at += 1
        return False

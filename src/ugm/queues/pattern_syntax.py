r"""The syntax of the regular expressions in filters of placement rules: a recursive descent parser.

The parser turns a text into a tree of five kinds of nodes, from which `ugm.queues.patterns` builds an automaton. The
supported syntax is a part of that of Go's package ``regexp``, which Apache YuniKorn uses:

- characters, ``.``, classes such as ``[a-z_]`` and ``[^0-9]``, ``[[:alpha:]]``, ``\d \D \s \S \w \W`` (ASCII);
- ``^ $ \A \z \b \B``;
- ``* + ? {n} {n,} {n,m}``, each also lazy (``*?``), with counts up to 1,000;
- alternatives, and groups ``(...)``, ``(?:...)``, ``(?P<name>...)``, ``(?<name>...)``;
- the flags ``i`` and ``s``, as in ``(?i)`` and ``(?i:...)``;
- the escapes ``\t \n \r \f \v \xHH \x{H...}``, and a backslash before any punctuation.

Everything else is an error that names the position: lookaround, back references, conditions, ``\p``, ``\Q``, octal
escapes. Length, nesting and repetition counts are bounded, so that parsing and matching take bounded time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from string import punctuation
from typing import Final, NamedTuple, TypeAlias, final

from ugm.errors import RequestError
from ugm.resources import bounded_int

__all__ = [
    "MAX_LENGTH",
    "MAX_STATES",
    "Assertion",
    "Characters",
    "Either",
    "Node",
    "Pattern",
    "Repeat",
    "Series",
    "parse_pattern",
]

#: The maximum number of characters of a pattern.
MAX_LENGTH: Final = 1_000
#: The maximum number of characters, classes and assertions of a pattern after its repetitions are expanded.
MAX_STATES: Final = 1_000
#: The maximum nesting depth of groups.
_MAX_DEPTH: Final = 30
#: The maximum count of a repetition.
_MAX_COUNT: Final = 1_000

_Ranges: TypeAlias = "tuple[tuple[int, int], ...]"

_LAST: Final = 0x10FFFF
_DIGITS: Final[_Ranges] = ((0x30, 0x39),)
_SPACES: Final[_Ranges] = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))
_UPPER: Final = (0x41, 0x5A)
_LOWER: Final = (0x61, 0x7A)
_LETTERS: Final[_Ranges] = (_UPPER, _LOWER)
_ALPHANUMERIC: Final[_Ranges] = (*_DIGITS, *_LETTERS)
_WORD: Final[_Ranges] = (*_DIGITS, _UPPER, (0x5F, 0x5F), _LOWER)
_PUNCTUATION: Final[_Ranges] = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))
_NEWLINE: Final[_Ranges] = ((0x0A, 0x0A),)

_CLASSES: Final = {"d": _DIGITS, "s": _SPACES, "w": _WORD}
_NAMED_CLASSES: Final = {
    "alnum": _ALPHANUMERIC,
    "alpha": _LETTERS,
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGITS,
    "graph": ((0x21, 0x7E),),
    "lower": (_LOWER,),
    "print": ((0x20, 0x7E),),
    "punct": _PUNCTUATION,
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": (_UPPER,),
    "word": _WORD,
    "xdigit": (*_DIGITS, (0x41, 0x46), (0x61, 0x66)),
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_ASSERTIONS: Final = {"^": "start", r"\A": "start", "$": "end", r"\z": "end", r"\b": "boundary", r"\B": "inside"}
_REPETITION: Final = re.compile(r"([*+?])|\{([0-9]+)(?:(,)([0-9]*))?\}")
_SIGNS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_HEXADECIMAL: Final = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\})")
_GROUP_NAME: Final = re.compile(r"\?P?<[A-Za-z0-9_]+>")
_FLAGS: Final = re.compile(r"\?([is]*)(?:-([is]+))?([:)])")
_NAMED_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")


class Characters(NamedTuple):
    """Any one character of some ranges, which are sorted and separated."""

    ranges: _Ranges


class Assertion(NamedTuple):
    """A condition on the position between two characters: ``start``, ``end``, ``boundary`` or ``inside``."""

    kind: str


class Series(NamedTuple):
    """A sequence of parts; without parts, the empty text."""

    parts: tuple[Node, ...]


class Either(NamedTuple):
    """One of several alternatives."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """A repeated part."""

    part: Node
    least: int
    #: None for any number.
    most: int | None


Node: TypeAlias = "Characters | Assertion | Series | Either | Repeat"


class Pattern(NamedTuple):
    """A parsed pattern."""

    node: Node
    #: The number of its characters, classes and assertions with the repetitions written out.
    states: int


def parse_pattern(text: str) -> Pattern:
    r"""Parse a pattern.

    Raises:
        RequestError: the pattern is too long or too large, or its syntax is not supported; the message names the
            position.

    >>> parse_pattern(r"a\1")
    Traceback (most recent call last):
      ...
    ugm.errors.RequestError: pattern 'a\\1': the escape \1 at character 2 is not supported
    """
    if len(text) > MAX_LENGTH:
        raise RequestError("pattern", text, f"it has {len(text)} characters (allowed: up to {MAX_LENGTH})")
    parser = _Parser(text)
    return Pattern(parser.parse(), parser.states)


@final
class _Parser:
    """A parser of one pattern, from left to right."""

    __slots__ = ("_at", "_depth", "_dot", "_fold", "_text", "states")

    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._at = 0
        self._depth = 0
        #: The flags ``i`` and ``s``.
        self._fold = False
        self._dot = False
        self.states = 0

    def parse(self) -> Node:
        node = self._either()
        if self._at < len(self._text):
            raise self._error("unexpected )", self._at)
        return node

    def _error(self, problem: str, at: int) -> RequestError:
        return RequestError("pattern", self._text, f"{problem} at character {at + 1}")

    def _unsupported(self, what: str, at: int) -> RequestError:
        return RequestError("pattern", self._text, f"{what} at character {at + 1} is not supported")

    def _next(self) -> str:
        """Return the next character without consuming it; the empty text at the end."""
        return self._text[self._at : self._at + 1]

    def _either(self) -> Node:
        options = [self._series()]
        while self._next() == "|":
            self._at += 1
            options.append(self._series())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _series(self) -> Node:
        parts: list[Node] = []
        while self._next() not in {"", "|", ")"}:
            parts.extend(self._part())
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _part(self) -> Iterator[Node]:
        """Yield an atom with its repetition, parsed; nothing for a group that only sets flags."""
        start, before = self._at, self.states
        atom = self._atom()
        count = self._count(missing=atom is None)
        if atom is None:
            return
        if count is None:
            yield atom
        else:
            least, most = count
            copies = max(least, 1) if most is None else most
            # A part that matches only the empty text is copied like any other, so its copies count as well.
            self._grow(max(self.states - before, 1) * (copies - 1), start)
            yield Repeat(atom, least, most)

    def _grow(self, states: int, at: int) -> None:
        self.states += states
        if self.states > MAX_STATES:
            problem = f"the pattern has more than {MAX_STATES} characters when its repetitions are expanded"
            raise RequestError("pattern", self._text, f"{problem} (exceeded at character {at + 1})")

    def _count(self, *, missing: bool) -> tuple[int, int | None] | None:
        found = _REPETITION.match(self._text, self._at)
        if found is None:
            return None
        count = self._bounds(found)
        if missing:
            raise self._error("there is nothing to repeat", self._at)
        # A lazy repetition matches the same names.
        self._at = found.end() + self._text.startswith("?", found.end())
        if _REPETITION.match(self._text, self._at):
            raise self._error("a repetition is repeated", self._at)
        return count

    def _bounds(self, found: re.Match[str]) -> tuple[int, int | None]:
        sign, lower, comma, upper = found.groups()
        if sign:
            return _SIGNS[sign]
        least = bounded_int(lower, _MAX_COUNT)
        highest = bounded_int(upper, _MAX_COUNT) if upper else least
        if highest > _MAX_COUNT:
            raise self._error(f"a repetition of more than {_MAX_COUNT} times", self._at)
        if least > highest:
            raise self._error("a repetition whose lower count is above the upper one", self._at)
        return least, None if comma and not upper else highest

    def _atom(self) -> Node | None:
        at, sign = self._at, self._next()
        if _REPETITION.match(self._text, at):
            raise self._error("there is nothing to repeat", at)
        self._at += 1
        if sign == "(":
            return self._group(at)
        self._grow(1, at)
        if sign == ".":
            return Characters(((0, _LAST),) if self._dot else _without(_NEWLINE))
        if sign == "[":
            return self._class(at)
        if sign == "\\":
            sign += self._next()
        if sign in _ASSERTIONS:
            self._at = at + len(sign)
            return Assertion(_ASSERTIONS[sign])
        ranges = self._escape(at) if sign[0] == "\\" else _single(sign)
        return Characters(_normal(self._folded(ranges)) if _is_one(ranges) else ranges)

    def _group(self, at: int) -> Node | None:
        """Parse the rest of a group after the opening parenthesis; None for a group that only sets flags."""
        flags = self._fold, self._dot
        if found := _GROUP_NAME.match(self._text, self._at):
            self._at = found.end()
        elif self._next() == "?":
            found = _FLAGS.match(self._text, self._at)
            if found is None:
                raise self._unsupported(f"the group {self._text[at : at + 4]}", at)
            self._at = found.end()
            on, off, end = found.groups(default="")
            self._fold = (self._fold or "i" in on) and "i" not in off
            self._dot = (self._dot or "s" in on) and "s" not in off
            if end == ")":
                return None
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"groups are nested more than {_MAX_DEPTH} deep", at)
        node = self._either()
        if not self._next():
            raise self._error("the group is not closed: it begins", at)
        self._at += 1
        self._depth -= 1
        self._fold, self._dot = flags
        return node

    def _escape(self, at: int) -> _Ranges:
        """Parse the rest of an escape after the backslash."""
        sign = self._next()
        self._at += 1
        if sign in _CONTROLS:
            return _single(_CONTROLS[sign])
        if sign and sign.lower() in _CLASSES:
            ranges = _CLASSES[sign.lower()]
            return ranges if sign.islower() else _without(ranges)
        if found := _HEXADECIMAL.match(self._text, self._at - 1):
            self._at = found.end()
            code = int(found[1] or found[2], 16)
            if code <= _LAST:
                return ((code, code),)
        elif sign and sign in punctuation:
            return _single(sign)
        raise self._unsupported(f"the escape \\{sign}", at)

    def _class(self, at: int) -> Node:
        """Parse the rest of a class after the opening bracket."""
        negated = self._next() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._next() != "]":
            if not self._next():
                raise self._error("the class is not closed: it begins", at)
            ranges += self._class_item(first=first)
            first = False
        self._at += 1
        found = _normal(ranges)
        if not (found := _without(found) if negated else found):
            raise self._error("the class has no characters: it begins", at)
        return Characters(found)

    def _class_item(self, *, first: bool) -> Iterable[tuple[int, int]]:
        start = self._at
        if self._next() == "-" and not first and self._text[start + 1 : start + 2] != "]":
            raise self._error("a range without its first character", start)
        if found := _NAMED_CLASS.match(self._text, start):
            if found[2] not in _NAMED_CLASSES:
                raise self._unsupported(f"the class {found[0]}", start)
            self._at = found.end()
            named = _normal(self._folded(_NAMED_CLASSES[found[2]]))
            return _without(named) if found[1] else named
        low = self._class_character()
        if self._next() != "-" or self._text[self._at + 1 : self._at + 2] in {"]", ""}:
            return self._folded(low)
        self._at += 1
        high = self._class_character()
        if not _is_one(low) or not _is_one(high) or low[0][0] > high[0][0]:
            raise self._error("a range whose ends are not two characters in order", start)
        return self._folded(((low[0][0], high[0][0]),))

    def _class_character(self) -> _Ranges:
        at, sign = self._at, self._next()
        self._at += 1
        return self._escape(at) if sign == "\\" else _single(sign)

    def _folded(self, ranges: _Ranges) -> Iterator[tuple[int, int]]:
        """Yield ranges and, with the flag ``i``, the same ranges in the other case."""
        yield from ranges
        for low, high in ranges if self._fold else ():
            if low == high:
                cases = chr(low).lower(), chr(low).upper()
                yield from ((ord(case), ord(case)) for case in cases if len(case) == 1)
                continue
            for (first, last), distance in ((_UPPER, 0x20), (_LOWER, -0x20)):
                if max(low, first) <= min(high, last):
                    yield max(low, first) + distance, min(high, last) + distance


def _single(character: str) -> _Ranges:
    return ((ord(character), ord(character)),)


def _is_one(ranges: _Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _normal(ranges: Iterable[tuple[int, int]]) -> _Ranges:
    """Sort ranges and join those that touch."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return tuple(joined)


def _without(ranges: _Ranges) -> _Ranges:
    """Return the characters outside of normal ranges."""
    ends = [-1, *(end for low, high in ranges for end in (low, high)), _LAST + 1]
    return tuple((low + 1, high - 1) for low, high in zip(ends[::2], ends[1::2], strict=True) if low + 1 < high)

r"""Regular expressions that are matched in linear time, for the filters of placement rules.

The problem: filters are matched on names that users choose, often under the lock of a partition. Python's `re`
backtracks: the pattern ``^(a+)+$`` takes seconds for a name of 27 characters, and every other caller waits.

The idea: a pattern becomes an automaton without empty transitions (Glushkov's construction). Each character of the
pattern is a state, and a set of states is the bits of one integer. All states advance together: the states that may
follow the current set, together with the states that a match may begin with, intersected with the states that the next
character leads to.

An assertion such as ``^`` or ``\b`` is a condition on a position between two characters of the name. It decides which
transitions exist there. So each kind of position (start, end, word boundary, and their combinations: at most eight) has
its own transitions, which are built when a name first needs them.

Invariant: before each character, bit *n* of the set is 1 exactly if the name up to there ends with a match of a prefix
of the pattern, and this prefix ends in state *n*.

The cost: a name takes one step per character. A step combines at most 250 table entries (`MAX_STATES` / 4), for every
pattern. The tables have 4 entries for each state. Building them takes time quadratic in the number of states at worst.
Names lead to the same few sets of states again and again, so the last steps are cached, and most take one lookup.

`ugm.queues.pattern_syntax` describes the supported syntax.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Final, NamedTuple, final

from ugm.queues.pattern_syntax import Assertion, Characters, Either, Node, Repeat, Series, parse_pattern

__all__ = ["Matcher", "compile_pattern"]

#: The size of the cache of matchers: reading a configuration compiles each of its patterns several times.
_CACHED: Final = 256

#: The number of steps that a matcher caches.
_CACHED_STEPS: Final = 1_000

#: The properties of a position between two characters; an assertion holds if its bit is set.
_START: Final = 1
_END: Final = 2
_BOUNDARY: Final = 4
_BITS: Final = {"start": _START, "end": _END, "boundary": _BOUNDARY, "inside": _BOUNDARY}


@lru_cache(maxsize=_CACHED)
def compile_pattern(text: str) -> Matcher:
    r"""Compile a pattern.

    Raises:
        RequestError: the pattern is too large, or its syntax is not supported.

    >>> matcher = compile_pattern(r"^team-[0-9]+$")
    >>> matcher.search("team-12"), matcher.search("my-team-12")
    (True, False)
    """
    pattern = parse_pattern(text)
    return Matcher(pattern.node, pattern.states)


@final
class Matcher:
    """A compiled pattern. It can be shared between threads.

    Args:
        node: the pattern.
        size: the number of its states; see `ugm.queues.pattern_syntax.MAX_STATES`.
    """

    __slots__ = ("_starts", "_states_at", "_steps", "_tested", "_transitions", "node", "size")

    def __init__(self, node: Node, size: int) -> None:
        self.node: Final = node
        self.size: Final = size
        #: The properties of a position that the pattern depends on.
        self._tested: Final = _tested(node)
        self._transitions: dict[int, _Transitions] = {}
        #: The first characters of ranges, and the states that the characters of each range lead to.
        self._starts, self._states_at = _ranges(_Construction(node, 0).characters)
        #: The next states, by the states, the properties of the position, and the range of the next character.
        self._steps: Final[dict[tuple[int, int, int], int]] = {}

    def search(self, text: str) -> bool:
        """Return whether the pattern matches any part of a text. Takes time linear in the length of the text."""
        states, position, tested, starts, steps = 0, 0, self._tested, self._starts, self._steps
        transitions = self._at(0)
        for at, character in enumerate(text):
            if tested:
                position = _position(text, at) & tested
                transitions = self._at(position)
            if transitions.nullable or states & transitions.last:
                return True
            step = states, position, bisect_right(starts, ord(character)) - 1
            following = steps.get(step)
            states = self._following(step) if following is None else following
        transitions = self._at(_position(text, len(text)) & tested)
        return transitions.nullable or bool(states & transitions.last)

    def _following(self, step: tuple[int, int, int]) -> int:
        """Return the states after a step, and cache them."""
        states, position, reached = step
        transitions = self._at(position)
        following = (transitions.after(states) | transitions.first) & self._states_at[reached]
        if len(self._steps) >= _CACHED_STEPS:
            self._steps.clear()
        self._steps[step] = following
        return following

    def _at(self, position: int) -> _Transitions:
        found = self._transitions.get(position)
        if found is None:
            found = self._transitions[position] = _Construction(self.node, position).transitions()
        return found


def _position(text: str, at: int) -> int:
    before, after = at > 0 and _is_word(text[at - 1]), at < len(text) and _is_word(text[at])
    return _START * (at == 0) | _END * (at == len(text)) | _BOUNDARY * (before != after)


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _tested(node: Node) -> int:
    """Return the properties of a position that the assertions in a pattern depend on."""
    tested, pending = 0, [node]
    while pending:
        match pending.pop():
            case Assertion(kind):
                tested |= _BITS[kind]
            case Series(parts) | Either(parts):
                pending += parts
            case Repeat(part):
                pending.append(part)
            case _:
                pass
    return tested


class _Transitions(NamedTuple):
    """The transitions at one kind of position between two characters."""

    #: True if the empty text matches here.
    nullable: bool
    #: The states that a match which begins here may enter.
    first: int
    #: The states in which a match may end here.
    last: int
    #: For each group of four states, lowest first, and each of its sixteen subsets: the states that may follow.
    following: Sequence[Sequence[int]]

    def after(self, states: int) -> int:
        """Return the states that may follow any of some states."""
        found = 0
        for four in self.following:
            if not states:
                break
            found |= four[states & 15]
            states >>= 4
        return found


class _Piece(NamedTuple):
    """A part of a pattern: whether it matches the empty text, and the states that it begins and ends with."""

    nullable: bool
    first: int
    last: int


_EMPTY: Final = _Piece(nullable=True, first=0, last=0)
_NEVER: Final = _Piece(nullable=False, first=0, last=0)


@final
class _Construction:
    """Glushkov's construction for one kind of position.

    An assertion that holds there matches the empty text; one that does not hold matches no text.
    """

    __slots__ = ("_follow", "_piece", "_position", "characters")

    def __init__(self, node: Node, position: int) -> None:
        self._position: Final = position
        #: By state: the states that may follow it, and the characters that lead to it.
        self._follow: Final[list[int]] = []
        self.characters: Final[list[Characters]] = []
        self._piece: Final = self._build(node)

    def transitions(self) -> _Transitions:
        """Return the constructed transitions."""
        follow = self._follow + [0] * (-len(self._follow) % 4)
        fours = [follow[at : at + 4] for at in range(0, len(follow), 4)]
        return _Transitions(*self._piece, [_unions(four) for four in fours])

    def _build(self, node: Node) -> _Piece:
        match node:
            case Characters():
                state = 1 << len(self._follow)
                self._follow.append(0)
                self.characters.append(node)
                return _Piece(nullable=False, first=state, last=state)
            case Assertion(kind):
                holds = bool(self._position & _BITS[kind]) != (kind == "inside")
                return _EMPTY if holds else _NEVER
            case Series(parts):
                return self._series([self._build(part) for part in parts])
            case Either(options):
                nullable, first, last = zip(*(self._build(option) for option in options), strict=True)
                return _Piece(any(nullable), reduce(or_, first), reduce(or_, last))
            case Repeat(part, least, None):
                pieces = [self._build(part) for _ in range(max(least, 1))]
                looped = pieces[-1]
                self._link(looped.last, looped.first)
                pieces[-1] = looped._replace(nullable=looped.nullable or not least)
                return self._series(pieces)
            case Repeat(part, least, most):
                return self._series([self._build(part) for _ in range(most or 0)], least)

    def _series(self, pieces: Sequence[_Piece], least: int | None = None) -> _Piece:
        """Concatenate pieces; all pieces after the first *least* are optional.

        Works from the right, so that the states that a piece ends with are visited once.
        """
        series = _EMPTY
        for at in reversed(range(len(pieces))):
            piece = pieces[at]
            self._link(piece.last, series.first)
            series = _Piece(
                (piece.nullable and series.nullable) or (least is not None and at >= least),
                piece.first | series.first if piece.nullable else piece.first,
                piece.last | series.last if series.nullable else series.last,
            )
        return series

    def _link(self, last: int, first: int) -> None:
        if first:
            for state in _bits(last):
                self._follow[state] |= first


def _bits(states: int) -> Iterator[int]:
    while states:
        lowest = states & -states
        yield lowest.bit_length() - 1
        states ^= lowest


def _unions(four: Sequence[int]) -> list[int]:
    """Return the union of every subset of four sets; bit *n* of the index stands for set *n*."""
    unions = [0] * 16
    for at in range(1, 16):
        lowest = at & -at
        unions[at] = unions[at ^ lowest] | four[lowest.bit_length() - 1]
    return unions


def _ranges(characters: Sequence[Characters]) -> tuple[list[int], list[int]]:
    """Return the characters at which the set of reachable states changes, and the set from there on."""
    changes: dict[int, int] = {0: 0}
    for state, (ranges,) in enumerate(characters):
        for low, high in ranges:
            changes[low] = changes.get(low, 0) ^ 1 << state
            changes[high + 1] = changes.get(high + 1, 0) ^ 1 << state
    starts, states_at, states = sorted(changes), [], 0
    for start in starts:
        states ^= changes[start]
        states_at.append(states)
    return starts, states_at

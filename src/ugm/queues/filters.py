"""Filters of placement rules: whom a rule applies to.

A filter names users and groups, and either allows or denies those whom it names. Several names are compared as they are
written. A single name that contains one of the characters ``^ $ * + ? ( ) [ { } |`` is a regular expression; it matches
anywhere in a name unless ``^`` and ``$`` say otherwise. A filter without names holds for everybody.

Patterns are matched in linear time; `ugm.queues.pattern_syntax` describes the supported syntax.

Source: Apache YuniKorn, placement rules, "Filter".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Protocol, Self, TypeAlias, final

from ugm.errors import RequestError
from ugm.identity import MAX_NAME, UserGroup, is_text
from ugm.queues.patterns import compile_pattern

__all__ = ["Filter", "FilterSpec", "is_pattern"]

_ALLOW: Final = ("", "allow")
_DENY: Final = "deny"
#: One of these makes a text a pattern; ``$`` does so even at the end of a name that may have it there.
_PATTERN_SIGN: Final = re.compile(r"[\^$*+?()\[{}|]")

#: For how many names a filter remembers whether its pattern matches.
_REMEMBERED: Final = 1024

#: Whether a list names somebody.
_Names: TypeAlias = Callable[[str], object]


class FilterSpec(Protocol):
    """A filter, as a configuration has it."""

    @property
    def type(self) -> str:
        """``allow``, ``deny`` or nothing, which is ``allow``; in any case."""
        ...

    @property
    def users(self) -> Sequence[str]:
        """Several names; or one, which may be a regular expression."""
        ...

    @property
    def groups(self) -> Sequence[str]:
        """As the users."""
        ...


@final
class Filter:
    """Whom a placement rule applies to.

    Args:
        users: returns something true for the name of a user whom the filter names.
        groups: the same for a group.
        denies: whether those named are kept out, and not let in.
    """

    __slots__ = ("_denies", "_groups", "_users")

    _users: _Names
    _groups: _Names
    _denies: bool

    def __init__(self, users: _Names, groups: _Names, *, denies: bool) -> None:
        self._users = users
        self._groups = groups
        self._denies = denies

    @classmethod
    def compile(cls, spec: FilterSpec, place: str = "filter") -> Self | None:
        """Read a filter out of a configuration; None if it allows everybody.

        Args:
            spec: the filter.
            place: where it is, for the errors.

        Raises:
            RequestError: the type is unknown, a name is too long, or a single name is a pattern whose syntax is not
                supported. Configurations from `ugm.load_config` have no such filter.
        """
        kind = spec.type.lower()
        if kind not in (*_ALLOW, _DENY):
            raise RequestError(f"{place}.type", spec.type, "expected 'allow' or 'deny'")
        if not spec.users and not spec.groups:
            # Nobody is named, and so everybody is meant: every name is true.
            return None if kind in _ALLOW else cls(bool, bool, denies=True)
        users, groups = _named(spec.users, f"{place}.users"), _named(spec.groups, f"{place}.groups")
        return cls(users, groups, denies=kind == _DENY)

    def allows(self, user: UserGroup) -> bool:
        """Return whether the rule applies to a user: by the name, or by that of any of the user's groups."""
        named = self._users(user.name) or any(map(self._groups, user.groups))
        return not named if self._denies else bool(named)


def is_pattern(names: Sequence[str]) -> bool:
    """Return whether a list of names is one regular expression."""
    return len(names) == 1 and bool(_PATTERN_SIGN.search(names[0]))


def _named(names: Sequence[str], place: str) -> _Names:
    if isinstance(names, str):
        raise RequestError(place, names, "expected several names")
    for name in names:
        if not is_text(name):
            raise RequestError(place, name, "expected names")
    if not is_pattern(names):
        for name in names:
            if len(name) > MAX_NAME:
                raise RequestError(place, name, f"a name has 1 to {MAX_NAME} characters")
        return frozenset(names).__contains__
    try:
        # Users come again, and share groups.
        return lru_cache(maxsize=_REMEMBERED)(compile_pattern(names[0]).search)
    except RequestError as error:
        raise RequestError(place, names[0], error.reason) from None

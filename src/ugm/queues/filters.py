"""Filters of placement rules: the users and groups that a rule applies to.

A filter names users and groups, and either allows or denies them. Several names are compared as they are written. A
single name that contains one of the characters ``^ $ * + ? ( ) [ { } |`` is a regular expression; it matches anywhere
in a name unless it is anchored by ``^`` and ``$``. A filter without names applies to every user.

Patterns are matched in linear time; `ugm.queues.pattern_syntax` describes the supported syntax.

Source: Apache YuniKorn, placement rules, "Filter".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Self, TypeAlias, final

from ugm.configuration import FilterConfig
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, UserGroup
from ugm.queues.patterns import compile_pattern

__all__ = ["Filter", "is_pattern"]

_ALLOW: Final = ("", "allow")
_DENY: Final = "deny"
#: One of these makes a text a pattern; ``$`` does so even at the end of a name that may have it there.
_PATTERN_SIGN: Final = re.compile(r"[\^$*+?()\[{}|]")

#: The number of names for which a filter caches whether its pattern matches.
_REMEMBERED: Final = 1024

#: Returns a true value for a name that is in a list of names.
_Names: TypeAlias = Callable[[str], object]


@final
@dataclass(frozen=True, slots=True)
class Filter:
    """The users that a placement rule applies to."""

    #: Returns a true value for the name of a user that the filter names.
    users: _Names
    #: Returns a true value for the name of a group that the filter names.
    groups: _Names
    #: If true, the rule applies to all users except those that the filter names.
    denies: bool = field(kw_only=True)
    #: Whether users or groups are named by a pattern, whose results are cached.
    has_pattern: bool = field(default=False, kw_only=True)

    @classmethod
    def compile(cls, spec: FilterConfig, place: str = "filter") -> Self | None:
        """Compile a filter of a configuration; None if it allows every user.

        Args:
            spec: the filter.
            place: its place in the configuration, for error messages.

        Raises:
            RequestError: the type is unknown, a name is too long, or a single name is a pattern whose syntax is not
                supported. Configurations from `ugm.load_config` have no such filter.
        """
        kind = spec.type.lower()
        if kind not in (*_ALLOW, _DENY):
            raise RequestError(f"{place}.type", spec.type, "expected 'allow' or 'deny'")
        if not spec.users and not spec.groups:
            # A filter without names applies to every user; every name is a true value.
            return None if kind in _ALLOW else cls(bool, bool, denies=True)
        users, groups = _named(spec.users, f"{place}.users"), _named(spec.groups, f"{place}.groups")
        has_pattern = is_pattern(spec.users) or is_pattern(spec.groups)
        return cls(users, groups, denies=kind == _DENY, has_pattern=has_pattern)

    def allows(self, user: UserGroup) -> bool:
        """Return whether the rule applies to a user, by the user's name or by the name of any of the user's groups."""
        named = self.users(user.name) or any(map(self.groups, user.groups))
        return not named if self.denies else bool(named)


def is_pattern(names: Sequence[str]) -> bool:
    """Return whether a list of names is one regular expression."""
    return len(names) == 1 and bool(_PATTERN_SIGN.search(names[0]))


def _named(names: Sequence[str], place: str) -> _Names:
    if not is_pattern(names):
        for name in names:
            if len(name) > MAX_NAME:
                raise RequestError(place, name, f"a name has 1 to {MAX_NAME} characters")
        return frozenset(names).__contains__
    try:
        # The same users submit many applications, and users share groups.
        return lru_cache(maxsize=_REMEMBERED)(compile_pattern(names[0]).search)
    except RequestError as error:
        raise RequestError(place, names[0], error.reason) from None

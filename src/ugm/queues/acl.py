"""Access control lists: the users and groups that may submit applications to a queue, or administer it.

A list is a string: users separated by commas, then one space, then groups separated by commas. A string that begins
with a space has groups only; ``*`` in place of the users or of the groups allows every user. An empty string means
that there is no list; a single space is a list that allows no user.

Names are compared as they are written and are not checked. A list does not know its queue: the caller passes the lists
of a queue and of the queues above it to `path_allows`, which combines them.

Source: Apache YuniKorn, access control lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self, final

from ugm.arguments import require_instance, require_instances, require_iterable, require_user
from ugm.errors import RequestError
from ugm.identity import WILDCARD, UserGroup

__all__ = ["Acl", "path_allows"]

#: Users, groups.
_MOST_PARTS: Final = 2


@final
class Acl:
    """One access control list. Immutable; two lists are equal if they allow the same users and groups.

    Args:
        users: the allowed users; the wildcard among them allows every user.
        groups: the groups whose members are allowed; the wildcard among them allows every user.

    Raises:
        RequestError: an argument is not a collection of texts.

    >>> acl = Acl.parse("ana,bob physics")
    >>> acl.allows(UserGroup("ana")), acl.allows(UserGroup("sue", ("physics",))), acl.allows(UserGroup("sue"))
    (True, True, False)
    """

    __slots__ = ("everybody", "groups", "users")

    everybody: Final[bool]
    #: Empty if every user is allowed.
    users: Final[frozenset[str]]
    groups: Final[frozenset[str]]

    def __init__(self, users: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        named = frozenset(require_instances("users", users, str))
        members = frozenset(require_instances("groups", groups, str))
        self.everybody = WILDCARD in named or WILDCARD in members
        self.users = frozenset() if self.everybody else named
        self.groups = frozenset() if self.everybody else members

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a list; return None for an empty string.

        Several spaces in a row count as one, because a configuration may contain them: Apache YuniKorn accepts them in
        a file and then fails to create the queue.

        Raises:
            RequestError: the value is not a string, or has more parts than users and groups.

        >>> Acl.parse("") is None, Acl.parse(" "), Acl.parse(" physics"), Acl.parse("*")
        (True, Acl.parse(' '), Acl.parse(' physics'), Acl.parse('*'))
        """
        if not isinstance(text, str):
            raise RequestError("acl", text, "expected a text")
        if not text:
            return None
        parts = text.split()
        if text[0].isspace():
            parts.insert(0, "")
        if len(parts) > _MOST_PARTS:
            reason = "expected users, one space, and groups; names are separated by commas without spaces"
            raise RequestError("acl", text, reason)
        users, groups = (_names(part) for part in (*parts, "", "")[:_MOST_PARTS])
        return cls(users, groups)

    def allows(self, user: UserGroup) -> bool:
        """Return whether the list contains the user or one of the user's groups.

        Raises:
            RequestError: the user is not a `UserGroup`.
        """
        require_user(user)
        return self.everybody or user.name in self.users or not self.groups.isdisjoint(user.groups)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Acl):
            return (self.everybody, self.users, self.groups) == (other.everybody, other.users, other.groups)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.everybody, self.users, self.groups))

    def __str__(self) -> str:
        """Return the text of the list with sorted names."""
        if self.everybody:
            return WILDCARD
        groups = ",".join(sorted(self.groups))
        return ",".join(sorted(self.users)) + (f" {groups}" if groups or not self.users else "")

    def __repr__(self) -> str:
        return f"Acl.parse({str(self)!r})"


def _names(part: str) -> list[str]:
    if part == WILDCARD:
        return [part]
    # A wildcard among other names is ignored: it would open the queue by accident.
    return [name for name in part.split(",") if name not in ("", WILDCARD)]


def path_allows(acls: Iterable[Acl | None], user: UserGroup) -> bool:
    """Return whether the lists of a queue and of the queues above it allow a user.

    A path without lists allows every user. Otherwise one list that allows the user is enough, at any level: a list of a
    lower queue does not restrict a list above it. For submitting, submit lists and admin lists count; for
    administering, only admin lists.

    Args:
        acls: the lists on the path, in any order; None for a queue without a list.
        user: the user.

    Raises:
        RequestError: an argument is of another type.

    >>> path_allows([None, None], UserGroup("sue"))
    True
    >>> path_allows([Acl.parse("ana"), None, Acl.parse("*")], UserGroup("sue"))
    True
    """
    require_user(user)
    is_open = True
    for acl in require_iterable("acls", acls):
        if acl is not None:
            if require_instance("acls", acl, Acl).allows(user):
                return True
            is_open = False
    return is_open

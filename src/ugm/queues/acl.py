"""Access control lists: who may submit applications to a queue, or administer it.

A list is a text: users separated by commas, and after a blank groups separated by commas. A text that begins with a
blank has groups only; ``*`` in place of the users or of the groups is everybody. An empty text is no list at all, while
a blank is a list that allows nobody.

Names are compared as they are written; nothing here asks whether they can be names. A list knows no queue: which lists
count for a queue is the caller's to say, and how they count together `path_allows` says.

Source: Apache YuniKorn, access control lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self, final

from ugm.errors import RequestError
from ugm.identity import WILDCARD, UserGroup

__all__ = ["Acl", "path_allows"]

#: Users, groups.
_MOST_PARTS: Final = 2


@final
class Acl:
    """Whom one access control list allows. Never changes, and is compared by what it allows.

    Args:
        users: who is allowed; with the wildcard among them, everybody.
        groups: whose members are allowed; with the wildcard among them, everybody.

    >>> acl = Acl.parse("ana,bob physics")
    >>> acl.allows(UserGroup("ana")), acl.allows(UserGroup("sue", ("physics",))), acl.allows(UserGroup("sue"))
    (True, True, False)
    """

    __slots__ = ("everybody", "groups", "users")

    everybody: Final[bool]
    #: Empty where everybody is allowed.
    users: Final[frozenset[str]]
    groups: Final[frozenset[str]]

    def __init__(self, users: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        named, members = frozenset(users), frozenset(groups)
        self.everybody = WILDCARD in named or WILDCARD in members
        self.users = frozenset() if self.everybody else named
        self.groups = frozenset() if self.everybody else members

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a list; an empty text is none.

        More than one blank in a row counts as one, because a configuration may have them; the peer accepts them in a
        file and then fails to make the queue.

        Raises:
            RequestError: it is no text, or has more parts than users and groups.

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
            reason = "expected users, one blank, and groups; names are separated by commas without blanks"
            raise RequestError("acl", text, reason)
        users, groups = (_names(part) for part in (*parts, "", "")[:_MOST_PARTS])
        return cls(users, groups)

    def allows(self, user: UserGroup) -> bool:
        """Return whether the user, or a group that the user is a member of, is on the list."""
        return self.everybody or user.name in self.users or not self.groups.isdisjoint(user.groups)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Acl):
            return (self.everybody, self.users, self.groups) == (other.everybody, other.users, other.groups)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.everybody, self.users, self.groups))

    def __str__(self) -> str:
        """Return the text of the list, in order."""
        if self.everybody:
            return WILDCARD
        groups = ",".join(sorted(self.groups))
        return ",".join(sorted(self.users)) + (f" {groups}" if groups or not self.users else "")

    def __repr__(self) -> str:
        return f"Acl.parse({str(self)!r})"


def _names(part: str) -> list[str]:
    if part == WILDCARD:
        return [part]
    # Among others the wildcard is nobody's name: it would open the queue in passing.
    return [name for name in part.split(",") if name not in ("", WILDCARD)]


def path_allows(acls: Iterable[Acl | None], user: UserGroup) -> bool:
    """Return whether the lists of a queue and of the queues above it let a user in.

    A path without any list is open. Otherwise one list that allows the user is enough, wherever on the path it is: a
    list below takes nothing away. To submit, the lists for submitting and those for administering count; to administer,
    only the latter.

    Args:
        acls: the lists on the path, in any order; None where a queue has none.
        user: who asks.

    >>> path_allows([None, None], UserGroup("sue"))
    True
    >>> path_allows([Acl.parse("ana"), None, Acl.parse("*")], UserGroup("sue"))
    True
    """
    is_open = True
    for acl in acls:
        if acl is not None:
            if acl.allows(user):
                return True
            is_open = False
    return is_open

"""Users with their groups, and queue paths.

A name in a call is any text of 1 to 256 characters except the wildcard. The names that limits and filters of a
configuration may contain have stricter rules; see `ugm.config.located`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NoReturn, final

from ugm.errors import RequestError

#: The name of the root queue; every path starts with it.
ROOT: Final = "root"

#: In limits: every user, or every group, that no other limit of the queue names.
WILDCARD: Final = "*"

#: The maximum length of every name in characters: users, groups, queues, applications, resources and others.
MAX_NAME: Final = 256

#: The maximum number of names in a queue path, including the root.
MAX_DEPTH: Final = 100

#: Names separated by single dots, none empty, none with white space or control characters.
_PATH: Final = re.compile(rf"root(?:\.[^.\s\x00-\x1f\x7f]{{1,{MAX_NAME}}}){{0,{MAX_DEPTH - 1}}}", re.IGNORECASE)


class TrackingType(StrEnum):
    """The kind of subject whose usage is counted."""

    USER = "user"
    GROUP = "group"
    QUEUE = "queue"

    def __repr__(self) -> str:
        # As that of a text: a client of a service has texts in the same places.
        return str.__repr__(self)


@final
class UserGroup:
    """A user and the groups of the user. Immutable.

    ugm does not look up groups: the embedding program passes them with each request. Keep one object for each user and
    reuse it, which is fastest.

    Args:
        name: the name of the user. A text of a subclass of `str`, such as a member of an enumeration, becomes a `str`.
        groups: the names of the groups, in any order; the configuration decides which of them is charged.

    Raises:
        RequestError: a name is not a text of 1 to 256 characters, or is the wildcard ``*``; or *groups* is a text
            instead of a collection of names.

    >>> UserGroup("sue", ("development", "test"))
    UserGroup('sue', ('development', 'test'))
    """

    __slots__ = ("groups", "name")

    name: str
    groups: tuple[str, ...]

    def __init__(self, name: str, groups: Iterable[str] = ()) -> None:
        if isinstance(groups, str) or not isinstance(groups, Iterable):
            raise RequestError("groups", groups, "expected a collection of names")
        object.__setattr__(self, "name", _require_own_name("user", name))
        object.__setattr__(self, "groups", tuple([_require_own_name("group", group) for group in groups]))

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"a UserGroup is immutable: {attribute!r} cannot be set")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"a UserGroup is immutable: {attribute!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, UserGroup):
            return (self.name, self.groups) == (other.name, other.groups)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, self.groups))

    def __repr__(self) -> str:
        return f"UserGroup({self.name!r}, {self.groups!r})"

    def __reduce__(self) -> tuple[type[UserGroup], tuple[str, tuple[str, ...]]]:
        return UserGroup, (self.name, self.groups)


def is_text(value: object) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


def is_name(value: object) -> bool:
    """Return whether a value is a string of 1 to 256 characters."""
    # A subclass may override `__len__`.
    return isinstance(value, str) and 0 < str.__len__(value) <= MAX_NAME


def exact_text(text: str) -> str:
    """Return a text that may be of a subclass of `str`, for example a member of an enumeration, as a `str`.

    A subclass may override comparisons, and an error in one would break later calls that find the stored text.

    >>> type(exact_text(TrackingType.USER))
    <class 'str'>
    """
    return str.__str__(text)


def require_name(argument: str, name: object) -> str:
    """Return a name, for example of a user or a group, as a `str`, after checking it."""
    if type(name) is str and name and len(name) <= MAX_NAME:
        return name
    if isinstance(name, str) and is_name(name):
        return exact_text(name)
    raise RequestError(argument, name, f"a name is a text of 1 to {MAX_NAME} characters")


def _require_own_name(kind: str, name: object) -> str:
    checked = require_name(kind, name)
    if checked == WILDCARD:
        raise RequestError(kind, checked, "the wildcard '*' is not a valid name (allowed: only in limits)")
    return checked


def canonical_path(queue_path: str) -> str:
    """Return the canonical form of a queue path; the case of queue names does not matter.

    Raises:
        RequestError: the path is not ``root``, or ``root.`` followed by names separated by dots; or a name has more
            than 256 characters, or the path has more than 100 names.

    >>> canonical_path("root.Sales.EMEA")
    'root.sales.emea'
    """
    if type(queue_path) is not str:
        if not isinstance(queue_path, str):
            raise RequestError("queue_path", queue_path, "expected a non-empty string")
        queue_path = exact_text(queue_path)
    if not queue_path:
        raise RequestError("queue_path", queue_path, "expected a non-empty string")
    if not _PATH.fullmatch(queue_path):
        raise RequestError("queue_path", queue_path, _invalid_path_reason(queue_path))
    # Convert each name by itself: outside of ASCII, the lower case of a letter can depend on the next character.
    canonical = queue_path.lower() if queue_path.isascii() else ".".join(map(str.lower, queue_path.split(".")))
    # Return the caller's own object if possible, so that a cache recognises it by identity.
    return queue_path if queue_path == canonical else canonical


def _invalid_path_reason(queue_path: str) -> str:
    names = queue_path.split(".")
    if len(names) > MAX_DEPTH:
        return f"it has {len(names)} names (allowed: up to {MAX_DEPTH})"
    if (longest := max(map(len, names))) > MAX_NAME:
        return f"a name in it has {longest} characters (allowed: up to {MAX_NAME})"
    return "expected 'root', or names below it separated by single dots"


def ancestors(queue_path: str) -> Iterator[str]:
    """Yield a path and all paths above it, leaf to root.

    >>> list(ancestors("root.sales.emea"))
    ['root.sales.emea', 'root.sales', 'root']
    """
    while queue_path:
        yield queue_path
        queue_path = queue_path.rpartition(".")[0]


def is_below(queue_path: str, ancestor: str) -> bool:
    """Return whether *queue_path* is *ancestor* or lies below it."""
    return queue_path == ancestor or queue_path.startswith(ancestor + ".")

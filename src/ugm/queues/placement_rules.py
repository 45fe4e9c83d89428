"""The result of one placement rule for an application: a queue name, a path from the root, or a reason for neither.

A rule by itself reads no queue, so the queue that it finds need not exist. The texts of a submission are arbitrary: a
text that cannot be a queue name gives a reason, never an error. Names and paths are returned in canonical form.

Source: Apache YuniKorn, placement rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from ugm.configuration import PlacementRule
from ugm.errors import RequestError, quote
from ugm.identity import ROOT, UserGroup

__all__ = ["QUALIFIED", "QUEUE_NAMES", "Find", "Found", "Submission", "finder", "provided"]

#: A queue name. ASCII only, because other letters may change when their case does.
_NAME: Final = re.compile(r"(?!root\Z)[a-z0-9_:#/@-]{1,64}", re.ASCII | re.IGNORECASE)
#: A path to a queue below the root, and the prefix of such a path.
_PATH: Final = re.compile(r"root(?:\.(?!root(?:\.|\Z))[a-z0-9_:#/@-]{1,64})+", re.ASCII | re.IGNORECASE)
QUALIFIED: Final = "root."
#: The names that a queue may have, as a part of a message.
QUEUE_NAMES: Final = "allowed: 1 to 64 letters, digits and characters of _:#/@-"

_DOT: Final = "_dot_"
_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})

#: A name or a path from the root, and an empty text; or an empty text, and the reason.
Found: TypeAlias = tuple[str, str]
Find: TypeAlias = Callable[["Submission"], Found]


class Submission(NamedTuple):
    """The properties of an application that placement rules read when it is submitted."""

    application_id: str
    user: UserGroup
    #: As provided by the user; empty if the user provides none.
    queue: str = ""
    #: For example its namespace. Names are case-insensitive.
    tags: Mapping[str, str] = _NO_TAGS


def finder(rule: PlacementRule, place: str) -> tuple[Find, str]:
    """Compile a rule without its parent rule.

    Args:
        rule: the rule.
        place: its place in the configuration, for error messages.

    Returns:
        The function that finds the queue of an application, and the name and value of the rule.

    Raises:
        RequestError: there is no rule of this name, or the rule can never find a queue.
    """
    kind = rule.name.lower()
    compiler = _KINDS.get(kind)
    if compiler is None:
        raise RequestError(f"{place}.name", rule.name, f"unknown placement rule (allowed: {', '.join(sorted(_KINDS))})")
    return compiler(rule, place), f"{kind} {rule.value}" if kind in _WITH_VALUE else kind


def provided(submission: Submission) -> Found:
    """Find the queue that the application names."""
    return _checked_path(submission.queue) if submission.queue else ("", "the application names no queue")


def _user(submission: Submission) -> Found:
    """Find the name of the user, which is never a path."""
    return _checked_name(submission.user.name.replace(".", _DOT))


def _tag(rule: PlacementRule, place: str) -> Find:
    """Return the function that finds the value of a tag; as in Apache YuniKorn, a tag without a value is absent."""
    if not rule.value:
        raise RequestError(f"{place}.value", rule.value, "a tag rule needs the name of a tag")
    tag = rule.value.lower()
    absent = f"the application has no tag {quote(rule.value)}"

    def find(submission: Submission) -> Found:
        same_tag = (text for name, text in submission.tags.items() if text and name.lower() == tag)
        text = submission.tags.get(tag) or next(same_tag, "")
        return _checked_path(text) if text else ("", absent)

    return find


def _fixed(rule: PlacementRule, place: str) -> Find:
    """Return the function that finds the same queue for every application, which may be several levels deep."""
    value, queue = rule.value, rule.value.lower()
    qualified = queue.partition(".")[0] == ROOT
    if queue != ROOT and not _PATH.fullmatch(value if qualified else f"{ROOT}.{value}"):
        raise RequestError(f"{place}.value", value, "a fixed rule needs a queue: names separated by single dots")
    if qualified and rule.parent is not None:
        reason = "a path that starts with 'root' cannot be combined with a parent rule"
        raise RequestError(f"{place}.value", value, reason)
    return lambda _: (queue, "")


def _checked_path(text: str) -> Found:
    """Return the canonical name or path of a text, or the reason why it is neither."""
    if "." not in text:
        return (ROOT, "") if text.lower() == ROOT else _checked_name(text)
    if text[: len(QUALIFIED)].lower() != QUALIFIED:
        return _checked_name(text.replace(".", _DOT))
    return (text.lower(), "") if _PATH.fullmatch(text) else ("", f"{quote(text)} is not a valid queue path")


def _checked_name(text: str) -> Found:
    if _NAME.fullmatch(text):
        return text.lower(), ""
    if text.lower() == ROOT:
        return "", f"{quote(text)} is the name of the root queue"
    return "", f"{quote(text)} is not a valid queue name ({QUEUE_NAMES})"


#: The rules by name.
_KINDS: Final[Mapping[str, Callable[[PlacementRule, str], Find]]] = {
    "provided": lambda _rule, _place: provided,
    "user": lambda _rule, _place: _user,
    "tag": _tag,
    "fixed": _fixed,
}
#: The rules whose label includes the value.
_WITH_VALUE: Final = ("fixed", "tag")

"""What one placement rule finds for an application: a name, a path from the root, or nothing and why.

A rule by itself asks no queue, and nothing here knows whether what it finds exists. A submission may have any texts;
one that cannot be the name of a queue is a reason, and never an error. What is found is canonical.

Source: Apache YuniKorn, placement rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from ugm.errors import RequestError
from ugm.identity import ROOT, UserGroup
from ugm.queues.filters import FilterSpec

__all__ = ["QUALIFIED", "Find", "Found", "RuleConfig", "Submission", "finder", "provided", "quoted"]

#: A name that a queue may have, but for the dots in it: ASCII, because others are not the same in any case.
_NAME: Final = re.compile(r"(?!root\Z)[a-z0-9_:#/@-]{1,64}", re.ASCII | re.IGNORECASE)
#: A path to a queue below the root, and how it starts.
_PATH: Final = re.compile(r"root(?:\.(?!root(?:\.|\Z))[a-z0-9_:#/@-]{1,64})+", re.ASCII | re.IGNORECASE)
QUALIFIED: Final = "root."
#: How much of a text a sentence shows.
_LONGEST: Final = 64

_DOT: Final = "_dot_"
_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})

#: What a rule finds, a name or a path from the root; or nothing, and why.
Found: TypeAlias = tuple[str, str]
Find: TypeAlias = Callable[["Submission"], Found]


class RuleConfig(Protocol):
    """A placement rule, as a configuration has it."""

    @property
    def name(self) -> str:
        """``provided``, ``user``, ``tag`` or ``fixed``, in any case."""
        ...

    @property
    def create(self) -> bool:
        """Whether a queue that does not exist is made."""
        ...

    @property
    def filter(self) -> FilterSpec:
        """Whom the rule applies to."""
        ...

    @property
    def parent(self) -> RuleConfig | None:
        """The rule that finds the queue above; None for the root."""
        ...

    @property
    def value(self) -> str:
        """The queue of ``fixed``, the tag of ``tag``; no other rule has one."""
        ...


class Submission(NamedTuple):
    """What is known of an application when it is submitted."""

    application_id: str
    user: UserGroup
    #: As provided by the user; empty for none.
    queue: str = ""
    #: For example its namespace. Names are the same in any case.
    tags: Mapping[str, str] = _NO_TAGS


def finder(rule: RuleConfig, place: str) -> tuple[Find, str]:
    """Return what finds the queue of an application by a rule without its parent rule, and the rule's name and value.

    Args:
        rule: the rule.
        place: where it is, for the errors.

    Raises:
        RequestError: there is no such rule, or it can never find a queue.
    """
    kind = rule.name.lower()
    compiler = _KINDS.get(kind)
    if compiler is None:
        raise RequestError(f"{place}.name", rule.name, f"unknown placement rule (allowed: {', '.join(sorted(_KINDS))})")
    return compiler(rule, place), f"{kind} {rule.value}" if kind in _WITH_VALUE else kind


def provided(submission: Submission) -> Found:
    """Find what the application names as its queue."""
    return _spelt(submission.queue) if submission.queue else ("", "the application names no queue")


def _user(submission: Submission) -> Found:
    """Find the name of the user, which is never a path."""
    name = submission.user.name
    return _spelt_name(name) if "." not in name else _spelt_name(name.replace(".", _DOT))


def _tag(rule: RuleConfig, place: str) -> Find:
    """Find the value of a tag. An empty one is no tag, as in the peer."""
    if not rule.value:
        raise RequestError(f"{place}.value", rule.value, "a tag rule needs the name of a tag")
    tag = rule.value.lower()
    absent = f"the application has no tag {quoted(rule.value)}"

    def find(submission: Submission) -> Found:
        text = submission.tags.get(tag) or _in_any_case(submission.tags, tag)
        return _spelt(text) if text else ("", absent)

    return find


def _fixed(rule: RuleConfig, place: str) -> Find:
    """Find the same queue for every application. Dots separate names: the value may be several queues deep."""
    value, queue = rule.value, rule.value.lower()
    qualified = queue.partition(".")[0] == ROOT
    if queue != ROOT and not _PATH.fullmatch(value if qualified else f"{ROOT}.{value}"):
        raise RequestError(f"{place}.value", value, "a fixed rule needs a queue: names separated by single dots")
    if qualified and rule.parent is not None:
        raise RequestError(f"{place}.value", value, "starts at the root, but the parent rule is to say where")

    def find(_: Submission) -> Found:
        return queue, ""

    return find


def _in_any_case(tags: Mapping[str, str], wanted: str) -> str:
    for tag, text in tags.items():
        if text and tag.lower() == wanted:
            return text
    return ""


def _spelt(text: str) -> Found:
    """Return the canonical name or path that a text means; or nothing, and why."""
    if "." not in text:
        return (ROOT, "") if text.lower() == ROOT else _spelt_name(text)
    if text[: len(QUALIFIED)].lower() != QUALIFIED:
        return _spelt_name(text.replace(".", _DOT))
    return (text.lower(), "") if _PATH.fullmatch(text) else ("", f"{quoted(text)} is no queue path")


def _spelt_name(text: str) -> Found:
    return (text.lower(), "") if _NAME.fullmatch(text) else ("", _why_no_name(text))


def _why_no_name(text: str) -> str:
    if text.lower() == ROOT:
        return f"{quoted(text)} is the name of the queue above all others"
    return f"{quoted(text)} is no queue name: 1 to 64 letters, digits and characters of _:#/@-"


def quoted(text: str) -> str:
    """Quote a text in a reason; a long one is cut."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}..."


#: The rules by name.
_KINDS: Final[Mapping[str, Callable[[RuleConfig, str], Find]]] = {
    "provided": lambda _rule, _place: provided,
    "user": lambda _rule, _place: _user,
    "tag": _tag,
    "fixed": _fixed,
}
#: Rules that say nothing without a value.
_WITH_VALUE: Final = ("fixed", "tag")

"""Placement: the rules that find the queue of an application when it is submitted.

Rules are tried in order, and the first that finds a usable queue decides. Every rule that finds none gives a reason, so
that a rejection can be explained. Texts of a submission are arbitrary: one that cannot be a queue name gives a reason,
never an error. Names and paths are returned in canonical form.

A rule finds a queue name, which is placed below the root or below the queue that the parent rule finds. A text that
starts with ``root.`` is a whole path; the parent rule is then not used.

A filter names users and groups that a rule applies to, and either allows or denies them. A single name that contains
one of the characters ``^ $ * + ? ( ) [ { } |`` is a regular expression; it matches anywhere in a name unless it is
anchored by ``^`` and ``$``. A filter without names applies to every user. Patterns have the syntax of Python's `re`,
with classes of ASCII characters. As in Apache YuniKorn, ``$`` matches only at the end of a name. Their length is
bounded, and the time of a match is not: an administrator writes them.

This module creates and changes no queue: a `Placement` states whether the queue has to be created. It reads the queues
through a `QueueView`.

An *access control list* names the users and groups that may submit applications to a queue, or administer it. It is a
string: users separated by commas, then one space, then groups separated by commas. A string that begins
with a space has groups only; ``*`` in place of the users or of the groups allows every user. An empty string means
that there is no list; a single space is a list that allows no user.

Names are compared as they are written and are not checked. A list does not know its queue: the caller passes the lists
of a queue and of the queues above it to `path_allows`, which combines them.

Source: Apache YuniKorn, placement rules; access control lists; resource quota management, "Namespace to queue mapping"
and "Parent queue mapping for namespaces".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, Self, TypeAlias, final

from ugm.arguments import require_instance, require_instances, require_iterable, require_user
from ugm.configuration import FilterConfig, PlacementRule
from ugm.decision import Violation
from ugm.errors import RequestError, printable, quote
from ugm.identity import MAX_DEPTH, MAX_NAME, ROOT, WILDCARD, UserGroup, ancestors

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


_ALLOW: Final = ("", "allow")
_DENY: Final = "deny"
#: One of these makes a text a pattern; ``$`` does so even at the end of a name that may have it there.
_PATTERN_SIGN: Final = re.compile(r"[\^$*+?()\[{}|]")
#: The maximum number of characters of a pattern.
_MAX_PATTERN: Final = 1_000
#: An escape or a class, in which a dollar sign is a character; or a dollar sign that is the end of the name.
_DOLLAR: Final = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?)|\$", re.DOTALL)
#: Signs that have a meaning in sets of other languages, or will get one in Python.
_NESTED_SET: Final = re.compile(r"(?<!^)\[|--|&&|~~|\|\|")
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

    @classmethod
    def compile(cls, spec: FilterConfig, place: str = "filter") -> Self | None:
        """Compile a filter of a configuration; None if it allows every user.

        Args:
            spec: the filter.
            place: its place in the configuration, for error messages.

        Raises:
            RequestError: the type is unknown, a name or a pattern is too long, or the syntax of a pattern is invalid.
                Configurations from `ugm.load_config` have no such filter.
        """
        kind = spec.type.lower()
        if kind not in (*_ALLOW, _DENY):
            raise RequestError(f"{place}.type", spec.type, "expected 'allow' or 'deny'")
        if not spec.users and not spec.groups:
            # A filter without names applies to every user; every name is a true value.
            return None if kind in _ALLOW else cls(bool, bool, denies=True)
        users, groups = _named(spec.users, f"{place}.users"), _named(spec.groups, f"{place}.groups")
        return cls(users, groups, denies=kind == _DENY)

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
    return _compiled(names[0], place).search


def _compiled(pattern: str, place: str) -> re.Pattern[str]:
    if len(pattern) > _MAX_PATTERN:
        raise RequestError(place, pattern, f"it has {len(pattern)} characters (allowed: up to {_MAX_PATTERN})")
    try:
        return re.compile(_DOLLAR.sub(_translated, pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise RequestError(place, pattern, f"invalid regular expression: {error}") from None


def _translated(found: re.Match[str]) -> str:
    part: str | None = found[1]
    if part is None:
        return r"\Z"
    if part.startswith("[") and (sign := _NESTED_SET.search(re.sub(r"\\.", "", part))):
        raise re.error(f"{sign[0]} in the set {part} has to be escaped; classes such as [:alpha:] are not supported")
    return part


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


#: Most applications name one of a few queues.
@lru_cache(maxsize=256)
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


class QueueView(Protocol):
    """The read-only view of a tree of queues that placement needs. All paths are canonical."""

    def exists(self, queue_path: str) -> bool:
        """Return whether the queue exists; the root always does."""

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue takes applications and therefore has no queues below it."""

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue accepts no more applications and is deleted with its last one."""

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return whether the access control lists of a queue, and of the existing queues above it, admit a user."""


class PlacementTrial(NamedTuple):
    """The result of one placement rule."""

    #: The place, name and value of the rule, and of its parent rules as far as they were used.
    rule: str
    #: The queue that the rule found, usable or not; None if it found none.
    queue_path: str | None
    #: The reason why the queue is not used, as a part of a sentence; empty if it is used.
    reason: str

    def to_dict(self) -> dict[str, object]:
        """Return the trial for JSON."""
        return self._asdict()

    def __str__(self) -> str:
        return printable(f"{self.rule}: {self.reason or self.queue_path}")


class Placement(NamedTuple):
    """The queue of an application and the rules that led to it; true if the application is placed."""

    #: None if the application is rejected.
    queue_path: str | None
    #: Every rule that was tried, in order; the last one found the queue if the application is placed. Empty if the
    #: application had been placed before.
    trials: tuple[PlacementTrial, ...]
    #: True if the queue does not exist yet.
    creates: bool
    #: The limits on submitted applications for which the application is rejected although a rule found a queue.
    violations: tuple[Violation, ...] = ()

    def __bool__(self) -> bool:
        return self.queue_path is not None

    def to_dict(self) -> dict[str, object]:
        """Return the placement for JSON."""
        return {
            "placed": self.queue_path is not None,
            "queue_path": self.queue_path,
            "creates": self.creates,
            "trials": [trial.to_dict() for trial in self.trials],
            "violations": [violation.to_dict() for violation in self.violations],
        }

    def __str__(self) -> str:
        if self.violations:
            return "\n".join(["rejected, too many applications:", *(f"  {one}" for one in self.violations)])
        if self.queue_path is None:
            return "\n".join(["rejected, no rule selected a queue:", *(f"  {trial}" for trial in self.trials)])
        if not self.trials:
            return f"already placed in {self.queue_path}"
        *passed, taken = self.trials
        new = "new queue " if self.creates else ""
        first = printable(f"placed in {new}{self.queue_path} by {taken.rule}")
        return "\n".join([f"{first}; earlier rules:" if passed else first, *(f"  {trial}" for trial in passed)])


@final
class PlacementRules:
    """The placement rules of a partition, compiled. Immutable, and safe to share between threads.

    Args:
        rules: the rules in the order in which they are tried; without rules, an application is placed in the queue
            that it names.

    Raises:
        RequestError: the name of a rule is unknown, or the rule can never find a queue: a ``fixed`` or ``tag`` rule has
            no value, the value of a ``fixed`` rule is not a valid queue path, or it starts with ``root`` although
            the rule has a parent rule; or a filter is not valid, or an argument is of another type.
    """

    def __init__(self, rules: Sequence[PlacementRule] = ()) -> None:
        given = require_instances("rules", rules, PlacementRule)
        chains = [tuple(_steps(rule, f"placementrules[{index}]")) for index, rule in enumerate(given)]
        #: Each rule, followed by its parent rule, and so on.
        self._chains: tuple[tuple[_Step, ...], ...] = tuple(chains) or ((_PROVIDED,),)

    def place(self, submission: Submission, queues: QueueView) -> Placement:
        """Find the queue of an application. Changes nothing, and accepts a submission with any strings.

        The first rule that finds a usable queue decides. A queue is not usable in any of these cases:

        - it does not exist, and the rule does not create it;
        - it is not a leaf, or would be below a leaf;
        - it is draining, or the queue in which it would be created is;
        - the user may not submit to it.

        The cost is that of the rules tried.

        Raises:
            RequestError: the submission is of another type.
        """
        require_instance("submission", submission, Submission)
        trials = []
        for chain in self._chains:
            trial = _attempt(chain, submission, queues)
            trials.append(trial)
            if not trial.reason:
                path = trial.queue_path
                return Placement(path, tuple(trials), chain[0].create and path is not None and not queues.exists(path))
        return Placement(None, tuple(trials), creates=False)


def _attempt(steps: Sequence[_Step], submission: Submission, queues: QueueView) -> PlacementTrial:
    """Apply a rule with its parent rules to a submission."""
    names: list[str] = []
    path = label = ""
    for step in steps:
        label = f"{label}, parent {step.label}" if label else step.label
        found, reason = step.find(submission)
        if reason:
            return PlacementTrial(label, None, reason)
        if found == ROOT or found.startswith(QUALIFIED):
            path = found
            break
        names.append(found)
    path = path or f"{ROOT}.{names.pop()}"
    while names:
        if reason := steps[len(names)].reason_against_parent(path, queues):
            return PlacementTrial(label, None, reason)
        path = f"{path}.{names.pop()}"
    return PlacementTrial(label, path, _reason_against(path, submission.user, queues, create=steps[0].create))


class _Step(NamedTuple):
    """A single rule without its parent rule."""

    find_queue: Find
    label: str
    #: None if every user is allowed.
    filter: Filter | None
    create: bool

    def find(self, submission: Submission) -> Found:
        """Return a name or a path from the root, or the reason for neither."""
        if self.filter is not None and not self.filter.allows(submission.user):
            return "", f"the filter denies user {quote(submission.user.name)}"
        return self.find_queue(submission)

    def reason_against_parent(self, path: str, queues: QueueView) -> str:
        """Return the reason why the queue that this rule found cannot be a parent; empty if it can."""
        if not queues.exists(path):
            return "" if self.create else f"{path} does not exist, and the parent rule does not create it"
        return f"{path} is a leaf and cannot have queues below it" if queues.is_leaf(path) else ""


#: The rule of a configuration without rules.
_PROVIDED: Final = _Step(provided, "provided (there are no placement rules)", None, create=False)


def _reason_against(path: str, user: UserGroup, queues: QueueView, *, create: bool) -> str:
    """Return the reason why an application cannot be placed in a queue; empty if it can."""
    if queues.exists(path):
        if not queues.is_leaf(path):
            return f"{path} is not a leaf"
        draining = path
    else:
        if not create:
            return f"{path} does not exist, and the rule does not create it"
        if path.count(".") >= MAX_DEPTH:
            return f"{quote(path)} has more than {MAX_DEPTH} names"
        draining = next(filter(queues.exists, ancestors(path)))
        if queues.is_leaf(draining):
            return f"{draining} is a leaf and cannot have queues below it"
    if not queues.may_submit(path, user):
        return f"user {quote(user.name)} may not submit to {path}"
    return f"{draining} is draining" if queues.is_draining(draining) else ""


def _steps(rule: PlacementRule, place: str) -> Iterator[_Step]:
    """Yield a compiled rule, its parent rule, and so on."""
    at: PlacementRule | None = rule
    prefix = f"{place} "
    while at is not None:
        find, label = finder(at, place)
        yield _Step(find, prefix + label, Filter.compile(at.filter, f"{place}.filter"), create=at.create)
        at, place, prefix = at.parent, f"{place}.parent", ""

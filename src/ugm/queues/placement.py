"""Placement: the rules that find the queue of an application when it is submitted.

Rules are tried in order, and the first that comes up with a queue which may be used decides. Every rule that passes
says why, so that a rejected application can be explained.

A rule finds a name, and puts it below the root or below the queue that its parent rule finds; a text that starts with
``root.`` is a whole path, and the parent rule is not asked. Paths come out canonical. What the rules are given may be
any text: one that cannot be the name of a queue makes its rule pass, and is never an error.

Nothing here makes a queue or changes one: a placement says whether the queue has to be made. The queues are seen
through the few questions of a `QueueView`; what each rule finds is in `ugm.queues.rules`.

Source: Apache YuniKorn, placement rules; resource quota management, "Namespace to queue mapping" and "Parent queue
mapping for namespaces".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self, final

from ugm.errors import printable
from ugm.identity import MAX_DEPTH, ROOT, UserGroup
from ugm.queues.filters import Filter
from ugm.queues.rules import QUALIFIED, Find, Found, RuleConfig, Submission, finder, provided, quoted

__all__ = ["MOST_NAMES", "Placement", "PlacementRules", "PlacementTrial", "QueueView", "RuleConfig", "Submission"]

#: How many names the path of a queue that is created may have; a configuration has none as deep.
MOST_NAMES: Final = MAX_DEPTH


class QueueView(Protocol):
    """What placement asks of a tree of queues. All paths are canonical, and all questions only read."""

    def exists(self, queue_path: str) -> bool:
        """Return whether there is such a queue; the root there is always."""
        ...

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue takes applications, and no queues below it."""
        ...

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue only waits for what runs in it to end."""
        ...

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return whether the access control lists of a queue, or of those above it that exist, let a user in."""
        ...


class PlacementTrial(NamedTuple):
    """What came of one rule."""

    #: Its place, name and value; with those of its parent rules where they were asked.
    rule: str
    #: What it came up with; None for nothing.
    queue_path: str | None
    #: Why it passed, as a part of a sentence; empty if it was taken.
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the trial for JSON."""
        return self._asdict()

    def __str__(self) -> str:
        return printable(f"{self.rule}: {self.reason or self.queue_path}")


class Placement(NamedTuple):
    """Where an application is placed, and how that came about: true when it is placed."""

    #: None if the application is rejected.
    queue_path: str | None
    #: Every rule that was tried, in order; the last was taken if the application is placed. None was if it was before.
    trials: tuple[PlacementTrial, ...]
    #: Whether the queue does not exist yet.
    creates: bool

    def __bool__(self) -> bool:
        return self.queue_path is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the placement for JSON."""
        return {
            "placed": self.queue_path is not None,
            "queue_path": self.queue_path,
            "creates": self.creates,
            "trials": [trial.to_dict() for trial in self.trials],
        }

    def __str__(self) -> str:
        if self.queue_path is None:
            return "\n".join(["rejected, no rule found a queue:", *(f"  {trial}" for trial in self.trials)])
        if not self.trials:
            return f"placed in {self.queue_path} before"
        *passed, taken = self.trials
        created = ", which is created" if self.creates else ""
        first = printable(f"placed in {self.queue_path}{created}, by {taken.rule}")
        return "\n".join([f"{first}; before it:" if passed else first, *(f"  {trial}" for trial in passed)])


@final
class PlacementRules:
    """The placement rules of a partition, compiled. Never changes, and may be shared between threads.

    Args:
        rules: in the order in which they are tried; without any, applications go to the queue that they name.

    Raises:
        RequestError: there is no such rule, or it can never find a queue: a ``fixed`` or ``tag`` rule has no value, a
            ``fixed`` rule one that cannot be a queue, or one that starts at the root although a parent rule is to say
            where; or a filter cannot be read.
    """

    __slots__ = ("_chains",)

    _chains: tuple[_Chain, ...]

    def __init__(self, rules: Sequence[RuleConfig] = ()) -> None:
        chains = [_Chain(_steps(rule, f"placementrules[{index}]")) for index, rule in enumerate(rules)]
        self._chains = tuple(chains) or (_Chain([_PROVIDED]),)

    @classmethod
    def compile(cls, rules: Sequence[RuleConfig] = ()) -> Self:
        """Read the rules out of a configuration, as the class does."""
        return cls(rules)

    def place(self, submission: Submission, queues: QueueView) -> Placement:
        """Find the queue of an application. Changes nothing, and never fails for what a submission says.

        The first rule that comes up with a queue which may be used is taken. A queue may not be used if it does not
        exist and the rule creates none, if it is not a leaf or would be below one, if it or the queue that it would be
        created in is draining, or if the user may not submit to it. The cost is that of the rules tried.
        """
        trials = []
        for chain in self._chains:
            trial = chain.attempt(submission, queues)
            trials.append(trial)
            if not trial.reason:
                path = trial.queue_path
                return Placement(path, tuple(trials), chain.create and path is not None and not queues.exists(path))
        return Placement(None, tuple(trials), creates=False)


@final
class _Chain:
    """A rule of the configuration with its parent rules."""

    __slots__ = ("create", "labels", "steps")

    #: The rule, its parent rule, and so on.
    steps: tuple[_Step, ...]
    #: For people: the rule alone, with its parent rule, and so on.
    labels: tuple[str, ...]
    create: bool

    def __init__(self, steps: Iterable[_Step]) -> None:
        self.steps = tuple(steps)
        self.labels = tuple(
            ", parent ".join(step.label for step in self.steps[:asked]) for asked in range(1, len(self.steps) + 1)
        )
        self.create = self.steps[0].create

    def attempt(self, submission: Submission, queues: QueueView) -> PlacementTrial:
        """Say what comes of the rule."""
        names: list[str] = []
        path = label = ""
        for step, label in zip(self.steps, self.labels, strict=True):
            found, reason = step.find(submission)
            if reason:
                return PlacementTrial(label, None, reason)
            if found == ROOT or found.startswith(QUALIFIED):
                path = found
                break
            names.append(found)
        path = path or f"{ROOT}.{names.pop()}"
        while names:
            if reason := self.steps[len(names)].why_not_above(path, queues):
                return PlacementTrial(label, None, reason)
            path = f"{path}.{names.pop()}"
        return PlacementTrial(label, path, _why_not(path, submission.user, queues, create=self.create))


@final
class _Step:
    """One rule by itself, without its parent rule."""

    __slots__ = ("_filter", "_find", "create", "label")

    _find: Find
    #: None where everybody is allowed.
    _filter: Filter | None
    label: str
    create: bool

    def __init__(self, find: Find, label: str, allowed: Filter | None, *, create: bool) -> None:
        self._find = find
        self._filter = allowed
        self.label = label
        self.create = create

    def find(self, submission: Submission) -> Found:
        """Return a name or a path from the root; or nothing, and why."""
        if self._filter is not None and not self._filter.allows(submission.user):
            return "", f"the filter denies user {quoted(submission.user.name)}"
        return self._find(submission)

    def why_not_above(self, path: str, queues: QueueView) -> str:
        """Return why what this rule found cannot have queues below it; nothing if it can."""
        if not queues.exists(path):
            return "" if self.create else f"{path} does not exist and the parent rule creates none"
        return f"{path} is a leaf, and has no queues below it" if queues.is_leaf(path) else ""


#: What holds where a configuration has no rules.
_PROVIDED: Final = _Step(provided, "provided (there are no placement rules)", None, create=False)


def _why_not(path: str, user: UserGroup, queues: QueueView, *, create: bool) -> str:
    """Return why an application cannot be placed in a queue; nothing if it can."""
    if queues.exists(path):
        if not queues.is_leaf(path):
            return f"{path} is not a leaf"
        draining = path
    else:
        if not create:
            return f"{path} does not exist and the rule creates none"
        if path.count(".") >= MOST_NAMES:
            return f"{quoted(path)} has more than {MOST_NAMES} names"
        draining = _nearest(path, queues)
        if queues.is_leaf(draining):
            return f"{draining} is a leaf, and has no queues below it"
    if not queues.may_submit(path, user):
        return f"user {quoted(user.name)} may not submit to {path}"
    return f"{draining} is draining" if queues.is_draining(draining) else ""


def _nearest(path: str, queues: QueueView) -> str:
    """Return the nearest queue above that exists."""
    above = path.rpartition(".")[0]
    while above != ROOT and not queues.exists(above):
        above = above.rpartition(".")[0]
    return above


def _steps(rule: RuleConfig, place: str) -> Iterator[_Step]:
    """Compile a rule, its parent rule, and so on."""
    at: RuleConfig | None = rule
    prefix = f"{place} "
    while at is not None:
        find, label = finder(at, place)
        yield _Step(find, prefix + label, Filter.compile(at.filter, f"{place}.filter"), create=at.create)
        at, place, prefix = at.parent, f"{place}.parent", ""

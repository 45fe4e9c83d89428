"""Placement: the rules that find the queue of an application when it is submitted.

Rules are tried in order, and the first that finds a usable queue decides. Every rule that finds none gives a reason, so
that a rejection can be explained.

A rule finds a queue name, which is placed below the root or below the queue that the parent rule finds. A text that
starts with ``root.`` is a whole path; the parent rule is then not used. Paths are canonical. The rules accept any text:
if a text cannot be a queue name, its rule finds no queue; it is never an error.

This module creates and changes no queue: a `Placement` states whether the queue has to be created. It reads the queues
through a `QueueView`. `ugm.queues.placement_rules` implements the single rules.

Source: Apache YuniKorn, placement rules; resource quota management, "Namespace to queue mapping" and "Parent queue
mapping for namespaces".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, final

from ugm.arguments import require_instance, require_instances
from ugm.configuration import PlacementRule
from ugm.decision import Violation
from ugm.errors import printable, quote
from ugm.identity import MAX_DEPTH, ROOT, UserGroup, ancestors
from ugm.queues.filters import Filter
from ugm.queues.placement_rules import QUALIFIED, Find, Found, Submission, finder, provided

__all__ = ["Placement", "PlacementRules", "PlacementTrial", "QueueView", "Submission"]


class QueueView(Protocol):
    """The read-only view of a tree of queues that placement needs. All paths are canonical."""

    def exists(self, queue_path: str) -> bool:
        """Return whether the queue exists; the root always does."""
        ...

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue takes applications and therefore has no queues below it."""
        ...

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue accepts no more applications and is deleted with its last one."""
        ...

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return whether the access control lists of a queue, and of the existing queues above it, admit a user."""
        ...


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

    __slots__ = ("_chains", "_patterns")

    #: Each rule, followed by its parent rule, and so on.
    _chains: tuple[tuple[_Step, ...], ...]

    def __init__(self, rules: Sequence[PlacementRule] = ()) -> None:
        given = require_instances("rules", rules, PlacementRule)
        chains = [tuple(_steps(rule, f"placementrules[{index}]")) for index, rule in enumerate(given)]
        self._chains = tuple(chains) or ((_PROVIDED,),)
        filters = (step.filter for chain in chains for step in chain)
        #: The filters that name users or groups by a pattern.
        self._patterns: Final = tuple(each for each in filters if each is not None and each.has_pattern)

    def match_patterns(self, user: UserGroup) -> None:
        """Match the patterns of all rules with a user, and cache the results for `place`.

        A caller does this before it takes a lock for `place`: patterns and names may be long, and groups many.
        """
        for each in self._patterns:
            each.allows(user)

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

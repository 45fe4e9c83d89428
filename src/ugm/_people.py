"""Denials in words for end users: without paths of queues and names of limits, and with amounts as people write them.

The texts depend only on the fields of violations, because a client of a service has no other classes of violations.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final, Protocol

from ugm.errors import cut, printable, time_text
from ugm.resources import MEMORY, VCORE, brief_amount

__all__ = ["amount_for_people", "denial_for_people", "one_line"]

#: The longest summary, and the number of limits that a text for people names.
_LONGEST: Final = 200
_MOST: Final = 3
_BUDGET: Final = "budget"
_OWNERS: Final = ("user", "group", "queue")
#: The objects that limits on pending work count, by the first word of the kind of a violation.
_COUNTED: Final = {"pending": "waiting requests", "submitted": "submitted applications"}
_ADMINISTRATOR: Final = "Waiting does not help: request less, or ask an administrator to raise the limit."


class Rise(Protocol):
    """A later maximum of a limit, a `ugm.partition.LimitRise`."""

    @property
    def at(self) -> int:
        """The second since 1970 from which it is in force."""
        ...


class ExceededLimit(Protocol):
    """A limit that a request would exceed, a `ugm.Violation`."""

    @property
    def kind(self) -> str:
        """See `ugm.Violation`."""
        ...

    @property
    def name(self) -> str:
        """See `ugm.Violation`."""
        ...

    @property
    def resource(self) -> str | None:
        """See `ugm.Violation`."""
        ...

    @property
    def limit(self) -> int:
        """See `ugm.Violation`."""
        ...

    @property
    def used(self) -> int:
        """See `ugm.Violation`."""
        ...

    @property
    def requested(self) -> int:
        """See `ugm.Violation`."""
        ...

    @property
    def can_wait(self) -> bool:
        """See `ugm.Violation`."""
        ...

    @property
    def rise(self) -> Rise | None:
        """See `ugm.Violation`."""
        ...


def one_line(text: str) -> str:
    """Return a text in one line of at most 200 characters.

    >>> one_line("two" + chr(10) + "lines"), len(one_line("x" * 500))
    ('two lines', 200)
    """
    return cut(printable(" ".join(text.split())), _LONGEST - 3)


def denial_for_people(violations: Iterable[ExceededLimit]) -> str:
    """Return sentences about a denial: the limits, and what can help."""
    found = tuple(violations)
    sentences = [_limit_sentence(violation) for violation in found[:_MOST]]
    if len(found) > _MOST:
        sentences.append(f"{len(found) - _MOST} more limits are exceeded.")
    return printable(" ".join([*dict.fromkeys(sentences), _advice(found)]))


def _limit_sentence(violation: ExceededLimit) -> str:
    first, _, pending_owner = violation.kind.partition(" ")
    counted = _COUNTED.get(first)
    kind, resource = (pending_owner if counted else violation.kind), violation.resource
    if kind == "reservation":
        return "A request that has waited longer needs what is free."
    if resource is None and kind not in _OWNERS:
        return f"A limit of the kind {kind} does not allow this request."
    if kind == _BUDGET and resource is not None:
        return _budget_sentence(_owner_text(kind, violation.name), resource, violation)
    limit, used, requested = (
        f"{brief_amount(None, amount)} {counted or 'running applications'}"
        if resource is None
        else amount_for_people(resource, amount)
        for amount in (violation.limit, violation.used, violation.requested)
    )
    owner = _owner_text(kind, violation.name)
    if resource is None:
        return f"{owner} allows {limit} (now: {violation.used})."
    if violation.requested > violation.limit:
        return f"{owner} allows {limit} at most, and the request is for {requested}."
    state = "waiting" if counted else "in use"
    return f"{owner} allows {limit} ({state}: {used}), and the request is for {requested}."


def _budget_sentence(owner: str, resource: str, violation: ExceededLimit) -> str:
    """Return a sentence about a budget, whose amounts are amounts times seconds."""
    if not (violation.limit or violation.used or violation.requested):
        return f"{owner} needs to know how long the work takes."
    limit, used, requested = (
        amount_for_people(resource, Fraction(amount, 3600), "hours")
        for amount in (violation.limit, violation.used, violation.requested)
    )
    request = f", and the request is for {requested}" if violation.requested else ""
    return f"{owner} allows {limit} (used or promised: {used}){request}."


def _owner_text(kind: str, name: str) -> str:
    if kind == "user":
        return "Your limit"
    if kind == "group":
        return f"The limit of the group {name}"
    leaf = name.rpartition(".")[2]
    if kind == "queue":
        return "The cluster" if leaf == name else f"The queue {leaf}"
    return f"The {kind} {leaf}"


def amount_for_people(resource: str, amount: Fraction | int, per: str = "") -> str:
    """Return an amount in the units of people, also for a time: 1.5 core hours."""
    number = brief_amount(resource, amount)
    ends = "" if number == "1" or per else "s"
    after = f" {per}" if per else ""
    if resource == VCORE:
        return f"{number} core{ends}{after}"
    if resource == MEMORY:
        digits = number.rstrip("KMGTPEi")
        return f"{digits} {number[len(digits) :]}B{after} of memory"
    short = resource.rpartition("/")[2]
    if short == "gpu":
        return f"{number} GPU{ends}{after}"
    return f"{number} {short if ends else _singular(short)}{after}"


def _singular(name: str) -> str:
    """Return the name of one unit of a resource, whose name may be a plural: `servers`."""
    return name if name.endswith(("as", "is", "ss", "us")) else name.removesuffix("s")


def _advice(violations: tuple[ExceededLimit, ...]) -> str:
    if any(violation.kind == _BUDGET and not violation.limit + violation.used for violation in violations):
        return "State the duration, or ask an administrator."
    if not all(violation.can_wait for violation in violations):
        return _ADMINISTRATOR
    rises = [violation.rise.at for violation in violations if violation.rise is not None]
    if rises:
        return f"More is allowed from {time_text(max(rises))} on."
    if any(violation.kind == _BUDGET for violation in violations):
        return "Try again when other work has ended, or when the budget is renewed."
    return "Try again when other work has ended."

"""What an engine answers: yes, or no with every limit that stands in the way.

A denial is a value. It carries the numbers as they were when it was made and writes text only when somebody reads it,
so that a scheduler which asks thousands of times a second pays for nothing that it does not look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, final

from ugm.resources import format_amount

__all__ = ["ALLOWED", "Decision", "TrackingType", "Violation"]


class TrackingType(StrEnum):
    """Whose usage a tracker counts."""

    USER = "user"
    GROUP = "group"


class Violation(NamedTuple):
    """One limit that a request would exceed, or, with nothing requested, that is exceeded already.

    >>> told = Violation(TrackingType.USER, "sue", "root.prod", "*", "memory", 10 * 2**30, 9 * 2**30, 3 * 2**30)
    >>> print(told)
    user 'sue' in root.prod: 3Gi memory requested, 9Gi of 10Gi used, 2Gi too much (limit for '*')
    >>> told.shortfall == 2 * 2**30, told.can_wait
    (True, True)
    """

    tracker: TrackingType
    #: Whose limit it is: the user, or the group that the application is charged to.
    name: str
    #: Where the limit holds; the request may come from any queue below.
    queue_path: str
    #: The name that the limit was set for: the user or group itself, or the wildcard ``*``.
    limit_name: str
    #: None for the number of running applications.
    resource: str | None
    limit: int
    used: int
    requested: int

    @property
    def shortfall(self) -> int:
        """How much would have to be given back, or the limit raised, for the request to fit."""
        return self.used + self.requested - self.limit

    @property
    def can_wait(self) -> bool:
        """Whether the request would fit if everything else were given back."""
        return self.requested <= self.limit

    def to_dict(self) -> dict[str, Any]:
        """Return the violation for JSON, in the same words as its attributes."""
        return {**self._asdict(), "tracker": self.tracker.value, "shortfall": self.shortfall, "can_wait": self.can_wait}

    def __str__(self) -> str:
        where = f"{self.tracker} {self.name!r} in {self.queue_path}"
        whose = f"(limit for {self.limit_name!r})"
        if self.resource is None:
            asked = f", {self.requested} more requested" if self.requested else ""
            return f"{where}: {self.used} of {self.limit} applications running{asked} {whose}"
        used, limit, requested, shortfall = (
            format_amount(self.resource, amount) for amount in (self.used, self.limit, self.requested, self.shortfall)
        )
        if not self.requested:
            return f"{where}: {used} {self.resource} used of {limit}, {shortfall} too much {whose}"
        if not self.can_wait:
            return f"{where}: {requested} {self.resource} requested, never more than {limit} allowed {whose}"
        return f"{where}: {requested} {self.resource} requested, {used} of {limit} used, {shortfall} too much {whose}"


@final
@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a request: true when it is allowed.

    Attributes:
        violations: every limit in the way, the user's before the group's, each leaf to root; empty when allowed.
    """

    violations: tuple[Violation, ...] = ()

    def __bool__(self) -> bool:
        return not self.violations

    @property
    def allowed(self) -> bool:
        """Whether the request was, or would be, granted."""
        return not self.violations

    @property
    def can_wait(self) -> bool:
        """Whether the request can be granted without a change of limits, now or when others have given back."""
        return all(violation.can_wait for violation in self.violations)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision for JSON."""
        return {
            "allowed": self.allowed,
            "can_wait": self.can_wait,
            "violations": [violation.to_dict() for violation in self.violations],
        }

    def __str__(self) -> str:
        if self.allowed:
            return "allowed"
        advice = "waiting can help" if self.can_wait else "waiting can never help"
        return "\n".join([f"denied, {advice}:", *(f"  {violation}" for violation in self.violations)])


#: The one decision without violations; most decisions are this object.
ALLOWED: Final = Decision()

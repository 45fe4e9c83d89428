"""Results that combine several values of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, TypeVar

from ugm._json_values import Row, attributes, to_json
from ugm.decision import Decision, EffectiveLimit, Violation, denial_for_people, one_line
from ugm.identity import UserGroup
from ugm.partition.engine.application import Application, ApplicationInfo
from ugm.partition.rows import Allocation
from ugm.queues import Placement, QueueState
from ugm.resources import Resource, as_float, format_amount

if TYPE_CHECKING:
    from ugm.partition.engine.state import PartitionState


@dataclass(frozen=True, slots=True)
class UserInQueue:
    """A user in a queue: stands for an application that the user could submit there.

    The queue need not exist. A queue that placement would create counts as created.

    >>> UserInQueue(UserGroup("sue"), "root.prod").queue_path
    'root.prod'
    """

    user: UserGroup
    queue_path: str
    #: The tags of the submission, for quota models that read them.
    tags: Mapping[str, str] | None = None
    #: The quota that the submission would set on a queue outside of the configuration.
    quota: Resource | None = None


#: A limit with its usage.
_LimitT = TypeVar("_LimitT", EffectiveLimit, QueueState)
#: The subject of a query: the id of an application, or a user in a queue.
Subject: TypeAlias = str | UserInQueue


class Holder(NamedTuple):
    """An application that holds some of a resource that a request is short of."""

    application_id: str
    user: str
    queue_path: str
    #: The amount of the resource that it holds; 1 if the request is short of running applications.
    amount: int

    def to_dict(self) -> dict[str, object]:
        """Return the holder for JSON, with the names of its attributes."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with the largest holders of each short resource, the limits and the headroom, at one moment."""

    decision: Decision
    #: For each violation of the decision, in the same order: the largest holders first, then by id. Empty for every
    #: violation of a request that can never fit, because no release would help.
    holders: tuple[tuple[Holder, ...], ...] = ()
    #: Every limit that holds for the request: of users, groups and queues, then of other quota models.
    limits: tuple[EffectiveLimit, ...] = ()
    #: The queue of the subject; empty if there is none.
    queue_path: str = ""
    #: The amounts that may be requested, for each limited resource; None if no resource is limited.
    headroom: Resource | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the explanation for JSON."""
        pairs = zip(self.decision.violations, self.holders, strict=True)
        return {
            **self.decision.to_dict(),
            "queue_path": self.queue_path or None,
            "violations": [{**violation.to_dict(), "holders": to_json(holders)} for violation, holders in pairs],
            **attributes(self, ("limits", "headroom")),
        }

    def __str__(self) -> str:
        text = str(self.decision).splitlines()
        lines = text[:1]
        for violation, holders in zip(self.decision.violations, self.holders, strict=True):
            lines.append(f"  {violation}")
            lines += [f"    held by {_holder_text(violation, holder)}" for holder in holders]
        if self.decision.evictions and not self.decision:
            lines.append(text[-1])
        return "\n".join(lines)


def _holder_text(violation: Violation, holder: Holder) -> str:
    text = f"{holder.application_id!r} of {holder.user!r} in {holder.queue_path}"
    if violation.resource is None:
        return text
    return f"{text}: {format_amount(violation.resource, holder.amount)}"


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to ``admit``: true if the application is placed and holds all of its allocations."""

    placement: Placement
    #: The decision about the allocations together; None if the application got no queue.
    decision: Decision | None
    #: The allocations that were asked for, as they are held now; empty after a denial.
    allocations: tuple[Allocation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.placement) and bool(self.decision)

    @property
    def queue_path(self) -> str | None:
        """The queue of the application; None if it got none."""
        return self.placement.queue_path

    @property
    def summary(self) -> str:
        """The answer in one line of at most 200 characters."""
        return one_line(str(self.placement)) if self.decision is None else self.decision.summary

    def for_people(self) -> str:
        """Return the answer in sentences for end users; see `Decision.for_people`."""
        if self.decision is not None:
            return self.decision.for_people()
        if self.placement.violations:
            return denial_for_people(self.placement.violations)
        return "No queue accepts this work for you. Check the name of the queue, or ask an administrator."

    def to_dict(self) -> dict[str, object]:
        """Return the answer for JSON."""
        return {
            "admitted": bool(self),
            "placement": {**self.placement.to_dict(), "text": str(self.placement)},
            "decision": None if self.decision is None else {**self.decision.to_dict(), "text": str(self.decision)},
            "for_people": self.for_people(),
            **attributes(self, ("summary", "allocations")),
        }

    def __str__(self) -> str:
        return str(self.placement if self.decision is None else self.decision)


@dataclass(frozen=True, slots=True)
class SyncReport(Row):
    """The changes that ``synchronize`` has made; true if there are any. All ids are sorted."""

    #: The applications and allocations that ran, and that the partition did not have.
    adopted_applications: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    #: The allocations that had another size or node.
    corrected: tuple[str, ...] = ()
    #: The allocations that no longer ran, and the applications that were gone.
    released: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    #: Every limit that is exceeded now.
    exceeded: tuple[Violation, ...] = ()

    def __bool__(self) -> bool:
        return any((self.adopted_applications, self.adopted, self.corrected, self.released, self.ended))

    def __str__(self) -> str:
        changes = [
            f"{name.replace('_', ' ')}: {', '.join(map(repr, ids))}"
            for name in _CHANGES
            if (ids := getattr(self, name))
        ]
        return "\n".join([*(changes or ["nothing has changed"]), *(f"exceeded: {one}" for one in self.exceeded)])


_CHANGES: Final = ("adopted_applications", "adopted", "corrected", "released", "ended")


@dataclass(frozen=True, slots=True)
class SubmissionReport:
    """The placement of an application that is not submitted yet, and the answer to its first allocation."""

    placement: Placement
    #: Empty if no placement rule finds a queue.
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class OwnedAllocation:
    """An allocation with the user, the group and the queue of its application."""

    allocation: Allocation
    user: str
    #: None if the application is charged to no group, or has not run yet.
    group: str | None
    queue_path: str

    @classmethod
    def of(cls, application: Application, row: Allocation) -> OwnedAllocation:
        """Return an allocation with its owner."""
        owner = application.row
        return cls(row, owner.user.name, owner.group or None, owner.queue_path)

    def to_dict(self) -> dict[str, object]:
        """Return the allocation for JSON."""
        return {**self.allocation.to_dict(), **attributes(self, ("user", "group", "queue_path"))}


def owned_allocations(state: PartitionState, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
    """Return those of the given allocations that exist, with their owners, in the given order."""
    rows = map(state.allocations.get, allocation_ids)
    return tuple(OwnedAllocation.of(state.owner(row), row) for row in rows if row is not None)


@dataclass(frozen=True, slots=True)
class ApplicationReport:
    """An application with its limits, and explanations for its pending allocations."""

    application: ApplicationInfo
    limits: tuple[EffectiveLimit, ...]
    #: The first pending allocations in the order of their ids, each with the answer that it would get.
    pending: tuple[tuple[OwnedAllocation, Explanation], ...]
    #: The amounts that may be requested, for each limited resource; None if no resource is limited.
    headroom: Resource | None = None


@dataclass(frozen=True, slots=True)
class LimitUtilization(Row):
    """The utilization of the most used limit of a user or group."""

    name: str
    #: The usage in all queues together, without zeros.
    usage: Resource
    running_applications: int
    #: The limit with the largest share in use; None if there is no limit on any queue in use.
    limit: EffectiveLimit | None = None
    #: The resource of that limit; None for the number of applications, or if there is no limit.
    resource: str | None = None
    #: The share of that limit that is in use: 1 is all of it. A limit of 0 counts as fully used.
    share: Fraction = field(default_factory=Fraction)

    @classmethod
    def of(cls, name: str, usage: Resource, running: int, limits: Iterable[EffectiveLimit]) -> Self:
        """Return the utilization of an owner with these limits; the first of equally used limits counts."""
        shares = (
            (limit, resource, Fraction(used, most) if most else Fraction(1 + used))
            for limit, resource, used, most in shares_of(limits)
        )
        return cls(name, usage, running, *max(shares, key=itemgetter(2), default=(None, None, Fraction(0))))

    def to_dict(self) -> dict[str, object]:
        """Return the utilization for JSON, with the share as a decimal number."""
        return {**attributes(self, self.__slots__), "share": as_float(self.share)}


def shares_of(limits: Iterable[_LimitT]) -> Iterator[tuple[_LimitT, str | None, int, int]]:
    """Yield the usage and the maximum of every limited resource, and of the number of applications with None."""
    for limit in limits:
        for name, maximum in (limit.max_resources or {}).items():
            yield limit, name, limit.usage.get(name, 0), maximum
        if limit.max_applications:
            yield limit, None, limit.running_applications, limit.max_applications

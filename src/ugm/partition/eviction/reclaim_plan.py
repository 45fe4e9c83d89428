"""Plans for reclaiming what a group is guaranteed, with the reasons, and the search for their victims.

The values of `ugm.model.Borrower` determine which allocations the rules allow. A function determines whether some of
them suffice. The search knows neither the partition nor its models.

The rules regard only the resources that the request lacks. An allocation may be evicted if

1. it is preemptible and uses such a resource;
2. in some model, the request is within the guarantee of its group, or of one above it that does not contain the
   allocation: at least one such resource that the allocation uses is guaranteed, and no guarantee is exceeded;
3. in that model, its group still uses more than its share when the victims before it have left;
4. in no model, a group that loses the allocation falls below its guarantee.

Priorities do not matter for the right to reclaim, only for the choice. A group that lost an allocation cannot reclaim
it, because it used more than its guarantee with it. It may borrow again.

The choice: allocations of low priority come first, then those that use most of the missing amounts, then by id. They
are added until the request fits; if it never does, the smallest allocations come first. Each victim that is not needed
is then removed, the most important first, so none can be left out.

The cost: one call of the function for each candidate that is added or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonObject, attributes
from ugm.decision import Violation
from ugm.identity import TrackingType
from ugm.model import Borrower, Guarantee
from ugm.partition.answers.reports import Subject, UserInQueue
from ugm.partition.rows import Allocation
from ugm.resources import Resource, format_amount

__all__ = [
    "ProtectedCount",
    "Protection",
    "ReclaimCandidate",
    "ReclaimOutcome",
    "ReclaimPlan",
    "ReclaimVictim",
    "VictimSearch",
    "Victims",
    "is_entitled",
]


class ReclaimOutcome(StrEnum):
    """The result of planning; the first that applies."""

    #: The request fits now.
    FITS = "fits"
    #: The request fits once the terminating allocations are released.
    AWAITS_TERMINATING = "awaits_terminating"
    #: The request can never fit.
    NEVER = "never"
    #: A limit of the user, the group or the number of applications denies the request. Eviction does not help.
    BLOCKED = "blocked"
    #: The request fits once the victims are released.
    PLAN = "plan"
    #: There are no victims that may be evicted and suffice.
    NONE = "none"


class Protection(StrEnum):
    """The first reason why an allocation is not a victim."""

    #: The allocation has ``preemptible=False``.
    NOT_PREEMPTIBLE = "not_preemptible"
    #: The allocation uses nothing that the request lacks.
    FREES_NOTHING = "frees_nothing"
    #: The request is not within the guarantee of its group.
    NOT_ENTITLED = "not_entitled"
    #: The group of the allocation uses no more than its share.
    WITHIN_SHARE = "within_share"
    #: A group of the allocation would use less than it is guaranteed.
    GUARANTEE = "guarantee"
    #: Nothing protects the allocation, but other victims suffice, or all victims together do not.
    NOT_NEEDED = "not_needed"

    @property
    def text(self) -> str:
        """The reason in words."""
        return _TEXTS[self]


_TEXTS: Final = {
    Protection.NOT_PREEMPTIBLE: "not preemptible",
    Protection.FREES_NOTHING: "uses nothing that is missing",
    Protection.NOT_ENTITLED: "the request is not within its guarantee",
    Protection.WITHIN_SHARE: "the group is within its share",
    Protection.GUARANTEE: "the group would be below its guarantee",
    Protection.NOT_NEEDED: "not needed",
}

#: The most groups that the text of a plan lists.
_LISTED: Final = 5


class ReclaimVictim(NamedTuple):
    """An allocation to evict."""

    allocation_id: str
    application_id: str
    user: str
    queue_path: str
    usage: Resource
    priority: int
    #: The group that borrows, and the groups above it: each guarantee in a resource that the victim frees and the
    #: request lacks. The usage is that after the eviction of all victims.
    guarantees: tuple[Guarantee, ...]

    def to_dict(self) -> JsonObject:
        """Return the victim for JSON."""
        return attributes(self, self._fields)

    def __str__(self) -> str:
        text = f"evict {self.allocation_id!r} of {self.user!r} in {self.queue_path} ({self.usage})"
        if not self.guarantees:
            return text
        own = self.guarantees[0]
        used, guaranteed = _amount(own, own.used), _amount(own, own.guaranteed)
        return f"{text}: {own.kind} {own.name!r} would use {used}, and is guaranteed {guaranteed}"


class ProtectedCount(NamedTuple):
    """The number of allocations of a group that are not victims, for one reason."""

    kind: str
    name: str
    reason: Protection
    number: int

    def __str__(self) -> str:
        return f"{self.number} of {self.kind} {self.name!r} ({self.reason.text})"


@final
@dataclass(frozen=True, slots=True)
class ReclaimPlan:
    """The allocations to evict so that a request within a guarantee fits; true if there are any.

    A plan has no effect until it is carried out: with `ugm.Partition.reclaim`, or with ``preempt`` and ``release`` of
    each victim.
    """

    #: The request: its application, or its user in a queue; its usage and its properties.
    subject: Subject
    usage: Resource
    priority: int
    preemptible: bool
    outcome: ReclaimOutcome
    #: What the request lacks once the terminating allocations are released.
    missing: tuple[Violation, ...] = ()
    #: The guarantees of the groups of the request in the missing resources; the usage includes the request.
    entitled: tuple[Guarantee, ...] = ()
    #: The least important first.
    victims: tuple[ReclaimVictim, ...] = ()
    #: All other allocations of other groups, counted by group and reason.
    protected: tuple[ProtectedCount, ...] = ()
    #: The duration that the request promises; None if it promises none.
    duration: int | None = None
    #: The node on which the request fits; None if the plan was made without nodes, or the request fits on none.
    node: str | None = None
    #: The free amounts of the node, as they were passed.
    free_on_node: Resource | None = None
    #: What is missing on the node once terminating allocations are released; None without victims or without a node.
    missing_on_node: Resource | None = None

    def __bool__(self) -> bool:
        return bool(self.victims)

    @property
    def allocation_ids(self) -> tuple[str, ...]:
        """The ids of the victims."""
        return tuple(victim.allocation_id for victim in self.victims)

    def to_dict(self) -> JsonObject:
        """Return the plan for JSON."""
        return attributes(self, _JSON)

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"  {line}" for line in self._lines())])

    def _headline(self) -> str:
        request = f"the request of {_subject_text(self.subject)}"
        where = "" if self.node is None else f" on node {self.node!r}"
        victims = ", ".join(map(repr, self.allocation_ids))
        return _HEADLINES[self.outcome].format(request=request, where=where, victims=victims)

    def _lines(self) -> Iterator[str]:
        yield from map(str, self.missing)
        for resource, amount in (self.missing_on_node or {}).items():
            yield f"node {self.node!r}: {format_amount(resource, amount)} {resource} missing"
        for one in self.entitled:
            is_within = "within" if one.used <= one.guaranteed else "above"
            amounts = f"would use {_amount(one, one.used)} of {_amount(one, one.guaranteed)} guaranteed"
            yield f"{one.kind} {one.name!r} {amounts}: {is_within} its guarantee"
        yield from map(str, self.victims)
        if self.protected:
            rest = sum(one.number for one in self.protected[_LISTED:])
            others = [f"{rest} of other groups"] if rest else []
            yield f"not taken: {', '.join([*map(str, self.protected[:_LISTED]), *others])}"


#: The attributes of a plan for JSON.
_JSON: Final = ("outcome", "missing", "entitled", "victims", "protected", "node", "missing_on_node")

_HEADLINES: Final = {
    ReclaimOutcome.FITS: "{request} fits{where}",
    ReclaimOutcome.AWAITS_TERMINATING: "{request} fits{where} once the terminating allocations are released",
    ReclaimOutcome.NEVER: "{request} can never fit",
    ReclaimOutcome.BLOCKED: "no eviction lets {request} fit",
    ReclaimOutcome.PLAN: "{request} would fit{where} without {victims}",
    ReclaimOutcome.NONE: "no eviction lets {request} fit",
}


def _amount(guarantee: Guarantee, amount: int) -> str:
    return f"{format_amount(guarantee.resource, amount)} {guarantee.resource}"


def _subject_text(subject: Subject) -> str:
    return f"{subject.user.name!r} in {subject.queue_path}" if isinstance(subject, UserInQueue) else repr(subject)


#: A guarantee: the number of the model, and the place, name and resource.
_Key: TypeAlias = tuple[int, str, str, str]


@final
@dataclass(slots=True, eq=False)
class ReclaimCandidate:
    """An allocation of another group."""

    row: Allocation
    #: The amounts of missing resources that it uses; one object for many candidates that use the same.
    frees: Mapping[str, int]
    #: The part of the missing amounts that it frees, in millionths.
    size: int
    #: Its group in each model that lends, with the number of the model; one object for all candidates of the group.
    groups: list[tuple[int, Borrower]]

    @property
    def importance(self) -> tuple[int, int]:
        """Its priority; of two with equal ones, the one that frees less is more important."""
        return self.row.priority, -self.size


@final
@dataclass(slots=True, eq=False)
class Victims:
    """A set of victims that the rules allow."""

    chosen: dict[str, ReclaimCandidate] = field(default_factory=dict)
    #: The amounts of missing resources that they use together.
    freed: Counter[str] = field(default_factory=Counter)
    _taken: Counter[_Key] = field(default_factory=Counter)

    def add(self, candidate: ReclaimCandidate) -> None:
        """Add a candidate."""
        self._count(candidate, 1)
        self.chosen[candidate.row.allocation_id] = candidate

    def remove(self, candidate: ReclaimCandidate) -> None:
        """Undo `add`."""
        self._count(candidate, -1)
        del self.chosen[candidate.row.allocation_id]

    def _count(self, candidate: ReclaimCandidate, times: int) -> None:
        for resource, amount in candidate.frees.items():
            self.freed[resource] += times * amount
        for model, borrower in candidate.groups:
            for one in borrower.guarantees:
                self._taken[_key(model, one)] += times * candidate.frees.get(one.resource, 0)

    def used(self, model: int, guarantee: Guarantee) -> int:
        """Return the usage of a group after the eviction of all victims."""
        return guarantee.used - self._taken[_key(model, guarantee)] if self._taken else guarantee.used

    def protection_of(self, candidate: ReclaimCandidate) -> Protection | None:
        """Return the first reason against a further victim; None if the rules allow it."""
        if not candidate.row.preemptible:
            return Protection.NOT_PREEMPTIBLE
        if not candidate.frees:
            return Protection.FREES_NOTHING
        entitled = [group for group in candidate.groups if is_entitled(group[1].entitled, candidate.frees)]
        if not entitled:
            return Protection.NOT_ENTITLED
        if not any(self._exceeds_share(candidate, *group) for group in entitled):
            return Protection.WITHIN_SHARE
        return Protection.GUARANTEE if self._breaks_guarantee(candidate) else None

    # Loops, because generators take twice as long, and a search asks for every allocation of the other groups.

    def _exceeds_share(self, candidate: ReclaimCandidate, model: int, borrower: Borrower) -> bool:
        for one in borrower.guarantees:
            if one.name == borrower.name and one.resource in candidate.frees and self.used(model, one) > one.share:
                return True
        return False

    def _breaks_guarantee(self, candidate: ReclaimCandidate) -> bool:
        frees = candidate.frees
        for model, borrower in candidate.groups:
            for one in borrower.guarantees:
                freed = frees.get(one.resource)
                if freed and one.guaranteed and self.used(model, one) - freed < one.guaranteed:
                    return True
        return False


def _key(model: int, guarantee: Guarantee) -> _Key:
    return model, guarantee.place, guarantee.name, guarantee.resource


def is_entitled(guarantees: Iterable[Guarantee], resources: Mapping[str, int]) -> bool:
    """Return whether a request is within the guarantee of one of its groups in some resources."""
    within: dict[tuple[str, str], bool] = {}
    for one in guarantees:
        if one.resource in resources and one.guaranteed:
            group = one.place, one.name
            within[group] = within.get(group, True) and one.used <= one.guaranteed
    return any(within.values())


@final
@dataclass(slots=True, eq=False)
class VictimSearch:
    """The search for victims for one request."""

    #: What the request lacks.
    missing: Sequence[Violation]
    #: By allocation id.
    candidates: Mapping[str, ReclaimCandidate]
    #: What the node of the request lacks, if it has one; all candidates are there.
    lacking: Mapping[str, int]
    #: Returns whether the request fits without some allocations.
    fits: Callable[[Iterable[ReclaimCandidate]], bool]
    #: The reasons against candidates as the only victim, as far as they are known, by what decides about them.
    _protections: dict[tuple[object, ...], Protection | None] = field(default_factory=dict, init=False)

    def run(self) -> Victims | None:
        """Return the victims; None if there is no set that the rules allow and that suffices."""
        allowed = [one for one in self.candidates.values() if self._protection_of(one) is None]
        by_priority = sorted(allowed, key=lambda one: (one.importance, one.row.allocation_id))
        by_size = sorted(allowed, key=lambda one: (one.size, one.row.allocation_id))
        victims = self._add_until_fit(by_priority) or self._add_until_fit(by_size)
        return None if victims is None else self._without_needless(victims)

    def _protection_of(self, candidate: ReclaimCandidate) -> Protection | None:
        """Return the first reason against the eviction of a candidate alone; None if the rules allow it."""
        # Most allocations of a group use the same amounts. Equal amounts and groups are the same objects.
        alike = candidate.row.preemptible, id(candidate.frees), *map(id, candidate.groups)
        if alike not in self._protections:
            self._protections[alike] = Victims().protection_of(candidate)
        return self._protections[alike]

    def _add_until_fit(self, order: Iterable[ReclaimCandidate]) -> Victims | None:
        """Return the first candidates that the rules allow and that suffice."""
        victims = Victims()
        for candidate in order:
            if victims.protection_of(candidate) is None:
                victims.add(candidate)
                if self._may_suffice(victims) and self.fits(victims.chosen.values()):
                    return victims
        return None

    def _may_suffice(self, victims: Victims) -> bool:
        """Return whether the victims use as much as the node and any queue lack; this saves most checks."""
        return all(victims.freed[name] >= amount for name, amount in self.lacking.items()) and all(
            victims.freed[one.resource] >= one.shortfall
            for one in self.missing
            if one.kind == TrackingType.QUEUE and one.resource is not None
        )

    def _without_needless(self, victims: Victims) -> Victims:
        """Remove each victim without which the request fits as well, until there is none."""
        while True:
            important_first = sorted(victims.chosen.values(), key=lambda one: one.importance, reverse=True)
            needless = next((one for one in important_first if self._fits_without(victims, one)), None)
            if needless is None:
                return victims
            victims.remove(needless)

    def _fits_without(self, victims: Victims, left_out: ReclaimCandidate) -> bool:
        return self.fits([one for one in victims.chosen.values() if one is not left_out])

    def objection(self) -> str | None:
        """Return the reason why the candidates are not the victims that the rules choose; None if they are."""
        victims = self.run()
        if victims is None:
            protected = ", ".join(map(str, self.protected(Victims())))
            return f"its victims may not be evicted, or do not suffice: {protected}"
        needless = [name for name in self.candidates if name not in victims.chosen]
        return f"the eviction of {needless[0]!r} is no longer needed" if needless else None

    # The parts of a plan

    def entitled(self, victims: Victims) -> tuple[Guarantee, ...]:
        """Return the guarantees of the request against the victims, or against all groups if there are none."""
        resources = {one.resource for one in self.missing} | self.lacking.keys()
        found = (
            guarantee
            for candidate in (victims.chosen or self.candidates).values()
            for _, borrower in candidate.groups
            for guarantee in borrower.entitled
            if guarantee.resource in resources
        )
        return tuple(dict.fromkeys(found))

    def protected(self, victims: Victims) -> tuple[ProtectedCount, ...]:
        """Return the number of other allocations by group and reason; the largest numbers first."""
        counts: Counter[tuple[str, str, Protection]] = Counter()
        for name, candidate in self.candidates.items():
            if name not in victims.chosen:
                _, group = candidate.groups[0]
                counts[group.kind, group.name, self._protection_of(candidate) or Protection.NOT_NEEDED] += 1
        return tuple(
            ProtectedCount(*key, count) for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        )

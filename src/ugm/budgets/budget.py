"""A budget as a value: whom it limits, to how much, and in which periods; and the budgets that cover a claim.

Periods are days, weeks, months, quarters and years, in UTC or in a time zone. Each period has an index. A period begins
with the first second of its first day. If a time zone skips that midnight, the period begins with the first later
second; if the midnight occurs twice, with the first one. So a day may have 23 or 25 hours. A date that a zone skips as
a whole is a period of 0 seconds.

The time of a call does not depend on the distance between the periods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date, tzinfo
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias, final

from ugm.arguments import require_mapping, require_resource
from ugm.configuration.schedules import DAY, EPOCH, LAST_DAY, local_day, local_second, zone_of
from ugm.errors import RequestError
from ugm.identity import ROOT, WILDCARD, canonical_path, is_below, require_name
from ugm.model import Claim, Period, Scope
from ugm.resources import Resource

#: The weekday of January 1, 1970: the number of days after a Monday.
_WEEKDAY: Final = 3
_MONTHS: Final = 12


class Calendar:
    """The periods of one kind in a time zone.

    Args:
        zone: the time zone.
        index_of: returns the index of the period of a date.
        first_day: returns the ordinal of the first day of a period, as in `datetime.date`.
    """

    def __init__(self, zone: tzinfo, index_of: Callable[[date], int], first_day: Callable[[int], int]) -> None:
        self._zone: Final = zone
        self._index_of: Final = index_of
        self._first_day: Final = first_day

    def day_of(self, second: int) -> date:
        """Return the date of a second."""
        return date.fromordinal(local_day(second, self._zone))

    def index(self, second: int) -> int:
        """Return the index of the period of a second."""
        index = self._index_of(self.day_of(second))
        # A clock that is set back across midnight returns to the date before, whose period has ended.
        return index + 1 if second >= self.end(index) else index

    def start(self, index: int) -> int:
        """Return the first second of a period; `ugm.configuration.schedules.NEVER` after the year 9999."""
        return local_second(self._first_day(index), self._zone)

    def end(self, index: int) -> int:
        """Return the first second of the next period."""
        return self.start(index + 1)


@lru_cache(maxsize=256)
def calendar_of(period: Period, zone: str) -> Calendar:
    """Return the calendar of a kind of period in a time zone.

    Raises:
        RequestError: there is no such time zone.
    """
    found = zone_of(zone)
    if period is Period.NONE:
        # One period, which is followed by one after the last day.
        return Calendar(found, lambda _: 0, lambda index: LAST_DAY + 1 if index > 0 else 1)
    if period is Period.DAY:
        return Calendar(found, lambda day: day.toordinal() - EPOCH, lambda index: EPOCH + index)
    if period is Period.WEEK:
        first = EPOCH - _WEEKDAY
        return Calendar(found, lambda day: (day.toordinal() - first) // 7, lambda index: first + 7 * index)
    length = {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: _MONTHS}[period]

    def first_day(index: int) -> int:
        year, month = divmod(index * length, _MONTHS)
        return date(year, month + 1, 1).toordinal() if year <= date.max.year else LAST_DAY + 1

    return Calendar(found, lambda day: (day.year * _MONTHS + day.month - 1) // length, first_day)


def date_text(day: date) -> str:
    """Return a date for a reader.

    >>> date_text(date(2026, 12, 1))
    'December 1, 2026'
    """
    return f"{day:%B} {day.day}, {day.year}"


def duration_text(seconds: int) -> str:
    """Return a duration for a reader, rounded up to its largest unit.

    >>> duration_text(10_799), duration_text(45), duration_text(200_000)
    ('3 h', '45 s', '3 days')
    """
    for unit, size, least in (("days", DAY, DAY + 1), ("h", 3600, 3600), ("min", 60, 60)):
        if seconds >= least:
            return f"{-(-seconds // size)} {unit}"
    return f"{seconds} s"


class Carry(StrEnum):
    """The part of the amount that was not used in a period and is added to the next one. Debts are never carried."""

    #: Nothing.
    NONE = "none"
    #: Everything.
    ALL = "all"
    #: At most the cap of the budget.
    CAPPED = "capped"


class BudgetMode(StrEnum):
    """The rule by which a budget admits a claim."""

    #: A claim must promise its duration, and everything that is promised must fit the budget.
    SAFE = "safe"
    #: Every claim is admitted until the budget is used up.
    ADMIT = "admit"


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of amounts times seconds: 3,600,000 ``vcore`` is one core for an hour.

    At most one of *user*, *group*, *elastic_group* and *quota_node* is given. Without any, the budget is that of the
    queue. A budget applies in its queue and below it.

    Raises:
        RequestError: a value is invalid.

    >>> Budget("lab", group="lab", amounts=Resource(gpu=8 * 3600), period=Period.DAY).scope.value
    'group'
    """

    #: The name, which is unique among the budgets of a partition.
    name: str
    _: KW_ONLY
    #: The amounts times seconds of each period. Other resources are not limited; an amount of 0 allows none.
    amounts: Resource
    #: A user, or ``*`` for a separate account of each user that no other budget of the queue names.
    user: str | None = None
    #: A group, or ``*`` for one account of all users whose groups no other budget of the queue names.
    group: str | None = None
    #: An elastic group, with all groups below it.
    elastic_group: str | None = None
    #: A node of a quota tree, with all nodes below it.
    quota_node: str | None = None
    queue: str = ROOT
    period: Period = Period.NONE
    carry: Carry = Carry.NONE
    #: With `Carry.CAPPED`, the most that is carried over; 0 for a resource that is missing.
    cap: Resource = field(default_factory=Resource)
    mode: BudgetMode = BudgetMode.SAFE
    #: The time zone of the calendar.
    zone: str = "UTC"
    #: The weights of resources that are added to one number, which is the only one in *amounts*. Resources without a
    #: weight do not count. Without any weight, each resource is limited by itself.
    weights: Mapping[str, int | Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require_resource("amounts", self.amounts)
        if not self.amounts:
            raise RequestError("amounts", self.amounts, "a budget must limit at least one resource")
        require_resource("cap", self.cap)
        if self.cap and self.carry is not Carry.CAPPED:
            raise RequestError("cap", self.cap, "only a budget that carries over up to a cap has one")
        for argument, kind in (("period", Period), ("carry", Carry), ("mode", BudgetMode)):
            if not isinstance(getattr(self, argument), kind):
                allowed = ", ".join(str(each) for each in kind)
                raise RequestError(argument, getattr(self, argument), f"expected one of {allowed}")
        if self.carry is not Carry.NONE and self.period is Period.NONE:
            raise RequestError("carry", self.carry, "a budget without a period carries nothing over")
        object.__setattr__(self, "queue", canonical_path(self.queue))
        calendar_of(self.period, require_name("zone", self.zone))
        self._require_owner()
        self._require_weights()

    def _require_owner(self) -> None:
        owners = [(scope, value) for scope, value in self._owners() if value is not None]
        if len(owners) > 1:
            raise RequestError("name", self.name, "a budget has at most one owner besides its queue")
        for scope, value in owners:
            require_name(scope.value, value)
            if value == "*" and scope in (Scope.ELASTIC_GROUP, Scope.QUOTA_NODE):
                raise RequestError(scope.value, value, "only users and groups may be the wildcard")

    def _owners(self) -> tuple[tuple[Scope, str | None], ...]:
        return (
            (Scope.USER, self.user),
            (Scope.GROUP, self.group),
            (Scope.ELASTIC_GROUP, self.elastic_group),
            (Scope.QUOTA_NODE, self.quota_node),
        )

    def _require_weights(self) -> None:
        for name, weight in require_mapping("weights", self.weights).items():
            if type(weight) not in (int, Fraction) or weight < 0:
                raise RequestError("weights", weight, f"the weight of {name} must be an int or Fraction >= 0")
        if self.weights and len(self.amounts) != 1:
            raise RequestError("amounts", self.amounts, "a budget with weights limits one number")

    @property
    def scope(self) -> Scope:
        """The kind of owner of its accounts."""
        return next((scope for scope, value in self._owners() if value is not None), Scope.QUEUE)

    @property
    def owner(self) -> str:
        """The owner of its account: a name, the wildcard, or the path of its queue."""
        return next((value for _, value in self._owners() if value is not None), self.queue)


#: Returns the elastic group or quota node of a claim, and those above it, in any order.
ChainFinder: TypeAlias = Callable[[Claim], Iterable[str]]


@final
class Coverage:
    """Finds the owners of the accounts of a claim.

    Args:
        budgets: the budgets.
        chains: for elastic groups and quota nodes, the functions that return those of a claim.

    Raises:
        RequestError: a budget of an elastic group or quota node has no such function.
    """

    def __init__(self, budgets: Sequence[Budget], chains: Mapping[Scope, ChainFinder]) -> None:
        self._budgets: Final = tuple(budgets)
        self._chains: Final = dict(chains)
        #: Whether the owners depend on more than the user and the queue of a claim.
        self.depends_on_claim: Final = bool(chains)
        #: The owners that budgets of a scope and a queue name.
        self._named: Final[dict[tuple[Scope, str], set[str]]] = {}
        for budget in budgets:
            if budget.owner != WILDCARD:
                self._named.setdefault((budget.scope, budget.queue), set()).add(budget.owner)
            if budget.scope in (Scope.ELASTIC_GROUP, Scope.QUOTA_NODE) and budget.scope not in chains:
                reason = f"a function that returns the {budget.scope}s of a claim is needed"
                raise RequestError("budgets", budget.name, reason)

    def owners(self, claim: Claim) -> Iterator[tuple[Budget, str]]:
        """Yield each budget that covers a claim, with the owner of its account, in the order of the budgets."""
        chains = {scope: frozenset(find(claim)) for scope, find in self._chains.items()}
        for budget in self._budgets:
            owner = self._owner(budget, claim, chains) if is_below(claim.queue_path, budget.queue) else None
            if owner is not None:
                yield budget, owner

    def _owner(self, budget: Budget, claim: Claim, chains: Mapping[Scope, frozenset[str]]) -> str | None:
        named, groups = self._named.get((budget.scope, budget.queue), ()), claim.user.groups
        match budget.scope:
            case Scope.USER:
                name = claim.user.name
                is_rest = budget.owner == WILDCARD and name not in named
                return name if is_rest or budget.owner == name else None
            case Scope.GROUP:
                # A claim counts for the first of its groups that a budget names.
                counted = next((group for group in groups if group in named), WILDCARD if groups else None)
                return budget.owner if budget.owner == counted else None
            case Scope.QUEUE:
                return budget.queue
            case scope:
                return budget.owner if budget.owner in chains[scope] else None

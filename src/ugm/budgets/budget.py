"""A budget as a value: whom it limits, to how much, and in which periods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from fractions import Fraction

from ugm.arguments import require_mapping, require_name, require_resource
from ugm.budgets.calendar import calendar_of
from ugm.errors import RequestError
from ugm.identity import ROOT, canonical_path
from ugm.model import Period, Scope
from ugm.resources import Resource

__all__ = ["Budget", "BudgetMode", "Carry"]


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

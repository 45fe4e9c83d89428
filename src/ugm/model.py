"""The interface of quota models, which decide about a request together.

A `ugm.Partition` admits a request only if every model agrees, and then charges all of them or none. Users, groups and
queues are built in. Any other limit (licences, a budget, a quota tree, an elastic quota) is a `QuotaModel` with three
methods. A model that inherits from `ReportingModel` also appears in headroom, limits, utilization and plans.

The partition calls a model under its own lock, one call at a time, so the model needs no lock. A model must not call
the partition, which raises `ugm.ReentrantCallError`, and should not wait for anything.

If a model raises an exception, the caller of the partition receives it, and the operation has no effect. If the call
was one that changes the model, the model is reset and charged again from the ledger (`ResettableModel`), or suspended
until it is replaced. A resettable model is also reset after a query that raised anything but a `ugm.UgmError`.

Some models count usage over time, such as budgets. The state of their accounts is a value, and so is a change of them,
so that a store keeps it and a repeated one is recognised.

>>> BudgetChange.refill("lab", Resource(gpu=3600), reason="the conference").kind.value
'refill'
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Protocol, Self, runtime_checkable

from ugm._json_values import JsonMapping, JsonObject, attributes
from ugm.arguments import require_resource
from ugm.decision import BUDGET, EffectiveLimit, Exhaustion, Violation, headroom_of
from ugm.errors import RequestError
from ugm.identity import UserGroup, require_name
from ugm.resources import Resource

__all__ = [
    "BUDGET",
    "AccountModel",
    "AccountState",
    "Borrower",
    "BudgetChange",
    "BudgetChangeKind",
    "Claim",
    "ClusterModel",
    "EvictingModel",
    "Exhaustion",
    "GangModel",
    "Guarantee",
    "GuaranteedGroup",
    "GuaranteeingModel",
    "Guarantees",
    "LendingModel",
    "OrderNode",
    "PendingModel",
    "Period",
    "PersistentModel",
    "PreparedChange",
    "QuotaModel",
    "RankingModel",
    "ReportingModel",
    "ResettableModel",
    "Scope",
    "SetupViolation",
    "TimedModel",
    "TreeOrderModel",
    "UserRank",
]

#: The most characters of a reason.
_LONGEST_REASON: Final = 1000
#: The fields of `AccountState` that may be fractions.
_AMOUNTS: Final = ("limit", "settled", "committed", "remaining", "rate")


class Scope(StrEnum):
    """The kind of owner of the accounts of a budget."""

    USER = "user"
    GROUP = "group"
    QUEUE = "queue"
    ELASTIC_GROUP = "elastic group"
    QUOTA_NODE = "quota node"


class Period(StrEnum):
    """The time after which the amount of a budget is renewed."""

    #: Never.
    NONE = "none"
    DAY = "day"
    #: From Monday.
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


class AccountState(NamedTuple):
    """An account at one moment. Amounts are amounts times seconds, and fractions only if weights are."""

    #: The name of the budget.
    budget: str
    #: The user, group, queue, elastic group or quota node; ``*`` for the groups that no budget names.
    owner: str
    resource: str
    #: The amount with what was carried over and refilled.
    limit: int | Fraction
    #: The usage in this period.
    settled: int | Fraction
    #: The usage that is promised and has not happened yet, including usage after the end of this period.
    committed: int | Fraction
    #: The limit less both; negative if it is exceeded.
    remaining: int | Fraction
    #: The second at which the next period begins; None if there is none.
    renews: int | None
    #: The second at which nothing is left at the current rate; None if that is not before the next period, or not
    #: before the year 10000.
    exhausted: int | None
    #: ``user``, ``group``, ``queue``, ``elastic group`` or ``quota node``.
    scope: Scope
    #: The queue in and below which the budget applies.
    queue_path: str
    period: Period
    #: The usage per second now.
    rate: int | Fraction

    @property
    def share(self) -> Fraction:
        """The part of the limit that is settled or promised; 1 if nothing remains of a limit of 0."""
        used = self.settled + self.committed
        return Fraction(used) / self.limit if self.limit > 0 else Fraction(1 if self.remaining <= 0 else 0)

    def to_dict(self) -> JsonObject:
        """Return the account for JSON; fractions as texts."""
        return {name: str(value) if isinstance(value, Fraction) else value for name, value in self._asdict().items()}

    @classmethod
    def from_dict(cls, data: JsonMapping) -> Self:
        """Return the account that `to_dict` has returned as plain data."""
        amounts = {name: Fraction(data[name]) if isinstance(data[name], str) else data[name] for name in _AMOUNTS}
        return cls(**{**data, **amounts, "scope": Scope(data["scope"]), "period": Period(data["period"])})


class BudgetChangeKind(StrEnum):
    """The kind of a change of a budget."""

    #: New amounts, from now on.
    SET = "set"
    #: A higher limit of one account in its current period.
    REFILL = "refill"
    #: A part of what remains in one account is moved to another.
    TRANSFER = "transfer"


class BudgetChange(NamedTuple):
    """A change of a budget."""

    kind: BudgetChangeKind
    #: The budget; of a transfer, the source.
    budget: str
    #: In amounts times seconds: the new amounts, or those that are added or moved.
    amounts: Resource
    #: The owner of the account; empty for that of the budget, if it has one account, and for new amounts.
    owner: str = ""
    #: Of a transfer: the budget that receives the amounts, and the owner of its account; empty for others.
    recipient: str = ""
    recipient_owner: str = ""
    #: For people.
    reason: str = ""
    #: Identifies the change, so that a repeated call has no effect; empty if a repetition is another change.
    change_id: str = ""

    @classmethod
    def set(cls, budget: str, amounts: Resource, *, reason: str = "", change_id: str = "") -> Self:
        """Return the change to new amounts, which hold at once."""
        return cls(BudgetChangeKind.SET, budget, amounts, reason=reason, change_id=change_id).checked()

    @classmethod
    def refill(cls, budget: str, amounts: Resource, *, owner: str = "", reason: str = "", change_id: str = "") -> Self:
        """Return the change to a higher limit of one account in the current period."""
        return cls(BudgetChangeKind.REFILL, budget, amounts, owner, reason=reason, change_id=change_id).checked()

    @classmethod
    def transfer(
        cls,
        source: str,
        recipient: str,
        amounts: Resource,
        *,
        source_owner: str = "",
        recipient_owner: str = "",
        reason: str = "",
        change_id: str = "",
    ) -> Self:
        """Return the move of amounts from one account to another."""
        owners = source_owner, recipient, recipient_owner
        return cls(BudgetChangeKind.TRANSFER, source, amounts, *owners, reason, change_id).checked()

    def checked(self) -> Self:
        """Return the change with its kind and budget as plain values, after a check of its fields.

        Raises:
            RequestError: a field is invalid, or the kind of change does not have it.
        """
        if self.kind not in tuple(BudgetChangeKind):
            raise RequestError("kind", self.kind, f"expected {', '.join(BudgetChangeKind)}")
        kind = BudgetChangeKind(self.kind)
        is_transfer = kind is BudgetChangeKind.TRANSFER
        _require_field(self, "owner", is_allowed=kind is not BudgetChangeKind.SET)
        _require_field(self, "recipient", is_allowed=is_transfer, is_required=is_transfer)
        _require_field(self, "recipient_owner", is_allowed=is_transfer)
        _require_field(self, "change_id", is_allowed=True)
        reason: object = self.reason
        if not isinstance(reason, str) or len(reason) > _LONGEST_REASON:
            raise RequestError("reason", reason, f"expected a text of up to {_LONGEST_REASON} characters")
        require_resource("amounts", self.amounts)
        return self._replace(kind=kind, budget=require_name("budget", self.budget))

    def to_dict(self) -> JsonObject:
        """Return the change for JSON."""
        return attributes(self, self._fields)


def _require_field(change: BudgetChange, field: str, *, is_allowed: bool, is_required: bool = False) -> None:
    """Check a name that may be empty.

    Raises:
        RequestError: it is not a name, or is missing, or must be empty.
    """
    name = getattr(change, field)
    if name != "" or is_required:
        require_name(field, name)
    if name and not is_allowed:
        raise RequestError(field, name, "this kind of change has no such argument")


_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


class Claim(NamedTuple):
    """One allocation with its owner, as quota models see it."""

    #: The id of the allocation; empty for a query.
    allocation_id: str
    #: Empty for a query about a user in a queue.
    application_id: str
    usage: Resource
    queue_path: str
    user: UserGroup
    #: The tags of the application, for example its namespace.
    tags: Mapping[str, str] = _NO_TAGS
    #: Higher values are more important, if a model evicts one allocation for another.
    priority: int = 0
    #: Whether the allocation may be evicted for another.
    preemptible: bool = True
    #: The second since 1970 at which its release is promised; None if nothing is promised. A pending claim has no end.
    until: int | None = None
    #: The node that it runs on; None if it is unknown, as for a query. A pending claim has no node.
    node: str | None = None


class SetupViolation(Violation):
    """A denial by a quota model that is not set up for the request.

    Without it, a limit would be skipped silently. Waiting does not help, because no release changes the setup.
    Subclasses define the reason as a class attribute; ``kind`` and ``name`` describe the missing object.

    >>> class NoBudget(SetupViolation):
    ...     __slots__ = ()
    ...     reason = "the application has no budget"
    >>> print(NoBudget.of("budget", "team-a"))
    budget 'team-a': the application has no budget
    """

    __slots__ = ()

    #: The reason, as the end of a sentence about the missing object.
    reason: ClassVar[str] = "the model is not set up for the request"

    @classmethod
    def of(cls, kind: str, name: str) -> Self:
        """Return the violation for a missing object."""
        return cls(kind, name, "", "", None, 0, 0, 1)

    def _what(self) -> str:
        return self.reason


@runtime_checkable
class QuotaModel(Protocol):
    """A set of limits that a request must fit.

    A model whose answers do not depend on the node of a claim may say so by an attribute ``sees_nodes`` that is False.
    Then plans of preemption and reclaim do not ask it about each node.

    Example: a model in ten lines that limits the total number of licences:

    >>> class Licences:
    ...     def __init__(self, limit):
    ...         self.limit, self.used = limit, 0
    ...     def check(self, claim):
    ...         requested = claim.usage.get("licence", 0)
    ...         if requested and self.used + requested > self.limit:
    ...             yield Violation("licence", "solver", "", "", "licence", self.limit, self.used, requested)
    ...     def charge(self, claim):
    ...         self.used += claim.usage.get("licence", 0)
    ...     def refund(self, claim):
    ...         self.used -= claim.usage.get("licence", 0)
    >>> from ugm import Partition, parse_config
    >>> config = parse_config("partitions: [{queues: [{name: prod}]}]")
    >>> partition = Partition(config.partition(), models=[Licences(3)])
    >>> partition.submit("app", UserGroup("sue"), "root.prod").queue_path
    'root.prod'
    >>> print(partition.allocate("app-0", "app", Resource(licence=4)))
    denied, waiting cannot help:
      licence 'solver': 4 licence requested, never more than 3 allowed
    """

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every limit that *claim* would exceed now; none if it fits. Reads only."""

    def charge(self, claim: Claim) -> None:
        """Count *claim*, even above the limit: adopted and restored allocations are charged without a check."""

    def refund(self, claim: Claim) -> None:
        """Undo `charge` of an equal claim exactly."""


@runtime_checkable
class EvictingModel(QuotaModel, Protocol):
    """A quota model that may evict some allocations for another."""

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return the ids of allocations to refund so that *claim* fits; none if no refund would help.

        Called only after `QuotaModel.check` has returned a limit. Reads only.
        """


@runtime_checkable
class GangModel(QuotaModel, Protocol):
    """A quota model that can tell whether several claims may ever fit together.

    For any other model, waiting cannot help a gang if it cannot help one of its claims.
    """

    def never(self, claims: Sequence[Claim]) -> Iterable[Violation]:
        """Return every limit that *claims* exceed together in an empty partition at every time, each with their sum.

        Called only after the claims were denied together. Reads only.
        """


class Guarantee(NamedTuple):
    """The amount of one resource that a group is guaranteed, with its share and its usage."""

    #: The kind, the name and the place of the group, as in a `ugm.decision.EffectiveLimit`.
    kind: str
    name: str
    place: str
    resource: str
    #: 0 if nothing is guaranteed.
    guaranteed: int
    #: The amount that the group may use now, including what others lend it. Not less than the guarantee.
    share: int
    used: int


class GuaranteedGroup(NamedTuple):
    """A group with a guarantee, as the protection of variants sees it."""

    name: str
    #: The position of the nearest group with a guarantee above it; -1 for none.
    parent: int
    guaranteed: Mapping[str, int]
    used: Mapping[str, int]
    #: Whether a request belongs to it, or to a group below it.
    is_own: bool


class Guarantees(NamedTuple):
    """All groups that share some resources."""

    #: The kind of groups, in the plural.
    kind: str
    #: The amounts that they share.
    capacity: Mapping[str, int]
    #: The amounts that are in use, also by others.
    used: Mapping[str, int]
    #: Every parent before its children.
    groups: tuple[GuaranteedGroup, ...]


@runtime_checkable
class GuaranteeingModel(QuotaModel, Protocol):
    """A quota model whose guarantees of variants are protected from amounts of any variant; see `ugm.families`."""

    def guarantees(self, claim: Claim | None) -> Iterable[Guarantees]:
        """Return the guarantees of the groups that share resources with that of *claim*; of all groups for None."""


class Borrower(NamedTuple):
    """A group that may use an amount that another group is guaranteed."""

    kind: str
    name: str
    #: The guarantees of the group of the claim, and of the groups above it to which the borrower does not belong. The
    #: usage includes the claim.
    entitled: tuple[Guarantee, ...]
    #: The guarantees of the borrower first, and of the groups above it to which the group of the claim does not belong.
    guarantees: tuple[Guarantee, ...]
    #: The allocations of the borrower, in any order.
    allocation_ids: tuple[str, ...]


@runtime_checkable
class LendingModel(QuotaModel, Protocol):
    """A quota model whose groups lend each other what they are guaranteed and do not use.

    `ugm.Partition.plan_reclaim` chooses the allocations that a group has to return. The methods only read.
    """

    def shortage(self, claim: Claim, without: Collection[str]) -> Iterable[Violation]:
        """Return what `QuotaModel.check` would return if some allocations were refunded.

        A model that grants a request before others have returned what they borrow also returns the amounts that all
        groups together use beyond what they share.

        Args:
            claim: the claim.
            without: the ids of these allocations; the model need not know all of them.
        """

    def borrowers(self, claim: Claim, without: Collection[str]) -> Iterable[Borrower]:
        """Return all other groups with allocations, as they are while *claim* is requested.

        Args:
            claim: the claim.
            without: the ids of allocations that count as refunded.
        """


class OrderNode(NamedTuple):
    """A group of a quota model as a step of the scheduling order."""

    name: str
    #: The group above it; empty at the top.
    parent: str
    #: The amounts to which its usage is compared. Other resources do not count.
    available: Mapping[str, int]


@runtime_checkable
class TreeOrderModel(QuotaModel, Protocol):
    """A quota model whose groups can be the tree that a scheduling pass traverses. The methods only read."""

    def order_trees(self) -> Collection[str]:
        """Return the names of its trees."""

    def order_nodes(self, tree: str) -> Iterable[OrderNode]:
        """Return the groups of a tree with the amounts available to them now, every parent before its children."""

    def order_node(self, tree: str, claim: Claim) -> str | None:
        """Return the group of a claim in a tree; None if it has none."""


class UserRank(Protocol):
    """The order of users at one moment."""

    def position_of_user(self, name: str) -> int:
        """Return the number of users, or of groups of users that tie, before a user. Unknown users are the last."""

    def describe_user(self, name: str) -> str:
        """Return the place of a user as a text."""


@runtime_checkable
class RankingModel(QuotaModel, Protocol):
    """A quota model that ranks the users of a partition, for queues whose applications are ordered by their users.

    A model that only ranks users, and never denies a claim, says so by an attribute ``may_deny`` that is False. Then
    one test answers all equal requests of a user.
    """

    def capture_rank(self, users: Iterable[UserGroup] = ()) -> Callable[[], UserRank]:
        """Return a function that returns the order of users at this moment; it is called without the lock.

        Args:
            users: users to rank besides those that the model knows.
        """


class PreparedChange(Protocol):
    """A change of a model that was checked and is not made yet."""

    def apply(self) -> None:
        """Make the change."""

    def undo(self) -> None:
        """Undo the change, even if only a part of it was made."""


@runtime_checkable
class AccountModel(QuotaModel, Protocol):
    """A quota model with accounts of usage over time, which an operator may change."""

    def has_budget(self, name: str) -> bool:
        """Return whether it has the accounts of a budget."""

    def prepare(self, change: BudgetChange) -> PreparedChange | None:
        """Return a change that was checked; None if it has been made before.

        Raises:
            RequestError: the budget does not allow the change.
        """

    def change(self, change: BudgetChange) -> bool:
        """Make a change, and return whether it is new.

        Raises:
            RequestError: as for `prepare`.
        """

    def accounts(self, user: UserGroup | None = None, queue_path: str | None = None) -> tuple[AccountState, ...]:
        """Return its accounts, or those that apply to a user or in a queue."""


@runtime_checkable
class PendingModel(QuotaModel, Protocol):
    """A quota model whose limits depend on pending requests."""

    def add_pending(self, claim: Claim) -> None:
        """Count *claim* as waiting."""

    def remove_pending(self, claim: Claim) -> None:
        """Undo `add_pending` of an equal claim, because it is withdrawn or about to be charged."""


@runtime_checkable
class ClusterModel(QuotaModel, Protocol):
    """A quota model whose limits depend on the size of the cluster."""

    def set_cluster(self, total: Resource | None) -> None:
        """Note the sum of the nodes of the partition; None if no node was registered yet.

        Called before the first claim is charged, and after each change of the nodes. A second call with the same sum
        has no effect.
        """


@runtime_checkable
class ResettableModel(QuotaModel, Protocol):
    """A quota model that can be used again after an exception in the middle of one of its calls.

    If a call that changes a model does not return, it is unknown whether the model has made the change. A partition
    then resets the model, charges it with all held allocations and adds all pending ones (`PendingModel.add_pending`),
    before it uses the model again. If that raises an exception, the model is suspended. A model without this method is
    suspended immediately: every request is denied with its name until `ugm.Partition.replace_model` replaces it.
    """

    def reset(self) -> None:
        """Forget all claims, charged or waiting, even if the state of the model is inconsistent. Its limits stay."""


@runtime_checkable
class TimedModel(QuotaModel, Protocol):
    """A quota model whose limits depend on the time, for example a budget."""

    def at(self, now: int) -> None:
        """Note the time of a call of the partition. All other calls up to the next `at` happen at that time.

        A partition calls this first, in every call that may need the model.

        Args:
            now: whole seconds since 1970, never earlier than in the call before.
        """


@runtime_checkable
class PersistentModel(QuotaModel, Protocol):
    """A quota model that depends on the past, which a store keeps.

    A store saves the past about once per second. When a partition is opened, it calls `load` on a model without claims,
    charges the model with what was held then, and repeats all later calls. A declared model may have a method
    ``continue_past(old)``, too, which continues the past of the model that it replaces.
    """

    def save(self) -> JsonMapping:
        """Return the past up to the time of the last call, without claims, as plain data for JSON."""

    def load(self, data: JsonMapping) -> None:
        """Continue the past that an equal model has returned from `save`."""


class ReportingModel:
    """The base class of quota models that describe their limits and their state; every method has a default.

    All methods only read. A class inherits from it to take part in the answers of a partition. The partition calls the
    methods only of such models, so other models may use the same names for something else.

    >>> class Licences(ReportingModel):
    ...     used = 2
    ...     def all_limits(self):
    ...         return [EffectiveLimit("licence", "solver", "", "", "", Resource(licence=3), 0, Resource(licence=2), 0)]
    ...     def limits(self, claim):
    ...         return self.all_limits()
    >>> claim = Claim("", "app", Resource(), "root.prod", UserGroup("sue"))
    >>> Licences().headroom(claim), list(Licences().exceeded())
    (Resource(licence=1), [])
    """

    def limits(self, claim: Claim) -> Iterable[EffectiveLimit]:  # noqa: ARG002 - for subclasses
        """Return the limits that apply to *claim*, in the order of their violations. The default is none.

        ``EffectiveLimit.max_resources`` has the amounts that the owner could use now if it requested them.
        """
        return ()

    def owners(self, claim: Claim) -> Iterable[tuple[str, str]]:  # noqa: ARG002 - for subclasses
        """Return the kind and the name of each owner of limits to which *claim* is charged. The default is none.

        A store sums up usage over time by them. The owners must depend only on the application of the claim.
        """
        return ()

    def headroom(self, claim: Claim) -> Resource | None:
        """Return an upper bound of the free amounts for *claim*; None if no resource is limited.

        The default is the minimum that `limits` leave. A partition reduces the amounts until `QuotaModel.check` allows
        them all together.
        """
        return headroom_of(self.limits(claim))

    def room(self, kind: str, name: str, resource: str) -> int | None:  # noqa: ARG002 - for subclasses
        """Return the largest amount of a resource with which a claim can fit some limits now.

        A larger claim that these limits have denied would be denied again, so it need not be checked. If the model
        counts pending claims, this only has to hold for those.

        Args:
            kind: the kind of their violations.
            name: the name in their violations.
            resource: the resource that they limit.

        Returns:
            The amount; None if it is unknown, as by default. Then the claims are checked after every change.
        """
        return None

    def all_limits(self) -> Iterable[EffectiveLimit]:
        """Return every limit with its usage now. The default is none."""
        return ()

    def exceeded(self) -> Iterable[Violation]:
        """Return every limit that is exceeded, with nothing requested. The default compares `all_limits`."""
        return [
            Violation(one.kind, one.name, one.queue_path, one.limit_name, name, maximum, used, 0)
            for one in self.all_limits()
            for name, maximum in (one.max_resources or {}).items()
            if (used := one.usage.get(name, 0)) > maximum
        ]

    def exhaustions(self) -> Iterable[Exhaustion]:
        """Return the times at which limits over time begin to deny every request, at the current rate of use.

        The default is none; budgets have such times.
        """
        return ()

    def exceeded_with(self, config: object) -> Iterable[Violation]:  # noqa: ARG002 - for subclasses
        """Return every limit that would be exceeded with another configuration of the partition.

        Args:
            config: a `ugm.config.PartitionConfig`, or None.

        The default is `exceeded`, for a model that does not depend on that configuration.
        """
        return self.exceeded()

    def state(self) -> JsonMapping:
        """Return the state as plain data for JSON. The default contains `all_limits`."""
        return {"limits": [limit.to_dict() for limit in self.all_limits()]}

    def capture_state(self) -> Callable[[], JsonMapping]:
        """Return a function that returns the state of this moment.

        The partition holds its lock during this call, and not during a call of the returned function. So a large model
        copies its data here, and converts them later. The default calls `state` now.

        States may share the objects of parts that have not changed, so callers must not modify a state. A part that has
        changed is a new object.
        """
        state = self.state()
        return lambda: state

    def definition(self) -> JsonMapping | None:
        """Return plain data for JSON from which an equal model without claims can be made, for example after a restart.

        The default is None: only the program can make the model.
        """
        return None

    def verify(self, held: Mapping[str, Claim], pending: Mapping[str, Claim]) -> Iterable[str]:  # noqa: ARG002 - as above
        """Return a message for every difference between the model and the claims of the ledger. The default is none.

        Args:
            held: the claims that are charged, by allocation id.
            pending: the claims that wait.
        """
        return ()

"""The interface of quota models, which decide about a request together.

A `ugm.Partition` admits a request only if every model agrees, and then charges all of them or none. Users, groups and
queues are built in. Any other limit (licences, a budget, a quota tree, an elastic quota) is a `QuotaModel` with three
methods. A model that inherits from `ReportingModel` also appears in headroom, limits, utilization and plans.

The partition calls a model under its own lock, one call at a time, so the model needs no lock. A model must not call
the partition, which raises `ugm.ReentrantCallError`, and should not wait for anything.

If a model raises an exception, the caller of the partition receives it, and the operation has no effect. If the call
was one that changes the model, the model is reset and charged again from the ledger (`ResettableModel`), or suspended
until it is replaced. A resettable model is also reset after a query that raised anything but a `ugm.UgmError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, runtime_checkable

from ugm._json_values import JsonMapping
from ugm.decision import EffectiveLimit, Exhaustion, Violation, headroom_of
from ugm.errors import fields_text
from ugm.identity import UserGroup
from ugm.resources import Resource

__all__ = [
    "Borrower",
    "Claim",
    "ClusterModel",
    "EvictingModel",
    "Exhaustion",
    "GangModel",
    "Guarantee",
    "HistoryModel",
    "LendingModel",
    "OrderNode",
    "PendingModel",
    "PersistentModel",
    "QuotaModel",
    "ReportingModel",
    "ResettableModel",
    "SetupViolation",
    "StartingModel",
    "TimedModel",
    "TreeOrderModel",
]

_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


class Claim(NamedTuple):
    """One allocation with its owner, as quota models see it."""

    #: The id of the allocation; empty for a query.
    allocation_id: str
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
        ...

    def charge(self, claim: Claim) -> None:
        """Count *claim*, even above the limit: adopted and restored allocations are charged without a check."""
        ...

    def refund(self, claim: Claim) -> None:
        """Undo `charge` of an equal claim exactly."""
        ...


@runtime_checkable
class EvictingModel(QuotaModel, Protocol):
    """A quota model that may evict some allocations for another."""

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return the ids of allocations to refund so that *claim* fits; none if no refund would help.

        Called only after `QuotaModel.check` has returned a limit. Reads only.
        """
        ...


@runtime_checkable
class GangModel(QuotaModel, Protocol):
    """A quota model that can tell whether several claims may ever fit together.

    For any other model, waiting cannot help a gang if it cannot help one of its claims.
    """

    def never(self, claims: Sequence[Claim]) -> Iterable[Violation]:
        """Return every limit that *claims* exceed together in an empty partition at every time, each with their sum.

        Called only after the claims were denied together. Reads only.
        """
        ...


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

    def __repr__(self) -> str:
        return fields_text(self, self._asdict())


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
        ...

    def borrowers(self, claim: Claim, without: Collection[str]) -> Iterable[Borrower]:
        """Return all other groups with allocations, as they are while *claim* is requested.

        Args:
            claim: the claim.
            without: the ids of allocations that count as refunded.
        """
        ...


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
        ...

    def order_nodes(self, tree: str) -> Iterable[OrderNode]:
        """Return the groups of a tree with the amounts available to them now, every parent before its children."""
        ...

    def order_node(self, tree: str, claim: Claim) -> str | None:
        """Return the group of a claim in a tree; None if it has none."""
        ...


@runtime_checkable
class PendingModel(QuotaModel, Protocol):
    """A quota model whose limits depend on pending requests."""

    def add_pending(self, claim: Claim) -> None:
        """Count *claim* as waiting."""
        ...

    def remove_pending(self, claim: Claim) -> None:
        """Undo `add_pending` of an equal claim, because it is withdrawn or about to be charged."""
        ...


@runtime_checkable
class StartingModel(PendingModel, Protocol):
    """A model of pending requests that charges a pending claim in one step, which takes less time than two."""

    def charge_pending(self, claim: Claim) -> None:
        """Do the same as `ugm.model.PendingModel.remove_pending` and `ugm.QuotaModel.charge`, in place of both."""
        ...


@runtime_checkable
class ClusterModel(QuotaModel, Protocol):
    """A quota model whose limits depend on the size of the cluster."""

    def set_cluster(self, total: Resource | None) -> None:
        """Note the sum of the nodes of the partition; None if no node was registered yet.

        Called before the first claim is charged, and after each change of the nodes. A second call with the same sum
        has no effect.
        """
        ...


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
        ...


@runtime_checkable
class TimedModel(QuotaModel, Protocol):
    """A quota model whose limits depend on the time, for example a budget."""

    def at(self, now: int) -> None:
        """Note the time of a call of the partition. All other calls up to the next `at` happen at that time.

        A partition calls this first, in every call that may need the model.

        Args:
            now: whole seconds since 1970, never earlier than in the call before.
        """
        ...


@runtime_checkable
class HistoryModel(TimedModel, Protocol):
    """A quota model whose limits depend on past usage.

    A partition that is opened from a journal calls `forget`, and then repeats all calls of the past, each after a call
    of ``at`` with its time. So the model is in the state in which the partition has left it.
    """

    def forget(self) -> None:
        """Forget all claims and all past usage, as if the model were new."""
        ...


@runtime_checkable
class PersistentModel(HistoryModel, Protocol):
    """A declared quota model whose past is stored with the partition, and continues with another configuration.

    The methods are called on a new model without claims, after `TimedModel.at`. The claims of the ledger are charged
    afterwards.
    """

    def save(self) -> JsonMapping:
        """Return the past up to the time of the last call, without claims, as plain data for JSON."""
        ...

    def load(self, data: JsonMapping) -> None:
        """Continue the past that an equal model has returned from `save`."""
        ...

    def continue_past(self, old: Any) -> None:  # noqa: ANN401 - a model of the same class
        """Continue the past of the model that this one replaces."""
        ...


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

        A journal sums up usage over time by them. The owners must depend only on the application of the claim.
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

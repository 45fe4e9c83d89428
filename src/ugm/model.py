"""What a quota model answers, so that several of them can decide about one request together.

A `ugm.Partition` admits a request only if every model agrees, and then charges all of them or none. Users, groups and
queues are built in; anything else that limits what may run (licences, a budget, a quota tree, an elastic quota) takes
part by answering the three questions of a `QuotaModel`.

The partition calls a model under its own lock, one call at a time, and so a model needs none of its own. A model must
not call the partition back, which raises `ugm.ReentrantCallError`, and should not wait for anything.

What a model raises goes to the caller of the partition, and the operation has no effect. If the call was one that
changes the model, the model is reset and charged with the ledger (`ResettableModel`), or it is suspended until it is
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Protocol, Self, runtime_checkable

from ugm.decision import Violation
from ugm.identity import UserGroup
from ugm.resources import Resource

__all__ = ["Claim", "DemandModel", "EvictingModel", "QuotaModel", "ResettableModel", "SetupViolation"]

_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


class Claim(NamedTuple):
    """What one allocation takes, and of whom: the question that quota models are asked."""

    #: The allocation, the same when it is charged and when it is refunded; empty where somebody only asks.
    allocation_id: str
    application_id: str
    usage: Resource
    queue_path: str
    user: UserGroup
    #: What the application was submitted with, for example its namespace.
    tags: Mapping[str, str] = _NO_TAGS
    #: Higher goes first where a model lets one allocation displace another.
    priority: int = 0
    #: Whether the allocation may be taken back for the sake of another.
    preemptible: bool = True


class SetupViolation(Violation):
    """A request that a quota model denies because it is not set up to judge the request.

    An unlimited request would be a limit that is silently skipped. No release helps, so waiting does not. Subclasses
    give the reason as a class attribute; ``kind`` and ``name`` say what is missing.

    >>> class NoBudget(SetupViolation):
    ...     __slots__ = ()
    ...     reason = "the application has no budget"
    >>> print(NoBudget.of("budget", "team-a"))
    budget 'team-a': the application has no budget
    """

    __slots__ = ()

    #: The end of a sentence about what is missing.
    reason: ClassVar[str] = "the model is not set up for the request"

    @classmethod
    def of(cls, kind: str, name: str) -> Self:
        """Return the violation for something that is missing."""
        return cls(kind, name, "", "", None, 0, 0, 1)

    def _what(self) -> str:
        return self.reason


@runtime_checkable
class QuotaModel(Protocol):
    """A set of limits that a request must fit.

    A model of ten lines, which allows so many licences in all:

    >>> class Licences:
    ...     def __init__(self, limit):
    ...         self.limit, self.used = limit, 0
    ...     def check(self, claim):
    ...         asked = claim.usage.get("licence", 0)
    ...         if asked and self.used + asked > self.limit:
    ...             yield Violation("licence", "solver", "", "", "licence", self.limit, self.used, asked)
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
    denied, waiting can never help:
      licence 'solver': 4 licence requested, never more than 3 allowed
    """

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every limit that *claim* would exceed now; none if it fits. Reads only."""
        ...

    def charge(self, claim: Claim) -> None:
        """Count *claim*, also above the limit: what is adopted or put back comes without a check."""
        ...

    def refund(self, claim: Claim) -> None:
        """Undo `charge` of an equal claim exactly."""
        ...


@runtime_checkable
class EvictingModel(QuotaModel, Protocol):
    """A quota model that may give up some allocations for the sake of another."""

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return the ids of allocations after whose refund a check of *claim* would be clean; none if none would do.

        Asked only after `QuotaModel.check` has named a limit. Reads only.
        """
        ...


@runtime_checkable
class DemandModel(QuotaModel, Protocol):
    """A quota model whose limits depend on what is still waiting."""

    def expect(self, claim: Claim) -> None:
        """Count *claim* as waiting."""
        ...

    def forget(self, claim: Claim) -> None:
        """Undo `expect` of an equal claim, because it is withdrawn or about to be charged."""
        ...


@runtime_checkable
class ResettableModel(QuotaModel, Protocol):
    """A quota model that can be used again after an exception in the middle of one of its calls.

    If a call that changes a model does not return, nobody can know whether the model has made the change. A partition
    resets such a model and charges it with everything that is held, and expects everything that is pending, before it
    uses the model again. If that raises, the model is suspended. A model without this method
    is suspended instead: every request is denied with its name until `ugm.Partition.replace_model` replaces it.
    """

    def reset(self) -> None:
        """Forget all claims, charged or waiting, whatever state the model is in. Its limits stay."""
        ...

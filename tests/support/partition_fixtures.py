"""Partitions, people and quota models for tests of what a `ugm.Partition` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from ugm import Claim, Partition, RequestError, Resource, UgmError, UserGroup, Violation, parse_config
from ugm.config import PartitionConfig
from ugm.partition import AbstractPartition, ReclaimPlan
from ugm.preemption import PreemptionPlan, ReductionPlan

SUE: Final = UserGroup("sue", ("dev",))
BOB: Final = UserGroup("bob", ("dev",))


def config(queues: str = "", rules: str = "", limits: str = "", root: str = "") -> PartitionConfig:
    """Return a partition with queues below the root, each given as YAML of the flow style."""
    above = f"{{name: root, queues: [{queues}], limits: [{limits}]{root}}}"
    return parse_config(f"partitions: [{{name: default, placementrules: [{rules}], queues: [{above}]}}]").partition()


def partition_of(queues: str = "{name: a}", rules: str = "", limits: str = "", **options: Any) -> Partition:  # noqa: ANN401 - handed on
    """Return a partition with the queues, rules and limits of `config`."""
    return Partition(config(queues, rules, limits), **options)


def started(
    partition: AbstractPartition, application_id: str, amount: int, queue: str = "root.a", user: UserGroup = SUE
) -> None:
    """Submit an application that holds some memory in an allocation of the same id."""
    assert partition.submit(application_id, user, queue)
    assert partition.allocate(application_id, application_id, memory(amount))


def memory(amount: int) -> Resource:
    """Return some memory."""
    return Resource(memory=amount)


def in_every_state() -> Partition:
    """Return a partition with two applications, and with running, placeholder and pending allocations."""
    partition = partition_of(
        "{name: a, resources: {max: {memory: 9}}}, {name: b}", limits="{users: ['*'], maxapplications: 9}"
    )
    started(partition, "app", 5)
    started(partition, "other", 1, user=BOB)
    partition.allocate("p", "app", memory(1), placeholder=True, priority=2)
    partition.request("waits", "app", memory(1), priority=3)
    return partition


#: A placement rule that creates queues, and a configuration to replace.
CREATING: Final = "{name: provided, create: true}"
OLD: Final = config(
    "{name: a, resources: {max: {memory: 9}}}, {name: b}", limits="{users: [sue], maxresources: {memory: 9}}"
)


def under_old() -> Partition:
    """Return a partition under `OLD`, with an application in each queue."""
    partition = Partition(OLD)
    started(partition, "app", 7)
    started(partition, "left", 1, "root.b")
    return partition


def shown(partition: AbstractPartition) -> tuple[object, ...]:
    """Return everything that a partition shows, the headroom last: a suspended model leaves none."""
    return (
        partition.applications(),
        partition.allocations(),
        partition.queue(),
        partition.users(),
        partition.groups(),
        partition.nodes(),
        [ordered.request.allocation_id for ordered in partition.order()],
        partition.exceeded_limits(),
        [partition.limits(application.application_id) for application in partition.applications()],
        [partition.headroom(application.application_id) for application in partition.applications()],
    )


@contextmanager
def changing_nothing(partition: AbstractPartition) -> Iterator[None]:
    """Expect that everything is shown the same before and after, and adds up."""
    before = shown(partition)
    yield
    assert shown(partition) == before
    partition.verify()


@contextmanager
def refused(partition: AbstractPartition, text: str, kind: type[UgmError] = UgmError) -> Iterator[None]:
    """Expect an error whose text begins with *text*, and that nothing has changed."""
    with changing_nothing(partition), pytest.raises(kind) as caught:
        yield
    assert str(caught.value).startswith(text)


def objection(partition: AbstractPartition, plan: PreemptionPlan | ReclaimPlan | ReductionPlan) -> str:
    """Return the reason why a plan is stale, and expect that nothing changes."""
    operation: Callable[[Any], object] = partition.reclaim if isinstance(plan, ReclaimPlan) else partition.carry_out
    with changing_nothing(partition), pytest.raises(RequestError) as caught:
        operation(plan)
    return caught.value.reason.removeprefix("the plan is stale: ")


class NodesOfUsers:
    """At most one node for each user, which also counts the pending requests."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all claims."""
        self.held: Counter[tuple[str, str]] = Counter()
        self.pending: Counter[str] = Counter()

    def check(self, claim: Claim) -> Iterator[Violation]:
        """Deny a second node."""
        if any(user == claim.user.name and node != claim.node for user, node in self.held if claim.node):
            yield Violation("nodes of user", claim.user.name, "", "", "node", 1, 1, 1)

    def charge(self, claim: Claim) -> None:
        """Count a claim."""
        self.held.update([(claim.user.name, claim.node)] if claim.node else [])

    def refund(self, claim: Claim) -> None:
        """Count a claim no more."""
        self.held -= Counter([(claim.user.name, claim.node or "")])

    def add_pending(self, claim: Claim) -> None:
        """Count a pending claim, whose node is open."""
        assert claim.node is None
        self.pending[claim.allocation_id] += 1

    def remove_pending(self, claim: Claim) -> None:
        """Count a pending claim no more."""
        assert claim.node is None
        self.pending -= Counter([claim.allocation_id])


class OneNode:
    """A model that grants only on one node."""

    def check(self, claim: Claim) -> list[Violation]:
        """Deny another node."""
        return [] if claim.node in {None, "n1"} else [Violation("node", "n1", "", "", "node", 1, 1, 1)]

    def charge(self, claim: Claim) -> None:
        """Count nothing."""

    refund = charge


class Licences:
    """The simplest quota model: a total number of licences, one for each unit of ``licence``."""

    #: The resource that denials name.
    resource: str | None = "licence"

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    @staticmethod
    def amount(claim: Claim) -> int:
        """Return the licences of a claim."""
        return claim.usage.get("licence", 0)

    def check(self, claim: Claim) -> list[Violation]:
        """Deny more than there are."""
        requested = self.amount(claim)
        short = requested > 0 and self.used + requested > self.limit
        return (
            [Violation("licence", "solver", "", "", self.resource, self.limit, self.used, requested)] if short else []
        )

    def charge(self, claim: Claim) -> None:
        """Take them."""
        self.used += self.amount(claim)

    def refund(self, claim: Claim) -> None:
        """Give them back."""
        self.used -= self.amount(claim)


class Seats(Licences):
    """As many allocations as there are licences."""

    @staticmethod
    def amount(_: Claim) -> int:
        """Return 1."""
        return 1


class BrokenError(RuntimeError):
    """What a quota model of these tests fails with."""

"""Quota models of models in a partition: asked, charged, refunded and failing at every point."""

from __future__ import annotations

from support.failing_models import ResettableFailing
from support.partition_fixtures import SUE, changing_nothing, partition_of
from ugm import AllocationRequest, Claim, Decision, Partition, Resource, Violation


def licences(amount: int) -> Resource:
    """Return some licences."""
    return Resource(licence=amount)


# A model of ten lines


class Budget:
    """A quota model of ten lines: every user may spend so much."""

    def __init__(self, limit: int) -> None:
        self.limit, self.spent = limit, dict[str, int]()

    def check(self, claim: Claim) -> list[Violation]:
        """Deny more than the budget."""
        spent, requested, user = self.spent.get(claim.user.name, 0), claim.usage.get("coins", 0), claim.user.name
        fits = spent + requested <= self.limit
        return [] if fits else [Violation("budget", user, "", "", "coins", self.limit, spent, requested)]

    def charge(self, claim: Claim) -> None:
        """Spend."""
        self.spent[claim.user.name] = self.spent.get(claim.user.name, 0) + claim.usage.get("coins", 0)

    def refund(self, claim: Claim) -> None:
        """Take it back."""
        self.spent[claim.user.name] -= claim.usage.get("coins", 0)


def gang(*usages: Resource) -> list[AllocationRequest]:
    """Return requests of the application, numbered from 1."""
    return [AllocationRequest(str(number), "app", usage) for number, usage in enumerate(usages, 1)]


def test_denied_gang_names_all_limits() -> None:
    """A denied gang names every limit that denies one of its allocations, also those after the first denied one."""
    model, budget = ResettableFailing(5), Budget(3)
    partition = partition_of("{name: a, resources: {max: {memory: 1}}}", models=[model, budget])
    partition.submit("app", SUE, "root.a")

    with changing_nothing(partition):
        decision = partition.allocate_all(
            gang(licences(3), licences(4), Resource(coins=2), Resource(coins=2, memory=2))
        )
    assert decision == Decision(
        (
            Violation("queue", "root.a", "root.a", "", "memory", 1, 0, 2),
            Violation("licence", "solver", "", "", "licence", 5, 3, 4),
            Violation("budget", "sue", "", "", "coins", 3, 2, 2),
        )
    )
    assert (model.state(), budget.spent) == (({}, {}), {"sue": 0})


# Demand


# Evictions


def evicting(gives_up: tuple[str, ...]) -> tuple[Partition, ResettableFailing]:
    """Return a partition where all three licences are taken, one by each allocation, and a model that gives up some."""
    model = ResettableFailing(3, gives_up=gives_up)
    partition = partition_of("{name: a, resources: {max: {licence: 2}}}, {name: b}", models=[model])
    for name, where in [("mine", "root.a"), ("1", "root.b"), ("2", "root.b")]:
        partition.submit(name, SUE, where)
        assert partition.allocate(name, name, licences(1))
    return partition, model


def test_evictions_are_told() -> None:
    """A denial says what would let the request in, and releases nothing."""
    partition, model = evicting(("1",))
    before = model.state()
    with changing_nothing(partition):
        decision = partition.allocate("more", "mine", licences(1))
        assert partition.check("mine", licences(1)) == decision

    assert model.state() == before
    assert str(decision) == (
        "denied, waiting can help:\n"
        "  licence 'solver': 1 licence requested, 3 of 3 used, 1 too much\n"
        "  evicting '1' would make room"
    )
    assert str(partition.explain("mine", licences(1))) == str(decision)

"""The waiting list wakes exactly what a pass over a copy would grant, and nothing that fits stays asleep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from random import Random
from typing import Final

import pytest

from support.examples import seeds
from support.partition_fixtures import Licences
from support.quotatree_fixtures import document, tree_model
from support.random_histories import SORTING, History, Operation, random_queue
from ugm import AllocationRequest, Decision, Partition, Resource, UserGroup, Violation, parse_config
from ugm.configuration import Extensions, PartitionConfig
from ugm.elastic import AdmissionRules, ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.fairness import BinnedUsage, FairShares, ShareTree
from ugm.model import Claim, QuotaModel
from ugm.partition import AllocationState

NAMES: Final = ("memory", "vcore", "licence")
VARIANTS: Final = ("card:x", "card:y")
FAMILY: Final = parse_config("partitions: [{ugm: {families: {card: [x, y]}}, queues: []}]").partition()
USERS: Final = (
    UserGroup("ana", ("dev",)),
    # The groups of a user may change between two submissions.
    UserGroup("ana", ("qa", "ops")),
    UserGroup("ben", ("ops", "dev")),
    UserGroup("eva"),
    UserGroup("zoe", ("qa",)),
)

#: The tag of applications that names an elastic group and a leaf of the quota tree.
TAG: Final = "team"
#: The order of applications depends on shares more often than on anything else.
ORDER: Final = {**SORTING, "application.sort.policy": ("fifo", "fair", "share", "share")}


def elastic() -> QuotaModel:
    """Return elastic groups for the tags of the applications."""
    groups = [
        ElasticGroup(
            name,
            min=Resource(memory=2, vcore=2),
            max=Resource(memory=9, vcore=9),
            shared_weight=Resource(memory=weight, vcore=weight),
        )
        for name, weight in (("red", 1), ("blue", 3))
    ]
    return ElasticModel(
        ElasticQuota(ElasticTree(Resource(memory=14, vcore=14, licence=14), groups), rules=AdmissionRules()),
        group_tag=TAG,
    )


def tree() -> QuotaModel:
    """Return a quota tree for the tags of the applications, in which one leaf may borrow."""
    one = document({"all": ("nil", 9), "red": ("all", 4), "blue!": ("all", 5)}, resource="vcore")
    return tree_model(one, lambda claim: claim.tags[TAG])


def shares() -> QuotaModel:
    """Return shares of users, of which one is not listed, with usage that decays quickly."""
    accounts = ShareTree({"dev": 2, "ops": 1}, {"dev/ana": 1, "ops/ben": 2, "zoe": 1})
    return FairShares(accounts, BinnedUsage(bin=3, decay=Fraction(1, 2), bins=4), default_shares=1)


class OnePerUser:
    """A quota model of a program: each user may hold one allocation. It does not say what room it has."""

    def __init__(self) -> None:
        self.held = Counter[str]()

    def check(self, claim: Claim) -> list[Violation]:
        """Deny a second allocation."""
        name = claim.user.name
        return [Violation("seat", name, "", "", None, 1, 1, 1)] if self.held[name] else []

    def charge(self, claim: Claim) -> None:
        """Count it."""
        self.held[claim.user.name] += 1

    def refund(self, claim: Claim) -> None:
        """Count it no more."""
        self.held[claim.user.name] -= 1


MODELS: Final[dict[str, Callable[[], list[QuotaModel]]]] = {
    "none": list,
    "variants": list,
    "licences": lambda: [Licences(4)],
    "one for each user": lambda: [OnePerUser()],
    "elastic": lambda: [elastic()],
    "tree": lambda: [tree()],
    "shares": lambda: [shares()],
    "all": lambda: [Licences(4), elastic(), tree()],
}


def _named(models: str, rng: Random) -> Sequence[str]:
    """Return the resources of a request, with cards of any model or of one."""
    return ("memory", rng.choice(["card", *VARIANTS])) if models == "variants" else NAMES


class Waking(History):
    """A partition with a waiting list."""

    def __init__(self, seed: int, models: str, *, reserves: bool = False) -> None:
        rng = Random(seed)
        #: With one priority, a wake-up searches only the requests that may fit.
        self.priorities = rng.choice([[0], [0, 0, 1, -1]])
        self.reserves = reserves
        names, extensions = (VARIANTS, FAMILY.ugm) if models == "variants" else (NAMES, Extensions())
        self.config, self.other = (
            PartitionConfig(
                queues=(random_queue(rng, names=names, sorting=ORDER, reserves=(0.7, 0.3) if reserves else (0, 0)),),
                ugm=extensions,
            )
            for _ in range(2)
        )
        #: Requests of equal sizes wait together.
        self.sizes = [
            Resource({name: rng.randint(0, 4) for name in _named(models, rng) if rng.random() < 0.6})
            for _ in range(rng.choice([2, 5, 50]))
        ]
        size = Resource({name: rng.randint(5, 20) for name in names}) if rng.random() < 0.7 else None
        super().__init__(rng, self.config, MODELS[models], size)
        self.offered: set[str] = set()

    def size(self) -> Resource:
        """Return a random usage."""
        return self.rng.choice(self.sizes)

    def change(self) -> None:
        """Execute a random operation."""
        rng, choice = self.rng, self.rng.randrange(14)
        applications, allocations = self.partition.application_ids(), self.partition.allocations()
        if choice < 2 or not applications:
            self.submit_as(USERS, tags={TAG: rng.choice(["red", "blue"])})
        elif choice < 8:
            self.number += 1
            name, owner, size = f"r{self.number:03}", rng.choice(applications), self.size()
            priority, preemptible = rng.choice(self.priorities), rng.random() < 0.8
            duration = rng.choice([None, 3, 10, 40]) if self.reserves else None
            self.do(
                lambda p: p.request(name, owner, size, priority=priority, preemptible=preemptible, duration=duration)
            )
        elif choice < 11 and allocations:
            one = rng.choice(allocations).allocation_id
            self.free(lambda p: p.release(one))
        elif choice == 11:
            self.change_much(applications)
        elif choice == 12 and (held := [one for one in allocations if one.state is AllocationState.HELD]):
            chosen, size = rng.choice(held), self.size()
            one = chosen.allocation_id
            self.do(lambda p: p.resize(one, size))
            if self.partition.allocation(one).usage != chosen.usage:  # type: ignore[union-attr] # it is held
                self.offered.clear()

    def change_much(self, applications: tuple[str, ...]) -> None:
        """Change a node, remove an application, or put another configuration in force."""
        rng = self.rng
        choice, owner, size = rng.randrange(4), rng.choice(applications), self.size()
        name = f"n{rng.randrange(3)}"
        if choice == 0 and name not in self.partition.nodes():
            self.free(lambda p: p.add_node(name, size))
        elif choice == 1 and name in self.partition.nodes():
            self.free(lambda p: p.remove_node(name))
        elif choice == 2 and self.partition.allocations(owner):
            self.free(lambda p: p.remove(owner))
        elif rng.random() < 0.3:
            self.config, self.other = self.other, self.config
            config = self.config
            self.free(lambda p: p.configure(config))

    def free(self, operation: Operation) -> None:
        """Execute an operation after which everything takes part again."""
        self.do(operation)
        self.offered.clear()

    def expected(self) -> list[str]:
        """Return what a pass over a copy grants."""
        copy, _ = self.copy()
        granted = []
        for head in copy.scheduling_pass():
            if head.request.allocation_id in self.offered:
                head.skip()
            elif head.allocate():
                granted.append(head.request.allocation_id)
        return granted

    def run(self) -> int:
        """Compare all wake-ups, and return the number of woken requests."""
        total = 0
        for _ in range(self.rng.randint(4, 10)):
            for _ in range(self.rng.randint(1, 6)):
                self.change()
            total += self.wake()
            self.now += self.rng.randint(0, 6)
        copy, _ = self.copy()
        assert copy.reservations() == self.partition.reservations()
        return total

    def wake(self) -> int:
        """Compare one wake-up, and grant some of the woken requests."""
        expected = self.expected()
        before = exposed(self.partition)
        # It may record reservations.
        woken = self.do(lambda p: p.wake())
        assert [one.allocation_id for one in woken] == expected
        assert exposed(self.partition) == before
        self.partition.verify()
        self.offered.update(expected)
        for one in woken:
            if self.rng.random() < 0.6:
                assert self.do(partial(grant, request=one))
        return len(woken)


def grant(partition: Partition, request: AllocationRequest) -> Decision:
    """Grant a request that was woken."""
    return partition.allocate_ignoring_reservations(request)


def exposed(partition: Partition) -> object:
    """Return what can be seen of a partition."""
    return partition.allocations(), partition.applications(), partition.users(), partition.groups(), partition.queue()


#: With all models, with and without reservations, the seeds are 2,040 histories.
SEEDS: Final = seeds(1, 20, 170)


@pytest.mark.parametrize("models", MODELS)
@pytest.mark.parametrize("seed", SEEDS)
def test_wake(seed: int, models: str) -> None:
    """Every wake-up of a random history returns what a pass over a copy would grant, in its order."""
    Waking(seed, models).run()


@pytest.mark.parametrize("models", MODELS)
@pytest.mark.parametrize("seed", SEEDS)
def test_wake_with_reservations(seed: int, models: str) -> None:
    """With reservations, every wake-up returns what a pass over a copy would grant, which respects and makes them."""
    Waking(seed, models, reserves=True).run()

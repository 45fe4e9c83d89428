"""Laws of families of resources: a brute-force oracle, and the law of guarantees that can be reclaimed.

The oracle knows no flow and no order: it tries every division of an amount, and finds what groups own by the formula of
the minimum cut. It follows the rules of `ugm.partition.admission.variant_protection`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Final, NamedTuple

import pytest

from ugm import AllocationRequest, Partition, Resource, UserGroup
from ugm.configuration import Extensions, PartitionConfig, QueueConfig, QueueResources
from ugm.families import Families
from ugm.model import GuaranteedGroup, Guarantees
from ugm.partition.admission.variant_protection import unsatisfiable

FAMILY: Final = "gpu"
SUE: Final = UserGroup("sue")
_Amounts = dict[str, int]


class World(NamedTuple):
    """Groups that share cards, with what each may use and is guaranteed."""

    variants: tuple[str, ...]
    capacity: Mapping[str, int]
    maxima: Mapping[str, _Amounts]
    #: In normal form.
    guaranteed: Mapping[str, _Amounts]

    def config(self) -> PartitionConfig:
        """Return the configuration of a partition with a queue for each group."""
        queues = [
            QueueConfig(
                group,
                resources=QueueResources(max=Resource(self.maxima[group]), guaranteed=Resource(self.guaranteed[group])),
            )
            for group in self.maxima
        ]
        shorts = tuple(name.partition(":")[2] for name in self.variants)
        return PartitionConfig(queues=tuple(queues), ugm=Extensions(families={FAMILY: shorts}))

    def partition(self) -> Partition:
        """Return the partition with a node for each variant, and an application in each queue."""
        partition = Partition(self.config())
        for name, amount in self.capacity.items():
            partition.add_node(f"node of {name}", Resource({name: amount}))
        for group in self.maxima:
            partition.submit(group, SUE, f"root.{group}")
        return partition


class Oracle:
    """The usage of each group, and which requests fit by the rules."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.used = {group: dict.fromkeys(world.variants, 0) for group in world.maxima}

    def free(self, name: str) -> int:
        """Return the cards of a variant that nobody uses."""
        return self.world.capacity[name] - sum(one[name] for one in self.used.values())

    def open_guarantee(self, group: str) -> int:
        """Return the amount of any variant that a group is guaranteed."""
        guaranteed = self.world.guaranteed[group]
        return guaranteed.get(FAMILY, 0) - sum(guaranteed.get(name, 0) for name in self.world.variants)

    def excess(self, group: str, name: str) -> int:
        """Return what a group uses of a variant beyond its guarantee of it."""
        return max(0, self.used[group][name] - self.world.guaranteed[group].get(name, 0))

    def own(self, group: str = "", more: Mapping[str, int] | None = None, anywhere: int = 0) -> int:
        """Return what groups use within guarantees; of any variant, the minimum over all cuts between variants."""
        world, more = self.world, more or {}
        cuts = []
        for cut in _subsets(world.variants):
            rest = [name for name in world.variants if name not in cut]
            room = sum(
                max(0, world.capacity[name] - sum(one.get(name, 0) for one in world.guaranteed.values()))
                for name in cut
            )
            for one in world.maxima:
                amount = sum(self._excess_with(one, name, group, more) for name in rest)
                amount += anywhere if one == group else 0
                room += min(self.open_guarantee(one), amount)
            cuts.append(room)
        return min(cuts) + sum(self._typed_with(one, group, more) for one in world.maxima)

    def _typed_with(self, one: str, group: str, more: Mapping[str, int]) -> int:
        guaranteed, used = self.world.guaranteed[one], self.used[one]
        return sum(
            min(guaranteed.get(name, 0), used[name] + (more.get(name, 0) if one == group else 0))
            for name in self.world.variants
        )

    def _excess_with(self, one: str, name: str, group: str, more: Mapping[str, int]) -> int:
        used = self.used[one][name] + (more.get(name, 0) if one == group else 0)
        return max(0, used - self.world.guaranteed[one].get(name, 0))

    def fits_limits(self, group: str, amounts: Mapping[str, int]) -> bool:
        """Return whether amounts of variants fit the limits of a group and the free cards."""
        most, used = self.world.maxima[group], self.used[group]
        total = sum(used.values()) + sum(amounts.values())
        return total <= most.get(FAMILY, total) and all(
            amount <= self.free(name) and used[name] + amount <= most.get(name, used[name] + amount)
            for name, amount in amounts.items()
        )

    def is_protected(self, group: str, parts: Mapping[str, int], typed: Mapping[str, int]) -> bool:
        """Return whether a division, besides cards by name, leaves the guarantees of others satisfiable."""
        others = [one for one in self.world.maxima if one != group]
        if all(part <= self.unneeded(name, others) for name, part in parts.items() if part):
            return True
        together = {name: part + typed.get(name, 0) for name, part in parts.items()}
        return self.own(group, together) >= self.own(group, typed, sum(parts.values()))

    def unneeded(self, name: str, others: Sequence[str]) -> int:
        """Return the free cards of a variant that no other group still needs for its guarantee."""
        needs = (self.world.guaranteed[one].get(name, 0) - self.used[one][name] for one in others)
        return max(0, self.free(name) - sum(max(0, need) for need in needs))

    def divisions(self, group: str, amount: int, typed: Mapping[str, int]) -> Iterator[_Amounts]:
        """Yield every division of an amount that a request may be assigned."""
        return (one for one in self.fitting(group, amount, typed) if self.is_protected(group, one, typed))

    def fitting(self, group: str, amount: int, typed: Mapping[str, int]) -> Iterator[_Amounts]:
        """Yield every division of an amount that fits the limits."""
        for parts in product(range(amount + 1), repeat=len(self.world.variants)):
            if sum(parts) == amount:
                division = dict(zip(self.world.variants, parts, strict=True))
                if self.fits_limits(group, {name: part + typed.get(name, 0) for name, part in division.items()}):
                    yield division

    def change(self, group: str, amounts: Mapping[str, int], sign: int = 1) -> None:
        """Count amounts of variants."""
        for name, amount in amounts.items():
            if name in self.used[group]:
                self.used[group][name] += sign * amount


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(names) + 1):
        yield from combinations(names, size)


def _world(random: Random) -> World:
    """Return a random world whose guarantees can be met."""
    variants = tuple(f"{FAMILY}:{short}" for short in ("a", "b", "c")[: random.randint(2, 3)])
    capacity = {name: random.randint(1, 6) for name in variants}
    groups = [f"g{number}" for number in range(random.randint(2, 5))]
    left, maxima, guaranteed = dict(capacity), {}, {}
    for group in groups:
        amounts = {name: random.randint(0, left[name]) for name in variants if random.random() < 0.4}
        for name, amount in amounts.items():
            left[name] -= amount
        guaranteed[group] = amounts
    for group in groups:
        amounts = guaranteed[group]
        spare = random.randint(0, sum(left.values())) if random.random() < 0.5 else 0
        for name in variants:
            taken = min(spare, left[name])
            left[name] -= taken
        total = sum(amounts.values()) + spare
        guaranteed[group] = {**amounts, FAMILY: total} if total else {}
        most = {}
        if random.random() < 0.5:
            most[FAMILY] = max(1, total, random.randint(1, sum(capacity.values())))
        for name in variants:
            if random.random() < 0.3:
                most[name] = max(1, amounts.get(name, 0), random.randint(1, capacity[name]))
        maxima[group] = most
    return World(variants, capacity, maxima, guaranteed)


def _run(seed: int, steps: int = 25) -> int:
    """Compare a partition with the oracle, and return the number of requests of any variant that were granted."""
    random = Random(seed)
    world = _world(random)
    partition, oracle, held, granted = world.partition(), Oracle(world), dict[str, tuple[str, _Amounts]](), 0
    for step in range(steps):
        if held and random.random() < 0.3:
            name = random.choice(sorted(held))
            group, amounts = held.pop(name)
            assert partition.release(name)
            oracle.change(group, amounts, -1)
            continue
        if held and random.random() < 0.2:
            _resize(random.choice(sorted(held)), random.randint(1, 5), partition, oracle, held)
            continue
        name, group = f"{step}", random.choice(sorted(world.maxima))
        typed = {one: random.randint(1, 2) for one in world.variants if random.random() < 0.25}
        amount = random.randint(0 if typed else 1, 3)
        usage = Resource({**typed, FAMILY: amount + sum(typed.values())})
        prefer = tuple(random.sample(world.variants, random.randint(0, len(world.variants))))
        divisions = list(oracle.divisions(group, amount, typed))
        decision = partition.allocate(name, group, usage, prefer=prefer)
        assert decision.allowed == bool(divisions), (seed, step, group, usage, str(decision), divisions)
        assert partition.check(group, Resource({FAMILY: 10_000})).can_wait is False
        if not decision:
            alone = Oracle(world)
            # An amount beyond the guarantee of its group may take cards that an amount within it may not. So waiting
            # can also help a request that an empty partition denies.
            assert decision.can_wait or not any(alone.divisions(group, amount, typed)), (seed, step, str(decision))
            assert not decision.can_wait or any(alone.fitting(group, amount, typed)), (seed, step, str(decision))
            continue
        assign = dict(decision.assign or {})
        division = dict.fromkeys(world.variants, 0) | assign
        assert division in divisions, (seed, step, division, divisions)
        granted += amount > 0
        held[name] = group, {one: typed.get(one, 0) + division[one] for one in world.variants}
        oracle.change(group, held[name][1])
    partition.verify()
    return granted


def _resize(name: str, size: int, partition: Partition, oracle: Oracle, held: dict[str, tuple[str, _Amounts]]) -> None:
    """Change the amount of any variant of an allocation, and compare the answer for what grows."""
    row, (group, amounts) = partition.allocation(name), held[name]
    assert row is not None
    before = dict(row.assign or {})
    rest = size - sum(before.values())
    usage = Resource({**row.requested_usage, FAMILY: row.requested_usage.get(FAMILY, 0) + rest})
    divisions = list(oracle.divisions(group, max(0, rest), {}))
    decision = partition.resize(name, usage)
    assert decision.allowed == (rest <= 0 or bool(divisions)), (name, usage, str(decision))
    if decision:
        after = dict(decision.assign or {})
        growth = {one: after.get(one, 0) - before.get(one, 0) for one in oracle.world.variants}
        assert rest <= 0 or growth in divisions
        assert sum(after.values()) == size
        oracle.change(group, growth)
        held[name] = group, {one: amounts[one] + growth[one] for one in oracle.world.variants}


@pytest.mark.parametrize(
    "seeds",
    [
        range(60),
        pytest.param(range(60, 120), marks=pytest.mark.ci),
        pytest.param(range(1000, 11_000), marks=pytest.mark.deep),
    ],
)
def test_assignments_follow_the_rules(seeds: range) -> None:
    """A request of any variant is granted exactly if some division is allowed, and it gets one of these."""
    assert sum(map(_run, seeds)) > 3 * len(seeds)


def _reclaim(seed: int) -> int:
    """Let groups borrow at random, and request what each is guaranteed; return the number of evictions."""
    random = Random(seed)
    world = _world(random)._replace(maxima={})
    world = world._replace(maxima={group: {FAMILY: 1000} for group in world.guaranteed})
    partition, count = world.partition(), 0
    for step in range(60):
        group = random.choice(sorted(world.maxima))
        name = random.choice((FAMILY, *world.variants))
        partition.allocate(f"{step}", group, Resource({name: 1}))
    for group, guaranteed in world.guaranteed.items():
        for name in world.variants:
            queue = partition.queue(f"root.{group}")
            used = 0 if queue is None else queue.usage.get(name, 0)
            for number in range(guaranteed.get(name, 0) - used):
                request = AllocationRequest(f"{group} {name} {number}", group, Resource({name: 1}))
                if not partition.allocate(request):
                    plan = partition.plan_preemption(request, since=0, now=1000)
                    assert plan.victims, (seed, group, name, str(plan))
                    for victim in plan.victims:
                        assert partition.release(victim.allocation_id)
                    count += len(plan.victims)
                    assert partition.allocate(request), (seed, group, name)
    partition.verify()
    return count


@pytest.mark.parametrize(
    "seeds",
    [
        range(40),
        pytest.param(range(40, 100), marks=pytest.mark.ci),
        pytest.param(range(1000, 4000), marks=pytest.mark.deep),
    ],
)
def test_a_guarantee_of_a_variant_is_always_met(seeds: range) -> None:
    """Whatever others did before, a request within a guarantee of a variant is granted, or after evictions."""
    assert sum(map(_reclaim, seeds)) > len(seeds) // 3


def _preempt(seed: int) -> int:
    """Plan for requests of any variant among random others, and carry plans out; return the number of victims."""
    random = Random(seed)
    world = _world(random)
    partition, count = world.partition(), 0
    for step in range(40):
        name = random.choice((FAMILY, FAMILY, *world.variants))
        partition.allocate(f"{step}", random.choice(sorted(world.maxima)), Resource({name: random.randint(1, 2)}))
    for group in world.maxima:
        request = AllocationRequest(f"of {group}", group, Resource({FAMILY: random.randint(1, 4)}))
        partition.request(request)
        plan, decision = partition.plan_preemption(request, since=0, now=1000), partition.check(group, request.usage)
        assert (plan.outcome == "fits") == decision.allowed, (seed, group, str(plan), str(decision))
        assert plan.outcome != "awaits_terminating"
        for victim in partition.carry_out(plan) if plan else ():
            assert partition.release(victim)
        assert not plan or partition.allocate(request), (seed, group, str(plan))
        partition.release(request.allocation_id)
        count += len(plan.victims)
    return count


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 400), marks=pytest.mark.ci)])
def test_plans_for_any_variant(seeds: range) -> None:
    """A request has the outcome ``fits`` exactly if it fits now, and is granted once the victims of a plan are gone."""
    assert sum(map(_preempt, seeds)) > len(seeds) // 4


def test_guarantees_can_be_met_exactly_if_nothing_is_missing() -> None:
    """The condition on sums is that of an enumeration of all ways to choose the cards of any variant."""
    random = Random(7)
    for _ in range(400):
        world = _world(random)
        capacity = {name: random.randint(0, 5) for name in world.variants}
        open_amounts = [Oracle(world).open_guarantee(group) for group in world.guaranteed]
        rest = {
            name: capacity[name] - sum(one.get(name, 0) for one in world.guaranteed.values()) for name in world.variants
        }
        is_possible = min(rest.values()) >= 0 and _can_choose(open_amounts, list(rest.values()))
        families = Families({FAMILY: tuple(name.partition(":")[2] for name in world.variants)})
        groups = tuple(
            GuaranteedGroup(group, -1, amounts, {}, is_own=False) for group, amounts in world.guaranteed.items()
        )
        found = list(unsatisfiable(Guarantees("queues", capacity, {}, groups), families))
        assert bool(found) != is_possible, (world, capacity, found)


def _can_choose(amounts: Sequence[int], cards: Sequence[int]) -> bool:
    """Return whether all amounts can be taken from some cards, each from any of them."""
    if not amounts:
        return True
    first, *rest = amounts
    return any(
        sum(parts) == first and _can_choose(rest, [most - part for most, part in zip(cards, parts, strict=True)])
        for parts in product(*(range(most + 1) for most in cards))
    )

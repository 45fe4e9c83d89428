"""The cost of a request grows with the logarithm of the number of consumers: executed lines are counted, twice."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from support.line_counts import lines_run_by
from ugm import Resource
from ugm.quotatree import ConsumerInfo, Mode, QuotaManager, TreeRequest

SMALL: Final = 200
LARGE: Final = 5_000


def crowded(count: int) -> QuotaManager:
    """Return a full tree of 1 + 4 + 16 nodes, most of whose consumers, of all sizes, borrow above their group."""
    draw = random.Random(1)
    mean = 500
    quota = {"root": mean * count}
    for org in range(4):
        quota[f"o{org}"] = mean * count // 10
        quota |= {f"o{org}l{leaf}": mean * count // 40 for leaf in range(4)}
    manager = QuotaManager()
    cache = manager.get_tree_cache(manager.add_tree_by_name("T"))
    cache.add_resource_name("cpu")
    parents = {name: "root" if "l" not in name else name[:2] for name in quota} | {"root": "nil"}
    cache.add_node_specs(
        {name: {"parent": parents[name], "quota": {"cpu": str(amount)}} for name, amount in quota.items()}
    )
    manager.update_tree("T")
    manager.set_mode(Mode.NORMAL)
    for number in range(count):
        size, priority = draw.randint(1, 2 * mean), draw.randint(0, 2)
        ask(manager, f"c{number}", f"o{draw.randrange(4)}l{draw.randrange(4)}", size, priority)
    return manager


def ask(manager: QuotaManager, consumer_id: str, group: str, cpu: int, priority: int = 0) -> bool:
    """Register and allocate a consumer."""
    manager.add_consumer(ConsumerInfo(consumer_id, [TreeRequest("T", group, Resource(cpu=cpu), priority)]))
    return manager.allocate("T", consumer_id).allocated


#: Requests of every kind, each many times, so that chance evens out.
OPERATIONS: Final[dict[str, Callable[[QuotaManager], object]]] = {
    "arrive": lambda manager: [ask(manager, f"n{n}", f"o{n % 4}l{n // 4 % 4}", 500) for n in range(50)],
    "arrive-first": lambda manager: [ask(manager, f"p{n}", f"o{n % 4}l{n // 4 % 4}", 500, 2) for n in range(50)],
    "rejected": lambda manager: [ask(manager, f"r{n}", "o0l0", 10**12, 3) for n in range(50)],
    "leave": lambda manager: [manager.deallocate("T", f"c{n}") for n in range(0, 200, 4)],
}


def lines_for_each(operation: str, held: int) -> float:
    """Return the lines that run for each of fifty operations and each consumer that they move."""
    manager = crowded(held)
    arrivals = manager._registry.trees["T"].tree._arrivals
    before = next(arrivals)
    lines = lines_run_by(partial(OPERATIONS[operation], manager))
    return lines / (50 + next(arrivals) - before - 1)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_growth(operation: str) -> None:
    """With 25 times as many consumers an operation runs less than twice the lines, but may move more of them."""
    small, large = (lines_for_each(operation, held) for held in (SMALL, LARGE))

    assert large <= 2 * small, (small, large)


def test_first_consumers() -> None:
    """The first consumers are found without a search through gaps, however many have left the node before them."""
    manager = crowded(400)
    node = manager._registry.trees["T"].tree.nodes["root"]
    everybody = [consumer.id for consumer in node.consumers()]
    assert [consumer.id for consumer in node.first_consumers()] == everybody
    assert isinstance(node._members, OrderedDict)

    for consumer_id in everybody[:-5]:
        manager.deallocate("T", consumer_id)
    left = list(node.consumers())
    assert list(node.first_consumers()) == left
    assert node._members.__sizeof__() <= 200 * (len(left) + 4)
    manager.verify()


def lone(quota: int, *, check_unrequested: bool = False) -> QuotaManager:
    """Return a large tree with one group."""
    manager = QuotaManager(check_unrequested=check_unrequested)
    cache = manager.get_tree_cache(manager.add_tree_by_name("T"))
    cache.add_resource_name("cpu")
    cache.add_node_specs(
        {"root": {"quota": {"cpu": str(2**60)}}, "a": {"parent": "root", "quota": {"cpu": str(quota)}}}
    )
    manager.update_tree("T")
    manager.set_mode(Mode.NORMAL)
    return manager


def after_many_have_left(held: int) -> Callable[[], object]:
    """Return a departure after which no consumer fits: only the small ones of every block have left."""
    manager = lone(1006)
    ask(manager, "hog", "a", 1006)
    for number in range(held):
        ask(manager, f"c{number}", "a", 9999 if number % 64 else 5)
    for number in range(0, held, 64):
        manager.deallocate("T", f"c{number}")
    manager.deallocate("T", "hog")
    ask(manager, "f", "a", 1000)
    for number in range(16):
        ask(manager, f"x{number}", "a", 1)
        manager.deallocate("T", f"x{number}")
    ask(manager, "x", "a", 1)
    return partial(manager.deallocate, "T", "x")


def nothing_asked_for(held: int) -> Callable[[], object]:
    """Return a departure from a group over its quota, above which all consumers request nothing and have to wait."""
    manager = lone(10, check_unrequested=True)
    manager.set_mode(Mode.MAINTENANCE)
    ask(manager, "hog", "a", 20)
    ask(manager, "x", "a", 1)
    manager.set_mode(Mode.NORMAL)
    for number in range(held):
        ask(manager, f"c{number}", "a", 0)
    return partial(manager.deallocate, "T", "x")


@pytest.mark.parametrize("departure", [after_many_have_left, nothing_asked_for])
def test_fruitless_visits_do_not_repeat(departure: Callable[[int], Callable[[], object]]) -> None:
    """If no consumer moves down, the cost does not depend on the length of the queue."""
    small, large = (lines_run_by(departure(held)) for held in (500, 8000))

    assert large <= 2 * small, (small, large)


def test_ranks_are_forgotten() -> None:
    """A node counts the ranks in use only, however many priorities have come and gone."""
    manager = lone(10**6)
    tree = manager._registry.trees["T"].tree
    for number in range(6000):
        ask(manager, f"c{number}", "a", 1, number)
        if number >= 100:
            manager.deallocate("T", f"c{number - 100}")
            manager.remove_consumer(f"c{number - 100}")
    for number in range(6000, 6500):
        ask(manager, f"c{number}", "a", 1, 5900 + number % 200)

    assert len(tree.nodes["a"].totals) == 200
    manager.verify()

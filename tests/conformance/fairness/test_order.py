"""The scheduling order: tables and trees of Apache YuniKorn, and exact passes over random trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from support.vectors import cases, of_visible_folder, vectors
from ugm import AllocationRequest, Resource
from ugm.ordering.ratios import Ratio, fair_maximum
from ugm.ordering.request_order import OrderTree, SortSettings

ALL: Final = vectors("ordering/queues")


def ratio(given: Mapping[str, Any]) -> Ratio:
    """Return the ratio of a queue of a table."""
    return Ratio.used(given["used"] or {}, given["guaranteed"] or {}, given["fair_max"] or {})


def compared(left: Ratio, right: Ratio) -> int:
    """Return -1, 0 or 1 for two ratios."""
    return (right < left) - (left < right)


def add(
    tree: OrderTree, name: str, queue: str, submitted: int, used: Mapping[str, int], *asks: Mapping[str, Any]
) -> None:
    """Add an application with its requests."""
    application = tree.add_application(name, queue, submitted)
    tree.set_usage(application, used)
    for ask in sorted(asks, key=lambda ask: ask["number"]):
        request = AllocationRequest(ask["id"], name, Resource(ask["usage"]), priority=ask["priority"])
        application.add(request, ask["number"])


def tree_of(case: Mapping[str, Any]) -> OrderTree:
    """Return the tree of a case."""
    settings = [SortSettings(one["sort"], one["priority_first"], one["offset"], one["fence"]) for one in case["queues"]]
    tree = OrderTree(settings[0], case["queues"][0]["max"])
    for queue, own in zip(case["queues"][1:], settings[1:], strict=True):
        tree.add_queue(queue["path"], own, queue["guaranteed"], queue["max"])
    for one in case["applications"]:
        add(tree, one["id"], one["queue"], one["submitted"], one["used"], *one["asks"])
    tree.refresh()
    return tree


def drained(tree: OrderTree) -> list[str]:
    """Return the applications in their order, each once."""
    tree.refresh()
    found = []
    while (application := tree.first()) is not None and (request := application.next()) is not None:
        found.append(application.application_id)
        tree.skip(application, request)
    return found


def sorted_queues(given: Mapping[str, Any]) -> list[str]:
    """Return queues in their order; upstream's ``fifo`` for queues keeps the order given, and no tree uses it."""
    queues, names = given["queues"], given["given"]
    if given["sort"] == "fifo":
        return sorted(names, key=lambda name: -queues[name]["priority"]) if given["priority_first"] else names
    tree = OrderTree(SortSettings(priority_first=given["priority_first"]), {})
    for number, name in enumerate(names):
        one = queues[name]
        tree.add_queue(f"root.{name}", SortSettings(), one["guaranteed"], one["fair_max"])
        ask = {"id": name, "number": 0, "usage": {}, "priority": one["priority"]}
        add(tree, name, f"root.{name}", number, one["used"], ask)
    return drained(tree)


def sorted_applications(given: Mapping[str, Any]) -> list[str]:
    """Return the applications of a leaf in their order."""
    tree = OrderTree(SortSettings(given["sort"], given["priority_first"]), given["total"] or {})
    for one in given["applications"]:
        asks = [{"id": one["id"], "number": 0, "usage": {}, "priority": one["priority"]}] if one["pending"] else []
        add(tree, one["id"], "root", one["submitted"], one["used"], *asks)
    return drained(tree)


#: The tables of functions that ugm does not have: they compare usages alone.
_OTHERS: Final = {"shares", "compare_shares", "compare_usage", "compare_usage_of", "fairness_ratio"}
#: The function of each table.
TABLES: Final[Mapping[str, Callable[[Any], object]]] = {
    "fair_share": lambda given: str(ratio(given).fraction),
    "compare_fair_share": lambda given: compared(ratio(given["left"]), ratio(given["right"])),
    "fair_max": lambda given: fair_maximum(given["max_of_path"]),
    "priorities": lambda given: {path: queue.pending_priority() for path, queue in tree_of(given).queues.items()},
    "sort_queues": sorted_queues,
    "sort_applications": sorted_applications,
}


@pytest.mark.parametrize("case", cases([one for one in ALL if one["kind"] in TABLES], name="id", sample=1))
def test_tables(case: Mapping[str, Any]) -> None:
    """Ratios, shares, priorities and orders of siblings are the recorded ones."""
    assert TABLES[case["kind"]](case["input"]) == case["expect"]


@pytest.mark.parametrize("case", cases([one for one in ALL if one["kind"] == "turns"], name="id", sample=4))
def test_passes(case: Mapping[str, Any]) -> None:
    """A pass that grants what fits the maxima offers the recorded requests, and leads to the recorded usage."""
    tree, expected, offers = tree_of(case), case["expect"], []

    assert {path: str(queue.ratio.fraction) for path, queue in tree.queues.items()} == expected["ratios"]
    assert {path: queue.pending_priority() for path, queue in tree.queues.items()} == expected["priorities"]
    while (application := tree.first()) is not None and (request := application.next()) is not None:
        fits = application.queue.blocking_queue(request.usage) is None
        offers.append([request.allocation_id, fits])
        (tree.grant if fits else tree.skip)(application, request)
    assert offers == expected["offers"]
    used = {
        path: {name: amount for name, amount in queue.used.items() if amount} for path, queue in tree.queues.items()
    }
    assert used == expected["used"]


@of_visible_folder
def test_all_cases_are_there() -> None:
    """The file has the cases that it is said to have."""
    assert len(ALL) >= 304
    assert {one["kind"] for one in ALL} == {*TABLES, *_OTHERS, "turns"}

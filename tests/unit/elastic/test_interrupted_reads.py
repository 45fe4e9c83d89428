"""Reads of runtimes that an exception from outside interrupts: later reads have the same results as without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from support.interruption_points import Interruption, points_in
from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticTree

#: Requests of which some are satisfied.
FEW = {"a": 3, "c": 60}
MANY = {"a": 9, "b": 3, "c": 60, "d": 12, "e": 5}


def tree_of(requests: dict[str, int]) -> ElasticTree:
    """Return groups, some with different weights, and their requests."""
    tree = ElasticTree(Resource(gpu=40))
    for number, (name, amount) in enumerate(requests.items()):
        weight = Resource(gpu=number // 2 + 1)
        tree.put(ElasticGroup(name, min=Resource(gpu=2), max=Resource(gpu=40), shared_weight=weight))
        tree.change_request(name, Resource(gpu=amount))
    return tree


def runtimes(tree: ElasticTree) -> dict[str, Resource]:
    """Return the runtimes of all groups."""
    return {group.name: tree.runtime(group.name) for group in tree.groups}


@pytest.mark.parametrize("requests", [FEW, pytest.param(MANY, marks=pytest.mark.ci)])
def test_interrupted_reads(requests: dict[str, int]) -> None:
    """The sums that a read corrects stay consistent."""
    expected = runtimes(tree_of(requests)), runtimes(tree_of({**requests, "c": 34}))
    tree = tree_of(requests)

    @contextmanager
    def prepared() -> Iterator[Callable[[], object]]:
        nonlocal tree
        tree = tree_of(requests)
        yield lambda: runtimes(tree)

    points = points_in(prepared)
    for point in points:
        with prepared() as call:
            interruption = Interruption(point)
            interruption.run(call)
        assert interruption.has_raised
        for _ in range(3):
            assert runtimes(tree) == expected[0], point
        tree.change_request("c", Resource(gpu=-26))
        assert runtimes(tree) == expected[1], point
    assert len(points) > 50

"""Trees and forests as quota models of a partition, in every operation that changes allocations.

After every step the counters of the partition and of the trees are made anew and compared, and so are the allocations
of the one with the consumers of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from support.partition_fixtures import SUE, config
from support.quotatree_fixtures import document
from ugm import AllocationRequest, Claim, QuotaModel, Resource
from ugm.partition import AbstractPartition
from ugm.partition.rows import AllocationState
from ugm.quotatree import ForestModel, Mode, QuotaManager, TreeModel, TreeView

#: A soft tree, and one in which a team cannot borrow.
SOFT = {"all": ("nil", 8), "x": ("all", 4), "a": ("x", 2), "b": ("x", 2), "c": ("all", 4)}
HARD = {"all": ("nil", 8), "x!": ("all", 4), "a": ("x", 2), "b!": ("x", 2), "c": ("all", 6)}

QUEUES: Final = "{name: a, resources: {max: {cpu: 7}}}, {name: b}, {name: c}, {name: free}"


class Town:
    """A partition with a tree and a forest as quota models, whose groups are named like the queues."""

    def __init__(self, new_partition: Callable[..., AbstractPartition]) -> None:
        self.manager = QuotaManager()
        self.manager.set_mode(Mode.NORMAL)
        for name, nodes in (("T", SOFT), ("U", SOFT), ("V", HARD)):
            self.manager.add_tree_from_struct(document(nodes, name))
        self.manager.add_forest("F")
        for name in ("U", "V"):
            self.manager.add_tree_to_forest("F", name)
        models: list[QuotaModel] = [
            TreeModel(self.manager, "T", _group, unrestricted=True),
            ForestModel(self.manager, "F", _groups, unrestricted=True),
        ]
        self.partition = new_partition(config(QUEUES), models=models)
        for queue in ("a", "b", "c", "free"):
            self.partition.submit(queue, SUE, f"root.{queue}")

    def seen(self) -> tuple[TreeView, ...]:
        """Return the views of all trees."""
        return tuple(self.manager.view(name) for name in self.manager.get_tree_names())

    def verify(self) -> None:
        """Compare the counters of the partition and of the trees."""
        self.partition.verify()
        self.manager.verify()
        counted = {
            allocation.allocation_id: allocation.usage
            for allocation in self.partition.allocations()
            if allocation.state is not AllocationState.PENDING and allocation.application_id != "free"
        }
        for view in self.seen():
            assert {name: consumer.request for name, consumer in view.consumers.items()} == counted


def _group(claim: Claim) -> str | None:
    group = claim.queue_path.rpartition(".")[2]
    return None if group == "free" else group


def _groups(claim: Claim) -> dict[str, str]:
    group = _group(claim)
    return {} if group is None else {"U": group, "V": group}


def cpu(amount: int) -> Resource:
    """Return an amount of processors."""
    return Resource(cpu=amount)


@pytest.fixture(name="town")
def _town(new_partition: Callable[..., AbstractPartition]) -> Town:
    return Town(new_partition)


def test_a_denied_gang_names_all_nodes(town: Town) -> None:
    """A denied gang names every quota that denies any of its allocations, once for each node."""
    gang = [("n1", "a", 3), ("n2", "a", 4), ("n3", "c", 2), ("n4", "c", 2)]
    decision = town.partition.allocate_all([AllocationRequest(name, queue, cpu(more)) for name, queue, more in gang])

    assert [str(violation) for violation in decision.violations if violation.limit_name == "V"] == [
        "quota node 'a' of tree 'V': 4 cpu requested, 0 of 2 used, 2 too much",
        "quota node 'x' of tree 'V': 4 cpu requested, 3 of 4 used, 3 too much",
        "quota node 'all' of tree 'V': 2 cpu requested, 7 of 8 used, 1 too much",
    ]


@pytest.mark.parametrize("between", [0, 3])
def test_exchanges_after_the_group_is_gone(town: Town, between: int) -> None:
    """An allocation whose group has left all trees can shrink, end earlier and replace a placeholder."""
    town.partition.allocate("placeholder", "c", cpu(1), placeholder=True)
    town.partition.allocate("1", "c", cpu(2), duration=100)
    for number in range(between):
        town.partition.allocate(f"other-{number}", "a", cpu(0))
    for name in ("T", "U", "V"):
        town.manager.get_tree_cache(name).delete_node("c")
    town.manager.update_tree("T")
    town.manager.update_forest("F")

    assert town.partition.renew("1", 50)
    assert town.partition.resize("1", cpu(1))
    assert not town.partition.resize("1", cpu(2))
    assert not town.partition.renew("1", 500)
    assert town.partition.resize("1", cpu(0))
    assert town.partition.replace("placeholder", "real", cpu(1))
    town.verify()
    assert town.partition.release("1")
    assert town.partition.release("real")
    town.partition.adopt("2", "c", cpu(1))
    assert town.manager.view("T").consumers["2"].node == "all"
    town.verify()

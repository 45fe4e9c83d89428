"""Intended differences from Koordinator: one test for each row of the table in the documentation."""

from __future__ import annotations

import pytest

from support.elastic_fixtures import cpu_runtimes
from ugm import Resource
from ugm.elastic import (
    DEFAULT_GROUP,
    ROOT_GROUP,
    SYSTEM_GROUP,
    ElasticGroup,
    ElasticQuota,
    ElasticTree,
    GroupError,
    Pod,
)


def test_minimum_of_a_new_group_counts_at_once() -> None:
    """A group that does not lend requests its minimum from its creation on, even if it is scaled down."""
    tree = ElasticTree(
        Resource(cpu=100), [ElasticGroup("a", min=Resource(cpu=40), max=Resource(cpu=100), allow_lent=False)]
    )
    tree.put(ElasticGroup("b", min=Resource(cpu=80), max=Resource(cpu=100)))
    tree.change_request("b", Resource(cpu=40))

    assert cpu_runtimes(tree, "a", "b") == [40, 40]


def test_lowered_minimum_counts_at_once() -> None:
    """A group that does not lend returns the difference of a lowered minimum immediately."""
    tree = ElasticTree(
        Resource(cpu=100), [ElasticGroup("a", min=Resource(cpu=40), max=Resource(cpu=100), allow_lent=False)]
    )
    tree.put(ElasticGroup("a", min=Resource(cpu=10), max=Resource(cpu=100), allow_lent=False))

    assert cpu_runtimes(tree, "a") == [10]


def test_a_group_takes_away_what_it_brought() -> None:
    """Deleting a group subtracts its limited request; its siblings keep theirs."""
    groups = [
        ElasticGroup("p", max=Resource(cpu=100)),
        ElasticGroup("a", "p", max=Resource(cpu=30)),
        ElasticGroup("b", "p", max=Resource(cpu=100)),
    ]
    tree = ElasticTree(Resource(cpu=100), groups)
    tree.change_request("a", Resource(cpu=90))
    tree.change_request("b", Resource(cpu=50))
    tree.drop("a")

    assert cpu_runtimes(tree, "p", "b") == [50, 50]


@pytest.mark.parametrize("name", [DEFAULT_GROUP, SYSTEM_GROUP])
def test_built_in_groups_count_once(name: str) -> None:
    """The usage of a built-in group is subtracted from the total, and the group does not compete."""
    tree = ElasticTree(
        Resource(cpu=100), [ElasticGroup(name, max=Resource(cpu=10**18)), ElasticGroup("a", max=Resource(cpu=100))]
    )
    tree.change_request(name, Resource(cpu=30))
    tree.change_used(name, Resource(cpu=30))
    tree.change_request("a", Resource(cpu=100))

    assert cpu_runtimes(tree, "a") == [70]


def test_no_group_below_itself() -> None:
    """Both the rules and the tree refuse a group below itself."""
    quota = ElasticQuota(ElasticTree())
    quota.create(ElasticGroup("p", is_parent=True))
    with pytest.raises(GroupError):
        quota.update(ElasticGroup("p", "p", is_parent=True))
    with pytest.raises(GroupError):
        quota.tree.put(ElasticGroup("p", "p"))


def test_a_resource_the_parent_does_not_name() -> None:
    """A resource that a parent does not name is not shared below it: each child has its own maximum."""
    parent = ElasticGroup("p", max=Resource(cpu=9), is_parent=True)
    quota = ElasticQuota(
        ElasticTree(Resource(cpu=9, memory=9), [parent, ElasticGroup("a", "p", max=Resource(cpu=9, memory=4))])
    )

    assert quota.tree.runtime("a") == Resource(cpu=0)
    assert quota.check(Pod("x", Resource(memory=4), "a"))
    assert not quota.check(Pod("y", Resource(memory=5), "a"))


def test_a_dropped_resource_leaves_no_trace() -> None:
    """A resource that the maximum no longer names has no runtime, is not limited, and is not counted."""
    both = Resource(cpu=9, memory=9)
    quota = ElasticQuota(ElasticTree(both, [ElasticGroup("a", max=both)]))
    quota.adopt(Pod("x", both, "a"))
    quota.update(ElasticGroup("a", max=Resource(cpu=9)))

    assert quota.tree.runtime("a") == quota.tree.request(ROOT_GROUP) == quota.tree.used("a") == Resource(cpu=9)
    assert quota.check(Pod("y", Resource(memory=99), "a"))
    quota.update(ElasticGroup("a", max=both))
    assert quota.tree.used("a") == both


def test_default_group_is_held_to_its_maximum() -> None:
    """No group is unlimited because its runtime was not computed: the default group has a maximum."""
    quota = ElasticQuota(ElasticTree(Resource(cpu=100), [ElasticGroup(DEFAULT_GROUP, max=Resource(cpu=10))]))
    quota.adopt(Pod("x", Resource(cpu=8)))

    assert not quota.check(Pod("y", Resource(cpu=3)))
    quota.adopt(Pod("y", Resource(cpu=3)))
    assert [violation.name for violation in quota.over_used()] == [DEFAULT_GROUP]

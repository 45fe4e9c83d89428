"""Intended differences from Koordinator: one test for each row of the table in the documentation."""

from __future__ import annotations

import pytest

from support.elastic_fixtures import cpu_runtimes
from ugm import Resource
from ugm.elastic import (
    DEFAULT_GROUP,
    ROOT_GROUP,
    SYSTEM_GROUP,
    AdmissionRules,
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


def test_minimum_below_an_idle_parent() -> None:
    """A request within its minimum is granted, though its group has no weight and its parent is partly idle."""
    groups = [
        ElasticGroup("p", min=Resource(cpu=40), max=Resource(cpu=100), is_parent=True),
        ElasticGroup("a", "p", min=Resource(cpu=20), max=Resource(cpu=100), shared_weight=Resource(cpu=0, memory=1)),
        ElasticGroup("b", "p", min=Resource(cpu=20), max=Resource(cpu=100)),
    ]
    tree = ElasticTree(Resource(cpu=100), groups)
    tree.change_request("a", Resource(cpu=15))

    assert cpu_runtimes(tree, "p", "a", "b") == [15, 15, 0]


@pytest.mark.parametrize("requested", [39, 40, 50, 100])
def test_what_is_left_goes_to_minimums_without_weight(requested: int) -> None:
    """If minimums are scaled, a group that cannot borrow gets the part of its minimum that others leave."""
    groups = [
        ElasticGroup("a", min=Resource(cpu=40), max=Resource(cpu=100), shared_weight=Resource(cpu=0, memory=1)),
        ElasticGroup("b", min=Resource(cpu=50), max=Resource(cpu=100)),
        ElasticGroup("c", min=Resource(cpu=60), max=Resource(cpu=100)),
    ]
    tree = ElasticTree(Resource(cpu=100), groups)
    tree.change_request("a", Resource(cpu=requested))
    tree.change_request("b", Resource(cpu=61))

    assert cpu_runtimes(tree, "a", "b", "c") == [39, 61, 0]


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


def test_a_resource_is_not_lost_in_revoking() -> None:
    """A candidate without a request for memory does not hide the overuse of memory."""
    both = Resource(cpu=100, memory=100)
    quota = ElasticQuota(ElasticTree(both, [ElasticGroup("a", max=both)]))
    quota.adopt(Pod("cpu", Resource(cpu=60), "a", priority=1))
    quota.adopt(Pod("memory", Resource(cpu=10, memory=60), "a", priority=2))
    quota.tree.set_total(Resource(cpu=50, memory=20))

    assert quota.plan_revoke("a").victims == ("memory", "cpu")


def test_no_group_below_itself() -> None:
    """Both the rules and the tree refuse a group below itself."""
    quota = ElasticQuota(ElasticTree())
    quota.create(ElasticGroup("p", is_parent=True))
    with pytest.raises(GroupError):
        quota.update(ElasticGroup("p", "p", is_parent=True))
    with pytest.raises(GroupError):
        quota.tree.put(ElasticGroup("p", "p"))


def test_children_before_their_parent() -> None:
    """Groups may be given in any order, but a single group needs its parent."""
    tree = ElasticTree(
        Resource(cpu=9), [ElasticGroup("a", "p", max=Resource(cpu=9)), ElasticGroup("p", max=Resource(cpu=9))]
    )
    tree.change_request("a", Resource(cpu=5))
    assert cpu_runtimes(tree, "a") == [5]

    with pytest.raises(GroupError):
        tree.put(ElasticGroup("b", "q"))


def test_weights_of_any_size() -> None:
    """Weights with a sum beyond 64 bits work like others."""
    weight = Resource(cpu=2**62 + 2**61)
    tree = ElasticTree(
        Resource(cpu=9), [ElasticGroup(name, shared_weight=weight, max=Resource(cpu=9)) for name in "abc"]
    )
    for name in "abc":
        tree.change_request(name, Resource(cpu=9))

    assert cpu_runtimes(tree, "a", "b", "c") == [3, 3, 3]


def test_a_resource_the_parent_does_not_name() -> None:
    """A resource that a parent does not name is not shared below it: each child has its own maximum."""
    parent = ElasticGroup("p", max=Resource(cpu=9), is_parent=True)
    quota = ElasticQuota(
        ElasticTree(Resource(cpu=9, memory=9), [parent, ElasticGroup("a", "p", max=Resource(cpu=9, memory=4))])
    )

    assert quota.tree.runtime("a") == Resource(cpu=0)
    assert quota.check(Pod("x", Resource(memory=4), "a"))
    assert not quota.check(Pod("y", Resource(memory=5), "a"))


def test_resources_do_not_come_and_go() -> None:
    """The shares do not depend on which group named a resource first."""
    both = Resource(cpu=10, memory=10)
    one = ElasticTree(both, [ElasticGroup("a", max=Resource(cpu=10)), ElasticGroup("b", max=both)])
    one.put(ElasticGroup("a", max=both))
    other = ElasticTree(both, [ElasticGroup("a", max=both), ElasticGroup("b", max=both)])
    for tree in (one, other):
        tree.change_request("a", both)
        tree.change_request("b", both)

    assert [one.runtime(name) for name in "ab"] == [other.runtime(name) for name in "ab"]


def test_scaled_exactly() -> None:
    """Minimums of any size are scaled by exact division."""
    least = 2**53 + 1
    tree = ElasticTree(
        Resource(cpu=least), [ElasticGroup(name, min=Resource(cpu=least), max=Resource(cpu=2 * least)) for name in "ab"]
    )
    tree.change_request("a", Resource(cpu=2 * least))

    assert tree.scaled_min("a") == Resource(cpu=2**52)


def test_a_resource_the_cluster_does_not_have() -> None:
    """A cluster without a resource has none of it to guarantee."""
    tree = ElasticTree(Resource(memory=9), [ElasticGroup("a", min=Resource(cpu=5), max=Resource(cpu=9))])
    tree.change_request("a", Resource(cpu=9))

    assert cpu_runtimes(tree, "a") == [0]


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


@pytest.mark.parametrize("check_parents", [True, False])
def test_what_is_not_asked_for_does_not_deny(check_parents: bool) -> None:  # noqa: FBT001 - parametrized
    """A group that is over in one resource accepts pods that do not request it."""
    both = Resource(cpu=9, memory=9)
    tree = ElasticTree(both, [ElasticGroup("p", max=both), ElasticGroup("a", "p", max=both)])
    quota = ElasticQuota(tree, rules=AdmissionRules(check_parents=check_parents))
    quota.adopt(Pod("x", Resource(memory=9), "a"))
    quota.tree.set_total(Resource(cpu=9, memory=3))
    quota.expect(Pod("y", Resource(cpu=5, memory=0), "a"))

    assert quota.admit("y")
    assert quota.check(Pod("z", Resource(), "a"))


def test_first_reads_are_settled() -> None:
    """After the cluster has shrunk, the first read returns the same as every later read."""
    tree = ElasticTree(
        Resource(cpu=100), [ElasticGroup(name, min=Resource(cpu=50), max=Resource(cpu=100)) for name in "ab"]
    )
    for name in "ab":
        tree.change_request(name, Resource(cpu=100))
    assert cpu_runtimes(tree, "a", "b") == [50, 50]
    tree.set_total(Resource(cpu=60))

    assert cpu_runtimes(tree, "b") == cpu_runtimes(tree, "b") == [30]


def test_default_group_is_held_to_its_maximum() -> None:
    """No group is unlimited because its runtime was not computed: the default group has a maximum."""
    quota = ElasticQuota(ElasticTree(Resource(cpu=100), [ElasticGroup(DEFAULT_GROUP, max=Resource(cpu=10))]))
    quota.adopt(Pod("x", Resource(cpu=8)))

    assert not quota.check(Pod("y", Resource(cpu=3)))
    quota.adopt(Pod("y", Resource(cpu=3)))
    assert [violation.name for violation in quota.over_used()] == [DEFAULT_GROUP]


def test_order_does_not_matter_in_revoking() -> None:
    """Pods of equal priority and start are evicted in the order of arrival."""
    plans = set()
    for names in ("xyz", "xyz"):
        quota = ElasticQuota(ElasticTree(Resource(cpu=10), [ElasticGroup("a", max=Resource(cpu=30))]))
        for name in names:
            quota.adopt(Pod(name, Resource(cpu=10), "a", started=1))
        plans.add(quota.plan_revoke("a").victims)

    assert plans == {("y", "x")}

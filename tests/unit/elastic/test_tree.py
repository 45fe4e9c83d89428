"""The tree of elastic groups: structure, requests, reads, misuse."""

from __future__ import annotations

import pytest

from support.elastic_fixtures import cpu_runtimes, group
from ugm import RequestError, Resource
from ugm.elastic import DEFAULT_GROUP, ElasticTree, GroupError


@pytest.fixture(name="tree")
def _tree() -> ElasticTree:
    return ElasticTree(Resource(cpu=100), [group("p", least=40), group("a", "p", 20), group("b", "p", 20), group("c")])


def test_pods_on_a_parent() -> None:
    """Requests of pods in a parent group add to its request, and are not shared with the children."""
    tree = ElasticTree(Resource(cpu=100), [group("p"), group("a", "p")])
    tree.change_request("p", Resource(cpu=10))
    tree.change_request("a", Resource(cpu=5))

    assert tree.child_request("p") == Resource(cpu=15)
    assert cpu_runtimes(tree, "p", "a") == [15, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree.put(group("x", "y")), "elastic group 'x': there is no group 'y' [parent_not_found]"),
        (lambda tree: tree.put(group("p", "p")), "elastic group 'p': 'p' is the group itself, or below it [cycle]"),
        (lambda tree: tree.put(group("p", "a")), "elastic group 'p': 'a' is the group itself, or below it [cycle]"),
        (lambda tree: tree.drop("p"), "elastic group 'p': 'a' is below it [has_children]"),
        (lambda tree: tree.drop("x"), "elastic group 'x': there is no such group [not_found]"),
        (
            lambda tree: tree.drop(DEFAULT_GROUP),
            f"elastic group '{DEFAULT_GROUP}': a built-in group cannot be removed [forbidden_delete]",
        ),
        (lambda tree: tree.runtime("x"), "elastic group 'x': there is no such group [not_found]"),
    ],
)
def test_refused(tree: ElasticTree, change: object, message: str) -> None:
    """Groups that cannot form a tree are refused, and nothing has changed."""
    assert callable(change)
    groups = tree.groups
    with pytest.raises(GroupError) as caught:
        change(tree)

    assert str(caught.value) == message
    assert tree.groups == groups


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda tree: tree.change_request("a", Resource(cpu=-6)),
            "delta Resource(cpu=-6): the pods of 'a' would request -1 cpu, 0 of it non-preemptible",
        ),
        (
            lambda tree: tree.change_used("a", Resource(cpu=1), non_preemptible=Resource(cpu=2)),
            "delta Resource(cpu=1): the pods of 'a' would use 1 cpu, 2 of it non-preemptible",
        ),
        (
            lambda tree: tree.change_request("a", Resource(cpu=1), non_preemptible=Resource(memory=1)),
            "non_preemptible Resource(memory=1): expected a part of delta, with no other resources",
        ),
        (lambda tree: tree.set_total(Resource(cpu=-1)), "total Resource(cpu=-1): the amount of cpu is negative"),
    ],
)
def test_misuse(tree: ElasticTree, call: object, message: str) -> None:
    """Counts never become negative; a change with this effect is refused as a whole."""
    assert callable(call)
    tree.change_request("a", Resource(cpu=5))
    with pytest.raises(RequestError) as caught:
        call(tree)

    assert str(caught.value) == message
    assert tree.request("a") == Resource(cpu=5)
    assert tree.used("a") == Resource()


def test_groups_in_any_order() -> None:
    """Groups may be given children first."""
    tree = ElasticTree(Resource(cpu=10), [group("b", "a"), group("a", "p"), group("p")])

    assert [each.name for each in tree.groups] == ["p", "a", "b"]

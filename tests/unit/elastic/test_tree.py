"""The tree of elastic groups: structure, requests, reads, misuse."""

from __future__ import annotations

from operator import attrgetter

import pytest

from support.elastic_fixtures import cpu_runtimes, group
from ugm import RequestError, Resource
from ugm.elastic import ROOT_GROUP, ElasticGroup, ElasticTree, GroupError
from ugm.elastic.group import parents_first


@pytest.fixture(name="tree")
def _tree() -> ElasticTree:
    return ElasticTree(Resource(cpu=100), [group("p", least=40), group("a", "p", 20), group("b", "p", 20), group("c")])


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
            lambda tree: tree.change_used("a", Resource(cpu=1), non_preemptible=Resource(memory=1)),
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


def test_copy_is_independent(tree: ElasticTree) -> None:
    """A copy has the same state and is independent."""
    tree.change_request("a", Resource(cpu=9))
    tree.change_used("a", Resource(cpu=6), non_preemptible=Resource(cpu=4))
    twin = tree.copy()
    twin.change_request("a", Resource(cpu=1))

    assert (twin.groups, twin.total, twin.scale_min) == (tree.groups, tree.total, tree.scale_min)
    assert (twin.request("a"), tree.request("a")) == (Resource(cpu=10), Resource(cpu=9))
    assert twin.used(ROOT_GROUP) == Resource(cpu=6)
    twin.change_used("a", Resource(cpu=-4), non_preemptible=Resource(cpu=-4))


def test_groups_without_a_root() -> None:
    """Groups that form a cycle are refused."""
    rounds = [group("a", "b"), group("b", "a")]

    assert sorted(parents_first(rounds), key=attrgetter("name")) == rounds
    with pytest.raises(GroupError):
        ElasticTree(Resource(), rounds)


def test_what_is_said_of_the_root_has_no_effect(tree: ElasticTree) -> None:
    """The root has no limits."""
    tree.put(ElasticGroup(ROOT_GROUP, max=Resource(cpu=1)))

    assert tree.runtime(ROOT_GROUP) == Resource(cpu=100)
    assert tree.groups[0].name == ROOT_GROUP


def test_what_a_group_no_longer_requests_goes_to_others() -> None:
    """A group that now requests less than its share leaves the rest, also right after its share was computed."""
    tree = ElasticTree(Resource(cpu=8), [group("a"), group("b")])
    shares = []
    for name, delta in (("b", 14), ("a", 15), ("b", -11)):
        tree.change_request(name, Resource(cpu=delta))
        shares.append(cpu_runtimes(tree, "a", "b"))

    tree.set_total(Resource(cpu=1))
    shares.append(cpu_runtimes(tree, "a", "b"))

    assert shares == [[0, 8], [4, 4], [5, 3], [1, 0]]

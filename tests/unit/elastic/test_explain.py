"""Explanations, shortages, what-if analysis and the self-check."""

from __future__ import annotations

import json

import pytest

from ugm import InvariantError, RequestError, Resource, Violation
from ugm.elastic import (
    DEFAULT_GROUP,
    ROOT_GROUP,
    ElasticGroup,
    ElasticQuota,
    ElasticTree,
    Pod,
    RuntimeCap,
    explain,
    shortage,
    verify,
    what_if,
)

#: The worked example of the document.
EXAMPLE = {"A": (5, 10, 10), "B": (20, 15, 60), "C": (40, 20, 50), "D": (50, 15, 80)}


@pytest.fixture(name="tree")
def _tree() -> ElasticTree:
    tree = ElasticTree(Resource(cpu=100))
    for name, (requested, least, weight) in EXAMPLE.items():
        tree.put(ElasticGroup(name, "", Resource(cpu=least), Resource(cpu=100), Resource(cpu=weight)))
        tree.change_request(name, Resource(cpu=requested))
    return tree


def test_explanation_as_text(tree: ElasticTree) -> None:
    """The text of an explanation has the minimum, the lenders, every round, the borrowed amount and the cap."""
    assert str(explain(tree, "C", "cpu")).splitlines() == [
        "elastic group 'C' gets 35 cpu",
        "  requests 40; min 20, max 100, weight 50",
        "  'koordinator-root-quota' shares 100",
        "  'A' lends 5",
        "  round 1 divides 45 by a total weight of 190: gets 12",
        "  round 2 divides 9 by a total weight of 130: gets 3",
        "  borrows 15",
        "  limited by the shares of the other groups",
    ]


def test_explanation_as_values(tree: ElasticTree) -> None:
    """An explanation has the share of every group, and can be written as JSON."""
    explanation = explain(tree, "B", "cpu")
    data = json.loads(json.dumps(explanation.to_dict()))

    assert (explanation.share.borrowed, explanation.share.cap, explanation.unused) == (5, RuntimeCap.REQUEST, 0)
    assert [(share.group, share.runtime, share.lent) for share in explanation.lenders] == [("A", 5, 5)]
    assert data["shares"][3]["cap"] == "the shares of the other groups"
    assert data["rounds"][1] == {"left": 9, "weight": 130, "given": {"C": 3, "D": 6}}


@pytest.mark.parametrize(
    ("group", "requested", "total", "cap"),
    [
        (ElasticGroup("x", max=Resource(cpu=10)), 5, 50, RuntimeCap.REQUEST),
        (ElasticGroup("x", max=Resource(cpu=10)), 15, 50, RuntimeCap.MAX),
        (ElasticGroup("x", max=Resource(cpu=10)), 15, 5, RuntimeCap.OTHERS),
        (ElasticGroup("x", "", Resource(cpu=2), Resource(cpu=10), Resource(cpu=0, gpu=1)), 15, 50, RuntimeCap.WEIGHT),
        (ElasticGroup("x", "", Resource(cpu=2), Resource(cpu=10), allow_lent=False), 0, 50, RuntimeCap.NOT_LENT),
    ],
)
def test_caps(group: ElasticGroup, requested: int, total: int, cap: RuntimeCap) -> None:
    """An explanation has the reason why the group does not get more."""
    tree = ElasticTree(Resource(cpu=total), [group])
    tree.change_request("x", Resource(cpu=requested))

    assert explain(tree, "x", "cpu").share.cap is cap


def test_explanation_of_a_scaled_minimum() -> None:
    """An explanation has the scaled minimum."""
    tree = ElasticTree(Resource(cpu=10), [ElasticGroup(name, "", Resource(cpu=20), Resource(cpu=90)) for name in "ab"])
    for name in "ab":
        tree.change_request(name, Resource(cpu=30))

    line = "  min scaled down to 5, because the minimums exceed the available amount"
    assert line in str(explain(tree, "a", "cpu")).splitlines()


@pytest.mark.parametrize("group", [ROOT_GROUP, DEFAULT_GROUP, "A"])
def test_nothing_to_explain(tree: ElasticTree, group: str) -> None:
    """There is no explanation for a resource that is not shared with the group."""
    with pytest.raises(RequestError) as caught:
        explain(tree, group, "memory")

    assert str(caught.value) == f"resource 'memory': it is not shared with {group!r}"


def test_shortage_names_borrowers() -> None:
    """A shortage has the group, the resource, the missing amount, and the borrowers, largest first."""
    names = ("p", "q", "r")
    groups = [ElasticGroup(name, "", Resource(cpu=20), Resource(cpu=100)) for name in names]
    quota = ElasticQuota(ElasticTree(Resource(cpu=60), [*groups, ElasticGroup("p1", "p", max=Resource(cpu=100))]))
    quota.adopt(Pod("q-1", Resource(cpu=25), "q"))
    quota.adopt(Pod("r-1", Resource(cpu=35), "r"))
    quota.expect(Pod("p-1", Resource(cpu=30), "p1"))
    violation = quota.admit("p-1").violations[0]
    lack = shortage(quota.tree, violation)

    assert lack.borrowers == (("r", 15), ("q", 5))
    assert str(lack) == "elastic group 'p1': 10 cpu missing; 'r' borrows 15; 'q' borrows 5"


def test_shortage_of_firm_pods() -> None:
    """A shortage of a non-preemptible pod has no borrowers: the minimum of its group is too small."""
    quota = ElasticQuota(ElasticTree(Resource(cpu=60), [ElasticGroup("a", "", Resource(cpu=5), Resource(cpu=60))]))
    quota.expect(Pod("p", Resource(cpu=6), "a", preemptible=False))

    assert (
        shortage(quota.tree, quota.check(Pod("p", Resource(cpu=6), "a", preemptible=False)).violations[0]).borrowers
        == ()
    )


def test_shortage_of_something_else(tree: ElasticTree) -> None:
    """A limit on applications is not one of elastic groups."""
    with pytest.raises(RequestError, match="expected a violation of an elastic group"):
        shortage(tree, Violation("user", "sue", "root", "sue", None, 1, 1, 1))
    with pytest.raises(RequestError, match="expected a violation of an elastic group"):
        shortage(tree, Violation("user", "A", "root", "A", "cpu", 1, 1, 1))


def test_what_if_leaves_the_tree_alone(tree: ElasticTree) -> None:
    """A what-if analysis with another total, other requests or other groups changes nothing."""
    before = {group.name: tree.runtime(group.name) for group in tree.groups}
    smaller = {change.group: change.after for change in what_if(tree, total=Resource(cpu=91))}
    assert smaller == {"C": Resource(cpu=32), "D": Resource(cpu=34)}

    other = what_if(tree, put=[ElasticGroup("E", max=Resource(cpu=9))], drop=["D"], requests={"E": Resource(cpu=9)})
    assert [(change.group, change.before, change.after) for change in other] == [
        ("C", Resource(cpu=35), Resource(cpu=40)),
        ("D", Resource(cpu=40), None),
        ("E", None, Resource(cpu=9)),
    ]
    assert {group.name: tree.runtime(group.name) for group in tree.groups} == before


def test_what_if_firm_pods_ask_for_less(tree: ElasticTree) -> None:
    """A what-if request also reduces that of non-preemptible pods; the live tree does not change."""
    tree.put(ElasticGroup("E", min=Resource(cpu=9), max=Resource(cpu=9)))
    tree.change_request("E", Resource(cpu=5), non_preemptible=Resource(cpu=4))

    assert [change.after for change in what_if(tree, requests={"E": Resource(cpu=3)}) if change.group == "E"] == [
        Resource(cpu=3)
    ]
    assert tree.non_preemptible_request("E") == Resource(cpu=4)


def test_verify_finds_damage(tree: ElasticTree) -> None:
    """The self-check reports every sum that does not agree with the groups."""
    verify(tree)
    tree.nodes["C"].resources["cpu"].used = 3
    tree.root.resources["cpu"].shares.mins = 7
    tree.root.resources["cpu"].max -= 1
    with pytest.raises(InvariantError) as caught:
        verify(tree)

    assert caught.value.findings == (
        f"elastic group '{ROOT_GROUP}', cpu: amount to share is 99, expected 100",
        f"elastic group '{ROOT_GROUP}', cpu: usage is 0, expected 3",
        f"elastic group '{ROOT_GROUP}', cpu: minimum of children is 7, expected 60",
        "elastic group 'C', cpu: usage is 3, expected 0",
    )


def test_verify_finds_a_lost_group(tree: ElasticTree) -> None:
    """The self-check reports a group that its parent does not list, and one that no longer shares."""
    tree.root.resources["cpu"].shares.remove(tree.nodes["D"].resources["cpu"])
    del tree.root.children["A"]
    with pytest.raises(InvariantError) as caught:
        verify(tree)

    assert f"elastic group 'A' is not listed below '{ROOT_GROUP}'" in caught.value.findings
    assert (
        f"elastic group '{ROOT_GROUP}', cpu: the groups that share differ from those below it" in caught.value.findings
    )


def test_verify_finds_a_wrong_runtime(tree: ElasticTree) -> None:
    """The self-check reports sums that lead to a wrong runtime."""
    tree.root.resources["cpu"].shares.floors -= 1
    with pytest.raises(InvariantError, match="runtime"):
        verify(tree)

"""The rules for changes of groups: every refusal with its message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticQuota, ElasticTree, GroupError, Pod
from ugm.elastic.runtime import ResourceNode
from ugm.elastic.tree import GroupNode

MOST = Resource(vcore=100_000, memory=2**30)
HALF = Resource(vcore=50_000)

DEPARTMENT = ElasticGroup("dept", min=HALF, max=MOST, is_parent=True)
TEAM = ElasticGroup("team", "dept", Resource(vcore=20_000), MOST, namespaces=("research",))


@pytest.fixture(name="quota")
def _quota() -> ElasticQuota:
    quota = ElasticQuota(ElasticTree(MOST))
    quota.create(DEPARTMENT)
    quota.create(TEAM)
    return quota


SIBLINGS = "the minimums of the group and its siblings"


def refused(call: Callable[[Any], object], given: ElasticGroup | Pod | str) -> list[str]:
    """Return the reasons of a refused call without the name of the group, with which each begins."""
    name = given if isinstance(given, str) else given.group if isinstance(given, Pod) else given.name
    with pytest.raises(GroupError) as caught:
        call(given)
    texts = [str(refusal) for refusal in caught.value.refusals]
    assert all(text.startswith(f"elastic group {name!r}: ") for text in texts)
    return [text.partition(": ")[2] for text in texts]


@pytest.mark.parametrize(
    ("group", "reasons"),
    [
        (TEAM, ["there is already a group of this name [already_exists]"]),
        (replace(TEAM, name="x", parent="y"), ["there is no group 'y' [parent_not_found]"]),
        (
            replace(TEAM, name="x", parent="team", namespaces=()),
            ["'team' is not marked as a parent [parent_is_not_parent]"],
        ),
        (replace(TEAM, name="x"), ["namespace 'research' is already listed by 'team' [namespace_bound]"]),
        (
            ElasticGroup("x", "dept", Resource(vcore=30_001), MOST),
            [f"{SIBLINGS} add up to 50001m vcore, above min 50 of 'dept' [siblings_min_exceeds_parent_min]"],
        ),
        (
            ElasticGroup("x", "dept", Resource(memory=1), Resource(memory=5)),
            [
                "max of 'dept' names other resources [max_keys_mismatch]",
                "min names resources that min of 'dept' does not name [min_keys_not_in_parent]",
                f"{SIBLINGS} add up to 1 memory, above min 0 of 'dept' [siblings_min_exceeds_parent_min]",
            ],
        ),
        (
            ElasticGroup("x", "dept", tree_id="t", max=MOST),
            ["'dept' belongs to another tree [tree_id_parent_mismatch]"],
        ),
    ],
)
def test_create_refused(quota: ElasticQuota, group: ElasticGroup, reasons: list[str]) -> None:
    """A new group that violates rules is refused with all of them, in their order."""
    assert refused(quota.create, group) == reasons
    assert quota.tree.groups == (DEPARTMENT, quota.tree.node("team").group)


def test_amounts_refused(quota: ElasticQuota) -> None:
    """All amounts are checked, also of a group directly below the root."""
    group = ElasticGroup(
        "x",
        min=Resource(vcore=2000, memory=-1, gpu=1),
        max=Resource(vcore=1000, memory=-2),
        shared_weight=Resource(vcore=-3),
        strict_max=("vcore", "gpu"),
        reported_used=Resource(vcore=1500, gpu=1, memory=7),
    )

    assert refused(quota.create, group) == [
        "max of memory is negative [negative_max]",
        "min of memory is negative [negative_min]",
        "shared_weight of memory is negative [negative_shared_weight]",
        "shared_weight of vcore is negative [negative_shared_weight]",
        "min names gpu, but max does not [min_key_not_in_max]",
        "min of memory is -1, above max -2 [min_exceeds_max]",
        "min of vcore is 2, above max 1 [min_exceeds_max]",
        "1 gpu is used, but max does not name it [max_below_used]",
        "1500m vcore is used, above max 1 [max_below_used]",
    ]


def test_long_chain_below_its_own_end(quota: ElasticQuota) -> None:
    """The levels of a group are not counted twice when it would be moved below itself."""
    chain = [ElasticGroup(f"g{number}", parent=f"g{number - 1}", is_parent=True) for number in range(1, 61)]
    for group in (ElasticGroup("g0", is_parent=True), *chain):
        quota.create(group)

    messages = refused(quota.update, ElasticGroup("g0", parent="g60", is_parent=True))
    assert messages == ["'g60' is the group itself, or below it [cycle]"]


def test_change_does_not_read_the_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new group costs no time for each of its siblings, and no walk to the root if it has no usage."""

    class Unread(dict[str, GroupNode]):
        def __iter__(self) -> Any:  # noqa: ANN401 - never returns
            raise AssertionError

        keys = values = items = copy = __iter__

    quota = ElasticQuota(ElasticTree(MOST))
    quota.create(DEPARTMENT)
    above = quota.tree.node("dept")
    above.children = Unread()
    monkeypatch.setattr(ResourceNode, "pass_usage_up", Unread.__iter__)
    quota.create(TEAM)
    quota.create(replace(TEAM, name="other", namespaces=()))
    assert len(above.children) == 2


def test_group_with_pods_becomes_no_parent(quota: ElasticQuota) -> None:
    """A group with pods, by name or by namespace, cannot become a parent; an idle one can."""
    quota.expect(Pod("p", HALF, namespace="research"))
    messages = refused(quota.update, replace(TEAM, is_parent=True))
    assert messages == ["there are pods in the group [is_parent_with_pods]"]

    quota.forget("p")
    quota.update(replace(TEAM, is_parent=True))
    assert refused(quota.expect, Pod("p", HALF, "team")) == [
        "the group is marked as a parent and accepts no pods [pod_on_parent_quota]"
    ]

"""Quota models that the configuration of a partition declares."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from support.declared_models import BY_QUEUE, ELASTIC, GROUPS, NODES, TREE, declaring
from support.partition_fixtures import Licences
from ugm import Partition, RequestError, Resource, UserGroup, Violation, parse_config
from ugm.configuration import ElasticConfig, ElasticGroup, GroupSource, QuotaTreeConfig

SUE: Final = UserGroup("sue", ("physics",))


def used(partition: Partition, **amounts: int) -> Partition:
    """Return a partition with an allocation in some queues."""
    for queue, amount in amounts.items():
        partition.submit(queue, SUE, f"root.{queue}")
        assert partition.allocate(f"{queue}-0", queue, Resource(gpu=amount))
    return partition


def kinds(violations: tuple[Violation, ...]) -> list[tuple[str, str, int, int]]:
    """Return the kind, name, limit and usage of exceeded limits."""
    return [(one.kind, one.name, one.limit, one.used) for one in violations]


def test_invalid_models_change_nothing() -> None:
    """A configuration with a model that cannot be made is refused, and the one in force stays."""
    partition = used(Partition(declaring(elastic=ELASTIC), cluster=Resource(gpu=10)), a=3)
    broken = ElasticConfig(groups=(ElasticGroup("a", min=Resource(gpu=4), max=Resource(gpu=2)),))

    for wrong in (declaring(elastic=broken), declaring(TREE, TREE), declaring(QuotaTreeConfig())):
        with pytest.raises(RequestError, match="config"):
            partition.configure(wrong)
        with pytest.raises(RequestError, match="config"):
            Partition(wrong)
    assert partition.config == declaring(elastic=ELASTIC)
    partition.verify()


def test_groups_share_the_nodes() -> None:
    """Without a total, elastic groups share the sum of the nodes; before the first node, only maximums limit."""
    partition = used(Partition(declaring(elastic=ELASTIC)), a=8)
    assert not partition.allocate("a-1", "a", Resource(gpu=1))

    partition.add_node("n", Resource(gpu=6))
    assert kinds(partition.exceeded_limits()) == [("queue", "root", 6, 8), ("elastic group", "a", 6, 8)]
    partition.remove_node("n")
    assert kinds(partition.exceeded_limits())[1:] == [("elastic group", "a", 0, 8)]
    partition.configure(declaring(elastic=replace(ELASTIC, ignore_runtime=True)))
    assert kinds(partition.exceeded_limits())[1:] == []
    partition.add_node("n", Resource(gpu=7))
    partition.configure(declaring(elastic=ELASTIC))
    assert kinds(partition.exceeded_limits())[1:] == [("elastic group", "a", 7, 8)]
    partition.verify()


@pytest.mark.parametrize(
    ("sources", "allowed"),
    [
        ([GroupSource(source="tag", tag="team")], {"tagged": True, "plain": False, "misspelt": False}),
        ([GroupSource(source="tag", tag="team"), BY_QUEUE[0]], {"tagged": True, "plain": True, "misspelt": False}),
        ([GroupSource(source="user", names={"sue": "a"})], {"tagged": True, "plain": True, "misspelt": True}),
        ([GroupSource(source="group", names={"physics": "a"})], {"tagged": True, "plain": True, "misspelt": True}),
        ([GroupSource(source="group")], {"tagged": False, "plain": False, "misspelt": False}),
        ([GroupSource(source="queue", names={"root": "b"})], {"tagged": True, "plain": True, "misspelt": True}),
        ([GroupSource(source="namespace")], {"tagged": True, "plain": False, "misspelt": False}),
        ([GroupSource(source="namespace", names={"x": "a"})], {"tagged": False, "plain": False, "misspelt": False}),
        ([GroupSource(source="namespace"), BY_QUEUE[0]], {"tagged": True, "plain": True, "misspelt": True}),
    ],
)
def test_sources(sources: list[GroupSource], allowed: dict[str, bool]) -> None:
    """The first source with a name decides, even if there is no such group; without a name, the request is denied."""
    groups = (replace(GROUPS[0], namespaces=("vision",)), GROUPS[1])
    partition = Partition(declaring(elastic=ElasticConfig(groups=groups, group_by=tuple(sources))))
    tags = {"tagged": {"team": "b", "namespace": "vision"}, "plain": {}, "misspelt": {"team": "B", "namespace": "y"}}
    found = {}
    for name, own in tags.items():
        partition.submit(name, SUE, "root.a", tags=own)
        found[name] = partition.allocate(name, name, Resource(gpu=1)).allowed

    assert found == allowed


def test_models_of_the_program_follow() -> None:
    """Models of the program come after declared ones, and only these can be replaced by the program."""
    own, beside = Licences(1), Licences(1)
    partition = Partition(declaring(elastic=ELASTIC), models=[own, beside])
    declared = partition._models.all[0]

    assert partition._models.all[1] is own
    with pytest.raises(RequestError, match=r"^old .*declares"):
        partition.replace_model(declared, Licences(1))
    other = Licences(1)
    partition.replace_model(own, other)
    assert partition._models.all == (declared, other, beside)
    with pytest.raises(RequestError, match="already a model") as refused:
        partition.replace_model(other, beside)
    assert refused.value.code == "id-in-use"
    with pytest.raises(RequestError, match=r"^old .*: expected one of the models of the partition"):
        partition.replace_model(own, other)


@pytest.mark.parametrize("forest", ["", "f"])
def test_trees_without_a_group(forest: str) -> None:
    """A request without a group is denied, unless the tree, or all trees of its forest, are unrestricted."""
    for unrestricted in (False, True):
        tree = replace(
            TREE, forest=forest, unrestricted=unrestricted, group_by=(GroupSource(source="tag", tag="team"),)
        )
        partition = Partition(declaring(tree))
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("1", "app", Resource(gpu=99)).allowed is unrestricted


def test_gangs_that_never_fit() -> None:
    """Members that never fit a quota together are denied for good with their sum, whatever is used now."""
    partition = used(Partition(declaring(TREE)), b=1)
    decision = partition.allocate_all([(name, "b", Resource(gpu=2)) for name in ("x", "y")])

    assert [(one.name, one.limit, one.used, one.requested) for one in decision.violations] == [("b", 3, 0, 4)]
    assert not decision.can_wait


def test_changes_of_models() -> None:
    """The comparison of configurations lists changed groups and nodes with their properties."""
    groups = (GROUPS[0], replace(GROUPS[1], max=Resource(gpu=6)), ElasticGroup("c"))
    nodes = (NODES[0], replace(NODES[1], quota={"gpu": 4}), NODES[2])
    tree = replace(TREE, tree=replace(TREE.tree, nodes=nodes), default_group="a")
    changes = (
        Partition(declaring(TREE, elastic=ELASTIC))
        .plan(declaring(tree, elastic=replace(ELASTIC, groups=groups)))
        .changes
    )

    assert str(changes).splitlines() == [
        "~ elastic group 'b': max gpu 8 -> 6",
        "~ settings 'quota tree t': defaultgroup none -> a",
        "~ quota node 't/a': quota gpu 3 -> 4",
        "+ elastic group 'c'",
    ]


DENYING = {
    "quota tree": """
    quotatrees: [{tree: {kind: QuotaTree, metadata: {name: t}, spec: {resourceNames: [vcore, gpu], nodes: {
      all: {parent: nil, quota: {vcore: "4", gpu: "2"}}, p: {parent: all, quota: {vcore: "4", gpu: "2"}}}}},
      groupby: [{source: queue, names: {root.p: p}}]}]""",
    "elastic groups": """
    elastic: {total: {vcore: 4, gpu: 2}, groups: [{name: p, max: {vcore: 4, gpu: 2}}],
      groupby: [{source: queue, names: {root.p: p}}]}""",
}


@pytest.mark.parametrize("model", DENYING.values(), ids=DENYING.keys())
def test_headroom_without_a_group(model: str) -> None:
    """Without a group, nothing of any limited resource may be requested."""
    config = parse_config("partitions: [{queues: [{name: p}, {name: q}], ugm: {%s}}]" % model)  # noqa: UP031 - braces
    partition = Partition(config.partition())
    partition.submit("grouped", UserGroup("ana"), "root.p")
    partition.submit("without", UserGroup("ana"), "root.q")

    assert partition.headroom("grouped") == Resource(vcore=4000, gpu=2)
    headroom = partition.headroom("without")
    assert headroom is not None
    assert headroom.without_zeros() == Resource()
    assert {"gpu", "vcore"} <= headroom.keys()
    assert not Resource(gpu=1).fits_in(headroom)


PARENT = """
partitions:
- queues: [{name: q}]
  ugm:
    elastic:
      total: {gpu: 8}
      %s
      groups:
      - {name: top, isparent: true, allowlent: false, min: {gpu: 2}, max: {gpu: 2}}
      - {name: ana, parent: top, min: {gpu: 1}, max: {gpu: 2}}
      - {name: bob, parent: top, min: {gpu: 1}, max: {gpu: 2}}
      groupby: [{source: user}]
"""


@pytest.mark.parametrize(("key", "used"), [("", 2), ("checkparents: true", 2), ("checkparents: false", 3)])
def test_maximum_of_a_parent(key: str, used: int) -> None:
    """Groups use no more than the maximum of their parent together, unless the configuration says otherwise."""
    partition = Partition(parse_config(PARENT % key).partition())
    for name in ("ana", "bob"):
        partition.submit(name, UserGroup(name), "root.q")

    granted = [partition.allocate(f"ana-{number}", "ana", Resource(gpu=1)).allowed for number in range(3)]
    granted.append(partition.allocate("bob-0", "bob", Resource(gpu=1)).allowed)
    assert sum(granted) == used

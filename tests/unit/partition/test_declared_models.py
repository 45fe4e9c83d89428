"""Quota models that the configuration of a partition declares."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from support.declared_models import BY_QUEUE, ELASTIC, GROUPS, NODES, TREE, declaring
from ugm import Claim, Partition, RequestError, Resource, UserGroup, Violation, parse_config
from ugm.configuration import (
    ElasticConfig,
    ElasticGroupConfig,
    GroupSource,
    PartitionConfig,
    QuotaNodeConfig,
    QuotaTreeConfig,
    QuotaTreeDocument,
)
from ugm.elastic import ElasticModel
from ugm.fairness import FairShares
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.config.plan import make_config_plan

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


def test_all_models_decide() -> None:
    """A request is granted only if all declared models agree, and a denial has the limits of all."""
    partition = used(Partition(declaring(TREE, elastic=ELASTIC), cluster=Resource(gpu=10)), a=5)

    assert kinds(partition.allocate("b-0", "a", Resource(gpu=4)).violations) == [
        ("elastic group", "a", 8, 5),
        ("quota node", "a", 3, 0),
        ("quota node", "root", 8, 5),
    ]
    partition.verify()


def test_models_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition uses the models that were made to check its configuration, and makes none for equal definitions."""
    made: list[ElasticModel] = []
    declared = ElasticModel.declared

    def make(config: ElasticConfig) -> ElasticModel:
        made.append(declared(config))
        return made[-1]

    monkeypatch.setattr(ElasticModel, "declared", make)
    partition = Partition(declaring(elastic=ELASTIC))
    assert len(made) == 1
    partition.configure(declaring(elastic=ELASTIC))
    assert len(made) == 2
    partition.submit("a", SUE, "root.a")
    assert partition.allocate("a-0", "a", Resource(gpu=1))
    assert [model.quota.has_pod("a-0") for model in made] == [True, False]


def test_models_carry_usage_over() -> None:
    """Models that a new configuration declares begin with the present usage, also of pending allocations."""
    partition = used(Partition(declaring(), cluster=Resource(gpu=10)), a=6)
    partition.submit("b", SUE, "root.b")
    partition.request("b-0", "b", Resource(gpu=4))

    partition.configure(declaring(TREE, elastic=ELASTIC))

    partition.verify()
    assert kinds(partition.allocate("a-1", "a", Resource(gpu=1)).violations) == [("elastic group", "a", 6, 6)]
    partition.configure(declaring())
    assert partition.allocate("a-1", "a", Resource(gpu=1))
    partition.verify()


def test_unchanged_models_stay() -> None:
    """A model whose definition is the same is not made again."""
    partition = Partition(declaring(TREE, elastic=ELASTIC))
    elastic, tree = partition._models.all

    partition.configure(declaring(replace(TREE, default_group="a"), elastic=ELASTIC))

    assert partition._models.all[0] is elastic
    assert partition._models.all[1] is not tree


def test_invalid_models_change_nothing() -> None:
    """A configuration with a model that cannot be made is refused, and the one in force stays."""
    partition = used(Partition(declaring(elastic=ELASTIC), cluster=Resource(gpu=10)), a=3)
    broken = ElasticConfig(groups=(ElasticGroupConfig("a", min=Resource(gpu=4), max=Resource(gpu=2)),))

    for wrong in (declaring(elastic=broken), declaring(TREE, TREE), declaring(QuotaTreeConfig())):
        with pytest.raises(RequestError, match="config"):
            partition.configure(wrong)
        with pytest.raises(RequestError, match="config"):
            Partition(wrong)
    assert partition.config == declaring(elastic=ELASTIC)
    partition.verify()


class Unwilling:
    """A model that is asked about the cluster, and raises for some sizes."""

    def check(self, claim: Claim) -> Iterator[Violation]:  # noqa: ARG002 - as declared
        """Allow everything."""
        return iter(())

    def charge(self, claim: Claim) -> None:
        """Count nothing."""

    def refund(self, claim: Claim) -> None:
        """Count nothing."""

    def set_cluster(self, total: Resource | None) -> None:
        """Refuse a cluster of 13."""
        if total == Resource(gpu=13):
            raise ArithmeticError


def test_failed_changes_leave_the_models() -> None:
    """If a change of the nodes fails in one model, the others have the size of before."""
    partition = Partition(declaring(elastic=ELASTIC), cluster=Resource(gpu=10), models=[Unwilling()])

    with pytest.raises(ArithmeticError):
        partition.update_node("cluster", Resource(gpu=13))

    assert partition.nodes() == {"cluster": Resource(gpu=10)}
    assert partition.model_reports()[0].state["total"] == {"gpu": 10}


def test_groups_share_the_nodes() -> None:
    """Without a total, elastic groups share the sum of the nodes; before the first node, only maximums limit."""
    partition = used(Partition(declaring(elastic=ELASTIC)), a=8)
    assert not partition.allocate("a-1", "a", Resource(gpu=1))

    partition.add_node("n", Resource(gpu=6))
    assert kinds(partition.exceeded_limits()) == [("queue", "root", 6, 8), ("elastic group", "a", 6, 8)]
    partition.remove_node("n")
    assert kinds(partition.exceeded_limits())[1:] == [("elastic group", "a", 0, 8)]
    partition.verify()


def test_a_total_is_fixed() -> None:
    """With a total, nodes do not change the amounts to share."""
    elastic = replace(ELASTIC, total=Resource(gpu=5))
    partition = Partition(declaring(elastic=elastic), cluster=Resource(gpu=100))
    partition.submit("a", SUE, "root.a")

    assert not partition.allocate("a-0", "a", Resource(gpu=6))


def test_removed_leaves() -> None:
    """An allocation whose leaf is removed is held at the root, and released as usual."""
    partition = used(Partition(declaring(TREE)), a=2)
    without = replace(TREE, tree=replace(TREE.tree, nodes=(NODES[0], NODES[2])))

    partition.configure(declaring(without))

    partition.verify()
    assert partition.model_reports()[0].state["trees"][0]["nodes"][0]["allocated"] == {"gpu": 2}
    assert partition.release("a-0")
    partition.verify()


def test_forests() -> None:
    """The trees of a forest are one model, which limits a claim in each tree that has a leaf for it."""
    users = QuotaTreeDocument("users", resources=("gpu",), nodes=(QuotaNodeConfig("sue", quota={"gpu": 4}),))
    by_user = QuotaTreeConfig(
        tree=users, forest="f", group_by=(GroupSource(source="user", names={"sue": "sue"}),), unrestricted=True
    )
    partition = used(Partition(declaring(replace(TREE, forest="f"), by_user)), a=4)

    assert len(partition.model_reports()) == 1
    assert kinds(partition.allocate("a-1", "a", Resource(gpu=1)).violations) == [("quota node", "sue", 4, 4)]
    partition.submit("z", UserGroup("zoe"), "root.a")
    assert partition.allocate("z-0", "z", Resource(gpu=4))
    assert not partition.allocate("z-1", "z", Resource(gpu=1))


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
    own = Unwilling()
    partition = Partition(declaring(elastic=ELASTIC), models=[own])
    declared = partition._models.all[0]

    assert partition._models.all[1] is own
    with pytest.raises(RequestError, match="declares"):
        partition.replace_model(declared, Unwilling())
    other = Unwilling()
    partition.replace_model(own, other)
    assert partition._models.all == (declared, other)


def test_shares_of_unknown_state_are_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fair shares that replace suspended ones are charged with the ledger, and take over nothing."""

    def sharing(shares: int) -> PartitionConfig:
        ugm = f"{{fairshare: {{users: {{sue: {shares}}}, weights: {{gpu: 1}}}}}}"
        return parse_config(f"partitions: [{{queues: [{{name: a}}], ugm: {ugm}}}]").partition()

    def charge_and_raise(model: FairShares, claim: Claim) -> None:
        model.usage.add_use(claim.user.name, claim.usage, model.now)
        raise OSError

    def raise_instead(_: FairShares) -> None:
        raise OSError

    partition = used(Partition(sharing(1), clock=lambda: 1000), a=1)
    with monkeypatch.context() as broken:
        broken.setattr(FairShares, "charge", charge_and_raise)
        broken.setattr(FairShares, "reset", raise_instead)
        with pytest.raises(OSError):  # noqa: PT011 - the error has no text
            partition.allocate("a-1", "a", Resource(gpu=1))
        assert [one.name for one in partition.allocate("a-1", "a", Resource(gpu=1)).violations] == ["FairShares"]
    partition.configure(sharing(2))

    partition.verify()
    assert partition.allocate("a-1", "a", Resource(gpu=1))


@pytest.mark.parametrize("before", [declaring(), declaring(TREE, elastic=ELASTIC), declaring(elastic=ELASTIC)])
@pytest.mark.parametrize(
    "after",
    [
        declaring(),
        declaring(TREE),
        declaring(elastic=replace(ELASTIC, total=Resource(gpu=6))),
        declaring(TREE, elastic=ELASTIC),
    ],
)
def test_plans_are_right(before: PartitionConfig, after: PartitionConfig) -> None:
    """What a plan says about models is what holds after it was applied, also if another process makes the plan."""
    partition = used(Partition(before, cluster=Resource(gpu=10)), a=5, b=3)
    partition.submit("c", SUE, "root.b")
    partition.request("c-0", "c", Resource(gpu=2))

    plan = partition.plan(after)
    copied = partition.plan_input()
    received = pickle.loads(pickle.dumps(copied))  # noqa: S301 - written by this test
    elsewhere = make_config_plan(received, CompiledConfig.of(after))
    assert plan.to_dict() == elsewhere.to_dict()
    partition.apply(plan, confirm=True)

    assert partition.exceeded_limits() == plan.exceeded == elsewhere.exceeded
    assert bool(plan.changes) is (before != after)
    partition.verify()


EXTENSIONS = {
    "budgets": "budgets: [{name: b, user: sue, amounts: {gpu: %d}, unit: hour, period: day, mode: admit}]",
    "elastic": (
        "elastic: {total: {gpu: 9}, groups: [{name: a, min: {gpu: 1}, max: {gpu: %d}}], groupby: [{source: queue}]}"
    ),
    "trees": (
        "quotatrees: [{tree: {kind: QuotaTree, metadata: {name: t}, spec: {resourceNames: [gpu], nodes:"
        " {a: {parent: nil, hard: 'true', quota: {gpu: '%d'}}}}}, groupby: [{source: queue}]}]"
    ),
    "thresholds": "thresholds: {shares: [%d0]}",
    "fair shares": "fairshare: {defaultshares: %d, halflife: 60}",
    "all budgets": (
        "elastic: {total: {gpu: 9}, groups: [{name: a, min: {gpu: 1}, max: {gpu: 9}}], groupby: [{source: queue}]},"
        " budgets: [{name: b, elasticgroup: a, amounts: {gpu: %d}, unit: hour, period: day, mode: admit}]"
    ),
}


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 6), (5, 0), (5, 5)])
def test_plans_can_be_pickled(name: str, before: int, after: int) -> None:
    """A plan that was sent to another process and back is applied, or refused if it is outdated."""

    def configured(number: int, most: int = 7) -> PartitionConfig:
        extension = EXTENSIONS[name] % number if number else ""
        queues = f"[{{name: a, resources: {{max: {{gpu: {most}}}}}}}]"
        return parse_config(f"partitions: [{{queues: {queues}, ugm: {{{extension}}}}}]").partition()

    def started() -> Partition:
        return used(Partition(configured(before), clock=lambda: 1000), a=2)

    plan = started().plan(configured(after, most=8))
    received = pickle.loads(pickle.dumps(plan))  # noqa: S301 - written by this test

    assert received.to_dict() == plan.to_dict()
    sides = started(), started()
    for partition, one in zip(sides, (plan, received), strict=True):
        partition.apply(one, confirm=True)
        assert partition.allocate("a-1", "a", Resource(gpu=1), duration=60)
        partition.verify()
    assert [report.state for report in sides[0].model_reports()] == [
        report.state for report in sides[1].model_reports()
    ]
    sides[0].configure(configured(0, most=9))
    with pytest.raises(RequestError, match="made for a different configuration"):
        sides[0].apply(received, confirm=True)


def test_changes_of_models() -> None:
    """The comparison of configurations lists changed groups and nodes with their properties."""
    groups = (GROUPS[0], replace(GROUPS[1], max=Resource(gpu=6)), ElasticGroupConfig("c"))
    tree = replace(TREE, default_group="a")
    changes = (
        Partition(declaring(TREE, elastic=ELASTIC))
        .plan(declaring(tree, elastic=replace(ELASTIC, groups=groups)))
        .changes
    )

    assert str(changes).splitlines() == [
        "~ elastic group 'b': max gpu 8 -> 6",
        "~ settings 'quota tree t': defaultgroup none -> a",
        "+ elastic group 'c'",
    ]


def test_versions_of_equal_configurations() -> None:
    """Equal configurations have one version, whether a weight is an integer or not."""
    one, same = (
        replace(declaring(), node_sort_policy=replace(declaring().node_sort_policy, resource_weights={"gpu": weight}))
        for weight in (1, 1.0)
    )

    assert one == same
    assert CompiledConfig.of(one).version == CompiledConfig.of(same).version

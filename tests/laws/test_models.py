"""Laws of the answers of a partition with an elastic quota, a quota tree and a model that reports nothing."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.elastic_strategies import trees
from support.examples import examples
from support.loopback import remote
from support.partition_fixtures import SUE, Licences, config
from support.quotatree_fixtures import tree_model
from support.quotatree_strategies import documents
from ugm import Claim, Partition, Resource
from ugm.elastic import AdmissionRules, ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic.model import GROUP_TAG
from ugm.model import QuotaModel

laws: Final = settings(max_examples=examples(40))

LIMITS: Final = "{users: ['*'], maxresources: {gpu: 30, cpu: 40}}"
QUEUES: Final = "{name: a, resources: {max: {cpu: 25, memory: 12}}}, {name: b}"
LEAF_TAG: Final = "leaf"
NAMES: Final = ("cpu", "gpu", "memory")


class Bundle(Licences):
    """A model that reports nothing: cpu and gpu together are limited."""

    resource: str | None = None

    @staticmethod
    def amount(claim: Claim) -> int:
        """Return the sum of both."""
        return claim.usage.get("cpu", 0) + claim.usage.get("gpu", 0)


class Scene(NamedTuple):
    """A partition with three models, and the ids of its applications."""

    partition: Partition
    elastic: ElasticModel
    applications: tuple[str, ...]


def elastic_model(total: Resource, groups: list[ElasticGroup], *, check_parents: bool) -> ElasticModel:
    """Return an elastic quota as a model."""
    return ElasticModel(ElasticQuota(ElasticTree(total, groups), rules=AdmissionRules(check_parents=check_parents)))


def leaves_of(document: dict[str, Any]) -> list[str]:
    """Return the nodes without children."""
    nodes = document["spec"]["nodes"]
    return sorted(nodes.keys() - {node["parent"] for node in nodes.values()})


usages: Final = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6)).map(Resource)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Draw a partition with some allocations, some of them adopted above the limits or pending."""
    groups, document = draw(trees()), draw(documents())
    total = Resource({name: draw(st.integers(0, 60)) for name in ("cpu", "gpu")})
    elastic = elastic_model(total, groups, check_parents=draw(st.booleans()))
    models: list[QuotaModel] = [
        elastic,
        tree_model(document, lambda claim: claim.tags[LEAF_TAG]),
        Bundle(draw(st.integers(0, 40))),
    ]
    # The nodes may offer less than the limits name.
    nodes = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 30)).map(Resource)
    cluster = draw(st.none() | nodes)
    partition = Partition(config(QUEUES, limits=LIMITS), models=draw(st.permutations(models)), cluster=cluster)
    applications = tuple(f"app-{number}" for number in range(draw(st.integers(1, 4))))
    for application_id in applications:
        tags = {GROUP_TAG: draw(st.sampled_from(groups)).name, LEAF_TAG: draw(st.sampled_from(leaves_of(document)))}
        assert partition.submit(application_id, SUE, draw(st.sampled_from(["root.a", "root.b"])), tags=tags)
    for number in range(draw(st.integers(0, 10))):
        call = draw(st.sampled_from([partition.allocate, partition.allocate, partition.adopt, partition.request]))
        call(f"{number}", draw(st.sampled_from(applications)), draw(usages))
    return Scene(partition, elastic, applications)


@laws
@given(scenes(), st.data())
def test_one_unit_above_the_headroom_is_denied(scene: Scene, data: st.DataObject) -> None:
    """All of the headroom with one unit more of any resource is denied."""
    partition, application_id = scene.partition, data.draw(st.sampled_from(scene.applications))
    headroom = partition.headroom(application_id)
    assert headroom is not None

    for name in headroom:
        more = {other: max(amount, 0) for other, amount in headroom.items()}
        more[name] += 1
        requested = Resource({other: amount for other, amount in more.items() if amount})
        assert not partition.check(application_id, requested).allowed, name


@laws
@given(scenes(), st.data())
def test_a_headroom_of_a_group_is_its_own_quota_and_what_it_borrows(scene: Scene, data: st.DataObject) -> None:
    """The free amount of an elastic group is the free part of its own quota plus the borrowable amount."""
    partition, application_id = scene.partition, data.draw(st.sampled_from(scene.applications))
    limits = [one for one in partition.limits(application_id) if one.kind == "elastic group"]
    assume(limits)
    limit = limits[0]
    for name, most in (limit.max_resources or {}).items():
        own = most if limit.guaranteed is None else limit.guaranteed[name]
        used = limit.usage[name]
        assert own <= most
        assert max(most - used, 0) == max(own - used, 0) + limit.borrowable.get(name, 0)


@laws
@given(scenes(), st.integers(1, 8))
def test_a_plan_names_what_is_exceeded_after_it(scene: Scene, most: int) -> None:
    """The exceeded limits of a plan are those of the partition after it is applied, also of the models."""
    partition = scene.partition
    plan = partition.plan(config(f"{{name: a, resources: {{max: {{cpu: {most}}}}}}}, {{name: b}}", limits=LIMITS))
    partition.apply(plan, confirm=True)

    assert plan.exceeded == partition.exceeded_limits()


@laws
@given(scenes())
def test_models_agree_with_the_ledger(scene: Scene) -> None:
    """All models are verified, and the utilization has every exceeded limit with a share above 1."""
    partition = scene.partition
    partition.verify()

    shares = {(found.limit.kind, found.name): found.share for found in partition.model_utilization() if found.limit}
    kinds = {"elastic group", "quota node"}
    assert all(shares[one.kind, one.name] > 1 for one in partition.exceeded_limits() if one.kind in kinds)
    assert [report.is_suspended for report in partition.model_reports()] == [False] * 3


@laws
@given(scenes())
def test_reports_are_states_of_one_moment(scene: Scene) -> None:
    """The reports have the state of each model, and the same at a client of a service."""
    partition = scene.partition
    reports = partition.model_reports()
    states = [report.state for report in reports]

    assert scene.elastic.state() in states
    assert remote(partition).model_reports() == reports
    assert json.loads(json.dumps(states)) == states
    for state in states:
        for node in (node for tree in state.get("trees", ()) for node in tree["nodes"]):
            borrowing = [one["request"] for one in node["consumers"] if one["group"] != node["name"]]
            lent = {name: sum(request.get(name, 0) for request in borrowing) for name in node["lent"]}
            assert node["lent"] == lent

"""Reclaiming: the outcomes of plans, their texts, and plans that have become stale."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from support.partition_fixtures import SUE, Licences, config
from support.reclaim_scenes import QUEUES, Held, lending_models, lending_partition, submit_groups
from support.server_fixtures import PREFIX, client
from ugm import Partition, RequestError, Resource, UserInQueue, parse_config
from ugm.budgets import Budget, Budgets
from ugm.elastic.model import GROUP_TAG
from ugm.partition import Protection, ReclaimOutcome, ReclaimPlan
from ugm.store import open_partition

KINDS = pytest.mark.parametrize("kinds", ["elastic", "tree", "elastic tree"])

GUARANTEED = {"a": 4, "b": 6}
TWO = Resource(gpu=2)
THREE = Resource(gpu=3)


def lent(kinds: str = "elastic", *held: Held) -> Partition:
    """Return a partition of 10 whose group b holds everything, in allocations of 2."""
    return lending_partition(kinds, GUARANTEED, 10, held or [Held("b", 2)] * 5)


@KINDS
def test_a_group_returns_what_it_borrows(kinds: str) -> None:
    """A request within the guarantee of its group gets as many allocations of the borrower as it needs."""
    partition = lent(kinds)
    plan = partition.plan_reclaim("a", THREE)

    assert (plan.outcome, plan.allocation_ids, bool(plan)) == (ReclaimOutcome.PLAN, ("b-0", "b-1"), True)
    assert partition.reclaim(plan) == ("b-0", "b-1")
    assert partition.allocate("a-0", "a", THREE)
    assert partition.plan_reclaim("a", Resource(gpu=1)).outcome is ReclaimOutcome.FITS
    partition.verify()


@KINDS
def test_a_request_names_only_some_of_the_resources(kinds: str) -> None:
    """The groups limit a resource that the request does not name."""
    groups = "".join(f"{{name: {one}, min: {{cpu: 4, gpu: 4}}, max: {{cpu: 8, gpu: 8}}}}," for one in "ab")
    nodes = "".join(f'{one}: {{parent: top, hard: "false", quota: {{cpu: "4", gpu: "4"}}}},' for one in "ab")
    top = 'top: {parent: nil, hard: "true", quota: {cpu: "8", gpu: "8"}}'
    spec = f"{{resourceNames: [cpu, gpu], nodes: {{{top}, {nodes}}}}}"
    tree = f"{{kind: QuotaTree, metadata: {{name: tree}}, spec: {spec}}}"
    by = "groupby: [{source: queue}]"
    declared = {
        "elastic": f"elastic: {{total: {{cpu: 8, gpu: 8}}, {by}, groups: [{groups}]}}",
        "tree": f"quotatrees: [{{tree: {tree}, {by}}}]",
    }
    extensions = ", ".join(declared[kind] for kind in kinds.split())
    text = f"partitions: [{{queues: [{{name: a}}, {{name: b}}], ugm: {{{extensions}}}}}]"
    partition = Partition(parse_config(text).partition())
    submit_groups(partition, "ab")
    for number in range(4):
        assert partition.allocate(f"a-{number}", "a", TWO)

    assert partition.plan_reclaim("b", TWO).allocation_ids == ("a-0",)


@KINDS
def test_the_promised_duration_counts_for_budgets(kinds: str) -> None:
    """A budget denies a request without a duration, or with one that is too long; other requests get victims."""
    budget = Budgets([Budget("a", queue="root.a", amounts=Resource(gpu=3 * 3600))])
    models = [*lending_models(kinds, GUARANTEED, 10), budget]
    partition = Partition(config(QUEUES), cluster=Resource(gpu=10), models=models, clock=lambda: 0)
    submit_groups(partition, GUARANTEED)
    for number in range(5):
        partition.adopt(f"b-{number}", "b", TWO)

    assert partition.plan_reclaim("a", THREE).outcome is ReclaimOutcome.NEVER
    assert partition.plan_reclaim("a", THREE, duration=3601).outcome is ReclaimOutcome.NEVER
    plan = partition.plan_reclaim("a", THREE, duration=3600)
    assert (plan.duration, plan.allocation_ids) == (3600, ("b-0", "b-1"))
    assert partition.reclaim(plan) == ("b-0", "b-1")
    assert partition.allocate("a-0", "a", THREE, duration=3600)
    partition.verify()


@KINDS
def test_priority_only_orders_the_victims(kinds: str) -> None:
    """A group with higher priorities returns what it borrows as well, its least important allocations first."""
    partition = lent(kinds, *(Held("b", 2, priority) for priority in (9, 5, 7, 5, 9)))

    assert partition.plan_reclaim("a", THREE, priority=-1).allocation_ids == ("b-1", "b-3")


@KINDS
def test_nothing_beyond_the_guarantee(kinds: str) -> None:
    """A request above the guarantee of its group gets nothing, and neither does one that would break another one."""
    plan = lent(kinds).plan_reclaim("a", Resource(gpu=5))
    assert (plan.outcome, plan.victims) == (ReclaimOutcome.NONE, ())
    assert [(one.reason, one.number) for one in plan.protected] == [(Protection.NOT_ENTITLED, 5)]

    plan = lent(kinds, Held("b", 5), Held("b", 5)).plan_reclaim("a", THREE)
    assert (plan.outcome, plan.victims) == (ReclaimOutcome.NONE, ())
    assert [(one.reason, one.number) for one in plan.protected] == [(Protection.GUARANTEE, 2)]


@KINDS
def test_protected_allocations(kinds: str) -> None:
    """An allocation that is not preemptible is never a victim."""
    plan = lent(kinds, *(Held("b", 2, preemptible=number > 2) for number in range(5))).plan_reclaim("a", THREE)

    assert plan.allocation_ids == ("b-3", "b-4")
    assert [(one.reason, one.number) for one in plan.protected] == [(Protection.NOT_PREEMPTIBLE, 3)]


@KINDS
def test_terminating_allocations_count_as_released(kinds: str) -> None:
    """A plan that is being carried out is not planned again."""
    partition = lent(kinds)
    partition.preempt("b-4")
    assert partition.plan_reclaim("a", THREE).allocation_ids == ("b-0",)
    partition.preempt("b-0")

    assert partition.plan_reclaim("a", THREE).outcome is ReclaimOutcome.AWAITS_TERMINATING


def test_requests_that_no_eviction_helps() -> None:
    """A request above a maximum can never fit, and a limit of the user blocks it."""
    assert lent().plan_reclaim("a", Resource(gpu=11)).outcome is ReclaimOutcome.NEVER

    models = lending_models("elastic", GUARANTEED, 10)
    limits = "{users: [sue], maxresources: {gpu: 3}}"
    partition = Partition(config(QUEUES, limits=limits), models=models)
    submit_groups(partition, GUARANTEED)
    partition.adopt("b-0", "b", THREE)
    plan = partition.plan_reclaim("a", THREE)
    assert (plan.outcome, plan.missing[0].name) == (ReclaimOutcome.BLOCKED, "sue")


def test_no_model_lends() -> None:
    """Without a model that lends, and with one that has only three methods, there are no victims."""
    partition = Partition(config(QUEUES), cluster=Resource(gpu=1, licence=1), models=[Licences(1)])
    partition.submit("app", SUE, "root.a")
    partition.adopt("one", "app", Resource(gpu=1))

    assert partition.plan_reclaim("app", Resource(gpu=1)).outcome is ReclaimOutcome.NONE


def test_victims_must_satisfy_models_that_do_not_lend() -> None:
    """Models with three methods are asked with the victims refunded, and are as before afterwards."""
    licences = Licences(5)
    models = [*lending_models("elastic", GUARANTEED, 10), licences]
    partition = Partition(config(QUEUES), models=models)
    submit_groups(partition, GUARANTEED)
    for number in range(5):
        partition.adopt(f"b-{number}", "b", Resource(gpu=2, licence=1))
    used = licences.used
    plan = partition.plan_reclaim("a", Resource(gpu=1, licence=1))

    assert (plan.allocation_ids, licences.used) == (("b-0",), used)


def test_groups_that_overuse_the_cluster_return_it() -> None:
    """If only the elastic groups know the size of the cluster, the borrower has to return its part as well."""
    partition = Partition(config(QUEUES), models=lending_models("elastic", GUARANTEED, 10))
    submit_groups(partition, GUARANTEED)
    for number in range(5):
        assert partition.allocate(f"b-{number}", "b", TWO)
    assert partition.check("a", TWO)

    assert partition.plan_reclaim("a", TWO).allocation_ids == ("b-0",)


def declared_groups(groups: str, rules: str = "total: {gpu: 6}") -> Partition:
    """Return a partition with two queues whose applications belong to the elastic groups of the same names."""
    elastic = f"{{groupby: [{{source: queue}}], groups: [{groups}], {rules}}}"
    text = f"partitions: [{{queues: [{{name: a}}, {{name: b}}], ugm: {{elastic: {elastic}}}}}]"
    partition = Partition(parse_config(text).partition())
    submit_groups(partition, "ab")
    return partition


OPEN_B = "{name: b, max: {gpu: 10}}"


def test_a_request_above_the_total_needs_the_usage_of_the_others() -> None:
    """A minimum that is not scaled may exceed the total; the other groups then return all that they borrow."""
    partition = declared_groups(
        f"{{name: a, min: {{gpu: 8}}, max: {{gpu: 10}}}}, {OPEN_B}", "total: {gpu: 6}, scalemin: false"
    )
    for number in range(3):
        assert partition.allocate(f"b-{number}", "b", Resource(gpu=1))
    plan = partition.plan_reclaim("a", Resource(gpu=7))

    assert plan.allocation_ids == ("b-0", "b-1", "b-2")
    assert [one.shortfall for one in plan.missing] == [3]
    partition.reclaim(plan)
    assert partition.plan_reclaim("a", Resource(gpu=7)).outcome is ReclaimOutcome.FITS


def test_groups_that_use_more_than_the_total_return_it() -> None:
    """If the other groups exceed the total already, they return that as well, or there are no victims."""
    for firm, outcome in ((0, ReclaimOutcome.PLAN), (3, ReclaimOutcome.NONE)):
        partition = declared_groups(f"{{name: a, min: {{gpu: 2}}, max: {{gpu: 10}}}}, {OPEN_B}")
        for number in range(4):
            partition.adopt(f"b-{number}", "b", TWO, preemptible=number >= firm)
        assert partition.check("a", TWO)
        plan = partition.plan_reclaim("a", TWO)

        assert (plan.outcome, len(plan.victims)) == (outcome, 0 if firm else 2)


def test_only_resources_that_the_group_counts_need_victims() -> None:
    """A full resource that the maximum of the group does not name is not taken from other groups."""
    both = "{gpu: 10, memory: 6}"
    partition = declared_groups(
        f"{{name: a, min: {{gpu: 6}}, max: {{gpu: 10}}}}, {{name: b, min: {{gpu: 4}}, max: {both}}}", f"total: {both}"
    )
    assert partition.allocate("memory", "b", Resource(memory=6))
    assert partition.plan_reclaim("a", Resource(gpu=3, memory=7)).outcome is ReclaimOutcome.FITS
    for number in range(10):
        assert partition.allocate(f"b-{number}", "b", Resource(gpu=1))

    assert partition.plan_reclaim("a", Resource(gpu=3, memory=7)).allocation_ids == ("b-0", "b-1", "b-2")


def test_a_user_in_a_queue() -> None:
    """A user without an application asks as well."""
    plan = lent().plan_reclaim(UserInQueue(SUE, "root.a", {GROUP_TAG: "a"}), TWO)

    assert plan.allocation_ids == ("b-0",)
    assert str(plan).startswith("the request of 'sue' in root.a would fit without 'b-0'\n")


def test_text() -> None:
    """The text says what is missing, who is guaranteed what, and why other allocations are not taken."""
    assert str(lent("tree").plan_reclaim("a", THREE)) == (
        "the request of 'a' would fit without 'b-0', 'b-1'\n"
        "  queue root: 3 gpu requested, 10 of 10 used, 3 too much\n"
        "  quota node 'top' of tree 'tree': 3 gpu requested, 10 of 10 used, 3 too much\n"
        "  quota node 'a' would use 3 gpu of 4 gpu guaranteed: within its guarantee\n"
        "  evict 'b-0' of 'sue' in root.b (gpu 2): quota node 'b' would use 6 gpu, and is guaranteed 6 gpu\n"
        "  evict 'b-1' of 'sue' in root.b (gpu 2): quota node 'b' would use 6 gpu, and is guaranteed 6 gpu\n"
        "  not taken: 3 of quota node 'b' (not needed)"
    )


def test_a_plan_is_a_frozen_value() -> None:
    """A plan can be pickled and sent as JSON, and cannot be changed."""
    plan = lent().plan_reclaim("a", THREE)

    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301 - of this process
    assert json.loads(json.dumps(plan.to_dict())) == plan.to_dict()
    with pytest.raises(FrozenInstanceError):
        plan.victims = ()  # type: ignore[misc]


# Stale plans


def stale(partition: Partition, plan: ReclaimPlan) -> str:
    """Return the reason why a plan is refused, and make sure that nothing has changed."""
    before = partition.allocations()
    with pytest.raises(RequestError) as caught:
        partition.reclaim(plan)
    assert partition.allocations() == before
    return caught.value.reason


def test_a_plan_that_is_not_needed_any_more_is_refused() -> None:
    """If the request fits, or would fit with fewer evictions, nobody is evicted."""
    partition = lent("tree", *[Held("b", 1)] * 10)
    plan = partition.plan_reclaim("a", THREE)
    partition.release("b-9")
    assert stale(partition, plan) == "the plan is stale: the eviction of 'b-2' is no longer needed"
    partition.release("b-8")
    partition.release("b-7")

    assert stale(partition, plan).endswith("the request fits without evicting the remaining victims")


def test_a_plan_that_is_not_allowed_any_more_is_refused() -> None:
    """If the group of the request, or that of a victim, uses another amount, the rules are applied again."""
    partition = lent()
    plan = partition.plan_reclaim("a", THREE)
    partition.resize("b-4", Resource(gpu=1))
    partition.adopt("a-0", "a", Resource(gpu=1))
    partition.adopt("a-1", "a", Resource(gpu=1))

    assert stale(partition, plan).endswith(
        "do not suffice: 2 of elastic group 'b' (the request is not within its guarantee)"
    )


def test_a_plan_with_changed_victims_is_refused() -> None:
    """An allocation of the same id with another size is not the victim."""
    partition = lent()
    plan = partition.plan_reclaim("a", THREE)
    partition.resize("b-1", Resource(gpu=1))
    assert stale(partition, plan).endswith("allocation 'b-1' has changed")
    partition.remove("a")
    partition.resize("b-1", TWO)

    assert "there is no such application" in stale(partition, plan)


def test_withdrawn_victims_are_left_alone() -> None:
    """After a plan was carried out, a victim that waits again is not withdrawn by a repeated call."""
    partition = lent()
    plan = partition.plan_reclaim("a", THREE)
    partition.reclaim(plan)
    partition.request("b-0", "b", TWO)

    assert partition.reclaim(plan) == ()
    assert partition.allocation("b-0") is not None


def test_foreign_victims_are_refused() -> None:
    """A plan that was changed by hand evicts nothing that the rules protect."""
    partition = lent("elastic", *[Held("b", 2)] * 4, Held("a", 2))
    plan = partition.plan_reclaim("a", TWO)
    assert plan.allocation_ids == ("b-0",)
    victim = plan.victims[0]._replace(allocation_id="a-0", application_id="a", queue_path="root.a")
    forged = replace(plan, victims=(victim,))

    assert stale(partition, forged).endswith("allocation 'a-0' no longer belongs to another group")
    with pytest.raises(RequestError, match="expected a ReclaimPlan"):
        partition.reclaim("b-0")  # type: ignore[arg-type]


# Everywhere


def test_with_a_store(tmp_path: Path) -> None:
    """Reclaimed allocations are gone after a restart, and the same plan is made before and after it."""
    file = tmp_path / "quota.db"
    models = lending_models("tree", GUARANTEED, 10)
    with open_partition(file, config(QUEUES), models=models, cluster=Resource(gpu=10)) as partition:
        submit_groups(partition, GUARANTEED)
        for number in range(5):
            partition.allocate(f"b-{number}", "b", TWO)
        plan = partition.plan_reclaim("a", THREE)
    with open_partition(file, models=lending_models("tree", GUARANTEED, 10)) as partition:
        assert partition.plan_reclaim("a", THREE) == plan
        assert partition.reclaim(plan) == ("b-0", "b-1")
    with open_partition(file, models=lending_models("tree", GUARANTEED, 10)) as partition:
        assert partition.allocation_ids() == ("b-2", "b-3", "b-4")


def test_over_rest() -> None:
    """A plan has the same contents over REST, for an application and for a user in a queue."""
    partition = lent()
    expected = partition.plan_reclaim("a", THREE)
    answer = client(partition).post(f"{PREFIX}/plan_reclaim", json={"application_id": "a", "usage": {"gpu": 3}})
    assert answer.json() == {**expected.to_dict(), "text": str(expected)}
    body = {"user": "sue", "queue": "root.a", "tags": {GROUP_TAG: "a"}, "usage": {"gpu": 3}, "priority": 5}

    assert client(partition).post(f"{PREFIX}/plan_reclaim", json=body).json()["victims"] == answer.json()["victims"]
    unknown = client(partition).post(f"{PREFIX}/plan_reclaim", json={"application_id": "x", "usage": {}})
    assert unknown.status_code == 404

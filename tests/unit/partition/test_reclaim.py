"""Reclaiming: the outcomes of plans, their texts, and plans that have become stale."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.partition_fixtures import OneNode, config, objection
from support.reclaim_scenes import QUEUES, Held, lending_models, lending_partition, submit_groups
from support.server_fixtures import PREFIX, client
from ugm import Partition, RequestError, Resource
from ugm.budgets import Budget, Budgets
from ugm.elastic.model import GROUP_TAG
from ugm.preemption import Outcome

KINDS = pytest.mark.parametrize("kinds", ["elastic", "tree", "elastic tree"])

GUARANTEED = {"a": 4, "b": 6}
TWO = Resource(gpu=2)
THREE = Resource(gpu=3)


def lent(kinds: str = "elastic", *held: Held) -> Partition:
    """Return a partition of 10 whose group b holds everything, in allocations of 2."""
    return lending_partition(kinds, GUARANTEED, 10, held or [Held("b", 2)] * 5)


@KINDS
def test_the_promised_duration_counts_for_budgets(kinds: str) -> None:
    """A budget denies a request without a duration, or with one that is too long; other requests get victims."""
    budget = Budgets([Budget("a", queue="root.a", amounts=Resource(gpu=3 * 3600))])
    models = [*lending_models(kinds, GUARANTEED, 10), budget]
    partition = Partition(config(QUEUES), cluster=Resource(gpu=10), models=models, clock=lambda: 0)
    submit_groups(partition, GUARANTEED)
    for number in range(5):
        partition.adopt(f"b-{number}", "b", TWO)

    assert partition.plan_reclaim("a", THREE).outcome is Outcome.NEVER
    assert partition.plan_reclaim("a", THREE, duration=3601).outcome is Outcome.NEVER
    plan = partition.plan_reclaim("a", THREE, duration=3600)
    assert (plan.request.duration, plan.allocation_ids) == (3600, ("b-0", "b-1"))
    assert partition.reclaim(plan) == ("b-0", "b-1")
    assert partition.allocate("a-0", "a", THREE, duration=3600)
    partition.verify()


@KINDS
def test_nodes_that_a_model_does_not_allow(kinds: str) -> None:
    """A plan evicts nothing on a node where another quota model would still deny the request."""
    models = [*lending_models(kinds, GUARANTEED, 10), OneNode()]
    partition = Partition(config(QUEUES), cluster=Resource(gpu=10), models=models)
    submit_groups(partition, GUARANTEED)
    partition.adopt("a-0", "a", Resource(gpu=1), node="n1")
    for number, node in enumerate(("n2", "n2", "n1", "n1")):
        partition.adopt(f"b-{number}", "b", TWO, node=node)
    free = Resource(gpu=0)

    assert partition.plan_reclaim("a", TWO, nodes={"n2": free}).outcome is Outcome.NONE
    plan = partition.plan_reclaim("a", TWO, nodes={"n1": free, "n2": free})
    assert (plan.node, plan.allocation_ids) == ("n1", ("b-2",))


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


# Stale plans


def test_a_plan_that_is_not_needed_any_more_is_refused() -> None:
    """If the request fits, or would fit with fewer evictions, nobody is evicted."""
    partition = lent("tree", *[Held("b", 1)] * 10)
    plan = partition.plan_reclaim("a", THREE)
    partition.release("b-9")
    assert objection(partition, plan) == "the eviction of 'b-2' is no longer needed"
    partition.release("b-8")
    partition.release("b-7")

    assert objection(partition, plan).endswith("fits")


def test_a_plan_that_is_not_allowed_any_more_is_refused() -> None:
    """If the group of the request, or that of a victim, uses another amount, the rules are applied again."""
    partition = lent()
    plan = partition.plan_reclaim("a", THREE)
    partition.resize("b-4", Resource(gpu=1))
    partition.adopt("a-0", "a", Resource(gpu=1))
    partition.adopt("a-1", "a", Resource(gpu=1))

    assert objection(partition, plan).endswith("not taken: 2 of elastic group 'b' (not entitled)")


def test_a_plan_with_changed_victims_is_refused() -> None:
    """An allocation of the same id with another size is not the victim."""
    partition = lent()
    plan = partition.plan_reclaim("a", THREE)
    partition.resize("b-1", Resource(gpu=1))
    assert objection(partition, plan).endswith("allocation 'b-1' has changed")
    partition.remove("a")
    partition.resize("b-1", TWO)

    assert "there is no such application" in objection(partition, plan)


def test_a_victim_that_waits_again_is_not_running() -> None:
    """Nothing is evicted if all victims have ended, even if requests with their ids are waiting."""
    partition = lent()
    plan = partition.plan_reclaim("a", THREE)
    for name in plan.allocation_ids:
        partition.release(name)
        assert partition.request(name, "b", TWO)

    assert partition.reclaim(plan) == ()


def test_foreign_victims_are_refused() -> None:
    """A plan that was changed by hand evicts nothing that the rules protect."""
    partition = lent("elastic", *[Held("b", 2)] * 4, Held("a", 2))
    plan = partition.plan_reclaim("a", TWO)
    assert plan.allocation_ids == ("b-0",)
    victim = plan.victims[0]._replace(allocation_id="a-0", application_id="a", queue_path="root.a")
    forged = replace(plan, victims=(victim,))

    assert "no permitted set of evictions" in objection(partition, forged)
    with pytest.raises(RequestError, match="expected a ReclaimPlan"):
        partition.reclaim("b-0")  # type: ignore[arg-type]


# Everywhere


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

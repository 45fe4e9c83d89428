"""Eviction: revoking from a group above its runtime, and preemption within a group."""

from __future__ import annotations

import pytest

from ugm import RequestError, Resource
from ugm.elastic import DEFAULT_GROUP, ElasticGroup, ElasticPreemptionPlan, ElasticQuota, ElasticTree, Pod

HUNDRED = Resource(cpu=100, memory=100)


def quota(*pods: Pod, most: Resource = HUNDRED, total: Resource = HUNDRED) -> ElasticQuota:
    """Return a quota with two groups without minimums, and running pods."""
    groups = [ElasticGroup(name, max=most) for name in ("a", "b")]
    made = ElasticQuota(ElasticTree(total, groups))
    for pod in pods:
        made.adopt(pod)
    return made


def pod(name: str, cpu: int = 10, memory: int = 0, priority: int = 0, started: int | None = 0) -> Pod:
    """Return a pod of the group ``a``."""
    return Pod(name, Resource(cpu=cpu, memory=memory).without_zeros(), "a", priority=priority, started=started)


def firm(name: str, cpu: int) -> Pod:
    """Return a non-preemptible pod."""
    return pod(name, cpu)._replace(preemptible=False)


def test_carried_out() -> None:
    """A plan that is carried out leaves the group within its runtime; an outdated one is refused as a whole."""
    one = quota(*(pod(f"p-{number}") for number in range(6)))
    one.tree.set_total(Resource(cpu=25))
    plan = one.plan_revoke("a")
    assert [str(each) for each in one.over_used()] == ["elastic group 'a': 60 of 25 cpu used, 35 too much"]

    one.carry_out(plan)
    assert one.over_used() == ()
    assert one.tree.used("a") == Resource(cpu=20)
    with pytest.raises(RequestError, match="there is no such pod"):
        one.carry_out(plan)


def full(*pods: Pod) -> ElasticQuota:
    """Return a quota in which ``a`` gets 40 ``cpu`` and no more."""
    return quota(*pods, most=Resource(cpu=40))


def test_preemption_takes_the_least_important() -> None:
    """Preemption evicts as few candidates as possible, the least important ones."""
    one = full(pod("low", 20, priority=1), pod("middle", 20, priority=2))

    assert one.plan_preemption(pod("urgent", 10, priority=9)) == ElasticPreemptionPlan("urgent", "a", ("low",), ())
    assert one.plan_preemption(pod("urgent", 30, priority=9)).victims == ("low", "middle")
    assert one.tree.used("a") == Resource(cpu=40)


def test_nobody_of_equal_priority_gives_way() -> None:
    """Only preemptible pods of lower priority are evicted."""
    one = full(pod("equal", 20, priority=9), firm("firm", 20))
    plan = one.plan_preemption(pod("urgent", 10, priority=9))

    assert not plan
    assert [str(each) for each in plan.violations] == [
        "elastic group 'a': 10 cpu requested, 40 of 40 used, 10 too much"
    ]


def test_default_group_on_request() -> None:
    """Pods of the default group are not evicted for each other unless this is enabled."""
    for allowed, victims in ((False, ()), (True, ("x",))):
        tree = ElasticTree(HUNDRED, [ElasticGroup(DEFAULT_GROUP, max=Resource(cpu=10))])
        one = ElasticQuota(tree, preempt_in_default=allowed)
        one.adopt(Pod("x", Resource(cpu=10)))

        assert one.plan_preemption(Pod("urgent", Resource(cpu=5), priority=1)).victims == victims

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


def shrink(one: ElasticQuota, cpu: int = 100, memory: int = 100) -> tuple[str, ...]:
    """Return the victims in ``a`` for a given total."""
    one.tree.set_total(Resource(cpu=cpu, memory=memory))
    return one.plan_revoke("a").victims


def test_firm_pods_stay() -> None:
    """Non-preemptible pods are not evicted; the plan has the usage that remains above the runtime."""
    one = quota(firm("firm", 50), pod("x"))
    one.tree.set_total(Resource(cpu=20, memory=100))
    plan = one.plan_revoke("a")

    assert plan.victims == ("x",)
    assert (plan.excess, plan.remaining) == (Resource(cpu=40), Resource(cpu=30))


def test_important_pods_that_fit_stay() -> None:
    """A pod that fits after all is kept: a small pod of low priority stays if a large one must go."""
    assert shrink(quota(pod("small", 5, priority=1), pod("large", 30, priority=2)), cpu=10) == ("large",)


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


def test_default_group_is_watched_by_its_maximum() -> None:
    """The default group is over when it uses more than its maximum, and is revoked like others."""
    one = ElasticQuota(ElasticTree(HUNDRED, [ElasticGroup(DEFAULT_GROUP, max=Resource(cpu=15))]))
    one.adopt(Pod("x", Resource(cpu=10)))
    one.adopt(Pod("y", Resource(cpu=10)))

    assert [each.name for each in one.over_used()] == [DEFAULT_GROUP]
    assert one.plan_revoke(DEFAULT_GROUP).victims == ("x",)


def full(*pods: Pod) -> ElasticQuota:
    """Return a quota in which ``a`` gets 40 ``cpu`` and no more."""
    return quota(*pods, most=Resource(cpu=40))


def test_preemption_takes_the_least_important() -> None:
    """Preemption evicts as few candidates as possible, the least important ones."""
    one = full(pod("low", 20, priority=1), pod("middle", 20, priority=2))

    assert one.plan_preemption(pod("urgent", 10, priority=9)) == ElasticPreemptionPlan("urgent", "a", ("low",), ())
    assert one.plan_preemption(pod("urgent", 30, priority=9)).victims == ("low", "middle")
    assert one.tree.used("a") == Resource(cpu=40)


def test_default_group_on_request() -> None:
    """Pods of the default group are not evicted for each other unless this is enabled."""
    for allowed, victims in ((False, ()), (True, ("x",))):
        tree = ElasticTree(HUNDRED, [ElasticGroup(DEFAULT_GROUP, max=Resource(cpu=10))])
        one = ElasticQuota(tree, preempt_in_default=allowed)
        one.adopt(Pod("x", Resource(cpu=10)))

        assert one.plan_preemption(Pod("urgent", Resource(cpu=5), priority=1)).victims == victims

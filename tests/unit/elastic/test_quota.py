"""Pods: their groups, their counts, their admission and their eviction."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from support.elastic_fixtures import group
from ugm import RequestError, Resource
from ugm.decision import EffectiveLimit
from ugm.elastic import (
    DEFAULT_GROUP,
    ROOT_GROUP,
    AdmissionRules,
    ElasticGroup,
    ElasticQuota,
    ElasticTree,
    Pod,
    RuntimeViolation,
    Sharer,
    share,
)
from ugm.errors import InvariantError

TEN = Resource(cpu=10)


def quota(*groups: ElasticGroup, total: int = 100, rules: AdmissionRules | None = None) -> ElasticQuota:
    """Return a quota of some groups in a cluster with ``cpu``."""
    return ElasticQuota(ElasticTree(Resource(cpu=total), groups), rules=rules or AdmissionRules())


@pytest.mark.parametrize(
    ("pod", "belongs"),
    [
        (Pod("p", TEN, "a", "ns"), "a"),
        (Pod("p", TEN, namespace="own"), "own"),
        (Pod("p", TEN, namespace="listed"), "a"),
        (Pod("p", TEN, namespace="b"), DEFAULT_GROUP),
        (Pod("p", TEN, "gone", "own"), DEFAULT_GROUP),
        (Pod("p", TEN), DEFAULT_GROUP),
    ],
)
def test_belonging(pod: Pod, belongs: str) -> None:
    """The label counts first, then the group of the namespace, then the group that lists it, then the default group."""
    groups = [replace(group("a"), namespaces=("own", "listed")), group("b"), replace(group("own"), namespace="own")]

    assert quota(*groups).group_of(pod) == belongs


def test_pods_follow_their_group() -> None:
    """Pods are in the default group until their group exists, and return when it no longer lists them."""
    one = quota()
    one.expect(Pod("named", TEN, "a"))
    one.adopt(Pod("listed", TEN, namespace="ns"))
    assert [pod.name for pod in one.pods_in(DEFAULT_GROUP)] == ["named", "listed"]

    one.create(replace(group("a"), namespaces=("ns",)))
    assert [pod.name for pod in one.pods_in("a")] == ["named", "listed"]
    assert (one.tree.request("a"), one.tree.used("a")) == (Resource(cpu=20), TEN)
    assert one.tree.request(DEFAULT_GROUP) == Resource()

    one.update(group("a"))
    assert [pod.name for pod in one.pods_in(DEFAULT_GROUP)] == ["listed"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.expect(Pod("p", TEN)), "pod 'p': there is already a pod of this name"),
        (
            lambda one: one.adopt(Pod("x", Resource(cpu=-1))),
            "pod.usage Resource(cpu=-1): the amount of cpu is negative",
        ),
        (lambda one: one.start("x"), "pod 'x': there is no such pod"),
        (lambda one: one.forget("x"), "pod 'x': there is no such pod"),
        (lambda one: one.admit("p"), "pod 'p': the pod runs already"),
    ],
)
def test_misuse(call: object, message: str) -> None:
    """Misuse is refused, and nothing has changed."""
    assert callable(call)
    one = quota()
    one.adopt(Pod("p", TEN))
    with pytest.raises(RequestError) as caught:
        call(one)

    assert str(caught.value) == message
    assert one.tree.request(ROOT_GROUP) == TEN


def test_started_and_stopped() -> None:
    """A pod counts as used from its admission until it is stopped, and requests its amounts until it is forgotten."""
    one, nothing = quota(group("a")), Resource()
    one.expect(Pod("p", TEN, "a"))
    for call, used in ((one.admit, TEN), (one.start, TEN), (one.stop, nothing), (one.stop, nothing)):
        call("p")
        assert (one.tree.used("a"), one.tree.request("a")) == (used, TEN)


def test_pods_that_never_fit_together() -> None:
    """Several pods are denied for good with their sum, even if each of them fits alone."""
    found = quota(group("a", most=15)).never([Pod(name, TEN, "a") for name in ("p", "q")])

    assert [(each.limit, each.used, each.requested) for each in found] == [(15, 0, 20)]


def test_limit_of_a_minimum() -> None:
    """The minimum limits non-preemptible pods, of the resources that the maximum names."""
    one = quota(ElasticGroup("a", "", Resource(cpu=2, gpu=1), Resource(cpu=10)))
    *_, least = one.limits(Pod("p", TEN, "a", preemptible=False))

    place, nothing = "elastic group 'a'", Resource(cpu=0)
    assert least == EffectiveLimit("elastic group minimum", "a", "", "", place, Resource(cpu=2), 0, nothing, 0)


def test_runtime_violation_is_a_value() -> None:
    """A runtime violation can be pickled, and can still wait."""
    violation = RuntimeViolation("elastic group", "a", "", "", "cpu", 5, 0, 9)

    twin = pickle.loads(pickle.dumps(violation))  # noqa: S301 - our own pickle
    assert (twin, type(twin), twin.can_wait) == (violation, RuntimeViolation, True)


def test_limits_of_a_query() -> None:
    """A group has its own quota and a borrowable part, and only resources of the group itself are limited above."""
    groups = [
        ElasticGroup("team", "", Resource(gpu=2), Resource(cpu=0, gpu=6)),
        ElasticGroup("lab", "team", Resource(gpu=1), Resource(gpu=9)),
        ElasticGroup("other", "", Resource(gpu=4), Resource(gpu=8)),
    ]
    quota = ElasticQuota(ElasticTree(Resource(gpu=8), groups), rules=AdmissionRules(check_parents=True))
    lab, team = quota.limits(Pod("?", Resource(), "lab"))

    assert (lab.name, lab.max_resources, lab.guaranteed) == ("lab", Resource(gpu=6), Resource(gpu=1))
    assert (team.name, team.max_resources, team.guaranteed) == ("team", Resource(gpu=6), Resource(gpu=2))
    assert (lab.borrowable, team.borrowable) == (Resource(gpu=5), Resource(gpu=4))
    assert (lab.max_applications, lab.running_applications, lab.usage) == (0, 0, Resource(gpu=0))
    assert quota.limits(Pod("?", Resource(), "lab", preemptible=False))[1].max_resources == Resource(gpu=1)
    quota.verify()
    quota.tree.change_request("lab", Resource(gpu=1))
    with pytest.raises(InvariantError, match=r"elastic group 'lab', gpu: counts {.*}, expected None"):
        quota.verify()


def test_guarantee_is_scaled_only_in_a_shortage() -> None:
    """Minimums above the total are scaled once the requests exceed the total, and not before."""
    groups = [ElasticGroup(name, "", Resource(gpu=6), Resource(gpu=8)) for name in ("lab", "web")]
    quota = ElasticQuota(ElasticTree(Resource(gpu=8), groups))
    (before,) = quota.limits(Pod("?", Resource(), "lab"))
    quota.expect(Pod("serve", Resource(gpu=8), "web"))
    (after,) = quota.limits(Pod("?", Resource(), "lab"))

    assert (before.max_resources, before.guaranteed) == (Resource(gpu=8), Resource(gpu=6))
    assert (after.max_resources, after.borrowable) == (Resource(gpu=4), Resource())
    sharers = [Sharer("lends", 20, 60, 5), Sharer("lab", 200, 60, 1), Sharer("web", 200, 20, 1)]
    assert share(100, sharers).runtime == {"lends": 20, "lab": 54, "web": 26}


HUNDRED = Resource(cpu=100, memory=100)


def running(*pods: Pod, most: Resource = HUNDRED, total: Resource = HUNDRED) -> ElasticQuota:
    """Return a quota with two groups without minimums, and running pods."""
    groups = [ElasticGroup(name, max=most) for name in ("a", "b")]
    made = ElasticQuota(ElasticTree(total, groups))
    for one in pods:
        made.adopt(one)
    return made


def pod_of_a(name: str, cpu: int = 10, memory: int = 0, priority: int = 0, started: int | None = 0) -> Pod:
    """Return a pod of the group ``a``."""
    return Pod(name, Resource(cpu=cpu, memory=memory).without_zeros(), "a", priority=priority, started=started)


def firm(name: str, cpu: int) -> Pod:
    """Return a non-preemptible pod."""
    return pod_of_a(name, cpu)._replace(preemptible=False)


def test_carried_out() -> None:
    """A plan that is carried out leaves the group within its runtime; an outdated one is refused as a whole."""
    one = running(*(pod_of_a(f"p-{number}") for number in range(6)))
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
    return running(*pods, most=Resource(cpu=40))


def test_nobody_of_equal_priority_gives_way() -> None:
    """Only preemptible pods of lower priority are evicted."""
    one = full(pod_of_a("equal", 20, priority=9), firm("firm", 20))
    plan = one.plan_preemption(pod_of_a("urgent", 10, priority=9))

    assert not plan
    assert plan[:2] == ("urgent", "a")
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

"""Pods: their groups, their counts and their admission."""

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


def test_the_nearest_group_comes_first() -> None:
    """Of the groups above that deny a pod, the nearest is named first, for every resource."""
    groups = [
        ElasticGroup("top", max=Resource(cpu=1, gpu=9), is_parent=True),
        ElasticGroup("mid", "top", max=Resource(cpu=9, gpu=1), is_parent=True),
        ElasticGroup("leaf", "mid", max=Resource(cpu=9, gpu=9)),
    ]
    rules = AdmissionRules(by_runtime=False, check_parents=True)
    one = ElasticQuota(ElasticTree(Resource(cpu=100, gpu=100), groups), rules=rules)
    decision = one.check(Pod("p", Resource(cpu=2, gpu=2), "leaf"))

    assert [(each.name, each.resource) for each in decision.violations] == [("mid", "gpu"), ("top", "cpu")]


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
    with pytest.raises(InvariantError, match=r"elastic group 'lab', gpu: counts .* expected None"):
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

"""Pods: their groups, their counts and their admission."""

from __future__ import annotations

import pytest

from support.elastic_fixtures import group
from ugm import RequestError, Resource
from ugm.elastic import DEFAULT_GROUP, ROOT_GROUP, AdmissionRules, ElasticGroup, ElasticQuota, ElasticTree, Pod

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
    groups = [group("a")._replace(namespaces=("own", "listed")), group("b"), group("own")._replace(namespace="own")]

    assert quota(*groups).group_of(pod) == belongs


def test_pods_follow_their_group() -> None:
    """Pods are in the default group until their group exists, and return when it no longer lists them."""
    one = quota()
    one.expect(Pod("named", TEN, "a"))
    one.adopt(Pod("listed", TEN, namespace="ns"))
    assert [pod.name for pod in one.pods_in(DEFAULT_GROUP)] == ["named", "listed"]

    one.create(group("a")._replace(namespaces=("ns",)))
    assert [pod.name for pod in one.pods_in("a")] == ["named", "listed"]
    assert (one.tree.request("a"), one.tree.used("a")) == (Resource(cpu=20), TEN)
    assert one.tree.request(DEFAULT_GROUP) == Resource()

    one.update(group("a"))
    assert [pod.name for pod in one.pods_in(DEFAULT_GROUP)] == ["listed"]


def test_life_of_a_pod() -> None:
    """A waiting pod counts as a request, a running one also as usage, and a forgotten one as neither."""
    one = quota(group("a"))
    one.expect(Pod("p", TEN, "a", preemptible=False))
    assert (one.tree.request("a"), one.tree.used("a"), one.is_running("p")) == (TEN, Resource(), False)

    one.start("p")
    one.start("p")
    assert (one.tree.used("a"), one.tree.non_preemptible_used("a"), one.is_running("p")) == (TEN, TEN, True)

    one.stop("p")
    one.stop("p")
    assert (one.tree.request("a"), one.tree.used("a")) == (TEN, Resource())

    one.forget("p")
    assert (one.tree.request("a"), one.tree.non_preemptible_request(ROOT_GROUP), one.has_pod("p")) == (
        Resource(),
        Resource(),
        False,
    )


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


def test_parents_unless_excluded() -> None:
    """The groups above are checked unless the rules exclude them."""
    groups = [group("p", most=50), group("a", "p"), group("b", "p")]
    pods = [Pod("p-1", Resource(cpu=45), "p"), Pod("a-1", Resource(cpu=10), "a")]
    for check_parents, fits in ((False, True), (True, False)):
        one = quota(*groups, rules=AdmissionRules(check_parents=check_parents))
        for pod in pods:
            one.adopt(pod)
            one.stop(pod.name)
        one.start("p-1")
        decision = one.check(pods[1])

        assert bool(decision) is fits
        assert [violation.name for violation in decision.violations] == [] if fits else ["p"]


def test_by_maximum() -> None:
    """Without borrowing, the maximum is the only limit of a group."""
    one = quota(group("a", most=50), rules=AdmissionRules(by_runtime=False), total=0)

    assert one.check(Pod("p", Resource(cpu=50), "a"))
    assert str(one.check(Pod("p", Resource(cpu=51), "a")).violations[0]) == (
        "elastic group 'a': 51 cpu requested, never more than 50 allowed"
    )


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
